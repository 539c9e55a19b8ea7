"""The region adjacency graph: which sites touch, and what they and their boundaries look like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array

from napari_gsw.core.array_types import Float64Array, Int32Array, Int64Array, Sites
from napari_gsw.core.errors import InputError, to_array
from napari_gsw.core.image.normalized_image import NormalizedImage
from napari_gsw.core.sites.site_values import mean_per_site, touching_pairs


@dataclass(frozen=True, eq=False)
class RegionGraph:
    """Neighbouring sites, and what the sites and their boundaries look like.

    Neighbours of neighbours have the length and contrast of the best path over a common neighbour: the shortest
    boundary and the largest contrast on the path.
    """

    n: int
    edges: NDArray[np.int32]  # (m, 2) sites 0..n-1 with the smaller one first, sorted
    length: Float64Array  # (m,) pixel faces of the common boundary; with a spacing their area, in units of the smallest
    contrast: Float64Array  # (m,) mean colour difference across these faces, in units of Lab
    order: NDArray[np.int8]  # (m,) 1 for sites that touch, 2 for neighbours of neighbours
    pixels: NDArray[np.int64]  # (n,) of each site
    means: Float64Array  # (n, C) mean of each channel, in units of Lab

    @property
    def difference(self) -> Float64Array:
        """(m,) distance between the mean colours of an edge's two sites."""
        i, j = self.edges.T
        return np.asarray(np.linalg.norm(self.means[i] - self.means[j], axis=1))


class CsrGraph(NamedTuple):
    """Neighbours of each site in CSR form, and the edges themselves."""

    start: Int64Array  # (n + 1,) where the neighbours of a site begin
    neighbour: Int32Array  # (2 m,)
    edge: Int32Array  # (2 m,) the edge to each neighbour
    left: Int32Array  # (m,) the two ends of each edge
    right: Int32Array  # (m,)
    beta: Float64Array  # (m,) coupling beta_ij of each edge, eq. (12)


class Links(NamedTuple):
    """Pairs of sites of consecutive images that overlap."""

    edges: NDArray[np.int32]  # (links, 2) sorted, the site of the earlier image first
    share: Float64Array  # (links,) overlap as a fraction of the smaller site
    contrast: Float64Array  # (links,) mean colour difference between pixels at the same position, in units of Lab


def build_region_graph(image: NormalizedImage, sites: Sites, neighbourhood: int = 1) -> RegionGraph:
    """Build the graph of the sites (*shape,) 1..n, 0 for none; `neighbourhood` 2 adds neighbours of neighbours."""
    n = int(sites.max())
    edges, length, total = touching_pairs(sites, image.channels.reshape(sites.size, -1), image.spacing)
    means, pixels = mean_per_site(image.channels, sites), np.bincount(sites.ravel(), minlength=n + 1)[1:]
    graph = RegionGraph(n, edges, length, total / length, np.ones(len(edges), np.int8), pixels, means)
    return graph if neighbourhood == 1 else add_second_order(graph)


def add_second_order(graph: RegionGraph) -> RegionGraph:
    """Add an edge between any two sites that have a common neighbour and do not touch."""
    n = graph.n
    csr = make_csr_graph(n, graph.edges, np.zeros(len(graph.edges)))
    i = np.repeat(np.arange(n), np.diff(csr.start))
    first, second = list_two_step_paths(csr.start, csr.neighbour)
    j = csr.neighbour[second]
    key = i[first].astype(np.int64) * n + j
    touching = graph.edges[:, 0].astype(np.int64) * n + graph.edges[:, 1]
    keep = (i[first] < j) & ~np.isin(key, touching)
    pair, index = np.unique(key[keep], return_inverse=True)
    a, b = csr.edge[first[keep]], csr.edge[second[keep]]
    length, contrast = np.zeros(len(pair)), np.full(len(pair), np.inf)
    np.maximum.at(length, index, np.minimum(graph.length[a], graph.length[b]))
    np.minimum.at(contrast, index, np.maximum(graph.contrast[a], graph.contrast[b]))
    edges = np.stack((pair // n, pair % n), axis=1).astype(np.int32)
    order = np.full(len(pair), 2, np.int8)
    return _add_edges(graph, replace(graph, edges=edges, length=length, contrast=contrast, order=order))


def _add_edges(graph: RegionGraph, other: RegionGraph) -> RegionGraph:
    """Append the edges of another graph of the same sites."""
    return replace(
        graph,
        edges=np.concatenate((graph.edges, other.edges)),
        length=np.concatenate((graph.length, other.length)),
        contrast=np.concatenate((graph.contrast, other.contrast)),
        order=np.concatenate((graph.order, other.order)),
    )


def list_two_step_paths(start: NDArray[np.integer], neighbour: NDArray[np.integer]) -> tuple[Int64Array, Int64Array]:
    """List all paths of two steps in a CSR graph: (k,) indices of the first and of the second among the neighbours."""
    degree = np.diff(start)[neighbour]
    first = np.repeat(np.arange(len(neighbour)), degree)
    return first, np.arange(len(first)) + np.repeat(start[neighbour] - np.cumsum(degree) + degree, degree)


def merge_contacts(
    n: int,
    ends: NDArray[np.int64],
    length: Float64Array,
    differences: Float64Array,
    pixels: NDArray[np.int64],
    means: Float64Array,
) -> RegionGraph:
    """Build the graph of n sites from contacts (e, 2) in any order, repeated, some within one site.

    Of each contact (e,) the faces are given, and the sum of the colour differences across them.
    """
    between = ends[:, 0] != ends[:, 1]
    a, b = ends[between].T
    key, index = np.unique(np.minimum(a, b) * n + np.maximum(a, b), return_inverse=True)
    faces = np.bincount(index, length[between], len(key)).astype(np.float64)
    contrast = np.bincount(index, differences[between], len(key)) / np.maximum(faces, 1)
    edges = np.stack((key // n, key % n), axis=1).astype(np.int32)
    return RegionGraph(n, edges, faces, contrast, np.ones(len(key), np.int8), pixels, means)


def make_csr_graph(n: int, edges: NDArray[np.integer], beta: Float64Array) -> CsrGraph:
    """Convert edges (m, 2) to the CSR form that the sampler reads; neighbours of a site in the order of the edges."""
    m = len(edges)
    left, right = edges[:, 0].astype(np.int32), edges[:, 1].astype(np.int32)
    tail = np.concatenate((left, right))
    order = np.argsort(tail, kind="stable")
    start = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(tail, minlength=n), out=start[1:])
    return CsrGraph(
        start=start,
        neighbour=np.concatenate((right, left))[order],
        edge=np.tile(np.arange(m, dtype=np.int32), 2)[order],
        left=left,
        right=right,
        beta=np.ascontiguousarray(beta, dtype=np.float64),
    )


def check_edges(edges: ArrayLike, n: int, loops: bool = False) -> NDArray[np.int32]:
    """Convert edges (m, 2) between n sites to a new array; `loops` allows those from a site to itself."""
    pairs = to_array("edges", edges)
    if pairs.size == 0:
        return np.zeros((0, 2), np.int32)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "ui":
        raise InputError(f"edges must be whole numbers of shape (m, 2), not {pairs.dtype} of shape {pairs.shape}")
    if pairs.min() < 0 or pairs.max() >= n:
        raise InputError(f"edges must name sites in [0, {n - 1}], not {pairs.min()} to {pairs.max()}")
    if not loops and (pairs[:, 0] == pairs[:, 1]).any():
        raise InputError("edges must join two different sites")
    return np.array(pairs, dtype=np.int32, order="C")


def group_connected(n: int, pairs: NDArray[np.integer]) -> Int32Array:
    """Label the connected components of n nodes 0, 1, ... by first node; pairs (m, 2) are connected."""
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(pairs)), tuple(pairs.T)), shape=(n, n))
    return np.asarray(connected_components(graph, directed=False)[1], np.int32)


