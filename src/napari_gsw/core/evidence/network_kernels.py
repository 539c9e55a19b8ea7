"""Compiled loop over the faces between pixels: what a network says along the boundary of two sites."""

from __future__ import annotations

import numpy as np

from napari_gsw.core.arrays import Floats, Floats32, Ints, Longs
from napari_gsw.core.jit import jit


@jit
def sums_along(sites: Ints, values: Floats32, start: Longs, right: Ints) -> Floats:
    """(m,) float64 sum over the faces of each edge of the mean of the two pixels there.

    Parameters
    ----------
    sites : (height, width) int32 from 1, 0 for none.
    values : (height, width) float32.
    start, right : (n + 1,) int64 where the edges of each smaller site begin, and (m,) int32 their larger sites in
        ascending order; sites from 0. Two sites without an edge count for nothing.
    """
    height, width = sites.shape
    total = np.zeros(right.size)
    for y in range(height):
        for x in range(width):
            here = sites[y, x]
            if here == 0:
                continue
            for axis in range(2):
                v, u = y + (axis == 0), x + (axis == 1)
                if v == height or u == width or sites[v, u] == here or sites[v, u] == 0:
                    continue
                i, j = min(here, sites[v, u]) - 1, max(here, sites[v, u]) - 1
                low, high = start[i], start[i + 1]
                while low < high:
                    middle = (low + high) // 2
                    if right[middle] < j:
                        low = middle + 1
                    else:
                        high = middle
                if low < start[i + 1] and right[low] == j:
                    total[low] += (np.float64(values[y, x]) + np.float64(values[v, u])) / 2
    return total
