"""Pictures that a network learns from: photographs, objects at a usual scale, drawn shapes, and crops of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from skimage.segmentation import find_boundaries

from napari_gsw.core.array_types import BoolArray, Float32Array, Float64Array, Int64Array, LabelImage
from napari_gsw.core.errors import InputError
from napari_gsw.core.features.network import (
    EMBEDDING_STRIDE,
    INPUT_MEAN,
    INPUT_SCALE,
    MIN_WIDTH,
    OCTAVES,
    rescale,
    to_uint8,
)
from napari_gsw.core.image.normalized_image import normalize_image, read_channels
from napari_gsw.research.baselines.photographs import to_rgb
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
    """Read a photograph, grey or RGB, and the segmentations of all annotators."""
    scene = example.read()
    image = np.rint(to_rgb(scene.image, scene.axes, "a network for photographs") * 255).astype(np.uint8)
    numbers = [np.unique(human, return_inverse=True)[1].reshape(human.shape) for human in scene.human_labels]
    return [Picture(image, [labels.astype(np.int16) for labels in numbers])]


def read_objects(example: Example) -> list[Picture]:
    """Read an image of objects, at the usual scale and at its own if the two differ."""
    annotated = example.read()
    if annotated.human_labels[0].ndim != 2:
        raise InputError(f"{str(example.image)!r} is a volume; an object network learns from two dimensions")
    values, _ = read_channels(annotated.image, annotated.axes)
    return make_pictures(values, annotated.human_labels[0].astype(np.int64))


def make_pictures(image: NDArray[Any], labels: LabelImage) -> list[Picture]:
    """Make the pictures of an image (h, w) or (h, w, c) of any type, at the usual and at its own scale."""
    rgb, width = to_uint8(image), median_width(labels)
    pictures = [make_picture(*scale_to_width(rgb, labels))]
    if MIN_OWN_WIDTH <= width <= MAX_OWN_WIDTH and abs(np.log(width / WIDTH)) > np.log(OTHER_SCALE):
        pictures.append(make_picture(rgb, labels))
    is_stained = np.ptp(rgb.astype(np.float64), axis=-1).mean() > MIN_COLOUR
    return [picture for picture in pictures for _ in range(STAIN_REPEATS if is_stained else 1)]


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


def make_picture(image: NDArray[np.uint8], labels: LabelImage) -> Picture:
    """Renumber the labels and make the targets.

    The first is 255 in the centre of an object and near 0 at its border, the second the width of the object: 0 for 4
    pixels, 255 for 128 and more, by octaves. Both are 0 in the background.
    """
    numbers = np.unique(np.concatenate(([0], labels.ravel())), return_inverse=True)[1][1:].reshape(labels.shape)
    edge = find_boundaries(numbers, connectivity=1, mode="thick")
    distance = ndimage.distance_transform_edt(~edge & (numbers > 0))
    highest = np.zeros(int(numbers.max()) + 1)
    np.maximum.at(highest, numbers.ravel(), distance.ravel())
    width = np.log2(np.sqrt(np.maximum(np.bincount(numbers.ravel()), 1)) / MIN_WIDTH) / OCTAVES
    width[0] = 0
    targets = np.stack((distance / np.maximum(highest[numbers], 1), np.clip(width, 0, 1)[numbers]), axis=-1)
    return Picture(image, [numbers.astype(np.int16)], np.rint(255 * targets).astype(np.uint8))


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


# ---- random crops


class Augmentation(NamedTuple):
    """Ranges of the random changes of crops."""

    zoom: float  # maximum factor of magnification and reduction
    turn: float  # fraction of crops that are rotated by any angle; the others by at most ten degrees
    gamma: float  # standard deviation of the natural logarithm, likewise gain and contrast
    gain: float
    contrast: float
    grey: float  # fraction of crops without colour
    invert: float  # fraction of crops with light and dark exchanged
    shuffle: float  # fraction of crops with their channels in another order
    noise: float  # maximum width of the noise, of values from 0 to 1


AUGMENTATIONS = {
    "photo": Augmentation(1.7, 0.5, 0.25, 0.08, 0.15, 0.1, 0.0, 0.0, 0.02),
    "objects": Augmentation(2.0, 1.0, 0.4, 0.2, 0.3, 0.3, 0.3, 0.3, 0.06),
}
# Additional weight of pixels on boundaries, on outlines of objects, and at their contacts.
BOUNDARY_WEIGHT, OUTLINE_WEIGHT, CONTACT_WEIGHT = 3.0, 2.0, 5.0
# Pairs of places in a crop.
PAIRS = 4096


@dataclass(frozen=True)
class Crops:
    """Random crops of pictures with their targets, the same for the same seed; a data set for PyTorch."""

    kind: str  # photo or objects
    pictures: list[Picture]
    side: int  # of a crop in pixels
    count: int
    seed: int = 0

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: Any) -> dict[str, NDArray[Any]]:
        """Return the ``image`` (3, side, side), its ``target`` and ``weight`` (c, side, side), and pairs of places.

        ``pairs`` (PAIRS, 2) are numbers of places, of which there is one for `EMBEDDING_STRIDE` pixels along each axis,
        and ``same`` (PAIRS,) is the fraction of annotators who put the two into one segment.
        """
        rng = np.random.default_rng((self.seed, number))
        picture = self.pictures[rng.integers(len(self.pictures))]
        image, labels, targets, zoom = crop_picture(picture, AUGMENTATIONS[self.kind], self.side, rng)
        channels = normalize_image(np.rint(255 * image).astype(np.uint8), "YXS").channels
        pairs = draw_pairs(rng, self.side // EMBEDDING_STRIDE)
        half = EMBEDDING_STRIDE // 2
        places = labels[:, half::EMBEDDING_STRIDE, half::EMBEDDING_STRIDE].reshape(len(labels), -1)
        same = (places[:, pairs[:, 0]] == places[:, pairs[:, 1]]).mean(axis=0)
        if targets is None:
            target = np.mean([find_borders(human) for human in labels], axis=0)[np.newaxis]
            weight = 1 + BOUNDARY_WEIGHT * target
        else:
            target, weight = make_object_targets(labels[0], targets, zoom)
        content = {"image": ((channels - INPUT_MEAN) / INPUT_SCALE).transpose(2, 0, 1), "target": target}
        content |= {"weight": weight, "same": same}
        return {"pairs": pairs, **{name: array.astype(np.float32) for name, array in content.items()}}


def crop_picture(
    picture: Picture, augmentation: Augmentation, side: int, rng: np.random.Generator
) -> tuple[Float32Array, NDArray[np.int16], Float32Array | None, float]:
    """Crop a picture, rotated, scaled, mirrored and recoloured at random.

    Returns sRGB (side, side, 3) from 0 to 1, the labels (annotators, side, side), the targets (2, side, side) from 0 to
    1 if there are any, and the magnification.
    """
    a, shape = augmentation, np.array(picture.image.shape[:2])
    zoom = float(a.zoom ** rng.uniform(-1, 1))
    angle = rng.uniform(-np.pi, np.pi) / (1 if rng.random() < a.turn else 18)
    cos, sin = np.cos(angle) / zoom, np.sin(angle) / zoom
    margin = np.minimum(0.4 * side / (zoom * shape), 0.5)  # crops stay within the image, if there is room
    centre = (margin + rng.random(2) * (1 - 2 * margin)) * (shape - 1)
    dy, dx = np.indices((side, side)) - (side - 1) / 2
    dx = dx * rng.choice([-1, 1])
    positions: Float64Array = np.stack((centre[0] + cos * dy - sin * dx, centre[1] + sin * dy + cos * dx))

    def look_up(values: NDArray[Any], order: Any = 0) -> NDArray[Any]:
        return np.asarray(ndimage.map_coordinates(values, positions, order=order, mode="mirror"))

    colours = picture.image.astype(np.float32) / 255
    image = np.stack([look_up(colours[..., c], order=1) for c in range(3)], axis=-1)
    labels = np.stack([look_up(human) for human in picture.labels])
    targets: Float32Array | None = None
    if picture.targets is not None:
        targets = np.stack([look_up(picture.targets[..., k]) for k in range(2)]).astype(np.float32)
        targets /= 255
    if rng.random() < a.shuffle:
        image = image[..., rng.permutation(3)]
    if rng.random() < a.invert:
        image = 1 - image
    if rng.random() < a.grey:
        image = np.repeat(image.mean(axis=-1, keepdims=True), 3, axis=-1)
    image = np.maximum(image, 1e-4) ** np.exp(a.gamma * rng.normal()) * np.exp(a.gain * rng.normal(size=3))
    image = image.mean() + (image - image.mean()) * np.exp(a.contrast * rng.normal())
    image = image + a.noise * rng.random() * rng.normal(size=(side, side, 1))
    return np.clip(image, 0, 1).astype(np.float32), labels, targets, zoom


def find_borders(labels: NDArray[np.integer]) -> BoolArray:
    """Find where labels (h, w) differ from the next pixel right or below, and all neighbours of these pixels."""
    thin = np.zeros(labels.shape, bool)
    thin[:-1] |= labels[1:] != labels[:-1]
    thin[:, :-1] |= labels[:, 1:] != labels[:, :-1]
    return np.asarray(ndimage.binary_dilation(thin, np.ones((3, 3), bool)))


def make_object_targets(
    labels: NDArray[np.integer], targets: Float32Array, zoom: float
) -> tuple[Float64Array, Float64Array]:
    """Make the targets (5, h, w) of objects and the weights of pixels: mask, outline, centre, contact and width.

    A contact is where two objects are within two pixels. Widths are those of the magnified crop.
    """
    mask = labels > 0
    outline = find_boundaries(labels, connectivity=1, mode="thick")
    largest, smallest = (ndimage.maximum_filter(values, 5) for values in (labels, np.where(mask, -labels, -(2**15))))
    contact = (largest > 0) & (-smallest < largest)
    width = np.clip(targets[1] + np.log2(zoom) / OCTAVES, 0, 1)
    ones = np.ones(labels.shape)
    target = np.stack((mask, outline, targets[0] * mask, contact, width))
    return target, np.stack((ones, 1 + OUTLINE_WEIGHT * outline, ones, 1 + CONTACT_WEIGHT * contact, mask))


def draw_pairs(rng: np.random.Generator, side: int) -> Int64Array:
    """Draw (PAIRS, 2) pairs of places in a square, with distances from 1 to side / 3."""
    distance = np.exp(rng.uniform(0, np.log(side / 3), PAIRS))
    angle = rng.uniform(0, 2 * np.pi, PAIRS)
    first = rng.integers(0, side, (2, PAIRS))
    step = np.rint(distance * np.stack((np.sin(angle), np.cos(angle)))).astype(np.int64)
    second = np.clip(first + step, 0, side - 1)
    return np.stack((first[0] * side + first[1], second[0] * side + second[1]), axis=-1)
