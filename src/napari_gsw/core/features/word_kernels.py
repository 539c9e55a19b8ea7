"""Compiled loops from pixels to words and from words to histograms."""

from __future__ import annotations

import numpy as np

from napari_gsw.core.array_types import Float32Array, Int32Array, Int64Array
from napari_gsw.core.jit import full, njit, njit_merged, zeros

# Up to so many channels the nearest word is looked up in a grid: of at most so many cells, one for so many pixels.
FEW = 3
CELLS = 4096
PIXELS_A_CELL = 16
# A cell is taken for wider than it is by this share, more than rounding can put a pixel beyond its border.
SLACK = np.float32(1e-3)
# Pixels of more channels that are looked at together: enough to fill the vector unit, few enough for its cache.
BLOCK = 128


@njit
def nearest(values: Float32Array, centres: Float32Array) -> Int32Array:
    """(pixels,) int32 index of the nearest centre of each pixel; the first one wins a tie.

    Parameters
    ----------
    values : (pixels, channels) float32.
    centres : (words, channels) float32.
    """
    result = np.empty(values.shape[0], np.int32)
    if values.shape[0] == 0:
        return result
    if values.shape[1] <= FEW:
        _nearest_by_cell(values, centres, result)
    else:
        _nearest_by_block(values, centres, result)
    return result


