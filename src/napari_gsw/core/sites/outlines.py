"""Outlines of labels, compiled, for images that are too large for what napari draws them with."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from napari_gsw.core.array_types import LabelImage
from napari_gsw.core.jit import njit
from napari_gsw.core.threads import count_cores


@njit
def outline_rows(labels: LabelImage, thickness: int, first: int, last: int, out: LabelImage) -> None:
    """Some rows of the outlines of a label image: as it is at its boundaries, 0 elsewhere.

    A pixel is kept where the largest label of it and the four beside it is not the smallest of those that are at most
    `thickness` steps along the axes away: the rule of napari, by which the smaller of two labels has the thin side.

    Parameters
    ----------
    labels : (h, w) of any unsigned type.
    first, last : the rows, from first to last - 1.
    out : (h, w) of the same type; the rows are written.
    """
    height, width = labels.shape
    high, low = np.empty(width, labels.dtype), np.empty(width, labels.dtype)
    for y in range(first, last):
        row = labels[y]
        for x in range(width):
            high[x] = row[x]
            low[x] = row[x]
        for dy in range(max(-thickness, -y), min(thickness, height - 1 - y) + 1):
            other = labels[y + dy]
            reach = thickness - abs(dy)
            for dx in range(-min(reach, width - 1), min(reach, width - 1) + 1):
                start, count = max(0, -dx), width - abs(dx)
                there = other[start + dx : start + dx + count]
                least = low[start : start + count]
                for x in range(count):
                    least[x] = min(least[x], there[x])
                if abs(dy) + abs(dx) <= 1:
                    most = high[start : start + count]
                    for x in range(count):
                        most[x] = max(most[x], there[x])
        drawn = out[y]
        for x in range(width):
            drawn[x] = row[x] if high[x] != low[x] else row[x] - row[x]


# Rows that a thread does at a time.
ROWS = 512


def draw_outlines(labels: LabelImage, thickness: int) -> LabelImage:
    """(h, w) of the type of labels (h, w): each label at its boundaries with others, 0 elsewhere.

    Examples
    --------
    >>> outlines(np.array([[5, 5, 5, 7, 7]], np.uint16), 1).tolist()
    [[0, 0, 5, 7, 0]]
    """
    labels = np.ascontiguousarray(labels)
    out = np.empty_like(labels)
    height = labels.shape[0]
    if height <= ROWS:
        outline_rows(labels, thickness, 0, height, out)
        return out
    with ThreadPoolExecutor(count_cores()) as threads:
        jobs = [
            threads.submit(outline_rows, labels, thickness, y, min(y + ROWS, height), out)
            for y in range(0, height, ROWS)
        ]
        for job in jobs:
            job.result()
    return out
