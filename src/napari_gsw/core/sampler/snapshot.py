"""What is known of a chain at one moment: immutable, and complete enough to go on from."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.arrays import Arrays, Floats, Ints
from napari_gsw.core.errors import InputError
from napari_gsw.core.model.partition_kernels import canonical
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.sampler.chain import Chain, _assembled
from napari_gsw.core.sampler.draws import Draws
from napari_gsw.core.sampler.records import Bonds, RunningSums
from napari_gsw.core.sampler.schedule import NO_MOVES, TEMPERATE, Cooling, Moves


@dataclass(frozen=True, eq=False)
class State:
    """One partition that a chain has visited. As an array it is its labels.

    Attributes
    ----------
    sweep : number of sweeps before it; 0 is the start.
    labels : (n,) int32, clusters numbered 0, 1, ... in the order of their first site.
    log_posterior : up to a constant of the problem.
    """

    sweep: int
    labels: Ints
    log_posterior: float

    @property
    def n_clusters(self) -> int:
        return int(self.labels.max()) + 1

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.labels, dtype=dtype, copy=copy)


@dataclass(frozen=True, eq=False)
class Snapshot(State):
    """A state of the chain with all that is known up to it: a complete result that needs nothing else.

    Attributes
    ----------
    best : the state of highest log posterior so far.
    trace : (sweeps since the last snapshot, 3) log posterior, number of clusters and entropy of the clusters' sizes in
        bits after each of them.
    together : (m,) probability so far that the two ends of an edge share a cluster; NaN before the burn-in is over.
    draws : (d, n) partitions seen after the burn-in, evenly spread over the sweeps; for each chain that it speaks for.
    state : plain arrays from which :func:`sample` continues exactly.
    """

    best: State
    trace: Floats
    together: Floats
    draws: tuple[Ints, ...] = field(repr=False)
    state: Arrays = field(repr=False)


def snapshot(chain: Chain, trace: Floats) -> Snapshot:
    """An immutable copy of everything that matters of a chain."""
    sweep, counted, best_sweep = (int(x) for x in chain.posterior.counted)
    value, best_value = (float(x) for x in chain.posterior.value)
    share = chain.posterior.together / counted if counted else np.full(len(chain.problem.edges), np.nan)
    best = State(best_sweep, _frozen(canonical(chain.posterior.best)), best_value)
    labels = _frozen(canonical(chain.labels))
    return Snapshot(sweep, labels, value, best, _frozen(trace), _frozen(share), (chain.draws.kept,), exported(chain))


def exported(chain: Chain) -> Arrays:
    """The whole state of a chain as plain arrays, ready for any file format."""
    used = int(chain.work.slots[0])
    arrays = {
        "labels": chain.labels,
        "seeds": chain.seeds,
        "generator": chain.rng.bit_generator.state["state"]["state"],
        "value": chain.posterior.value,
        "best": chain.posterior.best,
        "together": chain.posterior.together,
        "counted": chain.posterior.counted,
        "strength": chain.bonds.strength,
        "bond_range": np.array([chain.bonds.low, chain.bonds.high]),
        "moves": np.array([chain.regroups, chain.burn_in]),
        "gap": np.array([chain.draws.gap]),
        "cooling": np.array(chain.cooling),
        "splits": np.array(chain.moves),
        # Sums of floats depend on the order in which sites came and went, so they are part of the state.
        "moments": chain.clusters.moments[:, :used],
        "gauss": chain.clusters.gauss[:used],
        **chain.arrays(),
    }
    copies = {name: _frozen(array.copy()) for name, array in arrays.items()}
    # The draws are many, but rows that are written once need no copy.
    return MappingProxyType(copies | {"draws": chain.draws.kept})


def restored(problem: Problem, bonds: Bonds, regroups: int, burn_in: int, state: Arrays) -> Chain:
    """The chain whose state was exported."""
    try:
        posterior = RunningSums(*(state[name].copy() for name in RunningSums._fields))
        labels, seeds = state["labels"].astype(np.int32), state["seeds"].astype(np.int32)
        moments, gauss, words = state["moments"], state["gauss"], state["generator"]
    except KeyError as missing:
        raise InputError(f"the state of the chain lacks {missing}") from None
    own = (problem.n, len(problem.edges), problem.evidence.moments.shape[1])
    found = (len(labels), len(posterior.together), moments.shape[0])
    if own != found or moments.shape[1] != gauss.size or gauss.size <= labels.max():
        raise InputError(
            f"the state belongs to another problem: it has {found[0]} sites, {found[1]} edges and {found[2]} moments, "
            f"not {own[0]}, {own[1]} and {own[2]}"
        )
    rng = generator(words)
    # A state of an earlier version knows neither temperatures nor moves nor draws, or only full sweeps.
    coldness, hot, sweeps = (float(x) for x in state.get("cooling", np.array(TEMPERATE)))
    splits, scans, near, informed, *full = (float(x) for x in state.get("splits", np.array(NO_MOVES)))
    cooling, moves = Cooling(coldness, hot, int(sweeps)), Moves(int(splits), int(scans), near, informed, *full)
    chain = _assembled(problem, bonds, seeds, regroups, burn_in, labels, posterior, rng, gauss.size, cooling, moves)
    chain.clusters.moments[:, : gauss.size] = moments
    chain.clusters.gauss[: gauss.size] = gauss
    if "draws" in state:
        chain.draws = Draws(problem.n, state["draws"], int(state["gap"][0]))
    if "ladder" in state:
        from napari_gsw.core.sampler.tempering import reunited

        return reunited(chain, state)
    return chain


def generator(words: NDArray[Any]) -> np.random.Generator:
    """The generator whose inner state was exported."""
    rng = np.random.Generator(np.random.SFC64(0))
    inner = dict(rng.bit_generator.state)
    inner["state"] = {"state": words.astype(np.uint64)}
    rng.bit_generator.state = inner
    return rng


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array
