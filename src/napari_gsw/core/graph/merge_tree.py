"""From boundary probabilities to segmentations of every fineness: the ultrametric contour map.

Neighbouring regions are merged, always the two whose common boundary is least probable. A boundary's *height* is the
mean probability at which the regions on its two sides became one: cut at any height, the boundaries above it are closed
curves, and a coarser cut has no boundary that a finer one lacks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from napari_gsw.core.array_types import Float64Array, Int32Array, Int64Array
from napari_gsw.core.errors import InputError
from napari_gsw.core.graph import merge_tree_kernels as kernels
from napari_gsw.core.graph.region_graph import check_edges
from napari_gsw.core.special import expit


@dataclass(frozen=True, eq=False)
class MergeTree:
    """The tree of merges of n sites, from single sites to as few regions as the graph allows.

    Sites that no path of edges joins are never merged, at any threshold: a graph of three components leaves three
    regions.

    Attributes
    ----------
    n : number of sites.
    left, right : (merges,) int64, the two nodes that each merge joins, the smaller number first. Nodes below n are
        sites; node n + s is the region that merge s made.
    height : (merges,) probability of the boundary between the two, in ascending order.
    """

    n: int
    left: Int64Array
    right: Int64Array
    height: Float64Array

    @property
    def fewest(self) -> int:
        """Number of regions when all is merged: 1 if the graph is connected."""
        return self.n - len(self.height)

    def labels(self, threshold: float) -> Int32Array:
        """(n,) int32 labels, by first site, after all merges whose height is `threshold` or less.

        Any negative threshold leaves the sites as they are.
        """
        return kernels.cut(self.n, self.left, self.right, int(np.searchsorted(self.height, threshold, side="right")))

    def labels_with(self, count: int) -> Int32Array:
        """(n,) int32 labels of the cut with `count` regions, or as near to it as there is.

        More than n gives n, and fewer than :attr:`fewest` gives that many. Merges of equal height are told apart by
        their order, so that every number between has a cut.
        """
        return kernels.cut(self.n, self.left, self.right, self._merges(count))

    def at_most(self, count: int) -> float:
        """The least threshold whose cut has `count` regions or fewer; -1 if the sites themselves are that few.

        If the graph leaves more regions than `count`, the threshold that merges all it can.
        """
        merges = self._merges(count)
        return float(self.height[merges - 1]) if merges else -1.0

    def levels(self, steps: int) -> Int64Array:
        """At most `steps` numbers of regions from n down to :attr:`fewest`, for the stops of a slider.

        Each is about the same share of the one before, because the step from 4 regions to 2 shows as much as the one
        from 400 to 200.
        """
        if steps < 2:
            raise InputError(f"a slider needs at least 2 steps, not {steps}")
        return np.unique(np.geomspace(self.n, self.fewest, steps).round().astype(np.int64))[::-1]

    def contour(self, edges: ArrayLike) -> Float64Array:
        """(m,) height at which the two ends of each edge (m, 2) become one: the value of the contour between them.

        It is at most t exactly where both ends have one label in ``labels(t)``. Two sites that never become one have
        infinity; that does not occur on the edges that the hierarchy was made from.
        """
        # A merge that never comes is at infinity; a site and itself, number -1, were never apart.
        return np.concatenate((self.height, [np.inf, -np.inf]))[self.merge_index(edges)]

    def merge_index(self, edges: ArrayLike) -> Int64Array:
        """(m,) number of the merge by which the two ends of each edge (m, 2) become one.

        As many as there are merges if they never do, and -1 for a site and itself.
        """
        return kernels.meeting(self.n, self.left, self.right, check_edges(edges, self.n, loops=True))

    def _merges(self, count: int) -> int:
        """How many merges leave `count` regions, or as near to it as there is."""
        if count < 1:
            raise InputError(f"there is at least 1 region, so ask for 1 or more, not {count}")
        return min(max(self.n - int(count), 0), len(self.height))


def build_merge_tree(n: int, edges: ArrayLike, apart: ArrayLike, length: ArrayLike | None = None) -> MergeTree:
    """Merge neighbouring regions, always the two with the least mean probability on their common boundary.

    The mean over a boundary of several edges is weighted by their length. Of equal means, the boundary with the edge
    that comes first in `edges` is merged first. 300,000 edges take about a second.

    Parameters
    ----------
    n : number of sites.
    edges : (m, 2) neighbouring sites, numbered from 0; of a second-order neighbourhood, those that touch.
    apart : (m,) probability that the two ends of an edge are in different clusters, 1 - together.
    length : (m,) length of the edge's boundary; None takes all as equal.

    References
    ----------
    Arbeláez, Maire, Fowlkes and Malik (2011), Contour detection and hierarchical image segmentation. TPAMI.

    Examples
    --------
    >>> tree = merge_tree(4, [[0, 1], [1, 2], [2, 3], [0, 3]], [0.1, 0.9, 0.2, 0.7])
    >>> tree.height.round(3).tolist()
    [0.1, 0.2, 0.8]
    >>> tree.labels(0.5).tolist(), tree.labels_with(3).tolist()
    ([0, 0, 1, 1], [0, 0, 1, 2])
    >>> tree.contour([[0, 3], [0, 1]]).round(3).tolist()
    [0.8, 0.1]
    """
    pairs, weight = _checked_edges(n, edges, length)
    value = _per_edge(apart, len(pairs), "apart")
    if not ((value >= 0) & (value <= 1)).all():  # so is NaN, the value before a sweep was counted
        raise InputError("apart must be probabilities between 0 and 1: run the chain past its burn-in first")
    return MergeTree(int(n), *kernels.agglomerate(int(n), pairs, weight * value, weight.copy(), np.ones(n), 0.0))


def build_strength_tree(
    n: int, edges: ArrayLike, odds: ArrayLike, size: ArrayLike, growth: float, length: ArrayLike | None = None
) -> MergeTree:
    """Merge neighbouring regions, always the two whose boundary is weakest; a small region is merged early.

    The log odds of a boundary are the mean of its edges, weighted by their length, plus `growth` times the logarithm of
    the share of all sites' size that the smaller of its two regions has. So a speck with sharp edges does not outlive
    every large region. Heights are the probabilities of these odds.

    Parameters
    ----------
    n, edges, length : as for :func:`merge_tree`.
    odds : (m,) log odds that a boundary runs along an edge.
    size : (n,) size of each site, such as its pixels.
    growth : 0 or more; 0 counts a boundary the same whatever it parts.

    Examples
    --------
    >>> tree = strength_tree(3, [[0, 1], [1, 2]], [2.0, 1.0], [1, 100, 100], 1.0)
    >>> tree.labels_with(2).tolist()
    [0, 0, 1]
    """
    pairs, weight = _checked_edges(n, edges, length)
    value = _per_edge(odds, len(pairs), "odds")
    if not np.isfinite(value).all():
        raise InputError("odds must be finite: run the chain past its burn-in first")
    sizes = np.array(size, dtype=np.float64)
    if sizes.shape != (n,) or not ((sizes > 0) & np.isfinite(sizes)).all():
        raise InputError(f"size must be a positive number for each of {n} sites")
    if not growth >= 0:
        raise InputError(f"growth must be 0 or more, not {growth}")
    left, right, height = kernels.agglomerate(
        int(n), pairs, weight * value, weight.copy(), sizes / sizes.sum(), float(growth)
    )
    return MergeTree(int(n), left, right, expit(height))


def _checked_edges(n: int, edges: ArrayLike, length: ArrayLike | None) -> tuple[Int32Array, Float64Array]:
    """(m, 2) edges and (m,) their length."""
    if n < 1:
        raise InputError("a hierarchy needs at least one site")
    pairs = check_edges(edges, n)
    weight = np.ones(len(pairs)) if length is None else _per_edge(length, len(pairs), "length")
    if not ((weight > 0) & np.isfinite(weight)).all():
        raise InputError("length must be positive and finite: the number of pixel faces of each boundary")
    return pairs, weight


def _per_edge(values: ArrayLike, m: int, name: str) -> Float64Array:
    """(m,) float64, one number for each edge."""
    row = np.asarray(values, dtype=np.float64)
    if row.shape != (m,):
        raise InputError(f"{name} must be one number for each of {m} edges, not shape {row.shape}")
    return row
