"""Objects by a watershed, from a threshold of brightness or from the maps of a network: what ours is compared with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from skimage import feature, filters, segmentation

from napari_gsw.core.array_types import Int32Array
from napari_gsw.core.errors import InputError
from napari_gsw.core.features.network import load_network
from napari_gsw.core.features.object_network import CENTRE, CONTACT, INSIDE, OUTLINE, predict_objects
from napari_gsw.core.image.normalized_image import check_image, select_channels
from napari_gsw.core.settings.setting import SHARE, Options, setting


@dataclass(frozen=True)
class OtsuWatershed(Options):
    """Settings of Otsu's threshold with a watershed of the distance to the background."""

    smallest: int = setting(16, "otsu-watershed", "Objects of fewer pixels are background.", low=0)
    apart: int = setting(5, "otsu-watershed", "Pixels between the middles of two objects, at least.", low=1)


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


def otsu_watershed(image: ArrayLike, options: OtsuWatershed, axes: str = "auto") -> Int32Array:
    """(Y, X) int32 objects of a flat image, 0 for the background: the lesser class of Otsu, cut at necks."""
    from scipy import ndimage

    light = _flat(image, axes, "otsu-watershed").astype(np.float64).mean(axis=-1)
    if light.max() == light.min():
        return np.zeros(light.shape, np.int32)
    bright = light > filters.threshold_otsu(light)
    inside = ~bright if bright.mean() > 0.5 else bright
    distance = ndimage.gaussian_filter(ndimage.distance_transform_edt(inside), 1.0)
    peaks = feature.peak_local_max(
        distance, min_distance=options.apart, labels=inside.astype(np.int32), exclude_border=False
    )
    markers = np.zeros(light.shape, np.int32)
    markers[tuple(peaks.T)] = np.arange(len(peaks)) + 1
    return _without_small(segmentation.watershed(-distance, markers, mask=inside), options.smallest)


def network_watershed(image: ArrayLike, options: NetworkWatershed, axes: str = "auto") -> Int32Array:
    """(Y, X) int32 objects of a flat image, 0 for the background: the maps of a network, flooded from the middles."""
    from scipy import ndimage

    values = _flat(image, axes, "network-watershed")
    network = load_network(options.network, "objects")
    if network is None:
        raise InputError('network-watershed needs a network and onnxruntime; try: pip install "napari-gsw[networks]"')
    maps = predict_objects(values, network)
    inside = maps[..., INSIDE] > 0.5
    begin = inside & (maps[..., CENTRE] > options.level) & (maps[..., OUTLINE] < 0.5)
    begin &= maps[..., CONTACT] < options.touching
    flooded = segmentation.watershed(-maps[..., CENTRE], ndimage.label(begin)[0], mask=inside)
    return _without_small(flooded, options.smallest)


def _flat(image: ArrayLike, axes: str, name: str) -> NDArray[np.generic]:
    """(Y, X, C) the values of a flat image."""
    array = np.asarray(image)
    values, _ = select_channels(array, check_image(array, axes))
    if values.ndim != 3:
        raise InputError(f"{name} is for two-dimensional images")
    return values


def _without_small(labels: NDArray[np.integer], smallest: int) -> Int32Array:
    """Labels without those of few pixels, numbered 1, 2, ... in their order."""
    kept = np.bincount(labels.ravel()) >= smallest
    kept[0] = False
    numbers: Int32Array = np.where(kept, np.cumsum(kept), 0).astype(np.int32)
    return np.asarray(numbers[labels], dtype=np.int32)
