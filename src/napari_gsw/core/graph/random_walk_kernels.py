"""Steps of a walk over the region graph, compiled."""

from __future__ import annotations

import numpy as np

from napari_gsw.core.array_types import Float64Array, Int32Array
from napari_gsw.core.jit import njit


@njit
def walk_step(
    start: Int32Array, near: Int32Array, weight: Float64Array, values: Float64Array, out: Float64Array
) -> None:
    """out = W @ values, a row of sums at a time.

    Parameters
    ----------
    start, near, weight : (n + 1,) int32, (nnz,) int32 and (nnz,) float64, the matrix W in CSR form.
    values, out : (n, columns) float64; out is written.
    """
    for i in range(values.shape[0]):
        for c in range(values.shape[1]):
            out[i, c] = 0.0
        for e in range(start[i], start[i + 1]):
            share, j = weight[e], near[e]
            for c in range(values.shape[1]):
                out[i, c] += share * values[j, c]


@njit
def write_rounded(values: Float64Array, scale: float, table: Int32Array, first: int) -> int:
    """Whole numbers nearest to scale * values into columns of a table from `first` on; how many are not zero.

    Parameters
    ----------
    values : (n, columns) float64.
    table : (n, ...) int32, of which columns are written.
    """
    used = 0
    for i in range(values.shape[0]):
        for c in range(values.shape[1]):
            count = np.int32(np.rint(scale * values[i, c]))
            table[i, first + c] = count
            used += count != 0
    return used
