"""Preview of a large image: a segmentation of a coarse copy, shown while the image itself is prepared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from skimage import measure

from napari_gsw.core.array_types import BoolArray, LabelImage
from napari_gsw.core.errors import InputError
from napari_gsw.core.image.normalized_image import parse_axes
from napari_gsw.core.pipeline.segment import segment
from napari_gsw.core.pipeline.stage import Stage
from napari_gsw.core.settings import MIN_REGION_PIXELS, Settings
from napari_gsw.core.settings.presets import DEFAULT_PRESET, preset

# An image with more pixels takes long to prepare.
LARGE = 6_000_000
# Pixels of the copy at most, its superpixels, and sweeps of the chain.
COPY, SITES, SWEEPS = 200_000, 800, 40
# A pixel of the copy is the mean of so many along each axis.
SAMPLES = 4
PREVIEW = Stage("preview")


class Preview(NamedTuple):
    """Labels of a coarse copy, and how many pixels of the image along each axis one of its pixels stands for."""

    labels: NDArray[np.uint16]
    step: int


def choose_step(shape: tuple[int, ...]) -> int:
    """Return how many pixels of an image along each axis become one of its copy; 1 for an image that is not large.

    >>> choose_step((2000, 2000)), choose_step((8000, 8000)), choose_step((400, 400, 400))
    (1, 20, 8)
    """
    pixels = int(np.prod(shape))
    if pixels <= LARGE:
        return 1
    step = int(np.ceil((pixels / COPY) ** (1 / len(shape))))
    return min(SAMPLES * (-(-step // SAMPLES)), min(shape))


def make_preview(
    image: NDArray[Any],
    settings: Settings,
    seed: int,
    mask: BoolArray | None,
    seeds: LabelImage | None,
    report: Callable[[Stage], None],
) -> Preview | None:
    """Segment a coarse copy of a large image; None if the image is not large, or the copy cannot be segmented.

    `report` is called between the steps; what it raises ends the preview.
    """
    axes = parse_axes(image, settings.axes)
    spatial = [index for index, axis in enumerate(axes) if axis in "ZYX"]
    step = choose_step(tuple(image.shape[index] for index in spatial))
    if step == 1:
        return None
    report(PREVIEW)
    if settings.view == "objects":  # which are too small to be seen
        settings = preset(DEFAULT_PRESET, spacing=settings.spacing)
    min_region = (MIN_REGION_PIXELS if settings.min_region is None else settings.min_region) // step ** len(spatial)
    try:
        result = segment(
            downsample(image, spatial, step),
            settings.replace(sweeps=SWEEPS, chains=1, site_count=SITES, min_region=max(1, min_region), axes=axes),
            seed=seed,
            mask=None if mask is None else _pool(mask, [step] * mask.ndim, np.min),
            seeds=None if seeds is None else _pool(seeds, [step] * seeds.ndim, np.max),
            report=lambda stage, snapshot: report(PREVIEW),  # its stages are not those of the image
        )
    except InputError:  # raised again by the image itself, unless the copy is too coarse
        return None
    return Preview(np.asarray(result.labels).astype(np.uint16), step)


def downsample(array: NDArray[Any], axes: list[int], step: int) -> NDArray[Any]:
    """Return means over blocks of `step` elements along some axes, of a few samples each, in the array's dtype."""
    n_samples = step if step % SAMPLES else SAMPLES  # the step of a thin stack may be small
    stride = step // n_samples
    slices = [slice(None)] * array.ndim
    for axis in axes:
        slices[axis] = slice(stride // 2, array.shape[axis] // step * step, stride)
    means = _pool(array[tuple(slices)], [n_samples if axis in axes else 1 for axis in range(array.ndim)], np.mean)
    return (means if array.dtype.kind == "f" else np.rint(means)).astype(array.dtype)


def _pool(array: NDArray[Any], sizes: list[int], pool: Callable[..., Any]) -> NDArray[Any]:
    """Reduce each block of an array to one value; the rest at its ends is left out."""
    whole = tuple(slice(0, n // size * size) for n, size in zip(array.shape, sizes, strict=True))
    return np.asarray(measure.block_reduce(array[whole], tuple(sizes), pool))
