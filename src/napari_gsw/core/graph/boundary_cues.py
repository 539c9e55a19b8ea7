"""What speaks for a boundary between two touching sites: a row of numbers for each edge of the region graph.

Two rounds. :func:`first_cues` looks at the image: how the two sites differ, how their surroundings differ on the two
sides, how the contrast compares with what is usual around here. :func:`second_cues` looks at what the first round made
of them: where the sites lie in the slow modes of the graph, and which two regions an edge parts when the sites are
merged into ever larger ones. A model that was learnt from human boundaries
(:mod:`napari_gsw.core.graph.boundary_model`) turns the cues into a probability.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from napari_gsw.core.arrays import Floats
from napari_gsw.core.evidence.site_features import Described
from napari_gsw.core.graph.boundary_cue_kernels import add_merges, differences, surroundings
from napari_gsw.core.graph.merge_tree import merge_tree
from napari_gsw.core.graph.random_walk import walk, walked
from napari_gsw.core.graph.random_walk_kernels import step
from napari_gsw.core.graph.region_graph import RegionGraph
from napari_gsw.core.graph.spectral import embedding

SCALE = 12.0
STEPS = (3, 8, 16)
MODES = 16
# An edge keeps at least this share of its affinity, so that no site is cut off from the graph.
LEAST_AFFINITY = 0.02
SHARPNESS = 3


def chi2(a: Floats, b: Floats) -> Floats:
    """Distance of histograms, row by row, in [0, 1]."""
    both = a + b
    return np.asarray(np.divide(np.square(a - b), both, out=np.zeros_like(both), where=both > 0).sum(axis=1) / 2)


class SiteSums:
    """Sums over pixels of what describes a site: 120 colour words, 32 texture words, three channels, and how many."""

    def __init__(self, words: Described, graph: RegionGraph) -> None:
        colour, texture = words.photo_colour.toarray(), words.photo_texture.toarray()
        lab = np.zeros((graph.n, 3))
        lab[:, : 3 if words.rgb else 1] = graph.means if words.rgb else graph.means.mean(1, keepdims=True)
        pixels = graph.pixels[:, np.newaxis].astype(np.float64)
        self.parts = np.cumsum([colour.shape[1], texture.shape[1], 3]).astype(np.int64)
        self.sums: Floats = np.concatenate((colour, texture, lab * pixels, pixels), axis=1)

    def differences(self, sums: Floats, i: NDArray[np.integer], j: NDArray[np.integer]) -> list[Floats]:
        """Of rows i and j (m,) of sums: distance of colour words, of texture words, of mean colours."""
        return list(differences(sums, i.astype(np.int64), j.astype(np.int64), self.parts).T)


def first_cues(words: Described, graph: RegionGraph, described: SiteSums) -> Floats:
    """(m, cues) of the image itself, in the order in which they are computed.

    Contrast along the boundary; lightness and colour between the sites; then three differences each (colour words,
    texture words, mean colour) of the sites, of their surroundings at one and at two steps without what both have in
    common, and after 3, 8 and 16 steps of a walk over the graph; length of the boundary; means around the edge and
    over the image; scatter within the sites; and where in the image the edge is.
    """
    n, (i, j) = graph.n, graph.edges.T
    left, right = np.ascontiguousarray(i), np.ascontiguousarray(j)
    sums, m = described.sums, len(graph.edges)
    lab = sums[:, described.parts[1] : -1] / sums[:, -1:]
    columns = [graph.contrast, np.abs(lab[i, 0] - lab[j, 0]), np.hypot(*(lab[i, 1:] - lab[j, 1:]).T)]
    columns += described.differences(sums, i, j)
    near = sparse.csr_array((np.ones(2 * m), (np.concatenate((i, j)), np.concatenate((j, i)))), shape=(n, n))
    near = sparse.csr_array(near + sparse.eye_array(n))
    far = sparse.csr_array(near @ near)
    far.data[:] = 1.0
    for reach in (near, far):
        reach.sort_indices()
        around = np.empty_like(sums)
        step(reach.indptr, reach.indices, reach.data, sums, around)
        columns += list(surroundings(reach.indptr, reach.indices, sums, around, left, right, described.parts).T)
    steps, moved, done = walk(graph, SCALE), sums / sums[:, -1:], 0
    for passes in STEPS:
        moved, done = walked(moved, steps, passes - done), passes
        columns += described.differences(moved, i, j)
    columns.append(graph.length / np.sqrt(np.minimum(graph.pixels[i], graph.pixels[j])))
    usual = [
        columns[0],
        columns[3],
        columns[4],
        columns[17],
    ]  # contrast, both kinds of words, mean colour after 8 steps
    for cue in usual:
        columns += [_around(cue, i, j, n), np.full(m, cue.mean())]
    scatter = np.sqrt(np.maximum(words.squares - np.square(graph.means), 0).sum(axis=1))
    columns += [np.minimum(scatter[i], scatter[j]), np.maximum(scatter[i], scatter[j])]
    middle = (words.middles[i] + words.middles[j]) / 2
    columns += [middle[:, 0], np.minimum(middle, 1 - middle).min(axis=1)]
    return np.stack(columns, axis=1)


def second_cues(graph: RegionGraph, first: Floats, apart: Floats, described: SiteSums) -> Floats:
    """(m, cues): those of the first round, and what follows from its probabilities `apart` (m,) for the whole image."""
    i, j = graph.edges.T
    m = len(graph.edges)
    usual = _mean_at(apart, i, j, graph.n)
    columns = [apart, usual[i] + usual[j], np.minimum(usual[i], usual[j]), np.full(m, apart.mean())]
    affinity = np.maximum(1 - apart, LEAST_AFFINITY) ** SHARPNESS * graph.length
    place, slowness = embedding(graph.n, graph.edges, affinity, MODES)
    gap = np.abs(place[i] - place[j])
    columns += [np.sqrt(np.square(gap[:, :count]).sum(axis=1)) for count in (2, 4, 8, 16)]
    columns += [*gap[:, :4].T, np.full(m, slowness[0]), np.full(m, slowness[7] / slowness[15])]
    return np.concatenate((first, np.stack(columns, axis=1), _parted(graph, apart, described)), axis=1)


def _parted(graph: RegionGraph, apart: Floats, described: SiteSums) -> Floats:
    """(m, 7) of the two regions that an edge parts when regions are merged in the order of their boundaries.

    Height of the merge; logarithms of the share of the smaller and of the larger of the two; their three differences;
    logarithm of the number of regions that are left.
    """
    tree = merge_tree(graph.n, graph.edges, apart, graph.length)
    merges = len(tree.height)
    sums = np.concatenate((described.sums, np.zeros((merges, described.sums.shape[1]))))
    add_merges(sums, graph.n, tree.left, tree.right)
    share = np.sort(np.stack((sums[tree.left, -1], sums[tree.right, -1])) / graph.pixels.sum(), axis=0)
    table = np.stack(
        (
            tree.height,
            *np.log(share),
            *described.differences(sums, tree.left, tree.right),
            np.log(graph.n - np.arange(merges)),
        ),
        axis=1,
    )
    return np.asarray(table[tree.merge_of(graph.edges)])


def _mean_at(cue: Floats, i: NDArray[np.int32], j: NDArray[np.int32], n: int) -> Floats:
    """(n,) mean of a cue over the edges of each site."""
    ends = np.concatenate((i, j))
    return np.bincount(ends, np.tile(cue, 2), n) / np.maximum(np.bincount(ends, minlength=n), 1)


def _around(cue: Floats, i: NDArray[np.int32], j: NDArray[np.int32], n: int) -> Floats:
    """(m,) mean of a cue over the edges of an edge's two sites."""
    mean = _mean_at(cue, i, j, n)
    return np.asarray((mean[i] + mean[j]) / 2)
