"""Where a chain begins: its first state, with seeds and limits; and another state for a chain that is under way."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_gsw.core.arrays import Ints, Longs
from napari_gsw.core.errors import InputError
from napari_gsw.core.model.field import Field, named_seeds
from napari_gsw.core.model.partition_kernels import canonical
from napari_gsw.core.model.problem import Problem, check_labels, log_posterior
from napari_gsw.core.sampler import bonds as bonding
from napari_gsw.core.sampler.chain import Chain, assembled, step
from napari_gsw.core.sampler.clamps import are_held, check_seeds
from napari_gsw.core.sampler.draws import Draws
from napari_gsw.core.sampler.options import SamplerOptions
from napari_gsw.core.sampler.records import COUNTED, RunningSums
from napari_gsw.core.sampler.schedule import NO_MOVES
from napari_gsw.core.settings import Settings

# How many numbers of clusters are tried for a start that has seeds.
MOST_DEALS = 64


def start_chain(
    problem: Problem,
    options: SamplerOptions,
    seed: int = 0,
    init: ArrayLike | None = None,
    seeds: ArrayLike | None = None,
) -> Chain:
    """A chain before its first sweep, without its hotter replicas.

    Parameters
    ----------
    init : (n,) labels to start from; None starts from as few clusters as the prior and the seeds allow.
    seeds : (n,) numbers >= 0 for clamped sites, -1 for free ones; None clamps none.
    """
    clamps = np.full(problem.n, -1, np.int32) if seeds is None else check_seeds(seeds, problem.n)
    labels = first_labels(problem, init, clamps)
    sums = first_sums(problem, labels, 0)
    rng = np.random.Generator(np.random.SFC64(seed))
    return assembled(problem, options, clamps, labels, sums, rng, int(labels.max()) + 1)


def first_sums(problem: Problem, labels: Ints, sweep: int) -> RunningSums:
    """Sums that begin at a state (n,) after so many sweeps: it is the best, and nothing has been counted."""
    value = log_posterior(problem, labels)
    return RunningSums(
        value=np.array([value, value]),
        best=labels.copy(),
        together=np.zeros(len(problem.edges), np.int64),
        counted=np.array([sweep, 0, sweep]),
    )


def redirected(
    chain: Chain, labels: ArrayLike, seeds: ArrayLike, burn_in: int, problem: Problem | None = None
) -> Chain:
    """The chain with another state and other seeds; it keeps its generator and its count of sweeps.

    The best state and the running sums begin anew: what they tell belongs to what was there before.

    Parameters
    ----------
    labels : (n,) the new state; sites with the same seed must be together, those with different ones apart.
    seeds : (n,) numbers >= 0 for clamped sites, -1 for free ones.
    burn_in : sweeps, counted from the first start of the chain, that the sums leave out.
    problem : the same under another field or prior; None for that of the chain.
    """
    problem = chain.problem if problem is None else problem
    clamps = check_seeds(seeds, problem.n)
    first = canonical(np.unique(check_labels(labels, problem.n), return_inverse=True)[1].astype(np.int32))
    if not are_held(first, clamps):
        raise InputError("sites with the same seed must share a cluster, and sites with different seeds must not")
    if not np.isfinite(log_prior(problem, first)):
        raise InputError("the prior forbids this number or these sizes of clusters (K, min_size, max_size)")
    sums = first_sums(problem, first, chain.sweep)
    options = chain.options.replace(burn_in=burn_in)
    return chain.renewed(assembled(problem, options, clamps, first, sums, chain.rng, int(first.max()) + 1))


def recount(chain: Chain, burn_in: int) -> None:
    """Begin the running sums and the draws anew, in place, after a burn-in that ends at another sweep.

    The state, the best state and the generator are left as they are.
    """
    chain.sums.together[:] = 0
    chain.sums.counted[COUNTED] = 0
    chain.draws = Draws(chain.problem.n)
    chain.options = chain.options.replace(burn_in=burn_in)


def relaxed(chain: Chain, sites: NDArray[np.integer]) -> Ints:
    """The chain's labels (n,) after one visit to some sites, each drawn from its law given all the others."""
    clamps = chain.labels.copy()
    clamps[sites] = -1
    alone = redirected(chain, chain.labels, clamps, 0)
    alone.options = alone.options.replace(bonds=bonding.fixed(chain.problem, 0.0), regroups=0, moves=NO_MOVES)
    step(alone, 1)
    return alone.labels.copy()


