"""A segmentation that a person watches: chains, the numbers on the screen, what it has come to, a memory.

What a person does to it is in :mod:`napari_gsw.core.interactive.interactive_run`.

Clusters have no names of their own: a chain may call the same cluster 3 in one sweep and 7 in the next. A person sees
numbers (and colours) that stay with their regions (:mod:`napari_gsw.core.interactive.numbering`), and paints with those.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.array_types import BoolArray, Float64Array, Int32Array, Int64Array, LabelImage, Sites
from napari_gsw.core.errors import InputError
from napari_gsw.core.interactive.actions import Action, Correction, Log, recorded
from napari_gsw.core.interactive.corrections import (
    PaintChange,
    PixelChange,
    changed_pixels,
    edit_clamps,
    find_conflicting_scribbles,
    make_paint_change,
    map_split_sites,
    pixel_change,
    released_pixels,
    split_chain_sites,
)
from napari_gsw.core.interactive.history import History
from napari_gsw.core.interactive.numbering import match_labels, match_painted_labels, propose_labels
from napari_gsw.core.model.external_field import add_anchors
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.model.scribble_field import ScribbleField, is_closed
from napari_gsw.core.partitions import canonical_labels
from napari_gsw.core.pipeline.sampling_run import CHECK_EVERY, is_check_sweep, make_ensemble
from napari_gsw.core.posterior.consensus import Loss
from napari_gsw.core.posterior.diagnostics import MIN_SWEEPS
from napari_gsw.core.posterior.object_edits import Edit, FixedPixels, find_fixed_sites
from napari_gsw.core.posterior.summary import Summary, number_clusters
from napari_gsw.core.posterior.uncertainty import count_site_pixels
from napari_gsw.core.sampler.chain import Chain, resample_sites, reset_sums, restart_from
from napari_gsw.core.sampler.ensemble import Ensemble, pool_snapshots
from napari_gsw.core.sampler.options import SamplerOptions
from napari_gsw.core.sampler.snapshot import Snapshot
from napari_gsw.core.sampler.state import COUNTED, N_TRACED
from napari_gsw.core.settings import Settings
from napari_gsw.core.sites.scribbles import Scribble

# What can be shown: the state of the first chain, the best state or the consensus of all, and the coarsest, finest and
# farthest partition of its 95 % ball.
DisplayedState = Literal["current", "best", "consensus", "coarsest", "finest", "farthest"]

# Numbers are anchored anew at certain sweeps, which depend on nothing but their own number and that of the sites: every
# fifty sweeps up to twice as many as EARLY, and then after as many as take a moment, this number over that of the sites
# times fifty. Between two such sweeps a chain need not come to rest.
EARLY, MOMENT = 500, 25_000

# A locked site outweighs every free one when numbers are matched, so that a lock keeps its number for ever.
LOCK_WEIGHT = 1e9


class InitialState(NamedTuple):
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
        clamps = add_anchors(problem.map_field, None if seeds is None else problem.labels_under(seeds, "seeds"))
        self.closed_at_start = closed
        by_seeds = settings.only_painted != "auto" or closed is None
        self.steering = ScribbleField(
            problem, settings, is_closed(settings, clamps, problem.map_field) if by_seeds else bool(closed)
        )
        self.problem = problem if clamps is None else self.steering.apply_to_problem(clamps)
        self.ensemble: Ensemble = make_ensemble(self.problem, settings, seed, clamps, init)
        n = problem.n
        self.locks: BoolArray = np.zeros(n, bool) if clamps is None else clamps >= 0
        self.painted = self.locks.copy()
        self.edits: FixedPixels | None = None
        self.pixels = count_site_pixels(problem)
        # Seeds are paint that was there before the first sweep.
        self.strokes: LabelImage | None = seeds.astype(np.int32) if isinstance(seeds, np.ndarray) else None
        self.lineage: dict[int, Int64Array] = {}
        labels = self.ensemble.snapshots[0].labels
        self.numbers = number_first_state(problem, labels, clamps, init, self._weight())
        self.begun = InitialState(problem, settings, seeds, init, closed)
        self.deeds: list[Action] = []
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
        self.rows = [np.empty((1024, N_TRACED)) for _ in self.ensemble.chains]
        self.history.keep(0, self.numbers)

    # ---- what there is to see

    @property
    def numbers(self) -> Int64Array:
        return self._numbers

    @numbers.setter
    def numbers(self, numbers: Int64Array) -> None:
        self._numbers = self.anchor = numbers

    @property
    def snapshot(self) -> Snapshot:
        """The first chain's snapshot, with the best state and the sums of all."""
        return pool_snapshots(self.ensemble.snapshots)

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

    def partition(self, show: DisplayedState) -> NDArray[np.int32]:
        """(n,) labels of what is to be shown; the best state where a consensus is not known yet."""
        summary = self.summary
        if show == "current":
            return summary.snapshot.labels
        if show == "best" or not len(summary.draws):
            return summary.snapshot.best.labels
        return summary.consensus(self.loss).labels if show == "consensus" else summary.credible_bounds[show]

    @property
    def loss(self) -> Loss:
        """The loss of the consensus: the one that the settings name, or else the variation of information."""
        return "binder" if self.settings.consensus == "binder" else "vi"

    def shown(self, show: DisplayedState) -> Int64Array:
        """(n,) numbers on the screen of what is to be shown."""
        if show == "current":
            return self.numbers
        if show == "consensus" and self.problem.closed and len(self.summary.draws):
            return self.summary.numbers  # the likeliest name of each site, as it is exported
        return self.named(self.partition(show))

    def named(self, labels: NDArray[np.integer]) -> Int64Array:
        """(n,) the numbers on the screen for another partition: what overlaps most keeps its number."""
        return match_labels(labels, self.numbers, self._weight())

    @property
    def keeps_displayed_labels(self) -> bool:
        """Whether what is exported has the numbers of the screen: after corrections of clusters.

        Objects are cut out pixel by pixel, so that they have no counterpart on the screen; and once some were edited,
        what is exported is what the layer of regions shows.
        """
        objects = self.settings.view == "objects" and not self.problem.closed
        return bool(self.changes) and self.summary.edits is None and not objects

    def map_to_current_sites(self, values: NDArray[Any]) -> NDArray[Any]:
        """(n,) one value for each site, from one for each site before some were cut; the others are left alone."""
        return values[self.lineage[len(values)]] if len(values) in self.lineage else values

    # ---- what the chain does

    def advance(self, most: int | None = None) -> None:
        """Go on for a moment: by `most` sweeps at most, or to the target."""
        most = max(self.target - self.sweep, 1) if most is None else most
        to_anchor = sweeps_to_match(self.sweep, self.problem.n)
        to_check = CHECK_EVERY - self.sweep % CHECK_EVERY if self.settings.stop == "agreement" else to_anchor
        anchored_at = self.sweep + to_anchor
        self.ensemble.advance(min(most, to_anchor, to_check))
        for c, snapshot in enumerate(self.ensemble.snapshots):
            if snapshot.sweep > len(self.rows[c]):  # twice as many, so that growing costs little in the long run
                longer = np.full((2 * snapshot.sweep, N_TRACED), np.nan)
                longer[: len(self.rows[c])] = self.rows[c]
                self.rows[c] = longer
            self.rows[c][snapshot.sweep - len(snapshot.trace) : snapshot.sweep] = snapshot.trace
        self._numbers = self._numbers_now()
        if self.sweep == anchored_at:
            self.anchor = self._numbers
        self.history.keep(self.sweep, self.numbers)
        if is_check_sweep(self.settings, self.sweep) and self.summary.diagnosis.agree:
            self.target = self.sweep

    @recorded
    def run_for(self, sweeps: int) -> None:
        """Set the target so many sweeps from here; a run of the settings' length counts enough of them in any case."""
        if sweeps:
            self.log.go_on()
        self._head_for(sweeps)

    def hold(self) -> None:
        """A run that was interrupted on its way rests, and goes on to its target when it is asked to."""
        self.pending, self.target = (self.target if self.target > self.sweep else 0), self.sweep

    def run_or_resume(self, sweeps: int) -> None:
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

    @recorded
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
            self.target = max(self.target, end + max(MIN_SWEEPS, self.since + self.length - end))

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
            self.numbers = match_labels(self.ensemble.snapshots[0].labels, numbers, self._weight())

    def _numbers_now(self) -> Int64Array:
        """(n,) the numbers of the clusters of the first chain: those that they had, as far as they are the same.

        The colours of objects come and go with every sweep, so that whoever follows them would come to numbers that
        depend on how often he looks: they are numbered anew, and what is locked keeps its number.
        """
        labels = self.ensemble.snapshots[0].labels
        if self.problem.has_fragments:
            held = np.where(self.locks, self.numbers, -1).astype(np.int32)
            return number_clusters(canonical_labels(labels.astype(np.int32)), held)
        return match_labels(labels, self.anchor, self._weight())

    def _weight(self) -> Float64Array:
        return match_weights(self.locks, self.pixels)

    def keep_traces(self, traces: Sequence[Float64Array]) -> None:
        """Take over (sweeps, 3) what was traced of each chain so far."""
        self.rows = [np.concatenate((rows, np.full((1024, N_TRACED), np.nan))) for rows in traces]

    def forget_summary(self) -> None:
        """What was said of earlier states does not hold any more."""
        self._summary = None


