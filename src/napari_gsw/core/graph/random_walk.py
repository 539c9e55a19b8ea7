"""Site features smoothed over the region graph: each site borrows from neighbours that look alike.

A histogram of sixty or a hundred pixels is noisy; that of a site and of the sites around it with the same colour is
not. Weights fall with the difference of colour and with the contrast along the boundary, so that little flows across an
edge of the image.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from napari_gsw.core.array_types import BoolArray, Float64Array, Int32Array, Int64Array
from napari_gsw.core.graph.region_graph import RegionGraph, group_connected

CONTRAST_WEIGHT = 1.5
# A smoothed histogram is no longer a count of pixels. It becomes one of this many, rounded: the likelihood's tables
# want whole numbers, and the evidence says how many draws they are worth.
COUNTS = 100
# Columns that are dense in memory at one time.
WORDS_AT_ONCE = 32


def make_transition_matrix(graph: RegionGraph, scale: float) -> csr_array:
    """(n, n) weights with which a site takes over from its neighbours and keeps its own; rows sum to 1.

    Parameters
    ----------
    scale : units of Lab; the weight of a neighbour is exp(-(difference + 1.5 contrast) / scale), one's own is 1.
    """
    n = graph.n
    touching = graph.order == 1
    i, j = graph.edges[touching].T
    weight = np.exp(-(graph.difference + CONTRAST_WEIGHT * graph.contrast)[touching] / scale)
    rows, columns = np.concatenate((i, j, np.arange(n))), np.concatenate((j, i, np.arange(n)))
    both = csr_array((np.concatenate((weight, weight, np.ones(n))), (rows, columns)), shape=(n, n))
    row = np.repeat(np.arange(n), np.diff(both.indptr))
    share = (1 / np.bincount(row, both.data, n))[row] * both.data
    # Each site adds its neighbours from the last to the first: the order decides the last digit.
    order = np.lexsort((-both.indices, row))
    return csr_array((share[order], both.indices[order], both.indptr), shape=(n, n))


def smooth_counts(counts: csr_array, matrix: csr_array, passes: int) -> csr_array:
    """Histograms (n, words) after `passes` steps of the walk, as whole numbers that sum to about 100 a site."""
    n, words = counts.shape
    table = np.empty((n, words), np.int32)
    share = counts.data * np.repeat(1 / np.maximum(counts.sum(axis=1), 1), np.diff(counts.indptr))
    shares = csr_array((share, counts.indices, counts.indptr), shape=counts.shape)
    for first in range(0, words, WORDS_AT_ONCE):
        block = apply_transitions(shares[:, first : first + WORDS_AT_ONCE].toarray(), matrix, passes)
        table[:, first : first + WORDS_AT_ONCE] = np.rint(COUNTS * block)
    smooth = csr_array(table)
    return csr_array((smooth.data.astype(np.int64), smooth.indices, smooth.indptr), shape=(n, words))


def apply_transitions(values: Float64Array, matrix: csr_array, passes: int) -> Float64Array:
    """Values (n, columns) after `passes` steps of the walk."""
    for _ in range(passes):
        values = matrix @ values
    return values


# Of all steps, those by which a walk is lost if nothing else is said: it forgets where it began.
LOSS_RATE = 1e-4
# A weight beyond exp(20) is as good as a bond, and below exp(-20) as good as none.
MOST_LOG_WEIGHT = 20.0
# More nodes than this take longer to solve for than a person wants to wait for a stroke.
MAX_NODES = 12_000


class AbsorbingWalk:
    """The walk over the graph of a problem, ready for any strokes.

    Parameters
    ----------
    n : sites. edges : (m, 2) pairs of sites. log_weight : (m,) of each edge.
    loss : rate of loss at every site, as a share of the median weight; None for LOSS of the weights of its edges.
    """

    def __init__(self, n: int, edges: Int32Array, log_weight: Float64Array, loss: float | None = None) -> None:
        self.n, self.edges = n, edges
        self.weight = np.exp(np.clip(log_weight, -MOST_LOG_WEIGHT, MOST_LOG_WEIGHT))
        self.degree = np.bincount(edges[:, 0], self.weight, n) + np.bincount(edges[:, 1], self.weight, n)
        usual = float(np.median(self.weight)) if len(edges) else 1.0
        self.loss = LOSS_RATE * self.degree if loss is None else np.full(n, loss * usual)
        self.group = group_strongest_pairs(n, edges, self.weight, MAX_NODES)

    def absorption_probability(self, names: Int32Array, count: int) -> Float64Array:
        """(n, count) probability that the walk from a site meets the strokes of each name before all others.

        Parameters
        ----------
        names : (n,) number in [0, count) of the name painted on a site, -1 for a free one.
        """
        walk = self._until(names >= 0)
        answer = np.zeros((walk.weights.shape[0], count))
        painted = np.flatnonzero(names >= 0)
        answer[walk.node[painted], names[painted]] = 1.0
        if walk.solver is not None:
            flow = walk.weights[walk.unknown][:, walk.known] @ answer[walk.known]
            answer[walk.unknown] = np.clip(walk.solver.solve(flow), 0.0, 1.0)
        return np.asarray(answer[walk.node])

    def hitting_probability(self, painted: BoolArray, sites: NDArray[np.integer]) -> Float64Array:
        """(s, n) probability that the walk from each site comes to one of some sites before it meets any stroke.

        As a stroke there would be met. It is G_ji / G_ii of the walk's Green function.

        Parameters
        ----------
        painted : (n,) where there are strokes.
        sites : (s,) free sites.
        """
        walk = self._until(painted)
        place = np.full(walk.weights.shape[0], -1)
        place[walk.unknown] = np.arange(len(walk.unknown))
        goal, column = place[walk.node[sites]], np.arange(len(sites))
        begin = np.zeros((len(walk.unknown), len(sites)))
        begin[goal, column] = 1.0
        answer = np.zeros((walk.weights.shape[0], len(sites)))
        if walk.solver is not None:
            green = walk.solver.solve(begin)
            answer[walk.unknown] = np.clip(green / green[goal, column], 0.0, 1.0)
        return np.ascontiguousarray(answer[walk.node].T)

    def _until(self, painted: BoolArray) -> _Walk:
        """The walk that ends at strokes (n,), or is lost."""
        from scipy import sparse
        from scipy.sparse.linalg import splu

        # A painted site is a node of its own, whatever it was grouped with.
        node = np.where(painted, self.group.max() + 1 + np.arange(self.n), self.group)
        used, node = np.unique(node, return_inverse=True)
        size = len(used)
        i, j = node[self.edges].T
        apart = i != j
        rows, columns = np.concatenate((i[apart], j[apart])), np.concatenate((j[apart], i[apart]))
        both = np.concatenate((self.weight[apart], self.weight[apart]))
        weights = sparse.csr_array((both, (rows, columns)), shape=(size, size))
        # Walks are lost as often within a group as they would be among its sites.
        stay = weights.sum(axis=1) + np.bincount(node, self.loss, size)
        ends = np.zeros(size, bool)
        ends[node] = painted
        unknown, known = np.flatnonzero(~ends), np.flatnonzero(ends)
        if not len(unknown):
            return _Walk(node, weights, unknown, known, None)
        # A site without neighbours never meets anyone; the last term keeps its row solvable.
        own = sparse.diags_array(stay[unknown] + 1e-300)
        matrix = sparse.csc_array(own - weights[unknown][:, unknown])
        options = {"SymmetricMode": True}
        solver = splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)
        return _Walk(node, weights, unknown, known, solver)


class _Walk(NamedTuple):
    """Equations of a walk among nodes, each a site or a group of them.

    Attributes
    ----------
    node : (n,) that of each site.
    weights : (nodes, nodes) sparse, of the steps.
    unknown, known : nodes without and with strokes.
    solver : of the equations at the unknown ones; None if there are none.
    """

    node: Int64Array
    weights: Any
    unknown: Int64Array
    known: Int64Array
    solver: Any


def group_strongest_pairs(n: int, edges: Int32Array, weight: Float64Array, most: int) -> Int64Array:
    """(n,) group of each site: pairs that are each other's strongest neighbour join until there are at most `most`.

    Within such a group the walk goes to and fro so often that it meets the same strokes from everywhere in it.
    """
    from scipy import sparse

    group = np.arange(n, dtype=np.int64)
    for _ in range(32):
        count = int(group.max()) + 1 if n else 0
        if count <= most or not len(edges):
            break
        i, j = group[edges].T
        apart = i != j
        pairs = sparse.coo_array((weight[apart], (np.minimum(i, j)[apart], np.maximum(i, j)[apart])), (count, count))
        pairs.sum_duplicates()
        a, b, w = pairs.row, pairs.col, pairs.data
        best = np.full(count, -1)
        ends, others = np.concatenate((a, b)), np.concatenate((b, a))
        order = np.argsort(np.concatenate((w, w)), kind="stable")  # what is written last is strongest
        best[ends[order]] = others[order]
        mutual = np.flatnonzero((best >= 0) & (best[best] == np.arange(count)))
        mutual = mutual[mutual < best[mutual]]
        if not len(mutual):
            break
        group = group_connected(count, np.stack((mutual, best[mutual]), axis=1))[group].astype(np.int64)
    return group
