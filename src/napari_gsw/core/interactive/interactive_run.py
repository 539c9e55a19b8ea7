"""Chains that a user watches and corrects.

A chain may call the same cluster 3 in one sweep and 7 in the next. The user sees, and paints with, labels that stay
with their regions (:mod:`napari_gsw.core.interactive.numbering`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.array_types import BoolArray, Float64Array, Int32Array, Int64Array, LabelImage, Sites
from napari_gsw.core.errors import InputError
from napari_gsw.core.interactive.actions import ActionLog, Correction, History, InitialState, recorded
from napari_gsw.core.interactive.label_changes import (
    LabelChange,
    apply_change,
    change_of_edit,
    change_of_paint,
    change_of_release,
    clamps_of_edit,
    find_conflicting_scribbles,
    map_split_sites,
)
from napari_gsw.core.interactive.numbering import match_labels, match_painted_labels, propose_labels
from napari_gsw.core.interactive.saved_session import STATE_NAMES, InteractiveState
from napari_gsw.core.model.external_field import add_anchors
from napari_gsw.core.model.priors import Exactly
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.model.scribble_field import ScribbleField, is_closed
from napari_gsw.core.partitions import canonical_labels
from napari_gsw.core.pipeline.sampling_run import CHECK_EVERY, SamplingRun, make_ensemble
from napari_gsw.core.pipeline.saved_run import SavedRun
from napari_gsw.core.posterior.diagnostics import MIN_SWEEPS
from napari_gsw.core.posterior.object_edits import Edit, FixedPixels, find_fixed_sites
from napari_gsw.core.posterior.summary import number_clusters
from napari_gsw.core.posterior.uncertainty import count_site_pixels
from napari_gsw.core.sampler.bonds import bonds_from_settings
from napari_gsw.core.sampler.chain import Chain, resample_sites, reset_sums, restart_from
from napari_gsw.core.sampler.options import SamplerOptions
from napari_gsw.core.sampler.state import COUNTED
from napari_gsw.core.settings import Settings
from napari_gsw.core.sites.scribbles import Scribble

# The current sample of the first chain, the best sample or the consensus of all, or the bounds of the credible ball.
DisplayedState = Literal["current", "best", "consensus", "coarsest", "finest", "farthest"]
# Makes the problem again for sites, split between scribbles (two label images).
RebuildProblem = Callable[[Sites, LabelImage], Problem]

# Labels are matched with reference labels, which are renewed at certain sweeps only, so that labels do not depend on
# how often somebody looks: every CHECK_EVERY sweeps before EARLY, later with a stride that doubles with the sweep, at
# most to so many sweeps as take a moment with n sites (MOMENT / n times CHECK_EVERY). Chains may sweep on in between.
EARLY, MOMENT = 500, 25_000
# A locked site outweighs all free ones when labels are matched, so that a lock keeps its label.
LOCK_WEIGHT = 1e9
# The screen shows 16 bits; more is slow in napari.
MAX_LABEL = int(np.iinfo(np.uint16).max)
# Shortest run after a correction that a burn-in is a fraction of, and longest run of chains at rest.
MIN_RUN, MAX_SETTLING = 2 * MIN_SWEEPS, 400
# Settings of what is locked, which may change as the locks may.
SCRIBBLE_SETTINGS = ("steering", "only_painted")
# Settings that change how the chains move, or what is made of their samples, but not the posterior.
MOVE_SETTINGS = (
    "sampler", "lam", "tau", "distance", "bond", "bond_low", "bond_cap", "regroups", "splits", "full_scans", "sweeps",
    "stop", "burn_in",
)  # fmt: skip
LIVE_SETTINGS = frozenset(
    (*MOVE_SETTINGS, *SCRIBBLE_SETTINGS, "consensus", "polish", "view", "neck", "min_region", "merge", "join")
)
NO_SITES: Int64Array = np.zeros(0, np.int64)


class InteractiveRun(SamplingRun):
    """A sampling run with labels on the screen, locks, scribbles, edits and a log.

    :class:`~napari_gsw.core.interactive.saved_session.InteractiveState` describes its attributes.
    """

    display_labels: Int64Array
    reference_labels: Int64Array
    locks: BoolArray
    painted: BoolArray
    scribbles: LabelImage | None
    names: LabelImage | None
    closed_at_start: bool | None
    restarted_at: int
    run_length: int
    history: History
    log: ActionLog
    initial: InitialState
    scribble_field: ScribbleField
    rebuild_problem: RebuildProblem | None = None  # None if sites cannot be split
    is_acting = False  # an action is under way

    def __init__(
        self,
        problem: Problem,
        settings: Settings,
        seed: int,
        seeds: NDArray[np.integer] | None = None,
        init: NDArray[np.integer] | None = None,
        closed: bool | None = None,
    ) -> None:
        """Begin a run; parameters are those of :func:`napari_gsw.segment`.

        `closed` says whether the painted labels are the only ones, where the settings leave it open; None decides by
        what is painted before the first sweep.
        """
        clamps = add_anchors(problem.map_field, None if seeds is None else problem.labels_under(seeds, "seeds"))
        by_seeds = settings.only_painted != "auto" or closed is None
        is_now_closed = is_closed(settings, clamps, problem.map_field) if by_seeds else bool(closed)
        steering = ScribbleField(problem, settings, is_now_closed)
        conditioned = problem if clamps is None else steering.apply_to_problem(clamps)
        super().__init__(conditioned, settings, seed, make_ensemble(conditioned, settings, seed, clamps, init))
        self.target = 0
        initial = InitialState(problem, settings, seeds, init, closed)
        self._set_state(self._first_state(clamps, initial, steering.closed), steering)
        self.history.keep(0, self.display_labels)

    @classmethod
    def restore(cls, saved: SavedRun) -> InteractiveRun:
        """Continue a saved run, also one that was not interactive."""
        run = cls.__new__(cls)
        run._continue(saved)
        prior = run.problem.prior.prior if isinstance(run.problem.prior, Exactly) else run.problem.prior
        unconditioned = run.problem.lend(replace(run.problem, field=None, prior=prior))
        state = saved.live
        if not isinstance(state, InteractiveState):
            seeds, init = saved.given.get("seeds"), saved.given.get("init")
            initial = InitialState(unconditioned, saved.settings, seeds, init, None)
            clamps = saved.states[0]["seeds"].astype(np.int32)
            state = run._first_state(clamps, initial, run.problem.closed)
            state.log.steps += [dict(step) for step in saved.steps]
        state.check(saved)
        run._set_state(state, ScribbleField(unconditioned, saved.settings, state.closed))
        return run

    def _first_state(self, clamps: Int32Array | None, initial: InitialState, closed: bool) -> InteractiveState:
        """Make the state of a run without corrections. A start of the user keeps its labels, except 0."""
        n, seeds, init = self.problem.n, initial.seeds, initial.init
        locks = np.zeros(n, bool) if clamps is None else np.asarray(clamps >= 0)
        known = np.zeros(n, np.int64) if init is None else np.maximum(self.problem.labels_under(init, "init"), 0)
        if clamps is not None:
            known = np.where(clamps >= 0, clamps, known)
        clusters = self.ensemble.snapshots[0].labels
        labels = clusters.astype(np.int64) + 1
        if known.any():
            labels = match_labels(clusters, known, np.where(locks, LOCK_WEIGHT, count_site_pixels(self.problem)))
        return InteractiveState(
            display_labels=labels,
            locks=locks,
            painted=locks,
            scribbles=seeds.astype(np.int32) if isinstance(seeds, np.ndarray) else None,
            closed=closed,
            closed_at_start=initial.closed,
            run_length=self.settings.sweeps,
            initial=initial,
        )

    def _set_state(self, state: InteractiveState, steering: ScribbleField) -> None:
        for name, value in vars(state.copy()).items():
            if name != "closed":
                setattr(self, name, value)
        self.reference_labels = state.display_labels if state.reference_labels is None else state.reference_labels
        self.scribble_field, self.pixels = steering, count_site_pixels(self.problem)

    def state(self) -> InteractiveState:
        """Return everything but the chains, as it is now."""
        values = {name: getattr(self, name) for name in STATE_NAMES if name != "closed"}
        return InteractiveState(closed=self.scribble_field.closed, **values).copy()

    # ---- labels

    def set_labels(self, labels: Int64Array) -> None:
        """Show other labels, which those of later sweeps are matched with."""
        self.display_labels = self.reference_labels = labels

    def _match_current(self) -> Int64Array:
        """(n,) labels of the first chain's current sample, matched with the reference labels.

        Clusters of object fragments come and go with every sweep. They are numbered anew, and what is locked keeps its
        label; matched labels would depend on how often somebody looks.
        """
        clusters = self.ensemble.snapshots[0].labels
        if self.problem.has_fragments:
            locked = np.where(self.locks, self.display_labels, -1).astype(np.int32)
            return number_clusters(canonical_labels(clusters.astype(np.int32)), locked)
        return match_labels(clusters, self.reference_labels, self._weights())

    def _weights(self) -> Float64Array:
        """(n,) weight of each site when labels are matched."""
        return np.where(self.locks, LOCK_WEIGHT, self.pixels)

    def named(self, clusters: NDArray[np.integer]) -> Int64Array:
        """(n,) labels of another partition: what overlaps most with the screen keeps its label."""
        return match_labels(clusters, self.display_labels, self._weights())

    def shown(self, show: DisplayedState) -> Int64Array:
        """(n,) labels of a state; of the best sample where no consensus is known yet."""
        summary = self.summary
        if show == "current":
            return self.display_labels
        if show == "best" or not len(summary.draws):
            return self.named(summary.snapshot.best.labels)
        if show != "consensus":
            return self.named(summary.credible_bounds[show])
        if self.problem.closed:
            return summary.numbers  # the most probable label of each site, as it is exported
        return self.named(summary.consensus("binder" if self.settings.consensus == "binder" else "vi").labels)

    @property
    def keeps_displayed_labels(self) -> bool:
        """True if exported labels are those on the screen: after corrections of clusters.

        Objects are cut out pixel by pixel, and edited ones are exported as the layer of regions shows them.
        """
        is_objects = self.settings.view == "objects" and not self.problem.closed
        return bool(self.log.corrections) and self.summary.edits is None and not is_objects

    def map_to_current_sites(self, values: NDArray[Any]) -> NDArray[Any]:
        """(n,) values per site, from values per site before some were split."""
        parents = self.log.site_parents.get(str(len(values)))
        return values if parents is None else values[parents]

    def match_image(self, image: NDArray[np.integer]) -> None:
        """Take over the labels of another label image of the same shape, such as the slice before, by overlap."""
        labels = np.maximum(self.problem.labels_under(image, "image"), 0).astype(np.int64)
        labels[self.locks] = self.display_labels[self.locks]
        if labels.any():
            self.set_labels(match_labels(self.ensemble.snapshots[0].labels, labels, self._weights()))

    # ---- sampling

    def advance(self, max_sweeps: int | None = None) -> None:
        """Sweep for a moment: at most `max_sweeps`, or to the target."""
        n_sweeps = max(self.target - self.sweep, 1) if max_sweeps is None else max_sweeps
        n_to_match = sweeps_to_match(self.sweep, self.problem.n)
        renewed_at = self.sweep + n_to_match
        super().advance(min(n_sweeps, n_to_match))
        self.display_labels = self._match_current()
        if self.sweep == renewed_at:
            self.reference_labels = self.display_labels
        self.history.keep(self.sweep, self.display_labels)

    @recorded
    def run_for(self, sweeps: int) -> None:
        """Set the target so many sweeps from here; a run of full length counts enough of them in any case."""
        if sweeps:  # an undo reverts the corrections so far only, without what followed from them
            self.log.done = [replace(correction, at_rest=None) for correction in self.log.done]
        self._set_target(sweeps)

    def pause(self) -> None:
        """Let an interrupted run rest, until it is resumed to its target."""
        self.paused_target, self.target = (self.target if self.target > self.sweep else 0), self.sweep

    def run_or_resume(self, sweeps: int) -> None:
        """Resume a paused run to its target, or run for so many sweeps."""
        if not self.paused_target:
            self.run_for(sweeps)
        elif sweeps:
            self.target, self.paused_target = self.paused_target, 0

    def _set_target(self, sweeps: int) -> None:
        self.log.steps += self._stopped()
        self.target, self.paused_target = self.sweep + sweeps, 0
        if sweeps:
            self.log.steps.append({"sweep": self.sweep, "what": "run", "sweeps": sweeps})
        if sweeps and sweeps >= self.settings.sweeps:
            self._count_enough()

    @recorded
    def resume_after_correction(self) -> None:
        """Let a run at rest settle after a correction, unless it went back to an earlier state."""
        if self.log.corrections[-1]["what"] != "go back":
            self.settle()

    def settle(self) -> None:
        """Run until enough sweeps are counted after a correction; undoing the correction reverts them, too."""
        self._set_target(self.run_length)

    def _count_enough(self) -> None:
        """Move the target of a run after a correction, if too few sweeps would be counted."""
        end = self.ensemble.chains[0].options.burn_in
        if self.target > self.sweep and self.log.corrections:
            self.target = max(self.target, end + max(MIN_SWEEPS, self.restarted_at + self.run_length - end))

    @property
    def steps(self) -> list[dict[str, Any]]:
        """Runs, changed settings and corrections, each with its sweep; empty if settings and seed say it all."""
        steps = [*self.log.steps, *self._stopped()]
        return [] if steps in ([], [{"sweep": 0, "what": "run", "sweeps": self.settings.sweeps}]) else steps

    def _stopped(self) -> list[dict[str, Any]]:
        """Return the step of a run that has not reached its target."""
        is_stopped = self.sweep < max(self.target, self.paused_target)
        return [{"sweep": self.sweep, "what": "stopped"}] if is_stopped else []

    # ---- settings

    def frozen_settings(self, settings: Settings) -> list[str]:
        """Return the names of the settings that differ and cannot change during a run."""
        return [k for k, v in settings.to_dict().items() if v != getattr(self.settings, k) and k not in LIVE_SETTINGS]

    @recorded
    def update_settings(self, settings: Settings) -> None:
        """Apply settings that do not change the posterior from the next sweep on; all of them or none."""
        if frozen := self.frozen_settings(settings):
            raise InputError(f"{', '.join(frozen)} cannot change during a run: the change applies at the next run")
        options = SamplerOptions.from_settings(self.problem, settings, settings.sweeps)
        before, n_steps = self.settings, len(self.log.steps)
        changed = {k: [getattr(before, k), getattr(settings, k)] for k in (*MOVE_SETTINGS, *SCRIBBLE_SETTINGS)}
        changed = {k: pair for k, pair in changed.items() if pair[0] != pair[1]}
        if changed:
            self.log.steps.append({"sweep": self.sweep, "what": "settings", "changed": changed})
        self.settings = settings
        if changed.keys() & set(SCRIBBLE_SETTINGS):
            try:
                self._apply_field()
            except InputError:
                self.settings = self.scribble_field.settings = before
                del self.log.steps[n_steps:]
                raise
        self._summary = None
        for chain in self.ensemble.chains:
            chain.options = chain.options.replace(bonds=options.bonds, moves=options.moves, regroups=options.regroups)
        if "sweeps" in changed and self.target > self.sweep:
            self.target = max(self.sweep, self.target + settings.sweeps - before.sweeps)
        if "burn_in" in changed:
            length = min(self.run_length, MAX_SETTLING) if self.log.corrections else self.run_length
            end = self.restarted_at + int(settings.burn_in * length)
            for chain in self.ensemble.chains:  # sums begin anew if they hold sweeps that the burn-in now leaves out
                if end > chain.options.burn_in or not chain.sums.counted[COUNTED]:
                    reset_sums(chain, max(end, self.sweep))
            self.ensemble.refresh()
            self._count_enough()

    def _apply_field(self) -> None:
        """Compute the field of what is locked anew, by the present settings."""
        self.scribble_field.settings = self.settings
        self._apply(NO_SITES, NO_SITES, np.zeros(0, bool), "steering", self.edits)

    # ---- corrections

    @recorded
    def paint(self, sites: Sequence[int] | NDArray[np.integer], number: Any, lock: bool = False) -> None:
        """Give sites (s,) a label, or one each; an unused label makes a new cluster, 0 frees and unlocks them.

        Locked sites stay locked, with the new label.
        """
        where = np.asarray(sites, dtype=np.int64)
        if where.size:
            after = np.broadcast_to(np.asarray(number, dtype=np.int64), where.shape).copy()
            check_labels_fit(after)
            self._paint(where, after, lock)

    @recorded
    def draw(self, stroke: Scribble, lock: bool = False) -> None:
        """Apply a scribble of the brush: sites in which it meets another locked label are split between the two."""
        if stroke.site_image is not self.problem.sites:  # they have been split since
            stroke = stroke.transfer(self.problem.site_image)
        if not stroke.sites.size:
            return
        check_labels_fit(stroke.labels)
        paint = self.paint_image()
        if self.rebuild_problem is not None and self.settings.steering > 0:
            conflicts = find_conflicting_scribbles(stroke, paint, self.locks, self.display_labels)
            if conflicts is not None:
                self._split_sites(self.rebuild_problem(self.problem.site_image, conflicts))
                stroke = stroke.transfer(self.problem.site_image)
        self._paint(stroke.sites, stroke.numbers, lock, change_of_paint(paint, stroke))

    def _paint(self, sites: Int64Array, after: Int64Array, lock: bool, paint: LabelChange | None = None) -> None:
        locked = (after > 0) & (self.locks[sites] | lock)
        self._correct(Correction(sites, self.display_labels[sites], after, self.locks[sites], locked, paint=paint))

    def _split_sites(self, rebuilt: Problem) -> None:
        """Go over to a problem with split sites; each piece keeps label and lock of its site."""
        problem, parents = map_split_sites(self.problem, rebuilt)
        edits, locks, labels = self.edits, self.locks[parents], self.display_labels[parents]
        if edits is not None:
            edits = replace(edits, sites=find_fixed_sites(edits.fixed, problem.site_image, problem.n))
        steering = ScribbleField(problem, self.settings, self.scribble_field.closed)
        conditioned = steering.apply_to_problem(scribble_labels(locks, labels, edits))
        bonds, chains = bonds_from_settings(conditioned, self.settings), []
        for chain in self.ensemble.chains:
            split = replace(chain, options=chain.options.replace(bonds=bonds))
            chains.append(
                restart_from(split, chain.labels[parents], chain.seeds[parents], chain.options.burn_in, conditioned)
            )
        n_before = self.problem.n
        self.problem, self.scribble_field, self._summary = conditioned, steering, None
        self.ensemble.chains = chains
        self.ensemble.refresh()
        self.set_labels(labels)
        self.locks, self.painted, self.edits = locks, self.painted[parents], edits
        self.pixels = count_site_pixels(problem)
        self.log.split_sites(parents, n_before)
        self.history.split_sites(parents)
        self.log.steps.append({"sweep": self.sweep, "what": "cut", "sites": problem.n - n_before})

    @recorded
    def lock(self, sites: Sequence[int] | NDArray[np.integer]) -> None:
        """Lock sites with their present labels."""
        self._set_locks(np.asarray(sites, dtype=np.int64), True)

    @recorded
    def unlock(self, sites: Sequence[int] | NDArray[np.integer]) -> None:
        """Unlock sites."""
        sites = np.asarray(sites, dtype=np.int64)
        self._set_locks(sites[self.locks[sites]], False)

    def _set_locks(self, sites: Int64Array, locked: bool) -> None:
        if sites.size:
            labels = self.display_labels[sites]
            self._correct(Correction(sites, labels, labels, self.locks[sites], np.full(sites.size, locked)))

    def check_edit(self) -> None:
        """Raise an InputError if objects cannot be edited."""
        if self.problem.closed:
            raise InputError("objects cannot be edited while all labels are painted ones: paint, or allow other labels")

    @recorded
    def edit(self, edit: Edit) -> None:
        """Fix objects or regions; their sites are clamped to clusters accordingly."""
        self.check_edit()
        change = change_of_edit(self.edits, edit)
        self.names = edit.shown
        fixed = apply_change(self.edits, change, edit.shown, self.problem)
        labels, locks = self.display_labels, self.locks
        sites, after, locked = clamps_of_edit(edit, self.edits, fixed, self.problem, labels, self.pixels)
        self._correct(Correction(sites, labels[sites], after, locks[sites], locked, pixels=change), edit.what)

    @recorded
    def set_fixed_pixels(self, edits: FixedPixels) -> None:
        """Take over the fixed pixels of another run of the same image, whose locks this one has already."""
        sites = find_fixed_sites(edits.fixed, self.problem.site_image, self.problem.n)
        self.edits, self.names = replace(edits, sites=sites), edits.names
        self._apply_field()

    @recorded
    def revert_to(self, numbers: Int64Array) -> None:
        """Continue from labels that were on the screen before; locked sites stay."""
        labels = self.map_to_current_sites(numbers)
        sites = np.flatnonzero((labels != self.display_labels) & ~self.locks)
        free = np.zeros(sites.size, bool)
        if sites.size:
            self._correct(Correction(sites, self.display_labels[sites], labels[sites], free, free), "go back")

    @recorded
    def undo(self) -> bool:
        """Undo the last correction; False if there is none."""
        if not self.log.done:
            return False
        last = self.log.done[-1]
        sites, before, locked = last.sites, last.before, last.locked_before
        if last.at_rest is not None:  # what followed from it is reverted, too
            locks = self.locks.copy()
            locks[sites] = locked
            sites = np.union1d(sites, np.flatnonzero(self.display_labels != last.at_rest))
            before, locked = last.at_rest[sites], locks[sites]
        self._apply(sites, before, locked, "undo", self._edits_after(last.pixels and last.pixels.reverse))
        self.log.undone.append(self.log.done.pop())
        self._apply_paint(last.paint and last.paint.reverse)
        return True

    @recorded
    def redo(self) -> bool:
        """Redo the correction that was undone last; False if there is none."""
        if not self.log.undone:
            return False
        last = self.log.undone[-1]
        self._apply(last.sites, last.after, last.locked_after, "redo", self._edits_after(last.pixels))
        self.log.done.append(self.log.undone.pop())
        self._apply_paint(last.paint)
        return True

    @recorded
    def forget_changes(self) -> None:
        """Forget the corrections so far, so that they cannot be undone."""
        self.log.done, self.log.undone = [], []

    def _correct(self, correction: Correction, why: str = "paint") -> None:
        if self.target <= self.sweep:
            correction = replace(correction, at_rest=self.display_labels)
        if correction.pixels is None and self.edits is not None and why != "go back":
            # A cluster that is painted or unlocked by hand overrides the object that was fixed there.
            is_moved = correction.before != correction.after
            sites = correction.sites[is_moved | (correction.locked_before & ~correction.locked_after)]
            correction = replace(correction, pixels=change_of_release(self.edits, self.problem.site_image, sites))
        edits = self._edits_after(correction.pixels)
        self._apply(correction.sites, correction.after, correction.locked_after, why, edits)
        self._apply_paint(correction.paint)
        self.log.add_correction(correction)

    def paint_image(self) -> LabelImage:
        r"""Return (\*shape,) int32 scribbles, 0 for none; changed in place."""
        if self.scribbles is None:
            self.scribbles = np.zeros(self.problem.site_image.shape, np.int32)
        return self.scribbles

    def locked_scribbles(self) -> LabelImage | None:
        r"""Return (\*shape,) scribbles in locked sites, 0 elsewhere; None if there are no scribbles."""
        if self.scribbles is None:
            return None
        locked = np.concatenate(([0], np.where(self.locks, self.display_labels, 0)))
        return np.where(locked[self.problem.site_image] == self.scribbles, self.scribbles, 0)

    def _apply_paint(self, change: LabelChange | None) -> None:
        if change is not None:
            self.paint_image().reshape(-1)[change.pixels] = change.after

    def _edits_after(self, change: LabelChange | None) -> FixedPixels | None:
        """Return the fixed pixels after a change; None if nothing is fixed."""
        if change is None:
            return self.edits
        assert self.names is not None
        fixed = apply_change(self.edits, change, self.names, self.problem)
        return fixed if fixed.fixed.any() else None

    def _apply(
        self, sites: NDArray[np.int64], after: Int64Array, locked: BoolArray, why: str, edits: FixedPixels | None
    ) -> None:
        """Give sites their labels and locks in every chain; all or, if the prior forbids it, nothing."""
        locks = self.locks.copy()
        locks[sites] = locked
        # Corrected chains have to settle again, however little is left of their run. At rest they wake for a while.
        length = max(self.settings.sweeps, MIN_RUN)
        if self.target <= self.sweep:
            length = min(length, MAX_SETTLING)
        # From their present state they settle soon, and a run that is stopped early should have counted some sweeps.
        burn_in = self.sweep + int(self.settings.burn_in * min(length, MAX_SETTLING))
        freed, closed, problem = sites[after == 0], self.scribble_field.closed, self.problem
        chains: list[Chain] = []
        all_labels: list[Int64Array] = []
        try:
            for c, chain in enumerate(self.ensemble.chains):
                # The weight of locks makes matching give a lock's label to its cluster in every chain.
                labels = self.display_labels.copy() if c == 0 else self.named(chain.labels)
                before = labels.copy()
                labels[sites[after > 0]] = after[after > 0]
                seeds = np.where(locks, labels, -1).astype(np.int32)
                if c == 0:  # locks have the same labels in all chains
                    scribbles = scribble_labels(locks, labels, edits)
                    if self.settings.only_painted != "auto" or (self.closed_at_start is None and self.sweep == 0):
                        self.scribble_field.closed = is_closed(self.settings, scribbles, problem.map_field)
                    problem = self.scribble_field.apply_to_problem(scribbles)
                labels = match_painted_labels(problem, labels, seeds)
                if why in ("paint", "redo", "steering"):
                    labels = propose_labels(problem, labels, seeds, before)
                chain = restart_from(chain, labels, seeds, burn_in, problem)
                if freed.size:
                    chain = restart_from(chain, resample_sites(chain, freed), seeds, burn_in)
                chains.append(chain)
                all_labels.append(labels)
        except InputError:
            self.scribble_field.closed = closed
            raise
        self.problem, self.ensemble.chains = problem, chains
        self.ensemble.refresh()
        self.locks, self.edits = locks, edits
        self.painted[sites] = after > 0
        self.set_labels(match_labels(self.ensemble.snapshots[0].labels, all_labels[0], self._weights()))
        self.log.steps.append({"sweep": self.sweep, "what": why, "sites": len(sites), "locked": int(locks.sum())})
        self.restarted_at, self.run_length = self.sweep, length
        self._count_enough()
        self.history.keep(self.sweep, self.display_labels)


def sweeps_to_match(sweep: int, n: int) -> int:
    """Return the sweeps until the reference labels of n sites are renewed; it is the same sweep from wherever.

    >>> [sweep + sweeps_to_match(sweep, n=2000) for sweep in (0, 49, 50, 990, 1000, 1090, 9000)]
    [50, 50, 100, 1000, 1100, 1100, 9200]
    """
    doublings = min(max(sweep // EARLY, 1).bit_length(), max(MOMENT // n, 1).bit_length()) - 1
    stride = CHECK_EVERY << doublings
    return stride - sweep % stride


def check_labels_fit(labels: Int64Array) -> None:
    """Raise an InputError if there is a label that the screen cannot show."""
    if labels.min() < 0 or labels.max() > MAX_LABEL:
        raise InputError(f"labels must be numbers in [0, {MAX_LABEL}], not {labels.min()} to {labels.max()}")


def scribble_labels(locks: BoolArray, labels: Int64Array, edits: FixedPixels | None) -> Int32Array:
    """(n,) label of a locked site, -1 for others; fixed objects say nothing about sites that they do not touch."""
    is_scribble = locks if edits is None else locks & (edits.sites == 0)
    return np.where(is_scribble, labels, -1).astype(np.int32)
