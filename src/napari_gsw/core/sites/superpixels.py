"""Superpixels: SLIC, watershed, Felzenszwalb, a regular grid, or labels that the user passes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from skimage import filters, measure, segmentation

from napari_gsw.core.array_types import BoolArray, ChannelImage, Float32Array, Int32Array, Sites
from napari_gsw.core.errors import InputError, to_array
from napari_gsw.core.image.focus import deblur
from napari_gsw.core.image.normalized_image import NormalizedImage
from napari_gsw.core.image.ridges import compute_ridges, scale_intensity
from napari_gsw.core.image.spacing import Spacing, pixel_volume, pixel_widths
from napari_gsw.core.jit import njit, njit_inner, zeros
from napari_gsw.core.settings import Settings
from napari_gsw.core.sites.adjacency_kernels import (
    merge_felzenszwalb,
    merge_small_regions,
    sum_over_sites,
    touching_pairs,
)

# Compactness doubles, at most so often, until SLIC makes this fraction of the superpixels that are asked for.
MIN_FRACTION = 0.75
MAX_DOUBLINGS = 8
# Rounds of SLIC: later ones hardly move a pixel.
SLIC_ROUNDS = 5
# Width in pixels of the blur of ridges: without it every grain would be a watershed.
RIDGE_BLUR = 1.5
# Pixels of a row that SLIC compares together: enough to fill the vector unit, few enough for its cache.
CHUNK = 128
# SLIC compares three channels at a time, as many as there are coordinates.
AT_ONCE = 3


def make_superpixels(image: NormalizedImage, settings: Settings, mask: ArrayLike | None = None) -> Sites:
    """Group the pixels of an image into superpixels.

    Parameters
    ----------
    image : NormalizedImage
    settings : Settings
        ``superpixels``, ``site_size``, ``site_count``, ``compactness``, ``refocus`` and ``smoothing`` are read.
    mask : (*shape,) array, optional
        Non-zero where superpixels are wanted.

    Returns
    -------
    (*shape,) int32
        Superpixels 1..n in the order of their first pixel, each connected through pixel faces; 0 outside the mask.
    """
    inside = check_mask(mask, image.shape)
    channels = image.channels
    if settings.refocus == "auto" and len(image.shape) == 2:
        channels = deblur(channels)
    if settings.smoothing > 0:
        from scipy import ndimage

        widths = (*pixel_widths(settings.smoothing, len(image.shape), image.spacing), 0)
        channels = ndimage.gaussian_filter(channels, widths)
    if settings.superpixels == "slic":
        return _make_slic(np.ascontiguousarray(channels), settings, inside, image.spacing)
    if settings.superpixels == "ridges":
        return _fill_and_label(_make_ridge_basins(image), inside)
    methods = {"felzenszwalb": _make_felzenszwalb, "watershed": _make_watershed, "grid": _make_grid}
    return _fill_and_label(methods[settings.superpixels](channels, settings, inside, image.spacing), inside)


def validate_sites(labels: ArrayLike, shape: tuple[int, ...], mask: ArrayLike | None = None) -> Sites:
    """Convert the user's label image to sites 1..n; unconnected parts of a label become sites of their own."""
    array = to_array("the label image", labels)
    if array.shape != shape:
        raise InputError(f"the label image must have the image's shape {shape}, not {array.shape}")
    if array.dtype.kind not in "bui":
        raise InputError(f"the label image must hold whole numbers, not {array.dtype}")
    if array.size and array.min() < 0:
        raise InputError(f"the label image must hold numbers >= 0, not {array.min()}")
    sites = label_connected(array, check_mask(mask, shape))
    if sites.max(initial=0) == 0:
        raise InputError("the label image has no site: every pixel is 0 (background) or masked")
    return sites


def label_connected(labels: NDArray[np.generic], inside: BoolArray | None) -> Sites:
    """Label face-connected regions of equal non-zero labels 1..n by their first pixel in scan order.

    Parameters
    ----------
    labels : (*shape,)
        Of any type of whole numbers.
    inside : (*shape,) bool or None
        Where labels count.
    """
    if inside is not None:
        labels = np.where(inside, labels, 0)
    if labels.dtype.kind == "b" or (labels.min() >= 0 and labels.max() <= np.iinfo(np.int32).max):
        numbers = labels.astype(np.int32)
    else:  # all that matters is which labels are equal and which are 0
        numbers = np.unique(labels, return_inverse=True)[1].reshape(labels.shape).astype(np.int32) + 1
        numbers[labels == 0] = 0
    return np.asarray(measure.label(numbers, background=0, connectivity=1), np.int32)


