"""Noise taken off, edges left: the image of least total variation near a noisy one, compiled.

Channels and axes come first in memory and the last axis of space last, so that a row is computed several pixels at a
time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.array_types import Float32Array, Float64Array
from napari_gsw.core.jit import njit, njit_inner, zeros
from napari_gsw.core.threads import count_cores

# np.float32 to numba, a plain number to the type checker
as_float32 = cast(Callable[[Any], float], np.float32)


@njit
def denoise_total_variation(values: Float32Array, weight: float, rounds: int) -> Float32Array:
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
def _project(image: Float32Array, dual: Float32Array, ahead: Float32Array, step: float, momentum: float) -> None:
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
def _restore(values: Float32Array, dual: Float32Array, weight: float, out: Float32Array) -> None:
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


Progress = Callable[[int, int], object]
# Differences that are looked at: the smaller ones, since large ones are edges, and of a part about so many.
KEPT_SHARE = 0.8
MOST_DIFFERENCES = 1 << 16
# The mean of these smaller ones, of Gaussian differences in units of their standard deviation.
KEPT_MEAN = 0.5586
# Weight of the total variation, in units of the noise, and rounds in which it is made small.
WEIGHT, ROUNDS = 1.2, 40
# Rows that are done at a time, each time in a thread, and rows beyond them that they depend on.
SLAB, REACH = 512, ROUNDS + 2
LITTLE = 0.01
NOTHING = 1e-9


def ignore_progress(done: int, total: int) -> None:
    """For who does not care how far it is."""


def estimate_noise(parts: Sequence[NDArray[Any]]) -> Float64Array:
    """(C,) standard deviation of the noise of an image, in units of its values.

    Parameters
    ----------
    parts : (\\*shape, C) that stand for the image, of any numeric type.
    """
    near, far = (_squared_scales(parts, lag) for lag in (1, 2))
    return np.sqrt(np.maximum(2 * near - far, 0))


def fill_zero_noise(noise: Float64Array, parts: Sequence[NDArray[Any]]) -> Float64Array:
    """(C,) the noise of an image; of a channel without any a hundredth of what it varies by in all parts.

    Channels are calmed together, each in units of its own, which are the same all over the image.
    """
    if (noise > 0).all():
        return noise
    rows = [part.reshape(-1, part.shape[-1]) for part in parts]
    spread = (rows[0] if len(rows) == 1 else np.concatenate(rows)).std(axis=0, dtype=np.float64)
    return np.where(noise > 0, noise, LITTLE * spread)


def denoise(
    values: NDArray[Any], noise: Float64Array, progress: Progress = ignore_progress, threads: int | None = None
) -> NDArray[np.floating[Any]]:
    """(\\*shape, C) float32 values of which noise has been taken off, and edges have not; float64 for wider floats.

    Parameters
    ----------
    values : (\\*shape, C) of any numeric type.
    noise : (C,) its standard deviation; one of 0 stands for a hundredth of what the channel varies by.
    threads : at most so many at a time; None for one a core.
    progress : of a large image called with how much of it is done, in slabs, and with how many there are; what it
        raises ends it.
    """
    rows = values.reshape(-1, values.shape[-1])
    centre, spread = rows.mean(axis=0, dtype=np.float64), rows.std(axis=0, dtype=np.float64)
    # Noise that is nothing beside what varies (one pixel of 1e9 among 1e-30) is none, or units would not be finite.
    scale = np.maximum(fill_zero_noise(noise, [values]), NOTHING * spread)
    scale = np.where(scale > 0, scale, 1.0)
    space = values.reshape((1,) * (4 - values.ndim) + values.shape)
    # What float64 holds may be too large or too small for float32.
    wide = values.dtype.kind == "f" and values.dtype.itemsize > 4
    calm = np.empty(space.shape, np.float64 if wide else np.float32)

    def slab(first: int) -> None:
        """So many rows of all planes, from those that they depend on."""
        last, above = first + SLAB, max(0, first - REACH)
        unit = ((space[:, above : last + REACH] - centre) / scale).astype(np.float32)
        flat = np.moveaxis(
            denoise_total_variation(np.ascontiguousarray(np.moveaxis(unit, -1, 0)), WEIGHT, ROUNDS), 0, -1
        )
        calm[:, first:last] = flat[:, first - above : last - above] * scale + centre

    slabs = range(0, space.shape[1], SLAB)
    most = min(count_cores() if threads is None else threads, len(slabs))
    if most == 1:
        for done, first in enumerate(slabs):
            slab(first)
            if len(slabs) > 1:
                progress(done + 1, len(slabs))
        return calm.reshape(values.shape)
    pool = ThreadPoolExecutor(most)
    try:
        for done, _ in enumerate(pool.map(slab, slabs)):
            progress(done + 1, len(slabs))
    finally:
        pool.shutdown(cancel_futures=True)
    return calm.reshape(values.shape)


def _squared_scales(parts: Sequence[NDArray[Any]], lag: int) -> Float64Array:
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
