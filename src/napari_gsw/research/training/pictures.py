"""Pictures that a network learns from: photographs, and objects at a usual scale with their centres."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from skimage.segmentation import find_boundaries

from napari_gsw.core.array_types import Float64Array, LabelImage
from napari_gsw.core.errors import InputError
from napari_gsw.core.features.object_network import MIN_WIDTH, OCTAVES, rescale, to_uint8
from napari_gsw.core.image.normalized_image import check_image, estimate_range, scale_rgb, select_channels
from napari_gsw.research.evaluation.data_sets import Example

# Width of an object in pixels to which images are scaled, and the limits of the scale.
WIDTH = 28.0
MIN_ZOOM, MAX_ZOOM = 0.2, 3.0
# Images are also used at their own scale, if their objects have such a width and the scales differ by this factor.
MIN_OWN_WIDTH, MAX_OWN_WIDTH, OTHER_SCALE = 8.0, 60.0, 1.3
# A stained image is repeated, since most have no colour; minimum mean difference of its channels, of 255.
STAIN_REPEATS, MIN_COLOUR = 3, 8.0


class Picture(NamedTuple):
    """An image with the labels of one annotator or more, and further targets."""

    image: NDArray[np.uint8]  # (h, w, 3)
    labels: list[NDArray[np.int16]]  # (h, w) 0, 1, 2, ...
    targets: NDArray[np.uint8] | None = None  # (h, w, 2) centres and widths of objects


def read_photograph(example: Example) -> list[Picture]:
    """Read a photograph and the segmentations of all annotators; an image that is not RGB becomes grey."""
    scene = example.read()
    values, is_rgb = select_channels(scene.image, check_image(scene.image, scene.axes))
    if not is_rgb or values.dtype != np.uint8:
        values = values if is_rgb else values.astype(np.float64).mean(axis=-1, keepdims=True)
        values = np.rint(scale_rgb(values, estimate_range([values], True)) * 255).astype(np.uint8)
    numbers = [np.unique(human, return_inverse=True)[1].reshape(human.shape) for human in scene.human_labels]
    image = np.ascontiguousarray(np.broadcast_to(values, (*values.shape[:2], 3)))
    return [Picture(image, [labels.astype(np.int16) for labels in numbers])]


def read_objects(example: Example) -> list[Picture]:
    """Read an image of objects, at one scale or two."""
    annotated = example.read()
    if annotated.human_labels[0].ndim != 2:
        raise InputError(f"{str(example.image)!r} is a volume; an object network learns from two dimensions")
    values, _ = select_channels(annotated.image, check_image(annotated.image, annotated.axes))
    return make_pictures(values, annotated.human_labels[0].astype(np.int64))


def median_width(labels: LabelImage) -> float:
    """Return the root of the median number of pixels of the objects, `WIDTH` if there is none."""
    pixels = np.bincount(labels.ravel())[1:]
    pixels = pixels[pixels > 0]
    return float(np.sqrt(np.median(pixels))) if len(pixels) else WIDTH


def scale_to_width(image: NDArray[np.uint8], labels: LabelImage) -> tuple[NDArray[np.uint8], LabelImage]:
    """Scale an image (h, w, 3) and labels (h, w) so that objects have the usual width."""
    zoom = float(np.clip(WIDTH / median_width(labels), MIN_ZOOM, MAX_ZOOM))
    if abs(zoom - 1) < 0.05:
        return image, labels
    scaled = rescale(image, zoom, min_side=8)
    index = (np.rint(np.linspace(0, n - 1, m)).astype(int) for n, m in zip(labels.shape, scaled.shape, strict=False))
    return scaled, labels[np.ix_(*index)]


def make_centre_map(labels: LabelImage) -> NDArray[np.uint8]:
    """Make a map that is 255 in the centre of an object, near 0 at its border, and 0 in the background."""
    edge = find_boundaries(labels, connectivity=1, mode="thick")
    distance = ndimage.distance_transform_edt(~edge & (labels > 0))
    highest = np.zeros(int(labels.max()) + 1)
    np.maximum.at(highest, labels.ravel(), distance.ravel())
    return np.rint(255 * distance / np.maximum(highest[labels], 1)).astype(np.uint8)


def make_width_map(labels: LabelImage) -> NDArray[np.uint8]:
    """Make a map of the width of a pixel's object: 0 for 4 pixels, 255 for 128 and more, by octaves."""
    pixels = np.maximum(np.bincount(labels.ravel()), 1)
    width = np.log2(np.sqrt(pixels) / MIN_WIDTH) / OCTAVES
    width[0] = 0
    return np.asarray(np.rint(255 * np.clip(width, 0, 1)), dtype=np.uint8)[labels]


def make_picture(image: NDArray[np.uint8], labels: LabelImage) -> Picture:
    """Renumber the labels and make the targets."""
    numbers = np.unique(np.concatenate(([0], labels.ravel())), return_inverse=True)[1][1:].reshape(labels.shape)
    targets = np.stack((make_centre_map(numbers), make_width_map(numbers)), axis=-1)
    return Picture(image, [numbers.astype(np.int16)], targets)


