"""Whether objects stand out from the background: the border of an object is a border of the image, too.

Whatever is cut at a level has parts above it, be it noise, a ramp, or what a lens out of focus has left. But in such an
image the slope has nothing to do with the level: it is about as steep along the cut as anywhere else (in a stationary
Gaussian field the two are independent, and the mean slope along a level is 4 / pi = 1.27 times that of all). Around
objects it is several times steeper. So the slope along a border is measured in units of the slope elsewhere.
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


class Slopes(NamedTuple):
    """Sums of slopes, which can be added up over the parts of an image.

    Attributes
    ----------
    border : (objects + 1, 2) sum of the slopes along the border of each object with the background, and pixels there.
    elsewhere : (2,) the same far from borders.
    anywhere : (2,) the same of all pixels.
    """

    border: Floats
    elsewhere: Floats
    anywhere: Floats

    @property
    def typical(self) -> float:
        """The mean slope far from borders."""
        total, pixels = self.anywhere if self.elsewhere[1] < LEAST_ELSEWHERE * self.anywhere[1] else self.elsewhere
        return float(total / max(pixels, 1.0))


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
    steep = ndimage.gaussian_gradient_magnitude(light.astype(np.float64), WIDTH)
    back = inside & (objects == 0)
    border = (objects > 0) & ndimage.binary_dilation(back)
    away = inside & ~ndimage.binary_dilation(border, iterations=REACH)
    k = int(numbers.max()) + 1
    here, steep = numbers[border[part]], steep[part]
    each = np.stack((np.bincount(here, steep[border[part]], k), np.bincount(here, minlength=k)), axis=1)
    return Slopes(each.astype(np.float64), _sum(steep, away[part]), _sum(steep, inside[part]))


def standing_out(measured: Slopes, least: float) -> Mask:
    """(objects + 1,) which objects have a border that is steeper than the rest, `least` times or more.

    If all borders together are not, none has: the steepest of many are so by chance. An object that does not touch the
    background is as good as its neighbours are together.
    """
    total, pixels = measured.border.T
    typical = least * measured.typical
    together = total.sum() >= typical * pixels.sum()
    return np.asarray(together & ((pixels == 0) | (total >= typical * pixels)))


def _sum(values: Floats, where: Mask) -> Floats:
    """(2,) sum of some values, and how many they are."""
    return np.array([values[where].sum(), where.sum()], np.float64)
