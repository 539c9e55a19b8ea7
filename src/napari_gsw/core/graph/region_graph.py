"""Sites -> the graph of touching sites, and what its sites and boundaries look like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array

from napari_gsw.core.array_types import Float64Array, Int32Array, Int64Array, Sites
from napari_gsw.core.errors import InputError, to_array
from napari_gsw.core.image.normalized_image import NormalizedImage
from napari_gsw.core.image.spacing import face_areas
from napari_gsw.core.sites.adjacency_kernels import touching_pairs
from napari_gsw.core.sites.site_values import mean_and_count_per_site


@dataclass(frozen=True, eq=False)
class RegionGraph:
    """Which sites are neighbours, and what the sites and their common boundaries look like.

    Attributes
    ----------
    n : number of sites.
    edges : (m, 2) int32, sites 0..n-1 with the smaller one first, sorted.
    length : (m,) number of pixel faces of the common boundary; with a spacing their area, that of the smallest being 1.
    contrast : (m,) mean colour difference across these faces, in units of Lab.
    order : (m,) 1 for sites that touch, 2 for neighbours of neighbours. For the latter, length and contrast are those
        of the best way over a common neighbour: the narrowest boundary on the way, the sharpest contrast on the way.
    pixels : (n,) pixels of each site.
    means : (n, C) mean of each channel over a site, in units of Lab.
    """

    n: int
    edges: NDArray[np.int32]
    length: Float64Array
    contrast: Float64Array
    order: NDArray[np.int8]
    pixels: NDArray[np.int64]
    means: Float64Array

    @property
    def difference(self) -> Float64Array:
        """(m,) distance between the mean colours of an edge's two sites."""
        i, j = self.edges.T
        return np.asarray(np.linalg.norm(self.means[i] - self.means[j], axis=1))


class CsrGraph(NamedTuple):
    """Neighbours of each site in CSR form, and the edges themselves."""

    start: Int64Array  # (n + 1,) where a site's neighbours begin
    neighbour: Int32Array  # (2 m,)
    edge: Int32Array  # (2 m,) the edge that leads to each
    left: Int32Array  # (m,) the two ends of each edge
    right: Int32Array  # (m,)
    beta: Float64Array  # (m,) coupling of each edge, beta_ij of eq. (12)


def build_region_graph(picture: NormalizedImage, sites: Sites, neighbourhood: int = 1) -> RegionGraph:
    """The graph of the sites of an image, in two or three dimensions.

    Parameters
    ----------
    sites : (\\*shape,) 1..n, 0 where there is none.
    neighbourhood : 1 for sites that touch, 2 also for neighbours of neighbours.
    """
    n = int(sites.max())
    numbers = np.ascontiguousarray(sites, dtype=np.int32)
    channels = np.ascontiguousarray(picture.channels).reshape(sites.size, -1)
    deep = numbers.reshape((1,) * (3 - sites.ndim) + sites.shape)
    edges, length, total = touching_pairs(deep, channels, n, face_areas(picture.spacing, sites.ndim))
    means, pixels = mean_and_count_per_site(channels, numbers.ravel(), n)
    first = RegionGraph(n, edges, length, total / length, np.ones(len(edges), np.int8), pixels, means)
    return first if neighbourhood == 1 else add_second_order(first)


