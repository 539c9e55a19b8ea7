"""The chain: the arrays that sweeps change in place. Callers see snapshots, never these."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from napari_gsw.core.arrays import Arrays, Floats, Ints, Mask
from napari_gsw.core.errors import InputError
from napari_gsw.core.model.field import named_seeds, no_field
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.sampler import chain_kernels
from napari_gsw.core.sampler.draws import Draws
from napari_gsw.core.sampler.moves.cluster_kernels import empty_clusters, renew_gauss
from napari_gsw.core.sampler.moves.regroup_kernels import MOST_ANCHORS
from napari_gsw.core.sampler.options import SamplerOptions
from napari_gsw.core.sampler.records import SWEEPS, TRACE, Clusters, RunningSums, Target, Walker, Workspace


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
    seeds: Ints
    walker: Walker
    rng: np.random.Generator
    draws: Draws
    stop: Mask = field(default_factory=lambda: np.zeros(1, bool))

    @property
    def labels(self) -> Ints:
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
        return chain_kernels.coldness_at(self.options.cooling, self.sweep)

    @cached_property
    def target(self) -> Target:
        """The law that is sampled, as the kernels read it."""
        problem = self.problem
        field = no_field(problem.n) if problem.field is None else problem.field
        return Target(problem.evidence, problem.adjacency, problem.tables, named_seeds(field, self.seeds), field)

    def advance(self, trace: Floats) -> None:
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


def step(chain: Chain, sweeps: int) -> Floats:
    """Advance a chain; returns (sweeps, 3) what is traced after each: see :class:`Snapshot`.

    If someone stops the chain meanwhile, the rows are those of the sweeps that it has made.
    """
    try:
        trace = np.empty((sweeps, TRACE))
    except MemoryError:
        raise InputError(f"sweeps must be fewer than {sweeps:,}: their trace does not fit into memory") from None
    before = chain.sweep
    chain.advance(trace)
    return trace[: chain.sweep - before]


def next_size(size: int, took: float, interval: float) -> int:
    """How many sweeps make an interval; by factors of two at most: one slow sweep must not stop the show."""
    return max(1, int(size * min(2.0, max(0.5, interval / max(took, 1e-9)))))


def assembled(
    problem: Problem,
    options: SamplerOptions,
    seeds: Ints,
    labels: Ints,
    sums: RunningSums,
    rng: np.random.Generator,
    used: int,
) -> Chain:
    """A chain whose `labels` (n,) lie in the first `used` slots: count its clusters and add the scratch arrays."""
    n, evidence = problem.n, problem.evidence
    clusters = counted_clusters(problem, labels, used)
    parent, head, following, place, order = (np.zeros(n, np.int32) for _ in range(5))
    slots = np.array([used, int((clusters.size > 0).sum())])
    blocks = empty_clusters(len(evidence.table_start), evidence.moments.shape[1] // 2, min(n, MOST_ANCHORS))
    work = Workspace(slots, parent, head, following, place, order, blocks)
    return Chain(problem, options, seeds, Walker(labels, clusters, work, sums), rng, Draws(n))


def counted_clusters(problem: Problem, labels: Ints, used: int) -> Clusters:
    """Sufficient statistics of the clusters of labels (n,), which lie in the first `used` slots; with room for more."""
    evidence, n = problem.evidence, problem.n
    channels = evidence.moments.shape[1] // 2
    clusters = empty_clusters(len(evidence.table_start), channels, used + 16)
    np.add.at(clusters.size, labels, 1)
    site = np.repeat(np.arange(n), np.diff(evidence.site_start))
    # As np.add.at into the table, ten times as fast; counts are far below what a float holds exactly.
    place = evidence.word.astype(np.int64) * clusters.size.size + labels[site]
    clusters.words[:] = np.bincount(place, evidence.times, clusters.words.size).reshape(clusters.words.shape)
    np.add.at(clusters.moments.T, labels, evidence.moments)
    for k in np.flatnonzero(clusters.size).tolist() if channels else ():
        renew_gauss(evidence, clusters, k)
    return clusters
