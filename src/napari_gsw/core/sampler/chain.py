"""A running chain: start, seeds, kept partitions, replicas at other temperatures, and restarts from another state.

Seeds clamp sites: equal numbers >= 0 stay together and apart from other numbers, -1 is free.

Parallel tempering: replica r samples the posterior to the power b_r, with 1 = b_0 > b_1 > ... The hotter a replica, the
more easily it leaves a mode. Before every sweep neighbouring replicas r and s propose to exchange their states, and do
so with probability min(1, exp((b_r - b_s) (L_s - L_r))), L being their log posteriors; even and odd pairs take turns.
This leaves the distribution of every replica invariant, so that the first one is an ordinary chain that mixes better.
"""

from __future__ import annotations

import copy
import heapq
import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_gsw.core.array_types import BoolArray, Float64Array, Int32Array, Int64Array
from napari_gsw.core.errors import InputError, to_array, to_float_array
from napari_gsw.core.model.external_field import ExternalField, seeds_as_columns
from napari_gsw.core.model.problem import Problem, check_labels, log_posterior
from napari_gsw.core.partitions import canonical_labels
from napari_gsw.core.sampler import chain_kernels
from napari_gsw.core.sampler.bonds import constant_bonds
from napari_gsw.core.sampler.cluster_statistics import make_clusters, update_all_gaussians
from napari_gsw.core.sampler.moves.regroup_kernels import MAX_ANCHORS
from napari_gsw.core.sampler.options import MAX_TEMPERATURE, NO_MOVES, SamplerOptions
from napari_gsw.core.sampler.state import (
    BEST,
    BEST_SWEEP,
    COUNTED,
    GAP,
    N_TRACED,
    NOW,
    SWEEPS,
    WRITTEN,
    ChainState,
    Clusters,
    DrawBuffer,
    RunningSums,
    Schedule,
    Scratch,
    Target,
)
from napari_gsw.core.settings import Settings

# Numbers of clusters that are tried for a start with seeds.
MAX_TRIES = 64
# A consensus hardly changes with more draws than this, and they must fit into the memory beside the problem.
MAX_DRAWS = 200
MIN_DRAWS = 8
MAX_DRAW_BYTES = 64_000_000
# A burn-in that never ends: the sums of the hotter replicas are not used.
ENDLESS = 2**62
# Columns of `Chain.exchanges`.
PROPOSED, ACCEPTED = 0, 1


