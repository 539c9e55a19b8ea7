"""Cues for a boundary between two neighbouring sites: a row of numbers for each edge, of photographs or micrographs.

Local cues compare the two sites and their surroundings. In an electron micrograph they are intensity, slope and
curvature along the edge: a dark line bends sharply. Context cues follow from a first estimate of all boundary
probabilities: slow modes of a random walk, and the regions that an edge separates when sites are merged.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array

from napari_gsw.core.array_types import Float64Array, Sites
from napari_gsw.core.features.site_features import SiteFeatures
from napari_gsw.core.graph.merge_tree import build_merge_tree, build_strength_tree
from napari_gsw.core.graph.random_walk import apply_transitions, make_transition_matrix
from napari_gsw.core.graph.region_graph import RegionGraph
from napari_gsw.core.image.ridges import compute_curvatures
from napari_gsw.core.sites.site_values import list_faces, mean_per_site
from napari_gsw.core.special import expit

# Divisors in place of no pixels, and of 0 / 0.
NO_PIXELS, TINY = 1e-9, 1e-300
# Relative accuracy of eigenvalues, and the degree of a site without affinity.
ACCURACY, MIN_DEGREE = 1e-4, 1e-9
# Of the walk over the graph: the scale in units of Lab, and after how many steps sites are compared.
WALK_SCALE, STEPS = 12.0, (3, 8, 16)
N_MODES = 16
# Edges whose cues are computed together, which bounds memory.
COMPARED_EDGES = 1 << 13
# An edge keeps at least this share of its affinity, so that no site is cut off from the graph.
MIN_AFFINITY, SHARPNESS = 0.02, 3

# Cues by name, (m,) each, in the order in which a model takes them. A forest knows a cue by its position alone, so a
# new one comes last, and a model is trained anew when one goes.
Cues = dict[str, Float64Array]
# Differences of two sites or regions; the last one is that of a network's embedding.
DIFFERENCES = ("colour words", "texture words", "mean colour", "places")
# Cues whose mean around an edge, and over the image, are cues too.
CONTEXT_MEANS = ("contrast", "sites, colour words", "sites, texture words", "8 steps, mean colour")

# Of micrographs: widths in pixels of the Gaussians of intensity, curvature and slope.
INTENSITY_WIDTHS, CURVATURE_WIDTHS, SLOPE_WIDTHS = (1.0, 2.0, 4.0, 8.0), (1.5, 2.5, 3.5, 5.0), (1.5, 3.0)
# Quantiles of the values along an edge; weights of the size of regions in further merge trees.
QUANTILES, GROWTHS = (0.1, 0.5, 0.9), (0.3, 0.6)


def chi_squared_distance(a: Float64Array, b: Float64Array) -> Float64Array:
    """Compute the distance in [0, 1] of histograms (rows, bins), row by row."""
    both = a + b
    return np.asarray(np.divide(np.square(a - b), both, out=np.zeros_like(both), where=both > 0).sum(axis=1) / 2)


class SiteSums(NamedTuple):
    """Sums over the pixels of each site: of words, channels and coordinates, and last the number of pixels."""

    values: Float64Array  # (n, columns)
    parts: list[int]  # ends of the columns of each of the `DIFFERENCES`: colour words first


def sum_site_values(features: SiteFeatures, graph: RegionGraph, network: bool = False) -> SiteSums:
    """Sum the words and channels over the pixels of each site, and with a network its embedding."""
    lab = np.zeros((graph.n, 3))
    lab[:, : 3 if features.rgb else 1] = graph.means if features.rgb else graph.means.mean(1, keepdims=True)
    pixels = graph.pixels[:, np.newaxis].astype(np.float64)
    columns = [features.photo_colour.toarray(), features.photo_texture.toarray(), lab * pixels]
    columns += [features.embedding * pixels] if network else []
    return SiteSums(np.concatenate((*columns, pixels), axis=1), np.cumsum([c.shape[1] for c in columns]).tolist())


def compare_sums(
    prefix: str,
    sums: SiteSums,
    i: NDArray[np.integer],
    j: NDArray[np.integer],
    reach: csr_array | None = None,
) -> Cues:
    """Compare rows i and j (m,) of sums.

    With the sites (n, n) that are reached from each site, what is around i and not around j with the converse.
    """
    values, parts = sums
    around = None if reach is None else reach @ values
    rows = []
    for first in range(0, max(len(i), 1), COMPARED_EDGES):
        left, right = i[first : first + COMPARED_EDGES], j[first : first + COMPARED_EDGES]
        if reach is None or around is None:
            rows.append(compare_rows(values[left], values[right], parts))
        else:
            common = reach[left].multiply(reach[right]) @ values
            rows.append(compare_rows(around[left] - common, around[right] - common, parts))
    columns = zip(DIFFERENCES, np.concatenate(rows).T, strict=False)
    return {f"{prefix}, {name}": np.ascontiguousarray(column) for name, column in columns}


def compare_rows(a: Float64Array, b: Float64Array, parts: list[int]) -> Float64Array:
    """Compare sums (m, columns) row by row: distances (m, parts) of colour words, texture words, mean colours etc.

    `parts` are the ends of the parts among the columns. The last column is the number of pixels.
    """
    x, y = (sums[:, :-1] * (1 / np.maximum(sums[:, -1:], NO_PIXELS)) for sums in (a, b))
    squares, both = np.square(x - y), x + y
    columns = []
    for part, (first, end) in enumerate(itertools.pairwise((0, *parts))):
        square = squares[:, first:end]
        if part < 2:
            columns.append(_sum_rows(square / np.maximum(both[:, first:end], TINY)) / 2)
        else:
            columns.append(np.sqrt(sum(square.T)))
    return np.stack(columns, axis=1)


def _sum_rows(terms: Float64Array) -> Float64Array:
    """Sum terms (m, k) over k as four sums side by side: a forest's decisions may depend on the last digit."""
    count = terms.shape[1] // 4 * 4
    s, t, u, v = terms[:, :count].reshape(len(terms), -1, 4).sum(axis=1).T
    for column in terms[:, count:].T:
        s = s + column
    return np.asarray((s + t) + (u + v))