def _fill_and_label(groups: NDArray[np.generic], inside: BoolArray | None) -> Sites:
    """Label groups of pixels; pixels that no seed has reached (0) are superpixels, too."""
    return label_connected(np.where(groups == 0, groups.max() + 1, groups), inside)


def check_mask(mask: ArrayLike | None, shape: tuple[int, ...]) -> BoolArray | None:
    """Return where a mask is not 0 (*shape,), or None if that is everywhere."""
    if mask is None:
        return None
    inside = to_array("the mask", mask) != 0
    if inside.shape != shape:
        raise InputError(f"the mask must have the image's shape {shape}, not {inside.shape}")
    if not inside.any():
        raise InputError("the mask has no pixel: it must be non-zero where the image is to be segmented")
    return None if inside.all() else inside


def _count_wanted(
    settings: Settings, shape: tuple[int, ...], inside: BoolArray | None, spacing: Spacing
) -> tuple[int, int]:
    """Return how many superpixels are wanted, and the number of pixels that they share."""
    n_pixels = int(np.prod(shape)) if inside is None else int(inside.sum())
    return settings.site_count_for(n_pixels, pixel_volume(spacing)), n_pixels


def divide_into_cells(
    shape: tuple[int, ...], n_cells: int, n_pixels: int, spacing: Spacing = None
) -> tuple[tuple[int, ...], float]:
    """Divide an image of so many pixels into about `n_cells` cubes.

    Returns
    -------
    counts, side : tuple of int, float
        Number of cells along each axis, and the side of a cell in units of the spacing.

    Examples
    --------
    >>> divide_into_cells((30, 40), 12, 1200)
    ((3, 4), 10.0)
    >>> divide_into_cells((2, 50), 10, 100)  # too thin to be divided along the first axis
    ((1, 10), 5.0)
    >>> divide_into_cells((10, 40), 16, 400, (4.0, 1.0))  # pixels are four times as high as wide
    ((4, 4), 10.0)
    """
    steps = spacing or (1,) * len(shape)
    extents = [length * step for length, step in zip(shape, steps, strict=True)]
    rest, side = float(n_pixels * np.prod(steps)), 1.0
    for n_thin, extent in enumerate(sorted(extents)):
        side = (rest / n_cells) ** (1 / (len(shape) - n_thin))
        if extent >= side:
            break
        rest /= extent
    return tuple(max(1, min(n, round(extent / side))) for n, extent in zip(shape, extents, strict=True)), side


