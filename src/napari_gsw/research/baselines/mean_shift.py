"""Mean shift after Comaniciu and Meer (2002): every pixel climbs to a mode of colour and place, modes become regions.

The filtering is OpenCV's, the merging follows EDISON, the authors' own program:

1. Pixels that share a face are linked if their modes are less than one unit of L*u*v* apart.
2. Neighbouring regions whose mean modes are less than half the range bandwidth apart are fused, until there are none.
3. Regions under the minimum size join the neighbour with the nearest mean mode, until there are none.

It is not EDISON, and its regions are not EDISON's:

- OpenCV's window in space is a square of 2 x bandwidth + 1 pixels, EDISON's a disc of this diameter. Both kernels are
  flat, and both windows in colour are balls of the range bandwidth.
- OpenCV has 8 bits a channel, rounds every mean to them and every place to a whole pixel; EDISON has floating point.
  All three channels are multiplied by one number, so that the bandwidth means the same in all of them: the largest with
  which the picture fits. A step is then about 0.4 units of L*u*v* in a photograph of ordinary colours and 1 unit in one
  that has all the saturated ones; modes that differ by less are the same.
- OpenCV stops as soon as the window stays on its pixel, EDISON when it moves by less than a tenth of a unit; both after
  100 steps. EDISON can also let a pixel take over the mode of another on its way.
- EDISON links pixels across corners too, and each channel on its own has to differ by less than one unit. It fuses in
  two rounds, not until nothing changes. Where L* is above 80 it counts differences of L* twice.
- EDISON takes RGB as linear light, here it is sRGB; and it takes grey levels from 0 to 255 as they are, here they
  become L* from 0 to 100, so that the same range bandwidth is wider.
- EDISON can weight pixels and edges by a map of confidence, which is not done here.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_gsw.core.errors import InputError
from napari_gsw.core.settings.setting import Options, setting
from napari_gsw.core.sites.superpixels import label_connected
from napari_gsw.research.baselines.merging import make_pixel_regions, merge_similar, merge_small
from napari_gsw.research.baselines.photographs import to_rgb

# Modes nearer than this are one, in units of L*u*v*: they differ by rounding.
SAME_MODE = 1.0
# The share of the range bandwidth within which neighbouring regions are fused.
FUSING = 0.5
# The most 8-bit levels that one unit of L*u*v* is divided into, for pictures of hardly any contrast.
FINEST = 4.0
# OpenCV takes no larger limit.
MOST_STEPS = 100


@dataclass(frozen=True)
class MeanShift(Options):
    """Settings of the mean shift; the defaults are the paper's."""

    spatial: float = setting(
        20.0,
        "mean-shift",
        "Spatial bandwidth: half the side of the window, in pixels.",
        low=1.0,
        high=100.0,
        title="Spatial bandwidth",
    )
    range: float = setting(
        15.0,
        "mean-shift",
        "Range bandwidth: colours within this distance attract each other, in units of L*u*v*.",
        low=0.0,
        exclusive_min=True,
        high=1000.0,
        title="Range bandwidth",
    )
    min_size: int = setting(
        1500,
        "mean-shift",
        "Smallest region in pixels; smaller ones join the neighbour of the nearest colour.",
        low=1,
        title="Smallest region",
    )


DEFAULT = MeanShift()


def mean_shift(image: ArrayLike, options: MeanShift = DEFAULT, axes: str = "auto") -> NDArray[np.int32]:
    """Segment a grey or RGB image in two dimensions.

    Parameters
    ----------
    image : array; a grey image is taken as an RGB image of equal channels.
    options : bandwidths and smallest region.
    axes : as for :func:`napari_gsw.core.image.normalized_image.normalize_image`.

    Returns
    -------
    (Y, X) int32, regions 1..k in the order of their first pixel, each connected through pixel faces.
    """
    from skimage.color.colorconv import rgb2luv

    cv2 = _opencv()
    levels, scale = _levels(rgb2luv(to_rgb(image, axes, "mean shift")))
    until = (cv2.TERM_CRITERIA_COUNT + cv2.TERM_CRITERIA_EPS, MOST_STEPS, 0.0)
    modes = cv2.pyrMeanShiftFiltering(levels, options.spatial, options.range * scale, maxLevel=0, termcrit=until)
    regions = make_pixel_regions(modes)
    reach = FUSING * options.range * scale
    regions = regions.joined(regions.distance < min(SAME_MODE * scale, reach))
    regions = merge_small(merge_similar(regions, reach), options.min_size)
    return label_connected(regions.labels.reshape(modes.shape[:2]) + 1, None)


def _levels(luv: NDArray[np.float32]) -> tuple[NDArray[np.uint8], float]:
    """Colours as 8-bit levels, and how many of them make a unit of L*u*v*: one number for all channels."""
    low = luv.min(axis=(0, 1))
    span = float((luv.max(axis=(0, 1)) - low).max())
    scale = min(255 / span, FINEST) if span > 0 else FINEST
    return np.rint((luv - low) * scale).astype(np.uint8), scale


def _opencv() -> Any:
    try:
        return importlib.import_module("cv2")
    except ImportError:
        raise InputError('mean shift needs OpenCV: pip install "napari-gsw[peers]"') from None
