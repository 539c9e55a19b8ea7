"""Compiled loops over partitions: union-find, canonical labels, and the recursion over the number of clusters."""

from __future__ import annotations

import math

import numpy as np

from napari_gsw.core.array_types import Float64Array, Int32Array
from napari_gsw.core.jit import full, njit, njit_inner


@njit_inner
def find_root(parent: Int32Array, i: int) -> int:
    """Find the root of i in a union-find forest (n,) int32, and halve the path to it."""
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@njit
def renumber_in_place(labels: Int32Array, result: Int32Array) -> None:
    """Renumber labels 0, 1, ... in the order of their first site, so that equal partitions are equal arrays.

    Parameters
    ----------
    labels, result : (n,) int32 >= 0; result is written, and may be labels itself.
    """
    most = 0
    for i in range(labels.size):
        most = max(most, labels[i])
    number = full(most + 1, -1, np.int32)
    count = 0
    for i in range(labels.size):
        if number[labels[i]] < 0:
            number[labels[i]] = count
            count += 1
        result[i] = number[labels[i]]


@njit
def canonical_labels(labels: Int32Array) -> Int32Array:
    """Return a partition (n,) int32 renumbered by :func:`renumber_in_place`."""
    result = np.empty(labels.size, np.int32)
    renumber_in_place(labels, result)
    return result


@njit
def log_convolution(weight: Float64Array, row: Float64Array) -> Float64Array:
    """Compute out[j] = log sum_m exp(weight[m] + row[j - m]) - log j, for m = 1..j.

    Parameters
    ----------
    weight, row : (n + 1,) float64, minus infinity for what cannot be.
    """
    out = full(row.size, -math.inf, np.float64)
    for j in range(1, row.size):
        top = -math.inf
        for m in range(1, j + 1):
            top = max(top, weight[m] + row[j - m])
        if top > -math.inf:
            total = 0.0
            for m in range(1, j + 1):
                total += math.exp(weight[m] + row[j - m] - top)
            out[j] = top + math.log(total) - math.log(j)
    return out
