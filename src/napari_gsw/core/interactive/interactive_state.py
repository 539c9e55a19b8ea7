"""A chain that a person watches and steers as one record, and such a chain again from a record.

Beside what every run has (:mod:`napari_gsw.core.pipeline.saved_run`) it has what is on the screen, what is painted,
locked and fixed, what can be undone, and everything that was done, from the beginning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from napari_gsw.core.array_types import BoolArray, Int32Array, Int64Array, LabelImage
from napari_gsw.core.errors import InputError
from napari_gsw.core.interactive import actions
from napari_gsw.core.interactive.actions import Action, Correction, Log
from napari_gsw.core.interactive.corrections import PaintChange, PixelChange
from napari_gsw.core.interactive.history import History
from napari_gsw.core.interactive.interactive_run import InitialState, InteractiveRun, match_weights, number_first_state
from napari_gsw.core.model.priors import Exactly
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.model.scribble_field import ScribbleField
from napari_gsw.core.partitions import canonical_labels
from napari_gsw.core.pipeline import saved_run
from napari_gsw.core.pipeline.saved_run import (
    Kind,
    SavedRun,
    check_array,
    check_saved_problem,
    drop_lazy_arrays,
    plain_kind,
)
from napari_gsw.core.posterior.object_edits import FixedPixels
from napari_gsw.core.posterior.uncertainty import count_site_pixels
from napari_gsw.core.sampler.ensemble import Ensemble
from napari_gsw.core.sampler.sample import resume_chain


@dataclass(frozen=True, eq=False)
class InteractiveState:
    """What a person sees of a chain and has done to it; the names are those of :class:`LiveChain`.

    Attributes
    ----------
    numbers, locks, painted, strokes, edits, names, lineage : what is on the screen, held, painted and fixed.
    anchor : what the numbers are matched with; None in files of versions that did not know it.
    closed, closed_at_start : whether the painted labels are all that there are.
    marks, changes, taken, since, length : what was done when, and since when the posterior is what it is.
    history, log : what was on the screen, and what can be undone.
    begun, deeds : how it began, and all that was done to it.
    """

    numbers: Int64Array
    locks: BoolArray
    painted: BoolArray
    strokes: LabelImage | None
    edits: FixedPixels | None
    names: LabelImage | None
    lineage: Mapping[str, Int64Array]
    closed: bool
    closed_at_start: bool | None
    marks: list[int]
    changes: list[dict[str, Any]]
    taken: list[dict[str, Any]]
    since: int
    length: int
    history: History
    log: Log
    begun: InitialState
    deeds: list[Action]
    anchor: Int64Array | None = None


def save_interactive(live: InteractiveRun, looks: Mapping[str, Any], given: Mapping[str, Any]) -> SavedRun:
    """All of a chain as it is now; to be called where its sweeps are made, between two of them.

    Parameters
    ----------
    looks : what the image is known by. given : arrays of the user's own that went in, by name.
    """
    record = InteractiveState(
        numbers=live.numbers,
        locks=live.locks,
        painted=live.painted.copy(),
        strokes=None if live.strokes is None else live.strokes.copy(),
        edits=live.edits,
        names=live.names,
        lineage={str(n): line for n, line in live.lineage.items()},
        closed=live.steering.closed,
        closed_at_start=live.closed_at_start,
        marks=list(live.marks),
        changes=list(live.changes),
        taken=list(live.taken),
        since=live.since,
        length=live.length,
        history=live.history.copy(),
        log=Log(list(live.log.done), list(live.log.undone)),
        begun=live.begun,
        deeds=list(live.deeds),
        anchor=live.anchor,
    )
    return SavedRun(
        problem=live.problem,
        settings=live.settings,
        seed=live.seed,
        states=tuple(one.state for one in live.ensemble.snapshots),
        traces=tuple(rows.copy() for rows in live.traces),
        target=max(live.target, live.pending),
        steps=tuple(live.steps),
        looks=looks,
        given=drop_lazy_arrays(given),
        live=record,
    )


def restore_interactive(saved: SavedRun) -> InteractiveRun:
    """The chain of a record, to be seen and steered; also of a run that nobody has watched so far."""
    problem = saved.problem
    members = [resume_chain(problem, state) for state in saved.states]
    if any(chain.sweep != len(rows) for chain, rows in zip(members, saved.traces, strict=True)):
        raise InputError("the traces of the saved run do not belong to its chains")
    live = InteractiveRun.__new__(InteractiveRun)
    labels = canonical_labels(members[0].labels)
    record = saved.live if isinstance(saved.live, InteractiveState) else _unwatched(saved, labels)
    check_interactive(record, saved)
    live.settings, live.seed, live.problem = saved.settings, saved.seed, problem
    live.steering = ScribbleField(unconditioned_problem(problem), saved.settings, record.closed)
    live.ensemble, live.pixels = Ensemble(members), count_site_pixels(problem)
    live.target, live.pending = saved.target, 0
    live.keep_traces(saved.traces)
    for name in ("numbers", "locks", "edits", "names", "closed_at_start", "since", "length", "begun"):
        setattr(live, name, getattr(record, name))
    if record.anchor is not None:
        live.anchor = record.anchor
    live.painted, live.lineage = record.painted.copy(), {int(n): line for n, line in record.lineage.items()}
    live.strokes = None if record.strokes is None else np.array(record.strokes)
    live.history, live.log = record.history.copy(), Log(list(record.log.done), list(record.log.undone))
    live.marks, live.changes, live.taken = list(record.marks), list(record.changes), list(record.taken)
    live.deeds, live.acting = list(record.deeds), False
    live.forget_summary()
    return live


def unconditioned_problem(problem: Problem) -> Problem:
    """The problem before anything was painted."""
    prior = problem.prior.prior if isinstance(problem.prior, Exactly) else problem.prior
    return problem.lend(replace(problem, field=None, prior=prior))


def _unwatched(saved: SavedRun, labels: Int32Array) -> InteractiveState:
    """What a person would see of a run that nobody has watched so far, whose state is `labels` (n,)."""
    problem, clamps = saved.problem, saved.states[0]["seeds"].astype(np.int32)
    locks = np.asarray(clamps >= 0)
    seeds, init = saved.given.get("seeds"), saved.given.get("init")
    return InteractiveState(
        numbers=number_first_state(problem, labels, clamps, init, match_weights(locks, count_site_pixels(problem))),
        locks=locks,
        painted=locks.copy(),
        strokes=seeds.astype(np.int32) if isinstance(seeds, np.ndarray) else None,
        edits=None,
        names=None,
        lineage={},
        closed=problem.closed,
        closed_at_start=None,
        marks=[],
        changes=[],
        taken=[dict(step) for step in saved.steps],
        since=0,
        length=saved.settings.sweeps,
        history=History(),
        log=Log(),
        begun=InitialState(unconditioned_problem(problem), saved.settings, seeds, init, None),
        deeds=[],
    )


def check_interactive(record: InteractiveState, saved: SavedRun) -> None:
    """Raise an InputError if a record does not fit its run; a file may hold anything."""
    n, shape = saved.problem.n, getattr(saved.problem.sites, "shape", ())
    for numbers in (record.numbers,) if record.anchor is None else (record.numbers, record.anchor):
        check_array("what is on the screen", numbers, "iu", (n,))
        if int(numbers.min()) < 0:
            raise InputError("what is on the screen has numbers below 0")
    for name in ("locks", "painted"):
        check_array(f"what is {name}", getattr(record, name), "b", (n,))
    for what, image in (("what was painted", record.strokes), ("what was on the screen", record.names)):
        if image is not None:
            check_array(what, image, "iu", shape)
    if record.edits is not None:
        _check_pixels(record.edits, n, shape)
    for before, line in record.lineage.items():
        check_array("the sites before a cut", line, "iu", (n,))
        if not before.isdecimal() or int(line.min()) < 0 or int(line.max()) >= int(before):
            raise InputError("the sites before a cut are others")
    if not isinstance(record.history, History) or not isinstance(record.log, Log):
        raise InputError("what was on the screen or can be undone is damaged")
    record.history.check(n)
    for change in (*record.log.done, *record.log.undone):
        _check_change(change, n, int(np.prod(shape)))
    if not isinstance(record.begun, InitialState):
        raise InputError("how it began is damaged")
    check_saved_problem(record.begun.problem)
    if not all(isinstance(one, Action) for one in record.deeds):
        raise InputError("how it began and what was done is damaged")


def _check_pixels(edits: Any, n: int, shape: tuple[int, ...]) -> None:
    if not isinstance(edits, FixedPixels):
        raise InputError("what is fixed is damaged")
    check_array("what is fixed", edits.fixed, "i", shape)
    check_array("what was on the screen", edits.names, "iu", shape)
    check_array("the sites that are fixed", edits.sites, "i", (n,))


def _check_change(change: Any, n: int, pixels: int) -> None:
    """A correction that can be undone has sites and pixels that there are."""
    if not isinstance(change, Correction):
        raise InputError("what can be undone is damaged")
    count = len(change.sites)
    for name in ("sites", "before", "after"):
        check_array("a correction", getattr(change, name), "iu", (count,))
    for name in ("held_before", "held_after"):
        check_array("a correction", getattr(change, name), "b", (count,))
    if change.at_rest is not None:
        check_array("a correction", change.at_rest, "iu", (n,))
    places = [(change.sites, n)]
    if change.pixels is not None:
        places.append((change.pixels.where, pixels))
    if change.paint is not None:
        places.append((change.paint.pixels, pixels))
    for where, limit in places:
        if where.size and (int(where.min()) < 0 or int(where.max()) >= limit):
            raise InputError("a correction is of a place that is not in the image")


KINDS: Mapping[str, Kind] = {
    **saved_run.KINDS,
    **actions.KINDS,
    "live": plain_kind(InteractiveState),
    "beginning": plain_kind(InitialState),
    "history": Kind(History, History.fields, History.of),
    "log": plain_kind(Log),
    "change": plain_kind(Correction),
    "pixel change": plain_kind(PixelChange),
    "paint change": plain_kind(PaintChange),
    "held pixels": plain_kind(FixedPixels),
}
