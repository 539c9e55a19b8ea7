"""Sites of an image that is too large for memory, kept block by block in a few bits a pixel.

Each block has its own numbers 1, 2, ..., compressed, and a short table of the sites of the whole image that they are
parts of.
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.array_types import Int32Array, Int64Array
from napari_gsw.core.image.block_grid import Grid, Index, Slices
from napari_gsw.core.image.lazy import LazyArray, import_dask_array


@dataclass(frozen=True)
class CompressedArray:
    """A small array of whole numbers >= 0, compressed."""

    data: bytes
    shape: tuple[int, ...]
    dtype: str

    @classmethod
    def of(cls, array: NDArray[np.integer]) -> CompressedArray:
        """Compress an array, in 16 bits a number if that is enough and 32 otherwise."""
        is_wide = array.size > 0 and array.max() > np.iinfo(np.uint16).max
        narrow = np.ascontiguousarray(array, dtype=np.uint32 if is_wide else np.uint16)
        return cls(zlib.compress(narrow.data, 1), array.shape, narrow.dtype.str)

    def array(self) -> NDArray[np.unsignedinteger[Any]]:
        """Decompress; ValueError for damaged data, of which no more is decompressed than fits the shape."""
        size = math.prod(self.shape) * np.dtype(self.dtype).itemsize
        try:
            numbers = zlib.decompressobj().decompress(self.data, size + 1)  # 0 would mean no limit
        except zlib.error as reason:
            raise ValueError(f"a packed array is damaged: {reason}") from None
        return np.frombuffer(numbers, self.dtype).reshape(self.shape)


@dataclass(frozen=True, eq=False)
class BlockedLabels:
    """Sites 1..n of an image, 0 where there is none; read by slices, as in ``sites[2000:3000, ::4]``."""

    grid: Grid
    pieces: Sequence[CompressedArray]  # numbers of each block, in scan order
    numbers: Sequence[Int32Array]  # site of each number of each block; entry 0 is 0

    dtype = np.dtype(np.int32)

    @classmethod
    def of(cls, sites: Int32Array) -> BlockedLabels:
        """Keep sites that are in memory as one block."""
        cuts = tuple((0, length) for length in sites.shape)
        return cls(Grid(cuts), [CompressedArray.of(sites)], [np.arange(int(sites.max()) + 1, dtype=np.int32)])

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the image."""
        return self.grid.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of pixels."""
        return int(np.prod(self.shape))

    def block(self, index: Index) -> Int32Array:
        """Return the sites of one block."""
        number = self.grid.place(index)
        sites: Int32Array = self.numbers[number][self.pieces[number].array()]
        return sites

    def __getitem__(self, key: Any) -> Any:
        """Read a part, by whole numbers and by slices with positive steps."""
        entries = list(key) if isinstance(key, tuple) else [key]
        at = entries.index(Ellipsis) if Ellipsis in entries else len(entries)
        entries[at : at + 1] = [slice(None)] * (self.ndim - len(entries) + (at < len(entries)))
        if len(entries) > self.ndim:
            raise IndexError(f"too many indices for an image of shape {self.shape}")
        wanted = [np.atleast_1d(np.arange(n)[entry]) for entry, n in zip(entries, self.shape, strict=True)]
        if any((np.diff(pixels) < 1).any() for pixels in wanted):
            raise IndexError("the step of a slice must be positive")
        result = np.zeros([len(pixels) for pixels in wanted], np.int32)
        ends = [np.searchsorted(pixels, cuts) for pixels, cuts in zip(wanted, self.grid.cuts, strict=True)]
        for index in itertools.product(*(np.flatnonzero(np.diff(end)).tolist() for end in ends)):
            target = tuple(slice(end[i], end[i + 1]) for end, i in zip(ends, index, strict=True))
            pixels = (p[t] - s.start for p, t, s in zip(wanted, target, self.grid.slices(index), strict=True))
            number = self.grid.place(index)
            result[target] = self.numbers[number][self.pieces[number].array()[np.ix_(*pixels)]]
        return result[tuple(slice(None) if isinstance(entry, slice) else 0 for entry in entries)]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self[...], dtype=dtype)

    def coarser(self, step: int) -> BlockedLabels:
        """Keep every `step`-th pixel along each axis."""
        pieces, numbers = [], []
        for index in self.grid:
            block = self.grid.place(index)
            kept = self.pieces[block].array()[
                tuple(slice(-s.start % step, None, step) for s in self.grid.slices(index))
            ]
            if kept.size:
                pieces.append(CompressedArray.of(kept))
                numbers.append(self.numbers[block])
        return BlockedLabels(self.grid.every(step), pieces, numbers)


# Sites in memory, or too large for it.
SiteImage = NDArray[np.int32] | BlockedLabels


def iter_tiles(sites: SiteImage) -> Iterator[tuple[Slices, Int32Array]]:
    """Iterate over the blocks of sites with their slices: one block for sites in memory."""
    if isinstance(sites, BlockedLabels):
        return ((sites.grid.slices(index), sites.block(index)) for index in sites.grid)
    return iter([(tuple(slice(0, n) for n in sites.shape), sites)])


def count_site_values(
    sites: SiteImage, n: int, read_values: Callable[[Slices], NDArray[np.integer]]
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Count how often each value > 0 lies on each of n sites: (pairs,) site from 0, value, and count.

    `read_values` reads the whole numbers >= 0 of a part of the image.
    """
    pairs, counts = [], []
    for slices, block in iter_tiles(sites):
        value = read_values(slices)
        both = (block > 0) & (value > 0)
        key, count = np.unique(
            (block[both].astype(np.int64) - 1) + n * value[both].astype(np.int64), return_counts=True
        )
        pairs.append(key)
        counts.append(count)
    pair, index = np.unique(np.concatenate(pairs), return_inverse=True)
    return pair % n, pair // n, np.bincount(index, np.concatenate(counts), len(pair)).astype(np.int64)


def map_site_values(sites: BlockedLabels, values: NDArray[Any]) -> LazyArray:
    """Make a lazy image of ``values[site]``; entry 0 is for pixels without a site."""
    meta = np.empty((0,) * sites.ndim, values.dtype)
    return to_lazy(sites).map_blocks(lambda block: values[block], dtype=values.dtype, meta=meta)


def map_blocks_with_border(
    sites: BlockedLabels, function: Callable[[NDArray[np.int32]], NDArray[Any]], dtype: Any
) -> LazyArray:
    """Make a lazy image from a function of blocks of sites, each with one more pixel on every side that has any."""
    return import_dask_array().map_overlap(
        function, to_lazy(sites), depth=1, boundary="none", dtype=dtype, meta=np.empty((0,) * sites.ndim, dtype)
    )


def to_lazy(image: NDArray[Any] | BlockedLabels) -> LazyArray:
    """Make a lazy image of labels in memory, as one chunk, or in blocks."""
    chunks = image.grid.chunks if isinstance(image, BlockedLabels) else image.shape
    # The name is random, since dask would hash all pixels for one.
    meta = np.empty((0,) * image.ndim, image.dtype)
    return import_dask_array().from_array(image, chunks=chunks, name=f"napari-gsw-{uuid4().hex}", meta=meta)
