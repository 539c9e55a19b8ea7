"""Cues for a membrane between two touching sites of an electron micrograph: a row of numbers for each edge.

Local cues are intensity, slope and curvature at several widths, along the edge and in its two sites: a dark line bends
sharply. Context cues follow from a first estimate of all boundary probabilities, as in
:mod:`napari_gsw.core.graph.boundary_cues`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy

from napari_gsw.core.array_types import Float64Array, Sites
from napari_gsw.core.graph.merge_tree import build_merge_tree, build_strength_tree
from napari_gsw.core.graph.region_graph import RegionGraph
from napari_gsw.core.image.ridges import compute_curvatures
from napari_gsw.core.sites.site_values import list_faces, mean_per_site
from napari_gsw.core.special import expit

# Widths in pixels of the Gaussians: of intensity, curvature and slope.
INTENSITY_WIDTHS, CURVATURE_WIDTHS, SLOPE_WIDTHS = (1.0, 2.0, 4.0, 8.0), (1.5, 2.5, 3.5, 5.0), (1.5, 3.0)
# Quantiles of the values along an edge.
QUANTILES = (0.1, 0.5, 0.9)
# Weights of the size of regions in further merge trees; see build_strength_tree.
GROWTHS = (0.3, 0.6)


def compute_pixel_maps(image: Float64Array) -> Iterator[Float64Array]:
    """Compute the maps (h, w) one by one, in the order in which a model takes them."""
    for width in INTENSITY_WIDTHS:
        yield scipy.ndimage.gaussian_filter(image, width)
    for width in CURVATURE_WIDTHS:
        yield from compute_curvatures(image, width)
    for width in SLOPE_WIDTHS:
        yield scipy.ndimage.gaussian_gradient_magnitude(image, width)


def compute_local_membrane_cues(image: Float64Array, sites: Sites, graph: RegionGraph) -> Float64Array:
    """Compute the 102 cues of the image itself: (m, 102).

    Of each of the 14 maps the mean and three quantiles along the edge, and of the means in the two sites the
    difference, the smaller and the larger; length; pixels of the smaller and of the larger site; and the length in
    proportion to the smaller.

    Parameters
    ----------
    image : (h, w) from about 0 to 1; see :func:`napari_gsw.core.image.ridges.scale_intensity`.
    sites : (h, w) 1..n, 0 for none. graph : of touching sites alone.
    """
    i, j = graph.edges.T
    first, second, edge, _ = list_faces(sites, graph.edges)
    count = np.bincount(edge, minlength=len(graph.edges))
    start = np.concatenate(([0], np.cumsum(count)[:-1]))
    columns = []
    for values in compute_pixel_maps(image):
        along = (values.ravel()[first] + values.ravel()[second]) / 2
        ordered = along[np.lexsort((along, edge))]
        columns.append(np.bincount(edge, along, len(count)) / count)
        columns += [ordered[start + (quantile * (count - 1)).astype(np.int64)] for quantile in QUANTILES]
        mean = mean_per_site(values[..., np.newaxis], sites)[:, 0]
        columns += [np.abs(mean[i] - mean[j]), np.minimum(mean[i], mean[j]), np.maximum(mean[i], mean[j])]
    pixels = graph.pixels.astype(np.float64)
    smaller, larger = np.minimum(pixels[i], pixels[j]), np.maximum(pixels[i], pixels[j])
    columns += [graph.length, smaller, larger, graph.length / np.sqrt(smaller)]
    return np.stack(columns, axis=1).astype(np.float64)


def compute_context_membrane_cues(graph: RegionGraph, local: Float64Array, odds: Float64Array) -> Float64Array:
    """Append to the local cues those of a first estimate (m,) of the log odds of all boundaries: (m, 111)."""
    i, j = graph.edges.T
    n, probability = graph.n, expit(odds)
    tree = build_merge_tree(n, graph.edges, probability, graph.length)
    n_merges = len(tree.height)
    pixels = tree.sum_regions(graph.pixels[:, np.newaxis].astype(np.float64))[:, 0]
    size = np.log(np.sort(np.stack((pixels[tree.left], pixels[tree.right])), axis=0))
    merge = tree.merge_index(graph.edges)
    ends = graph.edges.ravel()
    mean = np.bincount(ends, np.repeat(probability, 2), n) / np.maximum(np.bincount(ends, minlength=n), 1)
    columns = [odds, tree.height[merge], size[0][merge], size[1][merge]]
    columns += [mean[i] + mean[j], np.minimum(mean[i], mean[j]), np.log(n - np.arange(n_merges))[merge]]
    for growth in GROWTHS:
        strength_tree = build_strength_tree(n, graph.edges, odds, graph.pixels, growth, graph.length)
        columns.append(strength_tree.contour(graph.edges))
    return np.concatenate((local, np.stack(columns, axis=1)), axis=1)
