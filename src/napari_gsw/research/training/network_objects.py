"""Pictures of objects and their labels, as an object network learns from them: of usual sizes, with their middles."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from napari_gsw.core.array_types import Float64Array, LabelImage
from napari_gsw.core.features.object_network import MIN_WIDTH, OCTAVES, rescale, to_uint8

# Pixels across an object to which pictures are brought before they are scaled by chance.
ACROSS = 28.0
LARGEST, SMALLEST = 3.0, 0.2
# Pictures are learnt from at their own scale too, if their objects are so many pixels across and the scale differs.
NARROW, WIDE, OTHER_SCALE = 8.0, 60.0, 1.3
# A picture of stains is seen so many times as often as one without colour, of which there are many more; and by how
# much the channels of such a picture differ in the mean, of 255.
COLOURED, COLOURFUL = 3, 8.0


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
    larger = rescale(image, zoom, min_side=8)
    rows = (np.rint(np.linspace(0, n - 1, m)).astype(int) for n, m in zip(labels.shape, larger.shape, strict=False))
    return larger, labels[np.ix_(*rows)]


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


def widths(labels: LabelImage) -> NDArray[np.uint8]:
    """(h, w) uint8 of labels (h, w): how wide a pixel's object is, 0 for 4 pixels, 255 for 128 and more."""
    pixels = np.maximum(np.bincount(labels.ravel()), 1)
    width = np.log2(np.sqrt(pixels) / MIN_WIDTH) / OCTAVES
    width[0] = 0
    return np.asarray(np.rint(255 * np.clip(width, 0, 1)), dtype=np.uint8)[labels]


class ObjectPicture(NamedTuple):
    """A picture (h, w, 3) uint8, its labels (h, w) 0, 1, 2, ..., and (h, w, 2) uint8 middles and widths."""

    image: NDArray[np.uint8]
    labels: LabelImage
    extra: NDArray[np.uint8]


def object_pictures(image: NDArray[Any], labels: LabelImage) -> list[ObjectPicture]:
    """A picture as it is learnt from: with objects of the usual size, at its own scale, more often if it has stains.

    Parameters
    ----------
    image : (h, w) or (h, w, c) of any type.
    labels : (h, w), 0 for background.
    """
    plain, width = to_uint8(image), typical_width(labels)
    scales = [scaled(plain, labels)]
    if NARROW <= width <= WIDE and abs(np.log(width / ACROSS)) > np.log(OTHER_SCALE):
        scales.append((plain, labels))
    pictures = []
    for pixels, names in scales:
        numbers = np.unique(np.concatenate(([0], names.ravel())), return_inverse=True)[1][1:].reshape(names.shape)
        pictures.append(ObjectPicture(pixels, numbers, np.stack((middles(numbers), widths(numbers)), axis=-1)))
    spread = np.ptp(plain.astype(np.float64), axis=-1).mean()
    times = COLOURED if spread > COLOURFUL else 1
    return [one for one in pictures for _ in range(times)]


def drawn_pictures(rng: np.random.Generator, count: int, side: int = 256) -> list[ObjectPicture]:
    """Pictures of plain shapes in noise, every other one without: what stands out is an object, noise is not."""
    rows, columns = np.mgrid[:side, :side].astype(np.float64)
    pictures = []
    for number in range(count):
        labels = np.zeros((side, side), np.int64)
        for k in range(1, int(rng.integers(1, 30)) + 1 if number % 2 else 1):
            y, x, angle = rng.uniform(0, side), rng.uniform(0, side), rng.uniform(0, np.pi)
            long, wide = ACROSS / 2 * np.exp(rng.uniform(-0.7, 1.0, 2))
            u = (np.cos(angle) * (rows - y) + np.sin(angle) * (columns - x)) / long
            v = (np.cos(angle) * (columns - x) - np.sin(angle) * (rows - y)) / wide
            shape = np.hypot(u, v) < 1 if rng.random() < 0.7 else np.maximum(np.abs(u), np.abs(v)) < 0.9
            if not labels[ndimage.binary_dilation(shape, iterations=2)].any():  # alike and joined they would be one
                labels[shape] = k
        light = ndimage.gaussian_filter((labels > 0).astype(np.float64), rng.uniform(0.1, 1.5))
        contrast = np.exp(rng.uniform(np.log(0.05), 0))
        noise = ndimage.gaussian_filter(rng.normal(size=labels.shape), rng.choice([0, 0, 0, 1, 2, 4, 8]))
        ramp = rng.uniform(0, 1) * rng.integers(0, 2) * (np.cos(number) * rows + np.sin(number) * columns) / side
        glow = ndimage.gaussian_filter((rng.random(labels.shape) < 5e-4).astype(np.float64), rng.uniform(12, 35))
        haze = rng.uniform(0, 1) * rng.integers(0, 2) * glow / max(float(glow.max()), 1e-12)
        if number % 2:
            ramp, haze = 0.4 * ramp, 0.4 * haze
        grain = contrast * rng.uniform(0.02, 0.45) * noise / max(float(noise.std()), 1e-12)
        sign = rng.choice([-1, 1])
        field = sign * contrast * light + grain + contrast * (ramp + haze)
        numbers = np.unique(np.concatenate(([0], labels.ravel())), return_inverse=True)[1][1:].reshape(labels.shape)
        extra = np.stack((middles(numbers), widths(numbers)), axis=-1)
        pictures.append(ObjectPicture(to_uint8(field), numbers, extra))
    return pictures


def touching_pictures(rng: np.random.Generator, count: int, side: int = 256) -> list[tuple[Float64Array, LabelImage]]:
    """Pictures (side, side) of round shapes in noise, by themselves and in pairs that overlap, and their labels.

    No border runs between the two of a pair: their waist is all that tells. Shapes that are long by themselves say that
    length alone does not.
    """
    rows, columns = np.mgrid[:side, :side].astype(np.float64)
    pictures: list[tuple[Float64Array, LabelImage]] = []
    for _ in range(count):
        labels = np.zeros((side, side), np.int64)
        light = np.zeros((side, side))
        radius = float(np.exp(rng.uniform(np.log(6), np.log(20))))
        for _ in range(400):
            y, x, angle = rng.uniform(0, side), rng.uniform(0, side), rng.uniform(0, np.pi)
            apart = rng.uniform(1.35, 1.9) * radius / 2 if rng.random() < 0.5 else 0.0
            long = radius * (1.0 if apart else np.exp(rng.uniform(0, 0.7)))
            along = np.cos(angle) * (rows - y) + np.sin(angle) * (columns - x)
            across = np.cos(angle) * (columns - x) - np.sin(angle) * (rows - y)
            first = np.hypot((along - apart) / long, across / radius) < 1
            other = np.hypot((along + apart) / long, across / radius) < 1 if apart else first
            both = first | other
            if labels[ndimage.binary_dilation(both, iterations=3)].any():
                continue
            labels[both] = labels.max() + 1
            if apart:
                labels[both & (along < 0)] = labels.max() + 1
            light[both] = rng.uniform(0.3, 1)
        soft = ndimage.gaussian_filter(light, rng.uniform(0.1, 1.2))
        pictures.append((soft + rng.normal(0, rng.uniform(0.01, 0.06), soft.shape), labels))
    return pictures
