"""A picture that is as much work as a photograph, of any size: smooth regions, shading, texture and noise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

REGIONS = 12
# The regions are laid out on a coarse grid and enlarged; the texture is a tile that repeats.
COARSE, TILE = 64, 256


def make_photograph(rows: int, columns: int, seed: int = 0) -> NDArray[np.uint8]:
    """(rows, columns, 3) RGB; the same scene whatever the size, with grain of a fixed width in pixels."""
    rng = np.random.default_rng(seed)
    y = np.linspace(0, COARSE - 1, rows, dtype=np.float32)[:, np.newaxis]
    x = np.linspace(0, COARSE - 1, columns, dtype=np.float32)[np.newaxis]

    def enlarged(field: NDArray[np.float64]) -> NDArray[np.float32]:
        where = np.broadcast_arrays(y, x)
        return ndimage.map_coordinates(field.astype(np.float32), where, order=1, output=np.float32)

    def smooth(width: float) -> NDArray[np.float64]:
        field = ndimage.gaussian_filter(rng.normal(size=(COARSE, COARSE)), width)
        return np.asarray(field / field.std())

    region = np.zeros((rows, columns), np.int8)
    highest = enlarged(smooth(8.0))
    for k in range(1, REGIONS):  # one field at a time: a large picture has no room for all
        field = enlarged(smooth(8.0))
        higher = field > highest
        region[higher] = k
        highest[higher] = field[higher]
    tile = ndimage.gaussian_filter(rng.normal(size=(TILE, TILE)), 1.5, mode="wrap")
    repeats = (-(-rows // TILE), -(-columns // TILE))
    grain = np.tile((tile / tile.std()).astype(np.float32), repeats)[:rows, :columns]
    light = 14 * enlarged(smooth(12.0)) + rng.uniform(0, 22, REGIONS).astype(np.float32)[region] * grain
    colours = rng.uniform(40, 215, (REGIONS, 3)).astype(np.float32)
    picture = np.empty((rows, columns, 3), np.uint8)
    for c in range(3):
        noisy = colours[region, c] + light + 5 * rng.standard_normal(region.shape, np.float32)
        picture[..., c] = np.clip(noisy, 0, 255)
    return picture
