"""The region adjacency graph: which sites touch, and what they and their boundaries look like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

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
    boundary and the largest contrast on the path. Edges of sites that touch come first; otherwise they are sorted.
    """

    n: int
    edges: NDArray[np.int32]  # (m, 2) sites 0..n-1 with the smaller one first
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


def build_region_graph(image: NormalizedImage, sites: Sites, neighbourhood: int = 1) -> RegionGraph:
    """Build the graph of the sites (*shape,) 1..n, 0 for none; `neighbourhood` 2 adds neighbours of neighbours."""
    n = int(sites.max())
    edges, length, total = touching_pairs(sites, image.channels.reshape(sites.size, -1), image.spacing)
    means, pixels = mean_per_site(image.channels, sites), np.bincount(sites.ravel(), minlength=n + 1)[1:]
    graph = RegionGraph(n, edges, length, total / length, np.ones(len(edges), np.int8), pixels, means)
    return graph if neighbourhood == 1 else add_second_order(graph)


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
    edges, index = _unique_pairs(n, np.sort(ends[between], axis=1))
    faces = np.bincount(index, length[between], len(edges)).astype(np.float64)
    contrast = np.bincount(index, differences[between], len(edges)) / np.maximum(faces, 1)
    return RegionGraph(n, edges, faces, contrast, np.ones(len(edges), np.int8), pixels, means)


def add_second_order(graph: RegionGraph) -> RegionGraph:
    """Add an edge between any two sites that have a common neighbour and do not touch."""
    n = graph.n
    csr = make_csr_graph(n, graph.edges, np.zeros(len(graph.edges)))
    # All paths of two steps, by the places of their steps among the neighbours.
    degree = np.diff(csr.start)[csr.neighbour]
    first = np.repeat(np.arange(len(csr.neighbour)), degree)
    second = np.arange(len(first)) + np.repeat(csr.start[csr.neighbour] - np.cumsum(degree) + degree, degree)
    ends = np.stack((np.repeat(np.arange(n), np.diff(csr.start))[first], csr.neighbour[second]), axis=1)
    keep = (ends[:, 0] < ends[:, 1]) & ~np.isin(ends @ (n, 1), graph.edges.astype(np.int64) @ (n, 1))
    edges, index = _unique_pairs(n, ends[keep])
    a, b = csr.edge[first[keep]], csr.edge[second[keep]]
    length, contrast = np.zeros(len(edges)), np.full(len(edges), np.inf)
    np.maximum.at(length, index, np.minimum(graph.length[a], graph.length[b]))
    np.minimum.at(contrast, index, np.maximum(graph.contrast[a], graph.contrast[b]))
    order = np.full(len(edges), 2, np.int8)
    return _join_edges(graph, [graph, replace(graph, edges=edges, length=length, contrast=contrast, order=order)])[0]


def concatenate_graphs(graphs: Sequence[RegionGraph]) -> RegionGraph:
    """Join the graphs of several images, without an edge between two images."""
    before = np.cumsum([0, *(g.n for g in graphs)])
    pixels, means = np.concatenate([g.pixels for g in graphs]), np.concatenate([g.means for g in graphs])
    shifted = [replace(g, edges=g.edges + np.int32(first)) for g, first in zip(graphs, before, strict=False)]
    return _join_edges(replace(graphs[0], n=int(before[-1]), pixels=pixels, means=means), shifted)[0]


def find_links(images: Sequence[NormalizedImage], sites: Sequence[Sites], graph: RegionGraph) -> RegionGraph:
    """Find the sites of consecutive images of one shape that overlap: edges between the sites of their joined graph.

    The length of a link is the overlap as a fraction of the smaller site. Its contrast is the mean colour difference
    between pixels at the same position.
    """
    if len(shapes := {s.shape for s in sites}) > 1:
        raise InputError(f"linked images must have one shape, not {' and '.join(map(str, sorted(shapes)))}")
    before = np.cumsum([0, *(int(s.max()) for s in sites)])
    ends, differences = [np.zeros((0, 2), np.int64)], [np.zeros(0)]
    for k in range(len(sites) - 1):
        both = (sites[k] > 0) & (sites[k + 1] > 0)
        ends.append(np.stack([sites[m][both] - 1 + before[m] for m in (k, k + 1)], axis=1))
        differences.append(np.linalg.norm(images[k].channels[both] - images[k + 1].channels[both], axis=1))
    edges, index = _unique_pairs(graph.n, np.concatenate(ends))
    overlap = np.bincount(index, minlength=len(edges)).astype(np.float64)
    contrast = np.bincount(index, np.concatenate(differences), len(edges)) / overlap
    length = overlap / graph.pixels[edges].min(axis=1)
    return replace(graph, edges=edges, length=length, contrast=contrast, order=np.ones(len(edges), np.int8))


def add_links(
    graph: RegionGraph, beta: Float64Array, links: RegionGraph, link_beta: Float64Array
) -> tuple[RegionGraph, Float64Array]:
    """Add links and their couplings to a joined graph and its couplings (m,); lengths become multiples of the mean."""
    mean_length = float(graph.length.mean()) if len(graph.length) else 1.0
    linked, order = _join_edges(graph, [graph, replace(links, length=mean_length * links.length)])
    return linked, np.concatenate((beta, link_beta))[order]


def _unique_pairs(n: int, pairs: NDArray[np.integer]) -> tuple[Int32Array, NDArray[np.intp]]:
    """List the different pairs (k, 2) of n sites, sorted, and the place of each pair among them."""
    key, index = np.unique(pairs.astype(np.int64) @ (n, 1), return_inverse=True)
    return np.stack(np.divmod(key, n), axis=1).astype(np.int32), index


def _join_edges(graph: RegionGraph, parts: Sequence[RegionGraph]) -> tuple[RegionGraph, NDArray[np.intp]]:
    """Give a graph the edges of several graphs of its sites, sorted; also return the permutation."""
    names = ("edges", "length", "contrast", "order")
    columns: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    place = np.lexsort((*columns["edges"].T[::-1], columns["order"]))
    return replace(graph, **{name: column[place] for name, column in columns.items()}), place


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
