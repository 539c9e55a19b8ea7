"""Watershed of the distance to membranes: the plain way to part cells that a map of their boundaries divides.

The map is that of :func:`napari_gsw.core.image.ridges.make_ridge_map`. What lies above a threshold is membrane; the other
pixels are flooded from the places that are farthest from any, and the membranes last.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from skimage import feature, segmentation

from napari_gsw.core.image.ridges import make_ridge_map
from napari_gsw.core.settings.setting import POSITIVE, Options, setting


@dataclass(frozen=True)
class DistanceWatershed(Options):
    """Settings of the distance watershed."""

    threshold: float = setting(
        0.5,
        "distance-watershed",
        "What the ridge filter, 0 to 1, has to say of a pixel for it to be membrane.",
        low=0.0,
        high=1.0,
        title="Membrane above",
    )
    smoothing: float = setting(
        2.0,
        "distance-watershed",
        "Width in pixels of the Gaussian blur of the distances; larger values make fewer regions.",
        **POSITIVE,
        high=100.0,
        title="Smoothing",
    )


DEFAULT = DistanceWatershed()


def distance_watershed(image: ArrayLike, options: DistanceWatershed = DEFAULT, axes: str = "auto") -> NDArray[np.int32]:
    """Segment an image of cells between dark membranes, in 2D or 3D.

    Parameters
    ----------
    image : array, of which :func:`napari_gsw.core.image.ridges.make_ridge_map` makes a map.
    options : threshold and smoothing.
    axes : as for :func:`napari_gsw.core.image.normalized_image.normalize_image`.

    Returns
    -------
    (\\*shape,) int32, regions 1..k.
    """
    from scipy import ndimage

    ridges = make_ridge_map(image, axes)
    distance = ndimage.distance_transform_edt(ridges <= options.threshold)
    distance = ndimage.gaussian_filter(distance, options.smoothing)
    markers = np.zeros(ridges.shape, np.int32)
    peaks = feature.peak_local_max(distance, exclude_border=False)
    markers[tuple(peaks.T)] = np.arange(1, len(peaks) + 1)
    return np.asarray(segmentation.watershed(-distance, markers if len(peaks) else None), np.int32)
