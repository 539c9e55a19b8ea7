"""Stored form of a session: the runs of an image, what the user did to them, where the image is, and the window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.array_types import BoolArray, Int64Array, LabelImage
from napari_gsw.core.errors import InputError
from napari_gsw.core.interactive.actions import Action, ActionLog, Correction, InitialState
from napari_gsw.core.interactive.corrections import LabelChange
from napari_gsw.core.interactive.history import History
from napari_gsw.core.pipeline import saved_run
from napari_gsw.core.pipeline.saved_run import Kind, SavedRun, check_array, check_saved_problem, plain_kind
from napari_gsw.core.posterior.object_edits import Edit, FixedPixels
from napari_gsw.core.sites.scribbles import Scribble


@dataclass(frozen=True, eq=False)
class InteractiveState:
    """Everything of an interactive run but its chains.

    The names are those of :class:`~napari_gsw.core.interactive.interactive_run.InteractiveRun`.
    """

    display_labels: Int64Array
    locks: BoolArray
    painted: BoolArray
    scribbles: LabelImage | None
    edits: FixedPixels | None
    names: LabelImage | None
    closed: bool
    closed_at_start: bool | None
    restarted_at: int
    run_length: int
    history: History
    log: ActionLog
    initial: InitialState
    reference_labels: Int64Array | None = None

    def copy(self) -> InteractiveState:
        """Copy what a run changes in place."""
        scribbles = None if self.scribbles is None else np.array(self.scribbles)
        history, log = self.history.copy(), self.log.copy()
        return replace(self, painted=self.painted.copy(), scribbles=scribbles, history=history, log=log)

    def check(self, run: SavedRun) -> None:
        """Raise an InputError unless the state fits its run; a file may hold anything."""
        n, shape = run.problem.n, getattr(run.problem.sites, "shape", ())
        for labels in (
            (self.display_labels,) if self.reference_labels is None else (self.display_labels, self.reference_labels)
        ):
            check_array("the labels on the screen", labels, "iu", (n,))
            if int(labels.min()) < 0:
                raise InputError("the labels on the screen must not be below 0")
        check_array("what is locked", self.locks, "b", (n,))
        check_array("what is painted", self.painted, "b", (n,))
        for what, image in (("what was painted", self.scribbles), ("the image on the screen", self.names)):
            if image is not None:
                check_array(what, image, "iu", shape)
        if self.edits is not None:
            if not isinstance(self.edits, FixedPixels):
                raise InputError("the fixed pixels are damaged")
            check_array("the fixed pixels", self.edits.fixed, "i", shape)
            check_array("the image of the last edit", self.edits.names, "iu", shape)
            check_array("the fixed sites", self.edits.sites, "i", (n,))
        if not isinstance(self.history, History) or not isinstance(self.log, ActionLog):
            raise InputError("the history or the log of the run is damaged")
        self.history.check(n)
        for before, parents in self.log.site_parents.items():
            check_array("the sites before a split", parents, "iu", (n,))
            if not before.isdecimal() or int(parents.min()) < 0 or int(parents.max()) >= int(before):
                raise InputError("the sites before a split are damaged")
        for correction in (*self.log.done, *self.log.undone):
            _check_correction(correction, n, int(np.prod(shape)))
        if not isinstance(self.initial, InitialState) or not all(isinstance(a, Action) for a in self.log.actions):
            raise InputError("the actions of the user are damaged")
        check_saved_problem(self.initial.problem)


STATE_NAMES = tuple(f.name for f in fields(InteractiveState))


def _check_correction(correction: Any, n: int, n_pixels: int) -> None:
    """Check that a correction has sites and pixels that exist."""
    if not isinstance(correction, Correction):
        raise InputError("the corrections are damaged")
    count = len(correction.sites)
    for name in ("sites", "before", "after"):
        check_array("a correction", getattr(correction, name), "iu", (count,))
    for name in ("locked_before", "locked_after"):
        check_array("a correction", getattr(correction, name), "b", (count,))
    if correction.at_rest is not None:
        check_array("a correction", correction.at_rest, "iu", (n,))
    changes = [change for change in (correction.pixels, correction.paint) if change is not None]
    for indices, limit in [(correction.sites, n), *((change.pixels, n_pixels) for change in changes)]:
        if indices.size and (int(indices.min()) < 0 or int(indices.max()) >= limit):
            raise InputError("a correction is outside the image")


# Stored names of fields that were renamed.
_STATE_KIND = plain_kind(
    InteractiveState,
    {
        "display_labels": "numbers",
        "reference_labels": "anchor",
        "scribbles": "strokes",
        "initial": "begun",
        "restarted_at": "since",
        "run_length": "length",
    },
)


def _make_state(**values: Any) -> InteractiveState:
    """Make a state from its stored fields; format 1 had the lists of the log beside it, some of them twice."""
    if "deeds" in values:
        log = values["log"]
        log.actions, log.steps = values.pop("deeds"), values.pop("taken")
        log.site_parents = values.pop("lineage")
        del values["marks"], values["changes"]
    return _STATE_KIND.make(**values)  # type: ignore[no-any-return]


@dataclass(frozen=True, eq=False)
class SavedImage:
    """One of the images of a session.

    Attributes
    ----------
    name : of its layer.
    paths : where it may be found, the most likely first; none if it was never a file.
    pixels : the image itself, if it is saved too; or None.
    layer : position and appearance of its layer, ready for JSON.
    """

    name: str = ""
    paths: tuple[str, ...] = ()
    pixels: NDArray[Any] | None = None
    layer: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        is_described = isinstance(self.name, str) and isinstance(self.layer, Mapping)
        has_paths = isinstance(self.paths, tuple) and all(isinstance(path, str) for path in self.paths)
        if not is_described or not has_paths or not isinstance(self.pixels, np.ndarray | None):
            raise InputError("the description of an image is damaged")


@dataclass(frozen=True, eq=False)
class SavedSession:
    """Content of a session file.

    Attributes
    ----------
    runs : run of each array of the image by its position; of an image that is one array, by the key ``run``.
    images : the image, and after it further channels.
    window : state of the window, ready for JSON.
    """

    runs: Mapping[str, SavedRun]
    images: tuple[SavedImage, ...] = ()
    window: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.runs, Mapping) or not all(isinstance(run, SavedRun) for run in self.runs.values()):
            raise InputError("a session needs its runs")
        has_images = isinstance(self.images, tuple) and all(isinstance(image, SavedImage) for image in self.images)
        if not has_images or not isinstance(self.window, Mapping):
            raise InputError("the images or the window of the session are damaged")

    @property
    def run(self) -> SavedRun:
        """The run of a session with one run."""
        if len(self.runs) != 1:
            raise InputError(f"the session has {len(self.runs)} runs; choose one of session.runs")
        return next(iter(self.runs.values()))

    def __repr__(self) -> str:
        runs = ", ".join(
            f"{key}: {run.problem.n:,} sites, {run.sweep} of {run.target} sweeps" for key, run in self.runs.items()
        )
        return f"<SavedSession {runs}>"


KINDS: Mapping[str, Kind] = {
    **saved_run.KINDS,
    "deed": plain_kind(Action, {"method": "what", "labels": "numbers"}),
    "stroke": Kind(
        Scribble,
        lambda value: {name: getattr(value, name) for name in ("sites", "numbers", "pixels", "labels")},
        lambda **values: Scribble(None, **values),  # type: ignore[arg-type]
    ),
    "edit": plain_kind(Edit),
    "live": Kind(InteractiveState, _STATE_KIND.fields, _make_state),
    "beginning": plain_kind(InitialState),
    "history": Kind(History, History.fields, History.from_fields),
    "log": plain_kind(ActionLog),
    "change": plain_kind(Correction, {"locked_before": "held_before", "locked_after": "held_after"}),
    "pixel change": plain_kind(LabelChange, {"pixels": "where"}),
    "paint change": plain_kind(LabelChange),  # of format 1
    "held pixels": plain_kind(FixedPixels),
    "fixed": plain_kind(FixedPixels),  # of format 1
    "session": plain_kind(SavedSession),
    "image": plain_kind(SavedImage),
}
