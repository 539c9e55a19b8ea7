"""A segmentation that a person watches: chains, the numbers on the screen, what it has come to, a memory.

What a person does to it is in :mod:`napari_gsw.core.pipeline.live_chain`.

Clusters have no names of their own: a chain may call the same cluster 3 in one sweep and 7 in the next. A person sees
numbers (and colours) that stay with their regions (:mod:`napari_gsw.core.pipeline.numbering`), and paints with those.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.arrays import Floats, Ints, LabelImage, Longs, Mask
from napari_gsw.core.model.map_field import anchored
from napari_gsw.core.model.partition_kernels import canonical
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.model.steering import Steering, is_closed
from napari_gsw.core.pipeline.change import Log
from napari_gsw.core.pipeline.deeds import Deed, deed
from napari_gsw.core.pipeline.history import History
from napari_gsw.core.pipeline.numbering import matched_numbers
from napari_gsw.core.pipeline.sampling import CHECK_EVERY, chains, to_be_judged
from napari_gsw.core.posterior.consensus import Loss
from napari_gsw.core.posterior.diagnostics import FEWEST_SWEEPS
from napari_gsw.core.posterior.held_pixels import HeldPixels
from napari_gsw.core.posterior.summary import Summary, numbered
from napari_gsw.core.posterior.uncertainty import site_pixels
from napari_gsw.core.sampler.ensemble import Ensemble, pooled
from napari_gsw.core.sampler.records import TRACE
from napari_gsw.core.sampler.snapshot import Snapshot
from napari_gsw.core.settings import Settings

# What can be shown: the state of the first chain, the best state or the consensus of all, and the coarsest, finest and
# farthest partition of its 95 % ball.
Show = Literal["current", "best", "consensus", "coarsest", "finest", "farthest"]

# Numbers are anchored anew at certain sweeps, which depend on nothing but their own number and that of the sites: every
# fifty sweeps up to twice as many as EARLY, and then after as many as take a moment, this number over that of the sites
# times fifty. Between two such sweeps a chain need not come to rest.
EARLY, MOMENT = 500, 25_000

# A locked site outweighs every free one when numbers are matched, so that a lock keeps its number for ever.
LOCK_WEIGHT = 1e9


class Beginning(NamedTuple):
    """What a chain was begun with, so that it can be begun again.

    Attributes
    ----------
    problem : without a field. settings : as they were.
    seeds, init : label images, or None. closed : see :class:`WatchedChain`.
    """

    problem: Problem
    settings: Settings
    seeds: Any
    init: Any
    closed: bool | None


class WatchedChain:
    """Chains of one problem, and what a person sees of them.

    Attributes
    ----------
    problem, settings, seed : what is sampled, under the field of what is locked, and how.
    steering : what strokes say about sites that they do not touch.
    ensemble : the chains; the first one is shown.
    numbers : (n,) positive number of each site on the screen, for the current state. Who sets them begins anew; else
        they follow `anchor`.
    anchor : (n,) the numbers at the last sweep that no advance passes over, or at the last correction. The numbers of
        other sweeps are matched with these alone: they must not depend on how often somebody looked.
    locks : (n,) sites that the chain may not move away from their number.
    painted : (n,) sites that a person has given a number to.
    strokes : (\\*shape,) int32 labels that were painted pixel by pixel, 0 where nothing was; None if nothing is.
    lineage : by the number of sites before a cut, (n,) the site of then that each of today's lies in.
    edits : objects or regions that a person has fixed, pixel by pixel; None if there are none.
    marks : sweeps at which a person stepped in; `changes` what was done to how many sites.
    history : states that were on the screen, thinned to a bound.
    target : sweep at which the present run ends. pending : that of a run which is held, else 0.
    begun, deeds : what it was begun with, and all that was done to it since.
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
        clamps = anchored(problem.map_field, None if seeds is None else problem.labels_under(seeds, "seeds"))
        self.closed_at_start = closed
        by_seeds = settings.only_painted != "auto" or closed is None
        self.steering = Steering(
            problem, settings, is_closed(settings, clamps, problem.map_field) if by_seeds else bool(closed)
        )
        self.problem = problem if clamps is None else self.steering.steered(clamps)
        self.ensemble: Ensemble = chains(self.problem, settings, seed, clamps, init)
        n = problem.n
        self.locks: Mask = np.zeros(n, bool) if clamps is None else clamps >= 0
        self.painted = self.locks.copy()
        self.edits: HeldPixels | None = None
        self.pixels = site_pixels(problem)
        # Seeds are paint that was there before the first sweep.
        self.strokes: LabelImage | None = seeds.astype(np.int32) if isinstance(seeds, np.ndarray) else None
        self.lineage: dict[int, Longs] = {}
        labels = self.ensemble.snapshots[0].labels
        self.numbers = first_numbers(problem, labels, clamps, init, self._weight())
        self.begun = Beginning(problem, settings, seeds, init, closed)
        self.deeds: list[Deed] = []
        self.acting = False  # whether a deed is being done
        self.marks: list[int] = []
        self.changes: list[dict[str, Any]] = []
        self.taken: list[dict[str, Any]] = []
        # Since when the posterior is the one that is sampled now, and how many sweeps its burn-in is a share of.
        self.since, self.length = 0, settings.sweeps
        self.history = History()
        self.target = 0
        self.pending = 0
        self.log = Log()
        self._summary: tuple[tuple[Snapshot, ...], Summary] | None = None
        self.rows = [np.empty((1024, TRACE)) for _ in self.ensemble.chains]
        self.history.keep(0, self.numbers)

    # ---- what there is to see

    @property
    def numbers(self) -> Longs:
        return self._numbers

    @numbers.setter
    def numbers(self, numbers: Longs) -> None:
        self._numbers = self.anchor = numbers

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
        return [rows[: self.sweep] for rows in self.rows]

    @property
    def summary(self) -> Summary:
        """What the chains have to say together, made once for each state of theirs."""
        snapshots = self.ensemble.snapshots
        if self._summary is None or self._summary[0] is not snapshots:
            shares = [one.together for one in snapshots]
            summary = Summary(self.problem, self.settings, self.snapshot, self.traces, shares, self.edits)
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
        if show == "consensus" and self.problem.closed and len(self.summary.draws):
            return self.summary.numbers  # the likeliest name of each site, as it is exported
        return self.named(self.partition(show))

    def named(self, labels: NDArray[np.integer]) -> Longs:
        """(n,) the numbers on the screen for another partition: what overlaps most keeps its number."""
        return matched_numbers(labels, self.numbers, self._weight())

    @property
    def keeps_numbers(self) -> bool:
        """Whether what is exported has the numbers of the screen: after corrections of clusters.

        Objects are cut out pixel by pixel, so that they have no counterpart on the screen; and once some were edited,
        what is exported is what the layer of regions shows.
        """
        objects = self.settings.view == "objects" and not self.problem.closed
        return bool(self.changes) and self.summary.edits is None and not objects

    def carried(self, values: NDArray[Any]) -> NDArray[Any]:
        """(n,) one value for each site, from one for each site before some were cut; the others are left alone."""
        return values[self.lineage[len(values)]] if len(values) in self.lineage else values

    # ---- what the chain does

    def advance(self, most: int | None = None) -> None:
        """Go on for a moment: by `most` sweeps at most, or to the target."""
        most = max(self.target - self.sweep, 1) if most is None else most
        to_anchor = sweeps_to_anchor(self.sweep, self.problem.n)
        to_check = CHECK_EVERY - self.sweep % CHECK_EVERY if self.settings.stop == "agreement" else to_anchor
        anchored_at = self.sweep + to_anchor
        self.ensemble.advance(min(most, to_anchor, to_check))
        for c, snapshot in enumerate(self.ensemble.snapshots):
            if snapshot.sweep > len(self.rows[c]):  # twice as many, so that growing costs little in the long run
                longer = np.full((2 * snapshot.sweep, TRACE), np.nan)
                longer[: len(self.rows[c])] = self.rows[c]
                self.rows[c] = longer
            self.rows[c][snapshot.sweep - len(snapshot.trace) : snapshot.sweep] = snapshot.trace
        self._numbers = self._numbers_now()
        if self.sweep == anchored_at:
            self.anchor = self._numbers
        self.history.keep(self.sweep, self.numbers)
        if to_be_judged(self.settings, self.sweep) and self.summary.diagnosis.agree:
            self.target = self.sweep

    @deed
    def run_for(self, sweeps: int) -> None:
        """Set the target so many sweeps from here; a run of the settings' length counts enough of them in any case."""
        if sweeps:
            self.log.go_on()
        self._head_for(sweeps)

    def hold(self) -> None:
        """A run that was interrupted on its way rests, and goes on to its target when it is asked to."""
        self.pending, self.target = (self.target if self.target > self.sweep else 0), self.sweep

    def go_on_for(self, sweeps: int) -> None:
        """As :meth:`run_for`; a run that was held goes on to its own target instead."""
        if not self.pending:
            self.run_for(sweeps)
        elif sweeps:
            self.target, self.pending = self.pending, 0

    def _head_for(self, sweeps: int) -> None:
        """Set the target, and note it among the steps."""
        self.taken += self._stop()
        self.target, self.pending = self.sweep + sweeps, 0
        if sweeps:
            self.taken.append({"sweep": self.sweep, "what": "run", "sweeps": sweeps})
        if sweeps and sweeps >= self.settings.sweeps:
            self._count_enough()

    @deed
    def wake(self) -> None:
        """A chain at rest that was corrected settles and rests again; one that was put elsewhere stays there."""
        if self.changes[-1]["what"] != "go back":
            self.settle()

    def settle(self) -> None:
        """After a correction of a chain at rest: go on until enough sweeps are counted to know what it means.

        Unlike a run it leaves the correction one that can be taken back with all that followed from it.
        """
        self._head_for(self.length)

    def _count_enough(self) -> None:
        """Move the target of a run that is on, if too few sweeps would be counted after a correction."""
        end = self.ensemble.chains[0].options.burn_in
        if self.target > self.sweep and self.changes:
            self.target = max(self.target, end + max(FEWEST_SWEEPS, self.since + self.length - end))

    @property
    def steps(self) -> list[dict[str, Any]]:
        """What made the chains come to where they are, ready for JSON; empty if settings and seed say it all.

        Runs, settings that changed what the chain did, and corrections, each with the sweep after which it came.
        """
        alone = {"sweep": 0, "what": "run", "sweeps": self.settings.sweeps}
        steps = [*self.taken, *self._stop()]
        return [] if steps in ([], [alone]) else steps

    def _stop(self) -> list[dict[str, Any]]:
        """The step of a run that has not come to its target, if there is one."""
        return [{"sweep": self.sweep, "what": "stopped"}] if self.sweep < max(self.target, self.pending) else []

    def rename(self, image: NDArray[np.integer]) -> None:
        """Take over the numbers of another label image of the same shape where regions overlap.

        For the next slice of a stack: what goes on through the stack keeps its colour.
        """
        numbers = np.maximum(self.problem.labels_under(image, "image"), 0).astype(np.int64)
        numbers[self.locks] = self.numbers[self.locks]
        if numbers.any():
            self.numbers = matched_numbers(self.ensemble.snapshots[0].labels, numbers, self._weight())

    def _numbers_now(self) -> Longs:
        """(n,) the numbers of the clusters of the first chain: those that they had, as far as they are the same.

        The colours of objects come and go with every sweep, so that whoever follows them would come to numbers that
        depend on how often he looks: they are numbered anew, and what is locked keeps its number.
        """
        labels = self.ensemble.snapshots[0].labels
        if self.problem.coloured:
            held = np.where(self.locks, self.numbers, -1).astype(np.int32)
            return numbered(canonical(labels.astype(np.int32)), held)
        return matched_numbers(labels, self.anchor, self._weight())

    def _weight(self) -> Floats:
        return screen_weight(self.locks, self.pixels)

    def keep_traces(self, traces: Sequence[Floats]) -> None:
        """Take over (sweeps, 3) what was traced of each chain so far."""
        self.rows = [np.concatenate((rows, np.full((1024, TRACE), np.nan))) for rows in traces]

    def forget_summary(self) -> None:
        """What was said of earlier states does not hold any more."""
        self._summary = None