@njit_merged
def _nearest_by_cell(values: Float32Array, centres: Float32Array, result: Int32Array) -> None:
    """Few channels: a grid over the values, and for each of its cells the centres that can be nearest in it.

    The list of a cell is made when the first pixel falls into it: of 120 colours about four remain. Arguments as of
    :func:`nearest`; result (pixels,) int32, written.
    """
    pixels, channels = values.shape
    words = centres.shape[0]
    grid = max(1, int(min(CELLS, pixels // PIXELS_A_CELL) ** (1 / channels) + 1e-9))
    axes = zeros((3, FEW), np.float32)  # for each channel the lowest value, a cell's side, cells a unit
    planes = zeros((FEW, words), np.float32)
    for c in range(channels):
        low, high = values[0, c], values[0, c]
        for p in range(pixels):
            low = min(low, values[p, c])
            high = max(high, values[p, c])
        axes[0, c], axes[1, c] = low, (high - low) / np.float32(grid)
        axes[2, c] = np.float32(1) / axes[1, c] if axes[1, c] > 0 else np.float32(0)
        for k in range(words):
            planes[c, k] = centres[k, c]
    start, end = full(grid**channels, -1, np.int32), np.empty(grid**channels, np.int32)
    pool, used = np.empty(64 * words, np.int32), 0
    bounds = np.empty((2, words), np.float32)
    two, three = channels > 1, channels > 2
    for p in range(pixels):
        x = values[p, 0]
        y = values[p, 1] if two else np.float32(0)
        z = values[p, 2] if three else np.float32(0)
        cell = min(int((x - axes[0, 0]) * axes[2, 0]), grid - 1)
        if two:
            cell = cell * grid + min(int((y - axes[0, 1]) * axes[2, 1]), grid - 1)
        if three:
            cell = cell * grid + min(int((z - axes[0, 2]) * axes[2, 2]), grid - 1)
        if start[cell] < 0:
            if used + words > pool.size:
                pool = _longer(pool)
            start[cell] = used
            used = _candidates(planes, channels, axes, cell, grid, bounds, pool, used)
            end[cell] = used
        best, index = np.float32(np.inf), 0
        for t in range(start[cell], end[cell]):
            k = pool[t]
            a, b, c = x - planes[0, k], y - planes[1, k], z - planes[2, k]
            distance = a * a + b * b + c * c
            if distance < best:
                best, index = distance, k
        result[p] = index


@njit_merged
def _longer(pool: Int32Array) -> Int32Array:
    """The same int32 entries with room for as many more."""
    longer = np.empty(2 * pool.size, np.int32)
    for t in range(pool.size):
        longer[t] = pool[t]
    return longer


@njit_merged
def _candidates(
    planes: Float32Array,
    channels: int,
    axes: Float32Array,
    cell: int,
    grid: int,
    bounds: Float32Array,
    pool: Int32Array,
    used: int,
) -> int:
    """Append to the pool the centres that can be nearest to a point of a cell; returns the pool's new length.

    Each centre has a least and a greatest distance to the cell. One whose least is more than another's greatest is
    nobody's nearest.

    Parameters
    ----------
    planes : (FEW, words) float32 the centres, channel by channel.
    axes : (3, FEW) float32 of each channel the lowest value, a cell's side, and cells a unit.
    cell, grid : number of the cell, and of cells along each axis.
    bounds : (2, words) float32, scratch.
    pool : (room,) int32, of which `used` entries are taken.
    """
    words = planes.shape[1]
    for k in range(words):
        bounds[0, k] = bounds[1, k] = np.float32(0)
    for c in range(channels - 1, -1, -1):
        place = np.float32(cell % grid)
        cell //= grid
        bottom = axes[0, c] + axes[1, c] * (place - SLACK)
        top = axes[0, c] + axes[1, c] * (place + np.float32(1) + SLACK)
        for k in range(words):
            below, above = bottom - planes[c, k], top - planes[c, k]
            gap = max(max(below, -above), np.float32(0))
            span = max(-below, above)
            bounds[0, k] += gap * gap
            bounds[1, k] += span * span
    reach = np.float32(np.inf)
    for k in range(words):
        reach = min(reach, bounds[1, k])
    reach *= np.float32(1) + SLACK
    for k in range(words):
        if bounds[0, k] <= reach:
            pool[used] = k
            used += 1
    return used


@njit_merged
def _nearest_by_block(values: Float32Array, centres: Float32Array, result: Int32Array) -> None:
    """Many channels: all distances, a block of pixels at a time and its channels three by three.

    Arguments as of :func:`nearest`; result (pixels,) int32, written.
    """
    pixels, channels = values.shape
    words = centres.shape[0]
    padded = -(-channels // 3) * 3
    middle = zeros((words, padded), np.float32)
    for k in range(words):
        for c in range(channels):
            middle[k, c] = centres[k, c]
    planes = zeros((padded, BLOCK), np.float32)
    distance, best = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)
    index = np.empty(BLOCK, np.int32)
    for first in range(0, pixels, BLOCK):
        count = min(BLOCK, pixels - first)
        for p in range(count):
            for c in range(channels):
                planes[c, p] = values[first + p, c]
        for p in range(BLOCK):
            best[p], index[p] = np.float32(np.inf), 0
        for k in range(words):
            x, y, z = middle[k, 0], middle[k, 1], middle[k, 2]
            for p in range(BLOCK):
                r, s, t = planes[0, p] - x, planes[1, p] - y, planes[2, p] - z
                distance[p] = r * r + s * s + t * t
            for c in range(3, padded - 3, 3):
                x, y, z = middle[k, c], middle[k, c + 1], middle[k, c + 2]
                for p in range(BLOCK):
                    r, s, t = planes[c, p] - x, planes[c + 1, p] - y, planes[c + 2, p] - z
                    distance[p] += r * r + s * s + t * t
            x, y, z = middle[k, padded - 3], middle[k, padded - 2], middle[k, padded - 1]
            word = np.int32(k)
            for p in range(BLOCK):
                r, s, t = planes[padded - 3, p] - x, planes[padded - 2, p] - y, planes[padded - 1, p] - z
                total = distance[p] + (r * r + s * s + t * t)
                least, winner = best[p], index[p]  # read whatever comes of it, or the vector unit stays out
                nearer = total < least
                best[p] = total if nearer else least
                index[p] = word if nearer else winner
        for p in range(count):
            result[first + p] = index[p]


@njit
def count_words(words: Int32Array, sites: Int32Array, table: Int32Array) -> int:
    """Add every pixel to a table of how often each site has each word; returns how many entries were 0 and are not.

    Parameters
    ----------
    words : (pixels,) int32 from 0.
    sites : (pixels,) int32 from 1, 0 for none.
    table : (sites, words) int32, changed.
    """
    used = 0
    for p in range(sites.size):
        i = sites[p] - 1
        if i >= 0:
            w = words[p]
            used += table[i, w] == 0
            table[i, w] += 1
    return used


@njit
def sparse_rows(table: Int32Array, used: int) -> tuple[Int64Array, Int32Array, Int32Array]:
    """The CSR form of a table (rows, columns) int32 with `used` entries that are not zero.

    Returns
    -------
    data, indices, start : (used,) int64, (used,) int32 and (rows + 1,) int32.
    """
    data, indices = np.empty(used, np.int64), np.empty(used, np.int32)
    start = zeros(table.shape[0] + 1, np.int32)
    at = 0
    for i in range(table.shape[0]):
        for w in range(table.shape[1]):
            if table[i, w] != 0:
                data[at], indices[at] = table[i, w], w
                at += 1
        start[i + 1] = at
    return data, indices, start
