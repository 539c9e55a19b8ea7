"""Strokes of a person, as the methods take them that spread their labels over the rest of the image."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from skimage import transform

from napari_gsw.core.array_types import Float32Array, Float64Array, Int32Array, Int64Array
from napari_gsw.core.errors import InputError
from napari_gsw.core.sites.site_values import check_label_image


class Scribbles(NamedTuple):
    """What a person has painted.

    Attributes
    ----------
    numbers : (k,) int64, the labels that were painted, in their order.
    codes : (Y, X) int32, which of them is at a pixel: 0 to k - 1, and -1 where nothing was painted.
    """

    numbers: Int64Array
    codes: Int32Array

    def halved(self) -> Scribbles:
        """The same in an image of half the sides, (ceil(Y / 2), ceil(X / 2)): even a thin stroke stays."""
        height, width = self.codes.shape
        codes = np.full((-(-height // 2), -(-width // 2)), -1, np.int32)
        rows, columns = np.nonzero(self.codes >= 0)
        codes[rows // 2, columns // 2] = self.codes[rows, columns]
        return Scribbles(self.numbers, codes)

    def certain(self) -> Float32Array:
        """(k, Y, X) 1 where a label was painted, 0 elsewhere."""
        return np.stack([self.codes == code for code in range(len(self.numbers))]).astype(np.float32)

    def labels(self, codes: NDArray[np.integer]) -> Int32Array:
        """(Y, X) the label of each pixel, from which of the labels it is; what was painted stays as it was."""
        return self.numbers[np.where(self.codes >= 0, self.codes, codes)].astype(np.int32)

    def most_probable(self, probability: Float64Array | Float32Array) -> Int32Array:
        """(Y, X) the label of each pixel, from a probability (k, y, x) of every label in an image of any size."""
        shape = self.codes.shape
        maps = [
            one if one.shape == shape else transform.resize(one, shape, order=1, anti_aliasing=False)
            for one in probability
        ]
        return self.labels(np.argmax(maps, axis=0))


def read_scribbles(seeds: ArrayLike, shape: tuple[int, ...], method: str) -> Scribbles:
    """The strokes in a label image.

    Parameters
    ----------
    seeds : whole numbers, 0 where nothing was painted.
    shape : (Y, X) of the image.
    method : for the sentence that refuses other arrays.
    """
    array = np.asarray(check_label_image(seeds, shape, "seeds"))
    if array.min() < 0 or array.max() > np.iinfo(np.int32).max:
        raise InputError(f"seeds must be numbers in [0, 2147483647], not {array.min()} to {array.max()}")
    numbers = np.unique(array[array > 0]).astype(np.int64)
    if not len(numbers):
        raise InputError(f"{method} needs seeds: paint at least one stroke")
    codes = np.where(array > 0, np.searchsorted(numbers, array), -1).astype(np.int32)
    return Scribbles(numbers, codes)


def halve_image(colours: Float32Array) -> Float32Array:
    """An image (Y, X, C) with half its sides, (ceil(Y / 2), ceil(X / 2), C)."""
    height, width = colours.shape[:2]
    halved: Float32Array = transform.resize(colours, (-(-height // 2), -(-width // 2)), order=1, anti_aliasing=True)
    return halved.astype(np.float32)
