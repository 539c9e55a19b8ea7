"""Graph-based segmentation after Felzenszwalb and Huttenlocher (2004), as scikit-image has it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from skimage import segmentation

from napari_gsw.core.settings.setting import Options, setting
from napari_gsw.research.baselines.photographs import number_regions, to_rgb


@dataclass(frozen=True)
class Felzenszwalb(Options):
    """Settings of the graph-based segmentation; the defaults are for photographs of 481 x 321 pixels."""

    scale: float = setting(
        400.0,
        "felzenszwalb",
        "Larger values prefer larger regions; in the authors' units, for colours from 0 to 255.",
        low=0.0,
    )
    sigma: float = setting(
        0.8,
        "felzenszwalb",
        "Width in pixels of the Gaussian blur before regions are made.",
        low=0.0,
        high=100.0,
        title="Smoothing",
    )
    min_size: int = setting(
        400,
        "felzenszwalb",
        "Smallest region in pixels; smaller ones join across their weakest boundary.",
        low=1,
        title="Smallest region",
    )


DEFAULT = Felzenszwalb()


def felzenszwalb(image: ArrayLike, options: Felzenszwalb = DEFAULT, axes: str = "auto") -> NDArray[np.int32]:
    """Segment a grey or RGB image in two dimensions.

    Parameters
    ----------
    image : array; a grey image is taken as an RGB image of equal channels.
    options : scale, smoothing and smallest region.
    axes : as for :func:`napari_gsw.core.image.normalized_image.normalize_image`.

    Returns
    -------
    (Y, X) int32, regions 1..k in the order of their first pixel, each connected through pixel faces or corners.
    """
    # scikit-image divides its scale by 255, which gives it the authors' meaning for colours from 0 to 1 and no others.
    colours = to_rgb(image, axes, "Felzenszwalb")
    regions = segmentation.felzenszwalb(
        colours, scale=options.scale, sigma=options.sigma, min_size=options.min_size, channel_axis=-1
    )
    return number_regions(regions)
