"""A lazy image whose axes are known."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.errors import InputError
from napari_gsw.core.image import lazy
from napari_gsw.core.image.block_grid import Grid, grid_of
from napari_gsw.core.image.picture import guess_axes

# A lazy image of no more than this many blocks is taken whole: it fits, and its sites know no border.
FEW = 8


class LazyImage(NamedTuple):
    """A lazy image whose axes are known.

    Attributes
    ----------
    array : the finest level.
    letters : one for each of its axes; others than ZYXCS have length 1.
    shape : of its space.
    """

    array: Any
    letters: str
    shape: tuple[int, ...]

    @property
    def axes(self) -> str:
        """Letters of what :meth:`read_all` gives."""
        return "".join(a for a in self.letters if a in "ZYXCS")

    def read_all(self) -> NDArray[Any]:
        """All pixels in memory, without the axes that say nothing."""
        return lazy.read(self.array, tuple(slice(None) if a in "ZYXCS" else 0 for a in self.letters))  # type: ignore[misc]

    def chunks(self) -> tuple[int, ...]:
        """Length of a chunk along each axis of space."""
        lengths = lazy.chunk_lengths(self.array)
        return tuple(lengths[self.letters.index(a)] for a in "ZYX" if a in self.letters)

    def every(self, step: int) -> NDArray[Any]:
        """Every `step`-th pixel of space, in memory, with the axes of :meth:`read_all`."""
        jump = {a: slice(None, None, step) for a in "ZYX"}
        index = tuple(jump.get(a, slice(None) if a in "CS" else 0) for a in self.letters)
        return lazy.read(self.array, index)  # type: ignore[arg-type]

    def grid(self, block_pixels: int) -> Grid:
        """The blocks to work on; one, if the image is one chunk or small."""
        if self.chunks() == self.shape or np.prod(self.shape) <= FEW * block_pixels:
            return Grid(tuple((0, n) for n in self.shape))
        return grid_of(self.shape, self.chunks(), block_pixels)


def open_lazy(image: Any, axes: str = "auto") -> LazyImage:
    """The finest level of a lazy image, and what its axes are."""
    array = lazy.levels(image)[0]
    stored = lazy.group_axes(image)
    if axes != "auto":
        letters = axes.upper()
    elif stored is not None and len(stored) == array.ndim:
        letters = stored
    else:
        letters = guess_axes(array)
    if len(letters) != array.ndim or len(set(letters)) != len(letters) or not set("YX") <= set(letters):
        raise InputError(
            f"axes must have {array.ndim} letters for an image of shape {tuple(array.shape)}, not {axes!r}"
        )
    # Axes of length 1 say nothing, unless they are all that a plane has.
    kept = "".join("." if n == 1 and a not in "YX" else a for a, n in zip(letters, array.shape, strict=True))
    if "T" in kept:
        raise InputError(f"the image has a time axis of {array.shape[kept.index('T')]}; give one time point at a time")
    if not set(kept) <= set("ZYXCS."):
        raise InputError(f"axes must be Y, X and possibly Z with at most one of C and S, not {letters!r}")
    space = [kept.index(a) for a in "ZYX" if a in kept]
    if space != sorted(space):
        raise InputError(f"a lazy image must have its axes of space in the order ZYX, not {letters!r}")
    if array.dtype.kind not in "buif":
        raise InputError(f"the image must hold numbers, not {array.dtype}")
    if 0 in array.shape:
        raise InputError(f"the image is empty (shape {tuple(array.shape)})")
    return LazyImage(array, kept, tuple(int(array.shape[a]) for a in space))
