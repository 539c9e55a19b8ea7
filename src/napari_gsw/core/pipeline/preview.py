"""A segmentation of a coarse copy of a large image: something to look at while the image itself is prepared."""

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
from napari_gsw.core.settings import Settings
from napari_gsw.core.settings.presets import DEFAULT_PRESET, preset
from napari_gsw.core.settings.sampler import MIN_REGION_PIXELS

# Pixels above which an image is prepared for longer than one likes to wait.
LARGE = 6_000_000
# Pixels of its copy at most, their superpixels, and sweeps of the chain.
COPY, SITES, SWEEPS = 200_000, 800, 40
# A pixel of the copy is the mean of so many along each axis.
SAMPLES = 4
PREVIEW = Stage("preview")


class Preview(NamedTuple):
    """Labels of a coarse copy.

    Attributes
    ----------
    labels : (\\*coarse shape,) uint16. step : pixels of the image along each axis of one of these.
    """

    labels: NDArray[np.uint16]
    step: int


def choose_step(shape: tuple[int, ...]) -> int:
    """How many pixels of an array (\\*shape,) go into one of its copy along each axis; 1 for one that is not large.

    >>> preview_step((2000, 2000)), preview_step((8000, 8000)), preview_step((400, 400, 400))
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
    """What a large image will look like, roughly; None if it is not large, or if nothing can be said.

    Parameters
    ----------
    image : of any axes that the settings name. mask, seeds : (\\*shape,) as of :func:`napari_gsw.segment`, or None.
    report : called between the steps; what it raises ends the preview.
    """
    letters = parse_axes(image, settings.axes)
    spatial = [axis for axis, letter in enumerate(letters) if letter in "ZYX"]
    step = choose_step(tuple(image.shape[axis] for axis in spatial))
    if step == 1:
        return None
    report(PREVIEW)
    inside = None if mask is None else _pooled(mask, [step] * mask.ndim, np.min)
    strokes = None if seeds is None else _pooled(seeds, [step] * seeds.ndim, np.max)
    quick = _quick(settings, step ** len(spatial)).replace(axes=letters)
    try:
        result = segment(
            downsample(image, spatial, step),
            quick,
            seed=seed,
            mask=inside,
            seeds=strokes,
            report=lambda stage, snapshot: report(PREVIEW),  # what goes on is not that of the image itself
        )
    except InputError:  # the image itself will raise it again, if it is more than the coarseness
        return None
    return Preview(np.asarray(result.labels).astype(np.uint16), step)


def downsample(array: NDArray[Any], axes: list[int], step: int) -> NDArray[Any]:
    """Means of an array, of its own type, over blocks of `step` elements along some axes, from a few of each block."""
    few = step if step % SAMPLES else SAMPLES  # of a thin stack the blocks are as thin
    stride = step // few
    sampled = {axis: slice(stride // 2, array.shape[axis] // step * step, stride) for axis in axes}
    sizes = [few if axis in axes else 1 for axis in range(array.ndim)]
    means = _pooled(array[tuple(sampled.get(axis, slice(None)) for axis in range(array.ndim))], sizes, np.mean)
    return (means if array.dtype.kind == "f" else np.rint(means)).astype(array.dtype)


def _pooled(array: NDArray[Any], sizes: list[int], pool: Callable[..., Any]) -> NDArray[Any]:
    """One value for each block of an array; what is left over at its ends counts for nothing."""
    kept = tuple(slice(0, n // size * size) for n, size in zip(array.shape, sizes, strict=True))
    return np.asarray(measure.block_reduce(array[kept], tuple(sizes), pool))


def _quick(settings: Settings, pixels: int) -> Settings:
    """Settings of a coarse copy, of which one pixel stands for so many; objects are too small to be seen in it."""
    if settings.view == "objects":
        settings = preset(DEFAULT_PRESET, spacing=settings.spacing)
    smallest = max(1, (MIN_REGION_PIXELS if settings.min_region is None else settings.min_region) // pixels)
    return settings.replace(sweeps=SWEEPS, chains=1, site_count=SITES, min_region=smallest)
