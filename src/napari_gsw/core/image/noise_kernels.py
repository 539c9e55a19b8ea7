"""Noise taken off, edges left: the image of least total variation near a noisy one, compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from napari_gsw.core.arrays import Floats32
from napari_gsw.core.jit import inner, jit

# np.float32 to numba, a plain number to the type checker
as_float32 = cast(Callable[[Any], float], np.float32)


@jit
def flattened(values: Floats32, weight: float, rounds: int) -> Floats32:
    """The u that minimises |u - values|^2 / 2 + weight * (sum over pixels of the length of its gradient), about.

    The length is that over all axes and channels together, so that channels have their edges in the same places. It is
    found by gradient projection on the dual problem with Nesterov's momentum (Beck and Teboulle 2009).

    Parameters
    ----------
    values : (Z, Y, X, C) float32.
    weight : > 0.
    rounds : of the projection.

    Returns
    -------
    (Z, Y, X, C) float32.
    """
    depth, height, width, channels = values.shape
    axes = 3 if depth > 1 else 2
    dual = np.zeros((depth, height, width, axes, channels), np.float32)
    ahead = np.zeros((depth, height, width, axes, channels), np.float32)
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


@inner
def _project(image: Floats32, dual: Floats32, ahead: Floats32, step: float, momentum: float) -> None:
    """A step of the dual along the gradient of the image, back into the unit ball of each pixel, and a look ahead.

    Parameters
    ----------
    image : (Z, Y, X, C) float32.
    dual, ahead : (Z, Y, X, axes, C) float32, changed.
    """
    depth, height, width, axes, channels = dual.shape
    for z in range(depth):
        for y in range(height):
            for x in range(width):
                total = np.float32(0)
                for a in range(axes):
                    # The last axis of space is the first of the dual's.
                    nx, ny, nz = x + (a == 0), y + (a == 1), z + (a == 2)
                    if nx < width and ny < height and nz < depth:
                        for c in range(channels):
                            ahead[z, y, x, a, c] += step * (image[nz, ny, nx, c] - image[z, y, x, c])
                            total += ahead[z, y, x, a, c] * ahead[z, y, x, a, c]
                share = np.float32(1) / max(np.float32(1), np.sqrt(total))
                for a in range(axes):
                    for c in range(channels):
                        new = ahead[z, y, x, a, c] * share
                        ahead[z, y, x, a, c] = new + momentum * (new - dual[z, y, x, a, c])
                        dual[z, y, x, a, c] = new


@inner
def _restore(values: Floats32, dual: Floats32, weight: float, out: Floats32) -> None:
    """The image that belongs to a dual: values minus weight times its adjoint gradient.

    Parameters
    ----------
    values, out : (Z, Y, X, C) float32; out is written.
    dual : (Z, Y, X, axes, C) float32.
    """
    depth, height, width, axes, channels = dual.shape
    for z in range(depth):
        for y in range(height):
            for x in range(width):
                for c in range(channels):
                    flow = -dual[z, y, x, 0, c] - dual[z, y, x, 1, c]
                    if x > 0:
                        flow += dual[z, y, x - 1, 0, c]
                    if y > 0:
                        flow += dual[z, y - 1, x, 1, c]
                    if axes > 2:
                        flow -= dual[z, y, x, 2, c]
                        if z > 0:
                            flow += dual[z - 1, y, x, 2, c]
                    out[z, y, x, c] = values[z, y, x, c] - weight * flow
