"""Compiled loop over the faces between pixels: what a map of boundaries says along the boundary of two sites."""

from __future__ import annotations

import numpy as np

from napari_gsw.core.arrays import Floats, Floats32, Ints, Longs
from napari_gsw.core.jit import jit


@jit
def marked_sums(sites: Ints, values: Floats32, start: Longs, right: Ints, area: tuple[float, float, float]) -> Floats:
    """(m,) float64 sum over the faces of each edge of the larger value of the two pixels there, times the face's area.

    Parameters
    ----------
    sites : (Z, Y, X) int32 from 1, 0 for none.
    values : (Z, Y, X) float32.
    start, right : (n + 1,) int64 where the edges of each smaller site begin, and (m,) int32 their larger sites in
        ascending order; sites from 0. Two sites without an edge count for nothing.
    area : of a face across each axis.
    """
    depth, height, width = sites.shape
    total = np.zeros(right.size)
    for z in range(depth):
        for y in range(height):
            for x in range(width):
                here = sites[z, y, x]
                if here == 0:
                    continue
                for axis in range(3):
                    w, v, u = z + (axis == 0), y + (axis == 1), x + (axis == 2)
                    if w == depth or v == height or u == width:
                        continue
                    there = sites[w, v, u]
                    if there == here or there == 0:
                        continue
                    i, j = min(here, there) - 1, max(here, there) - 1
                    low, high = start[i], start[i + 1]
                    while low < high:
                        middle = (low + high) // 2
                        if right[middle] < j:
                            low = middle + 1
                        else:
                            high = middle
                    if low < start[i + 1] and right[low] == j:
                        total[low] += area[axis] * np.float64(max(values[z, y, x], values[w, v, u]))
    return total