def max_draws(n: int) -> int:
    """Return the largest number of draws of n sites: even, so that thinning drops the one that finds no room."""
    return max(MIN_DRAWS, min(MAX_DRAWS, MAX_DRAW_BYTES // (4 * n) // 2 * 2))


class Draws:
    """Every `gap`-th partition after the burn-in; without room, every second one goes and the gap doubles.

    Which sweeps are kept depends on their numbers alone, so that a resumed chain keeps the same ones. A row is written
    once, so that the view :attr:`kept` stays valid while the chain runs on.
    """

    def __init__(self, n: int, kept: Int32Array | None = None, gap: int = 1) -> None:
        self._fill(np.empty((0, n), np.int32) if kept is None else kept, gap)

    @property
    def gap(self) -> int:
        """Sweeps from one draw to the next."""
        return int(self.buffer.taken[GAP])

    @property
    def kept(self) -> Int32Array:
        """(d, n) the draws so far, read-only."""
        view = self.buffer.rows[: self.buffer.taken[WRITTEN]]
        view.setflags(write=False)
        return view

    def make_room(self, since: int, sweeps: int) -> int:
        """Make room, and return how many of the next `sweeps` sweeps can be made before there is none, at least 1.

        `since` sweeps have been made after the burn-in, or are negative before its end.
        """
        rows, taken = self.buffer
        if self._next_due(since) <= sweeps and taken[WRITTEN] == len(rows):
            # The last of each pair stays, so that all kept sweeps are multiples of the new gap.
            self._fill(rows[1::2], 2 * self.gap)
        free = len(rows) - int(self.buffer.taken[WRITTEN])
        return min(sweeps, self._next_due(since) + (free - 1) * self.gap) if free else sweeps

    def _next_due(self, since: int) -> int:
        """Return the sweeps until the next draw, at least 1."""
        return self.gap - (since % self.gap if since >= 0 else since)

    def _fill(self, kept: Int32Array, gap: int) -> None:
        n = kept.shape[1]
        rows = np.empty((max_draws(n), n), np.int32)  # takes up memory where it is written
        rows[: len(kept)] = kept
        self.buffer = DrawBuffer(rows, np.array([len(kept), gap], np.int64))


@dataclass
class Chain:
    """A running chain, with its hotter replicas if it is tempered."""

    problem: Problem
    options: SamplerOptions  # may change between two sweeps
    seeds: Int32Array  # (n,) clamped sites
    state: ChainState
    rng: np.random.Generator
    draws: Draws
    # (1,) set it from another thread to end an advance after the current sweep
    stop: BoolArray = field(default_factory=lambda: np.zeros(1, bool))
    hotter: list[Chain] = field(default_factory=list)  # from cold to hot
    # (replicas - 1, 2) proposed and accepted exchanges of each pair of neighbours
    exchanges: Int64Array = field(default_factory=lambda: np.zeros((0, 2), np.int64))

    @property
    def labels(self) -> Int32Array:
        """(n,) slot of each site."""
        return self.state.labels

    @property
    def sums(self) -> RunningSums:
        """Sums over the states so far."""
        return self.state.sums

    @property
    def sweep(self) -> int:
        """Sweeps since the first start."""
        return int(self.sums.counted[SWEEPS])

    @property
    def inverse_temperature(self) -> float:
        """Inverse temperature of the next sweep."""
        return chain_kernels.inverse_temperature_at(self.options.annealing, self.sweep)

    @property
    def replicas(self) -> list[Chain]:
        """All replicas, from cold to hot."""
        return [self, *self.hotter]

    @property
    def ladder(self) -> list[float]:
        """Inverse temperatures of the replicas, from 1 downwards."""
        first = self.options.annealing.inverse_temperature
        return [replica.options.annealing.inverse_temperature / first for replica in self.replicas]

    @cached_property
    def target(self) -> Target:
        """The target distribution, as the kernels read it."""
        problem = self.problem
        field = problem.field or ExternalField(np.zeros((problem.n, 0)), np.zeros(0, np.int32))
        return Target(problem.evidence, problem.adjacency, problem.tables, seeds_as_columns(field, self.seeds), field)

    def advance(self, trace: Float64Array) -> None:
        """Make as many sweeps as `trace` (sweeps, 3) has rows, or fewer after a stop, and fill the rows."""
        if not self.hotter:
            self._advance_alone(trace)
            return
        for hot in self.hotter:  # the first one's moves, each at its own temperature
            hot.options = self.options.replace(annealing=hot.options.annealing, burn_in=ENDLESS)
        for t in range(len(trace)):
            self._exchange()
            self._advance_alone(trace[t : t + 1])
            for hot in self.hotter:
                hot._advance_alone(np.empty((1, N_TRACED)))
            # Every replica has the best value of all, so that it records only what is better still.
            best = max(self.replicas, key=lambda replica: float(replica.sums.value[BEST]))
            if best is not self:
                self.sums.best[:] = best.sums.best
                self.sums.counted[BEST_SWEEP] = best.sums.counted[BEST_SWEEP]
            for replica in self.replicas:
                replica.sums.value[BEST] = best.sums.value[BEST]
            if self.stop[0]:
                break

    def _advance_alone(self, trace: Float64Array) -> None:
        options, moves = self.options, self.options.moves
        schedule = Schedule(options.annealing, moves.full, moves.near, options.regroups, options.burn_in, self.stop)
        while len(trace):
            before = self.sweep
            size = self.draws.make_room(before - options.burn_in, len(trace))
            self.state = chain_kernels.advance(
                self.target, options.bonds, self.state, self.draws.buffer, schedule, moves if moves.splits else None,
                self.rng, trace[:size],
            )  # fmt: skip
            trace = trace[self.sweep - before :]
            if self.stop[0]:
                break

    def _exchange(self) -> None:
        """Propose to exchange the states of every other pair of neighbouring replicas."""
        for r in range(self.sweep % 2, len(self.hotter), 2):
            cold, hot = self.replicas[r : r + 2]
            a, b = cold.state, hot.state
            self.exchanges[r, PROPOSED] += 1
            difference = cold.inverse_temperature - hot.inverse_temperature
            if math.log(1.0 - self.rng.random()) < difference * (b.sums.value[NOW] - a.sums.value[NOW]):
                self.exchanges[r, ACCEPTED] += 1
                a.sums.value[NOW], b.sums.value[NOW] = b.sums.value[NOW], a.sums.value[NOW]
                cold.state, hot.state = b._replace(sums=a.sums), a._replace(sums=b.sums)


def step(chain: Chain, sweeps: int) -> Float64Array:
    """Advance a chain and return its trace (sweeps, 3), with fewer rows if it was stopped meanwhile."""
    try:
        trace = np.empty((sweeps, N_TRACED))
    except MemoryError:
        raise InputError(f"sweeps must be fewer than {sweeps:,}: their trace does not fit into memory") from None
    before = chain.sweep
    chain.advance(trace)
    return trace[: chain.sweep - before]


def make_chain(
    problem: Problem, options: SamplerOptions, seeds: Int32Array, labels: Int32Array, sums: RunningSums,
    rng: np.random.Generator, used: int,
) -> Chain:  # fmt: skip
    """Make a chain whose `labels` (n,) lie in the first `used` slots: count its clusters, add scratch arrays."""
    n, evidence = problem.n, problem.evidence
    clusters = count_clusters(problem, labels, used)
    slots = np.array([used, int((clusters.size > 0).sum())])
    blocks = make_clusters(len(evidence.table_start), evidence.moments.shape[1], min(n, MAX_ANCHORS))
    parent, first_member, next_member, place, order = np.zeros((5, n), np.int32)
    scratch = Scratch(slots, parent, first_member, next_member, place, order, blocks)
    return Chain(problem, options, seeds, ChainState(labels, clusters, scratch, sums), rng, Draws(n))


def count_clusters(problem: Problem, labels: Int32Array, used: int) -> Clusters:
    """Count the sufficient statistics of labels (n,) in the first `used` slots, with room for more."""
    evidence, n = problem.evidence, problem.n
    clusters = make_clusters(len(evidence.table_start), evidence.moments.shape[1], used + 16)
    np.add.at(clusters.size, labels, 1)
    site = np.repeat(np.arange(n), np.diff(evidence.site_start))
    # Like np.add.at into the table, ten times as fast; counts are far below what a float holds exactly.
    index = evidence.word.astype(np.int64) * clusters.size.size + labels[site]
    clusters.words[:] = np.bincount(index, evidence.times, clusters.words.size).reshape(clusters.words.shape)
    np.add.at(clusters.moments.T, labels, evidence.moments)
    if evidence.moments.size:
        update_all_gaussians(evidence, clusters)
    return clusters


def start_chain(
    problem: Problem, options: SamplerOptions, seed: int = 0, init: ArrayLike | None = None,
    seeds: ArrayLike | None = None,
) -> Chain:  # fmt: skip
    """Make a chain before its first sweep, with replicas if the options have a ladder.

    It starts from the labels `init` (n,), or from as few clusters as the prior and the `seeds` (n,) allow.
    """
    clamps = _check_seeds(seeds, problem.n)
    labels = make_first_labels(problem, init, clamps)
    chain = _begin(problem, options, clamps, labels, 0, np.random.Generator(np.random.SFC64(seed)))
    return chain if options.ladder is None else add_replicas(chain, options.ladder, seed)


def add_replicas(chain: Chain, ladder: ArrayLike, seed: int) -> Chain:
    """Add replicas to a chain, in its state and with generators from a seed; returns the chain.

    The `ladder` has their inverse temperatures, from 1 downwards, as `make_ladder` makes them.
    """
    inverse = to_float_array("ladder", ladder)
    is_ladder = inverse.ndim == 1 and inverse.size > 0 and inverse[0] == 1 and (np.diff(inverse) < 0).all()
    if not is_ladder or inverse[-1] < 1 / MAX_TEMPERATURE:
        raise InputError(
            "a ladder is a list of inverse temperatures that falls from 1 and stays > 0 (and not below "
            f"{1 / MAX_TEMPERATURE:g}), not {ladder!r}"
        )
    for r, b in enumerate(inverse[1:].tolist(), 1):
        rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=(0, r))))
        chain.hotter.append(_copy_hotter(chain, b, rng))
    chain.exchanges = np.zeros((len(chain.hotter), 2), np.int64)
    return chain


