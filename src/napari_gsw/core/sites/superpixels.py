"""Superpixels: SLIC, watershed, Felzenszwalb, a grid, labels of the user, or fragments that a network has found."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import ndimage
from skimage import filters, measure, segmentation

from napari_gsw.core.array_types import (
    BoolArray,
    ChannelImage,
    Float32Array,
    Float64Array,
    Int32Array,
    Int64Array,
    Sites,
)
from napari_gsw.core.errors import InputError, to_array
from napari_gsw.core.image.focus import deblur
from napari_gsw.core.image.normalized_image import NormalizedImage
from napari_gsw.core.image.ridges import compute_ridges, scale_intensity
from napari_gsw.core.image.spacing import Spacing, pixel_volume, pixel_widths
from napari_gsw.core.jit import arange, full, njit, zeros
from napari_gsw.core.partitions import canonical_labels, find_root
from napari_gsw.core.settings import Settings
from napari_gsw.core.sites.site_values import list_borders, sum_over_sites, touching_pairs

# Compactness doubles, at most so often, until SLIC makes this fraction of the superpixels that are asked for.
MIN_FRACTION, MAX_DOUBLINGS = 0.75, 8
# Rounds of SLIC: later ones hardly move a pixel.
SLIC_ROUNDS = 5
# Width in pixels of the blur of ridges: without it every grain would be a watershed.
RIDGE_BLUR = 1.5
# Pixels of a row that SLIC compares together: enough to fill the vector unit, few enough for its cache. It takes three
# features at a time, as many as there are coordinates.
CHUNK, AT_ONCE = 128, 3
# Pixels of higher probability belong to objects.
MIN_PROBABILITY = 0.5
# Width in pixels of the blur of the map of centres, and the height of a peak above the saddle to a higher one.
PEAK_BLUR, MIN_RISE = 0.7, 0.03
# Side in pixels of a block of background beside fragments.
BLOCK = 16


def make_superpixels(image: NormalizedImage, settings: Settings, mask: ArrayLike | None = None) -> Sites:
    """Group the pixels of an image into superpixels where a mask (*shape,) is not 0.

    They are numbered 1..n (*shape,) in the order of their first pixel, each connected through pixel faces; 0 outside.
    """
    inside = check_mask(mask, image.shape)
    channels, spacing = image.channels, image.spacing
    if settings.refocus == "auto" and len(image.shape) == 2:
        channels = deblur(channels)
    if settings.smoothing > 0:
        widths = (*pixel_widths(settings.smoothing, len(image.shape), spacing), 0)
        channels = ndimage.gaussian_filter(channels, widths)
    wanted = settings.site_count_for(int(inside.sum()), pixel_volume(spacing))
    match settings.superpixels:
        case "slic":
            return _make_slic(np.ascontiguousarray(channels), wanted, settings.compactness, inside, spacing)
        case "ridges":
            ridges = ndimage.gaussian_filter(compute_ridges(scale_intensity(image)), RIDGE_BLUR)
            groups: NDArray[Any] = segmentation.watershed(ridges)
        case "watershed":
            groups = _make_watershed(channels, wanted, settings.compactness, inside, spacing)
        case "felzenszwalb":
            groups = _make_felzenszwalb(channels, wanted, inside)
        case _:
            side = (inside.sum() * np.prod(spacing or 1) / wanted) ** (1 / inside.ndim)
            steps = zip(inside.shape, spacing or (1,) * inside.ndim, strict=True)
            groups = _number_cells(inside.shape, [max(1, min(n, round(n * step / side))) for n, step in steps])
    return _fill_and_label(groups, inside)


def validate_sites(labels: ArrayLike, shape: tuple[int, ...], mask: ArrayLike | None = None) -> Sites:
    """Convert the user's label image to sites 1..n; unconnected parts of a label become sites of their own."""
    array = to_array("the label image", labels)
    if array.shape != shape:
        raise InputError(f"the label image must have the image's shape {shape}, not {array.shape}")
    if array.dtype.kind not in "bui":
        raise InputError(f"the label image must hold whole numbers, not {array.dtype}")
    if array.size and array.min() < 0:
        raise InputError(f"the label image must hold numbers >= 0, not {array.min()}")
    sites = label_connected(np.where(check_mask(mask, shape), array, 0))
    if sites.max(initial=0) == 0:
        raise InputError("the label image has no site: every pixel is 0 (background) or masked")
    return sites


