"""Watershed of the gradient, flooded from the strokes, as scikit-image has it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from skimage import segmentation

from napari_gsw.core.settings.setting import POSITIVE, Options, setting
from napari_gsw.research.baselines.photographs import to_rgb
from napari_gsw.research.baselines.strokes import read_scribbles


@dataclass(frozen=True)
class Watershed(Options):
    """Settings of the watershed."""

    gradient_sigma: float = setting(
        2.5,
        "watershed",
        "Width in pixels of the Gaussian whose derivative is the gradient.",
        **POSITIVE,
        high=100.0,
        title="Smoothing",
    )


DEFAULT = Watershed()


def watershed(
    image: ArrayLike, seeds: ArrayLike, options: Watershed = DEFAULT, axes: str = "auto"
) -> NDArray[np.int32]:
    """Spread strokes over a grey or RGB image in two dimensions.

    Parameters
    ----------
    image : array; a grey image is taken as an RGB image of equal channels.
    seeds : (Y, X) whole numbers: a label where a person has painted one, 0 elsewhere.
    options : the smoothing.
    axes : as for :func:`napari_gsw.core.image.normalized_image.normalize_image`.

    Returns
    -------
    (Y, X) int32, a painted label everywhere.
    """
    from scipy import ndimage
    from skimage.color.colorconv import rgb2lab

    colours = to_rgb(image, axes, "the watershed")
    strokes = read_scribbles(seeds, colours.shape[:2], "the watershed")
    channels = np.moveaxis(rgb2lab(colours), -1, 0)
    sigma = options.gradient_sigma
    gradient = np.sqrt(sum(ndimage.gaussian_gradient_magnitude(channel, sigma) ** 2 for channel in channels))
    return strokes.labels(segmentation.watershed(gradient, strokes.codes + 1) - 1)
