"""Remove noise and keep edges: total variation of all channels together, compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.array_types import Float32Array, Float64Array
from napari_gsw.core.jit import njit, njit_inner, zeros
from napari_gsw.core.threads import count_cores

Progress = Callable[[int, int], object] | None  # called with the number of slabs done and of all
# np.float32 to numba, a plain number to the type checker
as_float32 = cast(Callable[[Any], float], np.float32)
# Noise is estimated from this fraction of the differences of neighbours, since large ones are edges, and in each part
# of an image from about so many of them.
SMALL_FRACTION, MAX_DIFFERENCES = 0.8, 1 << 16
# Mean of these smaller ones, for Gaussian differences of standard deviation 1.
SMALL_MEAN = 0.5586
# Weight of the total variation, in units of the noise, and rounds of the minimization.
WEIGHT, ROUNDS = 1.2, 40
# Rows that a thread works on at a time, and rows beyond them that they depend on.
SLAB, HALO = 512, ROUNDS + 2
# Noise of a channel without noise, as a fraction of its standard deviation, and the smallest that is finite in units.
DEFAULT_FRACTION, MIN_FRACTION = 0.01, 1e-9


def estimate_noise(samples: Sequence[NDArray[Any]]) -> Float64Array:
    """Estimate the standard deviation (C,) of the noise from samples (*shape, C) of an image."""
    return np.sqrt(np.maximum(2 * _estimate_variance(samples, 1) - _estimate_variance(samples, 2), 0))


def fill_zero_noise(noise: Float64Array, samples: Sequence[NDArray[Any]]) -> Float64Array:
    """Replace zeros in the noise (C,) by a hundredth of the channel's standard deviation over all samples.

    Channels are denoised together, each in units of its noise.
    """
    if (noise > 0).all():
        return noise
    spread = np.concatenate([s.reshape(-1, s.shape[-1]) for s in samples]).std(axis=0, dtype=np.float64)
    return np.where(noise > 0, noise, DEFAULT_FRACTION * spread)


def denoise(
    values: NDArray[Any], noise: Float64Array, progress: Progress = None, threads: int | None = None
) -> NDArray[np.floating[Any]]:
    """Remove noise from values (*shape, C) of any type and keep edges: float32, or float64 if the values are.

    `noise` (C,) are standard deviations; 0 stands for a hundredth of the channel's own. `progress` is called after each
    slab of a large image, and what it raises ends the function. There is one thread per core by default.
    """
    rows = values.reshape(-1, values.shape[-1])
    centre, spread = rows.mean(axis=0, dtype=np.float64), rows.std(axis=0, dtype=np.float64)
    # One pixel of 1e9 among 1e-30 has no noise: in its units values would be infinite.
    scale = np.maximum(fill_zero_noise(noise, [values]), MIN_FRACTION * spread)
    scale = np.where(scale > 0, scale, 1.0)
    volume = values.reshape((1,) * (4 - values.ndim) + values.shape)
    is_wide = values.dtype.kind == "f" and values.dtype.itemsize > 4  # may be too large or too small for float32
    result = np.empty(volume.shape, np.float64 if is_wide else np.float32)

    def denoise_slab(first: int) -> None:
        last, start = first + SLAB, max(0, first - HALO)
        scaled = ((volume[:, start : last + HALO] - centre) / scale).astype(np.float32)
        smooth = minimize_total_variation(np.ascontiguousarray(np.moveaxis(scaled, -1, 0)), WEIGHT, ROUNDS)
        result[:, first:last] = np.moveaxis(smooth, 0, -1)[:, first - start : last - start] * scale + centre

    slabs = range(0, volume.shape[1], SLAB)
    pool = ThreadPoolExecutor(min(count_cores() if threads is None else threads, len(slabs)))
    try:
        for n_done, _ in enumerate(pool.map(denoise_slab, slabs), 1):
            if progress is not None and len(slabs) > 1:
                progress(n_done, len(slabs))
    finally:
        pool.shutdown(cancel_futures=True)
    return result.reshape(values.shape)


def _estimate_variance(samples: Sequence[NDArray[Any]], lag: int) -> Float64Array:
    """Estimate half the mean square (C,) of differences of pixels `lag` apart, as if Gaussian; 0 in narrow samples.

    Only along the last two axes of space, since the slices of a volume may be far apart.
    """
    channels = samples[0].shape[-1]
    variances = []
    for axis in (-2, -3):
        lines = [np.moveaxis(s, axis, 0).reshape(s.shape[axis], -1, channels) for s in samples]
        lines = [line[:, :: 1 + line.size // (channels * MAX_DIFFERENCES)].astype(np.float64) for line in lines]
        steps = np.concatenate([np.abs(line[lag:] - line[:-lag]).reshape(-1, channels) for line in lines])
        if len(steps):
            count = max(1, int(SMALL_FRACTION * len(steps)))
            scale = np.partition(steps, count - 1, axis=0)[:count].mean(axis=0) / SMALL_MEAN
            variances.append(scale**2 / 2)
    return np.mean(variances, axis=0) if variances else np.zeros(channels)


@njit
def minimize_total_variation(values: Float32Array, weight: float, rounds: int) -> Float32Array:
    """Find about the u that minimizes |u - values|^2 / 2 + weight * sum over pixels of the length of its gradient.

    The length is that over all axes and channels together, so that channels (C, Z, Y, X) have their edges in the same
    places. The method is gradient projection on the dual problem with Nesterov's momentum (Beck and Teboulle 2009). A
    pixel depends on those at most `rounds` + 1 pixels away along an axis.
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
        _step_dual(out, dual, ahead, step, as_float32((pace - 1) / next_pace))
        _apply_dual(values, ahead, as_float32(weight), out)
        pace = next_pace
    _apply_dual(values, dual, as_float32(weight), out)
    return out


@njit_inner
def _step_dual(image: Float32Array, dual: Float32Array, ahead: Float32Array, step: float, momentum: float) -> None:
    """Step along the gradient of the image, back into the unit ball of each pixel, and ahead by the momentum.

    `dual` and `ahead` are (axes, C, Z, Y, X), X first among the axes. At the end of an axis they stay 0.
    """
    axes, channels, depth, height, width = dual.shape
    factor = np.empty(width, np.float32)
    for z in range(depth):
        for y in range(height):
            factor[:] = np.float32(0)
            for a in range(axes):
                if y + (a == 1) == height or z + (a == 2) == depth:
                    continue
                last = width - (a == 0)
                for c in range(channels):
                    pixels, row = image[c, z, y, :last], ahead[a, c, z, y]
                    following = image[c, z + (a == 2), y + (a == 1), width - last :]
                    for x in range(last):
                        row[x] += step * (following[x] - pixels[x])
                        factor[x] += row[x] * row[x]
            for x in range(width):
                factor[x] = np.float32(1) / max(np.float32(1), np.sqrt(factor[x]))
            for a in range(axes):
                for c in range(channels):
                    row, old = ahead[a, c, z, y], dual[a, c, z, y]
                    for x in range(width):
                        new = row[x] * factor[x]
                        row[x] = new + momentum * (new - old[x])
                        old[x] = new


@njit_inner
def _apply_dual(values: Float32Array, dual: Float32Array, weight: float, out: Float32Array) -> None:
    """Write the image of a dual: the values minus the weight times the adjoint gradient of the dual."""
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
                value = values[c, z, y]
                for x in range(width):
                    row[x] = value[x] - weight * row[x]
