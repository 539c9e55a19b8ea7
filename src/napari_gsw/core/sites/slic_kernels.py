"""SLIC, compiled: clusters of colour and place that stay near the cell of a grid in which they began.

Images are three-dimensional here, a plane one with a first axis of length 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.arrays import Floats, Ints, Longs, Pixels
from napari_gsw.core.jit import full, njit, njit_inner, zeros

# One number an axis, float32.
Scale = tuple[np.float32, np.float32, np.float32]
# Pixels of a row that are looked at together: enough to fill the vector unit, few enough for its cache.
BLOCK = 128
# Channels are compared three at a time, as many as the coordinates.
AT_ONCE = 3


class Rivals(NamedTuple):
    """The clusters that may win the pixels of a block of a row: the nearest 9 cells in a plane, 27 in a volume."""

    centre: Pixels  # (27, features, BLOCK) float32
    number: Ints  # (27, BLOCK) int32 from 1


@njit
def slic_clusters(
    channels: Pixels, inside: NDArray[np.bool_], grid: tuple[int, int, int], scale: Scale, rounds: int
) -> Ints:
    """(Z, Y, X) int32 number of the cluster of each pixel, from 1; 0 outside.

    The grid cuts the image into cells, and each cell begins as a cluster. In a round every pixel goes to the nearest
    cluster of those that began in its own cell or in one beside it (9 in a plane, 27 in a volume), then every cluster
    moves to the mean of its pixels. It ends when nothing changes, or after `rounds`.

    Parameters
    ----------
    channels : (Z, Y, X, C) float32.
    inside : (Z, Y, X) bool, or (0, 0, 0) for everywhere.
    grid : cells along each axis.
    scale : what a step of one pixel along each axis weighs, in units of the channels; float32.
    """
    depth, height, width, count = channels.shape
    everywhere = inside.size == 0
    features = AT_ONCE + -(-count // AT_ONCE) * AT_ONCE
    labels = zeros((depth, height, width), np.int32)
    column = np.empty(width, np.int32)
    for x in range(width):
        column[x] = x * grid[2] // width
    for z in range(depth):
        for y in range(height):
            row = (z * grid[0] // depth * grid[1] + y * grid[1] // height) * grid[2]
            for x in range(width):
                if everywhere or inside[z, y, x]:
                    labels[z, y, x] = row + column[x] + 1
    cells = grid[0] * grid[1] * grid[2]
    # A cluster without pixels is infinitely far from all.
    centres = full((cells, features), np.inf, np.float32)
    total, pixels = np.empty((cells, AT_ONCE + count), np.float64), np.empty(cells, np.int64)
    rivals = Rivals(zeros((27, features, BLOCK), np.float32), zeros((27, BLOCK), np.int32))
    for turn in range(rounds):
        _move(channels, labels, scale, centres, total, pixels)
        if turn == 0:
            _purify(channels, labels, grid, centres)
        if not _assign(channels, labels, grid, column, scale, centres, rivals):
            break
    return labels


@njit_inner
def _move(channels: Pixels, labels: Ints, scale: Scale, centres: Pixels, total: Floats, pixels: Longs) -> None:
    """Every cluster to the mean of its pixels.

    Parameters
    ----------
    channels, labels : (Z, Y, X, C) float32 and (Z, Y, X) int32.
    centres : (cells, features) float32, written; the first three are the coordinates times their `scale`.
    total, pixels : (cells, 3 + C) float64 and (cells,) int64, scratch.
    """
    depth, height, width, count = channels.shape
    total[:], pixels[:] = 0, 0
    for z in range(depth):
        for y in range(height):
            for x in range(width):
                i = labels[z, y, x] - 1
                if i < 0:
                    continue
                pixels[i] += 1
                total[i, 0] += z
                total[i, 1] += y
                total[i, 2] += x
                for c in range(count):
                    total[i, AT_ONCE + c] += channels[z, y, x, c]
    for i in range(pixels.size):
        if pixels[i] > 0:
            centres[i] = 0
            for f in range(total.shape[1]):
                mean = total[i, f] / pixels[i]
                centres[i, f] = mean * scale[f] if f < AT_ONCE else mean


@njit_inner
def _purify(channels: Pixels, labels: Ints, grid: tuple[int, int, int], centres: Pixels) -> None:
    """Give every cell of centres (cells, features) the colour of its middle pixel, where that is inside.

    The mean of a cell that an edge crosses is a colour that no pixel has, and nothing would ever be nearest to it.
    """
    depth, height, width, count = channels.shape
    for i in range(grid[0]):
        for j in range(grid[1]):
            for k in range(grid[2]):
                z, y, x = (
                    (2 * i + 1) * depth // (2 * grid[0]),
                    (2 * j + 1) * height // (2 * grid[1]),
                    (2 * k + 1) * width // (2 * grid[2]),
                )
                cell = (i * grid[1] + j) * grid[2] + k
                if labels[z, y, x] == cell + 1:
                    for c in range(count):
                        centres[cell, AT_ONCE + c] = channels[z, y, x, c]


@njit_inner
def _assign(
    channels: Pixels, labels: Ints, grid: tuple[int, int, int], column: Ints, scale: Scale, centres: Pixels,
    rivals: Rivals,
) -> int:  # fmt: skip
    """Every pixel to its nearest cluster; how many have changed. The first of the nearest wins.

    Parameters
    ----------
    channels : (Z, Y, X, C) float32.
    labels : (Z, Y, X) int32, changed.
    column : (X,) int32 cell of each pixel along a row.
    centres : (cells, features) float32.
    rivals : scratch.
    """
    table, number = rivals.centre, rivals.number
    depth, height, width, count = channels.shape
    features = centres.shape[1]
    planes = zeros((features, BLOCK), np.float32)
    distance, best = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)
    # Of a pixel outside the mask no rival may be near, and its index stays what it was: it must always be one.
    index = zeros(BLOCK, np.int32)
    changed = 0
    for block in range(grid[0] * grid[1]):
        i, j = block // grid[1], block % grid[1]
        for first in range(0, width, BLOCK):
            size = min(BLOCK, width - first)
            count_of_rivals = _expand(centres, grid, i, j, column, first, size, rivals)
            for x in range(size):
                planes[2, x] = scale[2] * np.float32(first + x)
            for z in range(-(-i * depth // grid[0]), -(-(i + 1) * depth // grid[0])):
                for y in range(-(-j * height // grid[1]), -(-(j + 1) * height // grid[1])):
                    here, there = scale[0] * np.float32(z), scale[1] * np.float32(y)
                    for x in range(size):
                        for c in range(count):
                            planes[AT_ONCE + c, x] = channels[z, y, first + x, c]
                    for x in range(BLOCK):
                        best[x] = np.float32(np.inf)
                    for k in range(count_of_rivals):
                        for x in range(BLOCK):
                            r, s, t = here - table[k, 0, x], there - table[k, 1, x], planes[2, x] - table[k, 2, x]
                            distance[x] = r * r + s * s + t * t
                        for f in range(AT_ONCE, features, AT_ONCE):
                            for x in range(BLOCK):
                                r = planes[f, x] - table[k, f, x]
                                s = planes[f + 1, x] - table[k, f + 1, x]
                                t = planes[f + 2, x] - table[k, f + 2, x]
                                distance[x] += r * r + s * s + t * t
                        rival = np.int32(k)
                        for x in range(BLOCK):
                            new, old = distance[x], best[x]
                            keep = index[x]
                            best[x] = new if new < old else old
                            index[x] = rival if new < old else keep
                    for x in range(size):
                        own = labels[z, y, first + x]
                        new_one = number[index[x], x]
                        if own > 0 and own != new_one:
                            labels[z, y, first + x] = new_one
                            changed += 1
    return changed


@njit_inner
def _expand(
    centres: Pixels, grid: tuple[int, int, int], i: int, j: int, column: Ints, first: int, size: int, rivals: Rivals,
) -> int:  # fmt: skip
    """Write the rivals for each pixel of a block, `size` pixels from `first` on, and return how many each has.

    They are the clusters of the cells around row i, j of cells, of those that there are.

    Along the row, a cell beyond the end is replaced by the last one, which then competes twice.
    """
    table, number = rivals.centre, rivals.number
    count = 0
    for a in range(max(i - 1, 0), min(i + 2, grid[0])):
        for b in range(max(j - 1, 0), min(j + 2, grid[1])):
            for side in range(-1, 2):
                x = 0
                while x < size:
                    cell, end = column[first + x], x + 1
                    while end < size and column[first + end] == cell:
                        end += 1
                    c = (a * grid[1] + b) * grid[2] + min(max(cell + side, 0), grid[2] - 1)
                    for t in range(x, end):
                        number[count, t] = c + 1
                    for f in range(centres.shape[1]):
                        value = centres[c, f]
                        for t in range(x, end):
                            table[count, f, t] = value
                    x = end
                count += 1
    return count
