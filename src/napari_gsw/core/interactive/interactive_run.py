"""Chains that a user watches and corrects, and their replay.

A chain may call the same cluster 3 in one sweep and 7 in the next. The user sees, and paints with, labels that stay
with their regions (:mod:`napari_gsw.core.interactive.label_changes`).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.array_types import BoolArray, Float64Array, Int32Array, Int64Array, LabelImage, Sites
from napari_gsw.core.errors import InputError
from napari_gsw.core.features.input_maps import MAP_NAMES
from napari_gsw.core.image.lazy import is_image_list
from napari_gsw.core.interactive.action_log import MAX_UNDO, Action, Correction, InitialState, LabelChange
from napari_gsw.core.interactive.label_changes import (
    apply_change,
    change_of_edit,
    change_of_paint,
    change_of_release,
    clamps_of_edit,
    find_conflicting_scribbles,
    map_split_sites,
    match_labels,
    match_painted_labels,
    propose_labels,
)
from napari_gsw.core.interactive.saved_session import InteractiveState
from napari_gsw.core.model.external_field import add_anchors
from napari_gsw.core.model.priors import Exactly
from napari_gsw.core.model.problem import Problem, site_pixels
from napari_gsw.core.model.scribble_field import ScribbleField, is_closed
from napari_gsw.core.partitions import canonical_labels
from napari_gsw.core.pipeline.prepare import Report, prepare
from napari_gsw.core.pipeline.provenance import describe_image
from napari_gsw.core.pipeline.saved_run import SavedRun, attach_image
from napari_gsw.core.pipeline.segment import CHECK_EVERY, SamplingRun, make_ensemble, segment
from napari_gsw.core.posterior.diagnostics import MIN_SWEEPS
from napari_gsw.core.posterior.object_edits import Edit, FixedPixels, find_fixed_sites
from napari_gsw.core.posterior.result import Result, SharedResult
from napari_gsw.core.posterior.summary import number_clusters
from napari_gsw.core.sampler.bonds import bonds_from_settings
from napari_gsw.core.sampler.chain import Chain, resample_sites, reset_sums, restart_from
from napari_gsw.core.sampler.options import SamplerOptions
from napari_gsw.core.sampler.state import COUNTED
from napari_gsw.core.settings import Settings
from napari_gsw.core.sites.blocked_labels import CompressedArray
from napari_gsw.core.sites.scribbles import Scribble

Method = TypeVar("Method", bound=Callable[..., Any])

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
# Names of methods that may be replayed; a file may name no others.
METHODS: set[str] = set()
# Files of format 1 know some methods under another name.
RENAMED_METHODS = {
    "retune": "update_settings",
    "adopt": "set_fixed_pixels",
    "go_back": "revert_to",
    "wake": "resume_after_correction",
}
# Inputs of a run beside its image.
INPUTS = ("sites", "mask", "seeds", "init", "beta", "linked", *MAP_NAMES)


def recorded(method: Method) -> Method:
    """Log calls of a method of a run, unless it is refused or part of another action."""
    signature = inspect.signature(method)
    METHODS.add(method.__name__)

    @functools.wraps(method)
    def call(self: InteractiveRun, *args: Any, **kwargs: Any) -> Any:
        if self.is_acting:
            return method(self, *args, **kwargs)
        sweep, labels = self.sweep, self.display_labels.astype(np.uint32)
        self.is_acting = True
        try:
            result = method(self, *args, **kwargs)
        finally:
            self.is_acting = False
        values = signature.bind(self, *args, **kwargs).arguments
        arguments = {name: PACKED.get(type(v), UNPACKED)[0](v) for name, v in values.items() if name != "self"}
        self.log.actions.append(Action(sweep, method.__name__, arguments, labels))
        return result

    return call  # type: ignore[return-value]


Packing = tuple[Callable[[Any], Any], Callable[[Any, Problem], Any]]
# Arguments in the log take little memory: they are without the site image, and their label images are compressed, in
# which a fixed background is -1. By type, how to pack and unpack them, the latter with the present problem.
PACKED: Mapping[type, Packing] = {
    Scribble: (lambda v: replace(v, site_image=None), lambda v, problem: replace(v, site_image=problem.site_image)),
    Edit: (
        lambda v: v._replace(shown=CompressedArray.of(v.shown)),
        lambda v, problem: v._replace(shown=v.shown.array()),
    ),
    FixedPixels: (
        lambda v: replace(v, fixed=CompressedArray.of(v.fixed + 1), names=CompressedArray.of(v.names)),
        lambda v, problem: replace(v, fixed=v.fixed.array().astype(np.int32) - 1, names=v.names.array()),
    ),
    np.ndarray: (np.copy, lambda v, problem: v),
}
UNPACKED: Packing = (lambda v: v, lambda v, problem: v)


class InteractiveRun(InteractiveState, SamplingRun):
    """A sampling run with labels on the screen, locks, scribbles, edits and a log."""

    reference_labels: Int64Array
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
        self.scribble_field = ScribbleField(problem, settings, is_now_closed)
        conditioned = problem if clamps is None else self.scribble_field.apply_to_problem(clamps)
        ensemble = make_ensemble(conditioned, settings, seed, clamps, init)
        SamplingRun.__init__(self, conditioned, settings, seed, ensemble)
        self.target = 0
        self._begin(clamps, InitialState(problem, settings, seeds, init, closed), is_now_closed)
        self.history.keep(0, self.display_labels)

    @classmethod
    def restore(cls, saved: SavedRun) -> InteractiveRun:
        """Continue a saved run, also one that was not interactive."""
        run = cls.resume(saved)
        prior = run.problem.prior.prior if isinstance(run.problem.prior, Exactly) else run.problem.prior
        unconditioned = run.problem.lend(replace(run.problem, field=None, prior=prior))
        if isinstance(saved.live, InteractiveState):
            saved.live.check(saved)
            vars(run).update(vars(saved.live.state()))
            run.reference_labels = run.display_labels if run.reference_labels is None else run.reference_labels
        else:
            initial = InitialState(
                unconditioned, saved.settings, saved.given.get("seeds"), saved.given.get("init"), None
            )
            run._begin(saved.states[0]["seeds"].astype(np.int32), initial, run.problem.closed)
            run.log.steps += [dict(step) for step in saved.steps]
        run.scribble_field = ScribbleField(unconditioned, saved.settings, run.closed)
        return run

    def _begin(self, clamps: Int32Array | None, initial: InitialState, closed: bool) -> None:
        """Set the state of a run without corrections. A start of the user keeps its labels, except 0."""
        n, seeds, init = self.problem.n, initial.seeds, initial.init
        locks = np.zeros(n, bool) if clamps is None else np.asarray(clamps >= 0)
        known = np.zeros(n, np.int64) if init is None else np.maximum(self.problem.labels_under(init, "init"), 0)
        if clamps is not None:
            known = np.where(clamps >= 0, clamps, known)
        clusters = self.ensemble.snapshots[0].labels
        labels = clusters.astype(np.int64) + 1
        if known.any():
            labels = match_labels(clusters, known, np.where(locks, LOCK_WEIGHT, site_pixels(self.problem)))
        InteractiveState.__init__(
            self,
            display_labels=labels,
            reference_labels=labels,
            locks=locks,
            painted=locks.copy(),
            scribbles=seeds.astype(np.int32) if isinstance(seeds, np.ndarray) else None,
            closed=closed,
            run_length=self.settings.sweeps,
            initial=initial,
        )

    # ---- labels

    def set_labels(self, labels: Int64Array) -> None:
        """Show other labels, which those of later sweeps are matched with."""
        self.display_labels = self.reference_labels = labels

    def _weights(self) -> Float64Array:
        """(n,) weight of each site when labels are matched."""
        return np.where(self.locks, LOCK_WEIGHT, site_pixels(self.problem))

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
        clusters = self.ensemble.snapshots[0].labels
        if self.problem.has_fragments:
            # Clusters of fragments come and go with every sweep. They are numbered anew, and what is locked keeps its
            # label; matched labels would depend on how often somebody looks.
            locked = np.where(self.locks, self.display_labels, -1).astype(np.int32)
            self.display_labels = number_clusters(canonical_labels(clusters.astype(np.int32)), locked)
        else:
            self.display_labels = match_labels(clusters, self.reference_labels, self._weights())
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
        nothing, unlocked = np.zeros(0, np.int64), np.zeros(0, bool)
        self._apply(Correction(nothing, nothing, nothing, unlocked, unlocked), "steering")

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
            self._correct(where, after, (after > 0) & (self.locks[where] | lock))

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
        locked = (stroke.numbers > 0) & (self.locks[stroke.sites] | lock)
        self._correct(stroke.sites, stroke.numbers, locked, paint=change_of_paint(paint, stroke))

    def _split_sites(self, rebuilt: Problem) -> None:
        """Go over to a problem with split sites; each piece keeps label and lock of its site."""
        problem, parents = map_split_sites(self.problem, rebuilt)
        n_before, locks, labels, edits = self.problem.n, self.locks[parents], self.display_labels[parents], self.edits
        if edits is not None:
            edits = replace(edits, sites=find_fixed_sites(edits.fixed, problem.site_image, problem.n))
        steering = ScribbleField(problem, self.settings, self.closed)
        conditioned = steering.apply_to_problem(scribble_labels(locks, labels, edits))
        bonds, chains = bonds_from_settings(conditioned, self.settings), []
        for chain in self.ensemble.chains:
            split = replace(chain, options=chain.options.replace(bonds=bonds))
            now, seeds = chain.labels[parents], chain.seeds[parents]
            chains.append(restart_from(split, now, seeds, chain.options.burn_in, conditioned))
        self.problem, self.scribble_field, self.ensemble.chains = conditioned, steering, chains
        self.ensemble.refresh()
        self._summary = None
        self.set_labels(labels)
        self.locks, self.painted, self.edits = locks, self.painted[parents], edits
        self.log.split_sites(parents, n_before)
        self.history.split_sites(parents)
        self.log.steps.append({"sweep": self.sweep, "what": "cut", "sites": problem.n - n_before})

    @recorded
    def lock(self, sites: Sequence[int] | NDArray[np.integer]) -> None:
        """Lock sites with their present labels."""
        where = np.asarray(sites, dtype=np.int64)
        if where.size:
            self._correct(where, self.display_labels[where], np.ones(where.size, bool))

    @recorded
    def unlock(self, sites: Sequence[int] | NDArray[np.integer]) -> None:
        """Unlock sites."""
        where = np.asarray(sites, dtype=np.int64)
        where = where[self.locks[where]]
        if where.size:
            self._correct(where, self.display_labels[where], np.zeros(where.size, bool))

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
        sites, after, locked = clamps_of_edit(edit, self.edits, fixed, self.problem, self.display_labels)
        self._correct(sites, after, locked, edit.what, pixels=change)

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
        if sites.size:
            self._correct(sites, labels[sites], np.zeros(sites.size, bool), "go back")

    @recorded
    def undo(self) -> bool:
        """Undo the last correction; False if there is none."""
        if not self.log.done:
            return False
        correction = self.log.done[-1].reverse
        if correction.at_rest is not None:  # what followed from it is reverted, too
            locks = self.locks.copy()
            locks[correction.sites] = correction.locked_after
            changed = self.display_labels != correction.at_rest
            sites = np.union1d(correction.sites, np.flatnonzero(changed))
            labels = correction.at_rest[sites]
            correction = replace(correction, sites=sites, after=labels, locked_after=locks[sites])
        self._apply(correction, "undo")
        self.log.undone.append(self.log.done.pop())
        return True

    @recorded
    def redo(self) -> bool:
        """Redo the correction that was undone last; False if there is none."""
        if not self.log.undone:
            return False
        self._apply(self.log.undone[-1], "redo")
        self.log.done.append(self.log.undone.pop())
        return True

    @recorded
    def forget_changes(self) -> None:
        """Forget the corrections so far, so that they cannot be undone."""
        self.log.done, self.log.undone = [], []

    def _correct(
        self,
        sites: Int64Array,
        after: Int64Array,
        locked: BoolArray,
        why: str = "paint",
        paint: LabelChange | None = None,
        pixels: LabelChange | None = None,
    ) -> None:
        """Give sites their labels and locks, and remember it; what was undone before cannot be redone after it."""
        before, locked_before = self.display_labels[sites], self.locks[sites]
        at_rest = self.display_labels if self.target <= self.sweep else None
        if pixels is None and self.edits is not None and why != "go back":
            # A cluster that is painted or unlocked by hand overrides the object that was fixed there.
            is_freed = (before != after) | (locked_before & ~locked)
            pixels = change_of_release(self.edits, self.problem.site_image, sites[is_freed])
        correction = Correction(sites, before, after, locked_before, locked, at_rest, pixels, paint)
        self._apply(correction, why)
        self.log.done.append(correction)
        del self.log.done[:-MAX_UNDO]
        self.log.undone.clear()

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

    def _apply(self, correction: Correction, why: str) -> None:
        """Give sites their labels and locks in every chain; all or, if the prior forbids it, nothing."""
        sites, after, pixels, paint = correction.sites, correction.after, correction.pixels, correction.paint
        locks = self.locks.copy()
        locks[sites] = correction.locked_after
        # Corrected chains have to settle again, however little is left of their run. At rest they wake for a while.
        length = max(self.settings.sweeps, MIN_RUN)
        if self.target <= self.sweep:
            length = min(length, MAX_SETTLING)
        # From their present state they settle soon, and a run that is stopped early should have counted some sweeps.
        burn_in = self.sweep + int(self.settings.burn_in * min(length, MAX_SETTLING))
        freed, problem, edits = sites[after == 0], self.problem, self.edits
        if pixels is not None:
            assert self.names is not None
            edits = apply_change(edits, pixels, self.names, problem)
            edits = edits if edits.fixed.any() else None  # nothing is fixed any more
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
                    if self.settings.only_painted != "auto" or (self.initial.closed is None and self.sweep == 0):
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
            self.scribble_field.closed = self.closed
            raise
        self.problem, self.ensemble.chains = problem, chains
        self.ensemble.refresh()
        self.locks, self.edits, self.closed = locks, edits, self.scribble_field.closed
        self.painted[sites] = after > 0
        if paint is not None:
            self.paint_image().reshape(-1)[paint.pixels] = paint.after
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


# ---- replay


def replay(saved: SavedRun, image: Any, *, report: Report | None = None) -> Result | SharedResult:
    """Segment an image as a saved run was segmented.

    The run's own image, which is known by its hash, gives the same labels: all runs, scribbles, locks, edits and
    changes of settings are repeated, each after the same sweep. For another image only settings and seed are used.

    Parameters
    ----------
    saved : SavedRun
        As :func:`napari_gsw.open_session` returns it.
    image : array-like or list of array-like
        Image, or the images of a joint segmentation.
    report : callable, optional
        As for :func:`napari_gsw.segment`; not called while actions are repeated.
    """
    same = bool(saved.looks) and describe_image(image) == dict(saved.looks)
    if not same or not isinstance(saved.live, InteractiveState):
        inputs = {name: value for name, value in saved.given.items() if name in INPUTS} if same else {}
        keeps_axes = same or is_image_list(image)
        settings = saved.settings if keeps_axes else saved.settings.replace(axes="auto", spacing="auto")
        outcome: Result | SharedResult = segment(image, settings, seed=saved.seed, report=report, **inputs)
        return outcome
    saved = attach_image(saved, image)
    inputs = {name: saved.given.get(name) for name in ("mask", *MAP_NAMES)}
    run = replay_run(saved, lambda sites, seeds: prepare(image, saved.settings, sites=sites, seeds=seeds, **inputs))
    result = run.result()
    if isinstance(result, SharedResult) or not run.keeps_displayed_labels:
        return result
    labels = run.problem.paint(run.named(run.summary.numbers)).astype(result.labels.dtype)
    return replace(result, labels=labels)


def replay_run(saved: SavedRun, rebuild_problem: RebuildProblem | None = None) -> InteractiveRun:
    """Begin a saved interactive run again and repeat its actions.

    `rebuild_problem` makes the problem again for sites that scribbles have split.
    """
    state = saved.live
    if not isinstance(state, InteractiveState):
        raise InputError("the run has no actions of a user: segment its image again with its settings and its seed")
    first = state.initial
    run = InteractiveRun(first.problem, first.settings, saved.seed, first.seeds, first.init, first.closed)
    run.inputs, run.image_digest, run.rebuild_problem = saved.given, saved.looks, rebuild_problem
    replay_actions(run, state.log.actions, saved.sweep)
    # In older versions they depended on how often they were drawn.
    if not np.array_equal(run.display_labels, state.display_labels):
        run.set_labels(state.display_labels)
    return run


def replay_actions(run: InteractiveRun, actions: Sequence[Action], sweep: int) -> None:
    """Repeat actions on a run at its start, and sweep on to `sweep`."""
    for action in actions:
        method = RENAMED_METHODS.get(action.method, action.method)
        if method not in METHODS:
            raise InputError(f"a run has no action {method!r}")
        while run.sweep < action.sweep:
            run.advance(action.sweep - run.sweep)
        if action.labels.shape != run.display_labels.shape:
            raise InputError("an action belongs to other sites")
        if not np.array_equal(run.display_labels, action.labels):  # as in replay_run
            run.set_labels(action.labels.astype(np.int64))
        values = action.arguments.items()
        getattr(run, method)(**{k: PACKED.get(type(v), UNPACKED)[1](v, run.problem) for k, v in values})
    while run.sweep < sweep:
        run.advance(sweep - run.sweep)
