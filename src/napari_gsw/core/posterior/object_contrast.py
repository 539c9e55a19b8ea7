"""Whether objects stand out from the background: the border of an object is a border of the image, too.

Whatever is cut at a level has parts above it, be it noise, a ramp, or what a lens out of focus has left. But in such an
image the slope has nothing to do with the level: it is about as steep along the cut as anywhere else. (In a stationary
Gaussian field the two are independent, and the mean slope along a level is 2 / sqrt(pi) = 1.13 times the root mean
square of all slopes.) And what is above the level hangs together with what is below: their means are 2.65 standard
deviations apart if values are Gaussian, and 3.46 if they are even as in a ramp. The product of the two figures is how
distinct objects are: about 3 in a Gaussian field, 4 to 6 in noise and ramps, more than 8 in pictures of nuclei.

A border is narrow, too: the height of an object over the slope of its border says by how much it is out of focus.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.array_types import BoolArray, Float64Array, Int32Array

# Width in pixels of the Gaussian under which slopes are measured, and pixels on either side that a border takes up.
WIDTH, REACH = 1.5, 3
# Of an image with a smaller share of pixels elsewhere, all pixels are elsewhere.
MIN_ELSEWHERE = 0.02
# What counts for pictures counts for volumes in this share: a surface is an average over more than a line is, so that
# noise, ramps and haze reach 4.4 there and not 6, while crowded nuclei that shine into each other's planes have 5.9.
VOLUME = 0.8
# The border of one object is at least so many times as steep as what is elsewhere.
MIN_STEEPNESS = 1.5
# A border is in focus if it is not wider than so many pixels, or, of a large object, than this share of its radius and
# so many pixels at most. All borders together have a narrower limit.
SHARP, SOFT, SOFTEST = 6.0, 0.25, 8.0
ALL_SHARP, ALL_SOFT = 4.5, 0.08
# The height of a step over its slope, in units of the width of the Gaussian that has blurred it.
STEP = np.sqrt(2 * np.pi)


class EdgeContrast(NamedTuple):
    """Sums over the pixels of an image, which can be added up over its parts.

    Attributes
    ----------
    border : (objects + 1, 2) slopes along the border of each object with the background, and pixels there.
    light : (objects + 1, 3) signal in each object (the first is the background), its square, and pixels.
    elsewhere : (2,) slopes far from borders, and pixels there.
    anywhere : (2,) squares of all slopes, and pixels.
    """

    border: Float64Array
    light: Float64Array
    elsewhere: Float64Array
    anywhere: Float64Array

    @property
    def typical(self) -> float:
        """The mean slope far from borders."""
        few = self.elsewhere[1] < MIN_ELSEWHERE * self.anywhere[1]
        return float(np.sqrt(_mean(self.anywhere)) if few else _mean(self.elsewhere))

    @property
    def distinction(self) -> float:
        """How distinct all objects together are: steepness of their borders times separation of their signal."""
        steepness = float(_mean(self.border.sum(axis=0))) / max(float(np.sqrt(_mean(self.anywhere))), 1e-12)
        classes = np.stack((self.light[0], self.light[1:].sum(axis=0)))
        mean = _mean(classes[:, ::2])
        within = (classes[:, 1] - classes[:, 2] * mean**2).sum() / max(classes[:, 2].sum(), 1)
        return steepness * float(np.abs(mean[1] - mean[0])) / max(float(np.sqrt(max(within, 0.0))), 1e-12)


def measure_contrast(
    objects: Int32Array,
    inside: BoolArray,
    light: NDArray[np.float32],
    core: tuple[slice, ...] | None = None,
    pieces: Int32Array | None = None,
) -> EdgeContrast:
    """Slopes of a signal along the borders of objects, and elsewhere.

    Parameters
    ----------
    objects : (\\*shape,) objects 1, 2, ..., 0 for the background.
    inside : (\\*shape,) where there are sites.
    light : (\\*shape,) the signal.
    core : the part in which slopes are summed, where the rest belongs to others; None for all.
    pieces : (\\*core,) the numbers by which they are summed there; None for those of the objects.
    """
    from scipy import ndimage

    part = (...,) if core is None else core
    numbers = objects[part] if pieces is None else pieces
    glow = light.astype(np.float64)
    steep = ndimage.gaussian_gradient_magnitude(glow, WIDTH)[part]
    edge = (objects > 0) & ndimage.binary_dilation(inside & (objects == 0))
    away = (inside & ~ndimage.binary_dilation(edge, iterations=REACH))[part]
    edge, within, glow = edge[part], inside[part], glow[part]
    k = int(numbers.max(initial=0)) + 1
    return EdgeContrast(
        border=_sums(numbers[edge], k, steep[edge]),
        light=_sums(numbers[within], k, glow[within], glow[within] ** 2),
        elsewhere=np.array([steep[away].sum(), away.sum()]),
        anywhere=np.array([np.square(steep[within]).sum(), within.sum()]),
    )


def has_contrast(measured: EdgeContrast, least: float, axes: int) -> bool:
    """Whether all objects of an image with so many axes are together as distinct as `least` asks of a picture's."""
    return measured.distinction >= (least if axes == 2 else VOLUME * least)


def find_contrasting_objects(measured: EdgeContrast, least: float, axes: int) -> BoolArray:
    """(objects + 1,) which objects stand out: all of them together, and each with a steep and narrow border.

    If they are not distinct together, none is: the steepest of many are so by chance. An object that does not touch the
    background is as good as the others together.

    Parameters
    ----------
    least : how distinct all objects of a picture together have to be.
    axes : of the image's space.
    """
    touching = measured.border[:, 1] > 0
    nothing = np.zeros(len(touching), bool)
    if not has_contrast(measured, least, axes):
        return nothing
    slope, pixels = _mean(measured.border), measured.light[:, 2]
    mean = _mean(measured.light[:, ::2])
    height = np.abs(mean - mean[0]) / STEP
    radius = np.sqrt(pixels / np.pi) if axes == 2 else np.cbrt(pixels * 0.75 / np.pi)
    length = measured.border[:, 1]
    width_of_all = (height @ length) / max(slope @ length, 1e-12)
    if width_of_all > max(ALL_SHARP, ALL_SOFT * (radius @ length) / max(length.sum(), 1)):
        return nothing
    wide = height > slope * np.clip(SOFT * radius, SHARP, SOFTEST)
    return np.asarray(~touching | ((slope >= MIN_STEEPNESS * measured.typical) & ~wide))


def _sums(numbers: Int32Array, count: int, *values: Float64Array) -> Float64Array:
    """(count, values + 1) sums of the values of each number, and how many they are."""
    return np.stack([*(np.bincount(numbers, v, count) for v in values), np.bincount(numbers, minlength=count)], axis=1)


def _mean(sums: Float64Array) -> Float64Array:
    """Means from sums (..., 2) and how many they are of; 0 for none."""
    return np.asarray(sums[..., 0] / np.maximum(sums[..., 1], 1))
