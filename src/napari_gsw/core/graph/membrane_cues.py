"""What speaks for a membrane between two touching sites of an electron micrograph: a row of numbers for each edge.

Two rounds, as of :mod:`napari_gsw.core.graph.boundary_cues`. The first looks at the image along the edge and in its two
sites: light and its slope at several widths, and how sharply it bends, which is what a dark line does. The second looks
at what the first says of the whole image: which two regions an edge parts when sites are merged into ever larger ones.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.array_types import Float64Array, Int64Array, Sites
from napari_gsw.core.graph.boundary_cues import add_merges
from napari_gsw.core.graph.merge_tree import build_merge_tree, build_strength_tree
from napari_gsw.core.graph.region_graph import RegionGraph
from napari_gsw.core.image.ridges import compute_curvatures
from napari_gsw.core.sites.site_values import mean_per_site
from napari_gsw.core.special import expit

# Widths in pixels of the blurs: of the light, of its curvatures and of its slope.
LIGHT, BENDS, SLOPES = (1.0, 2.0, 4.0, 8.0), (1.5, 2.5, 3.5, 5.0), (1.5, 3.0)
# Of the values along an edge, those that this share of its faces is below.
SHARES = (0.1, 0.5, 0.9)
# How much the size of regions counts in further merge trees; see `strength_tree`.
GROWTHS = (0.3, 0.6)


def pixel_maps(light: Float64Array) -> Iterator[Float64Array]:
    """(h, w) each, in the order in which a model takes them."""
    from scipy import ndimage

    for width in LIGHT:
        yield ndimage.gaussian_filter(light, width)
    for width in BENDS:
        yield from compute_curvatures(light, width)
    for width in SLOPES:
        yield ndimage.gaussian_gradient_magnitude(light, width)


def compute_local_membrane_cues(light: Float64Array, sites: Sites, graph: RegionGraph) -> Float64Array:
    """(m, 102) cues of the image itself.

    Of each of the 14 maps the mean along the edge and three quantiles, and of the means in the two sites the
    difference, the smaller and the larger; length; pixels of the smaller and of the larger site; and the length in
    proportion to the smaller.

    Parameters
    ----------
    light : (h, w) from about 0 to 1, see :func:`napari_gsw.core.image.ridges.scale_intensity`.
    sites : (h, w) 1..n, 0 where there is none.
    graph : of the sites, all of which touch.
    """
    i, j = graph.edges.T
    first, second, edge = _faces(sites, graph)
    count = np.bincount(edge, minlength=len(graph.edges))
    start = np.concatenate(([0], np.cumsum(count)[:-1]))
    columns = []
    for values in pixel_maps(light):
        along = (values.ravel()[first] + values.ravel()[second]) / 2
        ordered = along[np.lexsort((along, edge))]
        columns.append(np.bincount(edge, along, len(count)) / count)
        columns += [ordered[start + (share * (count - 1)).astype(np.int64)] for share in SHARES]
        mean = mean_per_site(values[..., np.newaxis], sites)[:, 0]
        columns += [np.abs(mean[i] - mean[j]), np.minimum(mean[i], mean[j]), np.maximum(mean[i], mean[j])]
    pixels = graph.pixels.astype(np.float64)
    smaller, larger = np.minimum(pixels[i], pixels[j]), np.maximum(pixels[i], pixels[j])
    columns += [graph.length, smaller, larger, graph.length / np.sqrt(smaller)]
    return np.stack(columns, axis=1).astype(np.float64)


def compute_context_membrane_cues(graph: RegionGraph, first: Float64Array, odds: Float64Array) -> Float64Array:
    """(m, 111) cues: those of the first round, its log odds (m,) of a boundary, and what follows for larger regions."""
    i, j = graph.edges.T
    n, apart = graph.n, expit(odds)
    tree = build_merge_tree(n, graph.edges, apart, graph.length)
    merges = len(tree.height)
    pixels = np.concatenate((graph.pixels.astype(np.float64), np.zeros(merges)))[:, np.newaxis]
    add_merges(pixels, n, tree.left, tree.right)
    size = np.log(np.sort(np.stack((pixels[tree.left, 0], pixels[tree.right, 0])), axis=0))
    merge = tree.merge_index(graph.edges)
    ends = graph.edges.ravel()
    usual = np.bincount(ends, np.repeat(apart, 2), n) / np.maximum(np.bincount(ends, minlength=n), 1)
    columns = [odds, tree.height[merge], size[0][merge], size[1][merge]]
    columns += [usual[i] + usual[j], np.minimum(usual[i], usual[j]), np.log(n - np.arange(merges))[merge]]
    for growth in GROWTHS:
        grown = build_strength_tree(n, graph.edges, odds, graph.pixels, growth, graph.length)
        columns.append(grown.contour(graph.edges))
    return np.concatenate((first, np.stack(columns, axis=1)), axis=1)


def _faces(sites: Sites, graph: RegionGraph) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Pairs of pixels of different sites that touch, as indices into the flat image, and the edge between the two."""
    n = graph.n
    key = graph.edges[:, 0].astype(np.int64) * n + graph.edges[:, 1]  # sorted, as region_graph leaves it
    numbers = np.arange(sites.size, dtype=np.int64).reshape(sites.shape)
    faces: list[NDArray[np.int64]] = []
    for axis in range(sites.ndim):
        site, place = np.moveaxis(sites, axis, 0), np.moveaxis(numbers, axis, 0)
        border = (site[:-1] != site[1:]) & (site[:-1] > 0) & (site[1:] > 0)
        a, b = site[:-1][border].astype(np.int64) - 1, site[1:][border].astype(np.int64) - 1
        edge = np.searchsorted(key, np.minimum(a, b) * n + np.maximum(a, b))
        faces.append(np.stack((place[:-1][border], place[1:][border], edge)))
    first, second, edges = np.concatenate(faces, axis=1)
    return first, second, edges
