"""How noisy an image is, and how much it has to be blurred against that.

Noise is what differs from a pixel to the next and not more from there to the one after: in a surface, a texture or
behind a lens neighbours are alike, and pixels differ the more the farther apart they are. So the variance of noise is
what is left of the mean squared difference of pixels when their distance goes to 0 (the nugget of a variogram). A
photograph has hardly any, however rich it is in texture.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from napari_gsw.core.arrays import Floats

# Differences that are looked at: the smaller ones, since large ones are edges, and of a part about so many.
KEPT_SHARE = 0.8
MOST_DIFFERENCES = 1 << 16
# The mean of these smaller ones, of Gaussian differences in units of their standard deviation.
KEPT_MEAN = 0.5586
# A Gaussian of width w in a plane leaves 1 / (2 sqrt(pi) w) of the noise.
PLANE = 2 * np.sqrt(np.pi)
# Widths in pixels: less is not worth it, and more would blur what is to be seen.
LEAST_WIDTH, MOST_WIDTH = 0.4, 2.5


def noise_of(parts: Sequence[NDArray[Any]]) -> Floats:
    """(C,) standard deviation of the noise of an image, in units of its values.

    Parameters
    ----------
    parts : (\\*shape, C) that stand for the image, of any numeric type.
    """
    near, far = (_squared_scales(parts, lag) for lag in (1, 2))
    return np.sqrt(np.maximum(2 * near - far, 0))


def calming_width(noise: float, tolerated: float) -> float:
    """Width in pixels of the Gaussian that brings noise down to what is tolerated; 0 for none."""
    if noise <= 0 or tolerated <= 0:
        return 0.0
    width = noise / (PLANE * tolerated)
    return 0.0 if width < LEAST_WIDTH else min(width, MOST_WIDTH)


def calmed(values: NDArray[Any], width: float) -> Floats:
    """(\\*shape, C) float64 values after a Gaussian blur of some width in pixels of space."""
    return np.asarray(ndimage.gaussian_filter(values.astype(np.float64), (*[width] * (values.ndim - 1), 0)))


def _squared_scales(parts: Sequence[NDArray[Any]], lag: int) -> Floats:
    """(C,) half the mean square of differences between pixels that are `lag` apart, as if they were Gaussian.

    Only along the last two axes of space: the planes of a volume may be far apart. 0 where no part is wide enough.
    """
    channels = parts[0].shape[-1]
    squares = []
    for axis in (-2, -3):
        lines = [np.moveaxis(p, axis, 0).reshape(p.shape[axis], -1, channels) for p in parts]
        every = [line[:, :: 1 + line.size // (channels * MOST_DIFFERENCES)].astype(np.float64) for line in lines]
        steps = np.concatenate([np.abs(line[lag:] - line[:-lag]).reshape(-1, channels) for line in every])
        if len(steps):
            kept = max(1, int(KEPT_SHARE * len(steps)))
            scale = np.partition(steps, kept - 1, axis=0)[:kept].mean(axis=0) / KEPT_MEAN
            squares.append(scale**2 / 2)
    return np.mean(squares, axis=0) if squares else np.zeros(channels)
