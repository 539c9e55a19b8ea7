"""The chain: `sample` is a generator of immutable snapshots, everything else drains it.

A chain's whole state is data. A snapshot carries it (:attr:`Snapshot.state`, plain arrays), and ``sample(problem,
state=...)`` goes on from there bit for bit as if it had never stopped.
"""

from __future__ import annotations

import dataclasses
import heapq
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_gsw.core.arrays import NO_MOVES, TEMPERATE, TRACE, Bonds, Clusters, Cooling, Moves, Posterior, Work
from napari_gsw.core.errors import InputError
from napari_gsw.core.model.problem import Problem, check_labels, log_posterior
from napari_gsw.core.sampler import bonds as bonding
from napari_gsw.core.sampler import chain_kernels as kernels
from napari_gsw.core.sampler.draws import Draws
from napari_gsw.core.sampler.moves import regroup_kernels
from napari_gsw.core.sampler.moves import split_merge_kernels as split_kernels
from napari_gsw.core.sampler.moves.cluster_kernels import empty_clusters, gauss_part
from napari_gsw.core.threads import aside

Ints = NDArray[np.int32]
Floats = NDArray[np.float64]
Arrays = Mapping[str, NDArray[Any]]

# How many numbers of clusters are tried for a start that has seeds.
MOST_DEALS = 64
# Of moves that split and merge: how often a split is gone over, the share of near anchors, and that of informed moves.
SCANS, NEAR, INFORMED = 3, 0.5, 0.5


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


@dataclass
class Chain:
    """The arrays that a running chain changes in place. Callers see snapshots, never these."""

    problem: Problem
    bonds: Bonds
    seeds: Ints
    regroups: int
    burn_in: int
    labels: Ints
    clusters: Clusters
    work: Work
    posterior: Posterior
    rng: np.random.Generator
    draws: Draws
    cooling: Cooling = TEMPERATE
    moves: Moves = NO_MOVES

    @property
    def coldness(self) -> float:
        """Inverse temperature of the next sweep."""
        return kernels.coldness_at(self.cooling, int(self.posterior.counted[0]))

    def advance(self, trace: Floats) -> None:
        """As many sweeps as `trace` has rows, which become what is traced of them."""
        p = self.problem
        advance = split_kernels.advance if self.moves.splits else kernels.advance
        while len(trace):
            size = self.draws.ahead(int(self.posterior.counted[0]), self.burn_in, len(trace))
            self.clusters = advance(
                p.evidence, p.adjacency, p.tables, self.bonds, self.seeds, self.labels, self.clusters, self.work,
                self.posterior, self.draws.table, self.rng, self.cooling, self.moves, self.regroups, self.burn_in,
                trace[:size],
            )  # fmt: skip
            trace = trace[size:]

    def arrays(self) -> Arrays:
        """What this kind of chain has to keep beside what every chain has."""
        return {}

    def renewed(self, chain: Chain) -> Chain:
        """A chain of this kind that goes on from another state, that of `chain`."""
        return chain


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


def annealed(temperature: float, sweeps: int) -> Cooling:
    """From a temperature down to 1 over some sweeps, by the same factor each.

    >>> annealed(4.0, 100)
    Cooling(coldness=1.0, hot=4.0, sweeps=100)
    """
    if not (np.isfinite(temperature) and temperature > 0):
        raise InputError(f"the temperature of annealing must be a number > 0, not {temperature!r}")
    if isinstance(sweeps, bool) or int(sweeps) != sweeps or sweeps < 0:
        raise InputError(f"the sweeps of annealing must be a whole number >= 0, not {sweeps!r}")
    return Cooling(1.0, float(temperature), int(sweeps))


def split_moves(splits: int | Moves, full_scans: float | None = None) -> Moves:
    """So many split-merge moves after each sweep, half of them informed; or the record itself, checked.

    `full_scans` is the share of sweeps that weigh every cluster; None leaves it as it is, 1 in a new record.
    """
    moves = splits if isinstance(splits, Moves) else Moves(splits, SCANS, NEAR, INFORMED) if splits else NO_MOVES
    for name, number in (("splits", moves.splits), ("scans", moves.scans)):
        if isinstance(number, bool) or int(number) != number or number < 0:
            raise InputError(f"{name} must be a whole number >= 0, not {number!r}")
    for name, share in (("near", moves.near), ("informed", moves.informed)):
        if not 0 <= share <= 1:
            raise InputError(f"{name} must be a share in [0, 1], not {share!r}")
    full = moves.full if full_scans is None else full_scans
    if not 0 < full <= 1:
        raise InputError(f"full_scans must be a share in (0, 1], not {full!r}")
    return Moves(int(moves.splits), int(moves.scans), float(moves.near), float(moves.informed), float(full))


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
        trace = aside(step, chain, size)
        took = time.perf_counter() - began
        sweeps -= size
        yield snapshot(chain, trace)
        if interval is not None:
            size = next_size(size, took, interval)


def next_size(size: int, took: float, interval: float) -> int:
    """How many sweeps make an interval; by factors of two at most: one slow sweep must not stop the show."""
    return max(1, int(size * min(2.0, max(0.5, interval / max(took, 1e-9)))))


