"""Specification of a batch and options of its run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from napari_gsw.batch.images import ImageTask
from napari_gsw.batch.jobs import JobOptions
from napari_gsw.batch.selection import LABEL_FORMATS, BatchImage, Selection
from napari_gsw.batch.teaching import ReferenceImage
from napari_gsw.core.errors import InputError
from napari_gsw.core.model import priors
from napari_gsw.core.pipeline.prepare import load_codebook
from napari_gsw.core.versions import package_version
from napari_gsw.files.maps import find_map_file
from napari_gsw.files.results import OutputOptions
from napari_gsw.methods import METHODS, Choice

# Stands for the name of an image, without its ending, in the name of a map's file.
STEM = "{stem}"
# Settings that may be the path of a file, and their values that are not.
FILE_SETTINGS = {"codebook": ("auto", "shipped", "image"), "boundary_model": ("shipped",)}


@dataclass(frozen=True)
class BatchSpec:
    """Images, method and outputs of a batch."""

    image_folder: Path
    choice: Choice  # method and settings
    seed: int = 0  # of every image
    selection: Selection = field(default_factory=Selection)
    format: str = "tif"  # of the labels: tif, png or zarr
    extras: OutputOptions = field(default_factory=OutputOptions)
    teachers: tuple[ReferenceImage, ...] = ()  # painted images, with which every image is segmented together
    maps: Mapping[str, str] = field(default_factory=dict)  # files by name, with {stem} for the name of an image

    def __post_init__(self) -> None:
        method = self.choice.method
        if self.format not in LABEL_FORMATS:
            raise InputError(f"format must be one of {', '.join(LABEL_FORMATS)}, not {self.format!r}")
        if isinstance(self.seed, bool) or int(self.seed) != self.seed or self.seed < 0:
            raise InputError(f"seed must be a whole number >= 0, not {self.seed!r}")
        if METHODS[method].needs_seeds:
            raise InputError(f"{method} needs seeds, and a batch has none; segment the images one by one")
        if METHODS[method].samples:  # refuse once what is wrong with every image
            priors.make_prior(self.choice.settings)
            load_codebook(self.choice.settings)
        if self.teachers and method != "gsw":
            raise InputError(f"{method} cannot be taught; painted images are for the method gsw")
        for name, pattern in self.maps.items():
            if name not in METHODS[method].arrays:
                raise InputError(f"{method} takes no {name}")
            if STEM not in pattern:
                raise InputError(f"{name} must name a file for each image, such as maps/{STEM}.tif, not {pattern!r}")
        if self.maps and self.teachers:
            raise InputError("maps are for one image at a time, not for images that are segmented with a painted one")
        for teacher in self.teachers:
            teacher.read(self.choice.settings.axes)

    def make_task(self, image: BatchImage, output: Path, overwrite: bool = False) -> ImageTask:
        """Make the task of one image, with absolute paths, for a process that may run elsewhere."""
        files = {name: os.path.abspath(file) for name, file in self._setting_files().items()}
        choice = replace(self.choice, settings=self.choice.settings.replace(**files)) if files else self.choice
        return ImageTask(
            image=image.path,
            output=Path(os.path.abspath(output)),
            stem=image.stem,
            format=self.format,
            choice=choice,
            seed=int(self.seed),
            extras=self.extras,
            version=package_version(),
            teachers=self.teachers,
            overwrite=overwrite,
            maps=tuple(self._map_files(image).items()),
        )

    def list_files(self, image: BatchImage) -> tuple[Path, ...]:
        """List the files that are read for an image; it is segmented again when one of them has changed."""
        painted = (file for teacher in self.teachers for file in teacher)
        maps = map(find_map_file, self._map_files(image).values())
        return image.path, *map(Path, self._setting_files().values()), *painted, *maps

    def depends_on(self) -> dict[str, Any]:
        """Return everything else that the results depend on, ready for JSON."""
        return {
            "folder": os.path.realpath(self.image_folder),  # images are named by their paths within it
            "settings": {"axes": self.choice.settings.axes, **self.choice.to_dict()},
            "seed": int(self.seed),
            "format": self.format,
            "extras": vars(self.extras),
            **({"maps": dict(self.maps)} if self.maps else {}),
            **({"teachers": [list(map(str, teacher)) for teacher in self.teachers]} if self.teachers else {}),
        }

    def _map_files(self, image: BatchImage) -> dict[str, Path]:
        return {n: Path(os.path.abspath(p.replace(STEM, image.path.stem))) for n, p in self.maps.items()}

    def _setting_files(self) -> dict[str, str]:
        values = {name: getattr(self.choice.settings, name) for name in FILE_SETTINGS}
        return {name: value for name, value in values.items() if value not in FILE_SETTINGS[name]}


@dataclass(frozen=True)
class BatchOptions(JobOptions):
    """Options of the run of a batch, on which the labels do not depend."""

    resume: bool = False  # keep what an earlier run has made of the same images with the same settings
    # Address of a Dask scheduler, or its file, or `local` for a cluster of `jobs` processes on this machine. On an
    # existing cluster its workers count, and not `jobs`. None uses plain processes.
    scheduler: str | None = None
    dashboard: bool = False  # print the address of the cluster's dashboard

    def __post_init__(self) -> None:
        if self.jobs < 1 or self.retries < 0:
            raise InputError(f"jobs must be >= 1 and retries >= 0, not {self.jobs!r} and {self.retries!r}")
        if self.resume and self.fresh:
            raise InputError("--resume keeps what an earlier run has made and --overwrite does not; choose one of them")
