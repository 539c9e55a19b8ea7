"""What a batch is to make, and the way it is to be made."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from napari_gsw.batch.images import Task
from napari_gsw.batch.selection import FORMATS, Item, Selection
from napari_gsw.core.errors import InputError
from napari_gsw.core.model import priors
from napari_gsw.core.pipeline.prepare import named_codebook
from napari_gsw.core.versions import own_version
from napari_gsw.files.results import Extras
from napari_gsw.methods.registry import METHODS, Choice

# Settings that are the path of a file, unless they are one of these words.
FILE_SETTINGS = {"codebook": ("auto", "shipped", "image"), "boundaries": ("shipped",)}


@dataclass(frozen=True)
class Order:
    """What a batch is to make.

    Attributes
    ----------
    folder, output : where the images are, and where the results go.
    choice : the method and its settings.
    seed : of every image: each is segmented as ``napari-gsw segment`` does it alone.
    selection : which images.
    format : of the labels: tif, png or zarr.
    extras : what is written beside them.
    """

    folder: Path
    output: Path
    choice: Choice
    seed: int = 0
    selection: Selection = field(default_factory=Selection)
    format: str = "tif"
    extras: Extras = field(default_factory=Extras)

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise InputError(f"format must be one of {', '.join(FORMATS)}, not {self.format!r}")
        if isinstance(self.seed, bool) or int(self.seed) != self.seed or self.seed < 0:
            raise InputError(f"seed must be a whole number >= 0, not {self.seed!r}")
        if METHODS[self.choice.method].samples:
            # What is wrong with every image is better said once, before the first.
            priors.from_settings(self.choice.settings)
            named_codebook(self.choice.settings)

    def task(self, item: Item) -> Task:
        """The job of one image, complete in itself: absolute paths, for a process that may live elsewhere."""
        folder = Path(os.path.abspath(self.output))
        named = {name: os.path.abspath(file) for name, file in self._named_files().items()}
        choice = replace(self.choice, settings=self.choice.settings.replace(**named)) if named else self.choice
        return Task(item.path, folder, item.place, self.format, choice, int(self.seed), self.extras, own_version())

    def files(self, item: Item) -> tuple[Path, ...]:
        """All that is read for an image: a result is made again when one of them has changed."""
        return item.path, *map(Path, self._named_files().values())

    def depends(self) -> dict[str, Any]:
        """All else that the results depend on, ready for JSON."""
        return {
            "settings": {"axes": self.choice.settings.axes, **self.choice.to_dict()},
            "seed": int(self.seed),
            "format": self.format,
            "extras": vars(self.extras),
        }

    def _named_files(self) -> dict[str, str]:
        """The settings that are the path of a file."""
        values = {name: getattr(self.choice.settings, name) for name in FILE_SETTINGS}
        return {name: value for name, value in values.items() if value not in FILE_SETTINGS[name]}


@dataclass(frozen=True)
class Way:
    """The way a batch is made; the labels do not depend on it.

    Attributes
    ----------
    jobs : processes at a time; 1 works in this one. On a cluster that is there already, its workers count instead.
    retries : how often an image is tried again that failed for a reason that may pass.
    resume : go on where an earlier run was: what it has made of the same images with the same settings is kept.
    overwrite : begin anew, whatever an earlier run has left.
    scheduler : address of a Dask scheduler (or the file that it has written), or ``local`` for a cluster of `jobs`
        processes on this machine; None for plain processes.
    dashboard : tell where the dashboard of the cluster is.
    quiet : no bar and no remarks; what is skipped is named all the same.
    """

    jobs: int = 1
    retries: int = 1
    resume: bool = False
    overwrite: bool = False
    scheduler: str | None = None
    dashboard: bool = False
    quiet: bool = False

    def __post_init__(self) -> None:
        if self.jobs < 1 or self.retries < 0:
            raise InputError(f"jobs must be >= 1 and retries >= 0, not {self.jobs!r} and {self.retries!r}")
        if self.resume and self.overwrite:
            raise InputError("--resume keeps what an earlier run has made and --overwrite does not; choose one of them")
