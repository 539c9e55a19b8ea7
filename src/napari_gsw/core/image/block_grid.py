"""Division of a large image into blocks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

Index = tuple[int, ...]
Slices = tuple[slice, ...]


@dataclass(frozen=True)
class Grid:
    """Blocks that tile an image; `cuts` are where blocks begin along each axis, and the length of the axis.

    >>> grid = Grid(((0, 40, 80, 100), (0, 50)))
    >>> grid.shape, grid.counts, grid.chunks
    ((100, 50), (3, 1), ((40, 40, 20), (50,)))
    >>> grid.slices((1, 0), halo=5)
    (slice(35, 85, None), slice(0, 50, None))
    """

    cuts: tuple[tuple[int, ...], ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the image."""
        return tuple(c[-1] for c in self.cuts)

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of blocks along each axis."""
        return tuple(len(c) - 1 for c in self.cuts)

    @property
    def chunks(self) -> tuple[tuple[int, ...], ...]:
        """Lengths of the blocks along each axis, as dask has them."""
        return tuple(tuple(b - a for a, b in itertools.pairwise(c)) for c in self.cuts)

    def __len__(self) -> int:
        return int(np.prod(self.counts))

    def __iter__(self) -> Iterator[Index]:
        """Iterate over the blocks in scan order."""
        return itertools.product(*(range(count) for count in self.counts))

    def place(self, index: Index) -> int:
        """Return the number of a block in scan order."""
        return int(np.ravel_multi_index(index, self.counts))

    def slices(self, index: Index, halo: int = 0) -> Slices:
        """Return the pixels of a block and up to `halo` more on every side that has any."""
        ends = ((c[i] - halo, c[i + 1] + halo, c[-1]) for c, i in zip(self.cuts, index, strict=True))
        return tuple(slice(max(0, start), min(length, stop)) for start, stop, length in ends)

    def after(self, index: Index, axis: int) -> Index | None:
        """Return the next block along an axis, or None at the end."""
        if index[axis] + 1 == self.counts[axis]:
            return None
        return (*index[:axis], index[axis] + 1, *index[axis + 1 :])

    def every(self, step: int) -> Grid:
        """Return the grid of every `step`-th pixel along each axis, without the blocks that keep none."""
        return Grid(tuple(tuple(sorted({-(-c // step) for c in cuts})) for cuts in self.cuts))


def make_grid(shape: Sequence[int], chunks: Sequence[int], block_pixels: int) -> Grid:
    """Make blocks of about `block_pixels` pixels from chunks, or from parts of a chunk that is larger.

    >>> make_grid((1000, 1000), (100, 100), 90_000).counts
    (3, 5)
    """
    length = [min(c, n) for c, n in zip(chunks, shape, strict=True)]
    while True:
        short = [a for a in np.argsort(length, kind="stable") if length[a] < shape[a]]
        if not short or np.prod(length) * 2 > block_pixels * 1.5:
            break
        length[short[0]] = min(shape[short[0]], 2 * length[short[0]])
    while np.prod(length) > 2 * block_pixels:
        longest = int(np.argmax(length))
        length[longest] = -(-length[longest] // 2)
    cuts = [[*range(0, n, block), n] for n, block in zip(shape, length, strict=True)]
    for axis, block in zip(cuts, length, strict=True):
        if len(axis) > 2 and 3 * (axis[-1] - axis[-2]) < block:
            del axis[-2]  # a last block of less than a third joins the one before
    return Grid(tuple(tuple(axis) for axis in cuts))


def crop(outer: Slices, inner: Slices) -> Slices:
    """Return where the inner pixels, such as those of a block, are in an array of the outer ones."""
    return tuple(slice(i.start - a.start, i.stop - a.start) for a, i in zip(outer, inner, strict=True))


def spread_tiles(shape: Sequence[int], count: int, side: int) -> list[Slices]:
    """Spread about `count` tiles, `side` pixels wide, evenly over an image."""
    extent = np.maximum(np.array(shape) / side, 1.0)
    counts = np.maximum(np.floor(extent * min(1.0, (count / np.prod(extent)) ** (1 / len(extent)))), 1).astype(int)
    starts = []
    for length, k in zip(shape, counts, strict=True):
        room = max(length - side, 0)
        starts.append(np.linspace(0, room, 2 * k + 1)[1::2].astype(np.int64) if k > 1 else np.array([room // 2]))
    return [
        tuple(slice(int(s), min(int(s) + side, n)) for s, n in zip(corner, shape, strict=True))
        for corner in itertools.product(*starts)
    ]
