"""Log of what a user did to a run, and what the run looked like meanwhile.

The same actions on the same image give the same labels.
"""

from __future__ import annotations

import bisect
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.array_types import BoolArray, Int64Array
from napari_gsw.core.errors import InputError
from napari_gsw.core.interactive.label_changes import LabelChange
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.posterior.object_edits import Edit, FixedPixels
from napari_gsw.core.settings import Settings
from napari_gsw.core.sites.blocked_labels import CompressedArray
from napari_gsw.core.sites.scribbles import Scribble

P = ParamSpec("P")
R = TypeVar("R")

MAX_UNDO = 100  # corrections that can be undone
MAX_SITE_MAPS = 8  # splits after which values of the sites before them can still be mapped
MAX_BYTES = 64 * 2**20  # of earlier states
# Names of methods that may be replayed; a file may name no others. Files of format 1 know some under another name.
METHODS: set[str] = set()
RENAMED_METHODS = {
    "retune": "update_settings",
    "adopt": "set_fixed_pixels",
    "go_back": "revert_to",
    "wake": "resume_after_correction",
}


class InitialState(NamedTuple):
    """Start of a run: the problem without a field, settings, and label images (or None)."""

    problem: Problem
    settings: Settings
    seeds: Any
    init: Any
    closed: bool | None  # whether the painted labels are the only ones; None leaves it to the settings


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

    def add_correction(self, correction: Correction) -> None:
        """Add a correction; what was undone before cannot be redone after it."""
        self.done.append(correction)
        del self.done[:-MAX_UNDO]
        self.undone.clear()

    def split_sites(self, parents: Int64Array, n_before: int) -> None:
        """Map everything to the pieces of split sites; `parents` (n,) has the site of each piece."""
        self.done = [correction.split_sites(parents) for correction in self.done]
        self.undone = [correction.split_sites(parents) for correction in self.undone]
        kept = list(self.site_parents.items())[-MAX_SITE_MAPS:]
        self.site_parents = {n: line[parents] for n, line in kept} | {str(n_before): parents}


def recorded(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Log calls of a method of a run, unless it is refused or part of another action."""
    signature = inspect.signature(method)
    METHODS.add(method.__name__)

    @functools.wraps(method)
    def call(self: Any, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.is_acting:
            return method(self, *args, **kwargs)
        sweep, labels = self.sweep, self.display_labels.astype(np.uint32)
        self.is_acting = True
        try:
            result = method(self, *args, **kwargs)
        finally:
            self.is_acting = False
        given = signature.bind(self, *args, **kwargs).arguments
        arguments = {name: pack_argument(value) for name, value in given.items() if name != "self"}
        self.log.actions.append(Action(sweep, method.__name__, arguments, labels))
        return result

    return call  # type: ignore[return-value]


def pack_argument(value: Any) -> Any:
    """Return an argument that takes little memory: without the site image, and with compressed label images."""
    packed: Any = value
    if isinstance(value, Scribble):
        packed = replace(value, site_image=None)  # type: ignore[arg-type]
    elif isinstance(value, Edit):
        packed = value._replace(shown=CompressedArray.of(value.shown))  # type: ignore[arg-type]
    elif isinstance(value, FixedPixels):  # in which the background is -1
        fixed: Any = CompressedArray.of(value.fixed + 1)
        packed = replace(value, fixed=fixed, names=CompressedArray.of(value.names))  # type: ignore[arg-type]
    elif isinstance(value, np.ndarray):
        packed = value.copy()
    return packed


def unpack_argument(packed: Any, problem: Problem) -> Any:
    """Return the argument that :func:`pack_argument` was given."""
    value: Any = packed
    if isinstance(packed, Scribble):
        return replace(packed, site_image=problem.site_image)
    if isinstance(packed, Edit):
        return packed._replace(shown=value.shown.array())
    if isinstance(packed, FixedPixels):
        return replace(packed, fixed=value.fixed.array().astype(np.int32) - 1, names=value.names.array())
    return value


@dataclass
class History:
    """Labels of the sites at some sweeps; when they take more than `max_bytes`, every second state is dropped."""

    max_bytes: int = MAX_BYTES
    sweeps: list[int] = field(default_factory=list)
    _states: list[NDArray[np.uint16]] = field(default_factory=list, repr=False)
    _stride: int = 1
    _n_offered: int = 0
    # The thread that samples keeps states; the one that draws reads them.
    _guard: Lock = field(default_factory=Lock, repr=False)

    def keep(self, sweep: int, labels: NDArray[np.integer]) -> None:
        """Add a state; it replaces an earlier one of the same sweep, before a correction."""
        with self._guard:
            if self.sweeps and self.sweeps[-1] == sweep:
                self._states[-1] = labels.astype(np.uint16)
                return
            self._n_offered += 1
            if self._n_offered % self._stride:
                return
            self.sweeps.append(sweep)
            self._states.append(labels.astype(np.uint16))
            if len(self._states) * self._states[0].nbytes > self.max_bytes and len(self._states) > 2:
                del self.sweeps[1::2], self._states[1::2]
                self._stride *= 2

    def split_sites(self, parents: NDArray[np.integer]) -> None:
        """Map the states to the pieces of split sites; `parents` (n,) has the site of each piece, from 0."""
        with self._guard:
            self._states = [state[parents] for state in self._states]

    def copy(self) -> History:
        """Copy what is kept now."""
        with self._guard:
            return History(self.max_bytes, list(self.sweeps), list(self._states), self._stride, self._n_offered)

    def fields(self) -> dict[str, Any]:
        """Return the stored form: sweeps, (k, n) uint16 states, and what decides which state is kept next."""
        states = np.stack(self._states) if self._states else np.zeros((0, 0), np.uint16)
        return {"sweeps": self.sweeps, "states": states, "stride": self._stride, "offered": self._n_offered}

    @classmethod
    def from_fields(cls, sweeps: list[int], states: NDArray[np.uint16], stride: int, offered: int) -> History:
        """Make a history from its stored form."""
        return cls(sweeps=list(sweeps), _states=list(states), _stride=int(stride), _n_offered=int(offered))

    def check(self, n: int) -> None:
        """Raise an InputError unless this is a history of n sites."""
        fits = all(state.shape == (n,) and state.dtype == np.uint16 for state in self._states)
        if not fits or len(self.sweeps) != len(self._states) or self._stride < 1 or self.sweeps != sorted(self.sweeps):
            raise InputError("the history of the run is damaged")

    def nearest(self, sweep: float) -> tuple[int, NDArray[np.int64]]:
        """Return sweep and labels of the kept state nearest to a sweep."""
        with self._guard:
            right = min(bisect.bisect_left(self.sweeps, sweep), len(self.sweeps) - 1)
            index = min((max(right - 1, 0), right), key=lambda i: abs(self.sweeps[i] - sweep))
            return self.sweeps[index], self._states[index].astype(np.int64)