def label_connected(labels: NDArray[np.generic]) -> Sites:
    """Label face-connected regions of equal non-zero labels (*shape,) 1..n by their first pixel in scan order."""
    if labels.dtype.kind == "b" or (labels.min() >= 0 and labels.max() <= np.iinfo(np.int32).max):
        numbers = labels.astype(np.int32)
    else:  # all that matters is which labels are equal and which are 0
        numbers = np.unique(labels, return_inverse=True)[1].reshape(labels.shape).astype(np.int32) + 1
        numbers[labels == 0] = 0
    return np.asarray(measure.label(numbers, background=0, connectivity=1), np.int32)


def _fill_and_label(groups: NDArray[Any], inside: BoolArray) -> Sites:
    """Label groups of pixels; pixels that no seed has reached (0) are superpixels, too."""
    return label_connected(np.where(inside, np.where(groups == 0, groups.max() + 1, groups), 0))


def check_mask(mask: ArrayLike | None, shape: tuple[int, ...]) -> BoolArray:
    """Return where a mask is not 0 (*shape,): everywhere without a mask."""
    if mask is None:
        return np.ones(shape, bool)
    inside: BoolArray = to_array("the mask", mask) != 0
    if inside.shape != shape:
        raise InputError(f"the mask must have the image's shape {shape}, not {inside.shape}")
    if not inside.any():
        raise InputError("the mask has no pixel: it must be non-zero where the image is to be segmented")
    return inside


