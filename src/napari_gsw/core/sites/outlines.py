"""Outlines of large label images, several rows at a time on all cores."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

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
