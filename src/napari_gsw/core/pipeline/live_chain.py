"""A segmentation that a person watches and steers: chains, the numbers on the screen, corrections, locks, a memory.

Everything a stroke of the brush means is decided here, without a screen, so that it can be tested as plain arrays.

Clusters have no names of their own: a chain may call the same cluster 3 in one sweep and 7 in the next. A person sees
numbers (and colours) that stay with their regions (:mod:`napari_gsw.core.pipeline.numbering`), and paints with those.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.arrays import Floats, Ints, Longs, Mask
from napari_gsw.core.errors import InputError
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.model.steering import Steering, is_closed
from napari_gsw.core.pipeline.change import Change, Log
from napari_gsw.core.pipeline.history import History
from napari_gsw.core.pipeline.numbering import matched_numbers, named_numbers, pulled_numbers
from napari_gsw.core.pipeline.segment import CHECK_EVERY, chains, to_be_judged
from napari_gsw.core.posterior.consensus import Loss
from napari_gsw.core.posterior.diagnostics import FEWEST_SWEEPS
from napari_gsw.core.posterior.summary import Summary
from napari_gsw.core.posterior.uncertainty import site_pixels
from napari_gsw.core.sampler.chain import Chain
from napari_gsw.core.sampler.ensemble import Ensemble, pooled
from napari_gsw.core.sampler.options import SamplerOptions
from napari_gsw.core.sampler.records import COUNTED, TRACE
from napari_gsw.core.sampler.snapshot import Snapshot
from napari_gsw.core.sampler.start import recount, redirected, relaxed
from napari_gsw.core.settings import Settings

# and the coarsest, finest and farthest partition of its 95 % ball.
Show = Literal["current", "best", "consensus", "coarsest", "finest", "farthest"]

# A locked site outweighs every free one when numbers are matched, so that a lock keeps its number for ever.
LOCK_WEIGHT = 1e9
# The screen shows 16 bits: more is slow in napari.
MOST_NUMBER = int(np.iinfo(np.uint16).max)
# The run after a correction is as long as this at least, for its burn-in to be a share of.
LEAST_RUN = 2 * FEWEST_SWEEPS
# Settings that change how the chain moves, or what is made of it, but not where it settles: they may change while it
# runs.
STEERS = ("steering", "only_painted")
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
TUNABLE = frozenset((*MOVES, *STEERS, "consensus", "polish", "view", "neck", "min_region", "merge"))


class LiveChain:
    """Chains of one problem, and what a person sees of them and does to them.

    Attributes
    ----------
    problem, settings, seed : what is sampled, under the field of what is locked, and how.
    steering : what strokes say about sites that they do not touch.
    ensemble : the chains; the first one is shown.
    numbers : (n,) positive number of each site on the screen, for the current state.
    locks : (n,) sites that the chain may not move away from their number.
    painted : (n,) sites that a person has given a number to.
    marks : sweeps at which a person stepped in; `changes` what was done to how many sites.
    history : states that were on the screen, thinned to a bound.
    target : sweep at which the present run ends.
    """

    def __init__(
        self,
        problem: Problem,
        settings: Settings,
        seed: int,
        seeds: NDArray[np.integer] | None = None,
        init: NDArray[np.integer] | None = None,
        closed: bool | None = None,
    ) -> None:
        """Parameters are those of :func:`napari_gsw.segment`: `seeds` and `init` are label images.

        `closed` says whether the painted labels are all that there are, where the settings leave it open; None goes by
        what is painted before the first sweep.
        """
        self.settings, self.seed = settings, seed
        clamps = None if seeds is None else problem.labels_under(seeds, "seeds")
        self._closed = closed
        by_seeds = settings.only_painted != "auto" or closed is None
        self.steering = Steering(problem, settings, is_closed(settings, clamps) if by_seeds else bool(closed))
        self.problem = problem if clamps is None else self.steering.steered(clamps)
        self.ensemble: Ensemble = chains(self.problem, settings, seed, clamps, init)
        n = problem.n
        self.locks: Mask = np.zeros(n, bool) if clamps is None else clamps >= 0
        self.painted = self.locks.copy()
        self.pixels = site_pixels(problem)
        labels = self.ensemble.snapshots[0].labels.astype(np.int64)
        own = np.zeros(n, np.int64) if init is None else np.maximum(problem.labels_under(init, "init"), 0)
        if clamps is not None:
            own = np.where(clamps >= 0, clamps, own)
        # A start of the user's own keeps its numbers; 0 is nobody's.
        self.numbers: Longs = matched_numbers(labels, own, self._weight()) if own.any() else labels + 1
        self.marks: list[int] = []
        self.changes: list[dict[str, Any]] = []
        self._steps: list[dict[str, Any]] = []
        # Since when the posterior is the one that is sampled now, and how many sweeps its burn-in is a share of.
        self._begin, self._length = 0, settings.sweeps
        self.history = History()
        self.target = 0
        self._log = Log()
        self._summary: tuple[tuple[Snapshot, ...], Summary] | None = None
        self._rows = [np.empty((1024, TRACE)) for _ in self.ensemble.chains]
        self.history.keep(0, self.numbers)

    # ---- what there is to see

    @property
    def snapshot(self) -> Snapshot:
        """The first chain's snapshot, with the best state and the sums of all."""
        return pooled(self.ensemble.snapshots)

    @property
    def sweep(self) -> int:
        return self.ensemble.snapshots[0].sweep

    @property
    def traces(self) -> list[NDArray[np.float64]]:
        """(sweeps, 3) log posterior, number of clusters and entropy of their sizes, for each chain."""
        return [rows[: self.sweep] for rows in self._rows]

    @property
    def summary(self) -> Summary:
        """What the chains have to say together, made once for each state of theirs."""
        snapshots = self.ensemble.snapshots
        if self._summary is None or self._summary[0] is not snapshots:
            shares = [one.together for one in snapshots]
            summary = Summary(self.problem, self.settings, self.snapshot, self.traces, shares)
            self._summary = snapshots, summary
        return self._summary[1]

    def partition(self, show: Show) -> NDArray[np.int32]:
        """(n,) labels of what is to be shown; the best state where a consensus is not known yet."""
        summary = self.summary
        if show == "current":
            return summary.snapshot.labels
        if show == "best" or not len(summary.draws):
            return summary.snapshot.best.labels
        return summary.consensus(self.loss).labels if show == "consensus" else summary.extremes[show]

    @property
    def loss(self) -> Loss:
        """The loss of the consensus: the one that the settings name, or else the variation of information."""
        return "binder" if self.settings.consensus == "binder" else "vi"

    def shown(self, show: Show) -> Longs:
        """(n,) numbers on the screen of what is to be shown."""
        if show == "current":
            return self.numbers
        return self.named(self.partition(show))

    def named(self, labels: NDArray[np.integer]) -> Longs:
        """(n,) the numbers on the screen for another partition: what overlaps most keeps its number."""
        return matched_numbers(labels, self.numbers, self._weight())

    # ---- what the chain does

    def advance(self, most: int | None = None) -> None:
        """Go on for a moment: by `most` sweeps at most, or to the target."""
        most = max(self.target - self.sweep, 1) if most is None else most
        self.ensemble.advance(min(most, CHECK_EVERY - self.sweep % CHECK_EVERY))
        for c, snapshot in enumerate(self.ensemble.snapshots):
            if snapshot.sweep > len(self._rows[c]):  # twice as many, so that growing costs little in the long run
                longer = np.full((2 * snapshot.sweep, TRACE), np.nan)
                longer[: len(self._rows[c])] = self._rows[c]
                self._rows[c] = longer
            self._rows[c][snapshot.sweep - len(snapshot.trace) : snapshot.sweep] = snapshot.trace
        self.numbers = matched_numbers(self.ensemble.snapshots[0].labels, self.numbers, self._weight())
        self.history.keep(self.sweep, self.numbers)
        if to_be_judged(self.settings, self.sweep) and self.summary.diagnosis.agree:
            self.target = self.sweep

    def run_for(self, sweeps: int) -> None:
        """Set the target so many sweeps from here; a run of the settings' length counts enough of them in any case."""
        self._steps += self._stop()
        self.target = self.sweep + sweeps
        if sweeps:
            self._log.go_on()
            self._steps.append({"sweep": self.sweep, "what": "run", "sweeps": sweeps})
        if sweeps and sweeps >= self.settings.sweeps:
            self._count_enough()

    def settle(self) -> None:
        """After a correction of a chain at rest: go on until enough sweeps are counted to know what it means."""
        log, self._log = self._log, Log()  # what can be taken back stays so
        self.run_for(self._length)
        self._log = log

    def _count_enough(self) -> None:
        """Move the target of a run that is on, if too few sweeps would be counted after a correction."""
        end = self.ensemble.chains[0].options.burn_in
        if self.target > self.sweep and self.changes:
            self.target = max(self.target, end + max(FEWEST_SWEEPS, self._begin + self._length - end))

    def check_tuning(self, settings: Settings) -> None:
        """Raise an InputError that names the settings which change what is sampled."""
        frozen = [k for k, v in settings.to_dict().items() if v != getattr(self.settings, k) and k not in TUNABLE]
        if frozen:
            raise InputError(f"{', '.join(frozen)} cannot change while the chain runs: it applies at the next run")

    def retune(self, settings: Settings) -> None:
        """Take over settings that do not change what is sampled, from the next sweep on."""
        self.check_tuning(settings)
        options = SamplerOptions.from_settings(self.problem, settings, settings.sweeps)
        for chain in self.ensemble.chains:
            chain.options = chain.options.replace(bonds=options.bonds, moves=options.moves, regroups=options.regroups)
        before, self.settings, self._summary = self.settings, settings, None
        changed = {k: [getattr(before, k), getattr(settings, k)] for k in (*MOVES, *STEERS)}
        changed = {k: pair for k, pair in changed.items() if pair[0] != pair[1]}
        if changed:
            self._steps.append({"sweep": self.sweep, "what": "settings", "changed": changed})
        if changed.keys() & set(STEERS):
            self._steer()
        if "sweeps" in changed and self.target > self.sweep:
            self.target = max(self.sweep, self.target + settings.sweeps - before.sweeps)
        if "burn_in" in changed:
            self._move_burn_in(self._begin + int(settings.burn_in * self._length))

    def _steer(self) -> None:
        """Let what is locked speak as the settings say now, for closed or for open labels."""
        self.steering.settings = self.settings
        nothing = np.zeros(0, np.int64)
        self._apply(nothing, nothing, np.zeros(0, bool), "steering")

    def _decide(self, seeds: Ints) -> None:
        """Whether the painted labels are all that there are, from now on."""
        if self.settings.only_painted != "auto" or (self._closed is None and self.sweep == 0):
            self.steering.closed = is_closed(self.settings, seeds)

    def _move_burn_in(self, end: int) -> None:
        """Let the burn-in end at another sweep; the sums begin anew if they hold sweeps that it leaves out."""
        for chain in self.ensemble.chains:
            if end > chain.options.burn_in or not chain.sums.counted[COUNTED]:
                recount(chain, max(end, self.sweep))
        self.ensemble.refresh()
        self._count_enough()

    @property
    def steps(self) -> list[dict[str, Any]]:
        """What made the chains come to where they are, ready for JSON; empty if settings and seed say it all.

        Runs, settings that changed what the chain did, and corrections, each with the sweep after which it came.
        """
        alone = {"sweep": 0, "what": "run", "sweeps": self.settings.sweeps}
        steps = [*self._steps, *self._stop()]
        return [] if steps in ([], [alone]) else steps

    def _stop(self) -> list[dict[str, Any]]:
        """The step of a run that has not come to its target, if there is one."""
        return [{"sweep": self.sweep, "what": "stopped"}] if self.sweep < self.target else []

    def rename(self, image: NDArray[np.integer]) -> None:
        """Take over the numbers of another label image of the same shape where regions overlap.

        For the next slice of a stack: what goes on through the stack keeps its colour.
        """
        numbers = np.maximum(self.problem.labels_under(image, "image"), 0).astype(np.int64)
        numbers[self.locks] = self.numbers[self.locks]
        if numbers.any():
            self.numbers = matched_numbers(self.ensemble.snapshots[0].labels, numbers, self._weight())

    def forget_changes(self) -> None:
        """Make what was done so far the beginning: it cannot be undone."""
        self._log = Log()

    # ---- what a person does

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
        if after.min() < 0 or after.max() > MOST_NUMBER:
            raise InputError(f"labels must be numbers in [0, {MOST_NUMBER}], not {after.min()} to {after.max()}")
        held = self.locks[where]
        self._do(Change(where, self.numbers[where], after, held, (after > 0) & (held | lock)))

    def lock(self, sites: Sequence[int] | NDArray[np.integer]) -> None:
        """Hold sites where they are."""
        where = np.asarray(sites, dtype=np.int64)
        if where.size:
            here = self.numbers[where]
            self._do(Change(where, here, here, self.locks[where], np.ones(where.size, bool)))

    def unlock(self, sites: Sequence[int] | NDArray[np.integer]) -> None:
        """Let sites go, wherever they are."""
        where = np.asarray(sites, dtype=np.int64)
        where = where[self.locks[where]]
        if where.size:
            here = self.numbers[where]
            self._do(Change(where, here, here, np.ones(where.size, bool), np.zeros(where.size, bool)))

    def go_back(self, numbers: Longs) -> None:
        """Continue from a state that was on the screen before; locked sites stay."""
        where = np.flatnonzero((numbers != self.numbers) & ~self.locks)
        free = np.zeros(where.size, bool)
        if where.size:
            self._do(Change(where, self.numbers[where], numbers[where], free, free), "go back")

    def undo(self) -> bool:
        """Give the sites of the last correction back their numbers and locks; False if there is none."""
        if not self._log.done:
            return False
        change = self._log.done[-1]
        sites, before, held = change.sites, change.before, change.held_before
        if change.at_rest is not None:  # what has followed from it goes back with it
            locks = self.locks.copy()
            locks[sites] = held
            sites = np.union1d(sites, np.flatnonzero(self.numbers != change.at_rest))
            before, held = change.at_rest[sites], locks[sites]
        self._apply(sites, before, held, "undo")
        self._log.undone.append(self._log.done.pop())
        return True

    def redo(self) -> bool:
        """Do the correction again that was undone last; False if there is none."""
        if not self._log.undone:
            return False
        change = self._log.undone[-1]
        self._apply(change.sites, change.after, change.held_after, "redo")
        self._log.done.append(self._log.undone.pop())
        return True

    def _do(self, change: Change, why: str = "paint") -> None:
        if self.target <= self.sweep:
            change = replace(change, at_rest=self.numbers)
        self._apply(change.sites, change.after, change.held_after, why)
        self._log.done.append(change)
        self._log.undone.clear()

    def _apply(self, sites: NDArray[np.int64], after: Longs, held: Mask, why: str) -> None:
        """Give sites their numbers in every chain; all of it or, if the prior forbids it, nothing."""
        locks = self.locks.copy()
        locks[sites] = held
        freed = sites[after == 0]
        # A corrected chain has to settle again, however little is left of its run.
        length = max(self.settings.sweeps, LEAST_RUN)
        burn_in = self.sweep + int(self.settings.burn_in * length)
        corrected: list[tuple[Chain, Longs]] = []
        problem = self.problem
        for c, chain in enumerate(self.ensemble.chains):
            # The weight of locks makes matching give a lock's number to its cluster in every chain.
            numbers = self.numbers.copy() if c == 0 else matched_numbers(chain.labels, self.numbers, self._weight())
            before = numbers.copy()
            numbers[sites[after > 0]] = after[after > 0]
            seeds = np.where(locks, numbers, -1).astype(np.int32)
            if c == 0:  # locks have the same numbers in all chains
                self._decide(seeds)
                problem = self.steering.steered(seeds)
            numbers = named_numbers(problem, numbers, seeds)
            if why in ("paint", "redo", "steering"):
                numbers = pulled_numbers(problem, numbers, seeds, before)
            new = redirected(chain, numbers, seeds, burn_in, problem)
            if freed.size:
                new = redirected(new, relaxed(new, freed), seeds, burn_in)
            corrected.append((new, numbers))
        self.problem = problem
        self.ensemble.chains = [chain for chain, _ in corrected]
        self.ensemble.refresh()
        self.locks = locks
        self.painted[sites] = after > 0
        self.numbers = matched_numbers(self.ensemble.snapshots[0].labels, corrected[0][1], self._weight())
        self.marks.append(self.sweep)
        self.changes.append({"sweep": self.sweep, "what": why, "sites": len(sites), "locked": int(locks.sum())})
        self._steps.append(self.changes[-1])
        self._begin, self._length = self.sweep, length
        self._count_enough()
        self.history.keep(self.sweep, self.numbers)

    def _weight(self) -> Floats:
        return np.where(self.locks, LOCK_WEIGHT, self.pixels)
