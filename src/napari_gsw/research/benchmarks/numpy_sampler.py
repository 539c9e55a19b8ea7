"""The sweep in plain numpy: slow reference code that the compiled kernel is compared with.

It is tested against the exact posterior like the kernel. It takes histograms only, and has no seeds, temperatures or
moves of whole clusters.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.special import gammaln

from napari_gsw.core.array_types import Float64Array, Int64Array
from napari_gsw.core.errors import InputError
from napari_gsw.core.likelihood.conjugate import DirichletMultinomial
from napari_gsw.core.model.problem import Problem, check_labels


class NumpySampler:
    """A chain in plain numpy.

    ``labels`` (n,) are the clusters, 0..n-1 with gaps; ``part`` (n,) the bonded group of each site in this sweep;
    ``sizes`` (n,) the sites of each cluster; ``totals`` the counts (n, words) of each cluster, for each block of words.
    """

    def __init__(self, problem: Problem, labels: ArrayLike, lam: float, seed: int = 0) -> None:
        self.problem = problem
        self.rng = np.random.default_rng(seed)
        self.strength = np.maximum(problem.beta, 0) * lam
        self.labels: Int64Array = np.unique(check_labels(labels, problem.n), return_inverse=True)[1].astype(np.int64)
        self.part: NDArray[np.integer] = np.arange(problem.n)
        self.sizes = np.bincount(self.labels, minlength=problem.n)
        self.blocks: list[tuple[Float64Array, Float64Array, float]] = []  # weighted counts, concentration and its sum
        self.totals: list[Float64Array] = []
        for block in problem.likelihoods:
            if not isinstance(block, DirichletMultinomial):
                raise InputError("the plain numpy sweep knows histograms of words only")
            counts = block.weight * block.counts.toarray()
            self.blocks.append((counts, block.concentration, block.phi))
            self.totals.append(np.zeros_like(counts))
            np.add.at(self.totals[-1], self.labels, counts)

    def sweep(self) -> None:
        """Draw the bonds, and then the cluster of each bonded group, in the order of the groups' smallest sites."""
        i, j = self.problem.edges.T
        n = self.problem.n
        bonded = (self.labels[i] == self.labels[j]) & (self.rng.random(len(i)) < -np.expm1(-self.strength))
        graph = sparse.coo_array((np.ones(bonded.sum()), (i[bonded], j[bonded])), shape=(n, n))
        self.part = connected_components(graph, directed=False)[1]
        order = np.argsort(self.part, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(self.part[order])) + 1)
        for group in sorted(groups, key=lambda group: int(group[0])):
            old = self.labels[group[0]]
            remaining = self.sizes[old] - len(group)
            if remaining > 0 and np.isneginf(self.problem.tables.log_w[remaining]):
                continue  # the rest of the cluster would be too small
            self.move(group, old, -1)
            candidates, log_weight = self.score_candidates(group)
            weight = np.exp(log_weight - log_weight.max())
            new = candidates[np.searchsorted(np.cumsum(weight), self.rng.random() * weight.sum(), side="right")]
            self.move(group, new, 1)
            self.labels[group] = new

    def move(self, group: Int64Array, cluster: int, sign: int) -> None:
        """Add the sites of a group to a cluster, or with ``sign=-1`` remove them."""
        self.sizes[cluster] += sign * len(group)
        for (counts, _, _), total in zip(self.blocks, self.totals, strict=True):
            total[cluster] += sign * counts[group].sum(axis=0)

    def score_candidates(self, group: Int64Array) -> tuple[Int64Array, Float64Array]:
        """Return the clusters that a removed group can join, a new one last, and the log weight of each."""
        log_v, log_w = self.problem.tables
        occupied = np.flatnonzero(self.sizes)
        candidates = np.append(occupied, np.flatnonzero(self.sizes == 0)[0])
        size = self.sizes[candidates]
        log_weight = (
            log_v[len(occupied) + (size == 0)] + log_w[size + len(group)] - np.where(size > 0, log_w[size], 0.0)
        )
        log_weight += self.neighbour_weight(group)[candidates]
        for (counts, pi, phi), total in zip(self.blocks, self.totals, strict=True):
            added = counts[group].sum(axis=0)
            word = np.flatnonzero(added)
            before = total[np.ix_(candidates, word)] + pi[word]
            log_weight += (gammaln(before + added[word]) - gammaln(before)).sum(axis=1)
            all_words = total[candidates].sum(axis=1) + phi
            log_weight -= gammaln(all_words + added.sum()) - gammaln(all_words)
        return candidates, log_weight

    def neighbour_weight(self, group: Int64Array) -> Float64Array:
        """Return (n,) the sum of beta (1 - delta) over the edges from a group to each cluster."""
        graph = self.problem.adjacency
        at = np.concatenate([np.arange(graph.start[i], graph.start[i + 1]) for i in group])
        at = at[self.part[graph.neighbour[at]] != self.part[group[0]]]
        weight = graph.beta[graph.edge[at]] - self.strength[graph.edge[at]]
        return np.asarray(np.bincount(self.labels[graph.neighbour[at]], weight, self.problem.n))