def compute_local_cues(
    features: SiteFeatures, graph: RegionGraph, sums: SiteSums, network: bool = False
) -> Float64Array:
    """Compute the 34 cues of the image itself, or 43 with a network: (m, cues).

    Contrast along the boundary; difference of lightness and of chroma; the `DIFFERENCES` of the sites, of what is
    around one and not the other within one and two steps, and after 3, 8 and 16 steps of a walk; length of the
    boundary; means around the edge and over the image; scatter within the sites; position of the edge in the image;
    and of a network its mean boundary probability along the edge, around it and over the image.
    """
    n, m, (i, j) = graph.n, len(graph.edges), graph.edges.T
    mean_values = sums.values / sums.values[:, -1:]
    lab = mean_values[:, sums.parts[1] : sums.parts[2]]
    cues: Cues = {
        "contrast": graph.contrast,
        "lightness": np.abs(lab[i, 0] - lab[j, 0]),
        "chroma": np.hypot(*(lab[i, 1:] - lab[j, 1:]).T),
    }
    cues |= compare_sums("sites", sums, i, j)
    ends = np.concatenate((i, j, np.arange(n))), np.concatenate((j, i, np.arange(n)))
    near = csr_array((np.ones(len(ends[0])), ends), shape=(n, n))
    far = near @ near
    for name, reach in (("near", near), ("far", far)):
        reach.sort_indices()  # their order decides the last digit of sums
        reach.data[:] = 1
        cues |= compare_sums(name, sums, i, j, reach)
    matrix, smoothed, done = make_transition_matrix(graph, WALK_SCALE), mean_values, 0
    for passes in STEPS:
        smoothed, done = apply_transitions(smoothed, matrix, passes - done), passes
        cues |= compare_sums(f"{passes} steps", SiteSums(smoothed, sums.parts), i, j)
    cues["length"] = graph.length / np.sqrt(np.minimum(graph.pixels[i], graph.pixels[j]))

    def add_context(name: str) -> None:
        mean = _mean_over_edges(cues[name], graph)
        cues[f"{name}, around"] = (mean[i] + mean[j]) / 2
        cues[f"{name}, image"] = np.full(m, cues[name].mean())

    for name in CONTEXT_MEANS:
        add_context(name)
    scatter = np.sqrt(np.maximum(features.mean_squares - np.square(graph.means), 0).sum(axis=1))
    cues["least scatter"] = np.minimum(scatter[i], scatter[j])
    cues["most scatter"] = np.maximum(scatter[i], scatter[j])
    centre = (features.centroids[i] + features.centroids[j]) / 2
    cues["position along the first axis"] = centre[:, 0]
    cues["distance from the frame"] = np.minimum(centre, 1 - centre).min(axis=1)
    if network:
        cues["network"] = features.boundary_sums(graph.edges) / graph.length
        add_context("network")
    return np.stack(list(cues.values()), axis=1)


