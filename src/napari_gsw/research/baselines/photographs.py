"""Segmentation of photographs by mean shift and by Felzenszwalb and Huttenlocher's graph-based method.

Mean shift is that of Comaniciu and Meer (2002): OpenCV filters the image, and regions are merged as in EDISON, the
authors' program:

1. Pixels that share a face are linked if their modes are less than one unit of L*u*v* apart.
2. Neighbouring regions whose mean modes are less than half the range bandwidth apart are fused, until there are none.
3. Regions under the minimum size join the neighbour with the nearest mean mode, until there are none.

The regions differ from those of EDISON: OpenCV's window in space is a square and its colours have 8 bits; EDISON also
links across corners, fuses in two rounds only, takes RGB as linear light, and can weight pixels by a confidence map.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from skimage import segmentation
from skimage.color.colorconv import rgb2luv

from napari_gsw.core.array_types import BoolArray, Float32Array, Float64Array, Int32Array, Int64Array
from napari_gsw.core.errors import InputError
from napari_gsw.core.image.normalized_image import channels_last, guess_axes, normalize_image, scale_rgb
from napari_gsw.core.partitions import canonical_labels
from napari_gsw.core.settings.declaration import Options, setting
from napari_gsw.core.sites.superpixels import label_connected
from napari_gsw.core.special import sum_by_group
from napari_gsw.methods import Method
from napari_gsw.research.baselines import import_package

# Modes that are nearer, in units of L*u*v*, differ by rounding only.
SAME_MODE = 1.0
# Fraction of the range bandwidth within which neighbouring regions are fused.
FUSION_RADIUS = 0.5
# Maximum number of 8-bit levels in a unit of L*u*v*, for images of little contrast.
MAX_LEVELS = 4.0
# OpenCV's own limit.
MAX_STEPS = 100
# Which edges of a region graph to merge along, from sizes of regions, edges, and distances of colours.
Choose = Callable[[Int64Array, Int64Array, Float64Array], BoolArray]


def to_rgb(image: ArrayLike, axes: str, method: str) -> Float32Array:
    """Return a 2D image, grey or RGB, with or without alpha, as (Y, X, 3) red, green and blue from 0 to 1.

    A grey image gets three equal channels and is not stretched, so the file format makes no difference.
    """
    array = np.asarray(image)
    normalize_image(array, axes)  # for its checks
    axes = guess_axes(array) if axes == "auto" else axes.upper()
    channels = channels_last(array, axes)
    n_channels = channels.shape[-1]
    if "Z" in axes or not (n_channels == 1 or ("S" in axes and n_channels <= 4)):
        raise InputError(
            f"{method} takes a grey or an RGB image in two dimensions (axes YX or YXS), "
            f"not {axes} of shape {array.shape}"
        )
    return scale_rgb(channels[..., :3] if n_channels >= 3 else np.repeat(channels[..., :1], 3, axis=-1))


def number_regions(labels: NDArray[Any]) -> Int32Array:
    """Renumber labels >= 0 as 1..k in the order of their first pixel."""
    return canonical_labels(labels.ravel().astype(np.int32)).reshape(labels.shape) + 1


@dataclass(frozen=True)
class Felzenszwalb(Options):
    """Settings of the graph-based segmentation; the defaults are for photographs of 481 x 321 pixels."""

    scale: float = setting(
        400.0, "felzenszwalb",
        "Larger values prefer larger regions; in the authors' units, for colours from 0 to 255.", low=0.0,
    )  # fmt: skip
    sigma: float = setting(
        0.8, "felzenszwalb", "Width in pixels of the Gaussian blur before regions are made.", low=0.0, high=100.0,
        title="Smoothing",
    )  # fmt: skip
    min_size: int = setting(
        400, "felzenszwalb", "Smallest region in pixels; smaller ones join across their weakest boundary.", low=1,
        title="Smallest region",
    )  # fmt: skip


def segment_felzenszwalb(image: ArrayLike, options: Felzenszwalb, axes: str = "auto") -> Int32Array:
    """Segment a 2D image, grey or RGB, into (Y, X) int32 regions 1..k, connected through pixel faces or corners."""
    # scikit-image divides its scale by 255, which gives it the authors' meaning for colours from 0 to 1 and no others.
    colours = to_rgb(image, axes, "Felzenszwalb")
    return number_regions(segmentation.felzenszwalb(colours, options.scale, options.sigma, options.min_size))


@dataclass(frozen=True)
class MeanShift(Options):
    """Settings of the mean shift; the defaults are the paper's."""

    spatial: float = setting(
        20.0, "mean-shift", "Spatial bandwidth: half the side of the window, in pixels.", low=1.0, high=100.0,
        title="Spatial bandwidth",
    )  # fmt: skip
    range: float = setting(
        15.0, "mean-shift",
        "Range bandwidth: colours within this distance attract each other, in units of L*u*v*.",
        low=0.0, exclusive_min=True, high=1000.0, title="Range bandwidth",
    )  # fmt: skip
    min_size: int = setting(
        1500, "mean-shift", "Smallest region in pixels; smaller ones join the neighbour of the nearest colour.", low=1,
        title="Smallest region",
    )  # fmt: skip


