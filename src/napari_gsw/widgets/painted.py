"""Pictures of a segmentation that is too large to be painted whole: what is on the screen is painted when napari asks.

A layer holds a level of the sites and a value for each of them. A new state of the chain is a new row of values; the
picture itself is never made, only the part and the level of it that are looked at.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.mosaic import Mosaic

# The coarsest level has at most so many pixels along each axis.
COARSEST = 1024


class Painted:
    """An image of one value for each site, read like an array.

    Attributes
    ----------
    sites : the sites of this level.
    values : (n + 1,) value of each site; entry 0 for pixels without one. It may be exchanged at any time.
    lead : axes of length 1 before those of the sites, as the layer has them.
    """

    def __init__(self, sites: Mosaic, values: NDArray[Any], lead: int = 0) -> None:
        self.sites, self.values, self.lead = sites, values, lead

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
        return np.asarray(self[...], dtype=dtype)

    def any(self) -> bool:
        """Whether a site has a value other than 0."""
        return bool(self.values[1:].any())

    def count(self) -> int:
        """How many different values other than 0 there are."""
        return int(np.count_nonzero(np.unique(self.values[1:])))


def pyramid(image: Painted, levels: list[Mosaic], lead: int) -> list[Painted]:
    """The image at every level, as a multiscale layer takes it."""
    return [Painted(level, image.values, lead) for level in levels]


def levels_of(sites: Mosaic) -> list[Mosaic]:
    """The sites, then every second pixel of them, and so on; two at least, since napari takes one for an array."""
    found = [sites]
    while len(found) < 2 or max(found[-1].shape) > COARSEST:
        found.append(found[-1].coarser(2))
    return found
