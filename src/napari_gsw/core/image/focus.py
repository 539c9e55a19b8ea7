"""Borders of a picture that is out of focus, drawn where they would be if it were not.

A plain picture out of focus is one of sharp borders seen through a Gaussian. Its borders are where it is half way from
the one side to the other; superpixels that follow its slopes lie across them instead. Whether a picture is one is told
by trying: its slopes are made steps, and the steps are blurred again. Where that gives the picture back there is
nothing in it but steps; photographs have lines and grain that do not come back, and are left as they are.
"""

from __future__ import annotations

import numpy as np
from scipy import ndimage

from napari_gsw.core.arrays import Floats32, Pixels

# Widths in pixels of the Gaussian that a picture may be seen through; 0 for one that is in focus.
WIDTHS = (0.0, 1.0, 1.5, 2.0, 2.5, 3.0)
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


def refocused(channels: Pixels) -> Pixels:
    """The channels (h, w, c) with steps in place of slopes if they are those of a picture out of focus."""
    width = focus_width(channels)
    if width is None:
        return channels
    calm, reach = max(LEAST_CALM, CALM * width), max(LEAST_REACH, round(REACH * width))
    smooth = ndimage.gaussian_filter(channels, (calm, calm, 0))
    return np.stack([stepped(smooth[..., c], reach) for c in range(channels.shape[-1])], axis=-1)


def focus_width(channels: Pixels) -> float | None:
    """Pixels of the Gaussian that plain shapes (h, w, c) are seen through; None without one, or if there is more."""
    if min(channels.shape[:2]) < SIDE // 4:
        return None
    squares = [channels[rows, columns] for rows in _spans(channels.shape[0]) for columns in _spans(channels.shape[1])]
    telling = int(np.argmax(np.var(np.concatenate([s.reshape(-1, channels.shape[-1]) for s in squares]), axis=0)))
    lights = [np.asarray(square[..., telling], np.float32) for square in squares]
    variance = float(np.var(np.concatenate([light.ravel() for light in lights])))
    if variance == 0:
        return None
    steps = [stepped(ndimage.gaussian_filter(light, LEAST_CALM), round(REACH * MIDDLING)) for light in lights]
    left = [np.mean([_left(*pair, width) for pair in zip(lights, steps, strict=True)]) for width in WIDTHS]
    best = int(np.argmin(left))
    return WIDTHS[best] if best > 0 and left[best] < LEFT * variance else None


def stepped(light: Floats32, reach: int) -> Floats32:
    """(h, w) float32: where the light differs by a step within `reach`, it is that of the nearer of the two sides."""
    low, high = (f(light, 2 * reach + 1) for f in (ndimage.minimum_filter, ndimage.maximum_filter))
    side = np.where(light - low < high - light, low, high)
    return np.asarray(np.where(high - low > STEP, side, light), np.float32)


def _left(light: Floats32, steps: Floats32, width: float) -> float:
    """What is left of a picture without its steps seen through a Gaussian: mean square."""
    rest = ndimage.gaussian_filter(light - ndimage.gaussian_filter(steps, width), UNDER)
    return float(np.mean(rest**2))


def _spans(length: int) -> list[slice]:
    """Where the squares lie along an axis: evenly, or all of it if it is short."""
    if length <= SQUARES * SIDE:
        return [slice(0, length)]
    starts = np.linspace(0, length - SIDE, SQUARES + 2)[1:-1].astype(int)
    return [slice(start, start + SIDE) for start in starts]
