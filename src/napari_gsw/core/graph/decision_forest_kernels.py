"""The compiled walk down the trees."""

from __future__ import annotations

import numpy as np

from napari_gsw.core.arrays import Floats, Ints
from napari_gsw.core.jit import jit


@jit
def summed(root: Ints, feature: Ints, threshold: Floats, left: Ints, right: Ints, rows: Floats) -> Floats:
    """Sum over the trees of the leaf that each row ends in."""
    result = np.zeros(rows.shape[0])
    for r in range(rows.shape[0]):
        for t in range(root.size):
            node = root[t]
            while feature[node] >= 0:
                node = left[node] if rows[r, feature[node]] <= threshold[node] else right[node]
            result[r] += threshold[node]
    return result