def _make_slic(channels: ChannelImage, settings: Settings, inside: BoolArray | None, spacing: Spacing) -> Sites:
    """Make superpixels by SLIC (Achanta et al. 2012).

    On a noisy image, clusters of colour are not connected in space, and merging their fragments leaves a few huge
    superpixels. So the compactness doubles until there are about as many superpixels as are asked for.
    """
    shape = channels.shape[:-1]
    wanted, n_pixels = _count_wanted(settings, shape, inside, spacing)
    if wanted == 1:
        return label_connected(np.ones(shape, np.int32), inside)
    counts, side = divide_into_cells(shape, wanted, n_pixels, spacing)
    flat_axes = (1,) * (3 - len(shape))
    grid, steps = flat_axes + counts, (*flat_axes, *(spacing or (1.0,) * len(shape)))
    volume = channels.reshape(*flat_axes, *channels.shape)
    mask = None if inside is None else inside.reshape(flat_axes + shape)
    compactness = settings.compactness
    for _ in range(MAX_DOUBLINGS):
        scale = np.array([compactness / side * step for step in steps], np.float32)
        clusters = cluster_by_slic(volume, mask, grid, scale, SLIC_ROUNDS)
        sites = _merge_fragments(clusters, volume, n_pixels // (2 * wanted))
        if int(sites.max()) >= MIN_FRACTION * wanted:
            break
        compactness *= 2
    return sites.reshape(shape)


def _merge_fragments(clusters: Sites, channels: ChannelImage, min_size: int) -> Sites:
    """Split clusters into connected regions, and merge the small ones into the most similar neighbour."""
    regions = label_connected(clusters, None)
    n = int(regions.max())
    edges, _, _ = touching_pairs(regions, np.empty((regions.size, 0), np.float32), n, (1.0, 1.0, 1.0))
    total, n_pixels = sum_over_sites(channels.reshape(regions.size, -1), regions.ravel(), n)
    number = merge_small_regions(edges, total, n_pixels, np.argsort(n_pixels, kind="stable"), min_size)
    return np.concatenate((np.zeros(1, np.int32), number))[regions]


def cluster_by_slic(
    channels: ChannelImage, mask: BoolArray | None, grid: tuple[int, ...], scale: Float32Array, max_rounds: int
) -> Sites:
    """Cluster pixels by colour and position.

    Each cell of a grid begins as a cluster. In a round, every pixel joins the nearest cluster of those that began in
    its cell or an adjacent one, then every cluster moves to the mean of its pixels. It ends when nothing changes.

    Parameters
    ----------
    channels : (Z, Y, X, C) float32
    mask : (Z, Y, X) bool, optional
    grid : tuple of int
        Number of cells along each axis.
    scale : (3,) float32
        Weight of a distance of one pixel along each axis, in units of the channels.

    Returns
    -------
    (Z, Y, X) int32
        Cluster of each pixel, from 1; 0 outside the mask.
    """
    shape, count, n_cells = channels.shape[:3], channels.shape[3], math.prod(grid)
    z, y, x = (
        (np.arange(length) * cells // length).astype(np.int32) for length, cells in zip(shape, grid, strict=True)
    )
    labels: Sites = (z[:, np.newaxis, np.newaxis] * grid[1] + y[:, np.newaxis]) * grid[2] + x + 1
    if mask is not None:
        labels[~mask] = 0
    # A cluster without pixels is infinitely far from all. Channels are padded with zeros to a multiple of three.
    centres = np.full((n_cells, AT_ONCE + -(-count // AT_ONCE) * AT_ONCE), np.inf, np.float32)
    for number in range(max_rounds):
        _move_clusters(channels, labels, scale, centres)
        if number == 0:
            # A cell begins with the colour of its middle pixel: the mean of a cell that an edge crosses is a colour
            # that no pixel has, and no pixel would ever join it.
            middle = np.ix_(*((2 * np.arange(c) + 1) * n // (2 * c) for c, n in zip(grid, shape, strict=True)))
            is_own = labels[middle].ravel() == np.arange(1, n_cells + 1)
            centres[is_own, AT_ONCE : AT_ONCE + count] = channels[middle].reshape(n_cells, count)[is_own]
        if not _assign_pixels(channels, labels, (grid[0], grid[1], grid[2]), x, scale, centres):
            break
    return labels


@njit
def _move_clusters(channels: ChannelImage, labels: Int32Array, scale: Float32Array, centres: Float32Array) -> None:
    """Move every cluster to the mean of its pixels: `centres` (cells, features), scaled coordinates first."""
    depth, height, width, count = channels.shape
    total, n_pixels = zeros((centres.shape[0], AT_ONCE + count), np.float64), zeros(centres.shape[0], np.int64)
    for z in range(depth):
        for y in range(height):
            for x in range(width):
                i = labels[z, y, x] - 1
                if i < 0:
                    continue
                n_pixels[i] += 1
                total[i, 0] += z
                total[i, 1] += y
                total[i, 2] += x
                for c in range(count):
                    total[i, AT_ONCE + c] += channels[z, y, x, c]
    for i in range(n_pixels.size):
        if n_pixels[i] > 0:
            centres[i] = 0
            for f in range(total.shape[1]):
                mean = total[i, f] / n_pixels[i]
                centres[i, f] = mean * scale[f] if f < AT_ONCE else mean


@njit
def _assign_pixels(
    channels: ChannelImage,
    labels: Int32Array,
    grid: tuple[int, int, int],
    column: Int32Array,
    scale: Float32Array,
    centres: Float32Array,
) -> int:
    """Assign every pixel to its nearest cluster (the first of several), and count the changes.

    `column` (X,) is the cell of each pixel along a row.
    """
    depth, height, width, count = channels.shape
    features = centres.shape[1]
    # The clusters that may win the pixels of a chunk: those of the nearest 9 cells in a plane, 27 in a volume.
    table, number = zeros((27, features, CHUNK), np.float32), zeros((27, CHUNK), np.int32)
    pixels = zeros((features, CHUNK), np.float32)
    distance, best = np.empty(CHUNK, np.float32), np.empty(CHUNK, np.float32)
    # No cluster may be near a pixel outside the mask, whose index stays what it was: it must always be valid.
    index = zeros(CHUNK, np.int32)
    n_changed = 0
    for cell in range(grid[0] * grid[1]):
        i, j = cell // grid[1], cell % grid[1]
        for first in range(0, width, CHUNK):
            size = min(CHUNK, width - first)
            n_rivals = _gather_rivals(centres, grid, i, j, column[first : first + size], table, number)
            for x in range(size):
                pixels[2, x] = scale[2] * np.float32(first + x)
            for z in range(-(-i * depth // grid[0]), -(-(i + 1) * depth // grid[0])):
                for y in range(-(-j * height // grid[1]), -(-(j + 1) * height // grid[1])):
                    z_scaled, y_scaled = scale[0] * np.float32(z), scale[1] * np.float32(y)
                    for x in range(size):
                        for c in range(count):
                            pixels[AT_ONCE + c, x] = channels[z, y, first + x, c]
                    for x in range(CHUNK):
                        best[x] = np.float32(np.inf)
                    for k in range(n_rivals):
                        for x in range(CHUNK):
                            r, s, t = (
                                z_scaled - table[k, 0, x],
                                y_scaled - table[k, 1, x],
                                pixels[2, x] - table[k, 2, x],
                            )
                            distance[x] = r * r + s * s + t * t
                        for f in range(AT_ONCE, features, AT_ONCE):
                            for x in range(CHUNK):
                                r = pixels[f, x] - table[k, f, x]
                                s = pixels[f + 1, x] - table[k, f + 1, x]
                                t = pixels[f + 2, x] - table[k, f + 2, x]
                                distance[x] += r * r + s * s + t * t
                        rival = np.int32(k)
                        for x in range(CHUNK):  # without a branch, so that it is vectorized
                            new, old = distance[x], best[x]
                            kept = index[x]
                            best[x] = new if new < old else old
                            index[x] = rival if new < old else kept
                    for x in range(size):
                        label = labels[z, y, first + x]
                        nearest = number[index[x], x]
                        if label > 0 and label != nearest:
                            labels[z, y, first + x] = nearest
                            n_changed += 1
    return n_changed


@njit_inner
def _gather_rivals(
    centres: Float32Array,
    grid: tuple[int, int, int],
    i: int,
    j: int,
    column: Int32Array,
    table: Float32Array,
    number: Int32Array,
) -> int:
    """Write the clusters around row i, j of cells for each pixel of a chunk, and return how many each pixel has.

    Beyond the ends of a row the last cell takes part twice.
    """
    size, count = column.size, 0
    for a in range(max(i - 1, 0), min(i + 2, grid[0])):
        for b in range(max(j - 1, 0), min(j + 2, grid[1])):
            for side in range(-1, 2):
                x = 0
                while x < size:
                    cell, end = column[x], x + 1
                    while end < size and column[end] == cell:
                        end += 1
                    c = (a * grid[1] + b) * grid[2] + min(max(cell + side, 0), grid[2] - 1)
                    for t in range(x, end):
                        number[count, t] = c + 1
                    for f in range(centres.shape[1]):
                        value = centres[c, f]
                        for t in range(x, end):
                            table[count, f, t] = value
                    x = end
                count += 1
    return count


def _make_ridge_basins(image: NormalizedImage) -> Int32Array:
    from scipy import ndimage

    ridges = ndimage.gaussian_filter(compute_ridges(scale_intensity(image)), RIDGE_BLUR)
    return np.asarray(segmentation.watershed(ridges))


def _make_watershed(
    channels: ChannelImage, settings: Settings, inside: BoolArray | None, spacing: Spacing
) -> NDArray[np.generic]:
    """Find watersheds of the gradient from evenly spaced seeds; 0 where no seed reaches."""
    shape = channels.shape[:-1]
    wanted, n_pixels = _count_wanted(settings, shape, inside, spacing)
    markers: Any = wanted  # scikit-image spaces them evenly
    if spacing is None:
        height = np.sqrt(sum(filters.sobel(channels[..., c]) ** 2 for c in range(channels.shape[-1])))
    else:
        slopes = [
            (filters.sobel(channels[..., c], axis=a) / step) ** 2
            for c in range(channels.shape[-1])
            for a, step in enumerate(spacing)
        ]
        height = np.sqrt(sum(slopes) / len(spacing))
        counts, _ = divide_into_cells(shape, wanted, n_pixels, spacing)
        middles = [(2 * np.arange(count) + 1) * n // (2 * count) for count, n in zip(counts, shape, strict=True)]
        markers = np.zeros(shape, np.int32)
        markers[np.ix_(*middles)] = np.arange(1, math.prod(counts) + 1).reshape(counts)
        markers = markers if inside is None else np.where(inside, markers, 0)
    # The distance to a seed competes with a gradient of a few units; a tenth of SLIC's value looks alike.
    return np.asarray(
        segmentation.watershed(height, markers=markers, mask=inside, compactness=settings.compactness / 10)
    )


def find_basins(height: ChannelImage, settings: Settings, inside: BoolArray | None, spacing: Spacing = None) -> Sites:
    """Find watersheds of a height map (*shape,), such as a map of boundaries.

    Each begins at the lowest pixel of a cell of :func:`divide_into_cells`, of several at the one nearest to the middle:
    a seed on a ridge would take something of both sides.
    """
    shape = height.shape
    wanted, n_pixels = _count_wanted(settings, shape, inside, spacing)
    counts, _ = divide_into_cells(shape, wanted, n_pixels, spacing)
    cell, off_middle = np.zeros(shape, np.int32), np.zeros(shape, np.float32)
    for axis, (length, count) in enumerate(zip(shape, counts, strict=True)):
        position = np.arange(length)
        index = position * count // length
        square = np.square((position + 0.5) * count / length - index - 0.5)
        along = [-1 if a == axis else 1 for a in range(len(shape))]
        cell = cell * np.int32(count) + index.astype(np.int32).reshape(along)
        off_middle = off_middle + square.astype(np.float32).reshape(along)
    flat = cell.ravel() if inside is None else np.where(inside, cell, -1).ravel()
    order = np.lexsort((off_middle.ravel(), height.ravel(), flat))
    first = np.flatnonzero(np.diff(flat[order], prepend=-2))
    first = first[flat[order[first]] >= 0]
    seeds = np.zeros(flat.size, np.int32)
    seeds[order[first]] = np.arange(1, len(first) + 1)
    # Not compact: the two sides of a ridge that is two pixels wide share it.
    return _fill_and_label(segmentation.watershed(height, markers=seeds.reshape(shape), mask=inside), inside)


def _make_grid(
    channels: ChannelImage, settings: Settings, inside: BoolArray | None, spacing: Spacing
) -> NDArray[np.generic]:
    """Divide an image into boxes of equal sides."""
    shape = channels.shape[:-1]
    wanted, n_pixels = _count_wanted(settings, shape, inside, spacing)
    steps = spacing or (1,) * len(shape)
    side = (n_pixels * np.prod(steps) / wanted) ** (1 / len(shape))
    boxes = np.zeros(shape, np.int64)
    for axis, length in enumerate(shape):
        count = max(1, min(length, round(length * steps[axis] / side)))
        index = np.arange(length) * count // length
        boxes = boxes * count + index.reshape([-1 if a == axis else 1 for a in range(len(shape))])
    return boxes + 1


def _make_felzenszwalb(
    channels: ChannelImage, settings: Settings, inside: BoolArray | None, spacing: Spacing
) -> NDArray[np.generic]:
    """Merge along pixel faces, in any number of dimensions and within a mask, unlike scikit-image.

    The scale is found by bisection, so that the mean superpixel has the size that is asked for.
    """
    shape = channels.shape[:-1]
    pixels = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    left, right, weight = [], [], []
    for axis in range(len(shape)):
        p, c = np.moveaxis(pixels, axis, 0), np.moveaxis(channels, axis, 0)
        keep = np.ones(p[1:].shape, bool)
        if inside is not None:
            m = np.moveaxis(inside, axis, 0)
            keep = m[1:] & m[:-1]
        left.append(p[:-1][keep])
        right.append(p[1:][keep])
        weight.append(np.linalg.norm(c[1:] - c[:-1], axis=-1)[keep])
    weights = np.concatenate(weight).astype(np.float32)
    order = np.argsort(weights, kind="stable")
    edges = np.concatenate(left)[order], np.concatenate(right)[order], weights[order]

    wanted, n_pixels = _count_wanted(settings, shape, inside, spacing)
    min_size = max(1, n_pixels // wanted // 4)
    low, high = 1e-3, 1e5
    for _ in range(12):
        scale = float(np.sqrt(low * high))  # over many orders of magnitude
        roots = merge_felzenszwalb(*edges, pixels.size, scale, min_size)
        count = int((roots == pixels.ravel()).sum()) - (pixels.size - n_pixels)
        if abs(count - wanted) <= 0.02 * wanted:
            break
        low, high = (scale, high) if count > wanted else (low, scale)
    return roots.reshape(shape) + 1
