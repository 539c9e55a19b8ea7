"""A picture of few grey levels as it may have been before it was rounded to them.

Between two levels of a slope a rounded picture has a step that the scene has not. Where all of a picture lies within a
few levels such steps are as strong as its borders. Any value that would be rounded to the one that is there is as good;
a smooth one is taken, which flows from pixel to pixel where they differ by one level at most.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

# A picture with more levels than this between its dark and its bright end has no such step that is seen.
FEW_LEVELS = 8
# Percentiles that are its dark and its bright end.
BLACK, WHITE = 1.0, 99.8
# How often light flows, and how much of a difference at a time: it reaches some ten pixels.
TIMES, SHARE = 100, 0.25


def unrounded(values: NDArray[Any], most: int = FEW_LEVELS) -> NDArray[Any]:
    """(h, w) or (h, w, c) float32 that rounds to the values and is smooth; the values if they have more levels.

    >>> unrounded(np.array([[0, 0, 1, 1], [0, 0, 5, 5]])).round(2)[0].tolist()
    [0.5, 0.5, 0.5, 0.5]
    """
    if values.dtype.kind not in "iu" or not np.subtract(*np.percentile(values, (WHITE, BLACK))) <= most:
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
