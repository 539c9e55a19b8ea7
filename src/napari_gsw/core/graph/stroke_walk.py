"""A random walk from each site until it meets a stroke: which label does it meet first?

The walk goes along edges with probability proportional to given weights, which are small across a boundary, and is lost
with a small probability at every step. With W the weights, D their row sums and L the rates of loss, the probabilities
q(s) of meeting label s solve (D + L - W) q = 0 at free sites, with q = 1 on the strokes of s and 0 on all others.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.arrays import Floats, Ints, Longs, Mask
from napari_gsw.core.graph.region_graph import connected_pairs

# Of all steps, those by which a walk is lost if nothing else is said: it forgets where it began.
LOSS = 1e-4
# A weight beyond exp(20) is as good as a bond, and below exp(-20) as good as none.
MOST_LOG_WEIGHT = 20.0
# More nodes than this take longer to solve for than a person wants to wait for a stroke.
MOST_NODES = 12_000


class StrokeWalk:
    """The walk over the graph of a problem, ready for any strokes.

    Parameters
    ----------
    n : sites. edges : (m, 2) pairs of sites. log_weight : (m,) of each edge.
    loss : rate of loss at every site, as a share of the median weight; None for LOSS of the weights of its edges.
    """

    def __init__(self, n: int, edges: Ints, log_weight: Floats, loss: float | None = None) -> None:
        self.n, self.edges = n, edges
        self.weight = np.exp(np.clip(log_weight, -MOST_LOG_WEIGHT, MOST_LOG_WEIGHT))
        self.degree = np.bincount(edges[:, 0], self.weight, n) + np.bincount(edges[:, 1], self.weight, n)
        usual = float(np.median(self.weight)) if len(edges) else 1.0
        self.loss = LOSS * self.degree if loss is None else np.full(n, loss * usual)
        self.group = strongest_groups(n, edges, self.weight, MOST_NODES)

    def meetings(self, names: Ints, count: int) -> Floats:
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

    def visits(self, painted: Mask, sites: NDArray[np.integer]) -> Floats:
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

    def _until(self, painted: Mask) -> _Walk:
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

    node: Longs
    weights: Any
    unknown: Longs
    known: Longs
    solver: Any


def strongest_groups(n: int, edges: Ints, weight: Floats, most: int) -> Longs:
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
        group = connected_pairs(count, np.stack((mutual, best[mutual]), axis=1))[group].astype(np.int64)
    return group