def start_labels(problem: Problem, settings: Settings, seed: int, seeds: ArrayLike | None = None) -> Longs | None:
    """(n,) labels of the start that the settings name; None leaves one cluster to the chain.

    Under a field every site begins where the field pulls most, whatever the settings say. Random clusters that cannot
    be reconciled with the `seeds` ((n,) numbers >= 0, -1 for free sites) and the prior's limits are dealt again, with
    the sites of each seed together and the free ones at random.
    """
    n = problem.n
    clamps = np.full(n, -1, np.int32) if seeds is None else check_seeds(seeds, n)
    if problem.field is not None and seeds is not None:
        by_field = pulled(problem, problem.field, clamps)
        if reconciled(problem, by_field, clamps) is not None:
            return by_field
    if settings.start == "one":
        return None
    if settings.start == "singletons" and not problem.closed:
        return np.arange(n)
    # Equal sizes that the prior allows, dealt at random by a generator that is not the chain's own.
    most = min(settings.start_clusters, n)

    def tries() -> Iterator[int]:
        return itertools.chain(range(most, 0, -1), range(most + 1, n + 1))

    rng = np.random.default_rng((seed, 1))
    count = next((k for k in tries() if even_start_allowed(problem, k)), None)
    labels = None if count is None else rng.permutation(np.arange(n) * count // n)
    if labels is not None and reconciled(problem, labels, clamps) is not None:
        return labels
    again = None if (clamps < 0).all() else dealt_start(problem, clamps, tries(), rng)
    if again is None:
        with_seeds = "" if seeds is None else " with these seeds"
        raise InputError(
            f"start random finds no sizes that the prior allows (K, min_size, max_size){with_seeds}; start from one"
        )
    return again.astype(np.int64)


def pulled(problem: Problem, field: Field, seeds: Ints) -> Longs:
    """(n,) the name that pulls each site most; where none does and other clusters may be, one that has no name."""
    best = field.pull.argmax(axis=1)
    if not problem.closed:
        best = np.where(field.pull.max(axis=1) > 0, best, field.anchor.size)
    return np.where(seeds >= 0, named_seeds(field, seeds), best).astype(np.int64)


def first_labels(problem: Problem, init: ArrayLike | None, seeds: Ints) -> Ints:
    """(n,) labels that respect the seeds and the prior's limits: the user's own, or as few clusters as possible."""
    n = problem.n
    if init is not None:
        # Numbered without gaps: seeds are given numbers beyond all labels, and there may be none beyond a huge one.
        given = np.unique(check_labels(init, n, "init"), return_inverse=True)[1]
        own = reconciled(problem, given, seeds)
        if own is not None:
            return own
        raise InputError("the start has a number or sizes of clusters that the prior forbids (K, min_size, max_size)")
    if (seeds < 0).all():
        for k in range(1, n + 1):
            if even_start_allowed(problem, k):
                return (np.arange(n) * k // n).astype(np.int32)
    else:
        labels = seeded(np.zeros(n, np.int64), seeds)
        if np.isfinite(log_prior(problem, labels)):
            return labels
        # Otherwise deal the free sites to the seeds' clusters and, if need be, to some more.
        first = dealt_start(problem, seeds, range(1, n + 1))
        if first is not None:
            return first
    raise InputError("no simple start satisfies the prior's limits (K, min_size, max_size) and the seeds; give init")


def reconciled(problem: Problem, labels: NDArray[np.integer], seeds: Ints) -> Ints | None:
    """(n,) the labels as the seeds want them, changed as little as the prior's limits need; None if they forbid it."""
    # A seed's cluster begins with its sites alone, unless a field says already what else belongs to it.
    order = (seeded, adopted) if problem.field is None else (adopted, seeded)
    ways = (way(labels, seeds) for way in order)
    return next((own for own in ways if np.isfinite(log_prior(problem, own))), None)


def dealt_start(
    problem: Problem, seeds: Ints, tries: Iterable[int], rng: np.random.Generator | None = None
) -> Ints | None:
    """(n,) clusters as equal as the seeds allow, of the first number in `tries` that the prior allows; else None."""
    least, log_v = len(np.unique(seeds[seeds >= 0])), problem.tables.log_v
    for k in itertools.islice((k for k in tries if k >= least and np.isfinite(log_v[k])), MOST_DEALS):
        labels = dealt(seeds, k, rng)
        if np.isfinite(log_prior(problem, labels)):
            return labels
    return None


def even_start_allowed(problem: Problem, k: int) -> bool:
    """Whether the prior allows k clusters as equal in size as can be."""
    log_v, log_w = problem.tables
    small, more = divmod(problem.n, k)
    sizes = (small, small + 1) if more else (small,)
    return bool(np.isfinite(log_v[k]) and all(np.isfinite(log_w[m]) for m in sizes))


def log_prior(problem: Problem, labels: Ints) -> float:
    """log g of the sizes of the clusters of labels (n,) without gaps."""
    sizes = np.bincount(labels)
    return float(problem.tables.log_v[len(sizes)] + problem.tables.log_w[sizes].sum())


def seeded(labels: NDArray[np.integer], seeds: Ints) -> Ints:
    """(n,) labels with each seed's sites in a cluster of their own, numbered without gaps."""
    apart = np.where(seeds >= 0, labels.max() + 1 + seeds.astype(np.int64), labels)
    return canonical(np.unique(apart, return_inverse=True)[1].astype(np.int32))


def adopted(labels: NDArray[np.integer], seeds: Ints) -> Ints:
    """(n,) labels in which each seed takes over the cluster that most of its sites are in, numbered without gaps.

    Where :func:`seeded` adds a cluster for each seed, this adds none but for seeds that find all clusters taken.
    """
    result = np.unique(labels, return_inverse=True)[1].astype(np.int64)
    free = int(result.max()) + 1
    pairs, count = np.unique(np.stack((seeds[seeds >= 0], result[seeds >= 0])), axis=1, return_counts=True)
    owner: dict[int, int] = {}
    for seed, cluster in pairs[:, np.argsort(-count, kind="stable")].T.tolist():
        if seed not in owner and cluster not in owner.values():
            owner[seed] = cluster
    for seed in np.unique(pairs[0]).tolist():
        if seed not in owner:
            owner[seed], free = free, free + 1
        result[seeds == seed] = owner[seed]
    return canonical(np.unique(result, return_inverse=True)[1].astype(np.int32))


def dealt(seeds: Ints, k: int, rng: np.random.Generator | None = None) -> Ints:
    """(n,) k clusters as equal as the seeds allow: each free site goes to the cluster that is smallest so far.

    The sites come in their order, or with a generator in a random one.
    """
    clamped = seeds >= 0
    labels = np.zeros(len(seeds), np.int32)
    labels[clamped] = np.unique(seeds[clamped], return_inverse=True)[1]
    sizes = np.bincount(labels[clamped], minlength=k)
    heap = [(int(size), j) for j, size in enumerate(sizes)]
    heapq.heapify(heap)
    free = np.flatnonzero(~clamped)
    for i in free if rng is None else rng.permutation(free):
        size, labels[i] = heap[0]
        heapq.heapreplace(heap, (size + 1, int(labels[i])))
    return canonical(labels)
