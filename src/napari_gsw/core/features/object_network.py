"""Object probabilities of an image by the network for microscopy.

A first pass estimates the width of the objects, and a second pass is at the scale at which the network knows such
objects best. The mean of both is taken, unless the first pass was much coarser. In each pass the network also sees the
mirror image: trained on a few hundred images, it does not see both alike.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import scipy
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
    sharpen,
)
from napari_gsw.core.image.foreground_signal import discriminant_weights
from napari_gsw.core.image.normalized_image import normalize_image

# Channels of the maps.
INSIDE, OUTLINE, CENTRE, CONTACT, WIDTH = range(5)
# Channel WIDTH is 0 for objects of 4 pixels and 1 for 128, on a log scale.
MIN_WIDTH, OCTAVES = 4.0, 5.0
# Width in pixels of the Gaussian under which channels are compared, since noise varies in all of them.
CHANNEL_SMOOTHING = 2.0
# Width in pixels at which the network knows objects best, and the width assumed where there is no object.
BEST_WIDTH, USUAL_WIDTH = 38.0, 28.0
MIN_ZOOM, MAX_ZOOM = 0.25, 3.0
# The first pass is coarser on more pixels than this, down to a half; the second is not enlarged beyond so many.
FIRST_PIXELS, MAX_PIXELS, MIN_FIRST_ZOOM = 2**17, 2**18, 0.5
# Zooms within this factor are the same; a first pass coarser by more than the other factor is not used.
SAME_ZOOM, COARSER = 1.1, 1.5
# From this width of blur on (pixels) the network misplaces borders; grey levels of a step between two sides.
MIN_BLUR, STEP = 1.5, 15.0
# A coarse pass for large objects has this longer side; the usual pass has to see this share of what it sees.
COARSE_SIDE, HOLLOW = 256, 0.5
# Plain shapes up to this width are seen as one object; of wider ones the network sees borders and hollows.
MAX_PLAIN_WIDTH = 64.0
# A slice of a volume is made to differ more, by this factor, from the Gaussian mean of the slices around it (width in
# units of its pixels, minimum in slices), after noise is smoothed by the speckle width; and the maximal zoom of slices.
# Chosen on the one volume of the development data.
DEPTH_WIDTH, MIN_DEPTH_WIDTH, DEPTH_CONTRAST = 6.0, 2.0, 3.0
SPECKLE_WIDTH, MAX_SLICE_ZOOM = 0.5, 2.0
# Maps of the last images are kept, since a scribble makes the problem of an image anew.
CACHED_MAPS = 2


def to_uint8(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Stretch an image (h, w) or (*shape, c) to (*shape, 3) uint8 between its black and white percentile.

    Images without three channels become grey by the mean. Where the mean varies much less than another weighted sum of
    the channels, that sum is taken: no stain looks so, and the network has seen stains.
    """
    image = values[..., np.newaxis] if values.ndim == 2 else values
    image = image.astype(np.float64)
    weights = None
    if image.shape[-1] > 1:
        widths = (*(CHANNEL_SMOOTHING,) * (image.ndim - 1), 0)
        weights = discriminant_weights([np.asarray(scipy.ndimage.gaussian_filter(image, widths))])
    if weights is not None or image.shape[-1] != 3:
        grey = image.mean(axis=-1) if weights is None else image @ weights
        image = np.repeat(grey[..., np.newaxis], 3, axis=-1)
    low, high = np.percentile(image, (BLACK_PERCENTILE, WHITE_PERCENTILE))
    if high <= low:
        low, high = image.min(), image.max()
    if high <= low:
        return np.zeros(image.shape, np.uint8)
    return np.asarray(np.rint(np.clip((image - low) / (high - low), 0, 1) * 255), dtype=np.uint8)


