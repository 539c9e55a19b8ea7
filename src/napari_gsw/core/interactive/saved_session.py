"""Stored form of a session: the runs of an image, what the user did to them, where the image is, and the window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.array_types import BoolArray, Int64Array, LabelImage
from napari_gsw.core.errors import InputError
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.pipeline import saved_run
from napari_gsw.core.pipeline.saved_run import Kind, SavedRun, check_array, check_saved_problem, plain_kind
from napari_gsw.core.posterior.object_edits import Edit, FixedPixels
from napari_gsw.core.settings import Settings
from napari_gsw.core.sites.scribbles import Scribble

MAX_UNDO = 100  # corrections that can be undone
MAX_SITE_MAPS = 8  # splits after which values of the sites before them can still be mapped
MAX_BYTES = 64 * 2**20  # of earlier states


class InitialState(NamedTuple):
    """Start of a run: the problem without a field, settings, and label images (or None)."""

    problem: Problem
    settings: Settings
    seeds: Any
    init: Any
    closed: bool | None  # whether the painted labels are the only ones; None leaves it to the settings


class LabelChange(NamedTuple):
    """Change of painted or fixed pixels: (p,) indices into the flattened image, labels before and after.

    Of fixed pixels it has the labels on the screen, too, and the labels that stay unfinished before and after.
    """

    pixels: Int64Array
    before: LabelImage
    after: LabelImage
    names: LabelImage | None = None
    unfinished_before: frozenset[int] = frozenset()
    unfinished_after: frozenset[int] = frozenset()

    @property
    def reverse(self) -> LabelChange:
        """The change that takes this one back."""
        pixels, before, after, names, unfinished_before, unfinished_after = self
        return LabelChange(pixels, after, before, names, unfinished_after, unfinished_before)


@dataclass(frozen=True, eq=False)
class Action:
    """Call of a recorded method: the sweep after which it came, its name and arguments."""

    sweep: int
    method: str
    arguments: Mapping[str, Any]
    labels: NDArray[np.uint32]  # (n,) on the screen before: in old files they depend on how often the run was drawn


@dataclass(frozen=True, eq=False)
class Correction:
    """Change of labels and locks of some sites (s,) that can be undone and redone."""

    sites: NDArray[np.int64]
    before: Int64Array
    after: Int64Array  # 0 frees a site
    locked_before: BoolArray
    locked_after: BoolArray
    at_rest: Int64Array | None = None  # (n,) labels before, if the run was at rest and has only settled since
    pixels: LabelChange | None = None  # of fixed pixels
    paint: LabelChange | None = None  # of painted pixels

    @property
    def reverse(self) -> Correction:
        """The correction that takes this one back."""
        pixels, paint = (change and change.reverse for change in (self.pixels, self.paint))
        locked = self.locked_after, self.locked_before
        return Correction(self.sites, self.after, self.before, *locked, self.at_rest, pixels, paint)

    def check(self, n: int, n_pixels: int) -> None:
        """Raise an InputError unless this is about sites and pixels that exist."""
        for name in ("sites", "before", "after", "locked_before", "locked_after"):
            kinds = "b" if name.startswith("locked") else "iu"
            check_array("a correction", getattr(self, name), kinds, (len(self.sites),))
        if self.at_rest is not None:
            check_array("a correction", self.at_rest, "iu", (n,))
        changes = [change for change in (self.pixels, self.paint) if change is not None]
        for indices, limit in [(self.sites, n), *((change.pixels, n_pixels) for change in changes)]:
            if indices.size and (int(indices.min()) < 0 or int(indices.max()) >= limit):
                raise InputError("a correction is outside the image")

    def split_sites(self, parents: Int64Array) -> Correction:
        """Return the same correction of split sites; `parents` (n,) has the site of each piece."""
        index = np.full(int(parents.max()) + 1, -1)
        index[self.sites] = np.arange(len(self.sites))
        sites = np.flatnonzero(index[parents] >= 0)
        rows = index[parents][sites]
        values = {name: getattr(self, name)[rows] for name in ("before", "after", "locked_before", "locked_after")}
        return replace(self, sites=sites, at_rest=None if self.at_rest is None else self.at_rest[parents], **values)


@dataclass
class ActionLog:
    """All that was done to a run."""

    actions: list[Action] = field(default_factory=list)  # to be replayed
    steps: list[dict[str, Any]] = field(default_factory=list)  # runs, settings, splits, corrections; for the provenance
    done: list[Correction] = field(default_factory=list)  # can be undone, the newest last
    undone: list[Correction] = field(default_factory=list)  # can be redone
    # By the number of sites before a split (as text), (n,) the site then of each site now.
    site_parents: dict[str, Int64Array] = field(default_factory=dict)

    def copy(self) -> ActionLog:
        """Copy the lists, but not their entries."""
        return ActionLog(*(value.copy() for value in vars(self).values()))

    @property
    def corrections(self) -> list[dict[str, Any]]:
        """The steps that changed sites or locks."""
        return [step for step in self.steps if "locked" in step]

    def split_sites(self, parents: Int64Array, n_before: int) -> None:
        """Map everything to the pieces of split sites; `parents` (n,) has the site of each piece."""
        self.done = [correction.split_sites(parents) for correction in self.done]
        self.undone = [correction.split_sites(parents) for correction in self.undone]
        kept = list(self.site_parents.items())[-MAX_SITE_MAPS:]
        self.site_parents = {n: line[parents] for n, line in kept} | {str(n_before): parents}


@dataclass
class History:
    """Labels of the sites at some sweeps; when they take more than `max_bytes`, every second state is dropped.

    The thread that samples keeps states, and the one that draws reads them: `states` is replaced, but never changed.
    """

    max_bytes: int = MAX_BYTES
    states: dict[int, NDArray[np.uint16]] = field(default_factory=dict, repr=False)  # (n,) by sweep, ascending
    stride: int = 1
    offered: int = 0

    @property
    def sweeps(self) -> list[int]:
        """Sweeps whose states are kept."""
        return list(self.states)

    def keep(self, sweep: int, labels: NDArray[np.integer]) -> None:
        """Add a state; it replaces an earlier one of the same sweep, before a correction."""
        if sweep in self.states:
            self.states = {**self.states, sweep: labels.astype(np.uint16)}
            return
        self.offered += 1
        if self.offered % self.stride:
            return
        states = {**self.states, sweep: labels.astype(np.uint16)}
        if len(states) > 2 and len(states) * labels.size * 2 > self.max_bytes:
            states = dict(list(states.items())[::2])
            self.stride *= 2
        self.states = states

    def split_sites(self, parents: NDArray[np.integer]) -> None:
        """Map the states to the pieces of split sites; `parents` (n,) has the site of each piece, from 0."""
        self.states = {sweep: state[parents] for sweep, state in self.states.items()}

    def nearest(self, sweep: float) -> tuple[int, NDArray[np.int64]]:
        """Return sweep and labels of the kept state nearest to a sweep."""
        states = self.states
        found = min(states, key=lambda kept: abs(kept - sweep))
        return found, states[found].astype(np.int64)


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
