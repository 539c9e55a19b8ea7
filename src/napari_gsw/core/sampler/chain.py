"""The chain: `sample` is a generator of immutable snapshots, everything else drains it.

A chain's whole state is data. A snapshot carries it (:attr:`Snapshot.state`, plain arrays), and ``sample(problem,
state=...)`` goes on from there bit for bit as if it had never stopped.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from napari_gsw.core.arrays import Arrays, Floats, Ints
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.sampler import chain_kernels as kernels
from napari_gsw.core.sampler.chain_kernels import advance as chain_kernels_advance
from napari_gsw.core.sampler.chain_kernels import advance_with_splits
from napari_gsw.core.sampler.draws import Draws
from napari_gsw.core.sampler.moves import regroup_kernels
from napari_gsw.core.sampler.moves.cluster_kernels import empty_clusters, gauss_part
from napari_gsw.core.sampler.records import TRACE, Bonds, Clusters, RunningSums, Workspace
from napari_gsw.core.sampler.schedule import NO_MOVES, TEMPERATE, Cooling, Moves


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
    work: Workspace
    posterior: RunningSums
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
        advance = advance_with_splits if self.moves.splits else chain_kernels_advance
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


def next_size(size: int, took: float, interval: float) -> int:
    """How many sweeps make an interval; by factors of two at most: one slow sweep must not stop the show."""
    return max(1, int(size * min(2.0, max(0.5, interval / max(took, 1e-9)))))


def step(chain: Chain, sweeps: int) -> Floats:
    """Advance a chain; returns what is traced after each sweep, shape (sweeps, 3): see :class:`Snapshot`."""
    trace = np.empty((sweeps, TRACE))
    chain.advance(trace)
    return trace


def _assembled(
    problem: Problem,
    bonds: Bonds,
    seeds: Ints,
    regroups: int,
    burn_in: int,
    labels: Ints,
    posterior: RunningSums,
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
    work = Workspace(slots, parent, head, links, place, order, blocks)
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
