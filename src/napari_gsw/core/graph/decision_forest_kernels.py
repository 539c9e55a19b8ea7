"""The compiled walk down the trees."""

from __future__ import annotations

import numpy as np

from napari_gsw.core.arrays import Floats, Ints
from napari_gsw.core.jit import njit, zeros


@njit
def leaf_sums(root: Ints, feature: Ints, threshold: Floats, left: Ints, right: Ints, rows: Floats) -> Floats:
    """(rows,) float64 sum over the trees of the leaf that each row ends in.

    Parameters
    ----------
    root : (trees,) int32 first node of each tree.
    feature, threshold, left, right : (nodes,) int32, float64, int32 and int32, see
        :class:`~napari_gsw.core.graph.decision_forest.DecisionForest`.
    rows : (rows, features) float64.
    """
    result = zeros(rows.shape[0], np.float64)
    for r in range(rows.shape[0]):
        for t in range(root.size):
            node = root[t]
            while feature[node] >= 0:
                node = left[node] if rows[r, feature[node]] <= threshold[node] else right[node]
            result[r] += threshold[node]
    return result
