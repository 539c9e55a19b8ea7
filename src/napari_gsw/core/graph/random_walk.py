"""Random walks over the region graph: features smoothed by them, and the scribble that a walk meets first.

A histogram of a hundred pixels is noisy; that of a site and similar sites around it is less so. The weights of a walk
fall with the difference of colour and the contrast along the boundary, so little flows across an edge of the image.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csc_array, csr_array, diags_array

from napari_gsw.core.array_types import BoolArray, Float64Array, Int32Array, Int64Array
from napari_gsw.core.graph.region_graph import RegionGraph, group_connected

CONTRAST_WEIGHT = 1.5
# A smoothed histogram is rounded to this total: the tables of the likelihood need whole numbers, and the data weight
# says how many draws they are worth.
COUNTS = 100
# Columns that are dense in memory at one time.
DENSE_COLUMNS = 32
# Share of all steps by which a walk is lost by default: it forgets where it began.
LOSS_RATE = 1e-4
# A weight beyond exp(20) is as good as a bond, and below exp(-20) as good as none.
MAX_LOG_WEIGHT = 20.0
# More nodes take longer to solve for than a user wants to wait for a scribble.
MAX_NODES = 12_000


def make_transition_matrix(graph: RegionGraph, scale: float) -> csr_array:
    """Make the (n, n) transition matrix of a walk over touching sites.

    A neighbour has weight exp(-(difference + 1.5 contrast) / scale), with the scale in units of Lab, the site itself 1.
    """
    n = graph.n
    touching = graph.order == 1
    i, j = graph.edges[touching].T
    weight = np.exp(-(graph.difference + CONTRAST_WEIGHT * graph.contrast)[touching] / scale)
    rows, columns = np.concatenate((i, j, np.arange(n))), np.concatenate((j, i, np.arange(n)))
    weights = csr_array((np.concatenate((weight, weight, np.ones(n))), (rows, columns)), shape=(n, n))
    row = np.repeat(np.arange(n), np.diff(weights.indptr))
    share = (1 / np.bincount(row, weights.data, n))[row] * weights.data
    # Each site adds its neighbours from the last to the first: the order decides the last digit.
    order = np.lexsort((-weights.indices, row))
    return csr_array((share[order], weights.indices[order], weights.indptr), shape=(n, n))


def smooth_counts(counts: csr_array, matrix: csr_array, passes: int) -> csr_array:
    """Smooth histograms (n, words) by steps of a walk, as whole numbers that sum to about 100 per site."""
    n, words = counts.shape
    table = np.empty((n, words), np.int32)
    share = counts.data * np.repeat(1 / np.maximum(counts.sum(axis=1), 1), np.diff(counts.indptr))
    shares = csr_array((share, counts.indices, counts.indptr), shape=counts.shape)
    for first in range(0, words, DENSE_COLUMNS):
        columns = slice(first, first + DENSE_COLUMNS)
        table[:, columns] = np.rint(COUNTS * apply_transitions(shares[:, columns].toarray(), matrix, passes))
    return csr_array(table).astype(np.int64)


def apply_transitions(values: Float64Array, matrix: csr_array, passes: int) -> Float64Array:
    """Apply a transition matrix to values (n, columns) several times."""
    for _ in range(passes):
        values = matrix @ values
    return values


class AbsorbingWalk:
    """A walk over the graph of a problem that ends at scribbles, with the log weight (m,) of each edge.

    The rate of loss at every site is a share of the median weight, or for None `LOSS_RATE` of the weights of its edges.
    """

    def __init__(self, n: int, edges: Int32Array, log_weight: Float64Array, loss: float | None = None) -> None:
        self.n, self.edges = n, edges
        self.weight = np.exp(np.clip(log_weight, -MAX_LOG_WEIGHT, MAX_LOG_WEIGHT))
        degree = np.bincount(edges[:, 0], self.weight, n) + np.bincount(edges[:, 1], self.weight, n)
        median = float(np.median(self.weight)) if len(edges) else 1.0
        self.loss = LOSS_RATE * degree if loss is None else np.full(n, loss * median)
        self.group = group_strongest_pairs(n, edges, self.weight, MAX_NODES)

    def absorption_probability(self, names: Int32Array, count: int) -> Float64Array:
        """Compute the probability (n, count) that the walk from a site meets the scribbles of a name before all others.

        `names` (n,) are those painted on sites, in [0, count), and -1 for a free one.
        """
        node, weights, is_end, solver = self._factorize(names >= 0)
        probability = np.zeros((len(is_end), count))
        painted = np.flatnonzero(names >= 0)
        probability[node[painted], names[painted]] = 1.0
        if solver is not None:
            probability[~is_end] = np.clip(solver.solve(weights[~is_end][:, is_end] @ probability[is_end]), 0.0, 1.0)
        return np.asarray(probability[node])

    def hitting_probability(self, painted: BoolArray, sites: NDArray[np.integer]) -> Float64Array:
        """Compute the probability (s, n) that the walk from each site hits one of `sites` (s,) before any scribble.

        It is G_ji / G_ii of the walk's Green function, as a scribble there would be met.
        """
        node, _, is_end, solver = self._factorize(painted)
        probability = np.zeros((len(is_end), len(sites)))
        if solver is not None:
            goal, column = (np.cumsum(~is_end) - 1)[node[sites]], np.arange(len(sites))
            start = np.zeros((np.count_nonzero(~is_end), len(sites)))
            start[goal, column] = 1.0
            green = solver.solve(start)
            probability[~is_end] = np.clip(green / green[goal, column], 0.0, 1.0)
        return np.ascontiguousarray(probability[node].T)

    def _factorize(self, painted: BoolArray) -> tuple[Int64Array, csr_array, BoolArray, Any]:
        """Return the node of each site, the weights between nodes, which are painted, and the solver of the free ones.

        The solver is None if no node is free.
        """
        from scipy.sparse.linalg import splu

        # A painted site is a node of its own, whatever it was grouped with.
        node = np.where(painted, self.group.max() + 1 + np.arange(self.n), self.group)
        used, node = np.unique(node, return_inverse=True)
        size = len(used)
        i, j = node[self.edges].T
        between = i != j
        rows, columns = np.concatenate((i[between], j[between])), np.concatenate((j[between], i[between]))
        weights = csr_array((np.tile(self.weight[between], 2), (rows, columns)), shape=(size, size))
        # Walks are lost as often within a group as they would be among its sites.
        diagonal = weights.sum(axis=1) + np.bincount(node, self.loss, size)
        is_end = np.zeros(size, bool)
        is_end[node] = painted
        if is_end.all():
            return node, weights, is_end, None
        free = np.flatnonzero(~is_end)
        # A site without neighbours never meets a scribble; the last term keeps its row solvable.
        matrix = csc_array(diags_array(diagonal[free] + 1e-300) - weights[free][:, free])
        options = {"SymmetricMode": True}
        solver = splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)
        return node, weights, is_end, solver


def group_strongest_pairs(n: int, edges: Int32Array, weight: Float64Array, max_groups: int) -> Int64Array:
    """Group sites until there are at most `max_groups`: pairs that are each other's strongest neighbour are united.

    Within a group the walk goes to and fro so often that it meets the same scribbles from everywhere in it.
    """
    group = np.arange(n, dtype=np.int64)
    for _ in range(32):
        count = int(group.max()) + 1 if n else 0
        if count <= max_groups or not len(edges):
            break
        i, j = group[edges].T
        between = i != j
        ends = np.minimum(i, j)[between], np.maximum(i, j)[between]
        pairs = coo_array((weight[between], ends), (count, count))
        pairs.sum_duplicates()
        order = np.argsort(np.tile(pairs.data, 2), kind="stable")  # what is written last is strongest
        first, second = np.concatenate((pairs.row, pairs.col)), np.concatenate((pairs.col, pairs.row))
        strongest = np.full(count, -1)
        strongest[first[order]] = second[order]
        mutual = np.flatnonzero((strongest >= 0) & (strongest[strongest] == np.arange(count)))
        mutual = mutual[mutual < strongest[mutual]]
        if not len(mutual):
            break
        group = group_connected(count, np.stack((mutual, strongest[mutual]), axis=1))[group].astype(np.int64)
    return group
