"""A label image of sites that is too large for memory, kept block by block in a few bits a pixel.

Each block has numbers of its own, 1, 2, ... in scan order, compressed; a short table says which site of the whole image
each of them is a piece of. Sites are runs of equal numbers, so that a pixel takes a fifth of a byte or so. Pictures of
values that sites have are as lazy as the image.
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
    """A small array of numbers >= 0, compressed.

    >>> PackedArray.of(np.arange(6).reshape(2, 3)).array()
    array([[0, 1, 2],
           [3, 4, 5]], dtype=uint16)
    """

    data: bytes
    shape: tuple[int, ...]
    dtype: str

    @classmethod
    def of(cls, array: NDArray[np.integer]) -> CompressedArray:
        """Compress an array of any shape, in 16 bits a number if that is enough and 32 otherwise."""
        wide = array.size > 0 and array.max() > np.iinfo(np.uint16).max
        narrow = np.ascontiguousarray(array, dtype=np.uint32 if wide else np.uint16)
        return cls(zlib.compress(narrow.data, 1), array.shape, narrow.dtype.str)

    def array(self) -> NDArray[np.unsignedinteger[Any]]:
        """The numbers, uint16 or uint32; ValueError if others were packed, of which no more is unpacked."""
        size = math.prod(self.shape) * np.dtype(self.dtype).itemsize
        unpacker = zlib.decompressobj()
        try:
            numbers = unpacker.decompress(self.data, size + 1)  # 0 would be any number
        except zlib.error as reason:
            raise ValueError(f"a packed array is damaged: {reason}") from None
        return np.frombuffer(numbers, self.dtype).reshape(self.shape)


@dataclass(frozen=True, eq=False)
class BlockedLabels:
    """Sites 1..n of an image, 0 where there is none; read like an array, ``mosaic[2000:3000, ::4]``.

    Attributes
    ----------
    grid : the blocks.
    pieces : of each block in scan order, its own numbers.
    numbers : of each block, (pieces + 1,) the site of each of its numbers; entry 0 is 0.
    """

    grid: Grid
    pieces: Sequence[CompressedArray]
    numbers: Sequence[Int32Array]

    dtype = np.dtype(np.int32)

    @classmethod
    def of(cls, sites: Int32Array) -> BlockedLabels:
        """Sites that are in memory, as one block."""
        cuts = tuple((0, length) for length in sites.shape)
        return cls(Grid(cuts), [CompressedArray.of(sites)], [np.arange(int(sites.max()) + 1, dtype=np.int32)])

    @property
    def shape(self) -> tuple[int, ...]:
        return self.grid.shape

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    @property
    def nbytes(self) -> int:
        """Bytes that it takes in memory."""
        return sum(len(p.data) for p in self.pieces) + sum(n.nbytes for n in self.numbers)

    def block(self, index: Index) -> Int32Array:
        """The sites of one block."""
        place = self.grid.place(index)
        sites: Int32Array = self.numbers[place][self.pieces[place].array()]
        return sites

    def blocks(self) -> Iterator[tuple[Slices, Int32Array]]:
        """Where each block is, and its sites."""
        return ((self.grid.inside(index), self.block(index)) for index in self.grid)

    def __getitem__(self, key: Any) -> Any:
        parts, single = _slices(key, self.shape)
        result = np.zeros([len(range(p.start, p.stop, p.step)) for p in parts], np.int32)
        if result.size:
            for index in itertools.product(*(self.grid.meeting(a, p) for a, p in enumerate(parts))):
                there, here = zip(*map(_overlap, parts, self.grid.inside(index)), strict=True)
                result[there] = self.block(index)[here]
        return result[tuple(0 if one else slice(None) for one in single)]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self[...], dtype=dtype)

    def coarser(self, step: int) -> BlockedLabels:
        """Every `step`-th pixel along each axis."""
        grid = self.grid.every(step)
        pieces, numbers = [], []
        for index in self.grid:
            place = self.grid.place(index)
            starts = [s.start for s in self.grid.inside(index)]
            kept = self.pieces[place].array()[tuple(slice(-s % step, None, step) for s in starts)]
            if kept.size:
                pieces.append(CompressedArray.of(kept))
                numbers.append(self.numbers[place])
        return BlockedLabels(grid, pieces, numbers)


# Sites in memory, or too large for it.
SiteImage = NDArray[np.int32] | BlockedLabels


def iter_tiles(sites: SiteImage) -> Iterator[tuple[Slices, Int32Array]]:
    """The sites of an image part by part, and where each is: all at once where they are in memory anyway."""
    if isinstance(sites, BlockedLabels):
        return sites.blocks()
    return iter([(tuple(slice(0, n) for n in sites.shape), sites)])


def count_site_values(
    sites: SiteImage, n: int, values: Callable[[Slices], NDArray[np.integer]]
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """How often each value lies on each site.

    Parameters
    ----------
    values : gives the whole numbers >= 0 of a part of the image; 0 counts for nothing.

    Returns
    -------
    site, value, count : (pairs,) of every pair of a site (from 0) and a value that occurs.
    """
    pairs, times = [], []
    for where, here in iter_tiles(sites):
        value = values(where)
        both = (here > 0) & (value > 0)
        key, count = np.unique((here[both].astype(np.int64) - 1) + n * value[both].astype(np.int64), return_counts=True)
        pairs.append(key)
        times.append(count)
    pair, index = np.unique(np.concatenate(pairs), return_inverse=True)
    return pair % n, pair // n, np.bincount(index, np.concatenate(times), len(pair)).astype(np.int64)


def map_site_values(sites: BlockedLabels, values: NDArray[Any]) -> LazyArray:
    """Lazy image of ``values[site]``, in blocks; entry 0 is for pixels without a site."""
    return to_lazy_sites(sites).map_blocks(
        lambda block: values[block], dtype=values.dtype, meta=np.empty((0,) * sites.ndim, values.dtype)
    )


def map_blocks_with_border(
    sites: BlockedLabels, work: Callable[[NDArray[np.int32]], NDArray[Any]], dtype: Any
) -> LazyArray:
    """Lazy image of what `work` makes of blocks of sites, each read with one more pixel on every side that has any."""
    return import_dask_array().map_overlap(
        work, to_lazy_sites(sites), depth=1, boundary="none", dtype=dtype, meta=np.empty((0,) * sites.ndim, dtype)
    )


def to_lazy(image: NDArray[Any], chunks: Any) -> LazyArray:
    """An image in memory as a lazy one."""
    return import_dask_array().from_array(image, chunks=chunks, name=f"napari-gsw-{uuid4().hex}")


def to_lazy_sites(sites: BlockedLabels) -> LazyArray:
    """A mosaic as a lazy array, a chunk a block."""
    # A name of its own: hashing would read everything.
    name = f"napari-gsw-{uuid4().hex}"
    return import_dask_array().from_array(
        sites, chunks=sites.grid.chunks, name=name, meta=np.empty((0,) * sites.ndim, np.int32)
    )


def _slices(key: Any, shape: tuple[int, ...]) -> tuple[list[slice], list[bool]]:
    """An index of whole numbers and slices with positive steps -> slices alone, and which axes were single."""
    entries = list(key) if isinstance(key, tuple) else [key]
    if Ellipsis in entries:
        at = entries.index(Ellipsis)
        entries[at : at + 1] = [slice(None)] * (len(shape) - len(entries) + 1)
    if len(entries) > len(shape):
        raise IndexError(f"too many indices for an image of shape {shape}")
    entries += [slice(None)] * (len(shape) - len(entries))
    parts, single = [], []
    for part, length in zip(entries, shape, strict=True):
        single.append(not isinstance(part, slice))
        if isinstance(part, slice):
            start, stop, step = part.indices(length)
            if step < 1:
                raise IndexError("the step of a slice must be positive")
            parts.append(slice(start, max(start, stop), step))
        else:
            place = range(length)[int(part)]
            parts.append(slice(place, place + 1, 1))
    return parts, single


def _overlap(part: slice, block: slice) -> tuple[slice, slice]:
    """Where the pixels of a slice that lie in a block are in the slice's result, and where in the block."""
    first = max(0, -(-(block.start - part.start) // part.step))
    start = part.start + first * part.step
    stop = min(part.stop, block.stop)
    count = len(range(start, stop, part.step))
    return slice(first, first + count), slice(start - block.start, max(start, stop) - block.start, part.step)
