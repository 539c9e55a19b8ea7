"""Contrast of objects with the background: the border of an object is a border of the image, too.

A threshold cuts objects out of any image, also out of noise, a ramp or blur. In such an image slopes do not depend on
the level: the border is about as steep as the rest. (In a stationary Gaussian field the mean slope along a level is
2 / sqrt(pi) = 1.13 times the root mean square of all slopes.) The means above and below the level are then 2.65
standard deviations apart if values are Gaussian, and 3.46 in a ramp. The product of steepness and separation is the
distinction of objects: about 3 in a Gaussian field, 4 to 6 in noise and ramps, more than 8 in images of nuclei.

A border is also narrow: the height of an object over the slope of its border measures the blur.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.array_types import BoolArray, Float64Array, Int32Array

# Width in pixels of the Gaussian under which slopes are measured, and pixels on either side that a border takes up.
WIDTH, REACH = 1.5, 3
# In an image with a smaller fraction of pixels far from borders, all pixels count as far.
MIN_ELSEWHERE = 0.02
# The limit of 2D images applies to volumes with this factor. A surface averages over more than a line does, so that
# noise, ramps and haze reach 4.4 there and not 6, while crowded nuclei that blur into each other's slices have 5.9.
VOLUME = 0.8
# The border of one object is at least this many times as steep as the rest.
MIN_STEEPNESS = 1.5
# A border is in focus up to this width in pixels, or for a large object, up to this fraction of its radius and at most
# the third value. All borders together have a lower limit.
SHARP, SOFT, SOFTEST = 6.0, 0.25, 8.0
ALL_SHARP, ALL_SOFT = 4.5, 0.08
# The height of a step over its slope, in units of the width of the Gaussian that has blurred it.
STEP = np.sqrt(2 * np.pi)


class EdgeContrast(NamedTuple):
    """Sums over the pixels of an image, which can be added up over its tiles."""

    border: Float64Array  # (objects + 1, 2) slopes along the border of each object with the background, and pixels
    signal: Float64Array  # (objects + 1, 3) signal in each object (the first is the background), its square, and pixels
    elsewhere: Float64Array  # (2,) slopes far from borders, and pixels
    anywhere: Float64Array  # (2,) squares of all slopes, and pixels

    @property
    def distinction(self) -> float:
        """Steepness of the borders of all objects times separation of their signal."""
        steepness = float(_mean(self.border.sum(axis=0))) / max(float(np.sqrt(_mean(self.anywhere))), 1e-12)
        classes = np.stack((self.signal[0], self.signal[1:].sum(axis=0)))
        mean = _mean(classes[:, ::2])
        within = (classes[:, 1] - classes[:, 2] * mean**2).sum() / max(classes[:, 2].sum(), 1)
        return steepness * float(np.abs(mean[1] - mean[0])) / max(float(np.sqrt(max(within, 0.0))), 1e-12)


def measure_contrast(
    objects: Int32Array,
    mask: BoolArray,
    signal: NDArray[np.float32],
    core: tuple[slice, ...] | None = None,
    pieces: Int32Array | None = None,
) -> EdgeContrast:
    """Sum the slopes of a signal along the borders of objects, and elsewhere; `mask` are the pixels with a site.

    Only the pixels of `core` are summed, by the labels `pieces` (\\*core,) in place of the objects.
    """
    from scipy import ndimage

    inner = (...,) if core is None else core
    labels = objects[inner] if pieces is None else pieces
    values = signal.astype(np.float64)
    slope = ndimage.gaussian_gradient_magnitude(values, WIDTH)[inner]
    edge = (objects > 0) & ndimage.binary_dilation(mask & (objects == 0))
    far = (mask & ~ndimage.binary_dilation(edge, iterations=REACH))[inner]
    edge, mask, values = edge[inner], mask[inner], values[inner]
    k = int(labels.max(initial=0)) + 1
    return EdgeContrast(
        border=_sum_by_label(labels[edge], k, slope[edge]),
        signal=_sum_by_label(labels[mask], k, values[mask], values[mask] ** 2),
        elsewhere=np.array([slope[far].sum(), far.sum()]),
        anywhere=np.array([np.square(slope[mask]).sum(), mask.sum()]),
    )


def has_contrast(contrast: EdgeContrast, min_distinction: float, ndim: int) -> bool:
    """Return whether all objects of an image together are distinct; the limit is that of 2D images."""
    return contrast.distinction >= (min_distinction if ndim == 2 else VOLUME * min_distinction)


def find_contrasting_objects(contrast: EdgeContrast, min_distinction: float, ndim: int) -> BoolArray:
    """(objects + 1,) objects that stand out: all of them together, and each with a steep and narrow border.

    If they are not distinct together, none is: the steepest of many are so by chance. An object that does not touch the
    background stands out if the others together do.
    """
    border, signal, elsewhere, anywhere = contrast
    length = border[:, 1]
    slope, mean = _mean(border), _mean(signal[:, ::2])
    height = np.abs(mean - mean[0]) / STEP
    radius = np.sqrt(signal[:, 2] / np.pi) if ndim == 2 else np.cbrt(signal[:, 2] * 0.75 / np.pi)
    width_of_all = (height @ length) / max(slope @ length, 1e-12)
    max_width = max(ALL_SHARP, ALL_SOFT * (radius @ length) / max(length.sum(), 1))
    if not has_contrast(contrast, min_distinction, ndim) or width_of_all > max_width:
        return np.zeros(len(length), bool)
    is_rare = elsewhere[1] < MIN_ELSEWHERE * anywhere[1]
    typical_slope = float(np.sqrt(_mean(anywhere)) if is_rare else _mean(elsewhere))
    is_wide = height > slope * np.clip(SOFT * radius, SHARP, SOFTEST)
    return np.asarray((length == 0) | ((slope >= MIN_STEEPNESS * typical_slope) & ~is_wide))


def _sum_by_label(labels: Int32Array, k: int, *values: Float64Array) -> Float64Array:
    """(k, values + 1) sums of the values of each label, and its pixels."""
    return np.stack([*(np.bincount(labels, v, k) for v in values), np.bincount(labels, minlength=k)], axis=1)


def _mean(sums: Float64Array) -> Float64Array:
    """Divide sums [..., 0] by their counts [..., 1]; 0 for none."""
    return np.asarray(sums[..., 0] / np.maximum(sums[..., 1], 1))
