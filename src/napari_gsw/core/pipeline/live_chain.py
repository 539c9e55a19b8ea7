"""A segmentation that a person steers: settings that change under way, strokes, locks, undo and redo.

Everything a stroke of the brush means is decided here, without a screen, so that it can be tested as plain arrays. A
person paints with the numbers of :mod:`napari_gsw.core.pipeline.numbering`, which stay with their clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.arrays import Ints, LabelImage, Longs, Mask, Sites
from napari_gsw.core.errors import InputError
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.model.steering import Steering, is_closed
from napari_gsw.core.pipeline.change import Change, Log
from napari_gsw.core.pipeline.deeds import deed
from napari_gsw.core.pipeline.edit_clamps import (
    PixelChange,
    changed_pixels,
    edit_clamps,
    pixel_change,
    released_pixels,
)
from napari_gsw.core.pipeline.kept_paint import PaintChange, meeting_strokes, paint_change
from napari_gsw.core.pipeline.numbering import matched_numbers, named_numbers, pulled_numbers
from napari_gsw.core.pipeline.refinement import refined_chain, refinement
from napari_gsw.core.pipeline.watched_chain import WatchedChain
from napari_gsw.core.posterior.diagnostics import FEWEST_SWEEPS
from napari_gsw.core.posterior.held_pixels import HeldPixels, held_sites
from napari_gsw.core.posterior.object_edits import Edit
from napari_gsw.core.posterior.uncertainty import site_pixels
from napari_gsw.core.sampler.chain import Chain
from napari_gsw.core.sampler.options import SamplerOptions
from napari_gsw.core.sampler.records import COUNTED
from napari_gsw.core.sampler.start import recount, redirected, relaxed
from napari_gsw.core.settings import Settings
from napari_gsw.core.sites.strokes import Stroke

# The screen shows 16 bits: more is slow in napari.
MOST_NUMBER = int(np.iinfo(np.uint16).max)
# The run after a correction is as long as this at least, for its burn-in to be a share of.
LEAST_RUN = 2 * FEWEST_SWEEPS
# A chain at rest that was corrected goes on for so many sweeps at most; the burn-in after any correction is a share of
# no more.
MOST_SETTLING = 400
# Cuts after which values of the sites before them can still be read.
MOST_LINES = 8
# Settings of what is locked, which a person may change as he may change the locks.
STEERS = ("steering", "only_painted")
# Settings that change how the chain moves, or what is made of it, but not where it settles: they may change while it
# runs.
MOVES = (
    "sampler",
    "lam",
    "tau",
    "distance",
    "bond",
    "bond_low",
    "bond_cap",
    "regroups",
    "splits",
    "full_scans",
    "sweeps",
    "stop",
    "burn_in",
)
TUNABLE = frozenset((*MOVES, *STEERS, "consensus", "polish", "view", "neck", "min_region", "merge", "join"))


# Sites and strokes, two label images -> the problem of the sites as the strokes have cut them.
Remake = Callable[[Sites, LabelImage], Problem]


class LiveChain(WatchedChain):
    """Chains of one problem, what a person sees of them and does to them."""

    # What was on the screen before the last edit of objects.
    names: LabelImage | None = None
    # Makes the problem again for given sites, cut between strokes; None where sites cannot be cut.
    remake: Remake | None = None

    # ---- settings

    def check_tuning(self, settings: Settings) -> None:
        """Raise an InputError that names the settings which change what is sampled."""
        frozen = [k for k, v in settings.to_dict().items() if v != getattr(self.settings, k) and k not in TUNABLE]
        if frozen:
            raise InputError(f"{', '.join(frozen)} cannot change while the chain runs: it applies at the next run")

    @deed
    def retune(self, settings: Settings) -> None:
        """Take over settings that do not change what is sampled, from the next sweep on; all of them or none."""
        self.check_tuning(settings)
        options = SamplerOptions.from_settings(self.problem, settings, settings.sweeps)
        before = self.settings
        changed = {k: [getattr(before, k), getattr(settings, k)] for k in (*MOVES, *STEERS)}
        changed = {k: pair for k, pair in changed.items() if pair[0] != pair[1]}
        noted = len(self.taken)
        if changed:
            self.taken.append({"sweep": self.sweep, "what": "settings", "changed": changed})
        self.settings = settings
        if changed.keys() & set(STEERS):
            try:
                self._steer()
            except InputError:
                self.settings = self.steering.settings = before
                del self.taken[noted:]
                raise
        self._summary = None
        for chain in self.ensemble.chains:
            chain.options = chain.options.replace(bonds=options.bonds, moves=options.moves, regroups=options.regroups)
        if "sweeps" in changed and self.target > self.sweep:
            self.target = max(self.sweep, self.target + settings.sweeps - before.sweeps)
        if "burn_in" in changed:
            length = min(self.length, MOST_SETTLING) if self.changes else self.length
            self._move_burn_in(self.since + int(settings.burn_in * length))

    def _steer(self) -> None:
        """Let what is locked speak as the settings say now, for closed or for open labels."""
        self.steering.settings = self.settings
        nothing = np.zeros(0, np.int64)
        self._apply(nothing, nothing, np.zeros(0, bool), "steering", self.edits)

    def _closed_by(self, seeds: Ints) -> bool:
        """Whether the painted labels are all that there are, once these (n,) are, -1 for a free site."""
        if self.settings.only_painted != "auto" or (self.closed_at_start is None and self.sweep == 0):
            return is_closed(self.settings, seeds, self.problem.map_field)
        return self.steering.closed

    def _move_burn_in(self, end: int) -> None:
        """Let the burn-in end at another sweep; the sums begin anew if they hold sweeps that it leaves out."""
        for chain in self.ensemble.chains:
            if end > chain.options.burn_in or not chain.sums.counted[COUNTED]:
                recount(chain, max(end, self.sweep))
        self.ensemble.refresh()
        self._count_enough()

    # ---- what a person does

    @deed
    def paint(self, sites: Sequence[int] | NDArray[np.integer], number: Any, lock: bool = False) -> None:
        """Give sites a number; a number that nobody has makes a new cluster, 0 leaves them to the chain (and unlocks).

        Parameters
        ----------
        sites : (s,) sites, numbered from 0.
        number : one number, or one for each site.
        lock : whether the chain has to leave them there; a site that is locked already stays so, with its new number.
        """
        where = np.asarray(sites, dtype=np.int64)
        if not where.size:
            return
        after = np.broadcast_to(np.asarray(number, dtype=np.int64), where.shape).copy()
        check_numbers(after)
        self._paint(where, after, lock)

    @deed
    def draw(self, stroke: Stroke, lock: bool = False) -> None:
        """Take over a stroke of the brush, pixel by pixel.

        A site in which it meets another label that was painted and is held there is cut between the two, so that
        neither is outvoted; otherwise the sites that it means take its labels, as :meth:`paint` gives them.
        """
        if stroke.site_image is not self.problem.sites:  # they have been cut since
            stroke = stroke.on(self.problem.site_image)
        if not stroke.sites.size:
            return
        check_numbers(stroke.labels)
        paint = self.paint_image()
        if self.remake is not None and self.settings.steering > 0:
            strokes = meeting_strokes(stroke, paint, self.locks, self.numbers)
            if strokes is not None:
                self._cut(strokes, self.remake)
                stroke = stroke.on(self.problem.site_image)
        self._paint(stroke.sites, stroke.numbers, lock, paint_change(paint, stroke))

    def _paint(self, sites: Longs, after: Longs, lock: bool, paint: PaintChange | None = None) -> None:
        held = self.locks[sites]
        self._do(Change(sites, self.numbers[sites], after, held, (after > 0) & (held | lock), paint=paint))

    def _cut(self, strokes: LabelImage, remake: Remake) -> None:
        """Cut sites between strokes (\\*shape,); each piece keeps the number and the lock of its site."""
        problem, parents = refinement(self.problem, remake(self.problem.site_image, strokes))
        edits, locks, numbers = self.edits, self.locks[parents], self.numbers[parents]
        if edits is not None:
            edits = replace(edits, sites=held_sites(edits.fixed, problem.site_image, problem.n))
        steering = Steering(problem, self.settings, self.steering.closed)
        steered = steering.steered(taught_seeds(locks, numbers, edits))
        chains = [refined_chain(chain, steered, parents, self.settings) for chain in self.ensemble.chains]
        more = problem.n - self.problem.n
        self.lineage = {n: line[parents] for n, line in [*self.lineage.items()][-MOST_LINES:]} | {
            self.problem.n: parents
        }
        self.problem, self.steering, self._summary = steered, steering, None
        self.ensemble.chains = chains
        self.ensemble.refresh()
        self.numbers, self.locks, self.painted, self.edits = numbers, locks, self.painted[parents], edits
        self.pixels = site_pixels(problem)
        self.log.refine(parents)
        self.history.refine(parents)
        self.taken.append({"sweep": self.sweep, "what": "cut", "sites": more})

    @deed
    def lock(self, sites: Sequence[int] | NDArray[np.integer]) -> None:
        """Hold sites where they are."""
        where = np.asarray(sites, dtype=np.int64)
        if where.size:
            here = self.numbers[where]
            self._do(Change(where, here, here, self.locks[where], np.ones(where.size, bool)))

    @deed
    def unlock(self, sites: Sequence[int] | NDArray[np.integer]) -> None:
        """Let sites go, wherever they are."""
        where = np.asarray(sites, dtype=np.int64)
        where = where[self.locks[where]]
        if where.size:
            here = self.numbers[where]
            self._do(Change(where, here, here, np.ones(where.size, bool), np.zeros(where.size, bool)))

    def check_edit(self) -> None:
        """Raise an InputError that says why objects cannot be edited, if they cannot."""
        if self.problem.closed:
            raise InputError("objects cannot be edited while all labels are painted ones: paint, or allow other labels")

    @deed
    def edit(self, edit: Edit) -> None:
        """Fix objects or regions as a person wants them; their sites are clamped to clusters accordingly."""
        self.check_edit()
        pixels = pixel_change(self.edits, edit)
        self.names = edit.shown
        held = changed_pixels(self.edits, pixels, edit.shown, self.problem)
        clamps = edit_clamps(edit, self.edits, held, self.problem, self.numbers, self.pixels)
        where, after, locked = clamps
        self._do(Change(where, self.numbers[where], after, self.locks[where], locked, pixels=pixels), edit.what)

    @deed
    def adopt(self, edits: HeldPixels) -> None:
        """Take over what was fixed in another chain of the same image, whose locks this one has already."""
        sites = held_sites(edits.fixed, self.problem.site_image, self.problem.n)
        self.edits, self.names = replace(edits, sites=sites), edits.names
        self._steer()

    @deed
    def go_back(self, numbers: Longs) -> None:
        """Continue from a state that was on the screen before; locked sites stay."""
        numbers = self.carried(numbers)
        where = np.flatnonzero((numbers != self.numbers) & ~self.locks)
        free = np.zeros(where.size, bool)
        if where.size:
            self._do(Change(where, self.numbers[where], numbers[where], free, free), "go back")

    @deed
    def undo(self) -> bool:
        """Give the sites of the last correction back their numbers and locks; False if there is none."""
        if not self.log.done:
            return False
        change = self.log.done[-1]
        sites, before, held = change.sites, change.before, change.held_before
        if change.at_rest is not None:  # what has followed from it goes back with it
            locks = self.locks.copy()
            locks[sites] = held
            sites = np.union1d(sites, np.flatnonzero(self.numbers != change.at_rest))
            before, held = change.at_rest[sites], locks[sites]
        self._apply(sites, before, held, "undo", self._edits_after(change.pixels and change.pixels.reverse))
        self.log.undone.append(self.log.done.pop())
        self._put_paint(change.paint, back=True)
        return True

    @deed
    def redo(self) -> bool:
        """Do the correction again that was undone last; False if there is none."""
        if not self.log.undone:
            return False
        change = self.log.undone[-1]
        self._apply(change.sites, change.after, change.held_after, "redo", self._edits_after(change.pixels))
        self.log.done.append(self.log.undone.pop())
        self._put_paint(change.paint)
        return True

    def _do(self, change: Change, why: str = "paint") -> None:
        if self.target <= self.sweep:
            change = replace(change, at_rest=self.numbers)
        if change.pixels is None and self.edits is not None and why != "go back":
            # A cluster that is painted or unlocked by hand is a later word than the object that was fixed there.
            meant = change.sites[(change.before != change.after) | (change.held_before & ~change.held_after)]
            change = replace(change, pixels=released_pixels(self.edits, self.problem.site_image, meant))
        self._apply(change.sites, change.after, change.held_after, why, self._edits_after(change.pixels))
        self._put_paint(change.paint)
        self.log.add(change)

    def paint_image(self) -> LabelImage:
        """(\\*shape,) int32 labels that were painted pixel by pixel, 0 where nothing was; it is changed in place."""
        if self.strokes is None:
            self.strokes = np.zeros(self.problem.site_image.shape, np.int32)
        return self.strokes

    def kept_strokes(self) -> LabelImage | None:
        """(\\*shape,) what was painted and is held, 0 elsewhere; None if nothing was painted pixel by pixel."""
        if self.strokes is None:
            return None
        held = np.concatenate(([0], np.where(self.locks, self.numbers, 0)))
        return np.where(held[self.problem.site_image] == self.strokes, self.strokes, 0)

    def _put_paint(self, change: PaintChange | None, back: bool = False) -> None:
        """Note what was painted, or take it back."""
        if change is not None:
            self.paint_image().reshape(-1)[change.pixels] = change.before if back else change.after

    def _edits_after(self, change: PixelChange | None) -> HeldPixels | None:
        """What is fixed after a change of pixels; None if nothing is."""
        if change is None:
            return self.edits
        assert self.names is not None
        held = changed_pixels(self.edits, change, self.names, self.problem)
        return held if held.fixed.any() else None

    def _apply(self, sites: NDArray[np.int64], after: Longs, held: Mask, why: str, edits: HeldPixels | None) -> None:
        """Give sites their numbers in every chain; all of it or, if the prior forbids it, nothing."""
        locks = self.locks.copy()
        locks[sites] = held
        # A corrected chain has to settle again, however little is left of its run.
        length = max(self.settings.sweeps, LEAST_RUN)
        if self.target <= self.sweep:  # at rest; it wakes for a while and no more
            length = min(length, MOST_SETTLING)
        # From where it stands it settles soon; the burn-in of a long run would leave nothing counted if it is stopped.
        burn_in = self.sweep + int(self.settings.burn_in * min(length, MOST_SETTLING))
        closed = self.steering.closed
        try:
            problem, corrected = self._corrected(sites, after, locks, why, edits, burn_in)
        except InputError:
            self.steering.closed = closed
            raise
        self.problem = problem
        self.ensemble.chains = [chain for chain, _ in corrected]
        self.ensemble.refresh()
        self.locks, self.edits = locks, edits
        self.painted[sites] = after > 0
        self.numbers = matched_numbers(self.ensemble.snapshots[0].labels, corrected[0][1], self._weight())
        self.marks.append(self.sweep)
        self.changes.append({"sweep": self.sweep, "what": why, "sites": len(sites), "locked": int(locks.sum())})
        self.taken.append(self.changes[-1])
        self.since, self.length = self.sweep, length
        self._count_enough()
        self.history.keep(self.sweep, self.numbers)

    def _corrected(
        self, sites: NDArray[np.int64], after: Longs, locks: Mask, why: str, edits: HeldPixels | None, burn_in: int
    ) -> tuple[Problem, list[tuple[Chain, Longs]]]:
        """The problem under the field of what is locked (n,), and each chain with its numbers as they are to be."""
        freed = sites[after == 0]
        corrected: list[tuple[Chain, Longs]] = []
        problem = self.problem
        for c, chain in enumerate(self.ensemble.chains):
            # The weight of locks makes matching give a lock's number to its cluster in every chain.
            numbers = self.numbers.copy() if c == 0 else matched_numbers(chain.labels, self.numbers, self._weight())
            before = numbers.copy()
            numbers[sites[after > 0]] = after[after > 0]
            seeds = np.where(locks, numbers, -1).astype(np.int32)
            if c == 0:  # locks have the same numbers in all chains
                taught = taught_seeds(locks, numbers, edits)
                self.steering.closed = self._closed_by(taught)
                problem = self.steering.steered(taught)
            numbers = named_numbers(problem, numbers, seeds)
            if why in ("paint", "redo", "steering"):
                numbers = pulled_numbers(problem, numbers, seeds, before)
            new = redirected(chain, numbers, seeds, burn_in, problem)
            if freed.size:
                new = redirected(new, relaxed(new, freed), seeds, burn_in)
            corrected.append((new, numbers))
        return problem, corrected

    @deed
    def forget_changes(self) -> None:
        """Make what was done so far the beginning: it cannot be undone."""
        self.log = Log()


def check_numbers(numbers: Longs) -> None:
    """Raise an InputError if there is a label that the screen cannot show."""
    if numbers.min() < 0 or numbers.max() > MOST_NUMBER:
        raise InputError(f"labels must be numbers in [0, {MOST_NUMBER}], not {numbers.min()} to {numbers.max()}")


def taught_seeds(locks: Mask, numbers: Longs, edits: HeldPixels | None) -> Ints:
    """(n,) number of a site that teaches, -1 for the others: what is locked, but for objects that are fixed.

    Those say nothing about what they do not touch.
    """
    teaches = locks if edits is None else locks & (edits.sites == 0)
    return np.where(teaches, numbers, -1).astype(np.int32)
