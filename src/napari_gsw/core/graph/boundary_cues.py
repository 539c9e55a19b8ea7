"""Cues for a boundary between two neighbouring sites of a photograph: a row of numbers for each edge.

Local cues compare the two sites and their surroundings. Context cues follow from a first estimate of all boundary
probabilities: slow modes of a random walk, and the regions that an edge separates when sites are merged.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array

from napari_gsw.core.array_types import Float64Array, Int64Array
from napari_gsw.core.features.site_features import SiteFeatures
from napari_gsw.core.graph.merge_tree import build_merge_tree
from napari_gsw.core.graph.random_walk import apply_transitions, make_transition_matrix
from napari_gsw.core.graph.region_graph import RegionGraph, list_two_step_paths

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


def chi_squared_distance(a: Float64Array, b: Float64Array) -> Float64Array:
    """Compute the distance in [0, 1] of histograms (rows, bins), row by row."""
    both = a + b
    return np.asarray(np.divide(np.square(a - b), both, out=np.zeros_like(both), where=both > 0).sum(axis=1) / 2)


class SiteSums:
    """Sums over the pixels of each site.

    `sums` (n, 156 or 164) are of 120 colour words, 32 texture words, three channels, the 8 coordinates of a network's
    embedding if there is one, and the number of pixels. `parts` are the ends of these but the last among the columns.
    """

    def __init__(self, features: SiteFeatures, graph: RegionGraph, embedding: Float64Array | None = None) -> None:
        colour, texture = features.photo_colour.toarray(), features.photo_texture.toarray()
        lab = np.zeros((graph.n, 3))
        lab[:, : 3 if features.rgb else 1] = graph.means if features.rgb else graph.means.mean(1, keepdims=True)
        pixels = graph.pixels[:, np.newaxis].astype(np.float64)
        columns = [colour, texture, lab * pixels, *([] if embedding is None else [embedding * pixels])]
        self.parts = np.cumsum([column.shape[1] for column in columns]).astype(np.int64)
        self.sums: Float64Array = np.concatenate((*columns, pixels), axis=1)

    def differences(
        self,
        prefix: str,
        sums: Float64Array,
        i: NDArray[np.integer],
        j: NDArray[np.integer],
        reach: csr_array | None = None,
    ) -> Cues:
        """Compare rows i and j (m,) of `sums`, which has the columns of :attr:`sums`.

        With the sites (n, n) that are reached from each site, what is around i and not around j with the converse.
        """
        around = None if reach is None else reach @ sums
        rows = []
        for first in range(0, max(len(i), 1), COMPARED_EDGES):
            left, right = i[first : first + COMPARED_EDGES], j[first : first + COMPARED_EDGES]
            if reach is None or around is None:
                rows.append(compare_rows(sums[left], sums[right], self.parts))
            else:
                common = reach[left].multiply(reach[right]) @ sums
                rows.append(compare_rows(around[left] - common, around[right] - common, self.parts))
        columns = zip(DIFFERENCES, np.concatenate(rows).T, strict=False)
        return {f"{prefix}, {name}": np.ascontiguousarray(column) for name, column in columns}


def compare_rows(a: Float64Array, b: Float64Array, parts: Int64Array) -> Float64Array:
    """Compare sums (m, columns) row by row: (m, parts) distances of colour words, texture words, mean colours etc.

    `parts` has the end of each part among the columns. The last column is the number of pixels.
    """
    x, y = (sums[:, :-1] * (1 / np.maximum(sums[:, -1:], NO_PIXELS)) for sums in (a, b))
    step = x - y
    squares = [np.square(step[:, first:end]) for first, end in itertools.pairwise((0, *parts))]
    columns = []
    for square, first in zip(squares[:2], (0, parts[0]), strict=True):
        both = x[:, first : first + square.shape[1]] + y[:, first : first + square.shape[1]]
        columns.append(_sum_rows(square / np.maximum(both, TINY)) / 2)
    return np.stack(columns + [np.sqrt(sum(square.T)) for square in squares[2:]], axis=1)


def _sum_rows(terms: Float64Array) -> Float64Array:
    """Sum terms (m, k) over k as four sums side by side: a forest's decisions may depend on the last digit."""
    count = terms.shape[1] // 4 * 4
    s, t, u, v = terms[:, :count].reshape(len(terms), -1, 4).sum(axis=1).T
    for column in terms[:, count:].T:
        s = s + column
    return np.asarray((s + t) + (u + v))


