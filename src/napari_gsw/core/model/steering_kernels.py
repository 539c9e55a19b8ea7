"""How much the sites look like what was painted, compiled."""

from __future__ import annotations

import math

from napari_gsw.core.arrays import Floats
from napari_gsw.core.jit import njit


@njit
def log_likeness(values: Floats, painted: Floats, width: float, floor: float, out: Floats) -> None:
    """out[i] = log(floor + mean over p of exp(-|values_i - painted_p|^2 / (2 width^2))).

    Parameters
    ----------
    values : (n, C) of the sites. painted : (p, C) of painted ones, p >= 1. out : (n,) is written.
    """
    scale = -0.5 / (width * width)
    for i in range(values.shape[0]):
        total = 0.0
        for p in range(painted.shape[0]):
            square = 0.0
            for c in range(values.shape[1]):
                step = values[i, c] - painted[p, c]
                square += step * step
            total += math.exp(scale * square)
        out[i] = math.log(floor + total / painted.shape[0])
