"""A picture of few grey levels as it may have been before it was rounded to them.

Between two levels of a slope a rounded picture has a step that the scene has not. Where all of a picture lies within a
few levels such steps are as strong as its borders. Any value that would be rounded to the one that is there is as good;
a smooth one is taken, which flows from pixel to pixel where they differ by one level at most.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.array_types import ChannelImage, Float32Array, Float64Array

# A picture with more levels than this between its dark and its bright end has no such step that is seen.
MAX_LEVELS = 8
# Percentiles that are its dark and its bright end.
BLACK_PERCENTILE, WHITE_PERCENTILE = 1.0, 99.8
# How often light flows, and how much of a difference at a time: it reaches some ten pixels.
TIMES, SHARE = 100, 0.25


def dequantize(values: NDArray[Any], most: int = MAX_LEVELS) -> NDArray[Any]:
    """(h, w) or (h, w, c) float32 that rounds to the values and is smooth; the values if they have more levels.

    >>> unrounded(np.array([[0, 0, 1, 1], [0, 0, 5, 5]])).round(2)[0].tolist()
    [0.5, 0.5, 0.5, 0.5]
    """
    if (
        values.dtype.kind not in "iu"
        or not np.subtract(*np.percentile(values, (WHITE_PERCENTILE, BLACK_PERCENTILE))) <= most
    ):
        return values
    smooth = values.astype(np.float32)
    low, high = smooth - np.float32(0.5), smooth + np.float32(0.5)
    opened = [np.abs(np.diff(smooth, axis=axis)) <= 1 for axis in (0, 1)]
    before, after = (np.s_[:-1], np.s_[:, :-1]), (np.s_[1:], np.s_[:, 1:])
    for _ in range(TIMES):
        flows = [np.float32(SHARE) * np.diff(smooth, axis=axis) * opened[axis] for axis in (0, 1)]
        for axis, flow in enumerate(flows):
            smooth[before[axis]] += flow
            smooth[after[axis]] -= flow
        np.clip(smooth, low, high, out=smooth)
    return smooth


# Widths in pixels of the Gaussian that a picture may be seen through, usual ones first; 0 for one that is in focus.
BLUR_WIDTHS = (1.0, 1.5, 0.0, 2.0, 2.5, 3.0)
# What may be left, as a share of the variance, when the picture is drawn again; under a Gaussian of so many pixels,
# which takes grains of noise out of it and leaves lines in.
LEFT, UNDER = 0.0055, 1.5
# The picture is looked at in so many squares of so many pixels, along each axis.
SQUARES, SIDE = 2, 128
# Before slopes are made steps the picture is smoothed, by so much of its width; and a step looks so far around itself.
CALM, LEAST_CALM = 0.75, 1.0
REACH, LEAST_REACH = 2.5, 4
# The width that steps are first tried with.
MIDDLING = 2.0
# A difference in Lab that is a step and not a slope of the light.
STEP = 6.0


def deblur(channels: ChannelImage) -> ChannelImage:
    """The channels (h, w, c) with steps in place of slopes if they are those of a picture out of focus."""
    width = estimate_blur(channels)
    return channels if width is None else sharpen(channels, width)


def sharpen(channels: ChannelImage, width: float, step: float = STEP) -> ChannelImage:
    """(h, w, c) float32 with steps in place of slopes, of a picture that is seen through a Gaussian of that width.

    Parameters
    ----------
    step : the difference that is a step and not a slope of the light.
    """
    calm, reach = max(LEAST_CALM, CALM * width), max(LEAST_REACH, round(REACH * width))
    sharp = np.empty_like(channels)
    for c in range(channels.shape[-1]):  # one plane at a time stays in the cache
        sharp[..., c] = toggle_contrast(gaussian_blur(np.ascontiguousarray(channels[..., c]), calm), reach, step)
    return sharp


def estimate_blur(channels: ChannelImage) -> float | None:
    """Pixels of the Gaussian that plain shapes (h, w, c) are seen through; None without one, or if there is more."""
    return estimate_shape_blur(channels) or None


def estimate_shape_blur(channels: ChannelImage) -> float | None:
    """As :func:`focus_width`, and 0 for plain shapes that are in focus; None if there is more than plain shapes."""
    if min(channels.shape[:2]) < SIDE // 4:
        return None
    squares = [channels[rows, columns] for rows in _spans(channels.shape[0]) for columns in _spans(channels.shape[1])]
    spread = [np.var(np.concatenate([s[..., c].ravel() for s in squares])) for c in range(channels.shape[-1])]
    telling = int(np.argmax(spread))
    lights = [np.ascontiguousarray(square[..., telling], np.float32) for square in squares]
    variance = float(spread[telling])
    if variance == 0:
        return None
    best, least = None, LEFT * variance
    looks: list[tuple[Float32Array, Float32Array]] = []
    for width in BLUR_WIDTHS:
        left = 0.0
        for number, light in enumerate(lights):
            if number == len(looks):
                steps = toggle_contrast(gaussian_blur(light, LEAST_CALM), round(REACH * MIDDLING))
                looks.append((_waves(light), _waves(steps)))
            left += _left(*looks[number], width) / len(lights)
            if left >= least:  # it only grows: most photographs are done with after the first square
                break
        else:
            best, least = width, left
    return best


def toggle_contrast(light: Float32Array, reach: int, step: float = STEP) -> Float32Array:
    """(h, w) or (h, w, c) float32: where the light differs by a step within `reach`, that of the nearer side."""
    low, high = _around(light, reach, np.minimum), _around(light, reach, np.maximum)
    side = np.where(light - low < high - light, low, high)
    return np.asarray(np.where(high - low > step, side, light), np.float32)


def _around(light: Float32Array, reach: int, extreme: np.ufunc) -> Float32Array:
    """The least or the greatest light of the square about each pixel, as far as it lies in the picture."""
    for axis in (0, 1):
        beyond = [(reach, reach) if a == axis else (0, 0) for a in range(light.ndim)]
        lines, seen = np.pad(light, beyond, mode="edge"), 1
        while seen < 2 * reach + 1:
            step = min(seen, 2 * reach + 1 - seen)  # windows of twice the length, and what is missing in the end
            first, second = (slice(-step), slice(step, None)) if axis == 0 else (np.s_[:, :-step], np.s_[:, step:])
            lines, seen = extreme(lines[first], lines[second]), seen + step
        light = lines
    return light


def gaussian_blur(light: Float32Array, width: float) -> Float32Array:
    """(h, w) float32: the light (h, w) seen through a Gaussian; beyond the border it goes on as in a mirror.

    As SciPy's filter, whose import takes longer than this takes for most pictures: every picture is looked at.
    """
    reach = int(4 * width + 0.5)
    weights = np.exp(-((np.arange(-reach, reach + 1) / width) ** 2) / 2)
    for axis in (0, 1):
        size = light.shape[axis]
        beyond = np.moveaxis(
            np.pad(light, [(reach, reach) if a == axis else (0, 0) for a in (0, 1)], "symmetric"), axis, 0
        )
        lines = sum(
            weight * beyond[k : k + size] for k, weight in enumerate((weights / weights.sum()).astype(np.float32))
        )
        light = np.moveaxis(np.asarray(lines), 0, axis)
    return np.ascontiguousarray(light)


def _waves(light: Float32Array) -> Float32Array:
    """(h, w) amplitudes of the cosines that the light (h, w), seen under a Gaussian, is the sum of."""
    return np.asarray(cosine_transform(cosine_transform(light).T).T * _passing(light.shape, UNDER), np.float32)


def cosine_transform(rows: NDArray[np.floating]) -> Float64Array:
    """(h, w) amplitudes of the cosines that each row is the sum of, of unit length each (the cosine transform II).

    A row and its mirror image are a sum of cosines without sines; half a pixel lies between the mirror and the row.
    """
    size = rows.shape[1]
    waves = np.fft.rfft(np.concatenate((rows, rows[:, ::-1]), axis=1))[:, :size]
    turned = (waves * np.exp(-0.5j * np.pi * np.arange(size) / size)).real / np.sqrt(2 * size)
    turned[:, 0] /= np.sqrt(2)
    return np.asarray(turned)


def _passing(shape: tuple[int, ...], width: float) -> Float32Array:
    """(h, w) what a Gaussian of so many pixels leaves of each cosine: exp(-(pi k width / n)^2 / 2) along an axis of n.

    Cosines go on beyond the border as in a mirror, so that the border is seen through the Gaussian as by a filter that
    reflects it.
    """
    rows, columns = (np.exp(-((np.pi * np.arange(n) * width / n) ** 2) / 2) for n in shape)
    return np.asarray(np.outer(rows, columns), np.float32)


def _left(light: Float32Array, steps: Float32Array, width: float) -> float:
    """What is left of a picture without its steps seen through a Gaussian: mean square, by the waves of both."""
    rest = light - steps * _passing(light.shape, width)
    return float(np.mean(np.square(rest, out=rest)))  # not a dot product, which would wake other threads


def _spans(length: int) -> list[slice]:
    """Where the squares lie along an axis: evenly, or all of it if it is short."""
    if length <= SQUARES * SIDE:
        return [slice(0, length)]
    starts = np.linspace(0, length - SIDE, SQUARES + 2)[1:-1].astype(int)
    return [slice(start, start + SIDE) for start in starts]