def resize_linear(image: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Resize an image (h, w, c) by linear interpolation."""
    axes = (np.linspace(0, n - 1, m) for n, m in zip(image.shape, shape, strict=False))
    points = np.meshgrid(*axes, indexing="ij")
    channels = np.moveaxis(image, -1, 0)
    resized = [scipy.ndimage.map_coordinates(channel, points, order=1, mode="nearest") for channel in channels]
    return np.stack(resized, axis=-1)


def rescale(image: NDArray[np.uint8], zoom: float, min_side: int = 16) -> NDArray[np.uint8]:
    """Rescale an image (h, w, 3); one that becomes smaller is blurred first."""
    if zoom < 1:
        image = scipy.ndimage.gaussian_filter(image, (0.4 / zoom, 0.4 / zoom, 0))
    return np.asarray(resize_linear(image, tuple(max(min_side, round(n * zoom)) for n in image.shape[:2])))


def predict_objects(values: NDArray[Any], network: Network) -> Float32Array:
    """Predict the maps (h, w, 5) of an image (h, w) or (h, w, c) of any type; see ``INSIDE`` and so on."""
    image = _to_network_rgb(values)
    return _predict_two_scales(image.tobytes(), image.shape, network)


def are_too_large(values: NDArray[Any], maps: Float32Array, network: Network) -> bool:
    """Return whether the objects of an image are larger than the network can know, given its maps.

    The width of plain shapes is measured. Others are too large if a coarse pass sees them where the maps are hollow.
    """
    image = _to_network_rgb(values)
    if measure_plain_width(image) > MAX_PLAIN_WIDTH:
        return True
    if max(maps.shape[:2]) <= 2 * COARSE_SIDE:
        return False
    coarse = _predict(image, network, COARSE_SIDE / max(image.shape[:2]))[..., INSIDE] > 0.5
    return bool(np.count_nonzero(coarse & (maps[..., INSIDE] > 0.5)) < HOLLOW * np.count_nonzero(coarse))


def measure_plain_width(image: NDArray[np.uint8]) -> float:
    """Measure the widest object in an image (h, w, 3) of plain shapes, in pixels; 0 for any other image."""
    channels = normalize_image(image, "YXS", reduce_noise=True).channels
    if estimate_blur(channels) is None:
        return 0.0
    channel = channels[..., int(np.argmax(channels.reshape(-1, channels.shape[-1]).var(axis=0)))]
    bright = channel > filters.threshold_otsu(channel)
    objects = bright if bright.mean() <= 0.5 else ~bright
    return 2 * float(scipy.ndimage.distance_transform_edt(np.pad(objects, 1)).max())


def estimate_object_width(maps: Float32Array) -> float:
    """Estimate the median width of objects in pixels, each counted once whatever its size."""
    inside = maps[..., INSIDE] > 0.5
    if not inside.any():
        return USUAL_WIDTH
    width = np.sort(MIN_WIDTH * 2 ** (OCTAVES * maps[..., WIDTH][inside].astype(np.float64)))
    n_objects = np.cumsum(1 / width**2)
    return float(width[np.searchsorted(n_objects, n_objects[-1] / 2)])


def _to_network_rgb(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Convert an image to what the network sees: 8 bits, and plain shapes out of focus with sharp borders."""
    image = to_uint8(dequantize(values))
    width = estimate_blur(normalize_image(image, "YXS", reduce_noise=True).channels)
    # The largest width stands for all that is softer: nuclei.
    if width is None or not MIN_BLUR <= width < max(BLUR_WIDTHS):
        return image
    return np.rint(sharpen(image.astype(np.float32), width, STEP)).astype(np.uint8)


@lru_cache(CACHED_MAPS)
def _predict_two_scales(content: bytes, shape: tuple[int, ...], network: Network) -> Float32Array:
    image, pixels = np.frombuffer(content, np.uint8).reshape(shape), shape[0] * shape[1]
    first = float(np.clip(np.sqrt(FIRST_PIXELS / pixels), MIN_FIRST_ZOOM, 1))
    maps = _predict(image, network, first)
    second = float(np.clip(BEST_WIDTH / estimate_object_width(maps), MIN_ZOOM, MAX_ZOOM))
    second = min(second, max(1.0, float(np.sqrt(MAX_PIXELS / pixels))))
    if max(first / second, second / first) < SAME_ZOOM:
        return maps
    finer_maps = _predict(image, network, second)
    return finer_maps if second > COARSER * first and first < 1 else (maps + finer_maps) / np.float32(2)


def predict_slices(
    values: NDArray[Any], network: Network, depth: float = 1.0, progress: Callable[[int, int], None] | None = None
) -> Float32Array:
    """Predict the probability of being inside an object, (z, y, x), slice by slice and on one scale.

    Light of one slice of the values (z, y, x, c) is seen in those above and below, where annotators see no object: each
    slice is first made to differ more from the mean of its neighbours. `depth` is the distance of the slices in pixels.
    `progress` is called with the number of slices done and their total.
    """
    volume = values.astype(np.float32)
    around = scipy.ndimage.gaussian_filter1d(volume, max(MIN_DEPTH_WIDTH, DEPTH_WIDTH / depth), axis=0)
    contrasted = volume + DEPTH_CONTRAST * (volume - around)
    slices = to_uint8(scipy.ndimage.gaussian_filter(contrasted, (*(SPECKLE_WIDTH,) * 3, 0)))
    width = estimate_object_width(_predict(slices[len(slices) // 2], network, 1.0))
    zoom = min(float(np.clip(BEST_WIDTH / width, 1, MAX_ZOOM)), MAX_SLICE_ZOOM)
    inside = []
    for number, image in enumerate(slices):
        passes = [_predict(image, network, z)[..., INSIDE] for z in sorted({1.0, zoom})]
        inside.append(np.mean(passes, axis=0, dtype=np.float32))
        if progress is not None:
            progress(number + 1, len(slices))
    return np.stack(inside)


def _predict(image: NDArray[np.uint8], network: Network, zoom: float) -> Float32Array:
    """Predict the maps of an image (h, w, 3) and its mirror image at a zoom, and resize them to the image."""
    zoomed = image if zoom == 1 else rescale(image, zoom)
    lab = normalize_image(np.ascontiguousarray(zoomed), "YXS").channels
    mirrored = network.predict(np.ascontiguousarray(lab[:, ::-1])).fine[:, ::-1]
    fine = (network.predict(lab).fine + mirrored) / np.float32(2)
    if zoom == 1:
        return fine
    maps: Float32Array = resize_linear(fine, image.shape[:2]).astype(np.float32)
    # Widths are those in pixels of the image.
    maps[..., WIDTH] = np.clip(maps[..., WIDTH] - np.float32(np.log2(zoom) / OCTAVES), 0, 1)
    return maps
