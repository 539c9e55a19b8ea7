"""What the object network says of an image: looked at twice, the second time so that objects are of a good size.

The first look says how wide objects are, and the second is at the scale at which the network knows them best. What the
two say is averaged, unless the first look was too coarse for that. Each is a look at the image and one at its mirror
image, which a network that has learnt from a few hundred pictures does not see alike.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from skimage import filters

from napari_gsw.core.array_types import Float32Array
from napari_gsw.core.features.network import Network
from napari_gsw.core.image.focus import (
    BLACK_PERCENTILE,
    BLUR_WIDTHS,
    WHITE_PERCENTILE,
    dequantize,
    estimate_blur,
    estimate_shape_blur,
    sharpen,
)
from napari_gsw.core.image.foreground_signal import discriminant_weights
from napari_gsw.core.image.normalized_image import normalize_image

# The channels of the maps, in their order; see core/features/network_plan.py.
INSIDE, OUTLINE, CENTRE, CONTACT, WIDTH = range(5)
# Widths of objects from 4 to 128 pixels are so many octaves.
MIN_WIDTH, OCTAVES = 4.0, 5.0
# Width in pixels of the Gaussian under which channels are compared, since noise varies in all of them.
CALM = 2.0
# Pixels across an object at which it is seen best, and what is taken for the width where there is no object.
ACROSS, USUAL = 38.0, 28.0
# How far a picture is made smaller or larger, at most.
SMALLEST, LARGEST = 0.25, 3.0
# A first look at more pixels than this is coarser, by a half at most; and a picture is not made larger than so many.
FIRST_PIXELS, MOST_PIXELS = 2**17, 2**18
LEAST_FIRST = 0.5
# Scales that differ by less than this factor are the same; and a first look that is coarser by more says nothing.
SAME, COARSER = 1.1, 1.5
# Width in pixels of the Gaussian that a picture is out of focus by, from which on the network does not see its borders
# where they are; and a difference, of 255 levels of grey, that is a step between two sides.
LEAST_BLUR, STEP = 1.5, 15.0
# Pixels along the longer side at which a picture is looked at for large objects, and how much of them the usual look
# has to see for them to be as small as what the network has learnt from.
COARSE, HOLLOW = 256, 0.5
# Pixels across plain shapes that the network sees as one object; of wider ones it sees borders and hollows.
WIDEST = 64.0
# A plane of a volume differs from the Gaussian mean in depth of so many planes (at a distance of one pixel; of so many
# at least) by so many times more than it did; width of the blur against noise before that; and the finest scale that
# planes are looked at. Chosen on the one volume of the development data.
DEPTH, LEAST_DEPTH, DEEPER = 6.0, 2.0, 3.0
SPECK, FINEST = 0.5, 2.0
# Maps of the last images are kept: a stroke of a person makes the problem of an image anew.
KEPT = 2
_kept: OrderedDict[str, Float32Array] = OrderedDict()


def to_uint8(values: NDArray[Any]) -> NDArray[np.uint8]:
    """(\\*shape, 3) uint8 of a picture (h, w) or an image (\\*shape, c) of any type, from its dark to its bright end.

    Three channels are those of colours; of any other number it is the mean. Where the mean of the channels hardly
    varies beside another sum of them it is that sum: no stain looks so, and the network has seen stains.
    """
    light = values[..., np.newaxis] if values.ndim == 2 else values
    light = light.astype(np.float64)
    weights = None if light.shape[-1] == 1 else discriminant_weights([_calm(light)])
    if weights is not None or light.shape[-1] != 3:
        grey = light.mean(axis=-1) if weights is None else light @ weights
        light = np.repeat(grey[..., np.newaxis], 3, axis=-1)
    low, high = np.percentile(light, (BLACK_PERCENTILE, WHITE_PERCENTILE))
    if high <= low:
        low, high = light.min(), light.max()
    if high <= low:
        return np.zeros(light.shape, np.uint8)
    return np.asarray(np.rint(np.clip((light - low) / (high - low), 0, 1) * 255), dtype=np.uint8)


def _calm(light: NDArray[np.float64]) -> NDArray[np.float64]:
    from scipy import ndimage

    return np.asarray(ndimage.gaussian_filter(light, (*(CALM,) * (light.ndim - 1), 0)))


def resize_linear(image: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """An image (h, w, c) at another shape, by interpolation along straight lines."""
    from scipy import ndimage

    places = np.meshgrid(*(np.linspace(0, n - 1, m) for n, m in zip(image.shape, shape, strict=False)), indexing="ij")
    channels = [ndimage.map_coordinates(image[..., c], places, order=1, mode="nearest") for c in range(image.shape[-1])]
    return np.stack(channels, axis=-1)


def rescale(image: NDArray[np.uint8], zoom: float, least: int = 16) -> NDArray[np.uint8]:
    """A picture (h, w, 3) at another scale; blurred first where it becomes smaller, so that nothing is too fine."""
    from scipy import ndimage

    if zoom < 1:
        image = ndimage.gaussian_filter(image, (0.4 / zoom, 0.4 / zoom, 0))
    return np.asarray(resize_linear(image, tuple(max(least, round(n * zoom)) for n in image.shape[:2])))


def predict_objects(values: NDArray[Any], network: Network) -> Float32Array:
    """(h, w, 5) float32 probabilities of what the network tells; see ``INSIDE``, ``OUTLINE`` and so on.

    Parameters
    ----------
    values : (h, w) or (h, w, c) of any type.
    """
    image = _to_network_rgb(values)
    key = f"{network.sha256}{image.shape}{hashlib.sha256(np.ascontiguousarray(image).data).hexdigest()}"
    if key not in _kept:
        _kept[key] = _predict_two_scales(image, network)
        while len(_kept) > KEPT:
            _kept.popitem(last=False)
    return _kept[key]


def are_too_large(values: NDArray[Any], maps: Float32Array, network: Network) -> bool:
    """Whether the objects are larger than the network can know.

    Plain shapes say themselves how wide they are. Others are too wide if a coarse look sees them, and the maps are
    hollow there.

    Parameters
    ----------
    values, maps : (h, w) or (h, w, c) of any type, and what :func:`object_maps` says of them.
    """
    image = _to_network_rgb(values)
    if measure_plain_width(image) > WIDEST:
        return True
    if max(maps.shape[:2]) <= 2 * COARSE:
        return False
    coarse = _predict(image, network, COARSE / max(image.shape[:2]))[..., INSIDE] > 0.5
    return bool(np.count_nonzero(coarse & (maps[..., INSIDE] > 0.5)) < HOLLOW * np.count_nonzero(coarse))


def measure_plain_width(image: NDArray[np.uint8]) -> float:
    """Pixels across the widest object of a picture (h, w, 3) of plain shapes; 0 if there is more in it than these."""
    from scipy import ndimage

    channels = normalize_image(image, "YXS", calm=True).channels
    if estimate_shape_blur(channels) is None:
        return 0.0
    light = channels[..., int(np.argmax(channels.reshape(-1, channels.shape[-1]).var(axis=0)))]
    bright = light > filters.threshold_otsu(light)
    objects = bright if bright.mean() <= 0.5 else ~bright
    return 2 * float(ndimage.distance_transform_edt(np.pad(objects, 1)).max())


def estimate_object_width(maps: Float32Array) -> float:
    """Pixels across the object in the middle of all, however large the others are, by maps (h, w, 5)."""
    inside = maps[..., INSIDE] > 0.5
    if not inside.any():
        return USUAL
    width = np.sort(MIN_WIDTH * 2 ** (OCTAVES * maps[..., WIDTH][inside].astype(np.float64)))
    objects = np.cumsum(1 / width**2)  # every object counts once, not every pixel
    return float(width[np.searchsorted(objects, objects[-1] / 2)])


def _to_network_rgb(values: NDArray[Any]) -> NDArray[np.uint8]:
    """(h, w, 3) what the network looks at, of a picture (h, w) or (h, w, c) of any type."""
    return _in_focus(to_uint8(dequantize(values)))


def _in_focus(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """A picture (h, w, 3) of plain shapes out of focus with sharp borders, which are what the network is to see."""
    width = estimate_blur(normalize_image(image, "YXS", calm=True).channels)
    if width is None or not LEAST_BLUR <= width < max(BLUR_WIDTHS):  # the widest stands for all that is softer: nuclei
        return image
    return np.rint(sharpen(image.astype(np.float32), width, STEP)).astype(np.uint8)


def _predict_two_scales(image: NDArray[np.uint8], network: Network) -> Float32Array:
    """The maps of a picture (h, w, 3)."""
    pixels = image.shape[0] * image.shape[1]
    first = float(np.clip(np.sqrt(FIRST_PIXELS / pixels), LEAST_FIRST, 1))
    maps = _predict(image, network, first)
    second = float(np.clip(ACROSS / estimate_object_width(maps), SMALLEST, LARGEST))
    second = min(second, max(1.0, float(np.sqrt(MOST_PIXELS / pixels))))
    if max(first / second, second / first) < SAME:
        return maps
    again = _predict(image, network, second)
    return again if second > COARSER * first and first < 1 else (maps + again) / np.float32(2)


def predict_slices(
    values: NDArray[Any], network: Network, depth: float = 1.0, progress: Callable[[int, int], None] | None = None
) -> Float32Array:
    """(z, y, x) float32 probability of being inside an object, of a volume that the network sees plane by plane.

    Light of one plane is seen in those above and below, where people see no object: before the network looks, a plane
    is made to differ more from the mean of its neighbours in depth. All planes are looked at on one scale.

    Parameters
    ----------
    values : (z, y, x, c) of any type.
    depth : distance of the planes, in units of that of the pixels in a plane.
    progress : called with the planes that are done and how many there are.
    """
    from scipy import ndimage

    light = values.astype(np.float32)
    around = ndimage.gaussian_filter1d(light, max(LEAST_DEPTH, DEPTH / depth), axis=0)
    image = to_uint8(ndimage.gaussian_filter(light + DEEPER * (light - around), (*(SPECK,) * 3, 0)))
    middle = image[len(image) // 2]
    scale = min(float(np.clip(ACROSS / estimate_object_width(_predict(middle, network, 1.0)), 1, LARGEST)), FINEST)
    planes = []
    for number, plane in enumerate(image):
        looks = [_predict(plane, network, zoom)[..., INSIDE] for zoom in sorted({1.0, scale})]
        planes.append(np.mean(looks, axis=0, dtype=np.float32))
        if progress is not None:
            progress(number + 1, len(image))
    return np.stack(planes)


def _predict(image: NDArray[np.uint8], network: Network, zoom: float) -> Float32Array:
    """What the network says of a picture (h, w, 3) and of its mirror image at a scale, at the pixels of the picture."""
    seen = image if zoom == 1 else rescale(image, zoom)
    colours = normalize_image(np.ascontiguousarray(seen), "YXS").channels
    mirrored = network.predict(np.ascontiguousarray(colours[:, ::-1])).fine[:, ::-1]
    fine = (network.predict(colours).fine + mirrored) / np.float32(2)
    if zoom == 1:
        return fine
    maps: Float32Array = resize_linear(fine, image.shape[:2]).astype(np.float32)
    # Widths are those in pixels of the picture.
    maps[..., WIDTH] = np.clip(maps[..., WIDTH] - np.float32(np.log2(zoom) / OCTAVES), 0, 1)
    return maps
