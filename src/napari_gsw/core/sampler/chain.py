"""Clamped sites: what seeds must be, and whether labels respect them."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_gsw.core.array_types import Arrays, BoolArray, Float64Array, Int32Array, Int64Array
from napari_gsw.core.errors import InputError, to_array
from napari_gsw.core.model.external_field import ExternalField, make_empty_field, seeds_as_columns
from napari_gsw.core.model.problem import Problem, check_labels, log_posterior
from napari_gsw.core.partitions import canonical_labels
from napari_gsw.core.sampler import bonds as bonding
from napari_gsw.core.sampler import chain_kernels
from napari_gsw.core.sampler.draws import Draws
from napari_gsw.core.sampler.moves.cluster_kernels import make_clusters, update_gaussian
from napari_gsw.core.sampler.moves.regroup_kernels import MAX_ANCHORS
from napari_gsw.core.sampler.options import NO_MOVES, SamplerOptions
from napari_gsw.core.sampler.state import COUNTED, N_TRACED, SWEEPS, ChainState, Clusters, RunningSums, Scratch, Target
from napari_gsw.core.settings import Settings


def check_seeds(seeds: ArrayLike, n: int) -> Int32Array:
    """(n,) int32 seeds, or an InputError that says what is wrong with them."""
    check_labels(seeds, n, "seeds")
    values = to_array("seeds", seeds)  # as they came: a huge number would be another one as int64
    if values.min() < -1 or values.max() > np.iinfo(np.int32).max:
        raise InputError(
            f"seeds must be numbers in [0, 2147483647], or -1 for a free site, not {values.min()} to {values.max()}"
        )
    return values.astype(np.int32)


def respects_seeds(labels: NDArray[np.integer], seeds: Int32Array) -> bool:
    """Whether in labels (n,) sites with the same seed share a cluster, and sites with different seeds do not."""
    clamped = seeds >= 0
    pairs = np.unique(np.stack((seeds[clamped], labels[clamped])), axis=1)
    return all(len(np.unique(row)) == pairs.shape[1] for row in pairs)


@dataclass
class Chain:
    """A running chain.

    Attributes
    ----------
    problem, options : what is sampled, and how; the options may be exchanged between two sweeps.
    seeds : (n,) clamped sites: equal numbers >= 0 stay together and apart from other numbers, -1 is free.
    walker : labels, clusters, scratch and running sums.
    rng : its own generator. draws : the partitions that it keeps.
    stop : (1,) whoever sets it, from another thread, ends an advance after the sweep that is under way.
    """

    problem: Problem
    options: SamplerOptions
    seeds: Int32Array
    walker: ChainState
    rng: np.random.Generator
    draws: Draws
    stop: BoolArray = field(default_factory=lambda: np.zeros(1, bool))

    @property
    def labels(self) -> Int32Array:
        """(n,) slot of each site."""
        return self.walker.labels

    @property
    def sums(self) -> RunningSums:
        """What is kept of the states so far."""
        return self.walker.sums

    @property
    def sweep(self) -> int:
        """Sweeps since the first start."""
        return int(self.sums.counted[SWEEPS])

    @property
    def coldness(self) -> float:
        """Inverse temperature of the next sweep."""
        return chain_kernels.inverse_temperature_at(self.options.annealing, self.sweep)

    @cached_property
    def target(self) -> Target:
        """The law that is sampled, as the kernels read it."""
        problem = self.problem
        field = make_empty_field(problem.n) if problem.field is None else problem.field
        return Target(problem.evidence, problem.adjacency, problem.tables, seeds_as_columns(field, self.seeds), field)

    def advance(self, trace: Float64Array) -> None:
        """As many sweeps as `trace` (sweeps, 3) has rows, which become what is traced of them; fewer after a stop."""
        options, target = self.options, self.target
        splits = options.moves if options.moves.splits else None
        schedule = options.schedule._replace(stop=self.stop)
        while len(trace):
            before = self.sweep
            size = self.draws.ahead(before, options.burn_in, len(trace))
            self.walker = chain_kernels.advance(
                target, options.bonds, self.walker, self.draws.table, schedule, splits, self.rng, trace[:size]
            )
            trace = trace[self.sweep - before :]
            if self.stop[0]:
                break

    def arrays(self) -> Arrays:
        """What this kind of chain has to keep beside what every chain has."""
        return {}

    def renewed(self, chain: Chain) -> Chain:
        """A chain of this kind that goes on from another state, that of `chain`."""
        return chain


def step(chain: Chain, sweeps: int) -> Float64Array:
    """Advance a chain; returns (sweeps, 3) what is traced after each: see :class:`Snapshot`.

    If someone stops the chain meanwhile, the rows are those of the sweeps that it has made.
    """
    try:
        trace = np.empty((sweeps, N_TRACED))
    except MemoryError:
        raise InputError(f"sweeps must be fewer than {sweeps:,}: their trace does not fit into memory") from None
    before = chain.sweep
    chain.advance(trace)
    return trace[: chain.sweep - before]


def adapt_n_sweeps(size: int, took: float, interval: float) -> int:
    """How many sweeps make an interval; by factors of two at most: one slow sweep must not stop the show."""
    return max(1, int(size * min(2.0, max(0.5, interval / max(took, 1e-9)))))


def make_chain(
    problem: Problem,
    options: SamplerOptions,
    seeds: Int32Array,
    labels: Int32Array,
    sums: RunningSums,
    rng: np.random.Generator,
    used: int,
) -> Chain:
    """A chain whose `labels` (n,) lie in the first `used` slots: count its clusters and add the scratch arrays."""
    n, evidence = problem.n, problem.evidence
    clusters = count_clusters(problem, labels, used)
    parent, head, following, place, order = (np.zeros(n, np.int32) for _ in range(5))
    slots = np.array([used, int((clusters.size > 0).sum())])
    blocks = make_clusters(len(evidence.table_start), evidence.moments.shape[1] // 2, min(n, MAX_ANCHORS))
    work = Scratch(slots, parent, head, following, place, order, blocks)
    return Chain(problem, options, seeds, ChainState(labels, clusters, work, sums), rng, Draws(n))


def count_clusters(problem: Problem, labels: Int32Array, used: int) -> Clusters:
    """Sufficient statistics of the clusters of labels (n,), which lie in the first `used` slots; with room for more."""
    evidence, n = problem.evidence, problem.n
    channels = evidence.moments.shape[1] // 2
    clusters = make_clusters(len(evidence.table_start), channels, used + 16)
    np.add.at(clusters.size, labels, 1)
    site = np.repeat(np.arange(n), np.diff(evidence.site_start))
    # As np.add.at into the table, ten times as fast; counts are far below what a float holds exactly.
    place = evidence.word.astype(np.int64) * clusters.size.size + labels[site]
    clusters.words[:] = np.bincount(place, evidence.times, clusters.words.size).reshape(clusters.words.shape)
    np.add.at(clusters.moments.T, labels, evidence.moments)
    for k in np.flatnonzero(clusters.size).tolist() if channels else ():
        update_gaussian(evidence, clusters, k)
    return clusters


# How many numbers of clusters are tried for a start that has seeds.
MAX_TRIES = 64


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
    labels = make_first_labels(problem, init, clamps)
    sums = make_sums(problem, labels, 0)
    rng = np.random.Generator(np.random.SFC64(seed))
    return make_chain(problem, options, clamps, labels, sums, rng, int(labels.max()) + 1)


def make_sums(problem: Problem, labels: Int32Array, sweep: int) -> RunningSums:
    """Sums that begin at a state (n,) after so many sweeps: it is the best, and nothing has been counted."""
    value = log_posterior(problem, labels)
    return RunningSums(
        value=np.array([value, value]),
        best=labels.copy(),
        together=np.zeros(len(problem.edges), np.int64),
        counted=np.array([sweep, 0, sweep]),
    )


def restart_from(
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
    first = canonical_labels(np.unique(check_labels(labels, problem.n), return_inverse=True)[1].astype(np.int32))
    if not respects_seeds(first, clamps):
        raise InputError("sites with the same seed must share a cluster, and sites with different seeds must not")
    if not np.isfinite(log_prior(problem, first)):
        raise InputError("the prior forbids this number or these sizes of clusters (K, min_size, max_size)")
    sums = make_sums(problem, first, chain.sweep)
    options = chain.options.replace(burn_in=burn_in)
    return chain.renewed(make_chain(problem, options, clamps, first, sums, chain.rng, int(first.max()) + 1))


def reset_sums(chain: Chain, burn_in: int) -> None:
    """Begin the running sums and the draws anew, in place, after a burn-in that ends at another sweep.

    The state, the best state and the generator are left as they are.
    """
    chain.sums.together[:] = 0
    chain.sums.counted[COUNTED] = 0
    chain.draws = Draws(chain.problem.n)
    chain.options = chain.options.replace(burn_in=burn_in)


def resample_sites(chain: Chain, sites: NDArray[np.integer]) -> Int32Array:
    """The chain's labels (n,) after one visit to some sites, each drawn from its law given all the others."""
    clamps = chain.labels.copy()
    clamps[sites] = -1
    alone = restart_from(chain, chain.labels, clamps, 0)
    alone.options = alone.options.replace(bonds=bonding.constant_bonds(chain.problem, 0.0), regroups=0, moves=NO_MOVES)
    step(alone, 1)
    return alone.labels.copy()


