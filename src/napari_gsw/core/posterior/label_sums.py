"""Sums over the pixels of each label, tile by tile: size, place, extent, values, and which labels touch.

All that a table of labels can tell of an image that does not fit into memory is made of these.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.arrays import Floats, LabelImage, Longs
from napari_gsw.core.image import lazy
from napari_gsw.core.image.block_grid import Grid, Slices, crop

# A look-up table of labels has at most so many entries more than the image has pixels.
SPARSE = 1 << 20
# Reads (\*tile, channels) of the image at a place.
Reader = Callable[[Slices], NDArray[Any]]


class LabelSums(NamedTuple):
    """What is summed up of k labels in d axes.

    Attributes
    ----------
    numbers : (k,) uint64 the labels other than 0, ascending.
    pixels : (k,) how many pixels each has.
    first, second : (k, d) sums of coordinates, and (k, d (d + 1) / 2) of their products, in pixels.
    low, high : (k, d) int64 the box that holds it: first pixel, and one after the last.
    values, squares : (k, channels) sums of values less a shift, and of their squares.
    pairs : (p, 2) uint64 labels that touch, the smaller first.
    """

    numbers: NDArray[np.uint64]
    pixels: Longs
    first: Floats
    second: Floats
    low: Longs
    high: Longs
    values: Floats
    squares: Floats
    pairs: NDArray[np.uint64]


def label_sums(labels: Any, values: Reader | None, shift: Floats) -> LabelSums:
    """The sums of a label image, in memory or lazy.

    Parameters
    ----------
    labels : (\\*shape,) whole numbers >= 0; 0 is no label.
    values : reads the image, or None for no channels.
    shift : (channels,) about the mean of each channel, so that squares lose no digits.
    """
    grid = tiles_of_labels(labels)
    jobs = [(labels, values, shift, grid.around(i, 1), grid.inside(i)) for i in grid]
    if len(jobs) == 1:
        return _tile_sums(*jobs[0])
    return _joined(lazy.mapped(_tile_sums, jobs, lambda done: None))


def tiles_of_labels(labels: Any) -> Grid:
    """The chunks of a lazy label image; one tile of one in memory."""
    if not lazy.is_lazy(labels):
        return Grid(tuple((0, n) for n in labels.shape))
    lengths = lazy.chunk_lengths(labels)
    starts = (range(0, n, step) for n, step in zip(labels.shape, lengths, strict=True))
    return Grid(tuple((*row, n) for row, n in zip(starts, labels.shape, strict=True)))


def numbered_rows(labels: LabelImage) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """(k,) the labels other than 0, ascending, and (\\*shape,) the row of each pixel from 1, 0 where there is none."""
    most = int(labels.max(initial=0))
    if most > labels.size + SPARSE:
        index, rows = np.unique(np.concatenate(([0], labels.ravel().astype(np.uint64))), return_inverse=True)
        return index[1:], rows[1:].reshape(labels.shape).astype(np.int32)
    there = np.zeros(most + 1, bool)
    there[labels.ravel()] = True
    there[0] = False
    table = np.where(there, np.cumsum(there), 0).astype(np.int32)
    return np.flatnonzero(there).astype(np.uint64), table[labels]


def _tile_sums(labels: Any, values: Reader | None, shift: Floats, around: Slices, inside: Slices) -> LabelSums:
    """The sums of one tile; `around` has one more pixel on its sides, for the pairs across its border."""
    from scipy import ndimage

    wide = lazy.read(labels, around)
    tile = wide[crop(around, inside)]
    index, rows = numbered_rows(tile)
    k, d = len(index), tile.ndim
    boxes = ndimage.find_objects(rows, k)
    start = np.array([part.start for part in inside])
    low = np.array([[part.start for part in box] for box in boxes], np.int64).reshape(k, d) + start
    high = np.array([[part.stop for part in box] for box in boxes], np.int64).reshape(k, d) + start
    here = rows > 0
    row = rows[here] - 1
    places = [
        np.broadcast_to(
            np.arange(part.start, part.stop, dtype=np.float64).reshape([-1 if a == b else 1 for b in range(d)]),
            tile.shape,
        )[here]
        for a, part in enumerate(inside)
    ]
    products = [places[a] * places[b] for a, b in combinations_with_replacement(range(d), 2)]
    channels = [] if values is None else list((values(inside)[here].astype(np.float64) - shift).T)
    return LabelSums(
        index,
        np.bincount(row, minlength=k),
        _summed(row, places, k),
        _summed(row, products, k),
        low,
        high,
        _summed(row, channels, k),
        _summed(row, [channel**2 for channel in channels], k),
        _touching(wide, crop(around, inside)),
    )


def _summed(row: NDArray[np.integer], columns: list[Floats], k: int) -> Floats:
    """(k, columns) sums of each column (pixels,) by row."""
    return np.stack([np.bincount(row, column, k) for column in columns], axis=1) if columns else np.zeros((k, 0))


def _touching(wide: LabelImage, inner: Slices) -> NDArray[np.uint64]:
    """(p, 2) labels on the two sides of a face, the smaller first, of the faces in and around `inner`."""
    keys = []
    for axis in range(wide.ndim):
        part = wide[tuple(slice(None) if a == axis else s for a, s in enumerate(inner))]
        a, b = np.moveaxis(part, axis, 0)[:-1], np.moveaxis(part, axis, 0)[1:]
        border = (a != b) & (a > 0) & (b > 0)
        here, there = a[border].astype(np.uint64), b[border].astype(np.uint64)
        keys.append((np.minimum(here, there) << np.uint64(32)) | np.maximum(here, there))
    key = np.unique(np.concatenate(keys))
    return np.stack((key >> np.uint64(32), key & np.uint64(0xFFFFFFFF)), axis=1)


def _joined(tiles: list[LabelSums]) -> LabelSums:
    """The sums of all tiles together."""
    index, row = np.unique(np.concatenate([tile.numbers for tile in tiles]), return_inverse=True)
    k = len(index)

    def added(name: str) -> Floats:
        return _summed(row, list(np.concatenate([getattr(tile, name) for tile in tiles]).T.astype(np.float64)), k)

    d = tiles[0].low.shape[1]
    low, high = np.full((k, d), np.iinfo(np.int64).max), np.zeros((k, d), np.int64)
    np.minimum.at(low, row, np.concatenate([tile.low for tile in tiles]))
    np.maximum.at(high, row, np.concatenate([tile.high for tile in tiles]))
    pixels = np.bincount(row, np.concatenate([tile.pixels for tile in tiles]), k).astype(np.int64)
    sums = {name: added(name) for name in ("first", "second", "values", "squares")}
    pairs = np.unique(np.concatenate([tile.pairs for tile in tiles]), axis=0)
    return LabelSums(index, pixels, low=low, high=high, pairs=pairs, **sums)
