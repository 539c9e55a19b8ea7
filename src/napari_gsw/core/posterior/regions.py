"""Regions, not only clusters: the connected parts of clusters, without those that are too small to stand.

A cluster says what looks alike; two blue cars are one cluster and two regions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.arrays import Floats, Ints
from napari_gsw.core.graph.region_graph import connected_pairs
from napari_gsw.core.model.partition_kernels import canonical
from napari_gsw.core.model.problem import Problem


def regions_of(
    problem: Problem,
    clusters: NDArray[np.integer],
    smallest: int = 0,
    together: Floats | None = None,
    held: NDArray[np.bool_] | None = None,
) -> Ints:
    """(n,) int32 region of each site, numbered 0, 1, ... by the first site.

    Parameters
    ----------
    clusters : (n,) whole numbers; sites with equal numbers share a cluster.
    smallest : regions of fewer pixels join a neighbour, the smallest ones first. A region without a neighbour stays.
    together : (m,) probability that the ends of an edge share a cluster: a small region joins the neighbour with which
        it is most probably one, averaged over their boundary. None (or NaN) takes the one of nearest mean colour.
    held : (n,) sites that a person has labelled: a region that holds one stays, however small.
    """
    touching = slice(None) if problem.graph is None else problem.graph.order == 1
    edges = problem.edges[touching]
    length = np.ones(len(edges)) if problem.graph is None else problem.graph.length[touching]
    pixels = np.ones(problem.n) if problem.graph is None else problem.graph.pixels.astype(np.float64)
    if held is not None:
        pixels = np.where(held, np.inf, pixels)
    same = clusters[edges[:, 0]] == clusters[edges[:, 1]]
    region = connected_pairs(problem.n, edges[same])
    known = together is not None and not np.isnan(together).any()
    tie = np.asarray(together)[touching] if known else None
    means = None if problem.graph is None or known else problem.graph.means
    while smallest > 1:
        merged = _without_smallest(region, edges, length, pixels, smallest, tie, means)
        if merged is None:
            break
        region = merged
    return canonical(region)


def _without_smallest(
    region: Ints, edges: Ints, length: Floats, pixels: Floats, smallest: int, tie: Floats | None, means: Floats | None
) -> Ints | None:
    """Join every region that is too small, and smaller than its neighbours that are too small, with one neighbour.

    So no two that touch move in one round, and the result is that of taking the smallest first, in few rounds.
    Returns None when there is nothing left to join.
    """
    k = int(region.max()) + 1
    size = np.bincount(region, pixels, k)
    ends = region[edges]
    border = ends[:, 0] != ends[:, 1]
    both = np.concatenate((ends[border], ends[border][:, ::-1]))
    here, there = both[:, 0].astype(np.int64), both[:, 1].astype(np.int64)
    key, index = np.unique(here * k + there, return_inverse=True)
    here, there = key // k, key % k
    if tie is not None:
        reach = np.tile(length[border], 2)
        cost = -np.bincount(index, reach * np.tile(tie[border], 2), len(key)) / np.bincount(index, reach, len(key))
    elif means is not None:
        weight = np.where(np.isfinite(pixels), pixels, 1.0)
        total = np.bincount(region, weight, k)
        mean = np.stack([np.bincount(region, c * weight, k) / total for c in means.T], axis=1)
        cost = np.linalg.norm(mean[here] - mean[there], axis=1)
    else:
        cost = -np.bincount(index, np.tile(length[border], 2), len(key)).astype(np.float64)
    small = size < smallest
    rank = np.empty(k, np.int64)
    rank[np.lexsort((np.arange(k), size))] = np.arange(k)
    least = np.full(k, k)
    np.minimum.at(least, here, rank[there])
    moving = small & (rank < least)
    order = np.lexsort((there, cost, here))
    order = order[moving[here[order]]]
    first = np.unique(here[order], return_index=True)[1]
    if not len(first):
        return None
    chosen = order[first]
    return connected_pairs(k, np.stack((here[chosen], there[chosen]), axis=1))[region]
