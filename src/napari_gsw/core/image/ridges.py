"""Dark ridges such as membranes, at several widths: how sharply the light bends across a line.

Across a dark line the light falls and rises again, and along it stays the same: of the curvatures of the light blurred
to the width of the line, the largest is high and the others are near 0. A step or a spot of another width has less.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from napari_gsw.core.array_types import Float32Array, Float64Array
from napari_gsw.core.image.normalized_image import NormalizedImage, normalize_image

# Widths of the blur, in pixels, at which membranes of 5 to 12 pixels show.
MEMBRANES = (2.5, 3.5)
# Of the light these percentiles are 0 and 1, so that a map depends on neither its unit nor a few odd pixels.
DARK, BRIGHT = 1.0, 99.0
# The share of the ridges that are as sure as can be, in per cent.
SURE = 98.0


def make_ridge_map(image: ArrayLike, axes: str = "auto") -> Float32Array:
    """How likely a dark ridge runs through each pixel, from 0 to 1: a map of boundaries from the image alone.

    Parameters
    ----------
    image, axes : as for :func:`napari_gsw.core.image.normalized_image.normalize_image`; of colours the lightness, of channels the first.

    Returns
    -------
    (\\*shape,) float32.

    Examples
    --------
    >>> image = np.full((40, 40), 200.0)
    >>> image[:, 18:23] = 50
    >>> ridges = ridge_map(image)
    >>> bool(ridges[20, 20] > 0.9), bool(ridges[20, 5] < 0.1)
    (True, True)
    """
    height = compute_ridges(scale_intensity(normalize_image(image, axes)))
    positive = height[height > 0]
    most = float(np.percentile(positive, SURE)) if len(positive) else 1.0
    return np.clip(height / most, 0, 1).astype(np.float32)


def scale_intensity(pixels: NormalizedImage) -> Float64Array:
    """(\\*shape,) the light of a picture, about 0 to 1."""
    light = pixels.channels[..., 0].astype(np.float64)
    low, high = np.percentile(light, [DARK, BRIGHT])
    return np.asarray((light - low) / (high - low if high > low else 1.0))


def compute_ridges(light: Float64Array) -> Float64Array:
    """(\\*shape,) the largest curvature of the light at the widths of membranes; 0 where it bends the other way."""
    return np.asarray(np.maximum(np.max([compute_curvatures(light, width)[0] for width in MEMBRANES], axis=0), 0))


def compute_curvatures(light: Float64Array, width: float) -> tuple[Float64Array, Float64Array]:
    """(\\*shape,) the largest and the smallest second derivative in any direction, of the light blurred to a width.

    Both are multiplied by the square of the width, so that they can be compared from width to width.
    """
    from scipy import ndimage

    axes = range(light.ndim)

    def bend(a: int, b: int) -> Float64Array:
        order = [int(axis == a) + int(axis == b) for axis in axes]
        return width**2 * np.asarray(ndimage.gaussian_filter(light, width, order, mode="nearest"))

    if light.ndim == 2:
        xx, yy, xy = bend(1, 1), bend(0, 0), bend(0, 1)
        middle, reach = (xx + yy) / 2, np.hypot((xx - yy) / 2, xy)
        return middle + reach, middle - reach
    matrix = np.stack([np.stack([bend(min(a, b), max(a, b)) for b in axes], axis=-1) for a in axes], axis=-1)
    values: Float64Array = np.linalg.eigvalsh(matrix).astype(np.float64)
    return values[..., -1], values[..., 0]