def _copy_hotter(chain: Chain, factor: float, rng: np.random.Generator) -> Chain:
    """Copy a chain to another inverse temperature, without draws."""
    annealing = chain.options.annealing
    annealing = annealing._replace(inverse_temperature=annealing.inverse_temperature * factor)
    options = chain.options.replace(annealing=annealing, burn_in=ENDLESS)
    return Chain(chain.problem, options, chain.seeds, copy.deepcopy(chain.state), rng, Draws(chain.problem.n))


def _begin(
    problem: Problem, options: SamplerOptions, seeds: Int32Array, labels: Int32Array, sweep: int,
    rng: np.random.Generator,
) -> Chain:  # fmt: skip
    """Make a chain at labels (n,) after that many sweeps: they are the best, and nothing has been counted."""
    value = log_posterior(problem, labels)
    sums = RunningSums(
        value=np.array([value, value]),
        best=labels.copy(),
        together=np.zeros(len(problem.edges), np.int64),
        counted=np.array([sweep, 0, sweep]),
    )
    return make_chain(problem, options, seeds, labels, sums, rng, int(labels.max()) + 1)


def restart_from(
    chain: Chain, labels: ArrayLike, seeds: ArrayLike, burn_in: int, problem: Problem | None = None
) -> Chain:
    """Return the chain with another state and other seeds; it keeps its generators and its count of sweeps.

    The best state and the running sums begin anew, after a burn-in counted from the first start of the chain. `labels`
    (n,) must respect the `seeds` (n,), and `problem` is the same under another field or prior.
    """
    problem = chain.problem if problem is None else problem
    clamps = _check_seeds(seeds, problem.n)
    first = _close_gaps(check_labels(labels, problem.n))
    if not respects_seeds(first, clamps):
        raise InputError("sites with the same seed must share a cluster, and sites with different seeds must not")
    if not np.isfinite(_log_prior(problem, first)):
        raise InputError("the prior forbids this number or these sizes of clusters (K, min_size, max_size)")
    new = _begin(problem, chain.options.replace(burn_in=burn_in), clamps, first, chain.sweep, chain.rng)
    replicas = zip(chain.ladder[1:], chain.hotter, strict=True)
    new.hotter = [_copy_hotter(new, b, copy.deepcopy(hot.rng)) for b, hot in replicas]
    new.exchanges = chain.exchanges.copy()
    return new


