"""Compiled loops over the edges of the region graph: how far two sites, or what is around them, are apart."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from napari_gsw.core.array_types import Float64Array, Int32Array, Int64Array
from napari_gsw.core.features.site_features import SiteFeatures
from napari_gsw.core.graph.merge_tree import build_merge_tree
from napari_gsw.core.graph.random_walk import apply_transitions, make_transition_matrix
from napari_gsw.core.graph.region_graph import RegionGraph, list_two_step_paths
from napari_gsw.core.jit import njit, zeros

# In place of no pixels as a divisor.
NOTHING = 1e-9
# In place of 0 as a divisor of 0.
TINY = 1e-300


@njit
def compare_rows(sums: Float64Array, i: Int64Array, j: Int64Array, parts: Int64Array) -> Float64Array:
    """(m, parts) float64 of rows i and j of the sums: distance of colour words, of texture words, of mean colours, ...

    Parameters
    ----------
    sums : (rows, colour words + texture words + channels + ... + 1) float64, the last one the number of pixels.
    i, j : (m,) int64 rows.
    parts : (parts,) int64, where each of them ends; from the third on they are means.
    """
    out = np.empty((i.size, parts.size), np.float64)
    term = zeros(sums.shape[1], np.float64)
    for e in range(i.size):
        _compare(sums[i[e]], sums[j[e]], parts, term, out[e])
    return out


@njit
def compare_surroundings(
    start: Int32Array,
    near: Int32Array,
    sums: Float64Array,
    around: Float64Array,
    i: Int32Array,
    j: Int32Array,
    parts: Int64Array,
) -> Float64Array:
    """(m, parts) differences, as :func:`differences`, of what is around i and not around j from the converse.

    Parameters
    ----------
    start, near : (n + 1,) and (nnz,) int32, the sites around each, in ascending order.
    sums, around : (n, columns) float64 of each site, and of all that are around it.
    i, j : (m,) int32 sites.
    parts : (parts,) int64.
    """
    out = np.empty((i.size, parts.size), np.float64)
    common, a, b, term = np.empty((4, sums.shape[1]), np.float64)
    for e in range(i.size):
        p, q = start[i[e]], start[j[e]]
        common[:] = 0
        while p < start[i[e] + 1] and q < start[j[e] + 1]:
            if near[p] == near[q]:
                site = near[p]
                for f in range(common.size):
                    common[f] += sums[site, f]
                p += 1
                q += 1
            elif near[p] < near[q]:
                p += 1
            else:
                q += 1
        for f in range(common.size):
            a[f] = around[i[e], f] - common[f]
            b[f] = around[j[e], f] - common[f]
        _compare(a, b, parts, term, out[e])
    return out


@njit
def _compare(a: Float64Array, b: Float64Array, parts: Int64Array, term: Float64Array, out: Float64Array) -> None:
    """Of two rows of sums, the distance in [0, 1] of their histograms (chi squared) and that of their means.

    Parameters
    ----------
    a, b : (columns,) float64. term : (columns,) scratch. out : (parts,), written.
    """
    last = a.size - 1
    left, right = np.divide(1.0, max(a[last], NOTHING)), np.divide(1.0, max(b[last], NOTHING))
    for f in range(parts[1]):
        x, y = a[f] * left, b[f] * right
        term[f] = np.divide((x - y) * (x - y), max(x + y, TINY))
    out[0] = _sum(term, 0, parts[0]) / 2
    out[1] = _sum(term, parts[0], parts[1]) / 2
    for part in range(2, parts.size):
        square = 0.0
        for f in range(parts[part - 1], parts[part]):
            step = a[f] * left - b[f] * right
            square += step * step
        out[part] = np.sqrt(square)


@njit
def _sum(term: Float64Array, first: int, end: int) -> float:
    """Sum of term[first:end], (terms,) float64, as four sums side by side: one alone waits for itself."""
    last_four = first + (end - first) // 4 * 4
    s = t = u = v = 0.0
    for f in range(first, last_four, 4):
        s += term[f]
        t += term[f + 1]
        u += term[f + 2]
        v += term[f + 3]
    for f in range(last_four, end):
        s += term[f]
    return (s + t) + (u + v)


@njit
def add_merges(sums: Float64Array, n: int, left: Int64Array, right: Int64Array) -> None:
    """Fill in the rows of sums (n + merges, columns) from n on: row n + s is the sum of rows left[s] and right[s].

    Parameters
    ----------
    left, right : (merges,) int64 rows that come before.
    """
    for s in range(left.size):
        for f in range(sums.shape[1]):
            sums[n + s, f] = sums[left[s], f] + sums[right[s], f]


# Of the eigenvalues, relative; what is made of them is a cue among many.
ACCURACY = 1e-4
# Of a site without affinity to any other.
LEAST_DEGREE = 1e-9


def compute_embedding(
    n: int, edges: NDArray[np.int32], affinity: Float64Array, modes: int
) -> tuple[Float64Array, Float64Array]:
    """Coordinates of the sites in the slowest modes, and how slow each is.

    Parameters
    ----------
    edges, affinity : (m, 2) sites, and (m,) how much they belong together, >= 0.
    modes : how many; those that a small graph does not have are zero.

    Returns
    -------
    place : (n, modes) eigenvectors v_k of the random walk, each divided by the square root of its eigenvalue lambda_k
        of the Laplacian relative to that of the slowest one: slow modes count most (Shi and Malik 2000; Arbelaez et
        al. 2011).
    slowness : (modes,) lambda_k in ascending order, in [0, 2]; 1 for modes that the graph does not have.
    """
    from scipy import sparse
    from scipy.sparse.linalg import eigsh

    place, slowness = np.zeros((n, modes)), np.ones(modes)
    wanted = min(modes + 1, n - 2)
    if wanted < 2:
        return place, slowness
    i, j = edges.T
    both = sparse.csr_array(
        (np.concatenate((affinity, affinity)), (np.concatenate((i, j)), np.concatenate((j, i)))), shape=(n, n)
    )
    degree = both.sum(axis=1) + LEAST_DEGREE
    root = sparse.diags_array(1 / np.sqrt(degree))
    # From a fixed start and fixed restarts, so that the same graph gives the same modes.
    values, vectors = eigsh(
        root @ both @ root, k=wanted, which="LA", v0=np.sqrt(degree), tol=ACCURACY, rng=np.random.default_rng(0)
    )
    order = np.argsort(-values)[1:]  # without the constant one
    count = len(order)
    slowness[:count] = np.maximum(1 - values[order], 1e-6)
    scale = np.sqrt(degree.sum() / degree)[:, np.newaxis] * np.sqrt(slowness[0] / slowness[:count])
    place[:, :count] = vectors[:, order] * scale
    return place, slowness


# Of the walk over the graph: the units of Lab over which its weights fall, and after how many steps one looks.
SCALE = 12.0
STEPS = (3, 8, 16)
MODES = 16
# An edge keeps at least this share of its affinity, so that no site is cut off from the graph.
LEAST_AFFINITY = 0.02
SHARPNESS = 3

# Cues by name, (m,) float64 each, in the order in which a model takes them: a forest knows a cue by its place alone, so
# a new one comes last, and a model is learnt anew when one goes.
Cues = dict[str, Float64Array]
# What two sites, or two regions, differ in; the places are those of a network.
DIFFERENCES = ("colour words", "texture words", "mean colour", "places")
# Of these the mean around an edge and over the image is a cue too: how a boundary compares with what is usual.
USUAL = ("contrast", "sites, colour words", "sites, texture words", "8 steps, mean colour")


def chi_squared_distance(a: Float64Array, b: Float64Array) -> Float64Array:
    """(rows,) distance of histograms (rows, bins), row by row, in [0, 1]."""
    both = a + b
    return np.asarray(np.divide(np.square(a - b), both, out=np.zeros_like(both), where=both > 0).sum(axis=1) / 2)


class SiteSums:
    """Sums over the pixels of each site: 120 colour words, 32 texture words, three channels, and how many pixels.

    With a network, its eight places come before the number of pixels.

    Attributes
    ----------
    sums : (n, 156 or 164) float64, in this order.
    parts : (3 or 4,) int64, the column after the last of the colour words, of the texture words, of the channels, of
        the places.
    """

    def __init__(self, features: SiteFeatures, graph: RegionGraph, places: Float64Array | None = None) -> None:
        colour, texture = features.photo_colour.toarray(), features.photo_texture.toarray()
        lab = np.zeros((graph.n, 3))
        lab[:, : 3 if features.rgb else 1] = graph.means if features.rgb else graph.means.mean(1, keepdims=True)
        pixels = graph.pixels[:, np.newaxis].astype(np.float64)
        columns = [colour, texture, lab * pixels, *([] if places is None else [places * pixels])]
        self.parts = np.cumsum([column.shape[1] for column in columns]).astype(np.int64)
        self.sums: Float64Array = np.concatenate((*columns, pixels), axis=1)

    @property
    def names(self) -> tuple[str, ...]:
        """Those of :data:`DIFFERENCES` that are known of the sites."""
        return DIFFERENCES[: len(self.parts)]

    def differences(self, prefix: str, sums: Float64Array, i: NDArray[np.integer], j: NDArray[np.integer]) -> Cues:
        """:attr:`names` of rows i and j (m,) of `sums`, which has the columns of :attr:`sums`."""
        return _named(prefix, self.names, compare_rows(sums, i.astype(np.int64), j.astype(np.int64), self.parts))


def compute_local_cues(
    features: SiteFeatures, graph: RegionGraph, site_sums: SiteSums, drawn: Float64Array | None = None
) -> Float64Array:
    """(m, 34) cues of the image itself; with a network (m, 43).

    Contrast along the boundary; lightness and chroma between the sites; then the three :data:`DIFFERENCES` each of the
    sites, of their surroundings at one and at two steps without what both have in common, and after 3, 8 and 16 steps
    of a walk over the graph; length of the boundary; means around the edge and over the image; scatter within the
    sites; and where in the image the edge is. Of a network the mean probability `drawn` (m,) of a boundary along the
    edge, around it and over the image.
    """
    n, (i, j) = graph.n, graph.edges.T
    left, right = np.ascontiguousarray(i), np.ascontiguousarray(j)
    sums, m = site_sums.sums, len(graph.edges)
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
    for name, reach in (("near", near), ("far", far)):
        around = reach @ sums
        beside = compare_surroundings(reach.indptr, reach.indices, sums, around, left, right, site_sums.parts)
        cues |= _named(name, site_sums.names, beside)
    matrix, moved, done = make_transition_matrix(graph, SCALE), sums / sums[:, -1:], 0
    for passes in STEPS:
        moved, done = apply_transitions(moved, matrix, passes - done), passes
        cues |= site_sums.differences(f"{passes} steps", moved, i, j)
    cues["length"] = graph.length / np.sqrt(np.minimum(graph.pixels[i], graph.pixels[j]))
    for name in USUAL:
        cues[f"{name}, around"] = _around(cues[name], i, j, n)
        cues[f"{name}, image"] = np.full(m, cues[name].mean())
    scatter = np.sqrt(np.maximum(features.mean_squares - np.square(graph.means), 0).sum(axis=1))
    cues["least scatter"] = np.minimum(scatter[i], scatter[j])
    cues["most scatter"] = np.maximum(scatter[i], scatter[j])
    middle = (features.centroids[i] + features.centroids[j]) / 2
    cues["place along the first axis"] = middle[:, 0]
    cues["distance from the frame"] = np.minimum(middle, 1 - middle).min(axis=1)
    if drawn is not None:
        cues |= {"drawn": drawn, "drawn, around": _around(drawn, i, j, n), "drawn, image": np.full(m, drawn.mean())}
    return np.stack(list(cues.values()), axis=1)


def mean_network_boundary(features: SiteFeatures, graph: RegionGraph) -> Float64Array:
    """(m,) mean probability of a boundary along each edge, by the network of the features."""
    return features.boundary_sums(graph.edges) / graph.length


def compute_context_cues(
    graph: RegionGraph, first: Float64Array, apart: Float64Array, site_sums: SiteSums
) -> Float64Array:
    """(m, 55) cues: those of the first round (m, 34), and what follows from its probabilities for the image as a whole.

    With a network (m, 65), of which 43 are those of the first round.

    Parameters
    ----------
    apart : (m,) probability of a boundary by the first round.
    """
    i, j = graph.edges.T
    m = len(graph.edges)
    usual = _mean_at(apart, i, j, graph.n)
    cues: Cues = {
        "apart": apart,
        "apart, both sites": usual[i] + usual[j],
        "apart, least of the sites": np.minimum(usual[i], usual[j]),
        "apart, image": np.full(m, apart.mean()),
    }
    affinity = np.maximum(1 - apart, LEAST_AFFINITY) ** SHARPNESS * graph.length
    place, slowness = compute_embedding(graph.n, graph.edges, affinity, MODES)
    gap = np.abs(place[i] - place[j])
    cues |= {f"{count} modes": np.sqrt(np.square(gap[:, :count]).sum(axis=1)) for count in (2, 4, 8, 16)}
    cues |= {f"mode {number}": gap[:, number] for number in range(4)}
    cues["slowest mode"] = np.full(m, slowness[0])
    cues["half of the modes"] = np.full(m, slowness[7] / slowness[15])
    cues |= _parted(graph, apart, site_sums)
    return np.concatenate((first, np.stack(list(cues.values()), axis=1)), axis=1)


def _parted(graph: RegionGraph, apart: Float64Array, site_sums: SiteSums) -> Cues:
    """Cues of the two regions that an edge parts when regions are merged in the order of their boundaries.

    Height of the merge; logarithms of the share of the smaller and of the larger of the two; their differences;
    logarithm of the number of regions that are left.
    """
    tree = build_merge_tree(graph.n, graph.edges, apart, graph.length)
    merges = len(tree.height)
    sums = np.concatenate((site_sums.sums, np.zeros((merges, site_sums.sums.shape[1]))))
    add_merges(sums, graph.n, tree.left, tree.right)
    share = np.sort(np.stack((sums[tree.left, -1], sums[tree.right, -1])) / graph.pixels.sum(), axis=0)
    smaller, larger = np.log(share)
    by_merge: Cues = {"merge, height": tree.height, "merge, smaller region": smaller, "merge, larger region": larger}
    by_merge |= site_sums.differences("merge", sums, tree.left, tree.right)
    by_merge["merge, regions left"] = np.log(graph.n - np.arange(merges))
    merge = tree.merge_index(graph.edges)
    return {name: column[merge] for name, column in by_merge.items()}


def _reach(i: NDArray[np.integer], j: NDArray[np.integer], n: int) -> csr_array:
    """(n, n) 1 where a site j (k,) is reached from a site i."""
    reached = csr_array((np.ones(len(i)), (i, j)), shape=(n, n))
    reached.data[:] = 1
    return reached


def _named(prefix: str, names: tuple[str, ...], columns: Float64Array) -> Cues:
    """Columns (m, names) as cues."""
    return {f"{prefix}, {name}": column for name, column in zip(names, columns.T, strict=True)}


def _mean_at(cue: Float64Array, i: NDArray[np.int32], j: NDArray[np.int32], n: int) -> Float64Array:
    """(n,) mean of a cue over the edges of each site."""
    ends = np.concatenate((i, j))
    return np.bincount(ends, np.tile(cue, 2), n) / np.maximum(np.bincount(ends, minlength=n), 1)


def _around(cue: Float64Array, i: NDArray[np.int32], j: NDArray[np.int32], n: int) -> Float64Array:
    """(m,) mean of a cue over the edges of an edge's two sites."""
    mean = _mean_at(cue, i, j, n)
    return np.asarray((mean[i] + mean[j]) / 2)