def run(problem: Problem, sweeps: int = 1000, **more: Any) -> Snapshot:
    """Drain :func:`sample` and return the last snapshot; its trace is that of the whole run."""
    snapshots = list(sample(problem, sweeps, **{"every": max(sweeps, 1)} | more))
    return dataclasses.replace(snapshots[-1], trace=_frozen(np.concatenate([s.trace for s in snapshots])))


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
    posterior = Posterior(
        value=np.array([value, value]),
        best=labels.copy(),
        together=np.zeros(len(problem.edges), np.int64),
        counted=np.zeros(3, np.int64),
    )
    rng = np.random.Generator(np.random.SFC64(seed))
    used = int(labels.max()) + 1
    return _assembled(problem, bonds, held, regroups, burn_in, labels, posterior, rng, used, cooling, moves)


def step(chain: Chain, sweeps: int) -> Floats:
    """Advance a chain; returns what is traced after each sweep, shape (sweeps, 3): see :class:`Snapshot`."""
    trace = np.empty((sweeps, TRACE))
    chain.advance(trace)
    return trace


def snapshot(chain: Chain, trace: Floats) -> Snapshot:
    """An immutable copy of everything that matters of a chain."""
    sweep, counted, best_sweep = (int(x) for x in chain.posterior.counted)
    value, best_value = (float(x) for x in chain.posterior.value)
    share = chain.posterior.together / counted if counted else np.full(len(chain.problem.edges), np.nan)
    best = State(best_sweep, _frozen(kernels.canonical(chain.posterior.best)), best_value)
    labels = _frozen(kernels.canonical(chain.labels))
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
        posterior = Posterior(*(state[name].copy() for name in Posterior._fields))
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
    first = kernels.canonical(np.unique(check_labels(labels, problem.n), return_inverse=True)[1].astype(np.int32))
    pairs = np.unique(np.stack((held[held >= 0], first[held >= 0])), axis=1)
    if any(len(np.unique(row)) < pairs.shape[1] for row in pairs):
        raise InputError("sites with the same seed must share a cluster, and sites with different seeds must not")
    if not np.isfinite(_log_prior(problem, first)):
        raise InputError("the prior forbids this number or these sizes of clusters (K, min_size, max_size)")
    value, sweep = log_posterior(problem, first), int(chain.posterior.counted[0])
    posterior = Posterior(
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


def _assembled(
    problem: Problem,
    bonds: Bonds,
    seeds: Ints,
    regroups: int,
    burn_in: int,
    labels: Ints,
    posterior: Posterior,
    rng: np.random.Generator,
    used: int,
    cooling: Cooling,
    moves: Moves,
) -> Chain:
    """Count the clusters of `labels`, which lie in the first `used` slots, and add the scratch arrays.

    The burn-in lasts at least until the temperature is what it stays: the sums are of one law.
    """
    n, e = problem.n, problem.evidence
    clusters = counted_clusters(problem, labels, used)
    parent, head, links, place, order = (np.zeros(n, np.int32) for _ in range(5))
    slots = np.array([used, int((clusters.size > 0).sum())])
    blocks = empty_clusters(len(e.table_start), e.moments.shape[1] // 2, min(n, regroup_kernels.MOST_ANCHORS))
    work = Work(slots, parent, head, links, place, order, blocks)
    return Chain(
        problem, bonds, seeds, regroups, max(burn_in, cooling.sweeps), labels, clusters, work, posterior, rng, Draws(n),
        cooling, moves,
    )  # fmt: skip


def counted_clusters(problem: Problem, labels: Ints, used: int) -> Clusters:
    """Sufficient statistics of the clusters of `labels`, which lie in the first `used` slots, with room for more."""
    e, n = problem.evidence, problem.n
    channels = e.moments.shape[1] // 2
    clusters = empty_clusters(len(e.table_start), channels, used + 16)
    np.add.at(clusters.size, labels, 1)
    np.add.at(clusters.words, (e.word, labels[np.repeat(np.arange(n), np.diff(e.site_start))]), e.times)
    np.add.at(clusters.moments.T, labels, e.moments)
    if channels:
        for k in np.flatnonzero(clusters.size).tolist():
            pixels = int(clusters.words[e.pixels, k])
            clusters.gauss[k] = gauss_part(e.gauss, clusters.moments, k, pixels, np.zeros(2 * channels))
    return clusters


def generator(words: NDArray[Any]) -> np.random.Generator:
    """The generator whose inner state was exported."""
    rng = np.random.Generator(np.random.SFC64(0))
    inner = dict(rng.bit_generator.state)
    inner["state"] = {"state": words.astype(np.uint64)}
    rng.bit_generator.state = inner
    return rng


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
    return kernels.canonical(np.unique(apart, return_inverse=True)[1].astype(np.int32))


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
    return kernels.canonical(labels)


def _check_seeds(seeds: ArrayLike, n: int) -> Ints:
    values = check_labels(seeds, n, "seeds")
    if values.min(initial=0) < -1 or values.max(initial=0) > np.iinfo(np.int32).max:
        raise InputError(
            f"seeds must be numbers in [0, 2147483647], or -1 for a free site, not {values.min()} to {values.max()}"
        )
    return values.astype(np.int32)


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array
