"""A large image cut into blocks that are worked on one at a time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Index = tuple[int, ...]
Slices = tuple[slice, ...]


@dataclass(frozen=True)
class Grid:
    """Blocks that tile an image.

    Attributes
    ----------
    cuts : along each axis where blocks begin, and the image's length as the last entry.

    Examples
    --------
    >>> grid = Grid(((0, 40, 80, 100), (0, 50)))
    >>> grid.shape, grid.counts, grid.chunks
    ((100, 50), (3, 1), ((40, 40, 20), (50,)))
    >>> grid.around((1, 0), 5)
    (slice(35, 85, None), slice(0, 50, None))
    """

    cuts: tuple[tuple[int, ...], ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(c[-1] for c in self.cuts)

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of blocks along each axis."""
        return tuple(len(c) - 1 for c in self.cuts)

    @property
    def chunks(self) -> tuple[tuple[int, ...], ...]:
        """Lengths of the blocks along each axis, as dask writes them."""
        return tuple(tuple(b - a for a, b in itertools.pairwise(c)) for c in self.cuts)

    def __len__(self) -> int:
        return int(np.prod(self.counts))

    def __iter__(self) -> Iterator[Index]:
        """The blocks in scan order."""
        return itertools.product(*(range(count) for count in self.counts))

    def place(self, index: Index) -> int:
        """Number of a block in scan order."""
        return int(np.ravel_multi_index(index, self.counts))

    def inside(self, index: Index) -> Slices:
        """The pixels of a block."""
        return tuple(slice(c[i], c[i + 1]) for c, i in zip(self.cuts, index, strict=True))

    def around(self, index: Index, halo: int) -> Slices:
        """The pixels of a block and up to `halo` more on every side that has any."""
        return tuple(
            slice(max(0, s.start - halo), min(length, s.stop + halo))
            for s, length in zip(self.inside(index), self.shape, strict=True)
        )

    def after(self, index: Index, axis: int) -> Index | None:
        """The next block along an axis, or None at the end."""
        if index[axis] + 1 == self.counts[axis]:
            return None
        return (*index[:axis], index[axis] + 1, *index[axis + 1 :])

    def meeting(self, axis: int, part: slice) -> range:
        """The blocks along an axis that hold some of a part (start < stop) of it."""
        cuts = self.cuts[axis]
        first = int(np.searchsorted(cuts, part.start, side="right")) - 1
        return range(first, int(np.searchsorted(cuts, part.stop, side="left")))

    def every(self, step: int) -> Grid:
        """The grid of the same image with every `step`-th pixel along each axis; blocks that keep none are gone."""
        return Grid(tuple(tuple(sorted({-(-c // step) for c in cuts})) for cuts in self.cuts))


def make_grid(shape: Sequence[int], chunks: Sequence[int], most: int) -> Grid:
    """Blocks of about `most` pixels: neighbouring chunks together, or parts of a chunk that is larger.

    >>> grid_of((1000, 1000), (100, 100), 90_000).counts
    (3, 5)
    """
    length = [min(c, n) for c, n in zip(chunks, shape, strict=True)]
    while True:
        short = [a for a in np.argsort(length, kind="stable") if length[a] < shape[a]]
        if not short or np.prod(length) * 2 > most * 1.5:
            break
        length[short[0]] = min(shape[short[0]], 2 * length[short[0]])
    while np.prod(length) > 2 * most:
        longest = int(np.argmax(length))
        length[longest] = -(-length[longest] // 2)
    return Grid(tuple(_cuts(n, b) for n, b in zip(shape, length, strict=True)))


def _cuts(length: int, block: int) -> tuple[int, ...]:
    """Cuts every `block` pixels; a last block of less than a third of that joins the one before."""
    cuts = [*range(0, length, block), length]
    if len(cuts) > 2 and 3 * (cuts[-1] - cuts[-2]) < block:
        del cuts[-2]
    return tuple(cuts)


def crop(around: Slices, inside: Slices) -> Slices:
    """Where the pixels of a block are in an array that was read around it."""
    return tuple(slice(i.start - a.start, i.stop - a.start) for a, i in zip(around, inside, strict=True))


def spread_tiles(shape: Sequence[int], count: int, side: int) -> list[Slices]:
    """About `count` small parts of an image, `side` pixels wide, spread evenly over it."""
    wide = np.maximum(np.array(shape) / side, 1.0)
    along = np.maximum(np.floor(wide * min(1.0, (count / np.prod(wide)) ** (1 / len(wide)))), 1).astype(int)
    starts: list[NDArray[np.int64]] = []
    for length, k in zip(shape, along, strict=True):
        room = max(length - side, 0)
        starts.append(np.linspace(0, room, 2 * k + 1)[1::2].astype(np.int64) if k > 1 else np.array([room // 2]))
    return [
        tuple(slice(int(s), min(int(s) + side, n)) for s, n in zip(corner, shape, strict=True))
        for corner in itertools.product(*starts)
    ]
