"""Outlines of labels, for images that are too large for napari's own contours."""

from __future__ import annotations

import numpy as np

from napari_gsw.core.array_types import LabelImage

# Rows that are drawn at a time: they stay in the cache.
ROWS = 64


def draw_outlines(labels: LabelImage, thickness: int) -> LabelImage:
    """Keep each label (h, w) at its boundaries with other labels, and set all other pixels to 0.

    A pixel is kept where the largest label among it and its four neighbours differs from the smallest label among the
    pixels within `thickness` steps along the axes. This is the rule of napari: the smaller label has the thin side.
    """
    height, width = labels.shape
    out = np.empty_like(labels)
    for first in range(0, height, ROWS):
        last = min(first + ROWS, height)
        low, high = labels[first:last].copy(), labels[first:last].copy()
        for dy in range(-thickness, thickness + 1):
            reach = min(thickness - abs(dy), width - 1)
            top, bottom = max(first, -dy), min(last, height - dy)
            if top >= bottom:
                continue
            for dx in range(-reach, reach + 1):
                here = np.s_[top - first : bottom - first, max(0, -dx) : width - max(0, dx)]
                there = labels[top + dy : bottom + dy, max(0, dx) : width - max(0, -dx)]
                np.minimum(low[here], there, out=low[here])
                if abs(dy) + abs(dx) <= 1:
                    np.maximum(high[here], there, out=high[here])
        out[first:last] = np.where(high != low, labels[first:last], 0)
    return out