def make_pictures(image: NDArray[Any], labels: LabelImage) -> list[Picture]:
    """Make the pictures of an image (h, w) or (h, w, c) of any type, at the usual and at its own scale."""
    rgb, width = to_uint8(image), median_width(labels)
    pictures = [make_picture(*scale_to_width(rgb, labels))]
    if MIN_OWN_WIDTH <= width <= MAX_OWN_WIDTH and abs(np.log(width / WIDTH)) > np.log(OTHER_SCALE):
        pictures.append(make_picture(rgb, labels))
    is_stained = np.ptp(rgb.astype(np.float64), axis=-1).mean() > MIN_COLOUR
    return [picture for picture in pictures for _ in range(STAIN_REPEATS if is_stained else 1)]


def draw_shapes(rng: np.random.Generator, count: int, side: int = 256) -> list[Picture]:
    """Draw plain shapes in noise, in every other image, so that noise alone is no object."""
    rows, columns = np.mgrid[:side, :side].astype(np.float64)
    pictures = []
    for number in range(count):
        labels = np.zeros((side, side), np.int64)
        for k in range(1, int(rng.integers(1, 30)) + 1 if number % 2 else 1):
            y, x, angle = rng.uniform(0, side), rng.uniform(0, side), rng.uniform(0, np.pi)
            long, wide = WIDTH / 2 * np.exp(rng.uniform(-0.7, 1.0, 2))
            u = (np.cos(angle) * (rows - y) + np.sin(angle) * (columns - x)) / long
            v = (np.cos(angle) * (columns - x) - np.sin(angle) * (rows - y)) / wide
            shape = np.hypot(u, v) < 1 if rng.random() < 0.7 else np.maximum(np.abs(u), np.abs(v)) < 0.9
            if not labels[ndimage.binary_dilation(shape, iterations=2)].any():  # touching shapes would look like one
                labels[shape] = k
        shapes = ndimage.gaussian_filter((labels > 0).astype(np.float64), rng.uniform(0.1, 1.5))
        contrast = np.exp(rng.uniform(np.log(0.05), 0))
        noise = ndimage.gaussian_filter(rng.normal(size=labels.shape), rng.choice([0, 0, 0, 1, 2, 4, 8]))
        ramp = rng.uniform(0, 1) * rng.integers(0, 2) * (np.cos(number) * rows + np.sin(number) * columns) / side
        glow = ndimage.gaussian_filter((rng.random(labels.shape) < 5e-4).astype(np.float64), rng.uniform(12, 35))
        haze = rng.uniform(0, 1) * rng.integers(0, 2) * glow / max(float(glow.max()), 1e-12)
        if number % 2:
            ramp, haze = 0.4 * ramp, 0.4 * haze
        grain = contrast * rng.uniform(0.02, 0.45) * noise / max(float(noise.std()), 1e-12)
        field = rng.choice([-1, 1]) * contrast * shapes + grain + contrast * (ramp + haze)
        pictures.append(make_picture(to_uint8(field), labels))
    return pictures


def draw_touching(rng: np.random.Generator, count: int, side: int = 256) -> list[tuple[Float64Array, LabelImage]]:
    """Draw round shapes in noise, single and in pairs that overlap, and their labels.

    No border runs between the two of a pair: only their waist separates them. Some single shapes are elongated.
    """
    rows, columns = np.mgrid[:side, :side].astype(np.float64)
    pictures: list[tuple[Float64Array, LabelImage]] = []
    for _ in range(count):
        labels = np.zeros((side, side), np.int64)
        light = np.zeros((side, side))
        radius = float(np.exp(rng.uniform(np.log(6), np.log(20))))
        for _ in range(400):
            y, x, angle = rng.uniform(0, side), rng.uniform(0, side), rng.uniform(0, np.pi)
            offset = rng.uniform(1.35, 1.9) * radius / 2 if rng.random() < 0.5 else 0.0
            long = radius * (1.0 if offset else np.exp(rng.uniform(0, 0.7)))
            along = np.cos(angle) * (rows - y) + np.sin(angle) * (columns - x)
            across = np.cos(angle) * (columns - x) - np.sin(angle) * (rows - y)
            first = np.hypot((along - offset) / long, across / radius) < 1
            second = np.hypot((along + offset) / long, across / radius) < 1 if offset else first
            both = first | second
            if labels[ndimage.binary_dilation(both, iterations=3)].any():
                continue
            labels[both] = labels.max() + 1
            if offset:
                labels[both & (along < 0)] = labels.max() + 1
            light[both] = rng.uniform(0.3, 1)
        blurred = ndimage.gaussian_filter(light, rng.uniform(0.1, 1.2))
        pictures.append((blurred + rng.normal(0, rng.uniform(0.01, 0.06), blurred.shape), labels))
    return pictures