def concatenate_graphs(graphs: Sequence[RegionGraph]) -> RegionGraph:
    """Join the graphs of several images, without an edge between two images."""
    before = _count_before(graphs)
    edges = np.concatenate([g.edges + np.int32(first) for g, first in zip(graphs, before, strict=False)])
    names = ("length", "contrast", "order", "pixels", "means")
    columns = [np.concatenate([getattr(g, name) for g in graphs]) for name in names]
    return _sort_edges(RegionGraph(int(before[-1]), edges, *columns))[0]


def find_links(images: Sequence[NormalizedImage], sites: Sequence[Sites], graphs: Sequence[RegionGraph]) -> Links:
    """Find the links of images of one shape that lie upon each other, such as slices or frames."""
    if len(shapes := {s.shape for s in sites}) > 1:
        raise InputError(f"linked images must have one shape, not {' and '.join(map(str, sorted(shapes)))}")
    before = _count_before(graphs)
    edges, share, contrast = [np.zeros((0, 2), np.int32)], [np.zeros(0)], [np.zeros(0)]
    for k in range(len(sites) - 1):
        both = (sites[k] > 0) & (sites[k + 1] > 0)
        m = graphs[k + 1].n
        key = (sites[k][both].astype(np.int64) - 1) * m + sites[k + 1][both].astype(np.int64) - 1
        differences = np.linalg.norm(images[k].channels[both] - images[k + 1].channels[both], axis=1)
        key, index = np.unique(key, return_inverse=True)
        overlap = np.bincount(index, minlength=len(key)).astype(np.float64)
        i, j = key // m, key % m
        edges.append(np.stack((i + before[k], j + before[k + 1]), axis=1).astype(np.int32))
        share.append(overlap / np.minimum(graphs[k].pixels[i], graphs[k + 1].pixels[j]))
        contrast.append(np.bincount(index, differences, len(key)) / overlap)
    return Links(np.concatenate(edges), np.concatenate(share), np.concatenate(contrast))


def add_links(
    graph: RegionGraph, beta: Float64Array, links: Links, link_beta: Float64Array
) -> tuple[RegionGraph, Float64Array]:
    """Add links and their couplings to a joined graph and its couplings (m,)."""
    sorted_graph, order = _sort_edges(_add_edges(graph, make_link_graph(graph, links)))
    return sorted_graph, np.concatenate((beta, link_beta))[order]


def make_link_graph(graph: RegionGraph, links: Links) -> RegionGraph:
    """Make the graph of the same sites with the links alone; their length is `share` times the mean length of edges."""
    mean_length = float(graph.length.mean()) if len(graph.length) else 1.0
    order = np.ones(len(links.edges), np.int8)
    return replace(graph, edges=links.edges, length=mean_length * links.share, contrast=links.contrast, order=order)


def _sort_edges(graph: RegionGraph) -> tuple[RegionGraph, Int64Array]:
    """Sort edges, those of touching sites first; also return the permutation."""
    i, j = graph.edges.T
    order = np.lexsort((j, i, graph.order))
    edges, length, contrast = graph.edges[order], graph.length[order], graph.contrast[order]
    return replace(graph, edges=edges, length=length, contrast=contrast, order=graph.order[order]), order


def _count_before(graphs: Sequence[RegionGraph]) -> Int64Array:
    return np.concatenate(([0], np.cumsum([g.n for g in graphs]))).astype(np.int64)
