"""Several images in the same units, so that a colour, and with it a word, means the same in all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.errors import InputError
from napari_gsw.core.image.lazy import is_lazy
from napari_gsw.core.image.object_signal import as_picture, signal, signal_levels
from napari_gsw.core.image.picture import Picture, check_image, picture, samples, span_of

T = TypeVar("T")


def are_several(image: Any) -> bool:
    """Whether several images are meant and not one: a list or tuple of arrays in memory, of two axes or more.

    A list of lazy arrays is the pyramid of one image, and a list of rows or of numbers is one image.

    >>> plane = np.zeros((4, 5))
    >>> are_several([plane, plane]), are_several(plane), are_several(plane.tolist())
    (True, False, False)
    """
    if not isinstance(image, (list, tuple)) or not len(image):
        return False
    in_memory = [isinstance(one, np.ndarray) and one.ndim > 1 for one in image]
    if any(in_memory) and any(is_lazy(one) for one in image):
        raise InputError("a list must hold several images in memory or the lazy levels of one image, not both")
    return all(in_memory)


def one_each(values: Any, count: int, name: str) -> list[Any]:
    """What was given beside `count` images, one entry an image, None where there is none; `name` it."""
    if values is None:
        return [None] * count
    if not isinstance(values, (list, tuple)) or len(values) != count:
        size = f"{len(values)} entries" if isinstance(values, (list, tuple)) else type(values).__name__
        raise InputError(f"{name} must be a list with an entry (or None) for each of {count} images, not {size}")
    return list(values)


def pictures_of(
    images: Sequence[NDArray[Any]], axes: str = "auto", objects: bool = False, calm: bool = False
) -> list[Picture]:
    """The images in common units: one span of each channel for all, or one set of levels of the signal of objects.

    Parameters
    ----------
    images : each as :func:`~napari_gsw.core.image.picture.picture` takes it, all of one type, of one number of
        dimensions and of the same channels; their sizes may differ.
    axes : of all of them.
    objects : whether to look at how far pixels stand out from the background.
    calm : whether to look for noise and weak contrast too.
    """
    seen = [samples(image, check_image(image, axes)) for image in images]
    values, rgb = [one for one, _ in seen], seen[0][1]
    _must_agree("type", [str(one.dtype) for one in values])
    _must_agree("number of dimensions", [one.ndim - 1 for one in values])
    _must_agree("channels", ["RGB" if is_rgb else one.shape[-1] for one, is_rgb in seen])
    if objects:
        levels = signal_levels(values, rgb, calm)
        return [as_picture(signal(one.astype(np.float64), levels)) for one in values]
    span = span_of(values, rgb, calm)
    return [picture(image, axes, span) for image in images]


def _must_agree(what: str, values: Sequence[Any]) -> None:
    different = list(dict.fromkeys(values))
    if len(different) > 1:
        raise InputError(f"images with shared labels must have the same {what}, not {different[0]} and {different[1]}")
