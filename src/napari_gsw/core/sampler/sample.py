"""`sample` is a generator of immutable snapshots, everything else drains it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from napari_gsw.core.arrays import Arrays
from napari_gsw.core.errors import InputError
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.sampler import bonds as bonding
from napari_gsw.core.sampler.chain import Chain, next_size, step
from napari_gsw.core.sampler.records import TRACE, Bonds
from napari_gsw.core.sampler.schedule import TEMPERATE, Moves, annealed, split_moves
from napari_gsw.core.sampler.snapshot import Snapshot, _frozen, restored, snapshot
from napari_gsw.core.sampler.start import needs_regroups, start
from napari_gsw.core.threads import off_main_thread


def sample(
    problem: Problem,
    sweeps: int = 1000,
    seed: int = 0,
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
    seed : the same problem, arguments and seed give the same labels, bit for bit, whatever `every` is.
    lam : delta_ij for all edges, or one for each (0: single-site Gibbs, 1: classical Swendsen-Wang). None bonds as the
        settings say with which the problem was prepared from an image, and by 10, the paper's choice, without an image.
    init : (n,) labels to start from; None starts from one cluster (or the fewest that the prior's size limits allow).
    bonds : how to bond instead of by `lam`; see :mod:`napari_gsw.core.sampler.bonds`.
    seeds : (n,) clamped sites: equal numbers >= 0 stay together and apart from other numbers, -1 is free.
    regroups : whole-cluster moves after each sweep; None makes one if the prior limits cluster sizes, which single
        moves cannot always cross.
    burn_in : sweeps, counted from the first start of the chain, that the running sums leave out; None for 0.
    splits : moves after each sweep that split a cluster or merge two, or a record that also says how; None as the
        problem's settings say.
    full_scans : share of the sweeps that weigh every cluster; in the others a site weighs only the clusters next door
        and a new one, which costs by its neighbours and not by the number of clusters. None as the problem's settings
        say, and 1 without an image.
    annealing : temperature of the first sweep, and number of sweeps over which it falls to 1. The running sums leave
        these sweeps out. None: 1 throughout.
    ladder : inverse temperatures of replicas that exchange their states, from 1 downwards; snapshots are of the first.
        See :mod:`napari_gsw.core.sampler.tempering`. None for one chain.
    state : arrays of an earlier snapshot of the same problem; `seed`, `init`, `seeds`, `annealing` and `ladder` then
        come from it, and so do bonds, `regroups`, `burn_in`, `splits` and `full_scans` where they are not given.
    interval : yield about every so many seconds instead, for someone who watches or may want to stop.
    """
    if int(sweeps) != sweeps or sweeps < 0:
        raise InputError(f"sweeps must be a whole number >= 0, not {sweeps!r}")
    if int(every) != every or every < 1:
        raise InputError(f"every must be a whole number >= 1, not {every!r}")
    made = bonds if bonds is not None else _bonds(problem, lam, state)
    if state is not None and "moves" in state:
        regroups = int(state["moves"][0]) if regroups is None else regroups
        burn_in = int(state["moves"][1]) if burn_in is None else burn_in
    if regroups is None and problem.settings is not None:
        regroups = problem.settings.regroups
    if splits is None and state is None and problem.settings is not None:
        splits = problem.settings.splits
    if full_scans is None and state is None and problem.settings is not None:
        full_scans = problem.settings.full_scans
    if regroups is None:
        regroups = int(needs_regroups(problem))
    burn_in = 0 if burn_in is None else burn_in
    for name, number in (("regroups", regroups), ("burn_in", burn_in), ("seed", seed)):
        if isinstance(number, bool) or int(number) != number or number < 0:
            raise InputError(f"{name} must be a whole number >= 0, not {number!r}")
    if state is None:
        cooling = TEMPERATE if annealing is None else annealed(*annealing)
        moves = split_moves(0 if splits is None else splits, full_scans)
        chain = start(problem, made, int(regroups), int(burn_in), int(seed), init, seeds, cooling, moves)
        if ladder is not None:
            from napari_gsw.core.sampler.tempering import tempered

            chain = tempered(chain, ladder, int(seed))
    else:
        chain = restored(problem, made, int(regroups), int(burn_in), state)
        if splits is not None or full_scans is not None:
            kept = chain.moves.full if full_scans is None else full_scans
            chain.moves = split_moves(chain.moves if splits is None else splits, kept)
    return _drain(chain, int(sweeps), int(every), interval)


def _bonds(problem: Problem, lam: ArrayLike | None, state: Arrays | None) -> Bonds:
    """By `lam` if it is given; otherwise as the chain did before, as the settings say, or as the paper does."""
    if lam is not None:
        return bonding.fixed(problem, lam)
    if state is not None and "strength" in state and len(state["strength"]) == len(problem.edges):
        low, high = (float(x) for x in state["bond_range"])
        return Bonds(state["strength"].astype(np.float64), low, high)
    if problem.settings is not None:
        return bonding.from_settings(problem, problem.settings)
    return bonding.fixed(problem, 10.0)


def _drain(chain: Chain, sweeps: int, every: int, interval: float | None) -> Iterator[Snapshot]:
    if sweeps == 0:
        yield snapshot(chain, np.empty((0, TRACE)))
    size = every if interval is None else 1
    while sweeps > 0:
        size = min(size, sweeps)
        began = time.perf_counter()
        trace = off_main_thread(step, chain, size)
        took = time.perf_counter() - began
        sweeps -= size
        yield snapshot(chain, trace)
        if interval is not None:
            size = next_size(size, took, interval)


def run(problem: Problem, sweeps: int = 1000, **more: Any) -> Snapshot:
    """Drain :func:`sample` and return the last snapshot; its trace is that of the whole run."""
    snapshots = list(sample(problem, sweeps, **{"every": max(sweeps, 1)} | more))
    return dataclasses.replace(snapshots[-1], trace=_frozen(np.concatenate([s.trace for s in snapshots])))