def sweeps_to_anchor(sweep: int, n: int) -> int:
    """Sweeps from one to the next at which numbers are anchored, for n sites.

    From wherever between two of them somebody asks, the next is the same.

    Examples
    --------
    >>> [sweep + sweeps_to_anchor(sweep, n=2000) for sweep in (0, 49, 50, 990, 1000, 1090, 9000)]
    [50, 50, 100, 1000, 1100, 1100, 9200]
    >>> 9000 + sweeps_to_anchor(9000, n=50_000)
    9050
    """
    doublings = min(max(sweep // EARLY, 1).bit_length(), max(MOMENT // n, 1).bit_length()) - 1
    stride = CHECK_EVERY << doublings
    return stride - sweep % stride


def screen_weight(locks: Mask, pixels: Floats) -> Floats:
    """(n,) how much each site counts when numbers are matched, from what is locked and its pixels."""
    return np.where(locks, LOCK_WEIGHT, pixels)


def first_numbers(problem: Problem, labels: Ints, clamps: Ints | None, init: Any, weight: Floats) -> Longs:
    """(n,) numbers on the screen of the first state that is shown, `labels` (n,).

    A start of the user's own keeps its numbers; 0 is nobody's.

    Parameters
    ----------
    clamps : (n,) seeds, -1 for a free site, or None. init : label image, or None. weight : (n,) of the sites.
    """
    own = np.zeros(problem.n, np.int64) if init is None else np.maximum(problem.labels_under(init, "init"), 0)
    if clamps is not None:
        own = np.where(clamps >= 0, clamps, own)
    return matched_numbers(labels, own, weight) if own.any() else labels.astype(np.int64) + 1