def add_second_order(graph: RegionGraph) -> RegionGraph:
    """The same graph with an edge between any two sites that have a common neighbour and do not touch."""
    n = graph.n
    csr = make_csr_graph(n, graph.edges, np.zeros(len(graph.edges)))
    i = np.repeat(np.arange(n), np.diff(csr.start))
    way, second = list_two_step_paths(csr.start, csr.neighbour)
    j = csr.neighbour[second]
    key = i[way].astype(np.int64) * n + j
    touching = graph.edges[:, 0].astype(np.int64) * n + graph.edges[:, 1]
    keep = (i[way] < j) & ~np.isin(key, touching)
    key, way, second = key[keep], way[keep], second[keep]
    length = np.minimum(graph.length[csr.edge[way]], graph.length[csr.edge[second]])
    contrast = np.maximum(graph.contrast[csr.edge[way]], graph.contrast[csr.edge[second]])
    pair, index = np.unique(key, return_inverse=True)
    widest = np.zeros(len(pair))
    np.maximum.at(widest, index, length)
    softest = np.full(len(pair), np.inf)
    np.minimum.at(softest, index, contrast)
    edges = np.concatenate((graph.edges, np.stack((pair // n, pair % n), axis=1).astype(np.int32)))
    return RegionGraph(
        n, edges, np.concatenate((graph.length, widest)), np.concatenate((graph.contrast, softest)),
        np.concatenate((graph.order, np.full(len(pair), 2, np.int8))), graph.pixels, graph.means,
    )  # fmt: skip


def list_two_step_paths(start: NDArray[np.integer], neighbour: NDArray[np.integer]) -> tuple[Int64Array, Int64Array]:
    """Every way of two steps in a graph: (k,) the place of the first and of the second among the neighbours.

    Parameters
    ----------
    start, neighbour : (n + 1,) and (m,) the CSR form of the graph.
    """
    degree = np.diff(start)[neighbour]
    first = np.repeat(np.arange(len(neighbour)), degree)
    return first, np.arange(len(first)) + np.repeat(start[neighbour] - np.cumsum(degree) + degree, degree)


def merge_contacts(
    n: int,
    ends: NDArray[np.int64],
    length: Float64Array,
    steps: Float64Array,
    mass: NDArray[np.int64],
    means: Float64Array,
) -> RegionGraph:
    """The graph of n sites from pairs of sites that touch somewhere, in any order and repeated.

    Parameters
    ----------
    ends : (e, 2) sites; two that are one site count for nothing.
    length, steps : (e,) faces of each contact, and the sum of the colour differences across them.
    mass, means : (n,) pixels of each site, and (n, C) mean of its channels.
    """
    apart = ends[:, 0] != ends[:, 1]
    a, b = ends[apart].T
    key, index = np.unique(np.minimum(a, b) * n + np.maximum(a, b), return_inverse=True)
    faces = np.bincount(index, length[apart], len(key)).astype(np.float64)
    contrast = np.bincount(index, steps[apart], len(key)) / np.maximum(faces, 1)
    pairs = np.stack((key // n, key % n), axis=1).astype(np.int32)
    return RegionGraph(n, pairs, faces, contrast, np.ones(len(key), np.int8), mass, means)


def make_csr_graph(n: int, edges: NDArray[np.integer], beta: Float64Array) -> CsrGraph:
    """Edges (m, 2) -> the CSR form that the sampler reads; neighbours of a site in the order of the edges."""
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
    """Edges (m, 2) between n sites, as a new array; `loops` allows those from a site to itself."""
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
    """(n,) int32 the group 0, 1, ... of each of n things, of those that hang together through pairs (m, 2)."""
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(pairs)), tuple(pairs.T)), shape=(n, n))
    return np.asarray(connected_components(graph, directed=False)[1], np.int32)


class Links(NamedTuple):
    """Pairs of sites of consecutive images that overlap."""

    edges: NDArray[np.int32]  # (links, 2) the earlier one first, sorted
    share: Float64Array  # (links,) of the smaller of the two sites, the part that lies upon the other
    contrast: Float64Array  # (links,) mean colour difference between pixels at the same place, in units of Lab


def concatenate_graphs(graphs: Sequence[RegionGraph]) -> RegionGraph:
    """One graph of the sites of all images in turn, without an edge between two images."""
    first = _first(graphs)
    return _in_order(
        RegionGraph(
            n=int(first[-1]),
            edges=np.concatenate([g.edges + np.int32(f) for g, f in zip(graphs, first, strict=False)]),
            length=np.concatenate([g.length for g in graphs]),
            contrast=np.concatenate([g.contrast for g in graphs]),
            order=np.concatenate([g.order for g in graphs]),
            pixels=np.concatenate([g.pixels for g in graphs]),
            means=np.concatenate([g.means for g in graphs]),
        )
    )[0]


def find_links(pictures: Sequence[NormalizedImage], sites: Sequence[Sites], graphs: Sequence[RegionGraph]) -> Links:
    """The links of images that lie upon each other, such as slices or frames.

    Parameters
    ----------
    sites : of each image (\\*shape,), all of one shape, numbered 1.. in each.
    """
    if len({s.shape for s in sites}) > 1:
        raise InputError(f"linked images must have one shape, not {sites[0].shape} and {_other(sites)}")
    first = _first(graphs)
    rows: list[tuple[Int64Array, Float64Array, Float64Array]] = []
    for k in range(len(sites) - 1):
        both = (sites[k] > 0) & (sites[k + 1] > 0)
        here, there = sites[k][both].astype(np.int64) - 1, sites[k + 1][both].astype(np.int64) - 1
        steps = np.linalg.norm(pictures[k].channels[both] - pictures[k + 1].channels[both], axis=1)
        key, index = np.unique(here * graphs[k + 1].n + there, return_inverse=True)
        overlap = np.bincount(index, minlength=len(key)).astype(np.float64)
        i, j = key // graphs[k + 1].n, key % graphs[k + 1].n
        smaller = np.minimum(graphs[k].pixels[i], graphs[k + 1].pixels[j])
        pairs = np.stack((i + first[k], j + first[k + 1]), axis=1)
        rows.append((pairs, overlap / smaller, np.bincount(index, steps, len(key)) / overlap))
    if not rows:
        return Links(np.zeros((0, 2), np.int32), np.zeros(0), np.zeros(0))
    pairs, share, contrast = (np.concatenate(column) for column in zip(*rows, strict=True))
    return Links(pairs.astype(np.int32), share, contrast)


def add_links(
    graph: RegionGraph, beta: Float64Array, links: Links, link_beta: Float64Array
) -> tuple[RegionGraph, Float64Array]:
    """A joined graph and its couplings (m,) with links and theirs.

    The length of a link is its share of the mean boundary within the images.
    """
    more = make_link_graph(graph, links)
    both = RegionGraph(
        n=graph.n,
        edges=np.concatenate((graph.edges, more.edges)),
        length=np.concatenate((graph.length, more.length)),
        contrast=np.concatenate((graph.contrast, more.contrast)),
        order=np.concatenate((graph.order, more.order)),
        pixels=graph.pixels,
        means=graph.means,
    )
    ordered, order = _in_order(both)
    return ordered, np.concatenate((beta, link_beta))[order]


def make_link_graph(graph: RegionGraph, links: Links) -> RegionGraph:
    """The sites of a graph with no other edges than the links."""
    usual = float(graph.length.mean()) if len(graph.length) else 1.0
    order = np.ones(len(links.edges), np.int8)
    return RegionGraph(graph.n, links.edges, usual * links.share, links.contrast, order, graph.pixels, graph.means)


def _in_order(graph: RegionGraph) -> tuple[RegionGraph, Int64Array]:
    """The graph with its edges sorted, those of sites that touch first; and where each edge was."""
    i, j = graph.edges.T
    order = np.lexsort((j, i, graph.order))
    parts = (graph.edges[order], graph.length[order], graph.contrast[order], graph.order[order])
    return RegionGraph(graph.n, *parts, graph.pixels, graph.means), order


def _first(graphs: Sequence[RegionGraph]) -> Int64Array:
    """(images + 1,) sites before each image, and of all."""
    return np.concatenate(([0], np.cumsum([g.n for g in graphs]))).astype(np.int64)


def _other(sites: Sequence[Sites]) -> tuple[int, ...]:
    return next(s.shape for s in sites if s.shape != sites[0].shape)
