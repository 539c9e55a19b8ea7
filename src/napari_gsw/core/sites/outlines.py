"""Outlines of large label images, several rows at a time on all cores."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.arrays import LabelImage
from napari_gsw.core.sites.outline_kernels import outline_rows
from napari_gsw.core.threads import cores

# Rows that a thread does at a time.
ROWS = 512


def outlines(labels: LabelImage, thickness: int) -> LabelImage:
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
    with ThreadPoolExecutor(cores()) as threads:
        jobs = [
            threads.submit(outline_rows, labels, thickness, y, min(y + ROWS, height), out)
            for y in range(0, height, ROWS)
        ]
        for job in jobs:
            job.result()
    return out


def outlines_after(labels: LabelImage, thickness: int, before: LabelImage, drawn: LabelImage) -> LabelImage:
    """As :func:`outlines` of labels (h, w), made only around what differs from other labels whose outlines are `drawn`.

    Where nothing differs they are `drawn` itself.

    Examples
    --------
    >>> before = np.array([[5, 5, 5, 7, 7, 7, 7, 7]], np.uint16)
    >>> outlines_after(np.array([[5, 5, 7, 7, 7, 7, 7, 7]], np.uint16), 1, before, outlines(before, 1)).tolist()
    [[0, 5, 7, 0, 0, 0, 0, 0]]
    """
    rows = np.flatnonzero((labels != before).any(axis=1))
    if not rows.size:
        return drawn
    band = slice(int(rows[0]), int(rows[-1]) + 1)
    places = rows, np.flatnonzero((labels[band] != before[band]).any(axis=0))
    # What may look otherwise, and what that depends on.
    inner, outer = (
        tuple(_around(place, reach, length) for place, length in zip(places, labels.shape, strict=True))
        for reach in (thickness, 2 * thickness)
    )
    out = drawn.copy()
    part = tuple(slice(i.start - o.start, i.stop - o.start) for i, o in zip(inner, outer, strict=True))
    out[inner] = outlines(labels[outer], thickness)[part]
    return out


def _around(places: NDArray[np.intp], reach: int, length: int) -> slice:
    """From the first to the last of some places in ascending order, and `reach` further to either side."""
    return slice(max(0, int(places[0]) - reach), min(length, int(places[-1]) + 1 + reach))