def make_start_labels(
    problem: Problem, settings: Settings, seed: int, seeds: ArrayLike | None = None
) -> Int64Array | None:
    """(n,) labels of the start that the settings name; None leaves one cluster to the chain.

    Under a field every site begins where the field pulls most, whatever the settings say. Random clusters that cannot
    be reconciled with the `seeds` ((n,) numbers >= 0, -1 for free sites) and the prior's limits are dealt again, with
    the sites of each seed together and the free ones at random.
    """
    n = problem.n
    clamps = np.full(n, -1, np.int32) if seeds is None else check_seeds(seeds, n)
    if problem.field is not None and seeds is not None:
        by_field = strongest_names(problem, problem.field, clamps)
        if apply_seeds(problem, by_field, clamps) is not None:
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
    count = next((k for k in tries() if allows_equal_sizes(problem, k)), None)
    labels = None if count is None else rng.permutation(np.arange(n) * count // n)
    if labels is not None and apply_seeds(problem, labels, clamps) is not None:
        return labels
    again = None if (clamps < 0).all() else balanced_start(problem, clamps, tries(), rng)
    if again is None:
        with_seeds = "" if seeds is None else " with these seeds"
        raise InputError(
            f"start random finds no sizes that the prior allows (K, min_size, max_size){with_seeds}; start from one"
        )
    return again.astype(np.int64)


def strongest_names(problem: Problem, field: ExternalField, seeds: Int32Array) -> Int64Array:
    """(n,) the name that pulls each site most; where none does and other clusters may be, one that has no name."""
    best = field.pull.argmax(axis=1)
    if not problem.closed:
        best = np.where(field.pull.max(axis=1) > 0, best, field.anchor.size)
    return np.where(seeds >= 0, seeds_as_columns(field, seeds), best).astype(np.int64)


def make_first_labels(problem: Problem, init: ArrayLike | None, seeds: Int32Array) -> Int32Array:
    """(n,) labels that respect the seeds and the prior's limits: the user's own, or as few clusters as possible."""
    n = problem.n
    if init is not None:
        # Numbered without gaps: seeds are given numbers beyond all labels, and there may be none beyond a huge one.
        given = np.unique(check_labels(init, n, "init"), return_inverse=True)[1]
        own = apply_seeds(problem, given, seeds)
        if own is not None:
            return own
        raise InputError("the start has a number or sizes of clusters that the prior forbids (K, min_size, max_size)")
    if (seeds < 0).all():
        for k in range(1, n + 1):
            if allows_equal_sizes(problem, k):
                return (np.arange(n) * k // n).astype(np.int32)
    else:
        labels = split_seeds(np.zeros(n, np.int64), seeds)
        if np.isfinite(log_prior(problem, labels)):
            return labels
        # Otherwise deal the free sites to the seeds' clusters and, if need be, to some more.
        first = balanced_start(problem, seeds, range(1, n + 1))
        if first is not None:
            return first
    raise InputError("no simple start satisfies the prior's limits (K, min_size, max_size) and the seeds; give init")


def apply_seeds(problem: Problem, labels: NDArray[np.integer], seeds: Int32Array) -> Int32Array | None:
    """(n,) the labels as the seeds want them, changed as little as the prior's limits need; None if they forbid it."""
    # A seed's cluster begins with its sites alone, unless a field says already what else belongs to it.
    order = (split_seeds, join_seed_clusters) if problem.field is None else (join_seed_clusters, split_seeds)
    ways = (way(labels, seeds) for way in order)
    return next((own for own in ways if np.isfinite(log_prior(problem, own))), None)


def balanced_start(
    problem: Problem, seeds: Int32Array, tries: Iterable[int], rng: np.random.Generator | None = None
) -> Int32Array | None:
    """(n,) clusters as equal as the seeds allow, of the first number in `tries` that the prior allows; else None."""
    least, log_v = len(np.unique(seeds[seeds >= 0])), problem.tables.log_v
    for k in itertools.islice((k for k in tries if k >= least and np.isfinite(log_v[k])), MAX_TRIES):
        labels = balanced_labels(seeds, k, rng)
        if np.isfinite(log_prior(problem, labels)):
            return labels
    return None


def allows_equal_sizes(problem: Problem, k: int) -> bool:
    """Whether the prior allows k clusters as equal in size as can be."""
    log_v, log_w = problem.tables
    small, more = divmod(problem.n, k)
    sizes = (small, small + 1) if more else (small,)
    return bool(np.isfinite(log_v[k]) and all(np.isfinite(log_w[m]) for m in sizes))


def log_prior(problem: Problem, labels: Int32Array) -> float:
    """log g of the sizes of the clusters of labels (n,) without gaps."""
    sizes = np.bincount(labels)
    return float(problem.tables.log_v[len(sizes)] + problem.tables.log_w[sizes].sum())


def split_seeds(labels: NDArray[np.integer], seeds: Int32Array) -> Int32Array:
    """(n,) labels with each seed's sites in a cluster of their own, numbered without gaps."""
    apart = np.where(seeds >= 0, labels.max() + 1 + seeds.astype(np.int64), labels)
    return canonical_labels(np.unique(apart, return_inverse=True)[1].astype(np.int32))


def join_seed_clusters(labels: NDArray[np.integer], seeds: Int32Array) -> Int32Array:
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
    return canonical_labels(np.unique(result, return_inverse=True)[1].astype(np.int32))


def balanced_labels(seeds: Int32Array, k: int, rng: np.random.Generator | None = None) -> Int32Array:
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
    return canonical_labels(labels)