def sweeps_to_match(sweep: int, n: int) -> int:
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


def match_weights(locks: BoolArray, pixels: Float64Array) -> Float64Array:
    """(n,) how much each site counts when numbers are matched, from what is locked and its pixels."""
    return np.where(locks, LOCK_WEIGHT, pixels)


def number_first_state(
    problem: Problem, labels: Int32Array, clamps: Int32Array | None, init: Any, weight: Float64Array
) -> Int64Array:
    """(n,) numbers on the screen of the first state that is shown, `labels` (n,).

    A start of the user's own keeps its numbers; 0 is nobody's.

    Parameters
    ----------
    clamps : (n,) seeds, -1 for a free site, or None. init : label image, or None. weight : (n,) of the sites.
    """
    own = np.zeros(problem.n, np.int64) if init is None else np.maximum(problem.labels_under(init, "init"), 0)
    if clamps is not None:
        own = np.where(clamps >= 0, clamps, own)
    return match_labels(labels, own, weight) if own.any() else labels.astype(np.int64) + 1


# The screen shows 16 bits: more is slow in napari.
MAX_LABEL = int(np.iinfo(np.uint16).max)
# The run after a correction is as long as this at least, for its burn-in to be a share of.
MIN_RUN = 2 * MIN_SWEEPS
# A chain at rest that was corrected goes on for so many sweeps at most; the burn-in after any correction is a share of
# no more.
MAX_SETTLING = 400
# Cuts after which values of the sites before them can still be read.
MAX_SITE_MAPS = 8
# Settings of what is locked, which a person may change as he may change the locks.
SCRIBBLE_SETTINGS = ("steering", "only_painted")
# Settings that change how the chain moves, or what is made of it, but not where it settles: they may change while it
# runs.
MOVE_SETTINGS = (
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
LIVE_SETTINGS = frozenset(
    (*MOVE_SETTINGS, *SCRIBBLE_SETTINGS, "consensus", "polish", "view", "neck", "min_region", "merge", "join")
)


# Sites and strokes, two label images -> the problem of the sites as the strokes have cut them.
RebuildProblem = Callable[[Sites, LabelImage], Problem]


class InteractiveRun(WatchedChain):
    """Chains of one problem, what a person sees of them and does to them."""

    # What was on the screen before the last edit of objects.
    names: LabelImage | None = None
    # Makes the problem again for given sites, cut between strokes; None where sites cannot be cut.
    remake: RebuildProblem | None = None

    # ---- settings

    def check_live_settings(self, settings: Settings) -> None:
        """Raise an InputError that names the settings which change what is sampled."""
        frozen = [k for k, v in settings.to_dict().items() if v != getattr(self.settings, k) and k not in LIVE_SETTINGS]
        if frozen:
            raise InputError(f"{', '.join(frozen)} cannot change while the chain runs: it applies at the next run")

    @recorded
    def retune(self, settings: Settings) -> None:
        """Take over settings that do not change what is sampled, from the next sweep on; all of them or none."""
        self.check_live_settings(settings)
        options = SamplerOptions.from_settings(self.problem, settings, settings.sweeps)
        before = self.settings
        changed = {k: [getattr(before, k), getattr(settings, k)] for k in (*MOVE_SETTINGS, *SCRIBBLE_SETTINGS)}
        changed = {k: pair for k, pair in changed.items() if pair[0] != pair[1]}
        noted = len(self.taken)
        if changed:
            self.taken.append({"sweep": self.sweep, "what": "settings", "changed": changed})
        self.settings = settings
        if changed.keys() & set(SCRIBBLE_SETTINGS):
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
            length = min(self.length, MAX_SETTLING) if self.changes else self.length
            self._move_burn_in(self.since + int(settings.burn_in * length))

    def _steer(self) -> None:
        """Let what is locked speak as the settings say now, for closed or for open labels."""
        self.steering.settings = self.settings
        nothing = np.zeros(0, np.int64)
        self._apply(nothing, nothing, np.zeros(0, bool), "steering", self.edits)

    def _closed_by(self, seeds: Int32Array) -> bool:
        """Whether the painted labels are all that there are, once these (n,) are, -1 for a free site."""
        if self.settings.only_painted != "auto" or (self.closed_at_start is None and self.sweep == 0):
            return is_closed(self.settings, seeds, self.problem.map_field)
        return self.steering.closed

    def _move_burn_in(self, end: int) -> None:
        """Let the burn-in end at another sweep; the sums begin anew if they hold sweeps that it leaves out."""
        for chain in self.ensemble.chains:
            if end > chain.options.burn_in or not chain.sums.counted[COUNTED]:
                reset_sums(chain, max(end, self.sweep))
        self.ensemble.refresh()
        self._count_enough()

    # ---- what a person does

    @recorded
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
        check_labels_fit(after)
        self._paint(where, after, lock)

    @recorded
    def draw(self, stroke: Scribble, lock: bool = False) -> None:
        """Take over a stroke of the brush, pixel by pixel.

        A site in which it meets another label that was painted and is held there is cut between the two, so that
        neither is outvoted; otherwise the sites that it means take its labels, as :meth:`paint` gives them.
        """
        if stroke.site_image is not self.problem.sites:  # they have been cut since
            stroke = stroke.on(self.problem.site_image)
        if not stroke.sites.size:
            return
        check_labels_fit(stroke.labels)
        paint = self.paint_image()
        if self.remake is not None and self.settings.steering > 0:
            strokes = find_conflicting_scribbles(stroke, paint, self.locks, self.numbers)
            if strokes is not None:
                self._cut(strokes, self.remake)
                stroke = stroke.on(self.problem.site_image)
        self._paint(stroke.sites, stroke.numbers, lock, make_paint_change(paint, stroke))

    def _paint(self, sites: Int64Array, after: Int64Array, lock: bool, paint: PaintChange | None = None) -> None:
        held = self.locks[sites]
        self._do(Correction(sites, self.numbers[sites], after, held, (after > 0) & (held | lock), paint=paint))

    def _cut(self, strokes: LabelImage, remake: RebuildProblem) -> None:
        """Cut sites between strokes (\\*shape,); each piece keeps the number and the lock of its site."""
        problem, parents = map_split_sites(self.problem, remake(self.problem.site_image, strokes))
        edits, locks, numbers = self.edits, self.locks[parents], self.numbers[parents]
        if edits is not None:
            edits = replace(edits, sites=find_fixed_sites(edits.fixed, problem.site_image, problem.n))
        steering = ScribbleField(problem, self.settings, self.steering.closed)
        apply_to_problem = steering.apply_to_problem(scribble_labels(locks, numbers, edits))
        chains = [split_chain_sites(chain, apply_to_problem, parents, self.settings) for chain in self.ensemble.chains]
        more = problem.n - self.problem.n
        self.lineage = {n: line[parents] for n, line in [*self.lineage.items()][-MAX_SITE_MAPS:]} | {
            self.problem.n: parents
        }
        self.problem, self.steering, self._summary = apply_to_problem, steering, None
        self.ensemble.chains = chains
        self.ensemble.refresh()
        self.numbers, self.locks, self.painted, self.edits = numbers, locks, self.painted[parents], edits
        self.pixels = count_site_pixels(problem)
        self.log.refine(parents)
        self.history.refine(parents)
        self.taken.append({"sweep": self.sweep, "what": "cut", "sites": more})

    @recorded
    def lock(self, sites: Sequence[int] | NDArray[np.integer]) -> None:
        """Hold sites where they are."""
        where = np.asarray(sites, dtype=np.int64)
        if where.size:
            here = self.numbers[where]
            self._do(Correction(where, here, here, self.locks[where], np.ones(where.size, bool)))

    @recorded
    def unlock(self, sites: Sequence[int] | NDArray[np.integer]) -> None:
        """Let sites go, wherever they are."""
        where = np.asarray(sites, dtype=np.int64)
        where = where[self.locks[where]]
        if where.size:
            here = self.numbers[where]
            self._do(Correction(where, here, here, np.ones(where.size, bool), np.zeros(where.size, bool)))

    def check_edit(self) -> None:
        """Raise an InputError that says why objects cannot be edited, if they cannot."""
        if self.problem.closed:
            raise InputError("objects cannot be edited while all labels are painted ones: paint, or allow other labels")

    @recorded
    def edit(self, edit: Edit) -> None:
        """Fix objects or regions as a person wants them; their sites are clamped to clusters accordingly."""
        self.check_edit()
        pixels = pixel_change(self.edits, edit)
        self.names = edit.shown
        held = changed_pixels(self.edits, pixels, edit.shown, self.problem)
        clamps = edit_clamps(edit, self.edits, held, self.problem, self.numbers, self.pixels)
        where, after, locked = clamps
        self._do(Correction(where, self.numbers[where], after, self.locks[where], locked, pixels=pixels), edit.what)

    @recorded
    def adopt(self, edits: FixedPixels) -> None:
        """Take over what was fixed in another chain of the same image, whose locks this one has already."""
        sites = find_fixed_sites(edits.fixed, self.problem.site_image, self.problem.n)
        self.edits, self.names = replace(edits, sites=sites), edits.names
        self._steer()

    @recorded
    def go_back(self, numbers: Int64Array) -> None:
        """Continue from a state that was on the screen before; locked sites stay."""
        numbers = self.map_to_current_sites(numbers)
        where = np.flatnonzero((numbers != self.numbers) & ~self.locks)
        free = np.zeros(where.size, bool)
        if where.size:
            self._do(Correction(where, self.numbers[where], numbers[where], free, free), "go back")

    @recorded
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

    @recorded
    def redo(self) -> bool:
        """Do the correction again that was undone last; False if there is none."""
        if not self.log.undone:
            return False
        change = self.log.undone[-1]
        self._apply(change.sites, change.after, change.held_after, "redo", self._edits_after(change.pixels))
        self.log.done.append(self.log.undone.pop())
        self._put_paint(change.paint)
        return True

    def _do(self, change: Correction, why: str = "paint") -> None:
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

    def locked_scribbles(self) -> LabelImage | None:
        """(\\*shape,) what was painted and is held, 0 elsewhere; None if nothing was painted pixel by pixel."""
        if self.strokes is None:
            return None
        held = np.concatenate(([0], np.where(self.locks, self.numbers, 0)))
        return np.where(held[self.problem.site_image] == self.strokes, self.strokes, 0)

    def _put_paint(self, change: PaintChange | None, back: bool = False) -> None:
        """Note what was painted, or take it back."""
        if change is not None:
            self.paint_image().reshape(-1)[change.pixels] = change.before if back else change.after

    def _edits_after(self, change: PixelChange | None) -> FixedPixels | None:
        """What is fixed after a change of pixels; None if nothing is."""
        if change is None:
            return self.edits
        assert self.names is not None
        held = changed_pixels(self.edits, change, self.names, self.problem)
        return held if held.fixed.any() else None

    def _apply(
        self, sites: NDArray[np.int64], after: Int64Array, held: BoolArray, why: str, edits: FixedPixels | None
    ) -> None:
        """Give sites their numbers in every chain; all of it or, if the prior forbids it, nothing."""
        locks = self.locks.copy()
        locks[sites] = held
        # A corrected chain has to settle again, however little is left of its run.
        length = max(self.settings.sweeps, MIN_RUN)
        if self.target <= self.sweep:  # at rest; it wakes for a while and no more
            length = min(length, MAX_SETTLING)
        # From where it stands it settles soon; the burn-in of a long run would leave nothing counted if it is stopped.
        burn_in = self.sweep + int(self.settings.burn_in * min(length, MAX_SETTLING))
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
        self.numbers = match_labels(self.ensemble.snapshots[0].labels, corrected[0][1], self._weight())
        self.marks.append(self.sweep)
        self.changes.append({"sweep": self.sweep, "what": why, "sites": len(sites), "locked": int(locks.sum())})
        self.taken.append(self.changes[-1])
        self.since, self.length = self.sweep, length
        self._count_enough()
        self.history.keep(self.sweep, self.numbers)

    def _corrected(
        self,
        sites: NDArray[np.int64],
        after: Int64Array,
        locks: BoolArray,
        why: str,
        edits: FixedPixels | None,
        burn_in: int,
    ) -> tuple[Problem, list[tuple[Chain, Int64Array]]]:
        """The problem under the field of what is locked (n,), and each chain with its numbers as they are to be."""
        freed = sites[after == 0]
        corrected: list[tuple[Chain, Int64Array]] = []
        problem = self.problem
        for c, chain in enumerate(self.ensemble.chains):
            # The weight of locks makes matching give a lock's number to its cluster in every chain.
            numbers = self.numbers.copy() if c == 0 else match_labels(chain.labels, self.numbers, self._weight())
            before = numbers.copy()
            numbers[sites[after > 0]] = after[after > 0]
            seeds = np.where(locks, numbers, -1).astype(np.int32)
            if c == 0:  # locks have the same numbers in all chains
                taught = scribble_labels(locks, numbers, edits)
                self.steering.closed = self._closed_by(taught)
                problem = self.steering.apply_to_problem(taught)
            numbers = match_painted_labels(problem, numbers, seeds)
            if why in ("paint", "redo", "steering"):
                numbers = propose_labels(problem, numbers, seeds, before)
            new = restart_from(chain, numbers, seeds, burn_in, problem)
            if freed.size:
                new = restart_from(new, resample_sites(new, freed), seeds, burn_in)
            corrected.append((new, numbers))
        return problem, corrected

    @recorded
    def forget_changes(self) -> None:
        """Make what was done so far the beginning: it cannot be undone."""
        self.log = Log()


def check_labels_fit(numbers: Int64Array) -> None:
    """Raise an InputError if there is a label that the screen cannot show."""
    if numbers.min() < 0 or numbers.max() > MAX_LABEL:
        raise InputError(f"labels must be numbers in [0, {MAX_LABEL}], not {numbers.min()} to {numbers.max()}")


def scribble_labels(locks: BoolArray, numbers: Int64Array, edits: FixedPixels | None) -> Int32Array:
    """(n,) number of a site that teaches, -1 for the others: what is locked, but for objects that are fixed.

    Those say nothing about what they do not touch.
    """
    teaches = locks if edits is None else locks & (edits.sites == 0)
    return np.where(teaches, numbers, -1).astype(np.int32)