def reset_sums(chain: Chain, burn_in: int) -> None:
    """Begin the running sums and the draws anew, in place, after another burn-in; the best state stays."""
    chain.sums.together[:] = 0
    chain.sums.counted[COUNTED] = 0
    chain.draws = Draws(chain.problem.n)
    chain.options = chain.options.replace(burn_in=burn_in)


def resample_sites(chain: Chain, sites: NDArray[np.integer]) -> Int32Array:
    """(n,) labels of the chain after one Gibbs visit to some sites."""
    clamps = chain.labels.copy()
    clamps[sites] = -1
    gibbs = restart_from(chain, chain.labels, clamps, 0)
    gibbs.options = gibbs.options.replace(bonds=constant_bonds(chain.problem, 0.0), regroups=0, moves=NO_MOVES)
    step(gibbs, 1)
    return gibbs.labels.copy()


def _check_seeds(seeds: ArrayLike | None, n: int) -> Int32Array:
    if seeds is None:
        return np.full(n, -1, np.int32)
    check_labels(seeds, n, "seeds")
    values = to_array("seeds", seeds)  # in their own type: a huge number would be another one as int64
    if values.min() < -1 or values.max() > np.iinfo(np.int32).max:
        raise InputError(
            f"seeds must be numbers in [0, 2147483647], or -1 for a free site, not {values.min()} to {values.max()}"
        )
    return values.astype(np.int32)


