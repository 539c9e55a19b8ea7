"""Images out of focus, whose slopes become steps, and images of few grey levels, whose steps become slopes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.array_types import ChannelImage, Float32Array

# An image with more levels than this between its dark and its bright percentile has no visible steps.
MAX_LEVELS = 8
BLACK_PERCENTILE, WHITE_PERCENTILE = 1.0, 99.8
# Rounds of diffusion, and the fraction of a difference that flows in each: it reaches about ten pixels.
DIFFUSION_ROUNDS, FLOW = 100, 0.25
# Widths in pixels of the Gaussian that may have blurred an image, usual ones first; 0 for an image in focus.
BLUR_WIDTHS = (1.0, 1.5, 0.0, 2.0, 2.5, 3.0)
# Residual variance that is allowed when steps are blurred again, as a fraction of the variance, under a Gaussian of
# this width, which removes grains of noise and keeps lines.
MAX_RESIDUAL, RESIDUAL_BLUR = 0.0055, 1.5
# Number and side of the squares that are examined along each axis.
SQUARES, SIDE = 2, 128
# Smoothing before slopes become steps, and distance that a step looks around itself, in units of the blur, and the
# least of both in pixels.
SMOOTHING, MIN_SMOOTHING = 0.75, 1.0
REACH, MIN_REACH = 2.5, 4
# Blur with which steps are tried first.
USUAL_BLUR = 2.0
# Smallest difference in Lab that is a step and not shading.
STEP = 6.0


def dequantize(values: NDArray[Any], max_levels: int = MAX_LEVELS) -> NDArray[Any]:
    """Replace the steps of an image (h, w) or (h, w, C) of few grey levels by slopes, float32.

    Where all of an image lies within a few levels, rounding makes steps as strong as its borders. Values flow between
    pixels that differ by one level at most, and stay within the interval that is rounded to their level.

    >>> dequantize(np.array([[0, 0, 1, 1], [0, 0, 5, 5]])).round(2)[0].tolist()
    [0.5, 0.5, 0.5, 0.5]
    """
    if values.dtype.kind not in "iu":
        return values
    if not np.subtract(*np.percentile(values, (WHITE_PERCENTILE, BLACK_PERCENTILE))) <= max_levels:
        return values
    smooth = values.astype(np.float32)
    low, high = smooth - np.float32(0.5), smooth + np.float32(0.5)
    can_flow = [np.abs(np.diff(smooth, axis=axis)) <= 1 for axis in (0, 1)]
    before, after = (np.s_[:-1], np.s_[:, :-1]), (np.s_[1:], np.s_[:, 1:])
    for _ in range(DIFFUSION_ROUNDS):
        flows = [np.float32(FLOW) * np.diff(smooth, axis=axis) * can_flow[axis] for axis in (0, 1)]
        for axis, flow in enumerate(flows):
            smooth[before[axis]] += flow
            smooth[after[axis]] -= flow
        np.clip(smooth, low, high, out=smooth)
    return smooth


def deblur(channels: ChannelImage) -> ChannelImage:
    """Turn slopes into steps in an image (h, w, C) of plain shapes that is out of focus."""
    width = estimate_blur(channels)
    return sharpen(channels, width) if width else channels


def sharpen(channels: ChannelImage, width: float, step: float = STEP) -> ChannelImage:
    """Turn slopes into steps in an image (h, w, C) blurred by a Gaussian; `step` is the least difference of a step."""
    smoothing, reach = max(MIN_SMOOTHING, SMOOTHING * width), max(MIN_REACH, round(REACH * width))
    sharp = np.empty_like(channels)
    for c in range(channels.shape[-1]):  # a channel at a time stays in the cache
        sharp[..., c] = toggle_contrast(gaussian_blur(np.ascontiguousarray(channels[..., c]), smoothing), reach, step)
    return sharp


def estimate_blur(channels: ChannelImage) -> float | None:
    """Estimate the width in pixels of the Gaussian that plain shapes (h, w, C) are blurred by.

    Returns 0 for plain shapes in focus, and None if there is more than plain shapes.
    """
    if min(channels.shape[:2]) < SIDE // 4:
        return None
    squares = [
        channels[rows, columns]
        for rows in _place_squares(channels.shape[0])
        for columns in _place_squares(channels.shape[1])
    ]
    variances = [np.var(np.concatenate([s[..., c].ravel() for s in squares])) for c in range(channels.shape[-1])]
    channel = int(np.argmax(variances))
    images = [np.ascontiguousarray(square[..., channel], np.float32) for square in squares]
    if variances[channel] == 0:
        return None
    best, min_residual = None, MAX_RESIDUAL * float(variances[channel])
    spectra: list[tuple[Float32Array, Float32Array]] = []
    for width in BLUR_WIDTHS:
        residual = 0.0
        for number, image in enumerate(images):
            if number == len(spectra):
                steps = toggle_contrast(gaussian_blur(image, MIN_SMOOTHING), round(REACH * USUAL_BLUR))
                spectra.append((_cosine_spectrum(image), _cosine_spectrum(steps)))
            rest = spectra[number][0] - spectra[number][1] * _gaussian_spectrum(image.shape, width)
            residual += float(np.mean(np.square(rest, out=rest))) / len(images)  # a dot product would start threads
            if residual >= min_residual:  # most photographs are done with after the first square
                break
        else:
            best, min_residual = width, residual
    return best


def toggle_contrast(image: Float32Array, reach: int, step: float = STEP) -> Float32Array:
    """Set each pixel (h, w) or (h, w, C) to the nearer extreme within `reach` where the extremes differ by a step."""
    from scipy import ndimage

    size = (2 * reach + 1, 2 * reach + 1, *(1 for _ in image.shape[2:]))
    low = ndimage.minimum_filter(image, size, mode="nearest")
    high = ndimage.maximum_filter(image, size, mode="nearest")
    extreme = np.where(image - low < high - image, low, high)
    return np.asarray(np.where(high - low > step, extreme, image), np.float32)


def gaussian_blur(image: Float32Array, width: float) -> Float32Array:
    """Blur an image (h, w) as scipy does, but in float32: stored results depend on the last digit."""
    reach = int(4 * width + 0.5)
    weights = np.exp(-((np.arange(-reach, reach + 1) / width) ** 2) / 2)
    weights = (weights / weights.sum()).astype(np.float32)
    for axis in (0, 1):
        size = image.shape[axis]
        padded = np.pad(image, [(reach, reach) if a == axis else (0, 0) for a in (0, 1)], "symmetric")
        lines = np.moveaxis(padded, axis, 0)
        image = np.moveaxis(np.asarray(sum(w * lines[k : k + size] for k, w in enumerate(weights))), 0, axis)
    return np.ascontiguousarray(image)


def _cosine_spectrum(image: Float32Array) -> Float32Array:
    """Compute the cosine transform of an image (h, w) blurred by the width at which residuals are compared."""
    from scipy import fft

    spectrum = fft.dctn(image.astype(np.float64), norm="ortho")
    return np.asarray(spectrum * _gaussian_spectrum(image.shape, RESIDUAL_BLUR), np.float32)


def _gaussian_spectrum(shape: tuple[int, ...], width: float) -> Float32Array:
    """Compute the (h, w) factors exp(-(pi k w / n)^2 / 2) of cosines in a Gaussian blur with reflecting borders."""
    rows, columns = (np.exp(-((np.pi * np.arange(n) * width / n) ** 2) / 2) for n in shape)
    return np.asarray(np.outer(rows, columns), np.float32)


def _place_squares(length: int) -> list[slice]:
    """Place the squares evenly along an axis, or one over all of a short axis."""
    if length <= SQUARES * SIDE:
        return [slice(0, length)]
    starts = np.linspace(0, length - SIDE, SQUARES + 2)[1:-1].astype(int)
    return [slice(start, start + SIDE) for start in starts]
