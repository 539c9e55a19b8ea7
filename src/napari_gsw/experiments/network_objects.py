"""Pictures of objects and their labels, as an object network learns from them: of one size, with their middles."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from napari_gsw.core.arrays import LabelImage

# Pixels across an object to which pictures are brought before they are scaled by chance.
ACROSS = 22.0
# Percentiles of a picture that become black and white.
BLACK, WHITE = 1.0, 99.8
LARGEST, SMALLEST = 3.0, 0.2


def as_bytes(image: NDArray[Any]) -> NDArray[np.uint8]:
    """(h, w, 3) uint8 of a picture (h, w) or (h, w, c) of any type, from its dark to its bright end."""
    values = image[..., np.newaxis] if image.ndim == 2 else image[..., :3]
    if values.shape[-1] < 3:
        values = np.repeat(values[..., :1], 3, axis=-1)
    values = values.astype(np.float64)
    low, high = np.percentile(values, (BLACK, WHITE))
    if high <= low:
        low, high = values.min(), max(values.max(), values.min() + 1)
    return np.asarray(np.rint(np.clip((values - low) / (high - low), 0, 1) * 255), dtype=np.uint8)


def typical_width(labels: LabelImage) -> float:
    """Pixels across the object in the middle of all, by the root of its pixels; that of a usual one if there is none.

    Parameters
    ----------
    labels : (h, w), 0 for background.
    """
    pixels = np.bincount(labels.ravel())[1:]
    pixels = pixels[pixels > 0]
    return float(np.sqrt(np.median(pixels))) if len(pixels) else ACROSS


def scaled(image: NDArray[np.uint8], labels: LabelImage) -> tuple[NDArray[np.uint8], LabelImage]:
    """Picture (h, w, 3) and labels (h, w) at the scale at which objects are of the usual size."""
    zoom = float(np.clip(ACROSS / typical_width(labels), SMALLEST, LARGEST))
    if abs(zoom - 1) < 0.05:
        return image, labels
    if zoom < 1:  # blurred first, so that nothing finer than the new pixels is left
        image = ndimage.gaussian_filter(image, (0.4 / zoom, 0.4 / zoom, 0))
    shape = [max(8, round(n * zoom)) for n in labels.shape]
    y, x = (np.linspace(0, n - 1, m) for n, m in zip(labels.shape, shape, strict=True))
    places = np.meshgrid(y, x, indexing="ij")
    channels = [ndimage.map_coordinates(image[..., c], places, order=1, mode="nearest") for c in range(3)]
    return np.stack(channels, axis=-1), labels[np.ix_(np.rint(y).astype(int), np.rint(x).astype(int))]


def middles(labels: LabelImage) -> NDArray[np.uint8]:
    """(h, w) uint8 of labels (h, w): 255 in the middle of an object, near 0 at its border, 0 in the background."""
    edge = np.zeros(labels.shape, bool)
    edge[1:] |= labels[1:] != labels[:-1]
    edge[:-1] |= labels[1:] != labels[:-1]
    edge[:, 1:] |= labels[:, 1:] != labels[:, :-1]
    edge[:, :-1] |= labels[:, 1:] != labels[:, :-1]
    distance = ndimage.distance_transform_edt(~edge & (labels > 0))
    count = int(labels.max()) + 1
    most = np.zeros(count)
    np.maximum.at(most, labels.ravel(), distance.ravel())
    return np.rint(255 * distance / np.maximum(most[labels], 1)).astype(np.uint8)
