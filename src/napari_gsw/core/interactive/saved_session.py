"""Stored form of a session: the runs of an image, what the user did to them, where the image is, and the window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.array_types import BoolArray, Int64Array, LabelImage
from napari_gsw.core.errors import InputError
from napari_gsw.core.interactive.action_log import Action, ActionLog, Correction, History, InitialState, LabelChange
from napari_gsw.core.pipeline import saved_run
from napari_gsw.core.pipeline.saved_run import Kind, SavedRun, check_array, check_saved_problem, plain_kind
from napari_gsw.core.posterior.object_edits import Edit, FixedPixels
from napari_gsw.core.sites.scribbles import Scribble


@dataclass(eq=False, kw_only=True)
class InteractiveState:
    """Everything of an interactive run but its chains."""

    display_labels: Int64Array  # (n,) positive label of each site on the screen, for the current sample
    reference_labels: Int64Array | None = None  # (n,) those after the last correction or renewal
    locks: BoolArray  # (n,) sites that keep their label
    painted: BoolArray  # (n,) sites that the user has given a label
    scribbles: LabelImage | None = None  # int32 scribbles pixel by pixel, 0 for none
    edits: FixedPixels | None = None
    names: LabelImage | None = None  # labels on the screen before the last edit of objects
    closed: bool  # whether the painted labels are the only ones
    restarted_at: int = 0  # sweep at which the present posterior began
    run_length: int  # sweeps that its burn-in is a fraction of
    history: History = field(default_factory=History)
    log: ActionLog = field(default_factory=ActionLog)
    initial: InitialState

    def state(self) -> InteractiveState:
        """Return a copy of the state, as it is now."""
        values: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(InteractiveState)}
        scribbles = None if self.scribbles is None else np.array(self.scribbles)
        values |= {"painted": self.painted.copy(), "scribbles": scribbles}
        return InteractiveState(**values | {"history": replace(self.history), "log": self.log.copy()})

    def check(self, run: SavedRun) -> None:
        """Raise an InputError unless the state fits its run; a file may hold anything."""
        n, shape, edits = run.problem.n, getattr(run.problem.sites, "shape", ()), self.edits
        needed: list[tuple[str, Any, str, tuple[int, ...]]] = [
            ("the labels on the screen", self.display_labels, "iu", (n,)),
            ("what is locked", self.locks, "b", (n,)),
            ("what is painted", self.painted, "b", (n,)),
        ]
        optional: list[tuple[str, Any, str, tuple[int, ...]]] = [
            ("the labels on the screen", self.reference_labels, "iu", (n,)),
            ("what was painted", self.scribbles, "iu", shape),
            ("the image on the screen", self.names, "iu", shape),
        ]
        if edits is not None:
            if not isinstance(edits, FixedPixels):
                raise InputError("the fixed pixels are damaged")
            needed.append(("the fixed pixels", edits.fixed, "i", shape))
            needed.append(("the image of the last edit", edits.names, "iu", shape))
            needed.append(("the fixed sites", edits.sites, "i", (n,)))
        for row in (*needed, *(row for row in optional if row[1] is not None)):
            check_array(*row)
        if any(labels is not None and int(labels.min()) < 0 for labels in (self.display_labels, self.reference_labels)):
            raise InputError("the labels on the screen must not be below 0")
        if not isinstance(self.history, History) or not isinstance(self.log, ActionLog):
            raise InputError("the history or the log of the run is damaged")
        sweeps = self.history.sweeps
        fits = all(state.shape == (n,) and state.dtype == np.uint16 for state in self.history.states.values())
        if not fits or self.history.stride < 1 or sweeps != sorted(sweeps):
            raise InputError("the history of the run is damaged")
        for before, parents in self.log.site_parents.items():
            check_array("the sites before a split", parents, "iu", (n,))
            if not before.isdecimal() or int(parents.min()) < 0 or int(parents.max()) >= int(before):
                raise InputError("the sites before a split are damaged")
        for correction in (*self.log.done, *self.log.undone):
            if not isinstance(correction, Correction):
                raise InputError("the corrections are damaged")
            correction.check(n, int(np.prod(shape)))
        if not isinstance(self.initial, InitialState) or not all(isinstance(a, Action) for a in self.log.actions):
            raise InputError("the actions of the user are damaged")
        check_saved_problem(self.initial.problem)


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
        texts = (f"{k}: {run.problem.n:,} sites, {run.sweep} of {run.target} sweeps" for k, run in self.runs.items())
        return f"<SavedSession {', '.join(texts)}>"


# Stored names of fields that were renamed.
_STATE = plain_kind(
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
    values.pop("closed_at_start", None)  # which the initial state has, too
    return _STATE.make(**values)  # type: ignore[no-any-return]


def _history_fields(history: History) -> dict[str, Any]:
    """Return sweeps, (k, n) uint16 states, and what decides which state is kept next."""
    states = np.stack(list(history.states.values())) if history.states else np.zeros((0, 0), np.uint16)
    return {"sweeps": history.sweeps, "states": states, "stride": history.stride, "offered": history.offered}


def _make_history(sweeps: list[int], states: NDArray[np.uint16], stride: int, offered: int) -> History:
    return History(states=dict(zip(sweeps, states, strict=True)), stride=int(stride), offered=int(offered))


KINDS: Mapping[str, Kind] = {
    **saved_run.KINDS,
    "deed": plain_kind(Action, {"method": "what", "labels": "numbers"}),
    "stroke": Kind(
        Scribble,
        lambda value: {name: getattr(value, name) for name in ("sites", "numbers", "pixels", "labels")},
        lambda **values: Scribble(None, **values),  # type: ignore[arg-type]
    ),
    "edit": plain_kind(Edit),
    "live": Kind(InteractiveState, lambda v: {**_STATE.fields(v), "closed_at_start": v.initial.closed}, _make_state),
    "beginning": plain_kind(InitialState),
    "history": Kind(History, _history_fields, _make_history),
    "log": plain_kind(ActionLog),
    "change": plain_kind(Correction, {"locked_before": "held_before", "locked_after": "held_after"}),
    "pixel change": plain_kind(LabelChange, {"pixels": "where"}),
    "paint change": plain_kind(LabelChange),  # of format 1
    "held pixels": plain_kind(FixedPixels),
    "fixed": plain_kind(FixedPixels),  # of format 1
    "session": plain_kind(SavedSession),
    "image": plain_kind(SavedImage),
}