def divide_into_cells(
    shape: tuple[int, ...], n_cells: int, n_pixels: int, spacing: Spacing = None
) -> tuple[tuple[int, ...], float]:
    """Divide an image of so many pixels into about `n_cells` cubes.

    Returns the number of cells along each axis, and the side of a cell in units of the spacing.
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


def _number_cells(shape: tuple[int, ...], counts: Any) -> Sites:
    """Return the cell of a grid that each pixel (*shape,) lies in, from 1 in scan order."""
    cells = np.zeros(shape, np.int32)
    for index, length, count in zip(np.ogrid[tuple(map(slice, shape))], shape, counts, strict=True):
        cells = cells * np.int32(count) + (index * count // length).astype(np.int32)
    return cells + np.int32(1)


def _make_slic(channels: ChannelImage, wanted: int, compactness: float, inside: BoolArray, spacing: Spacing) -> Sites:
    """Make superpixels by SLIC (Achanta et al. 2012), and merge their small parts into the most similar neighbour.

    In noise, clusters of colour are scattered, and merging their parts leaves a few huge superpixels. So the
    compactness doubles until there are about as many superpixels as are asked for.
    """
    if wanted == 1:
        return label_connected(inside)
    shape, n_pixels = inside.shape, int(inside.sum())
    counts, side = divide_into_cells(shape, wanted, n_pixels, spacing)
    flat_axes = (1,) * (3 - len(shape))
    steps = np.array((*flat_axes, *(spacing or (1.0,) * len(shape))))
    volume, mask = channels.reshape(*flat_axes, *channels.shape), inside.reshape(flat_axes + shape)
    for _ in range(MAX_DOUBLINGS):
        scale = (compactness / side * steps).astype(np.float32)
        regions = label_connected(cluster_by_slic(volume, mask, flat_axes + counts, scale))
        total, size = sum_over_sites(channels.reshape(regions.size, -1), regions.ravel(), int(regions.max()))
        order = np.argsort(size, kind="stable")
        number = merge_small_regions(touching_pairs(regions)[0], total, size, order, n_pixels // (2 * wanted))
        sites = np.concatenate((np.zeros(1, np.int32), canonical_labels(number) + np.int32(1)))[regions]
        if int(sites.max()) >= MIN_FRACTION * wanted:
            break
        compactness *= 2
    return sites.reshape(shape)


def cluster_by_slic(channels: ChannelImage, mask: BoolArray, grid: tuple[int, ...], scale: Float32Array) -> Sites:
    """Cluster pixels (Z, Y, X, C) in a mask (Z, Y, X) by colour and position: numbers from 1, 0 outside.

    Each cell of a grid begins as a cluster. In a round, every pixel joins the nearest cluster of those that began in
    its cell or an adjacent one, then every cluster moves to the mean of its pixels. It ends when nothing changes.
    `scale` (3,) weighs a distance of one pixel along each axis, in units of the channels.
    """
    shape, count, n_cells = channels.shape[:3], channels.shape[3], math.prod(grid)
    labels = np.where(mask, _number_cells(shape, grid), np.int32(0))
    column = (np.arange(shape[2]) * grid[2] // shape[2]).astype(np.int32)
    # A cluster without pixels is infinitely far from all. Channels are padded with zeros to a multiple of three.
    centres = np.full((n_cells, AT_ONCE + -(-count // AT_ONCE) * AT_ONCE), np.inf, np.float32)
    for number in range(SLIC_ROUNDS):
        _move_clusters(channels, labels, scale, centres)
        if number == 0:
            # A cell begins with the colour of its middle pixel: the mean of a cell that an edge crosses is a colour
            # that no pixel has, and no pixel would ever join it.
            middle = np.ix_(*((2 * np.arange(c) + 1) * n // (2 * c) for c, n in zip(grid, shape, strict=True)))
            is_own = labels[middle].ravel() == np.arange(1, n_cells + 1)
            centres[is_own, AT_ONCE : AT_ONCE + count] = channels[middle].reshape(n_cells, count)[is_own]
        if not _assign_pixels(channels, labels, (grid[0], grid[1], grid[2]), column, scale, centres):
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
            n_rivals = 0
            for a in range(max(i - 1, 0), min(i + 2, grid[0])):
                for b in range(max(j - 1, 0), min(j + 2, grid[1])):
                    for side in range(-1, 2):  # beyond the ends of a row the last cell takes part twice
                        for x in range(size):
                            c = (a * grid[1] + b) * grid[2] + min(max(column[first + x] + side, 0), grid[2] - 1)
                            number[n_rivals, x] = c + 1
                            for f in range(features):
                                table[n_rivals, f, x] = centres[c, f]
                        n_rivals += 1
            for x in range(size):
                pixels[2, x] = scale[2] * np.float32(first + x)
            for z in range(-(-i * depth // grid[0]), -(-(i + 1) * depth // grid[0])):
                for y in range(-(-j * height // grid[1]), -(-(j + 1) * height // grid[1])):
                    for x in range(size):
                        pixels[0, x], pixels[1, x] = scale[0] * np.float32(z), scale[1] * np.float32(y)
                        for c in range(count):
                            pixels[AT_ONCE + c, x] = channels[z, y, first + x, c]
                    for x in range(CHUNK):
                        best[x] = np.float32(np.inf)
                    for k in range(n_rivals):
                        for x in range(CHUNK):
                            distance[x] = np.float32(0)
                        for f in range(0, features, AT_ONCE):
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


@njit
def merge_small_regions(
    edges: Int32Array, total: Float64Array, n_pixels: Int64Array, order: Int64Array, min_size: int
) -> Int32Array:
    """Merge regions of fewer than `min_size` pixels into the neighbour of nearest mean colour, one after the other.

    `edges` (m, 2) are regions that touch, `order` (n,) regions from small to large. The sums of channels (n, C) and the
    pixels (n,) of each region are changed. Returns the region (n,) that each one has joined.
    """
    n = n_pixels.size
    parent = arange(n, np.int32)
    nearest, min_distance = np.empty(n, np.int32), np.empty(n, np.float64)
    has_changed = True
    while has_changed:
        has_changed = False
        nearest[:], min_distance[:] = -1, np.inf
        for e in range(edges.shape[0]):
            a, b = find_root(parent, edges[e, 0]), find_root(parent, edges[e, 1])
            if a == b or min(n_pixels[a], n_pixels[b]) >= min_size:
                continue
            distance = 0.0
            for c in range(total.shape[1]):
                step = total[a, c] / n_pixels[a] - total[b, c] / n_pixels[b]
                distance += step * step
            if distance < min_distance[a]:
                nearest[a], min_distance[a] = b, distance
            if distance < min_distance[b]:
                nearest[b], min_distance[b] = a, distance
        for i in order:
            if parent[i] != i or nearest[i] < 0 or n_pixels[i] >= min_size:
                continue
            a = find_root(parent, nearest[i])
            if a == i:
                continue
            parent[i] = a
            n_pixels[a] += n_pixels[i]
            for c in range(total.shape[1]):
                total[a, c] += total[i, c]
            has_changed = True
    for i in range(n):
        parent[i] = find_root(parent, i)
    return parent


def _make_watershed(
    channels: ChannelImage, wanted: int, compactness: float, inside: BoolArray, spacing: Spacing
) -> NDArray[np.generic]:
    """Find watersheds of the gradient from evenly spaced seeds; 0 where no seed reaches."""
    shape, planes = inside.shape, np.moveaxis(channels, -1, 0)
    markers: Any = wanted  # scikit-image spaces them evenly
    if spacing is None:
        height = np.sqrt(sum(filters.sobel(plane) ** 2 for plane in planes))
    else:
        slopes = [(filters.sobel(plane, axis=a) / step) ** 2 for plane in planes for a, step in enumerate(spacing)]
        height = np.sqrt(sum(slopes) / len(spacing))
        counts, _ = divide_into_cells(shape, wanted, int(inside.sum()), spacing)
        middles = [(2 * np.arange(count) + 1) * n // (2 * count) for count, n in zip(counts, shape, strict=True)]
        markers = np.zeros(shape, np.int32)
        markers[np.ix_(*middles)] = np.arange(1, math.prod(counts) + 1).reshape(counts)
        markers = np.where(inside, markers, 0)
    # The distance to a seed competes with a gradient of a few units; a tenth of SLIC's value looks alike.
    return np.asarray(segmentation.watershed(height, markers=markers, mask=inside, compactness=compactness / 10))


def find_basins(height: ChannelImage, settings: Settings, inside: BoolArray, spacing: Spacing = None) -> Sites:
    """Find watersheds of a height map (*shape,), such as a map of boundaries.

    Each begins at the lowest pixel of a cell of :func:`divide_into_cells`, of several at the one nearest to the middle:
    a seed on a ridge would take something of both sides.
    """
    shape, n_pixels = height.shape, int(inside.sum())
    counts, _ = divide_into_cells(shape, settings.site_count_for(n_pixels, pixel_volume(spacing)), n_pixels, spacing)
    off_middle = np.zeros(shape, np.float32)
    for position, length, count in zip(np.ogrid[tuple(map(slice, shape))], shape, counts, strict=True):
        square = np.square((position + 0.5) * count / length - position * count // length - 0.5)
        off_middle = off_middle + square.astype(np.float32)
    cell = np.where(inside, _number_cells(shape, counts), 0).ravel()
    order = np.lexsort((off_middle.ravel(), height.ravel(), cell))
    first = order[np.flatnonzero(np.diff(cell[order], prepend=-1))]
    seeds = np.zeros(shape, np.int32)
    seeds.flat[first] = np.cumsum(cell[first] > 0)
    # Not compact: the two sides of a ridge that is two pixels wide share it.
    return _fill_and_label(segmentation.watershed(height, markers=seeds, mask=inside), inside)


def _make_felzenszwalb(channels: ChannelImage, wanted: int, inside: BoolArray) -> NDArray[np.generic]:
    """Merge along pixel faces, in any number of dimensions and within a mask, unlike scikit-image.

    The scale is found by bisection, so that the mean superpixel has the size that is asked for.
    """
    pixels = np.arange(inside.size, dtype=np.int32).reshape(inside.shape)
    left, right, _, _ = list_borders(np.where(inside, pixels + 1, 0))
    flat = channels.reshape(inside.size, -1)
    weights = np.linalg.norm(flat[right] - flat[left], axis=-1).astype(np.float32)
    order = np.argsort(weights, kind="stable")
    edges = left[order].astype(np.int32), right[order].astype(np.int32), weights[order]
    n_pixels = int(inside.sum())
    min_size = max(1, n_pixels // wanted // 4)
    low, high = 1e-3, 1e5
    for _ in range(12):
        scale = float(np.sqrt(low * high))  # over many orders of magnitude
        roots = _merge_felzenszwalb(*edges, pixels.size, scale, min_size)
        count = int((roots == pixels.ravel()).sum()) - (pixels.size - n_pixels)
        if abs(count - wanted) <= 0.02 * wanted:
            break
        low, high = (scale, high) if count > wanted else (low, scale)
    return roots.reshape(inside.shape) + 1


@njit
def _merge_felzenszwalb(
    left: Int32Array, right: Int32Array, weight: Float32Array, n_pixels: int, scale: float, min_size: int
) -> Int32Array:
    """Merge pixels along edges (m,) of ascending weight by the method of Felzenszwalb and Huttenlocher (2004).

    Two components merge across an edge that is no heavier than scale / size plus the heaviest edge inside either. Then
    those of fewer than `min_size` pixels merge across their lightest edge. Returns the root (n_pixels,) of each pixel.
    """
    parent = arange(n_pixels, np.int32)
    size = full(n_pixels, 1, np.int32)
    limit = full(n_pixels, scale, np.float32)
    for is_small in (False, True):
        for e in range(left.size):
            a = find_root(parent, left[e])
            b = find_root(parent, right[e])
            if a == b:
                continue
            if min(size[a], size[b]) < min_size if is_small else weight[e] <= limit[a] and weight[e] <= limit[b]:
                parent[b] = a
                size[a] += size[b]
                limit[a] = weight[e] + scale / size[a]
    for i in range(n_pixels):
        parent[i] = find_root(parent, i)
    return parent


def find_fragments(probability: Float32Array, centre: Float32Array) -> Int32Array:
    """Find the fragments of objects (h, w): 1, 2, ..., 0 for the background.

    The network gives the probability (h, w) of an object, and how near a pixel is to the centre of its object.
    """
    from skimage.morphology import local_maxima, reconstruction

    covered = probability > MIN_PROBABILITY
    if not covered.any():
        return np.zeros(probability.shape, np.int32)
    height = np.where(covered, ndimage.gaussian_filter(centre, PEAK_BLUR), -1).astype(np.float32)
    lowered = np.maximum(height - np.float32(MIN_RISE), np.float32(-1))
    peaks = measure.label(local_maxima(reconstruction(lowered, height), connectivity=2) & covered, connectivity=2)
    return np.asarray(segmentation.watershed(-height, peaks, mask=covered), dtype=np.int32)


def make_object_sites(fragments: Int32Array, mask: BoolArray) -> Sites:
    """Make sites of the fragments and the blocks of background (h, w): 1..n, 0 outside the mask."""
    rows, columns = np.indices(fragments.shape) // BLOCK
    blocks = rows * (columns.max() + 1) + columns + 1
    return label_connected(np.where(mask, np.where(fragments > 0, fragments, int(fragments.max()) + blocks), 0))


def mark_fragments(sites: Sites, fragments: Int32Array) -> BoolArray:
    """Mark the sites (n,) most of whose pixels lie in fragments."""
    n_pixels = np.bincount(sites.ravel())[1:]
    n_covered = np.bincount(sites.ravel(), (fragments > 0).ravel())[1:]
    return np.asarray(2 * n_covered > n_pixels)
