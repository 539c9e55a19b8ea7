"""Strokes of a person, as the methods take them that spread their labels over the rest of the image."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from skimage import transform

from napari_gsw.core.arrays import Floats, Floats32, Ints, Longs
from napari_gsw.core.errors import InputError
from napari_gsw.core.sites.per_site import label_image


class Strokes(NamedTuple):
    """What a person has painted.

    Attributes
    ----------
    numbers : (k,) int64, the labels that were painted, in their order.
    codes : (Y, X) int32, which of them is at a pixel: 0 to k - 1, and -1 where nothing was painted.
    """

    numbers: Longs
    codes: Ints

    def halved(self) -> Strokes:
        """The same in an image of half the sides, (ceil(Y / 2), ceil(X / 2)): even a thin stroke stays."""
        height, width = self.codes.shape
        codes = np.full((-(-height // 2), -(-width // 2)), -1, np.int32)
        rows, columns = np.nonzero(self.codes >= 0)
        codes[rows // 2, columns // 2] = self.codes[rows, columns]
        return Strokes(self.numbers, codes)

    def certain(self) -> Floats32:
        """(k, Y, X) 1 where a label was painted, 0 elsewhere."""
        return np.stack([self.codes == code for code in range(len(self.numbers))]).astype(np.float32)

    def labels(self, codes: NDArray[np.integer]) -> Ints:
        """(Y, X) the label of each pixel, from which of the labels it is; what was painted stays as it was."""
        return self.numbers[np.where(self.codes >= 0, self.codes, codes)].astype(np.int32)

    def most_probable(self, probability: Floats | Floats32) -> Ints:
        """(Y, X) the label of each pixel, from a probability (k, y, x) of every label in an image of any size."""
        shape = self.codes.shape
        maps = [
            one if one.shape == shape else transform.resize(one, shape, order=1, anti_aliasing=False)
            for one in probability
        ]
        return self.labels(np.argmax(maps, axis=0))


def strokes_of(seeds: ArrayLike, shape: tuple[int, ...], method: str) -> Strokes:
    """The strokes in a label image.

    Parameters
    ----------
    seeds : whole numbers, 0 where nothing was painted.
    shape : (Y, X) of the image.
    method : for the sentence that refuses other arrays.
    """
    array = np.asarray(label_image(seeds, shape, "seeds"))
    if array.min() < 0 or array.max() > np.iinfo(np.int32).max:
        raise InputError(f"seeds must be numbers in [0, 2147483647], not {array.min()} to {array.max()}")
    numbers = np.unique(array[array > 0]).astype(np.int64)
    if not len(numbers):
        raise InputError(f"{method} needs seeds: paint at least one stroke")
    codes = np.where(array > 0, np.searchsorted(numbers, array), -1).astype(np.int32)
    return Strokes(numbers, codes)


def half_size(colours: Floats32) -> Floats32:
    """An image (Y, X, C) with half its sides, (ceil(Y / 2), ceil(X / 2), C)."""
    height, width = colours.shape[:2]
    halved: Floats32 = transform.resize(colours, (-(-height // 2), -(-width // 2)), order=1, anti_aliasing=True)
    return halved.astype(np.float32)
