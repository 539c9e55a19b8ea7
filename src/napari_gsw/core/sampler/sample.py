"""`sample` is a generator of immutable snapshots, everything else drains it.

A snapshot carries the whole state of its chain (:attr:`Snapshot.state`, plain arrays), and ``sample(problem,
state=...)`` goes on from there bit for bit as if it had never stopped.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from napari_gsw.core.array_types import Arrays
from napari_gsw.core.errors import InputError, check_integer, check_number, check_seed, to_float_array
from napari_gsw.core.model.problem import Problem, check_problem
from napari_gsw.core.sampler import bonds as bonding
from napari_gsw.core.sampler.chain import Chain, adapt_n_sweeps, make_start_labels, start_chain, step
from napari_gsw.core.sampler.options import SamplerOptions, make_annealing, make_split_moves
from napari_gsw.core.sampler.snapshot import (
    Snapshot,
    check_consistent,
    check_state,
    make_readonly,
    make_snapshot,
    restore_chain,
)
from napari_gsw.core.sampler.state import N_TRACED, Bonds, Moves
from napari_gsw.core.sampler.tempering import add_replicas, restore_replicas
from napari_gsw.core.threads import run_in_thread

# More than anybody has time for; the trace of a run has a row for each.
MAX_SWEEPS = 10**12


def sample(
    problem: Problem,
    sweeps: int = 1000,
    seed: int | None = 0,
    lam: ArrayLike | None = None,
    init: ArrayLike | None = None,
    every: int = 1,
    *,
    bonds: Bonds | None = None,
    seeds: ArrayLike | None = None,
    regroups: int | None = None,
    burn_in: int | None = None,
    splits: int | Moves | None = None,
    full_scans: float | None = None,
    annealing: tuple[float, int] | None = None,
    ladder: ArrayLike | None = None,
    state: Arrays | None = None,
    interval: float | None = None,
) -> Iterator[Snapshot]:
    """Run the generalized Swendsen-Wang sampler and yield a snapshot after every `every` sweeps, and after the last.

    Without a sweep (``sweeps=0``) the only snapshot is the start.

    Parameters
    ----------
    problem : what to sample from.
    sweeps : number of sweeps from here on.
    seed : the same problem, arguments and seed give the same labels, bit for bit, whatever `every` is; None draws one.
    lam : delta_ij for all edges, or one for each (0: single-site Gibbs, 1: classical Swendsen-Wang). None bonds as the
        settings say with which the problem was prepared from an image, and by 10, the paper's choice, without an image.
    init : (n,) labels to start from; None starts as the settings say, and without an image from one cluster (or the
        fewest that the prior's size limits allow).
    bonds : how to bond instead of by `lam`; see :mod:`napari_gsw.core.sampler.bonds`.
    seeds : (n,) clamped sites: equal numbers >= 0 stay together and apart from other numbers, -1 is free.
    regroups : whole-cluster moves after each sweep; None as the settings say, which make one if the prior limits
        cluster sizes, where single moves cannot always cross.
    burn_in : sweeps, counted from the first start of the chain, that the running sums leave out; None as the settings
        say of so many sweeps, and 0 without an image.
    splits : moves after each sweep that split a cluster or merge two, or a record that also says how; None as the
        problem's settings say.
    full_scans : share of the sweeps that weigh every cluster; in the others a site weighs only the clusters next door
        and a new one, which costs by its neighbours and not by the number of clusters. None as the problem's settings
        say, and 1 without an image.
    annealing : temperature of the first sweep, and number of sweeps over which it falls to 1. The running sums leave
        these sweeps out. None as the settings say, and without an image 1 throughout.
    ladder : inverse temperatures of replicas that exchange their states, from 1 downwards; snapshots are of the first.
        See :mod:`napari_gsw.core.sampler.tempering`. None as the settings say, and without an image one chain.
    state : arrays of an earlier snapshot of the same problem; `seed`, `init`, `seeds`, `annealing` and `ladder` then
        come from it, and so do bonds, `regroups`, `burn_in`, `splits` and `full_scans` where they are not given.
    interval : yield about every so many seconds instead, for someone who watches or may want to stop.
    """
    check_problem(problem)
    sweeps, seed = check_integer("sweeps", sweeps, most=MAX_SWEEPS), check_seed(seed)
    every = min(check_integer("every", every, 1), max(sweeps, 1))
    if interval is not None:
        check_number("interval", interval, 0, math.inf)
    if bonds is not None:
        bonds = bonding.check_bonds(problem, bonds)
    elif lam is not None:
        bonds = bonding.constant_bonds(problem, lam)
    changes = {"bonds": bonds, "regroups": regroups, "burn_in": burn_in}
    if state is not None:
        chain = resume_chain(problem, state, **changes)
        chain.options = chain.options.replace(moves=change_moves(chain.options.moves, splits, full_scans))
        return _drain(chain, sweeps, every, interval)
    options = SamplerOptions.from_problem(problem, sweeps).replace(
        annealing=None if annealing is None else make_annealing(*two_of(annealing)),
        ladder=None if ladder is None else to_float_array("ladder", ladder),
        **changes,
    )
    options = options.replace(moves=change_moves(options.moves, splits, full_scans))
    if init is None and problem.settings is not None:
        init = make_start_labels(problem, problem.settings, seed, seeds)
    return _drain(begin_chain(problem, options, seed, init, seeds), sweeps, every, interval)


def two_of(annealing: Any) -> tuple[Any, Any]:
    """A temperature and a number of sweeps, or an InputError."""
    if not isinstance(annealing, (list, tuple)) or len(annealing) != 2:
        raise InputError(f"annealing must be a temperature and a number of sweeps, not {annealing!r}")
    return annealing[0], annealing[1]


def change_moves(moves: Moves, splits: int | Moves | None, full_scans: float | None) -> Moves:
    """The moves with another number of splits, or another share of full scans; None leaves what there is."""
    return make_split_moves(moves if splits is None else splits, moves.full if full_scans is None else full_scans)


def begin_chain(
    problem: Problem, options: SamplerOptions, seed: int, init: ArrayLike | None, seeds: ArrayLike | None
) -> Chain:
    """A chain before its first sweep, with hotter replicas if the options have a ladder.

    Parameters
    ----------
    init : (n,) labels, or None for as few clusters as there can be. seeds : (n,) clamps, -1 for a free site, or None.
    """
    chain = start_chain(problem, options, seed, init, seeds)
    return chain if options.ladder is None else add_replicas(chain, options.ladder, seed)


def resume_chain(problem: Problem, state: Arrays, **changes: Any) -> Chain:
    """The chain whose state this is, tempered if it was; `changes` are options that are to be others."""
    arrays = check_state(problem, state)
    chain = restore_chain(problem, arrays, **changes)
    check_consistent(chain)
    return restore_replicas(chain, arrays) if "ladder" in arrays else chain


def _drain(chain: Chain, sweeps: int, every: int, interval: float | None) -> Iterator[Snapshot]:
    if sweeps == 0:
        yield make_snapshot(chain, np.empty((0, N_TRACED)))
    size = every if interval is None else 1
    while sweeps > 0:
        size = min(size, sweeps)
        began = time.perf_counter()
        trace = run_in_thread(chain.stop, step, chain, size)
        took = time.perf_counter() - began
        sweeps -= size
        yield make_snapshot(chain, trace)
        if interval is not None:
            size = adapt_n_sweeps(size, took, interval)


def run(problem: Problem, sweeps: int = 1000, **more: Any) -> Snapshot:
    """Drain :func:`sample` and return the last snapshot; its trace is that of the whole run."""
    traces, last = [], None
    sweeps = check_integer("sweeps", sweeps, most=MAX_SWEEPS)
    for last in sample(problem, sweeps, **{"every": max(sweeps, 1)} | more):
        traces.append(last.trace)
    assert last is not None
    return dataclasses.replace(last, trace=make_readonly(np.concatenate(traces)))
