"""Pictures of a segmentation that is too large to be painted whole: what is on the screen is painted when napari asks.

A layer holds a level of the sites and a value for each of them. A new state of the chain is a new row of values; the
picture itself is never made, only the part and the level of it that are looked at. But napari asks for the coarsest
level of two axes once and keeps the array; so that one is painted as a whole, and over with every new state.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.sites.mosaic import Mosaic

# The coarsest level has at most so many pixels along each axis.
COARSEST = 1024


class LazyPicture:
    """An image of one value for each site, read like an array.

    Attributes
    ----------
    sites : the sites of this level.
    values : (n + 1,) value of each site; entry 0 for pixels without one. It may be exchanged at any time for one of the
        same type.
    lead : axes of length 1 before those of the sites, as the layer has them.
    kept : whether the array that it is taken for as a whole is always the same one, and shows every new state.
    """

    def __init__(self, sites: Mosaic, values: NDArray[Any], lead: int = 0, kept: bool = False) -> None:
        self.sites, self.lead, self.kept = sites, lead, kept
        self._values = values
        self._numbers: NDArray[np.int32] | None = None  # the sites, and their picture, once it has been asked for
        self._picture: NDArray[Any] | None = None

    @property
    def values(self) -> NDArray[Any]:
        return self._values

    @values.setter
    def values(self, values: NDArray[Any]) -> None:
        if values.dtype != self._values.dtype:
            raise ValueError(f"values of type {self._values.dtype} cannot become {values.dtype}; make another picture")
        self._values = values
        if self._picture is not None and self._numbers is not None:
            np.take(values, self._numbers, out=self._picture, mode="clip")

    @property
    def shape(self) -> tuple[int, ...]:
        return (1,) * self.lead + self.sites.shape

    @property
    def ndim(self) -> int:
        return self.lead + self.sites.ndim

    @property
    def size(self) -> int:
        return self.sites.size

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.values.dtype

    @property
    def chunks(self) -> tuple[tuple[int, ...], ...]:
        return ((1,),) * self.lead + self.sites.grid.chunks

    def __getitem__(self, key: Any) -> NDArray[Any]:
        given = list(key) if isinstance(key, tuple) else [key]
        if Ellipsis in given:
            at = given.index(Ellipsis)
            given[at : at + 1] = [slice(None)] * (self.ndim - len(given) + 1)
        given += [slice(None)] * (self.ndim - len(given))
        inner = self.values[self.sites[tuple(given[self.lead :])]]
        for axis in reversed(given[: self.lead]):
            if isinstance(axis, slice):
                inner = inner[np.newaxis][axis]
        return np.asarray(inner)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if not self.kept:
            return np.asarray(self[...], dtype=dtype)
        if self._picture is None:
            self._numbers = np.asarray(self.sites[...]).reshape(self.shape)
            self._picture = np.empty(self.shape, self.dtype)
            self.values = self._values  # the newest, in whatever thread it was exchanged
        view = self._picture.view()
        view.setflags(write=False)
        array = np.asarray(view, dtype=dtype)
        return array.copy() if copy else array

    def any(self) -> bool:
        """Whether a site has a value other than 0."""
        return bool(self.values[1:].any())

    def count(self) -> int:
        """How many different values other than 0 there are."""
        return int(np.count_nonzero(np.unique(self.values[1:])))


def painted_levels(image: LazyPicture, levels: list[Mosaic], lead: int) -> list[LazyPicture]:
    """The image at every level, as a multiscale layer takes it."""
    return [LazyPicture(level, image.values, lead, kept=level is levels[-1]) for level in levels]


def levels_of(sites: Mosaic) -> list[Mosaic]:
    """The sites, then every second pixel of them, and so on; two at least, since napari takes one for an array."""
    levels = [sites]
    while len(levels) < 2 or max(levels[-1].shape) > COARSEST:
        levels.append(levels[-1].coarser(2))
    return levels
