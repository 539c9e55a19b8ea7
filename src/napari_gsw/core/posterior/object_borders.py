"""Whether objects stand out from the background: the border of an object is a border of the image, too.

Whatever is cut at a level has parts above it, be it noise, a ramp, or what a lens out of focus has left. But in such an
image the slope has nothing to do with the level: it is about as steep along the cut as anywhere else (in a stationary
Gaussian field the two are independent, and the mean slope along a level is 4 / pi = 1.27 times that of all). Around
objects it is several times steeper. So the slope along a border is measured in units of the slope elsewhere. And a
border is narrow: the height of an object over the slope of its border says by how much it is out of focus.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from napari_gsw.core.arrays import Floats, Ints, Mask

# Width in pixels of the Gaussian under which slopes are measured, and pixels on either side that a border takes up.
WIDTH, REACH = 1.5, 3
# Of an image with a smaller share of pixels elsewhere, all pixels are elsewhere.
LEAST_ELSEWHERE = 0.02
# One object among those that stand out together may be so much flatter than is asked of all of them.
EACH = 0.5
# A border is in focus if it is not wider than so many pixels, or than this share of the object's radius.
SHARP, SOFT = 4.5, 0.25
# The height of a step over its slope, in units of the width of the Gaussian that has blurred it.
STEP = np.sqrt(2 * np.pi)


class Slopes(NamedTuple):
    """Sums of slopes, which can be added up over the parts of an image.

    Attributes
    ----------
    border : (objects + 1, 2) sum of the slopes along the border of each object with the background, and pixels there.
    light : (objects + 1, 2) sum of the signal in each object (the first is the background), and its pixels.
    elsewhere : (2,) sum of the slopes far from borders, and pixels there.
    anywhere : (2,) the same of all pixels.
    """

    border: Floats
    light: Floats
    elsewhere: Floats
    anywhere: Floats

    @property
    def typical(self) -> float:
        """The mean slope far from borders."""
        few = self.elsewhere[1] < LEAST_ELSEWHERE * self.anywhere[1]
        return float(_mean(self.anywhere if few else self.elsewhere))


def slopes(
    objects: Ints,
    inside: Mask,
    light: NDArray[np.float32],
    core: tuple[slice, ...] | None = None,
    pieces: Ints | None = None,
) -> Slopes:
    """Slopes of a signal along the borders of objects, and elsewhere.

    Parameters
    ----------
    objects : (\\*shape,) objects 1, 2, ..., 0 for the background.
    inside : (\\*shape,) where there are sites.
    light : (\\*shape,) the signal.
    core : the part in which slopes are summed, where the rest belongs to others; None for all.
    pieces : (\\*core,) the numbers by which they are summed there; None for those of the objects.
    """
    part = (...,) if core is None else core
    numbers = objects[part] if pieces is None else pieces
    steep = ndimage.gaussian_gradient_magnitude(light.astype(np.float64), WIDTH)[part]
    edge = (objects > 0) & ndimage.binary_dilation(inside & (objects == 0))
    away = (inside & ~ndimage.binary_dilation(edge, iterations=REACH))[part]
    edge, within, glow = edge[part], inside[part], light[part]
    k = int(numbers.max()) + 1
    return Slopes(
        _sums(numbers[edge], steep[edge], k),
        _sums(numbers[within], glow[within], k),
        _sums(np.zeros(int(away.sum()), np.int32), steep[away], 1)[0],
        _sums(np.zeros(int(within.sum()), np.int32), steep[within], 1)[0],
    )


def standing_out(measured: Slopes, least: float, axes: int) -> Mask:
    """(objects + 1,) which objects have a border that is steeper than the rest, and in focus.

    Together borders are to be `least` times as steep as the rest: if they are not, no object stands out, since the
    steepest of many are so by chance. An object that does not touch the background is as good as the others together.

    Parameters
    ----------
    least : how many times as steep.
    axes : of the image's space.
    """
    touching = measured.border[:, 1] > 0
    typical = measured.typical
    if _mean(measured.border.sum(axis=0)) < least * typical:
        return np.zeros(len(touching), bool)
    slope, pixels = _mean(measured.border), measured.light[:, 1]
    height = np.abs(_mean(measured.light) - _mean(measured.light[0]))
    radius = np.sqrt(pixels / np.pi) if axes == 2 else np.cbrt(pixels * 0.75 / np.pi)
    wide = height > STEP * slope * np.maximum(SHARP, SOFT * radius)
    return ~touching | ((slope >= EACH * least * typical) & ~wide)


def _sums(numbers: Ints, values: NDArray[np.floating], count: int) -> Floats:
    """(count, 2) sum of the values of each number, and how many they are."""
    return np.stack((np.bincount(numbers, values, count), np.bincount(numbers, minlength=count)), axis=1)


def _mean(sums: Floats) -> Floats:
    """Means from sums (..., 2) and how many they are of; 0 for none."""
    return np.asarray(sums[..., 0] / np.maximum(sums[..., 1], 1))
