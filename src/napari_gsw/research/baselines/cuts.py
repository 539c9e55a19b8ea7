"""A weighted graph -> parts, by normalized cuts after Shi and Malik (2000).

A graph is cut in two where that costs least in proportion to the ties on either side. Finding that cut is too much
work; a good one lies between the small and the large values of an eigenvector, and of those the cheapest is taken.

Every node is also tied to itself with weight 1, the most that two nodes can be tied by: else a single node, of which
all ties are cut, would cost as much to cut off if they are weak as if they are strong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.array_types import BoolArray, Float64Array, Int64Array

if TYPE_CHECKING:
    from scipy.sparse import csr_array

WEAKEST = 1e-6
# A graph of more nodes is solved by iteration.
DENSE = 300
# All eigenvalues are >= 0, so that a matrix shifted by this is safely positive.
SHIFT = 1e-3
# Of eigenvectors: far finer than the differences that decide where to cut.
TOLERANCE = 1e-4


def partition_graph(
    n: int, edges: NDArray[np.integer], tie: Float64Array, threshold: float, rng: np.random.Generator
) -> Int64Array:
    """Cut a graph in two, and the parts again, as long as the cheapest cut found costs less than the threshold.

    Parameters
    ----------
    n : number of nodes.
    edges : (m, 2) nodes, each pair once.
    tie : (m,) weights in 0..1.
    threshold : compared with cut / ties of the one side + cut / ties of the other, 0 to 2.
    rng : for the vectors that iterations start from.

    Returns
    -------
    (n,) int64 part of each node, 0..k-1.
    """
    from scipy.sparse import coo_array, csr_array, eye_array
    from scipy.sparse.csgraph import connected_components

    strong = tie >= WEAKEST
    left, right = edges[strong].T
    half = coo_array((tie[strong], (left, right)), shape=(n, n)).tocsr()
    graph = csr_array(half + half.T + eye_array(n))
    part = np.empty(n, np.int64)
    n_parts = 0
    waiting = [np.arange(n)]
    while waiting:
        nodes = waiting.pop()
        within = csr_array(graph[nodes][:, nodes])
        count, piece = connected_components(within, directed=False)
        if count == 1 and len(nodes) > 1:
            side, cost = find_cheapest_cut(within, solve_second_vector(within, rng))
            if cost < threshold:
                count, piece = 2, side.astype(np.int32)
        if count > 1:
            order = np.argsort(piece, kind="stable")
            waiting += np.split(nodes[order], np.cumsum(np.bincount(piece))[:-1])
        else:
            part[nodes] = n_parts
            n_parts += 1
    return part


def solve_second_vector(graph: csr_array[Any], rng: np.random.Generator) -> Float64Array:
    """The second generalized eigenvector of D - W, for which similar values mean closely tied nodes.

    Parameters
    ----------
    graph : (n, n) symmetric weights W of a connected graph; D has their sums on its diagonal.
    rng : for the vector that an iteration starts from.

    Returns
    -------
    (n,) float64.
    """
    from scipy.linalg import eigh
    from scipy.sparse import csc_array, diags_array, eye_array
    from scipy.sparse.linalg import ArpackError, eigsh

    n = graph.shape[0]
    root: Float64Array = 1 / np.sqrt(graph.sum(axis=0))
    scaled = diags_array(root)
    laplacian = csc_array(eye_array(n) - scaled @ graph @ scaled)
    if n > DENSE:
        try:
            values, vectors = eigsh(laplacian, k=2, sigma=-SHIFT, v0=rng.random(n), tol=TOLERANCE)
            return root * vectors[:, np.argmax(values)]
        except ArpackError:  # too regular a graph for an iteration
            pass
    return root * eigh(laplacian.toarray(), subset_by_index=[1, 1])[1][:, 0]


def find_cheapest_cut(graph: csr_array[Any], values: Float64Array) -> tuple[BoolArray, float]:
    """The cut between small and large values that costs least.

    Parameters
    ----------
    graph : (n, n) symmetric weights.
    values : (n,) by which the nodes are sorted.

    Returns
    -------
    (n,) bool, the nodes on the one side, and the cost of the cut.
    """
    n = len(values)
    order = np.argsort(values, kind="stable")
    rank = np.empty(n, np.int64)
    rank[order] = np.arange(n)
    ends = graph.tocoo()
    start, stop = rank[ends.row], rank[ends.col]
    once = start < stop
    # An edge is cut after every rank from that of its one end to the one before its other end.
    change = np.bincount(start[once], ends.data[once], n) - np.bincount(stop[once], ends.data[once], n)
    cut = np.cumsum(change)[:-1]
    below = np.cumsum(graph.sum(axis=0)[order])
    cost = cut / below[:-1] + cut / (below[-1] - below[:-1])
    best = int(np.argmin(cost))
    return rank <= best, float(cost[best])
