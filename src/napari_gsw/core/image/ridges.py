"""Dark ridges such as membranes, by the curvature of the intensity across a line.

Of the curvatures of an image blurred to the width of a dark line, the largest is high and the others are near 0. A
step, or a spot of another width, has less curvature.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from napari_gsw.core.array_types import Float32Array, Float64Array
from napari_gsw.core.image.normalized_image import NormalizedImage, normalize_image

# Widths of the blur in pixels, for membranes of 5 to 12 pixels.
MEMBRANE_BLURS = (2.5, 3.5)
# Percentiles of the intensity that become 0 and 1, and of the ridges that becomes 1.
DARK, BRIGHT, CERTAIN = 1.0, 99.0, 98.0


def make_ridge_map(image: ArrayLike, axes: str = "auto") -> Float32Array:
    """Make a map (*shape,) from 0 to 1 of how likely a dark ridge runs through each pixel of any image.

    >>> image = np.full((40, 40), 200.0)
    >>> image[:, 18:23] = 50
    >>> ridges = make_ridge_map(image)
    >>> bool(ridges[20, 20] > 0.9), bool(ridges[20, 5] < 0.1)
    (True, True)
    """
    ridges = compute_ridges(scale_intensity(normalize_image(image, axes)))
    positive = ridges[ridges > 0]
    highest = float(np.percentile(positive, CERTAIN)) if len(positive) else 1.0
    return np.clip(ridges / highest, 0, 1).astype(np.float32)


def scale_intensity(image: NormalizedImage) -> Float64Array:
    """Scale the intensity (*shape,) of an image to about 0..1."""
    intensity = image.channels[..., 0].astype(np.float64)
    low, high = np.percentile(intensity, [DARK, BRIGHT])
    return np.asarray((intensity - low) / (high - low if high > low else 1.0))


def compute_ridges(intensity: Float64Array) -> Float64Array:
    """Compute the largest curvature (*shape,) at the widths of membranes; 0 where it is negative."""
    largest = [compute_curvatures(intensity, width)[0] for width in MEMBRANE_BLURS]
    return np.asarray(np.maximum(np.max(largest, axis=0), 0))


def compute_curvatures(intensity: Float64Array, width: float) -> tuple[Float64Array, Float64Array]:
    """Compute the largest and the smallest second derivative (*shape,) of the intensity blurred by a width.

    They are multiplied by the square of the width, so that they can be compared from width to width.
    """
    from scipy import ndimage

    axes = range(intensity.ndim)

    def derive(a: int, b: int) -> Float64Array:
        order = [int(axis == a) + int(axis == b) for axis in axes]
        return width**2 * np.asarray(ndimage.gaussian_filter(intensity, width, order, mode="nearest"))

    if intensity.ndim == 2:
        xx, yy, xy = derive(1, 1), derive(0, 0), derive(0, 1)
        middle, radius = (xx + yy) / 2, np.hypot((xx - yy) / 2, xy)
        return middle + radius, middle - radius
    hessian = np.stack([np.stack([derive(min(a, b), max(a, b)) for b in axes], axis=-1) for a in axes], axis=-1)
    values: Float64Array = np.linalg.eigvalsh(hessian).astype(np.float64)
    return values[..., -1], values[..., 0]