def compute_context_cues(graph: RegionGraph, local: Float64Array, odds: Float64Array, sums: SiteSums) -> Float64Array:
    """Append to the local cues (m, 34 or 43) those of a first estimate (m,) of the log odds of boundaries: 55 or 65."""
    i, j = graph.edges.T
    m, probability = len(graph.edges), expit(odds)
    mean = _mean_over_edges(probability, graph)
    cues: Cues = {
        "probability": probability,
        "probability, both sites": mean[i] + mean[j],
        "probability, lower of the sites": np.minimum(mean[i], mean[j]),
        "probability, image": np.full(m, probability.mean()),
    }
    affinity = np.maximum(1 - probability, MIN_AFFINITY) ** SHARPNESS * graph.length
    embedding, slowness = compute_embedding(graph.n, graph.edges, affinity, N_MODES)
    gap = np.abs(embedding[i] - embedding[j])
    cues |= {f"{count} modes": np.sqrt(np.square(gap[:, :count]).sum(axis=1)) for count in (2, 4, 8, 16)}
    cues |= {f"mode {number}": gap[:, number] for number in range(4)}
    cues["slowest mode"] = np.full(m, slowness[0])
    cues["half of the modes"] = np.full(m, slowness[7] / slowness[15])
    # The two regions that an edge separates when regions are merged in the order of their boundaries.
    tree = build_merge_tree(graph.n, graph.edges, probability, graph.length)
    region_sums = tree.sum_regions(sums.values)
    share = np.sort(np.stack((region_sums[tree.left, -1], region_sums[tree.right, -1])) / graph.pixels.sum(), axis=0)
    smaller, larger = np.log(share)
    by_merge: Cues = {"merge, height": tree.height, "merge, smaller region": smaller, "merge, larger region": larger}
    by_merge |= compare_sums("merge", SiteSums(region_sums, sums.parts), tree.left, tree.right)
    by_merge["merge, regions left"] = np.log(graph.n - np.arange(len(tree.height)))
    merge = tree.merge_index(graph.edges)
    cues |= {name: column[merge] for name, column in by_merge.items()}
    return np.concatenate((local, np.stack(list(cues.values()), axis=1)), axis=1)


