"""Hierarchical segmentation by merging: the ultrametric contour map.

The two neighbouring regions with the least probable common boundary are merged, again and again. The height of a
boundary is the mean probability at which the regions on its two sides are united. Cut at any height, the boundaries
above it are closed curves, and a coarser cut has no boundary that a finer one lacks.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from napari_gsw.core.array_types import Float64Array, Int32Array, Int64Array
from napari_gsw.core.errors import InputError
from napari_gsw.core.graph.region_graph import check_edges, group_connected
from napari_gsw.core.jit import arange, as_int64, full, njit, njit_inner, zeros
from napari_gsw.core.special import expit


@dataclass(frozen=True, eq=False)
class MergeTree:
    """Merges of n sites, down to one region per connected component of the graph."""

    n: int
    # (merges,) the nodes that each merge joins, the smaller one first: below n sites, n + s is the region of merge s
    left: Int64Array
    right: Int64Array
    height: Float64Array  # (merges,) probability of the boundary between the two, ascending

    def labels(self, threshold: float) -> Int32Array:
        """Label the sites, by first site, after all merges of at most this height; a negative one merges nothing."""
        return self._cut(int(np.searchsorted(self.height, threshold, side="right")))

    def labels_with(self, count: int) -> Int32Array:
        """Label the sites by the cut with `count` regions, or as near to it as there is."""
        if count < 1:
            raise InputError(f"the number of regions must be 1 or more, not {count}")
        return self._cut(min(max(self.n - int(count), 0), len(self.height)))

    def contour(self, edges: ArrayLike) -> Float64Array:
        """Compute the height at which the two ends of each edge (m, 2) are united, infinite if none does.

        It is at most t exactly where both ends have one label in ``labels(t)``.
        """
        # A merge that never comes is at infinity; a site and itself, number -1, were never apart.
        return np.concatenate((self.height, [np.inf, -np.inf]))[self.merge_index(edges)]

    def merge_index(self, edges: ArrayLike) -> Int64Array:
        """Find the merge that unites the ends of each edge (m, 2): their number if none does, -1 for equal ends."""
        return _find_merges(self.n, self.left, self.right, check_edges(edges, self.n, loops=True))

    def sum_regions(self, values: Float64Array) -> Float64Array:
        """Sum values (n, C) of sites over the region of every node: (n + merges, C)."""
        sums = np.concatenate((values, np.zeros((len(self.height), values.shape[1]))))
        for node, (left, right) in enumerate(zip(self.left.tolist(), self.right.tolist(), strict=True), self.n):
            sums[node] = sums[left] + sums[right]
        return sums

    def _cut(self, n_merges: int) -> Int32Array:
        nodes = self.n + np.arange(n_merges)
        pairs = np.stack((np.concatenate((self.left[:n_merges], self.right[:n_merges])), np.tile(nodes, 2)), axis=1)
        return group_connected(self.n + n_merges, pairs)[: self.n]


def build_merge_tree(
    n: int,
    edges: ArrayLike,
    value: ArrayLike,
    length: ArrayLike | None = None,
    size: ArrayLike | None = None,
    growth: float = 0.0,
) -> MergeTree:
    """Merge neighbouring regions, always the two with the lowest value of their common boundary.

    The value of a boundary is the mean of its edges' (m,), such as probabilities, weighted by `length` (m,). To it is
    added `growth` times the logarithm of the smaller region's share of the total `size` (n,): so a speck with sharp
    edges does not outlive large regions. Of equal values, the boundary with the first edge is merged first. 300,000
    edges take about a second. See Arbelaez, Maire, Fowlkes and Malik (2011), Contour detection and hierarchical image
    segmentation.

    >>> tree = build_merge_tree(4, [[0, 1], [1, 2], [2, 3], [0, 3]], [0.1, 0.9, 0.2, 0.7])
    >>> tree.height.round(3).tolist(), tree.labels(0.5).tolist(), tree.contour([[0, 3], [0, 1]]).round(3).tolist()
    ([0.1, 0.2, 0.8], [0, 0, 1, 1], [0.8, 0.1])
    """
    pairs, values = check_edges(edges, n), np.asarray(value, np.float64)
    weight = np.ones(len(pairs)) if length is None else np.array(length, np.float64)
    sizes = np.ones(n) if size is None else np.asarray(size, np.float64)
    if not values.shape == weight.shape == (len(pairs),) or sizes.shape != (n,):  # the compiled code does not check
        raise InputError(f"there must be a value and a length for each of {len(pairs)} edges, and {n} sizes")
    if not np.isfinite(values).all():
        raise InputError("the strength of boundaries must be finite: run the chain past its burn-in first")
    return MergeTree(n, *_agglomerate(n, pairs, weight * values, weight, sizes / sizes.sum(), growth))


def build_strength_tree(
    n: int, edges: ArrayLike, odds: ArrayLike, size: ArrayLike, growth: float, length: ArrayLike | None = None
) -> MergeTree:
    """Merge regions by the log odds (m,) of boundaries, small ones early; heights are the probabilities of the odds."""
    tree = build_merge_tree(n, edges, odds, length, size, growth)
    return replace(tree, height=expit(tree.height))


@njit_inner
def _value(
    e: int, end: Int32Array, total: Float64Array, length: Float64Array, size: Float64Array, growth: float
) -> float:
    """Compute the present value of boundary e: its mean, plus the growth of its smaller region."""
    value: float = total[e] / length[e] + growth * np.log(min(size[end[e, 0]], size[end[e, 1]]))
    return value


@njit
def _agglomerate(
    n: int, edges: Int32Array, total: Float64Array, length: Float64Array, size: Float64Array, growth: float
) -> tuple[Int64Array, Int64Array, Float64Array]:
    """Merge the two neighbouring regions with the boundary of minimal value until none is left.

    Edges (m, 2) of one pair are one boundary; `total`, the length times value of each edge, `length` (m,) and `size`
    (n,) are overwritten.

    A region is known by one of its sites, its name. Its boundaries are a linked list of half-edges: 2 e and 2 e + 1 are
    the two sides of edge e, listed under the names of its ends. When two regions merge, the shorter list is moved into
    the longer one, so a half-edge is moved O(log m) times. Boundaries to the same third region are joined. The queue is
    never searched: a changed boundary is queued again, and outdated entries are skipped. Regions grow, and with them
    the value of their boundaries; an entry of too low a value is queued again when its turn comes.
    """
    m = edges.shape[0]
    end = edges.copy()
    alive = full(m, 1, np.bool_)
    next_half = full(2 * m, -1, np.int64)
    first = full(n, -1, np.int64)
    entries = zeros(n, np.int64)  # of the list, dead ones included: the cost of moving it
    edge_of_pair: dict[int, int] = {}  # name * n + name, the smaller one first -> edge
    for e in range(m):
        key = as_int64(min(end[e, 0], end[e, 1])) * n + max(end[e, 0], end[e, 1])
        if key in edge_of_pair:
            other = edge_of_pair[key]
            total[other] += total[e]
            length[other] += length[e]
            alive[e] = False
            continue
        edge_of_pair[key] = as_int64(e)
        for side in range(2):
            next_half[2 * e + side] = first[end[e, side]]
            first[end[e, side]] = 2 * e + side
            entries[end[e, side]] += 1
    queue = [(_value(e, end, total, length, size, growth), e) for e in range(m) if alive[e]]
    heapq.heapify(queue)

    node = arange(n, np.int64)
    left, right, height = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.float64)
    merges = 0
    while len(queue) > 0:
        value, e = heapq.heappop(queue)
        if not alive[e]:
            continue
        current = _value(e, end, total, length, size, growth)
        if value != current:
            if value < current:
                heapq.heappush(queue, (current, e))
            continue
        a, b = end[e, 0], end[e, 1]
        if entries[a] > entries[b]:
            a, b = b, a
        left[merges] = min(node[a], node[b])
        right[merges] = max(node[a], node[b])
        # Heights ascend but for rounding: the mean of two boundaries is not below both, and no region shrinks.
        height[merges] = value if merges == 0 else max(value, height[merges - 1])
        node[b] = n + merges
        size[b] += size[a]
        merges += 1
        alive[e] = False

        h = first[a]
        while h >= 0:
            after = next_half[h]
            e = h // 2
            if alive[e]:
                c = end[e, 1 - h % 2]
                end[e, h % 2] = b
                key = as_int64(min(b, c)) * n + max(b, c)
                if key in edge_of_pair:
                    other = edge_of_pair[key]
                    kept, gone = min(e, other), max(e, other)
                    total[kept] += total[gone]
                    length[kept] += length[gone]
                    alive[gone] = False
                    heapq.heappush(queue, (_value(kept, end, total, length, size, growth), kept))
                else:
                    kept = e
                edge_of_pair[key] = as_int64(kept)
                if kept == e:
                    next_half[h] = first[b]
                    first[b] = h
                    entries[b] += 1
            h = after
    return left[:merges], right[:merges], height[:merges]


@njit
def _find_merges(n: int, left: Int64Array, right: Int64Array, edges: Int32Array) -> Int64Array:
    """Find the merge that unites the two ends of each edge; see :meth:`MergeTree.merge_index`.

    The merges are replayed as a forest in which the smaller region hangs under the larger one, so no path is longer
    than log2 n. Of the two ends the one that was hung earlier goes up, until both meet.
    """
    merges = left.size
    parent = arange(n, np.int64)
    hung = full(n, merges, np.int64)  # the merge that hung a site under its parent
    name = np.empty(n + merges, np.int64)
    size = full(n, 1, np.int64)
    name[:n] = arange(n, np.int64)
    for s in range(merges):
        a, b = name[left[s]], name[right[s]]
        if size[a] > size[b]:
            a, b = b, a
        parent[a] = b
        hung[a] = s
        size[b] += size[a]
        name[n + s] = b
    result = np.empty(edges.shape[0], np.int64)
    for e in range(edges.shape[0]):
        a, b = as_int64(edges[e, 0]), as_int64(edges[e, 1])
        last = -1
        while a != b and last < merges:
            if hung[a] > hung[b]:
                a, b = b, a
            last = hung[a]
            a = parent[a]
        result[e] = last
    return result