def respects_seeds(labels: NDArray[np.integer], seeds: Int32Array) -> bool:
    """Return whether sites with the same seed share a cluster, and sites with different seeds do not."""
    clamped = seeds >= 0
    pairs = np.unique(np.stack((seeds[clamped], labels[clamped])), axis=1)
    return all(len(np.unique(row)) == pairs.shape[1] for row in pairs)


def make_start_labels(
    problem: Problem, settings: Settings, seed: int, seeds: ArrayLike | None = None
) -> Int64Array | None:
    """(n,) labels of the start in the settings; None leaves a start from one cluster to the chain.

    With seeds under a field, every site starts where the field is strongest, whatever the settings say. Random clusters
    that do not fit the `seeds` and the limits of the prior are balanced anew, with the sites of each seed together.
    """
    n, field, clamps = problem.n, problem.field, _check_seeds(seeds, problem.n)
    if field is not None and seeds is not None:
        by_field = field.pull.argmax(axis=1)
        if not problem.closed:  # where no name has a positive field, a site has none
            by_field = np.where(field.pull.max(axis=1) > 0, by_field, field.anchor.size)
        by_field = np.where(clamps >= 0, seeds_as_columns(field, clamps), by_field).astype(np.int64)
        if _apply_seeds(problem, by_field, clamps) is not None:
            return by_field
    if settings.start == "one":
        return None
    if settings.start == "singletons" and not problem.closed:
        return np.arange(n)
    wanted, rng = min(settings.start_clusters, n), np.random.default_rng((seed, 1))  # not the chain's own generator
    counts = [*range(wanted, 0, -1), *range(wanted + 1, n + 1)]
    labels = _equal_clusters(problem, counts)
    if labels is not None:
        labels = rng.permutation(labels)
    if labels is None or _apply_seeds(problem, labels, clamps) is None:
        labels = None if (clamps < 0).all() else _balance_clusters(problem, clamps, counts, rng)
    if labels is None:
        with_seeds = "" if seeds is None else " with these seeds"
        raise InputError(
            f"start random finds no sizes that the prior allows (K, min_size, max_size){with_seeds}; start from one"
        )
    return labels.astype(np.int64)


def make_first_labels(problem: Problem, init: ArrayLike | None, seeds: Int32Array) -> Int32Array:
    """(n,) labels that respect the seeds and the limits of the prior: the user's, or as few clusters as possible."""
    n = problem.n
    if init is not None:
        # Without gaps: seeds get numbers beyond all labels, and there may be none beyond a huge one.
        initial = np.unique(check_labels(init, n, "init"), return_inverse=True)[1]
        labels = _apply_seeds(problem, initial, seeds)
        error = "the start has a number or sizes of clusters that the prior forbids (K, min_size, max_size)"
    else:
        labels = _split_seeds(np.zeros(n, np.int64), seeds)
        if (seeds < 0).all():
            labels = _equal_clusters(problem, range(1, n + 1))
        elif not np.isfinite(_log_prior(problem, labels)):
            labels = _balance_clusters(problem, seeds, range(1, n + 1))
        error = "no simple start fits the prior's limits (K, min_size, max_size) and the seeds; give init"
    if labels is None:
        raise InputError(error)
    return labels


