"""What speaks for a boundary between two touching sites: a row of numbers for each edge of the region graph.

Two rounds. :func:`first_cues` looks at the image: how the two sites differ, how their surroundings differ on the two
sides, how the contrast compares with what is usual around here. :func:`second_cues` looks at the probabilities of the
first round: where the sites lie in the slow modes of the graph, and which two regions an edge parts when the sites are
merged into ever larger ones. A model that was learnt from human boundaries
(:mod:`napari_gsw.core.graph.boundary_model`) turns the cues into a probability.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.arrays import Floats
from napari_gsw.core.evidence.site_features import SiteFeatures
from napari_gsw.core.graph.boundary_cue_kernels import add_merges, differences, surroundings
from napari_gsw.core.graph.merge_tree import merge_tree
from napari_gsw.core.graph.random_walk import walk_matrix, walk_steps
from napari_gsw.core.graph.random_walk_kernels import walk_step
from napari_gsw.core.graph.region_graph import RegionGraph, two_steps
from napari_gsw.core.graph.spectral import embedding
from napari_gsw.core.sparse_rows import SparseRows

# Of the walk over the graph: the units of Lab over which its weights fall, and after how many steps one looks.
SCALE = 12.0
STEPS = (3, 8, 16)
MODES = 16
# An edge keeps at least this share of its affinity, so that no site is cut off from the graph.
LEAST_AFFINITY = 0.02
SHARPNESS = 3

# Cues by name, (m,) float64 each, in the order in which a model takes them: a forest knows a cue by its place alone, so
# a new one comes last, and a model is learnt anew when one goes.
Cues = dict[str, Floats]
# What two sites, or two regions, differ in; the places are those of a network.
DIFFERENCES = ("colour words", "texture words", "mean colour", "places")
# Of these the mean around an edge and over the image is a cue too: how a boundary compares with what is usual.
USUAL = ("contrast", "sites, colour words", "sites, texture words", "8 steps, mean colour")


def chi2(a: Floats, b: Floats) -> Floats:
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

    def __init__(self, features: SiteFeatures, graph: RegionGraph, places: Floats | None = None) -> None:
        colour, texture = features.photo_colour.toarray(), features.photo_texture.toarray()
        lab = np.zeros((graph.n, 3))
        lab[:, : 3 if features.rgb else 1] = graph.means if features.rgb else graph.means.mean(1, keepdims=True)
        pixels = graph.pixels[:, np.newaxis].astype(np.float64)
        columns = [colour, texture, lab * pixels, *([] if places is None else [places * pixels])]
        self.parts = np.cumsum([column.shape[1] for column in columns]).astype(np.int64)
        self.sums: Floats = np.concatenate((*columns, pixels), axis=1)

    @property
    def names(self) -> tuple[str, ...]:
        """Those of :data:`DIFFERENCES` that are known of the sites."""
        return DIFFERENCES[: len(self.parts)]

    def differences(self, prefix: str, sums: Floats, i: NDArray[np.integer], j: NDArray[np.integer]) -> Cues:
        """:attr:`names` of rows i and j (m,) of `sums`, which has the columns of :attr:`sums`."""
        return _named(prefix, self.names, differences(sums, i.astype(np.int64), j.astype(np.int64), self.parts))


def first_cues(features: SiteFeatures, graph: RegionGraph, site_sums: SiteSums, drawn: Floats | None = None) -> Floats:
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
    first, second = two_steps(near.indptr, near.indices)
    far = _reach(near.rows[first], near.indices[second], n)
    for name, reach in (("near", near), ("far", far)):
        around = np.empty_like(sums)
        walk_step(reach.indptr, reach.indices, reach.data, sums, around)
        beside = surroundings(reach.indptr, reach.indices, sums, around, left, right, site_sums.parts)
        cues |= _named(name, site_sums.names, beside)
    matrix, moved, done = walk_matrix(graph, SCALE), sums / sums[:, -1:], 0
    for passes in STEPS:
        moved, done = walk_steps(moved, matrix, passes - done), passes
        cues |= site_sums.differences(f"{passes} steps", moved, i, j)
    cues["length"] = graph.length / np.sqrt(np.minimum(graph.pixels[i], graph.pixels[j]))
    for name in USUAL:
        cues[f"{name}, around"] = _around(cues[name], i, j, n)
        cues[f"{name}, image"] = np.full(m, cues[name].mean())
    scatter = np.sqrt(np.maximum(features.squares - np.square(graph.means), 0).sum(axis=1))
    cues["least scatter"] = np.minimum(scatter[i], scatter[j])
    cues["most scatter"] = np.maximum(scatter[i], scatter[j])
    middle = (features.middles[i] + features.middles[j]) / 2
    cues["place along the first axis"] = middle[:, 0]
    cues["distance from the frame"] = np.minimum(middle, 1 - middle).min(axis=1)
    if drawn is not None:
        cues |= {"drawn": drawn, "drawn, around": _around(drawn, i, j, n), "drawn, image": np.full(m, drawn.mean())}
    return np.stack(list(cues.values()), axis=1)


def drawn_along(features: SiteFeatures, graph: RegionGraph) -> Floats:
    """(m,) mean probability of a boundary along each edge, by the network of the features."""
    return features.drawn_sums(graph.edges) / graph.length


def second_cues(graph: RegionGraph, first: Floats, apart: Floats, site_sums: SiteSums) -> Floats:
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
    place, slowness = embedding(graph.n, graph.edges, affinity, MODES)
    gap = np.abs(place[i] - place[j])
    cues |= {f"{count} modes": np.sqrt(np.square(gap[:, :count]).sum(axis=1)) for count in (2, 4, 8, 16)}
    cues |= {f"mode {number}": gap[:, number] for number in range(4)}
    cues["slowest mode"] = np.full(m, slowness[0])
    cues["half of the modes"] = np.full(m, slowness[7] / slowness[15])
    cues |= _parted(graph, apart, site_sums)
    return np.concatenate((first, np.stack(list(cues.values()), axis=1)), axis=1)


def _parted(graph: RegionGraph, apart: Floats, site_sums: SiteSums) -> Cues:
    """Cues of the two regions that an edge parts when regions are merged in the order of their boundaries.

    Height of the merge; logarithms of the share of the smaller and of the larger of the two; their differences;
    logarithm of the number of regions that are left.
    """
    tree = merge_tree(graph.n, graph.edges, apart, graph.length)
    merges = len(tree.height)
    sums = np.concatenate((site_sums.sums, np.zeros((merges, site_sums.sums.shape[1]))))
    add_merges(sums, graph.n, tree.left, tree.right)
    share = np.sort(np.stack((sums[tree.left, -1], sums[tree.right, -1])) / graph.pixels.sum(), axis=0)
    smaller, larger = np.log(share)
    by_merge: Cues = {"merge, height": tree.height, "merge, smaller region": smaller, "merge, larger region": larger}
    by_merge |= site_sums.differences("merge", sums, tree.left, tree.right)
    by_merge["merge, regions left"] = np.log(graph.n - np.arange(merges))
    merge = tree.merge_of(graph.edges)
    return {name: column[merge] for name, column in by_merge.items()}


def _reach(i: NDArray[np.integer], j: NDArray[np.integer], n: int) -> SparseRows:
    """(n, n) 1 where a site j (k,) is reached from a site i."""
    reached = SparseRows.of_places(i, j, None, (n, n))
    return replace(reached, data=np.ones(reached.nnz))


def _named(prefix: str, names: tuple[str, ...], columns: Floats) -> Cues:
    """Columns (m, names) as cues."""
    return {f"{prefix}, {name}": column for name, column in zip(names, columns.T, strict=True)}


def _mean_at(cue: Floats, i: NDArray[np.int32], j: NDArray[np.int32], n: int) -> Floats:
    """(n,) mean of a cue over the edges of each site."""
    ends = np.concatenate((i, j))
    return np.bincount(ends, np.tile(cue, 2), n) / np.maximum(np.bincount(ends, minlength=n), 1)


def _around(cue: Floats, i: NDArray[np.int32], j: NDArray[np.int32], n: int) -> Floats:
    """(m,) mean of a cue over the edges of an edge's two sites."""
    mean = _mean_at(cue, i, j, n)
    return np.asarray((mean[i] + mean[j]) / 2)
