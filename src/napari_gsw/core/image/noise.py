"""How noisy an image is, and the same image without its noise.

Noise is what differs from a pixel to the next and not more from there to the one after: in a surface, a texture or
behind a lens neighbours are alike, and pixels differ the more the farther apart they are. So the variance of noise is
what is left of the mean squared difference of pixels when their distance goes to 0 (the nugget of a variogram). A
photograph has hardly any, however rich it is in texture.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.arrays import Floats
from napari_gsw.core.image.noise_kernels import flattened
from napari_gsw.core.threads import cores

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


def unwatched(done: int, total: int) -> None:
    """For who does not care how far it is."""


def noise_of(parts: Sequence[NDArray[Any]]) -> Floats:
    """(C,) standard deviation of the noise of an image, in units of its values.

    Parameters
    ----------
    parts : (\\*shape, C) that stand for the image, of any numeric type.
    """
    near, far = (_squared_scales(parts, lag) for lag in (1, 2))
    return np.sqrt(np.maximum(2 * near - far, 0))


def noise_scales(noise: Floats, parts: Sequence[NDArray[Any]]) -> Floats:
    """(C,) the noise of an image; of a channel without any a hundredth of what it varies by in all parts.

    Channels are calmed together, each in units of its own, which are the same all over the image.
    """
    if (noise > 0).all():
        return noise
    rows = [part.reshape(-1, part.shape[-1]) for part in parts]
    spread = (rows[0] if len(rows) == 1 else np.concatenate(rows)).std(axis=0, dtype=np.float64)
    return np.where(noise > 0, noise, LITTLE * spread)


def calmed(
    values: NDArray[Any], noise: Floats, progress: Progress = unwatched, threads: int | None = None
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
    scale = np.maximum(noise_scales(noise, [values]), NOTHING * spread)
    scale = np.where(scale > 0, scale, 1.0)
    space = values.reshape((1,) * (4 - values.ndim) + values.shape)
    # What float64 holds may be too large or too small for float32.
    wide = values.dtype.kind == "f" and values.dtype.itemsize > 4
    calm = np.empty(space.shape, np.float64 if wide else np.float32)

    def slab(first: int) -> None:
        """So many rows of all planes, from those that they depend on."""
        last, above = first + SLAB, max(0, first - REACH)
        unit = ((space[:, above : last + REACH] - centre) / scale).astype(np.float32)
        flat = np.moveaxis(flattened(np.ascontiguousarray(np.moveaxis(unit, -1, 0)), WEIGHT, ROUNDS), 0, -1)
        calm[:, first:last] = flat[:, first - above : last - above] * scale + centre

    slabs = range(0, space.shape[1], SLAB)
    most = min(cores() if threads is None else threads, len(slabs))
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