def compute_embedding(
    n: int, edges: NDArray[np.int32], affinity: Float64Array, n_modes: int
) -> tuple[Float64Array, Float64Array]:
    """Compute the spectral embedding of the sites in the slowest modes of a walk, from the affinity (m,) >= 0 of edges.

    Returns (n, n_modes) eigenvectors v_k, divided by the square root of their eigenvalue lambda_k of the Laplacian
    relative to that of the slowest: slow modes count most (Shi and Malik 2000; Arbelaez et al. 2011); and (n_modes,)
    lambda_k, ascending in [0, 2]. Modes that a small graph does not have are zero, with 1 for their lambda.
    """
    from scipy.sparse.linalg import eigsh

    coordinates, slowness = np.zeros((n, n_modes)), np.ones(n_modes)
    wanted = min(n_modes + 1, n - 2)
    if wanted < 2:
        return coordinates, slowness
    i, j = edges.T
    weights = csr_array((np.tile(affinity, 2), (np.concatenate((i, j)), np.concatenate((j, i)))), shape=(n, n))
    degree = weights.sum(axis=1) + MIN_DEGREE
    root = diags_array(1 / np.sqrt(degree))
    # From a fixed start and fixed restarts, so that the same graph gives the same modes.
    values, vectors = eigsh(
        root @ weights @ root, k=wanted, which="LA", v0=np.sqrt(degree), tol=ACCURACY, rng=np.random.default_rng(0)
    )
    order = np.argsort(-values)[1:]  # without the constant one
    count = len(order)
    slowness[:count] = np.maximum(1 - values[order], 1e-6)
    scale = np.sqrt(degree.sum() / degree)[:, np.newaxis] * np.sqrt(slowness[0] / slowness[:count])
    coordinates[:, :count] = vectors[:, order] * scale
    return coordinates, slowness


def _mean_over_edges(cue: Float64Array, graph: RegionGraph) -> Float64Array:
    """Compute the mean (n,) of a cue over the edges of each site."""
    ends = graph.edges.T.ravel()
    return np.bincount(ends, np.tile(cue, 2), graph.n) / np.maximum(np.bincount(ends, minlength=graph.n), 1)


def compute_pixel_maps(image: Float64Array) -> Iterator[Float64Array]:
    """Compute maps (h, w) of a micrograph one by one, in the order in which a model takes them."""
    for width in INTENSITY_WIDTHS:
        yield scipy.ndimage.gaussian_filter(image, width)
    for width in CURVATURE_WIDTHS:
        yield from compute_curvatures(image, width)
    for width in SLOPE_WIDTHS:
        yield scipy.ndimage.gaussian_gradient_magnitude(image, width)


def compute_local_membrane_cues(image: Float64Array, sites: Sites, graph: RegionGraph) -> Float64Array:
    """Compute the 102 cues (m, 102) of a micrograph (h, w) from about 0 to 1; see ``ridges.scale_intensity``.

    Of each of the 14 maps the mean and three quantiles along the edge, and of the means in the two sites the
    difference, the smaller and the larger; length; pixels of the smaller and of the larger site; and the length in
    proportion to the smaller. The graph of the sites (h, w) is of touching ones alone.
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
    smaller, larger = np.sort(graph.pixels[graph.edges], axis=1).T.astype(np.float64)
    columns += [graph.length, smaller, larger, graph.length / np.sqrt(smaller)]
    return np.stack(columns, axis=1).astype(np.float64)


def compute_context_membrane_cues(graph: RegionGraph, local: Float64Array, odds: Float64Array) -> Float64Array:
    """Append to the local cues those of a first estimate (m,) of the log odds of all boundaries: (m, 111)."""
    i, j = graph.edges.T
    probability = expit(odds)
    tree = build_merge_tree(graph.n, graph.edges, probability, graph.length)
    pixels = tree.sum_regions(graph.pixels[:, np.newaxis].astype(np.float64))[:, 0]
    size = np.log(np.sort(np.stack((pixels[tree.left], pixels[tree.right])), axis=0))
    merge, ends = tree.merge_index(graph.edges), graph.edges.ravel()
    mean = np.bincount(ends, np.repeat(probability, 2), graph.n) / np.maximum(np.bincount(ends, minlength=graph.n), 1)
    columns = [odds, tree.height[merge], size[0][merge], size[1][merge]]
    columns += [mean[i] + mean[j], np.minimum(mean[i], mean[j])]
    columns.append(np.log(graph.n - np.arange(len(tree.height)))[merge])
    for growth in GROWTHS:
        strength_tree = build_strength_tree(graph.n, graph.edges, odds, graph.pixels, growth, graph.length)
        columns.append(strength_tree.contour(graph.edges))
    return np.concatenate((local, np.stack(columns, axis=1)), axis=1)
