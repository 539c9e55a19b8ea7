"""A session at one moment: the runs of all arrays of an image, where the image is, and what the window had set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.errors import InputError
from napari_gsw.core.interactive import interactive_state
from napari_gsw.core.pipeline.saved_run import Kind, SavedRun, plain_kind


@dataclass(frozen=True, eq=False)
class SavedImage:
    """One of the images that a session works on.

    Attributes
    ----------
    name : of its layer.
    paths : where it may be found, the likeliest place first; none if it never was a file.
    pixels : the image itself, if it was to be saved too; or None.
    layer : how its layer lies and looks, ready for JSON.
    """

    name: str = ""
    paths: tuple[str, ...] = ()
    pixels: NDArray[Any] | None = None
    layer: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not isinstance(self.layer, Mapping):
            raise InputError("what it knows of its image is damaged")
        if not isinstance(self.paths, tuple) or not all(isinstance(path, str) for path in self.paths):
            raise InputError("the places of its image are no words")
        if self.pixels is not None and not isinstance(self.pixels, np.ndarray):
            raise InputError("the image in it is none")


@dataclass(frozen=True, eq=False)
class SavedSession:
    """What a session file holds.

    Attributes
    ----------
    runs : the run of each array of the image by its position; of an image that is one array, by the word ``run``.
    images : what is worked on; the first is the image, others are further channels of it.
    window : what else the window needs to show it as it was, ready for JSON.
    """

    runs: Mapping[str, SavedRun]
    images: tuple[SavedImage, ...] = ()
    window: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.runs, Mapping) or not all(isinstance(run, SavedRun) for run in self.runs.values()):
            raise InputError("a session needs its runs")
        if not isinstance(self.images, tuple) or not all(isinstance(image, SavedImage) for image in self.images):
            raise InputError("its images are none")
        if not isinstance(self.window, Mapping):
            raise InputError("what it knows of the window is damaged")

    @property
    def run(self) -> SavedRun:
        """The run, of a session that has one."""
        if len(self.runs) != 1:
            raise InputError(f"the session has {len(self.runs)} runs; choose one of session.runs")
        return next(iter(self.runs.values()))

    def __repr__(self) -> str:
        runs = ", ".join(
            f"{key}: {run.problem.n:,} sites, {run.sweep} of {run.target} sweeps" for key, run in self.runs.items()
        )
        return f"<SavedSession {runs}>"


KINDS: Mapping[str, Kind] = {
    **interactive_state.KINDS,
    "session": plain_kind(SavedSession),
    "image": plain_kind(SavedImage),
}
