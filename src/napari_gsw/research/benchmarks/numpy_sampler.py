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

    ``labels`` (n,) are the clusters, 0..n-1 with gaps; ``sizes`` (n,) the sites of each cluster; ``blocks`` for each
    block of words the weighted counts (n, words), those of each cluster, and the concentration (words,) and its sum.
    """

    def __init__(self, problem: Problem, labels: ArrayLike, lam: float, seed: int = 0) -> None:
        self.problem, self.rng = problem, np.random.default_rng(seed)
        self.strength = np.maximum(problem.beta, 0) * lam
        self.labels: Int64Array = np.unique(check_labels(labels, problem.n), return_inverse=True)[1].astype(np.int64)
        self.sizes = np.bincount(self.labels, minlength=problem.n)
        self.blocks: list[tuple[Float64Array, Float64Array, Float64Array, float]] = []
        for block in problem.likelihoods:
            if not isinstance(block, DirichletMultinomial):
                raise InputError("the plain numpy sweep knows histograms of words only")
            counts = block.weight * block.counts.toarray()
            totals = np.zeros_like(counts)
            np.add.at(totals, self.labels, counts)
            self.blocks.append((counts, totals, block.concentration, block.phi))

    def sweep(self) -> None:
        """Draw the bonds, and then the cluster of each bonded group, in the order of the groups' smallest sites."""
        (i, j), n = self.problem.edges.T, self.problem.n
        bonded = (self.labels[i] == self.labels[j]) & (self.rng.random(len(i)) < -np.expm1(-self.strength))
        graph = sparse.coo_array((np.ones(bonded.sum()), (i[bonded], j[bonded])), shape=(n, n))
        part = connected_components(graph, directed=False)[1]
        order = np.argsort(part, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(part[order])) + 1)
        for group in sorted(groups, key=lambda group: int(group[0])):
            old = self.labels[group[0]]
            remaining = self.sizes[old] - len(group)
            if remaining > 0 and np.isneginf(self.problem.tables.log_w[remaining]):
                continue  # the rest of the cluster would be too small
            self._move(group, old, -1)
            candidates, log_weight = self._score_candidates(group, part)
            weight = np.exp(log_weight - log_weight.max())
            new = candidates[np.searchsorted(np.cumsum(weight), self.rng.random() * weight.sum(), side="right")]
            self._move(group, new, 1)
            self.labels[group] = new

    def _move(self, group: Int64Array, cluster: int, sign: int) -> None:
        """Add the sites of a group to a cluster, or with ``sign=-1`` remove them."""
        self.sizes[cluster] += sign * len(group)
        for counts, totals, _, _ in self.blocks:
            totals[cluster] += sign * counts[group].sum(axis=0)

    def _score_candidates(self, group: Int64Array, part: NDArray[np.integer]) -> tuple[Int64Array, Float64Array]:
        """Return the clusters that a removed group can join, a new one last, and the log weight of each.

        ``part`` (n,) is the bonded group of each site in this sweep.
        """
        (log_v, log_w), graph = self.problem.tables, self.problem.adjacency
        occupied = np.flatnonzero(self.sizes)
        candidates = np.append(occupied, np.flatnonzero(self.sizes == 0)[0])
        size = self.sizes[candidates]
        log_weight = (
            log_v[len(occupied) + (size == 0)] + log_w[size + len(group)] - np.where(size > 0, log_w[size], 0.0)
        )
        at = np.concatenate([np.arange(graph.start[i], graph.start[i + 1]) for i in group])
        at = at[part[graph.neighbour[at]] != part[group[0]]]
        pull = graph.beta[graph.edge[at]] - self.strength[graph.edge[at]]  # beta (1 - delta)
        log_weight += np.bincount(self.labels[graph.neighbour[at]], pull, self.problem.n)[candidates]
        for counts, totals, concentration, phi in self.blocks:
            added = counts[group].sum(axis=0)
            word = np.flatnonzero(added)
            before = totals[np.ix_(candidates, word)] + concentration[word]
            log_weight += (gammaln(before + added[word]) - gammaln(before)).sum(axis=1)
            all_words = totals[candidates].sum(axis=1) + phi
            log_weight -= gammaln(all_words + added.sum()) - gammaln(all_words)
        return candidates, log_weight
