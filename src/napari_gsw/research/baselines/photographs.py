"""What methods made for photographs take and give: red, green and blue from 0 to 1, and regions numbered from 1."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_gsw.core.errors import InputError
from napari_gsw.core.image.normalized_image import channels_last, guess_axes, normalize_image, scale_rgb


def to_rgb(image: ArrayLike, axes: str, method: str) -> NDArray[np.float32]:
    """The red, green and blue of an image in two dimensions, from 0 to 1.

    Types and ranges are those of :func:`~napari_gsw.core.image.normalized_image.normalize_image` for RGB. A grey image is one of three
    equal channels here and is not stretched, so that it makes no difference how it was saved.

    Parameters
    ----------
    image : array, grey or RGB, with or without alpha.
    axes : as for ``picture``.
    method : for the sentence that refuses other images.

    Returns
    -------
    (Y, X, 3) float32.
    """
    array = np.asarray(image)
    normalize_image(array, axes)  # only for its checks
    letters = guess_axes(array) if axes == "auto" else axes.upper()
    channels = channels_last(array, letters)
    count = channels.shape[-1]
    if "Z" in letters or not (count == 1 or ("S" in letters and count <= 4)):
        raise InputError(
            f"{method} takes a grey or an RGB image in two dimensions (axes YX or YXS), "
            f"not {letters} of shape {array.shape}"
        )
    rgb = channels[..., :3] if count >= 3 else np.repeat(channels[..., :1], 3, axis=-1)
    return scale_rgb(rgb)


def number_regions(labels: NDArray[Any]) -> NDArray[np.int32]:
    """The same regions with the numbers 1..k in the order of their first pixel.

    Parameters
    ----------
    labels : label image of any shape and type.

    Returns
    -------
    (\\*shape,) int32.

    Examples
    --------
    >>> numbered_regions(np.array([[7, 7, 0], [7, 3, 0]]))
    array([[1, 1, 2],
           [1, 3, 2]], dtype=int32)
    """
    _, first, index = np.unique(labels, return_index=True, return_inverse=True)
    number = np.empty(len(first), np.int32)
    number[np.argsort(first)] = np.arange(1, len(first) + 1)
    return number[index].reshape(labels.shape)
