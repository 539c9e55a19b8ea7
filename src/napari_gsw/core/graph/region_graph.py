"""Sites -> the graph of touching sites, and what its sites and boundaries look like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_gsw.core.arrays import Floats, Ints, Longs, Sites
from napari_gsw.core.errors import InputError
from napari_gsw.core.image.picture import Picture
from napari_gsw.core.image.spacing import face_areas
from napari_gsw.core.inputs import plain_array
from napari_gsw.core.sites.face_kernels import touching_pairs
from napari_gsw.core.sites.per_site import means_and_pixels
from napari_gsw.core.sites.pixel_kernels import grouped


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
    length: Floats
    contrast: Floats
    order: NDArray[np.int8]
    pixels: NDArray[np.int64]
    means: Floats

    @property
    def difference(self) -> Floats:
        """(m,) distance between the mean colours of an edge's two sites."""
        i, j = self.edges.T
        return np.asarray(np.linalg.norm(self.means[i] - self.means[j], axis=1))


class Adjacency(NamedTuple):
    """Neighbours of each site in CSR form, and the edges themselves."""

    start: Longs  # (n + 1,) where a site's neighbours begin
    neighbour: Ints  # (2 m,)
    edge: Ints  # (2 m,) the edge that leads to each
    left: Ints  # (m,) the two ends of each edge
    right: Ints  # (m,)
    beta: Floats  # (m,) coupling of each edge, beta_ij of eq. (12)


def region_graph(picture: Picture, sites: Sites, neighbourhood: int = 1) -> RegionGraph:
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
    means, pixels = means_and_pixels(channels, numbers.ravel(), n)
    first = RegionGraph(n, edges, length, total / length, np.ones(len(edges), np.int8), pixels, means)
    return first if neighbourhood == 1 else with_second_order(first)


def with_second_order(graph: RegionGraph) -> RegionGraph:
    """The same graph with an edge between any two sites that have a common neighbour and do not touch."""
    n = graph.n
    csr = adjacency(n, graph.edges, np.zeros(len(graph.edges)))
    i = np.repeat(np.arange(n), np.diff(csr.start))
    way, second = two_steps(csr.start, csr.neighbour)
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


def two_steps(start: NDArray[np.integer], neighbour: NDArray[np.integer]) -> tuple[Longs, Longs]:
    """Every way of two steps in a graph: (k,) the place of the first and of the second among the neighbours.

    Parameters
    ----------
    start, neighbour : (n + 1,) and (m,) the CSR form of the graph.
    """
    degree = np.diff(start)[neighbour]
    first = np.repeat(np.arange(len(neighbour)), degree)
    return first, np.arange(len(first)) + np.repeat(start[neighbour] - np.cumsum(degree) + degree, degree)


def merged_graph(
    n: int, ends: NDArray[np.int64], length: Floats, steps: Floats, mass: NDArray[np.int64], means: Floats
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


def adjacency(n: int, edges: NDArray[np.integer], beta: Floats) -> Adjacency:
    """Edges (m, 2) -> the CSR form that the sampler reads; neighbours of a site in the order of the edges."""
    m = len(edges)
    left, right = edges[:, 0].astype(np.int32), edges[:, 1].astype(np.int32)
    tail = np.concatenate((left, right))
    order = np.argsort(tail, kind="stable")
    start = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(tail, minlength=n), out=start[1:])
    return Adjacency(
        start=start,
        neighbour=np.concatenate((right, left))[order],
        edge=np.tile(np.arange(m, dtype=np.int32), 2)[order],
        left=left,
        right=right,
        beta=np.ascontiguousarray(beta, dtype=np.float64),
    )


def check_edges(edges: ArrayLike, n: int, loops: bool = False) -> NDArray[np.int32]:
    """Edges (m, 2) between n sites, as a new array; `loops` allows those from a site to itself."""
    pairs = plain_array("edges", edges)
    if pairs.size == 0:
        return np.zeros((0, 2), np.int32)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "ui":
        raise InputError(f"edges must be whole numbers of shape (m, 2), not {pairs.dtype} of shape {pairs.shape}")
    if pairs.min() < 0 or pairs.max() >= n:
        raise InputError(f"edges must name sites in [0, {n - 1}], not {pairs.min()} to {pairs.max()}")
    if not loops and (pairs[:, 0] == pairs[:, 1]).any():
        raise InputError("edges must join two different sites")
    return np.array(pairs, dtype=np.int32, order="C")


def connected_pairs(n: int, pairs: NDArray[np.integer]) -> Ints:
    """(n,) int32 the group 0, 1, ... of each of n things, of those that hang together through pairs (m, 2)."""
    first, second = np.array(pairs.T, np.int32, order="C")
    return grouped(n, first, second)
