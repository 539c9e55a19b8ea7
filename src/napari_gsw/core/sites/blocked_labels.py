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
    """A small array of whole numbers >= 0, compressed.

    >>> CompressedArray.of(np.arange(6).reshape(2, 3)).array()
    array([[0, 1, 2],
           [3, 4, 5]], dtype=uint16)
    """

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

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return sum(len(p.data) for p in self.pieces) + sum(n.nbytes for n in self.numbers)

    def block(self, index: Index) -> Int32Array:
        """Return the sites of one block."""
        number = self.grid.place(index)
        sites: Int32Array = self.numbers[number][self.pieces[number].array()]
        return sites

    def __getitem__(self, key: Any) -> Any:
        """Read a part, by whole numbers and by slices with positive steps."""
        entries = list(key) if isinstance(key, tuple) else [key]
        if Ellipsis in entries:
            at = entries.index(Ellipsis)
            entries[at : at + 1] = [slice(None)] * (self.ndim - len(entries) + 1)
        if len(entries) > self.ndim:
            raise IndexError(f"too many indices for an image of shape {self.shape}")
        entries += [slice(None)] * (self.ndim - len(entries))
        wanted = []
        for entry, n in zip(entries, self.shape, strict=True):
            if isinstance(entry, slice):
                wanted.append(range(n)[entry])
            else:
                pixel = range(n)[int(entry)]
                wanted.append(range(pixel, pixel + 1))
        if any(pixels.step < 1 for pixels in wanted):
            raise IndexError("the step of a slice must be positive")
        result = np.zeros([len(pixels) for pixels in wanted], np.int32)
        if result.size:
            blocks = (self.grid.meeting(axis, slice(p.start, p.stop)) for axis, p in enumerate(wanted))
            for index in itertools.product(*blocks):
                target, source = zip(*map(_overlap, wanted, self.grid.inside(index)), strict=True)
                result[target] = self.block(index)[source]
        return result[tuple(slice(None) if isinstance(e, slice) else 0 for e in entries)]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self[...], dtype=dtype)

    def coarser(self, step: int) -> BlockedLabels:
        """Keep every `step`-th pixel along each axis."""
        pieces, numbers = [], []
        for index in self.grid:
            block = self.grid.place(index)
            kept = self.pieces[block].array()[
                tuple(slice(-s.start % step, None, step) for s in self.grid.inside(index))
            ]
            if kept.size:
                pieces.append(CompressedArray.of(kept))
                numbers.append(self.numbers[block])
        return BlockedLabels(self.grid.every(step), pieces, numbers)


# Sites in memory, or too large for it.
SiteImage = NDArray[np.int32] | BlockedLabels


def _overlap(wanted: range, block: slice) -> tuple[slice, slice]:
    """Find the wanted pixels that lie in a block: their slice in the result, and their slice in the block."""
    first = max(0, -(-(block.start - wanted.start) // wanted.step))
    pixels = wanted[first : max(first, -(-(block.stop - wanted.start) // wanted.step))]
    return slice(first, first + len(pixels)), slice(pixels.start - block.start, pixels.stop - block.start, wanted.step)


def iter_tiles(sites: SiteImage) -> Iterator[tuple[Slices, Int32Array]]:
    """Iterate over the blocks of sites with their slices: one block for sites in memory."""
    if isinstance(sites, BlockedLabels):
        return ((sites.grid.inside(index), sites.block(index)) for index in sites.grid)
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
    return to_lazy_sites(sites).map_blocks(
        lambda block: values[block], dtype=values.dtype, meta=np.empty((0,) * sites.ndim, values.dtype)
    )


def map_blocks_with_border(
    sites: BlockedLabels, function: Callable[[NDArray[np.int32]], NDArray[Any]], dtype: Any
) -> LazyArray:
    """Make a lazy image from a function of blocks of sites, each with one more pixel on every side that has any."""
    return import_dask_array().map_overlap(
        function, to_lazy_sites(sites), depth=1, boundary="none", dtype=dtype, meta=np.empty((0,) * sites.ndim, dtype)
    )


def to_lazy(image: NDArray[Any] | BlockedLabels, chunks: Any) -> LazyArray:
    """Make a lazy image of labels in memory or in blocks."""
    # The name is random, since dask would hash all pixels for one.
    meta = np.empty((0,) * image.ndim, image.dtype)
    return import_dask_array().from_array(image, chunks=chunks, name=f"napari-gsw-{uuid4().hex}", meta=meta)


def to_lazy_sites(sites: BlockedLabels) -> LazyArray:
    """Make a lazy image of sites, with a chunk for each block."""
    return to_lazy(sites, sites.grid.chunks)