def _apply_seeds(problem: Problem, labels: NDArray[np.integer], seeds: Int32Array) -> Int32Array | None:
    """(n,) labels that respect the seeds, changed as little as the prior allows; None if it allows none."""
    # A seed's cluster begins with its sites alone, unless a field says already what else belongs to it.
    ways = (_split_seeds, _join_seed_clusters) if problem.field is None else (_join_seed_clusters, _split_seeds)
    changed = (way(labels, seeds) for way in ways)
    return next((candidate for candidate in changed if np.isfinite(_log_prior(problem, candidate))), None)


def _equal_clusters(problem: Problem, counts: Iterable[int]) -> Int32Array | None:
    """(n,) clusters as equal as possible, of the first number in `counts` that the prior allows; None if none is."""
    n, (log_v, log_w) = problem.n, problem.tables
    for k in counts:
        if np.isfinite(log_v[k]) and np.isfinite(log_w[[n // k, -(-n // k)]]).all():
            return (np.arange(n) * k // n).astype(np.int32)
    return None


def _balance_clusters(
    problem: Problem, seeds: Int32Array, counts: Iterable[int], rng: np.random.Generator | None = None
) -> Int32Array | None:
    """As :func:`_equal_clusters`, as far as the seeds allow."""
    clamped = seeds >= 0
    numbers, seed_index = np.unique(seeds[clamped], return_inverse=True)
    free, log_v = np.flatnonzero(~clamped), problem.tables.log_v
    for k in itertools.islice((k for k in counts if k >= len(numbers) and np.isfinite(log_v[k])), MAX_TRIES):
        labels = np.zeros(len(seeds), np.int32)
        labels[clamped] = seed_index
        heap = [(size, j) for j, size in enumerate(np.bincount(seed_index, minlength=k).tolist())]
        heapq.heapify(heap)
        for i in free if rng is None else rng.permutation(free):  # to the cluster that is smallest so far
            size, labels[i] = heap[0]
            heapq.heapreplace(heap, (size + 1, int(labels[i])))
        labels = canonical_labels(labels)
        if np.isfinite(_log_prior(problem, labels)):
            return labels
    return None


def _log_prior(problem: Problem, labels: Int32Array) -> float:
    """Compute log g of the sizes of the clusters of labels (n,) without gaps."""
    sizes = np.bincount(labels)
    return float(problem.tables.log_v[len(sizes)] + problem.tables.log_w[sizes].sum())


def _close_gaps(labels: NDArray[np.integer]) -> Int32Array:
    """(n,) int32 canonical labels of any integers."""
    return canonical_labels(np.unique(labels, return_inverse=True)[1].astype(np.int32))


def _split_seeds(labels: NDArray[np.integer], seeds: Int32Array) -> Int32Array:
    """(n,) labels in which the sites of each seed have a cluster of their own."""
    return _close_gaps(np.where(seeds >= 0, labels.max() + 1 + seeds.astype(np.int64), labels))


def _join_seed_clusters(labels: NDArray[np.integer], seeds: Int32Array) -> Int32Array:
    """(n,) labels in which each seed takes over the cluster of most of its sites, or a new one if all are taken."""
    result = np.unique(labels, return_inverse=True)[1].astype(np.int64)
    free = int(result.max()) + 1
    pairs, count = np.unique(np.stack((seeds[seeds >= 0], result[seeds >= 0])), axis=1, return_counts=True)
    cluster_of: dict[int, int] = {}
    for seed, cluster in pairs[:, np.argsort(-count, kind="stable")].T.tolist():
        if seed not in cluster_of and cluster not in cluster_of.values():
            cluster_of[seed] = cluster
    for seed in np.unique(pairs[0]).tolist():
        if seed not in cluster_of:
            cluster_of[seed], free = free, free + 1
        result[seeds == seed] = cluster_of[seed]
    return _close_gaps(result)