def compute_local_cues(
    features: SiteFeatures, graph: RegionGraph, site_sums: SiteSums, network_boundary: Float64Array | None = None
) -> Float64Array:
    """Compute the 34 cues of the image itself, or 43 with a network: (m, cues).

    Contrast along the boundary; difference of lightness and of chroma; the `DIFFERENCES` of the sites, of what is
    around one and not the other within one and two steps, and after 3, 8 and 16 steps of a walk; length of the
    boundary; means around the edge and over the image; scatter within the sites; position of the edge in the image;
    and of a network its mean boundary probability (m,) along the edge, around it and over the image.
    """
    n, m, (i, j) = graph.n, len(graph.edges), graph.edges.T
    sums = site_sums.sums
    lab = sums[:, site_sums.parts[1] : site_sums.parts[2]] / sums[:, -1:]
    cues: Cues = {
        "contrast": graph.contrast,
        "lightness": np.abs(lab[i, 0] - lab[j, 0]),
        "chroma": np.hypot(*(lab[i, 1:] - lab[j, 1:]).T),
    }
    cues |= site_sums.differences("sites", sums, i, j)
    near = _reach(np.concatenate((i, j, np.arange(n))), np.concatenate((j, i, np.arange(n))), n)
    row = np.repeat(np.arange(n), np.diff(near.indptr))
    first, second = list_two_step_paths(near.indptr, near.indices)
    far = _reach(row[first], near.indices[second], n)
    cues |= site_sums.differences("near", sums, i, j, near)
    cues |= site_sums.differences("far", sums, i, j, far)
    matrix, smoothed, done = make_transition_matrix(graph, WALK_SCALE), sums / sums[:, -1:], 0
    for passes in STEPS:
        smoothed, done = apply_transitions(smoothed, matrix, passes - done), passes
        cues |= site_sums.differences(f"{passes} steps", smoothed, i, j)
    cues["length"] = graph.length / np.sqrt(np.minimum(graph.pixels[i], graph.pixels[j]))
    for name in CONTEXT_MEANS:
        cues[f"{name}, around"] = _around(cues[name], i, j, n)
        cues[f"{name}, image"] = np.full(m, cues[name].mean())
    scatter = np.sqrt(np.maximum(features.mean_squares - np.square(graph.means), 0).sum(axis=1))
    cues["least scatter"] = np.minimum(scatter[i], scatter[j])
    cues["most scatter"] = np.maximum(scatter[i], scatter[j])
    centre = (features.centroids[i] + features.centroids[j]) / 2
    cues["position along the first axis"] = centre[:, 0]
    cues["distance from the frame"] = np.minimum(centre, 1 - centre).min(axis=1)
    if network_boundary is not None:
        cues["network"] = network_boundary
        cues["network, around"] = _around(network_boundary, i, j, n)
        cues["network, image"] = np.full(m, network_boundary.mean())
    return np.stack(list(cues.values()), axis=1)


def mean_network_boundary(features: SiteFeatures, graph: RegionGraph) -> Float64Array:
    """Compute the network's mean boundary probability along each edge."""
    return features.boundary_sums(graph.edges) / graph.length


def compute_context_cues(
    graph: RegionGraph, local: Float64Array, probability: Float64Array, site_sums: SiteSums
) -> Float64Array:
    """Append to the local cues (m, 34 or 43) those of a first estimate (m,) of all boundary probabilities: 55 or 65."""
    i, j = graph.edges.T
    m = len(graph.edges)
    mean = _mean_at(probability, i, j, graph.n)
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
    n_merges = len(tree.height)
    sums = tree.sum_regions(site_sums.sums)
    share = np.sort(np.stack((sums[tree.left, -1], sums[tree.right, -1])) / graph.pixels.sum(), axis=0)
    smaller, larger = np.log(share)
    by_merge: Cues = {"merge, height": tree.height, "merge, smaller region": smaller, "merge, larger region": larger}
    by_merge |= site_sums.differences("merge", sums, tree.left, tree.right)
    by_merge["merge, regions left"] = np.log(graph.n - np.arange(n_merges))
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


def _reach(i: NDArray[np.integer], j: NDArray[np.integer], n: int) -> csr_array:
    """Make the (n, n) matrix with 1 where site j (k,) is reached from site i."""
    reached = csr_array((np.ones(len(i)), (i, j)), shape=(n, n))
    reached.data[:] = 1
    return reached


def _mean_at(cue: Float64Array, i: NDArray[np.int32], j: NDArray[np.int32], n: int) -> Float64Array:
    """Compute the mean of a cue over the edges of each site."""
    ends = np.concatenate((i, j))
    return np.bincount(ends, np.tile(cue, 2), n) / np.maximum(np.bincount(ends, minlength=n), 1)


def _around(cue: Float64Array, i: NDArray[np.int32], j: NDArray[np.int32], n: int) -> Float64Array:
    """Compute the mean of a cue over the edges of both sites of each edge."""
    mean = _mean_at(cue, i, j, n)
    return np.asarray((mean[i] + mean[j]) / 2)
