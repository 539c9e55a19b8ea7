"""Regions: connected parts of clusters, merged where they are small or hardly separated; and their boundaries."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.array_types import BoolArray, Float64Array, Int32Array, Int64Array
from napari_gsw.core.errors import InputError
from napari_gsw.core.graph.merge_tree import MergeTree, build_strength_tree
from napari_gsw.core.graph.region_graph import group_connected
from napari_gsw.core.model.problem import Problem, boundary_length, site_pixels, touching_edges
from napari_gsw.core.partitions import canonical_labels
from napari_gsw.core.settings import Settings
from napari_gsw.core.sites.blocked_labels import BlockedLabels, map_blocks_with_border
from napari_gsw.core.sites.site_values import list_faces
from napari_gsw.core.special import logit

# A frequency over some hundred sweeps is not more exact than this.
MAX_PROBABILITY = 0.99
# Log odds that people draw the boundary of two regions, from learnt couplings, the posterior, and the size of the
# smaller region. Chosen and fitted on half of the Berkeley training images, see docs/quality.md.
INTERCEPT, LEARNT, POSTERIOR, GROWTH = -0.05, 0.5, 0.15, 0.15
# The same without learnt couplings: the logarithm of the contrast counts, and a height is only a place on a scale.
# Chosen on 25 of these images.
PLAIN_INTERCEPT, PLAIN_POSTERIOR, PLAIN_GROWTH = -0.8, 0.3, 0.45
# Least difference, in units of the median.
MIN_DIFFERENCE = 0.01


def find_regions(
    problem: Problem,
    clusters: NDArray[np.integer],
    min_pixels: int = 0,
    together: Float64Array | None = None,
    is_locked: BoolArray | None = None,
) -> Int32Array:
    """(n,) int32 region of each site, numbered 0, 1, ... by the first site.

    Regions of fewer than `min_pixels` without a locked site join a neighbour, the smallest first: that with the largest
    probability `together` (m,) on average over the boundary, or without it (or with NaN) of the nearest mean colour.
    """
    touching, pixels = touching_edges(problem), site_pixels(problem)
    edges, length = problem.edges[touching], boundary_length(problem)[touching]
    if is_locked is not None:
        pixels = np.where(is_locked, np.inf, pixels)
    region = group_connected(problem.n, edges[clusters[edges[:, 0]] == clusters[edges[:, 1]]])
    is_estimated = together is not None and not np.isnan(together).any()
    tie = np.asarray(together)[touching] if is_estimated else None
    means = None if problem.graph is None or is_estimated else problem.graph.means
    # Each region that is smaller than its small neighbours joins one neighbour. No two regions that touch move in one
    # round, so the result is that of taking the smallest first, in few rounds.
    while min_pixels > 1:
        k = int(region.max()) + 1
        size = np.bincount(region, pixels, k)
        ends = region[edges]
        border = ends[:, 0] != ends[:, 1]
        both = np.concatenate((ends[border], ends[border][:, ::-1])).astype(np.int64)
        key, index = np.unique(both[:, 0] * k + both[:, 1], return_inverse=True)
        source, target = key // k, key % k
        if means is not None:
            weight = np.where(np.isfinite(pixels), pixels, 1.0)
            total = np.bincount(region, weight, k)
            mean = np.stack([np.bincount(region, channel * weight, k) / total for channel in means.T], axis=1)
            cost = np.linalg.norm(mean[source] - mean[target], axis=1)
        else:
            weight = np.tile(length[border], 2)
            cost = -np.bincount(index, weight if tie is None else weight * np.tile(tie[border], 2), len(key))
            if tie is not None:
                cost = cost / np.bincount(index, weight, len(key))
        rank = np.empty(k, np.int64)
        rank[np.argsort(size, kind="stable")] = np.arange(k)
        lowest = np.full(k, k)
        np.minimum.at(lowest, source, rank[target])
        is_moving = (size < min_pixels) & (rank < lowest)
        order = np.lexsort((target, cost, source))
        order = order[is_moving[source[order]]]
        chosen = order[np.unique(source[order], return_index=True)[1]]
        if not len(chosen):
            break
        region = group_connected(k, np.stack((source[chosen], target[chosen]), axis=1))[region]
    return canonical_labels(region)


def make_boundary_tree(problem: Problem, together: Float64Array) -> MergeTree:
    """Merge the sites in the order of boundary strength: a segmentation for every fineness.

    `together` (m,) is the probability that the ends of an edge share a cluster, without NaN.
    """
    edges, odds, length, growth = _measure_strengths(problem, together)
    return build_strength_tree(problem.n, edges, odds, site_pixels(problem), growth, length)


def merge_weak_boundaries(
    problem: Problem, together: Float64Array, regions: Int32Array, weakest: float, is_locked: BoolArray | None = None
) -> Int32Array:
    """(n,) int32 regions, by first site, after merging across boundaries up to a height of the boundary tree.

    Without this, a surface that slowly becomes lighter falls into two along an arbitrary line. Regions of locked sites
    (n,) do not merge, and none does while `together` (m,) has NaN.
    """
    if weakest <= 0 or np.isnan(together).any():
        return regions
    edges, odds, length, growth = _measure_strengths(problem, together)
    ends = regions[edges]
    between = ends[:, 0] != ends[:, 1]
    if is_locked is not None and is_locked.any():
        between &= ~np.isin(ends, regions[is_locked]).any(axis=1)
    if not between.any():
        return regions
    size = np.bincount(regions, site_pixels(problem))
    tree = build_strength_tree(len(size), ends[between], odds[between], size, growth, length[between])
    return canonical_labels(tree.labels(weakest)[regions])


def _measure_strengths(
    problem: Problem, together: Float64Array
) -> tuple[Int32Array, Float64Array, Float64Array, float]:
    """Return edges of touching sites, their log odds and length, and the growth of odds with the smaller region."""
    touching, length = touching_edges(problem), boundary_length(problem)[touching_edges(problem)]
    posterior = boundary_log_odds(together)
    settings = problem.settings or Settings()
    if settings.coupling == "learnt" and settings.beta != 0:
        beta = np.where(problem.beta < 0, problem.beta / (settings.repulsion or 1.0), problem.beta)
        learnt = -beta / settings.beta - settings.offset
        odds, growth = INTERCEPT + LEARNT * learnt + POSTERIOR * posterior, GROWTH
    else:
        contrast = np.zeros(len(problem.edges))  # 0 for the median, 1 for one e times as strong
        if (problem.beta < 0).any():
            contrast = np.asarray(-problem.beta)  # couplings of both signs are log odds
        elif problem.graph is not None:
            difference = problem.graph.contrast
            if settings.coupling == "contrast" and settings.beta > 0 and (problem.beta > 0).all():
                difference = -np.log(np.minimum(problem.beta / settings.beta, 1.0))
            median = float(np.median(difference)) if len(difference) else 0.0
            if median > 0:
                contrast = np.log(np.maximum(difference / median, MIN_DIFFERENCE))
        odds, growth = PLAIN_INTERCEPT + contrast + PLAIN_POSTERIOR * posterior, PLAIN_GROWTH
    return problem.edges[touching], odds[touching], length, growth


def boundary_log_odds(together: Float64Array) -> Float64Array:
    """(m,) log odds of the posterior that the two ends of an edge are in different clusters."""
    return np.asarray(logit(np.clip(1 - together, 1 - MAX_PROBABILITY, MAX_PROBABILITY)))


# ---- images of uncertainty


def compute_site_entropy(problem: Problem, together: Float64Array) -> Float64Array:
    """(n,) neighbour entropy of each site in bits, from 0 (certain) to 1; NaN if no sweep has been counted yet.

    This is the entropy of "do these two share a cluster?", averaged over the neighbours by boundary length.
    """
    if np.isnan(together).any():
        return np.full(problem.n, np.nan)
    p = together
    with np.errstate(divide="ignore", invalid="ignore"):
        bits = -np.nan_to_num(p * np.log2(p)) - np.nan_to_num((1 - p) * np.log2(1 - p))
    weight, ends = boundary_length(problem), problem.edges.T.ravel()
    total = np.bincount(ends, np.tile(weight * bits, 2), problem.n)
    share = np.bincount(ends, np.tile(weight, 2), problem.n)
    return np.divide(total, share, out=np.zeros(problem.n), where=share > 0)


def find_boundary_faces(problem: Problem, sites: NDArray[np.int32] | None = None) -> tuple[Int64Array, ...]:
    """Find the faces between the sites of an image, or of a tile: flat indices of their two pixels, and their edge.

    Boundary images are made quickly with them.
    """
    if problem.graph is None:
        raise InputError("this problem was not made from an image, so there is no boundary image")
    touching = np.flatnonzero(touching_edges(problem))
    sites = problem.site_image if sites is None else sites
    first, second, edge, _ = list_faces(sites, problem.edges[touching], problem.n)
    return first, second, touching[edge]


def make_boundary_image(
    problem: Problem, together: Float64Array, faces: tuple[Int64Array, ...] | None = None
) -> NDArray[np.float32]:
    """Make an image of the probability that a boundary runs through a pixel, lazy if the sites are.

    A pixel beside other sites has the largest probability that its site and theirs are in different clusters, NaN if no
    sweep has been counted yet; all other pixels have 0.
    """
    probability = (1 - together).astype(np.float32)

    def paint(sites: NDArray[np.int32]) -> NDArray[np.float32]:
        *pixels_of_faces, edge = faces or find_boundary_faces(problem, sites)
        image = np.zeros(sites.shape, np.float32)
        with np.errstate(invalid="ignore"):  # NaN where no sweep has been counted
            for pixels in pixels_of_faces:
                np.maximum.at(image.reshape(-1), pixels, probability[edge])
        return image

    if isinstance(problem.sites, BlockedLabels):
        lazy_image: NDArray[np.float32] = map_blocks_with_border(problem.sites, paint, np.float32)
        return lazy_image
    return paint(problem.site_image)
