"""Regions, not only clusters: the connected parts of clusters, without those that are too small to stand.

A cluster says what looks alike; two blue cars are one cluster and two regions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.array_types import Float64Array, Int32Array
from napari_gsw.core.graph.merge_tree import MergeTree, build_strength_tree
from napari_gsw.core.graph.region_graph import group_connected
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.partitions import canonical_labels
from napari_gsw.core.settings import Settings
from napari_gsw.core.special import logit


def find_regions(
    problem: Problem,
    clusters: NDArray[np.integer],
    smallest: int = 0,
    together: Float64Array | None = None,
    held: NDArray[np.bool_] | None = None,
) -> Int32Array:
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
    region = group_connected(problem.n, edges[same])
    known = together is not None and not np.isnan(together).any()
    tie = np.asarray(together)[touching] if known else None
    means = None if problem.graph is None or known else problem.graph.means
    while smallest > 1:
        merged = _merge_smallest(region, edges, length, pixels, smallest, tie, means)
        if merged is None:
            break
        region = merged
    return canonical_labels(region)


def _merge_smallest(
    region: Int32Array,
    edges: Int32Array,
    length: Float64Array,
    pixels: Float64Array,
    smallest: int,
    tie: Float64Array | None,
    means: Float64Array | None,
) -> Int32Array | None:
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
    return group_connected(k, np.stack((here[chosen], there[chosen]), axis=1))[region]


# A share of some hundred sweeps is not known better than this.
MAX_PROBABILITY = 0.99
# Log odds that people draw the boundary of two regions: of learnt couplings, of the posterior and of the size of the
# smaller one. Chosen and fitted on half of the Berkeley training images, see docs/quality.md.
INTERCEPT, LEARNT, POSTERIOR, GROWTH = -0.05, 0.5, 0.15, 0.15
# Of a usual difference, the least that counts.
MIN_DIFFERENCE = 0.01
# The same where nothing was learnt from people: contrast counts by its logarithm, and a height is no more than a place
# on a scale. Chosen on 25 of these images.
PLAIN_INTERCEPT, PLAIN_POSTERIOR, PLAIN_GROWTH = -0.8, 0.3, 0.45


def make_boundary_tree(problem: Problem, together: Float64Array) -> MergeTree:
    """Sites merged in the order in which boundaries become stronger: a segmentation for every fineness.

    Parameters
    ----------
    together : (m,) probability that the two ends of an edge share a cluster; without NaN.
    """
    strength = _measure_strengths(problem, together)
    return build_strength_tree(
        problem.n, strength.edges, strength.odds, strength.pixels, strength.growth, strength.length
    )


def merge_weak_boundaries(
    problem: Problem, together: Float64Array, regions: Int32Array, weakest: float, held: NDArray[np.bool_] | None = None
) -> Int32Array:
    """(n,) int32 regions, by first site, after those have joined whose boundary is weaker than a probability.

    Where a surface grows lighter from one side to the other the evidence that its ends differ adds up, in a large image
    until the surface falls into two, along a line that nobody would draw.

    Parameters
    ----------
    together : (m,) probability that the two ends of an edge share a cluster; with NaN nothing is joined.
    regions : (n,) region of each site, 0, 1, ...
    weakest : probability up to which a boundary goes, as the heights of :func:`boundary_tree` are; 0 leaves all.
    held : (n,) sites that a person has labelled: their regions join with none.
    """
    if weakest <= 0 or np.isnan(together).any():
        return regions
    strength = _measure_strengths(problem, together)
    ends = regions[strength.edges]
    between = ends[:, 0] != ends[:, 1]
    if held is not None and held.any():
        between &= ~np.isin(ends, regions[held]).any(axis=1)
    if not between.any():
        return regions
    size = np.bincount(regions, strength.pixels)
    length = None if strength.length is None else strength.length[between]
    tree = build_strength_tree(len(size), ends[between], strength.odds[between], size, strength.growth, length)
    return canonical_labels(tree.labels(weakest)[regions])


class _BoundaryStrengths(NamedTuple):
    """How strong boundaries are: edges (m, 2) of sites that touch, their log odds and length, sites' pixels, growth."""

    edges: Int32Array
    odds: Float64Array
    length: Float64Array | None
    pixels: Float64Array
    growth: float


def _measure_strengths(problem: Problem, together: Float64Array) -> _BoundaryStrengths:
    """What the tree of merges of a problem's sites is made of."""
    graph = problem.graph
    touching = np.ones(len(together), bool) if graph is None else graph.order == 1
    pixels = np.ones(problem.n) if graph is None else graph.pixels.astype(np.float64)
    learnt = _learnt_log_odds(problem)
    known = boundary_log_odds(together)
    if learnt is not None:
        odds, growth = INTERCEPT + LEARNT * learnt + POSTERIOR * known, GROWTH
    else:
        odds, growth = PLAIN_INTERCEPT + _contrast_log_odds(problem) + PLAIN_POSTERIOR * known, PLAIN_GROWTH
    length = None if graph is None else graph.length[touching]
    return _BoundaryStrengths(problem.edges[touching], odds[touching], length, pixels, growth)


def boundary_log_odds(together: Float64Array) -> Float64Array:
    """(m,) log odds of the posterior that the two ends of an edge are apart."""
    return np.asarray(logit(np.clip(1 - together, 1 - MAX_PROBABILITY, MAX_PROBABILITY)))


def _learnt_log_odds(problem: Problem) -> Float64Array | None:
    """(m,) log odds of a boundary that learnt couplings stand for; None of other couplings."""
    settings = problem.settings or Settings()
    if settings.coupling != "learnt" or settings.beta == 0:
        return None
    repulsion = settings.repulsion or 1.0
    beta = np.where(problem.beta < 0, problem.beta / repulsion, problem.beta)
    return np.asarray(-beta / settings.beta - settings.offset)


def _contrast_log_odds(problem: Problem) -> Float64Array:
    """(m,) how strong a boundary is without anything learnt: 0 for a common one, 1 for one e times as strong."""
    settings, graph = problem.settings or Settings(), problem.graph
    if (problem.beta < 0).any():
        return np.asarray(-problem.beta)  # of both signs: log odds already
    if graph is None:
        return np.zeros(len(problem.edges))
    difference = graph.contrast
    if settings.coupling == "contrast" and settings.beta > 0 and (problem.beta > 0).all():
        difference = -np.log(np.minimum(problem.beta / settings.beta, 1.0))
    usual = float(np.median(difference)) if len(difference) else 0.0
    return np.log(np.maximum(difference / usual, MIN_DIFFERENCE)) if usual > 0 else np.zeros(len(difference))
