"""Segmentation by watersheds: of a threshold, of the maps of the object network, and of the distance to dark ridges."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import ndimage
from skimage import feature, filters, segmentation

from napari_gsw.core.array_types import Int32Array
from napari_gsw.core.errors import InputError
from napari_gsw.core.features.network import CENTRE, CONTACT, INSIDE, OUTLINE, load_network, predict_objects
from napari_gsw.core.image.normalized_image import read_channels
from napari_gsw.core.image.ridges import make_ridge_map
from napari_gsw.core.settings.declaration import POSITIVE, SHARE, Options, setting
from napari_gsw.methods import Method


@dataclass(frozen=True)
class OtsuWatershed(Options):
    """Settings of Otsu's threshold with a watershed of the distance to the background."""

    smallest: int = setting(16, "otsu-watershed", "Objects of fewer pixels are background.", low=0)
    apart: int = setting(5, "otsu-watershed", "Pixels between the middles of two objects, at least.", low=1)


def segment_otsu_watershed(image: ArrayLike, options: OtsuWatershed, axes: str = "auto") -> Int32Array:
    """Segment a 2D image into objects (Y, X) int32, 0 for the background: the smaller class of Otsu, split at necks."""
    intensity = _read_2d(image, axes, "otsu-watershed").astype(np.float64).mean(axis=-1)
    if intensity.max() == intensity.min():
        return np.zeros(intensity.shape, np.int32)
    bright = intensity > filters.threshold_otsu(intensity)
    mask = ~bright if bright.mean() > 0.5 else bright
    distance = ndimage.gaussian_filter(ndimage.distance_transform_edt(mask), 1.0)
    labels = split_at_peaks(distance, mask, mask.astype(np.int32), options.apart)
    return _remove_small(labels, options.smallest)


@dataclass(frozen=True)
class NetworkWatershed(Options):
    """Settings of the object network with a plain watershed."""

    network: str = setting("shipped", "network-watershed", "The network: shipped, or the path of a saved one.")
    level: float = setting(
        0.35, "network-watershed", "How far up a pixel is towards the middle of an object that begins one.", **SHARE
    )
    touching: float = setting(
        0.8, "network-watershed", "No object begins where two touch with a probability above this.", **SHARE
    )
    smallest: int = setting(16, "network-watershed", "Objects of fewer pixels are background.", low=0)


def segment_network_watershed(image: ArrayLike, options: NetworkWatershed, axes: str = "auto") -> Int32Array:
    """Segment a 2D image into objects (Y, X) int32, 0 for the background: maps of a network, flooded from centres."""
    values = _read_2d(image, axes, "network-watershed")
    network = load_network(options.network, "objects")
    if network is None:
        raise InputError('network-watershed needs a network and onnxruntime. Run: pip install "napari-gsw[networks]"')
    maps = predict_objects(values, network)
    mask = maps[..., INSIDE] > 0.5
    start = mask & (maps[..., CENTRE] > options.level) & (maps[..., OUTLINE] < 0.5)
    start &= maps[..., CONTACT] < options.touching
    labels = segmentation.watershed(-maps[..., CENTRE], ndimage.label(start)[0], mask=mask)
    return _remove_small(labels, options.smallest)


@dataclass(frozen=True)
class DistanceWatershed(Options):
    """Settings of the distance watershed."""

    threshold: float = setting(
        0.5, "distance-watershed", "What the ridge filter, 0 to 1, has to say of a pixel for it to be membrane.",
        low=0.0, high=1.0, title="Membrane above",
    )  # fmt: skip
    smoothing: float = setting(
        2.0, "distance-watershed",
        "Width in pixels of the Gaussian blur of the distances; larger values make fewer regions.",
        **POSITIVE, high=100.0, title="Smoothing",
    )  # fmt: skip


def segment_distance_watershed(image: ArrayLike, options: DistanceWatershed, axes: str = "auto") -> Int32Array:
    """Segment an image of cells between dark membranes, in 2D or 3D, into regions 1..k.

    Pixels with a ridge filter above the threshold are membrane. The others are flooded from the points that are
    farthest from any membrane, and the membranes last.
    """
    ridges = make_ridge_map(image, axes)
    distance = ndimage.distance_transform_edt(ridges <= options.threshold)
    return split_at_peaks(ndimage.gaussian_filter(distance, options.smoothing))


def split_at_peaks(
    distance: NDArray[np.float64], mask: ArrayLike | None = None, labels: ArrayLike | None = None,
    min_distance: int = 1, peak_map: NDArray[np.float64] | None = None,
) -> Int32Array:  # fmt: skip
    """Flood a map of distances, within the mask, from its peaks within each of the `labels`, or from those of a map."""
    source = distance if peak_map is None else peak_map
    peaks = feature.peak_local_max(source, min_distance=min_distance, labels=labels, exclude_border=False)
    markers = np.zeros(distance.shape, np.int32)
    markers[tuple(peaks.T)] = np.arange(1, len(peaks) + 1)
    has_markers = len(peaks) > 0 or mask is not None
    return np.asarray(segmentation.watershed(-distance, markers if has_markers else None, mask=mask), np.int32)


def _read_2d(image: ArrayLike, axes: str, name: str) -> NDArray[np.generic]:
    array = np.asarray(image)
    values, _ = read_channels(array, axes)
    if values.ndim != 3:
        raise InputError(f"{name} is for two-dimensional images")
    return values


def _remove_small(labels: NDArray[np.integer], min_size: int) -> Int32Array:
    """Remove labels of few pixels, and number the others 1, 2, ... in their order."""
    kept = np.bincount(labels.ravel()) >= min_size
    kept[0] = False
    numbers = np.where(kept, np.cumsum(kept), 0).astype(np.int32)
    return np.asarray(numbers[labels])


OTSU_WATERSHED = Method(segment_otsu_watershed, OtsuWatershed)
NETWORK_WATERSHED = Method(segment_network_watershed, NetworkWatershed)
DISTANCE_WATERSHED = Method(segment_distance_watershed, DistanceWatershed)
