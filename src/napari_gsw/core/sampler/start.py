"""Where a chain begins: its first state, with seeds and limits; and another state for a chain that is under way."""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_gsw.core.arrays import Ints
from napari_gsw.core.errors import InputError
from napari_gsw.core.model.partition_kernels import canonical
from napari_gsw.core.model.problem import Problem, check_labels, log_posterior
from napari_gsw.core.sampler import bonds as bonding
from napari_gsw.core.sampler.chain import Chain, _assembled, step
from napari_gsw.core.sampler.records import Bonds, RunningSums
from napari_gsw.core.sampler.schedule import NO_MOVES, TEMPERATE, Cooling, Moves

# How many numbers of clusters are tried for a start that has seeds.
MOST_DEALS = 64


def needs_regroups(problem: Problem) -> bool:
    """Whether the prior forbids some sizes, or numbers of clusters between others, which single moves may not cross."""
    log_v, log_w = problem.tables
    allowed = np.flatnonzero(np.isfinite(log_v[1:]))
    gap = len(allowed) > 0 and len(allowed) < allowed[-1] - allowed[0] + 1
    return bool(gap or np.isneginf(log_w[1:]).any())


def start(
    problem: Problem,
    bonds: Bonds,
    regroups: int,
    burn_in: int,
    seed: int,
    init: ArrayLike | None,
    seeds: ArrayLike | None,
    cooling: Cooling = TEMPERATE,
    moves: Moves = NO_MOVES,
) -> Chain:
    """A chain before its first sweep."""
    held = np.full(problem.n, -1, np.int32) if seeds is None else _check_seeds(seeds, problem.n)
    labels = _first_labels(problem, init, held)
    value = log_posterior(problem, labels)
    posterior = RunningSums(
        value=np.array([value, value]),
        best=labels.copy(),
        together=np.zeros(len(problem.edges), np.int64),
        counted=np.zeros(3, np.int64),
    )
    rng = np.random.Generator(np.random.SFC64(seed))
    used = int(labels.max()) + 1
    return _assembled(problem, bonds, held, regroups, burn_in, labels, posterior, rng, used, cooling, moves)


def redirected(chain: Chain, labels: ArrayLike, seeds: ArrayLike, burn_in: int) -> Chain:
    """The chain with another state and other seeds; it keeps its generator and its count of sweeps.

    The best state and the running sums begin anew: what they tell belongs to what was there before.

    Parameters
    ----------
    labels : (n,) the new state; sites with the same seed must be together, those with different ones apart.
    seeds : (n,) numbers >= 0 for clamped sites, -1 for free ones.
    burn_in : sweeps, counted from the first start of the chain, that the sums leave out.
    """
    problem = chain.problem
    held = _check_seeds(seeds, problem.n)
    first = canonical(np.unique(check_labels(labels, problem.n), return_inverse=True)[1].astype(np.int32))
    pairs = np.unique(np.stack((held[held >= 0], first[held >= 0])), axis=1)
    if any(len(np.unique(row)) < pairs.shape[1] for row in pairs):
        raise InputError("sites with the same seed must share a cluster, and sites with different seeds must not")
    if not np.isfinite(_log_prior(problem, first)):
        raise InputError("the prior forbids this number or these sizes of clusters (K, min_size, max_size)")
    value, sweep = log_posterior(problem, first), int(chain.posterior.counted[0])
    posterior = RunningSums(
        value=np.array([value, value]),
        best=first.copy(),
        together=np.zeros(len(problem.edges), np.int64),
        counted=np.array([sweep, 0, sweep]),
    )
    used = int(first.max()) + 1
    new = _assembled(
        problem, chain.bonds, held, chain.regroups, burn_in, first, posterior, chain.rng, used, chain.cooling,
        chain.moves,
    )  # fmt: skip
    return chain.renewed(new)


def relaxed(chain: Chain, sites: NDArray[np.integer]) -> Ints:
    """The chain's labels after one visit to some sites, each drawn from its law given all the others."""
    held = chain.labels.copy()
    held[sites] = -1
    alone = redirected(chain, chain.labels, held, 0)
    alone.bonds, alone.regroups = bonding.fixed(chain.problem, 0.0), 0
    alone.moves = NO_MOVES
    step(alone, 1)
    return alone.labels.copy()


def _first_labels(problem: Problem, init: ArrayLike | None, seeds: Ints) -> Ints:
    """Labels that respect the seeds and the prior's limits: the user's own, or as few clusters as possible."""
    n = problem.n
    if init is not None:
        labels = _seeded(check_labels(init, n, "init"), seeds)
        if not np.isfinite(_log_prior(problem, labels)):
            raise InputError(
                "the start has a number or sizes of clusters that the prior forbids (K, min_size, max_size)"
            )
        return labels
    if (seeds < 0).all():
        for k in range(1, n + 1):
            if even_start_allowed(problem, k):
                return (np.arange(n) * k // n).astype(np.int32)
    else:
        labels = _seeded(np.zeros(n, np.int64), seeds)
        if np.isfinite(_log_prior(problem, labels)):
            return labels
        # Otherwise deal the free sites to the seeds' clusters and, if need be, to some more.
        least = len(np.unique(seeds[seeds >= 0]))
        for k in [k for k in range(least, n + 1) if np.isfinite(problem.tables.log_v[k])][:MOST_DEALS]:
            labels = _dealt(seeds, k)
            if np.isfinite(_log_prior(problem, labels)):
                return labels
    raise InputError("no simple start satisfies the prior's limits (K, min_size, max_size) and the seeds; give init")


def even_start_allowed(problem: Problem, k: int) -> bool:
    """Whether the prior allows k clusters as equal in size as can be."""
    log_v, log_w = problem.tables
    small, more = divmod(problem.n, k)
    sizes = (small, small + 1) if more else (small,)
    return bool(np.isfinite(log_v[k]) and all(np.isfinite(log_w[m]) for m in sizes))


def _log_prior(problem: Problem, labels: Ints) -> float:
    sizes = np.bincount(labels)
    return float(problem.tables.log_v[len(sizes)] + problem.tables.log_w[sizes].sum())


def _seeded(labels: NDArray[np.integer], seeds: Ints) -> Ints:
    """Put each seed's sites into a cluster of their own and number the clusters without gaps."""
    apart = np.where(seeds >= 0, labels.max() + 1 + seeds.astype(np.int64), labels)
    return canonical(np.unique(apart, return_inverse=True)[1].astype(np.int32))


def _dealt(seeds: Ints, k: int) -> Ints:
    """k clusters as equal as the seeds allow: each free site goes to the cluster that is smallest so far."""
    held = seeds >= 0
    labels = np.zeros(len(seeds), np.int32)
    labels[held] = np.unique(seeds[held], return_inverse=True)[1]
    sizes = np.bincount(labels[held], minlength=k)
    heap = [(int(size), j) for j, size in enumerate(sizes)]
    heapq.heapify(heap)
    for i in np.flatnonzero(~held):
        size, labels[i] = heap[0]
        heapq.heapreplace(heap, (size + 1, int(labels[i])))
    return canonical(labels)


def _check_seeds(seeds: ArrayLike, n: int) -> Ints:
    values = check_labels(seeds, n, "seeds")
    if values.min(initial=0) < -1 or values.max(initial=0) > np.iinfo(np.int32).max:
        raise InputError(
            f"seeds must be numbers in [0, 2147483647], or -1 for a free site, not {values.min()} to {values.max()}"
        )
    return values.astype(np.int32)
