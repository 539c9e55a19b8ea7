"""Pixels that a person has painted, kept so that a later stroke in the same site does not outvote them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from napari_gsw.core.arrays import LabelImage, Longs, Mask, Sites
from napari_gsw.core.sites.stroke_sites import mixed_sites
from napari_gsw.core.sites.strokes import Stroke


class PaintChange(NamedTuple):
    """What a stroke did to painted pixels: (p,) places in the flattened image, labels before and after; 0 is none."""

    pixels: Longs
    before: LabelImage
    after: LabelImage


def paint_change(paint: LabelImage, stroke: Stroke) -> PaintChange:
    """What a stroke does to what is painted (\\*shape,). A site that is erased loses all its paint."""
    pixels, after = stroke.pixels, stroke.labels
    erased = stroke.sites[stroke.numbers == 0]
    if erased.size:
        inside = np.zeros(int(stroke.site_image.max()) + 1, bool)
        inside[erased + 1] = True
        rest = np.setdiff1d(np.flatnonzero((paint.reshape(-1) != 0) & inside[stroke.site_image.reshape(-1)]), pixels)
        pixels, after = np.concatenate((pixels, rest)), np.concatenate((after, np.zeros(len(rest), np.int64)))
    return PaintChange(pixels, paint.reshape(-1)[pixels], after.astype(paint.dtype))


def meeting_strokes(stroke: Stroke, paint: LabelImage, locks: Mask, numbers: Longs) -> LabelImage | None:
    """(\\*shape,) the paint in sites where a stroke meets another label that is kept there; None if it meets none.

    Parameters
    ----------
    paint : (\\*shape,) what was painted before, 0 where nothing was.
    locks, numbers : (n,) which sites are held, and the number of each. Paint of another number is of the past.
    """
    flat = stroke.site_image.reshape(-1)
    suspects = stroke.sites[locks[stroke.sites] & (stroke.numbers > 0) & (numbers[stroke.sites] != stroke.numbers)]
    suspects = np.union1d(suspects, _of_several_labels(stroke, flat))
    if not suspects.size:
        return None
    held = np.zeros(len(locks) + 1, np.int64)  # number that is kept in each suspect, by the number of the site
    held[suspects + 1] = np.where(locks[suspects], numbers[suspects], 0)
    strokes = np.where((paint > 0) & (held[stroke.site_image] == paint), paint, 0).astype(np.int64)
    mine = np.isin(flat[stroke.pixels] - 1, suspects)
    strokes.reshape(-1)[stroke.pixels[mine]] = stroke.labels[mine]
    return strokes if mixed_sites(stroke.site_image, strokes).size else None


def _of_several_labels(stroke: Stroke, flat: Sites) -> Longs:
    """(s,) sites, from 0, in which a stroke itself has several labels; `flat` has the site of each pixel."""
    painted = stroke.labels > 0
    if not painted.any() or stroke.labels[painted].min() == stroke.labels[painted].max():
        return np.zeros(0, np.int64)
    site, label = flat[stroke.pixels[painted]].astype(np.int64), stroke.labels[painted]
    number, labels_in = np.unique(np.unique(np.stack((site, label)), axis=1)[0], return_counts=True)
    return np.asarray(number[labels_in > 1] - 1)
