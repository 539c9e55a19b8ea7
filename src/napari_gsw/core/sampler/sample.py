"""The generator `sample` of immutable snapshots, which everything else drains."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from napari_gsw.core.array_types import Arrays
from napari_gsw.core.errors import InputError, check_integer, check_number, check_seed, to_float_array
from napari_gsw.core.model.problem import Problem, check_problem
from napari_gsw.core.sampler.bonds import check_bonds, constant_bonds
from napari_gsw.core.sampler.chain import Chain, make_start_labels, start_chain
from napari_gsw.core.sampler.ensemble import Ensemble
from napari_gsw.core.sampler.options import SamplerOptions, make_annealing, make_split_moves
from napari_gsw.core.sampler.snapshot import Snapshot, make_readonly, resume_chain
from napari_gsw.core.sampler.state import Bonds, Moves

# The trace of a run has a row for each sweep.
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
    """Run the generalized Swendsen-Wang sampler.

    What is None is as in the settings with which the problem was prepared from an image, or without an image as stated.

    Parameters
    ----------
    problem : Problem
        What to sample from.
    sweeps : int
        Number of sweeps from here on. Without any the only snapshot is the start.
    seed : int or None
        The same problem, arguments and seed give bitwise the same labels, whatever `every` is; None draws a seed.
    lam : float or (m,) array, optional
        delta_ij of the edges: 0 is single-site Gibbs, 1 the classical Swendsen-Wang. Without an image it is 10, the
        paper's choice.
    init : (n,) integer array, optional
        Labels to start from. Without an image this is one cluster, or the fewest that the prior allows.
    every : int
        Sweeps from one snapshot to the next. The last snapshot is after the last sweep.
    bonds : Bonds, optional
        Bonds of edges instead of `lam`; see :mod:`napari_gsw.core.sampler.bonds`.
    seeds : (n,) integer array, optional
        Clamped sites: equal numbers >= 0 stay together and apart from other numbers, -1 is free.
    regroups : int, optional
        Whole-cluster moves after each sweep. Without an image this is one if the prior limits cluster sizes, which
        single moves cannot always cross.
    burn_in : int, optional
        Sweeps since the first start of the chain that the running sums leave out; 0 without an image.
    splits : int or Moves, optional
        Moves after each sweep that split a cluster or merge two.
    full_scans : float, optional
        Share of the sweeps that score every cluster; 1 without an image. In the others a site scores only adjacent
        clusters and a new one, so that the time does not depend on the number of clusters.
    annealing : (float, int), optional
        Temperature of the first sweep, and number of sweeps over which it falls to 1, which the running sums leave out.
    ladder : float array, optional
        Inverse temperatures of replicas that exchange their states, from 1 downwards; snapshots are of the first. See
        :mod:`napari_gsw.core.sampler.chain`.
    state : dict of str to array, optional
        `Snapshot.state` of the same problem, from which the chain resumes bitwise as if it had not stopped. It
        determines `seed`, `init`, `seeds`, `annealing` and `ladder`, and the other options that are None.
    interval : float, optional
        Yield about every so many seconds instead of after `every` sweeps.

    Yields
    ------
    Snapshot
        State of the chain and results so far.
    """
    check_problem(problem)
    sweeps, seed = check_integer("sweeps", sweeps, most=MAX_SWEEPS), check_seed(seed)
    every = min(check_integer("every", every, 1), max(sweeps, 1))
    if interval is not None:
        check_number("interval", interval, 0, math.inf)
    if bonds is not None:
        bonds = check_bonds(problem, bonds)
    elif lam is not None:
        bonds = constant_bonds(problem, lam)
    changes = {"bonds": bonds, "regroups": regroups, "burn_in": burn_in}
    if state is not None:
        chain = resume_chain(problem, state, **changes)
        chain.options = chain.options.replace(moves=_change_moves(chain.options.moves, splits, full_scans))
        return _drain(chain, sweeps, every, interval)
    if annealing is not None and (not isinstance(annealing, (list, tuple)) or len(annealing) != 2):
        raise InputError(f"annealing must be a temperature and a number of sweeps, not {annealing!r}")
    options = SamplerOptions.from_problem(problem, sweeps).replace(
        annealing=None if annealing is None else make_annealing(*annealing),
        ladder=None if ladder is None else to_float_array("ladder", ladder),
        **changes,
    )
    options = options.replace(moves=_change_moves(options.moves, splits, full_scans))
    if init is None and problem.settings is not None:
        init = make_start_labels(problem, problem.settings, seed, seeds)
    return _drain(start_chain(problem, options, seed, init, seeds), sweeps, every, interval)


def _change_moves(moves: Moves, splits: int | Moves | None, full_scans: float | None) -> Moves:
    return make_split_moves(moves if splits is None else splits, moves.full if full_scans is None else full_scans)


def _drain(chain: Chain, sweeps: int, every: int, interval: float | None) -> Iterator[Snapshot]:
    team = Ensemble([chain], interval, every if interval is None else 1)
    return (snapshot for (snapshot,) in team.run(sweeps))


def run(problem: Problem, sweeps: int = 1000, **more: Any) -> Snapshot:
    """Run the sampler and return the last snapshot, with the trace of the whole run; arguments as of `sample`."""
    traces, last = [], None
    sweeps = check_integer("sweeps", sweeps, most=MAX_SWEEPS)
    for last in sample(problem, sweeps, **{"every": max(sweeps, 1)} | more):
        traces.append(last.trace)
    assert last is not None
    return dataclasses.replace(last, trace=make_readonly(np.concatenate(traces)))
