"""Pixels that nobody looks at, outside a mask: they may be NaN or infinite.

Filters and the span of an image look beyond the mask, so such pixels become what the nearest finite pixel is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.arrays import Mask
from napari_gsw.core.errors import InputError


def bad_pixels(values: NDArray[Any]) -> Mask | None:
    """(\\*shape,) where values (\\*shape, C) are NaN or infinite in a channel; None if that is nowhere."""
    if values.dtype.kind != "f":
        return None
    bad: Mask = ~np.isfinite(values).all(axis=-1)
    return bad if bad.any() else None


def filled_outside(values: NDArray[Any], seen: Mask) -> NDArray[Any]:
    """The values with those outside `seen` finite too; an InputError if some inside are not.

    Parameters
    ----------
    values : (\\*shape, C). Where none of them is finite, all become 0.
    seen : (\\*shape,) the pixels that count.
    """
    from scipy import ndimage

    bad = bad_pixels(values)
    if bad is None:
        return values
    refuse(int((bad & seen).sum()))
    if bad.all():
        return np.zeros_like(values)
    nearest = ndimage.distance_transform_edt(bad, return_distances=False, return_indices=True)
    whence = tuple(np.asarray(axis)[bad] for axis in nearest)
    copy = values.copy()
    copy[bad] = values[whence]
    return copy


def refuse(count: int) -> None:
    """Say that so many pixels cannot be used, if there are any."""
    if count:
        raise InputError(f"the image has {count} pixels that are NaN or infinite; replace them by finite values")
