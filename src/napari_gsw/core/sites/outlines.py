"""Outlines of labels, compiled, for images that are too large for napari's own contours."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from napari_gsw.core.array_types import LabelImage
from napari_gsw.core.jit import njit
from napari_gsw.core.threads import count_cores

# Rows that a thread draws at a time.
ROWS = 512


@njit
def draw_rows(labels: LabelImage, thickness: int, first: int, last: int, out: LabelImage) -> None:
    """Draw the rows from `first` to `last` - 1 of the outlines.

    A pixel is kept where the largest label among it and its four neighbours differs from the smallest label among the
    pixels within `thickness` steps along the axes. This is the rule of napari: the smaller label has the thin side.
    """
    height, width = labels.shape
    high, low = np.empty(width, labels.dtype), np.empty(width, labels.dtype)
    for y in range(first, last):
        row = labels[y]
        for x in range(width):
            high[x] = row[x]
            low[x] = row[x]
        for dy in range(max(-thickness, -y), min(thickness, height - 1 - y) + 1):
            reach = thickness - abs(dy)
            for dx in range(-min(reach, width - 1), min(reach, width - 1) + 1):
                start, count = max(0, -dx), width - abs(dx)
                neighbour = labels[y + dy, start + dx : start + dx + count]
                lowest, highest = low[start : start + count], high[start : start + count]
                for x in range(count):
                    lowest[x] = min(lowest[x], neighbour[x])
                if abs(dy) + abs(dx) <= 1:
                    for x in range(count):
                        highest[x] = max(highest[x], neighbour[x])
        for x in range(width):
            out[y, x] = row[x] if high[x] != low[x] else row[x] - row[x]


def draw_outlines(labels: LabelImage, thickness: int) -> LabelImage:
    """Keep each label (h, w) at its boundaries with other labels, and set all other pixels to 0.

    Examples
    --------
    >>> draw_outlines(np.array([[5, 5, 5, 7, 7]], np.uint16), 1).tolist()
    [[0, 0, 5, 7, 0]]
    """
    labels = np.ascontiguousarray(labels)
    out = np.empty_like(labels)
    starts = range(0, len(labels), ROWS)
    with ThreadPoolExecutor(max(1, min(count_cores(), len(starts)))) as threads:
        list(threads.map(lambda y: draw_rows(labels, thickness, y, min(y + ROWS, len(labels)), out), starts))
    return out
