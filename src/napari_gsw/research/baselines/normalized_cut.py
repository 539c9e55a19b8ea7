"""Normalized cuts after Shi and Malik (2000) on the region adjacency graph.

Neighbours are tied by exp(-(d / colour)^2), with d the distance of their mean colours, as in scikit-image, whose cuts
need a hundred eigenvectors each and fail on images of few flat colours.

A graph is cut in two where that costs least in proportion to the ties on either side, between the small and the large
values of an eigenvector. Each node is also tied to itself with weight 1, the largest tie of two nodes; otherwise it
would cost as much to cut off a single node with weak ties as one with strong ties.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh
from scipy.sparse import coo_array, csc_array, csr_array, diags_array, eye_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackError, eigsh

from napari_gsw.core.array_types import BoolArray, Float64Array, Int32Array, Int64Array
from napari_gsw.core.graph.region_graph import build_region_graph
from napari_gsw.core.image.normalized_image import normalize_image
from napari_gsw.core.settings import Settings
from napari_gsw.core.settings.declaration import Options, setting
from napari_gsw.core.sites.superpixels import make_superpixels
from napari_gsw.methods import Method
from napari_gsw.research.baselines.photographs import number_regions

# Weaker ties do not count.
MIN_TIE = 1e-6
# Graphs of more nodes are solved by iteration.
MAX_DENSE_NODES = 300
# All eigenvalues are >= 0, so a matrix shifted by this is positive definite.
SHIFT = 1e-3
# Precision of eigenvectors, far finer than the differences that decide where to cut.
TOLERANCE = 1e-4


@dataclass(frozen=True)
class NormalizedCut(Options):
    """Settings of the normalized cut."""

    site_size: int = setting(200, "normalized-cut", "Mean number of pixels in a superpixel.", low=1, title="Site size")
    colour: float = setting(
        10.0, "normalized-cut", "Colour difference (in units of Lab) at which two superpixels are tied to 37 %.",
        low=0.0, exclusive_min=True, title="Colour width",
    )  # fmt: skip
    threshold: float = setting(
        0.03, "normalized-cut", "Largest cost of a cut: larger values make more regions.", low=0.0, high=2.0
    )


def segment_normalized_cut(image: ArrayLike, options: NormalizedCut, axes: str = "auto", seed: int = 0) -> Int32Array:
    """Segment an image of any kind in 2D or 3D into regions 1..k, which need not be connected."""
    normalized = normalize_image(image, axes)
    sites = make_superpixels(normalized, Settings(site_size=options.site_size))
    graph = build_region_graph(normalized, sites)
    tie = np.exp(-np.square(graph.difference / options.colour))
    part = partition_graph(graph.n, graph.edges, tie, options.threshold, np.random.default_rng(seed))
    return number_regions(part[sites - 1])


def partition_graph(
    n: int, edges: NDArray[np.integer], tie: Float64Array, threshold: float, rng: np.random.Generator
) -> Int64Array:
    """Cut a graph in two, and the parts again, while the cheapest cut found costs less than the threshold.

    `edges` (m, 2) has each pair of the n nodes once, `tie` (m,) weights in 0..1. The cost is cut / ties of the one side
    + cut / ties of the other, 0 to 2. Returns the part (n,) of each node, 0..k-1.
    """
    strong = tie >= MIN_TIE
    left, right = edges[strong].T
    half = coo_array((tie[strong], (left, right)), shape=(n, n)).tocsr()
    graph = csr_array(half + half.T + eye_array(n))
    part = np.empty(n, np.int64)
    n_parts = 0
    stack = [np.arange(n)]
    while stack:
        nodes = stack.pop()
        subgraph = csr_array(graph[nodes][:, nodes])
        count, piece = connected_components(subgraph, directed=False)
        if count == 1 and len(nodes) > 1:
            side, cost = find_cheapest_cut(subgraph, solve_second_vector(subgraph, rng))
            if cost < threshold:
                count, piece = 2, side.astype(np.int32)
        if count > 1:
            order = np.argsort(piece, kind="stable")
            stack += np.split(nodes[order], np.cumsum(np.bincount(piece))[:-1])
        else:
            part[nodes] = n_parts
            n_parts += 1
    return part


def solve_second_vector(graph: csr_array[Any], rng: np.random.Generator) -> Float64Array:
    """Solve for the second generalized eigenvector (n,) of D - W, with W the weights of a connected graph.

    D has the sums of W on its diagonal. Nodes with similar values are closely tied.
    """
    n = graph.shape[0]
    root: Float64Array = 1 / np.sqrt(graph.sum(axis=0))
    scaled = diags_array(root)
    laplacian = csc_array(eye_array(n) - scaled @ graph @ scaled)
    if n > MAX_DENSE_NODES:
        try:
            values, vectors = eigsh(laplacian, k=2, sigma=-SHIFT, v0=rng.random(n), tol=TOLERANCE)
            return root * vectors[:, np.argmax(values)]
        except ArpackError:  # too regular a graph for an iteration
            pass
    return root * eigh(laplacian.toarray(), subset_by_index=[1, 1])[1][:, 0]


def find_cheapest_cut(graph: csr_array[Any], values: Float64Array) -> tuple[BoolArray, float]:
    """Find the cheapest cut between nodes of small and large `values`: the nodes (n,) of one side, and the cost."""
    n = len(values)
    order = np.argsort(values, kind="stable")
    rank = np.argsort(order)
    ends = graph.tocoo()
    start, stop = rank[ends.row], rank[ends.col]
    once = start < stop
    # An edge is cut after every rank from that of its first end to the one before its second end.
    change = np.bincount(start[once], ends.data[once], n) - np.bincount(stop[once], ends.data[once], n)
    cut = np.cumsum(change)[:-1]
    below = np.cumsum(graph.sum(axis=0)[order])
    cost = cut / below[:-1] + cut / (below[-1] - below[:-1])
    best = int(np.argmin(cost))
    return rank <= best, float(cost[best])


NORMALIZED_CUT = Method(segment_normalized_cut, NormalizedCut)