def segment_mean_shift(image: ArrayLike, options: MeanShift, axes: str = "auto") -> Int32Array:
    """Segment a 2D image, grey or RGB, into (Y, X) int32 regions 1..k, connected through pixel faces."""
    cv2 = import_package("cv2", "mean shift", "OpenCV", "peers")
    levels, scale = quantize_colours(rgb2luv(to_rgb(image, axes, "mean shift")))
    criteria = (cv2.TERM_CRITERIA_COUNT + cv2.TERM_CRITERIA_EPS, MAX_STEPS, 0.0)
    modes = cv2.pyrMeanShiftFiltering(levels, options.spatial, options.range * scale, maxLevel=0, termcrit=criteria)
    radius = FUSION_RADIUS * options.range * scale
    colours, pairs = modes.reshape(-1, 3).astype(np.float64), pair_pixels(modes.shape[:2])
    labels = merge_regions(np.arange(len(colours)), colours, pairs, choose_near(min(SAME_MODE * scale, radius)), 1)
    for choose in (choose_near(radius), choose_of_small(options.min_size)):
        labels = merge_regions(labels, colours, pairs, choose)
    return label_connected(labels.reshape(modes.shape[:2]) + 1)


def quantize_colours(luv: NDArray[np.float32]) -> tuple[NDArray[np.uint8], float]:
    """Return colours as 8-bit levels, and the number of levels in a unit of L*u*v*, equal for all channels."""
    low = luv.min(axis=(0, 1))
    span = float((luv.max(axis=(0, 1)) - low).max())
    scale = min(255 / span, MAX_LEVELS) if span > 0 else MAX_LEVELS
    return np.rint((luv - low) * scale).astype(np.uint8), scale


def pair_pixels(shape: tuple[int, ...]) -> Int64Array:
    """Return the pairs (m, 2) of pixels of a 2D image that share a face."""
    index = np.arange(shape[0] * shape[1]).reshape(shape)
    right = np.stack((index[:, :-1].ravel(), index[:, 1:].ravel()), axis=1)
    return np.concatenate((right, np.stack((index[:-1].ravel(), index[1:].ravel()), axis=1)))


def merge_regions(
    labels: Int64Array, colours: Float64Array, pairs: Int64Array, choose: Choose, rounds: float = np.inf
) -> Int64Array:
    """Merge regions along the edges that are chosen, all at once, and again until none is chosen.

    Pixels have `labels` 0..n-1 (pixels,) and `colours` (pixels, C), and share a face in `pairs` (m, 2). `choose` gets
    the sizes of the regions, their edges (the smaller number first, sorted), and the distances of their mean colours.
    """
    while rounds > 0:
        size = np.bincount(labels)
        n, mean = len(size), sum_by_group(colours, labels, len(size)) / size[:, np.newaxis]
        ends = np.sort(labels[pairs], axis=1)
        edges = np.stack(np.divmod(np.unique(ends[ends[:, 0] < ends[:, 1]] @ [n, 1]), n), axis=1)
        left, right = edges.T
        chosen = choose(size, edges, np.linalg.norm(mean[left] - mean[right], axis=1))
        if not chosen.any():
            break
        links = coo_array((np.ones(chosen.sum(), np.int8), (left[chosen], right[chosen])), shape=(n, n))
        labels = connected_components(links, directed=False)[1].astype(np.int64)[labels]
        rounds -= 1
    return labels


def choose_near(radius: float) -> Choose:
    """Choose all edges along which the colours are closer than `radius`."""
    return lambda size, edges, distance: distance < radius


def choose_of_small(min_size: int) -> Choose:
    """Choose for each region under `min_size` pixels the edge to the neighbour of nearest colour.

    The neighbour may be small itself. Of neighbours that are equally near, the one with the smallest number is taken.
    """

    def choose(size: Int64Array, edges: Int64Array, distance: Float64Array) -> BoolArray:
        order = np.argsort(distance, kind="stable")
        region, first = np.unique(edges[order], return_index=True)
        chosen = np.zeros(len(order), bool)
        chosen[order[first[size[region] < min_size] // 2]] = True
        return chosen

    return choose


FELZENSZWALB = Method(segment_felzenszwalb, Felzenszwalb)
MEAN_SHIFT = Method(segment_mean_shift, MeanShift)
