"""What a user did to a run: actions to replay, corrections to undo, and the labels at earlier sweeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.array_types import BoolArray, Int64Array, LabelImage
from napari_gsw.core.errors import InputError
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.pipeline.saved_run import check_array
from napari_gsw.core.settings import Settings

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
