"""Noise taken off, edges left: the image of least total variation near a noisy one, compiled.

Channels and axes come first in memory and the last axis of space last, so that a row is computed several pixels at a
time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from napari_gsw.core.arrays import Floats32
from napari_gsw.core.jit import njit, njit_inner, zeros

# np.float32 to numba, a plain number to the type checker
as_float32 = cast(Callable[[Any], float], np.float32)


@njit
def flattened(values: Floats32, weight: float, rounds: int) -> Floats32:
    """The u that minimises |u - values|^2 / 2 + weight * (sum over pixels of the length of its gradient), about.

    The length is that over all axes and channels together, so that channels have their edges in the same places. It is
    found by gradient projection on the dual problem with Nesterov's momentum (Beck and Teboulle 2009). A pixel depends
    on those that are at most so many pixels away, along an axis, as there are rounds and one more.

    Parameters
    ----------
    values : (C, Z, Y, X) float32.
    weight : > 0.
    rounds : of the projection.

    Returns
    -------
    (C, Z, Y, X) float32.
    """
    channels, depth, height, width = values.shape
    axes = 3 if depth > 1 else 2
    dual = zeros((axes, channels, depth, height, width), np.float32)
    ahead = zeros((axes, channels, depth, height, width), np.float32)
    out = values.copy()
    step = as_float32(1 / (4 * axes * weight))
    pace = 1.0
    for _ in range(rounds):
        next_pace = (1 + np.sqrt(1 + 4 * pace * pace)) / 2
        _project(out, dual, ahead, step, as_float32((pace - 1) / next_pace))
        _restore(values, ahead, as_float32(weight), out)
        pace = next_pace
    _restore(values, dual, as_float32(weight), out)
    return out


@njit_inner
def _project(image: Floats32, dual: Floats32, ahead: Floats32, step: float, momentum: float) -> None:
    """A step of the dual along the gradient of the image, back into the unit ball of each pixel, and a look ahead.

    Parameters
    ----------
    image : (C, Z, Y, X) float32.
    dual, ahead : (axes, C, Z, Y, X) float32, changed. The last axis of space is the first of theirs. Where there is no
        next pixel along an axis they stay 0.
    """
    axes, channels, depth, height, width = dual.shape
    share = np.empty(width, np.float32)
    for z in range(depth):
        for y in range(height):
            share[:] = np.float32(0)
            for a in range(axes):
                if y + (a == 1) == height or z + (a == 2) == depth:
                    continue
                last = width - (a == 0)
                for c in range(channels):
                    here, row = image[c, z, y, :last], ahead[a, c, z, y]
                    there = image[c, z + (a == 2), y + (a == 1), width - last :]
                    for x in range(last):
                        row[x] += step * (there[x] - here[x])
                        share[x] += row[x] * row[x]
            for x in range(width):
                share[x] = np.float32(1) / max(np.float32(1), np.sqrt(share[x]))
            for a in range(axes):
                for c in range(channels):
                    row, old = ahead[a, c, z, y], dual[a, c, z, y]
                    for x in range(width):
                        new = row[x] * share[x]
                        row[x] = new + momentum * (new - old[x])
                        old[x] = new


@njit_inner
def _restore(values: Floats32, dual: Floats32, weight: float, out: Floats32) -> None:
    """The image that belongs to a dual: values minus weight times its adjoint gradient.

    Parameters
    ----------
    values, out : (C, Z, Y, X) float32; out is written.
    dual : (axes, C, Z, Y, X) float32.
    """
    axes, channels, depth, height, width = dual.shape
    for c in range(channels):
        for z in range(depth):
            for y in range(height):
                row, right, down = out[c, z, y], dual[0, c, z, y], dual[1, c, z, y]
                row[0] = -right[0] - down[0]
                for x in range(1, width):
                    row[x] = -right[x] - down[x] + right[x - 1]
                if y > 0:
                    row += dual[1, c, z, y - 1]
                if axes > 2:
                    row -= dual[2, c, z, y]
                    if z > 0:
                        row += dual[2, c, z - 1, y]
                plain = values[c, z, y]
                for x in range(width):
                    row[x] = plain[x] - weight * row[x]
