"""Compiled conversion of colours: linear light to CIE Lab."""

from __future__ import annotations

import numpy as np

from napari_gsw.core.arrays import Pixels
from napari_gsw.core.jit import njit, njit_inner

# Of the curve from light to lightness: below the knee it is a line.
KNEE, SLOPE, FOOT = np.float32((6 / 29) ** 3), np.float32(29**2 / (3 * 6**2)), np.float32(4 / 29)
# First guesses of cube roots, at so many places from 0 to 1.
PLACES = 4096


@njit
def lab_of(light: Pixels, matrix: Pixels, guesses: Pixels, out: Pixels) -> None:
    """CIE Lab of linear RGB.

    Parameters
    ----------
    light : (pixels, 3) float32 in 0..1.
    matrix : (3, 3) float32 from linear RGB to X, Y, Z in units of those of white.
    guesses : (4097,) float32 cube roots of 0, 1/4096, ... 1; one step of Halley's makes float32 of them.
    out : (pixels, 3) float32, written.
    """
    top = np.float32(PLACES)
    for p in range(light.shape[0]):
        r, g, b = light[p, 0], light[p, 1], light[p, 2]
        x = _curve(matrix[0, 0] * r + matrix[0, 1] * g + matrix[0, 2] * b, guesses, top)
        y = _curve(matrix[1, 0] * r + matrix[1, 1] * g + matrix[1, 2] * b, guesses, top)
        z = _curve(matrix[2, 0] * r + matrix[2, 1] * g + matrix[2, 2] * b, guesses, top)
        out[p, 0] = np.float32(116) * y - np.float32(16)
        out[p, 1] = np.float32(500) * (x - y)
        out[p, 2] = np.float32(200) * (y - z)


@njit_inner
def _curve(t: np.float32, guesses: Pixels, top: np.float32) -> np.float32:
    """Cube root of t in 0..1, or a line where t is small; guesses (4097,) float32, `top` their number less one."""
    if t <= KNEE:
        return SLOPE * t + FOOT
    root = guesses[min(np.uint32(t * top + np.float32(0.5)), np.uint32(PLACES))]
    cube = root * root * root
    better: np.float32 = root * np.divide(cube + t + t, cube + cube + t)
    return better
