"""SLIC, compiled: clusters of colour and place that stay near the cell of a grid in which they began.

Images are three-dimensional here, a plane one with a first axis of length 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from skimage import filters, segmentation

from napari_gsw.core.array_types import BoolArray, ChannelImage, Float64Array, Int32Array, Int64Array, Sites
from napari_gsw.core.errors import InputError, to_array
from napari_gsw.core.image.focus import deblur
from napari_gsw.core.image.normalized_image import NormalizedImage
from napari_gsw.core.image.ridges import compute_ridges, scale_intensity
from napari_gsw.core.image.spacing import Spacing, pixel_volume, pixel_widths
from napari_gsw.core.jit import full, njit, njit_inner, zeros
from napari_gsw.core.settings import Settings
from napari_gsw.core.sites.adjacency_kernels import (
    felzenszwalb_roots,
    label_components,
    merge_small_regions,
    paint_into,
    sum_over_sites,
    touching_pairs,
)

# One number an axis, float32.
Scale = tuple[np.float32, np.float32, np.float32]
# Pixels of a row that are looked at together: enough to fill the vector unit, few enough for its cache.
BLOCK = 128
# Channels are compared three at a time, as many as the coordinates.
AT_ONCE = 3


class Rivals(NamedTuple):
    """The clusters that may win the pixels of a block of a row: the nearest 9 cells in a plane, 27 in a volume."""

    centre: ChannelImage  # (27, features, BLOCK) float32
    number: Int32Array  # (27, BLOCK) int32 from 1


@njit
def slic_clusters(
    channels: ChannelImage, inside: NDArray[np.bool_], grid: tuple[int, int, int], scale: Scale, rounds: int
) -> Int32Array:
    """(Z, Y, X) int32 number of the cluster of each pixel, from 1; 0 outside.

    The grid cuts the image into cells, and each cell begins as a cluster. In a round every pixel goes to the nearest
    cluster of those that began in its own cell or in one beside it (9 in a plane, 27 in a volume), then every cluster
    moves to the mean of its pixels. It ends when nothing changes, or after `rounds`.

    Parameters
    ----------
    channels : (Z, Y, X, C) float32.
    inside : (Z, Y, X) bool, or (0, 0, 0) for everywhere.
    grid : cells along each axis.
    scale : what a step of one pixel along each axis weighs, in units of the channels; float32.
    """
    depth, height, width, count = channels.shape
    everywhere = inside.size == 0
    features = AT_ONCE + -(-count // AT_ONCE) * AT_ONCE
    labels = zeros((depth, height, width), np.int32)
    column = np.empty(width, np.int32)
    for x in range(width):
        column[x] = x * grid[2] // width
    for z in range(depth):
        for y in range(height):
            row = (z * grid[0] // depth * grid[1] + y * grid[1] // height) * grid[2]
            for x in range(width):
                if everywhere or inside[z, y, x]:
                    labels[z, y, x] = row + column[x] + 1
    cells = grid[0] * grid[1] * grid[2]
    # A cluster without pixels is infinitely far from all.
    centres = full((cells, features), np.inf, np.float32)
    total, pixels = np.empty((cells, AT_ONCE + count), np.float64), np.empty(cells, np.int64)
    rivals = Rivals(zeros((27, features, BLOCK), np.float32), zeros((27, BLOCK), np.int32))
    for turn in range(rounds):
        _move(channels, labels, scale, centres, total, pixels)
        if turn == 0:
            _purify(channels, labels, grid, centres)
        if not _assign(channels, labels, grid, column, scale, centres, rivals):
            break
    return labels


@njit_inner
def _move(
    channels: ChannelImage,
    labels: Int32Array,
    scale: Scale,
    centres: ChannelImage,
    total: Float64Array,
    pixels: Int64Array,
) -> None:
    """Every cluster to the mean of its pixels.

    Parameters
    ----------
    channels, labels : (Z, Y, X, C) float32 and (Z, Y, X) int32.
    centres : (cells, features) float32, written; the first three are the coordinates times their `scale`.
    total, pixels : (cells, 3 + C) float64 and (cells,) int64, scratch.
    """
    depth, height, width, count = channels.shape
    total[:], pixels[:] = 0, 0
    for z in range(depth):
        for y in range(height):
            for x in range(width):
                i = labels[z, y, x] - 1
                if i < 0:
                    continue
                pixels[i] += 1
                total[i, 0] += z
                total[i, 1] += y
                total[i, 2] += x
                for c in range(count):
                    total[i, AT_ONCE + c] += channels[z, y, x, c]
    for i in range(pixels.size):
        if pixels[i] > 0:
            centres[i] = 0
            for f in range(total.shape[1]):
                mean = total[i, f] / pixels[i]
                centres[i, f] = mean * scale[f] if f < AT_ONCE else mean


@njit_inner
def _purify(channels: ChannelImage, labels: Int32Array, grid: tuple[int, int, int], centres: ChannelImage) -> None:
    """Give every cell of centres (cells, features) the colour of its middle pixel, where that is inside.

    The mean of a cell that an edge crosses is a colour that no pixel has, and nothing would ever be nearest to it.
    """
    depth, height, width, count = channels.shape
    for i in range(grid[0]):
        for j in range(grid[1]):
            for k in range(grid[2]):
                z, y, x = (
                    (2 * i + 1) * depth // (2 * grid[0]),
                    (2 * j + 1) * height // (2 * grid[1]),
                    (2 * k + 1) * width // (2 * grid[2]),
                )
                cell = (i * grid[1] + j) * grid[2] + k
                if labels[z, y, x] == cell + 1:
                    for c in range(count):
                        centres[cell, AT_ONCE + c] = channels[z, y, x, c]


@njit_inner
def _assign(
    channels: ChannelImage, labels: Int32Array, grid: tuple[int, int, int], column: Int32Array, scale: Scale, centres: ChannelImage,
    rivals: Rivals,
) -> int:  # fmt: skip
    """Every pixel to its nearest cluster; how many have changed. The first of the nearest wins.

    Parameters
    ----------
    channels : (Z, Y, X, C) float32.
    labels : (Z, Y, X) int32, changed.
    column : (X,) int32 cell of each pixel along a row.
    centres : (cells, features) float32.
    rivals : scratch.
    """
    table, number = rivals.centre, rivals.number
    depth, height, width, count = channels.shape
    features = centres.shape[1]
    planes = zeros((features, BLOCK), np.float32)
    distance, best = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)
    # Of a pixel outside the mask no rival may be near, and its index stays what it was: it must always be one.
    index = zeros(BLOCK, np.int32)
    changed = 0
    for block in range(grid[0] * grid[1]):
        i, j = block // grid[1], block % grid[1]
        for first in range(0, width, BLOCK):
            size = min(BLOCK, width - first)
            count_of_rivals = _expand(centres, grid, i, j, column, first, size, rivals)
            for x in range(size):
                planes[2, x] = scale[2] * np.float32(first + x)
            for z in range(-(-i * depth // grid[0]), -(-(i + 1) * depth // grid[0])):
                for y in range(-(-j * height // grid[1]), -(-(j + 1) * height // grid[1])):
                    here, there = scale[0] * np.float32(z), scale[1] * np.float32(y)
                    for x in range(size):
                        for c in range(count):
                            planes[AT_ONCE + c, x] = channels[z, y, first + x, c]
                    for x in range(BLOCK):
                        best[x] = np.float32(np.inf)
                    for k in range(count_of_rivals):
                        for x in range(BLOCK):
                            r, s, t = here - table[k, 0, x], there - table[k, 1, x], planes[2, x] - table[k, 2, x]
                            distance[x] = r * r + s * s + t * t
                        for f in range(AT_ONCE, features, AT_ONCE):
                            for x in range(BLOCK):
                                r = planes[f, x] - table[k, f, x]
                                s = planes[f + 1, x] - table[k, f + 1, x]
                                t = planes[f + 2, x] - table[k, f + 2, x]
                                distance[x] += r * r + s * s + t * t
                        rival = np.int32(k)
                        for x in range(BLOCK):
                            new, old = distance[x], best[x]
                            keep = index[x]
                            best[x] = new if new < old else old
                            index[x] = rival if new < old else keep
                    for x in range(size):
                        own = labels[z, y, first + x]
                        new_one = number[index[x], x]
                        if own > 0 and own != new_one:
                            labels[z, y, first + x] = new_one
                            changed += 1
    return changed


@njit_inner
def _expand(
    centres: ChannelImage, grid: tuple[int, int, int], i: int, j: int, column: Int32Array, first: int, size: int, rivals: Rivals,
) -> int:  # fmt: skip
    """Write the rivals for each pixel of a block, `size` pixels from `first` on, and return how many each has.

    They are the clusters of the cells around row i, j of cells, of those that there are.

    Along the row, a cell beyond the end is replaced by the last one, which then competes twice.
    """
    table, number = rivals.centre, rivals.number
    count = 0
    for a in range(max(i - 1, 0), min(i + 2, grid[0])):
        for b in range(max(j - 1, 0), min(j + 2, grid[1])):
            for side in range(-1, 2):
                x = 0
                while x < size:
                    cell, end = column[first + x], x + 1
                    while end < size and column[first + end] == cell:
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


# Of the sites that are asked for, SLIC makes at least this share, or its compactness is doubled, at most so often.
LEAST_SHARE = 0.75
MOST_DOUBLINGS = 8
# Pixels over which ridges are blurred before their watersheds are sites: without it every grain would be one.
RIDGE_BLUR = 1.5
# Rounds of SLIC: later ones hardly move a pixel.
ROUNDS = 5


def make_superpixels(picture: NormalizedImage, settings: Settings, mask: ArrayLike | None = None) -> Sites:
    """Group the pixels of a picture into sites.

    Parameters
    ----------
    picture : the converted image.
    settings : ``superpixels``, ``site_size``, ``site_count``, ``compactness``, ``refocus`` and ``smoothing`` are read.
    mask : (\\*shape,) true where sites are wanted; None for everywhere.

    Returns
    -------
    (\\*shape,) int32, 1..n for the sites in the order of their first pixel, 0 outside the mask. Every site is
    connected through pixel faces.
    """
    inside = check_mask(mask, picture.shape)
    channels = picture.channels
    if settings.refocus == "auto" and len(picture.shape) == 2:
        channels = deblur(channels)
    if settings.smoothing > 0:
        from scipy import ndimage

        widths = (*pixel_widths(settings.smoothing, len(picture.shape), picture.spacing), 0)
        channels = ndimage.gaussian_filter(channels, widths)
    if settings.superpixels == "slic":
        return _slic(np.ascontiguousarray(channels), settings, inside, picture.spacing)
    if settings.superpixels == "ridges":
        groups: NDArray[np.generic] = _ridges(picture)
    else:
        methods = {"felzenszwalb": _felzenszwalb, "watershed": _watershed, "grid": _grid}
        groups = methods[settings.superpixels](channels, settings, inside, picture.spacing)
    # A part of the mask that got no seed of its own is a site too, and so is an image without any valley.
    return label_connected(np.where(groups == 0, groups.max() + 1, groups), inside)


def validate_sites(labels: ArrayLike, shape: tuple[int, ...], mask: ArrayLike | None = None) -> Sites:
    """A user's label image as sites: 0 is not a site, gaps in the numbering close, parts that do not touch separate."""
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
    """(\\*shape,) int32 face-connected parts of equal non-zero labels, 1..n by their first pixel in scan order.

    Parameters
    ----------
    labels : (\\*shape,) of any type of whole numbers.
    inside : (\\*shape,) where they count; None for everywhere.
    """
    if inside is not None:
        labels = np.where(inside, labels, 0)
    if labels.dtype.kind == "b" or (labels.min() >= 0 and labels.max() <= np.iinfo(np.int32).max):
        numbers = labels.astype(np.int32)
    else:  # only which labels are equal matters, and which are 0
        numbers = np.unique(labels, return_inverse=True)[1].reshape(labels.shape).astype(np.int32)
        numbers += 1
        numbers[labels == 0] = 0
    return label_components(np.ascontiguousarray(numbers).reshape(_deep(labels.shape)))[0].reshape(labels.shape)


def _deep(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape in three dimensions, for kernels."""
    return (1,) * (3 - len(shape)) + shape


def check_mask(mask: ArrayLike | None, shape: tuple[int, ...]) -> BoolArray | None:
    """(\\*shape,) where a mask is not 0; None if that is everywhere."""
    if mask is None:
        return None
    inside = to_array("the mask", mask) != 0
    if inside.shape != shape:
        raise InputError(f"the mask must have the image's shape {shape}, not {inside.shape}")
    if not inside.any():
        raise InputError("the mask has no pixel: it must be non-zero where the image is to be segmented")
    return None if inside.all() else inside


def _wanted(settings: Settings, shape: tuple[int, ...], inside: BoolArray | None, spacing: Spacing = None) -> int:
    """How many sites are asked for."""
    pixels = int(np.prod(shape)) if inside is None else int(inside.sum())
    return settings.site_count_for(pixels, pixel_volume(spacing))


def _slic(channels: ChannelImage, settings: Settings, inside: BoolArray | None, spacing: Spacing) -> Sites:
    """SLIC (Achanta et al. 2012), with as much compactness as it takes.

    On a noisy image clusters of colour are not clusters in space, and tidying them up leaves a few huge sites; so the
    compactness doubles until the number of sites is about the one that is asked for.
    """
    shape = channels.shape[:-1]
    pixels = int(np.prod(shape)) if inside is None else int(inside.sum())
    wanted = settings.site_count_for(pixels, pixel_volume(spacing))
    if wanted == 1:
        return label_connected(np.ones(shape, np.int32), inside)
    cells, side = cell_grid(shape, wanted, pixels, spacing)
    steps = (1.0,) * (3 - len(shape)) + (spacing or (1.0,) * len(shape))
    space = channels.reshape(*_deep(shape), channels.shape[-1])
    mask = np.zeros((0, 0, 0), bool) if inside is None else inside.reshape(_deep(shape))
    compactness = settings.compactness
    for _ in range(MOST_DOUBLINGS):
        z, y, x = (np.float32(compactness / side * step) for step in steps)
        sites = _tidy(slic_clusters(space, mask, cells, (z, y, x), ROUNDS), space, pixels // (2 * wanted))
        if int(sites.max()) >= LEAST_SHARE * wanted:
            break
        compactness *= 2
    return sites.reshape(shape)


def cell_grid(
    shape: tuple[int, ...], wanted: int, pixels: int, spacing: Spacing = None
) -> tuple[tuple[int, int, int], float]:
    """Cells along three axes that cut a shape of so many pixels into about as many cubes as are wanted; their side.

    With a `spacing`, cubes and their side are in its units.

    >>> cell_grid((30, 40), 12, 1200)
    ((1, 3, 4), 10.0)
    >>> cell_grid((2, 50), 10, 100)  # too thin to be cut along the first axis
    ((1, 1, 10), 5.0)
    >>> cell_grid((10, 40), 16, 400, (4.0, 1.0))  # pixels are four times as high as wide
    ((1, 4, 4), 10.0)
    """
    steps = spacing or (1,) * len(shape)
    lengths = [length * step for length, step in zip(shape, steps, strict=True)]
    rest, side = float(pixels * np.prod(steps)), 1.0
    for cut, length in enumerate(sorted(lengths)):
        side = (rest / wanted) ** (1 / (len(shape) - cut))
        if length >= side:
            break
        rest /= length
    deep = zip(_deep(shape), (1,) * (3 - len(shape)) + tuple(lengths), strict=True)
    depth, height, width = (max(1, min(most, round(length / side))) for most, length in deep)
    return (depth, height, width), side


def _tidy(clusters: Sites, channels: ChannelImage, smallest: int) -> Sites:
    """(Z, Y, X) sites from clusters: their connected parts, of which the small ones join the neighbour most alike."""
    parts, count = label_components(clusters)
    flat = channels.reshape(parts.size, -1)
    edges, _, _ = touching_pairs(parts, np.empty((parts.size, 0), np.float32), count, (1.0, 1.0, 1.0))
    total, pixels = sum_over_sites(flat, parts.ravel(), count)
    numbers = merge_small_regions(edges, total, pixels, np.argsort(pixels, kind="stable"), smallest)
    sites = np.empty_like(parts)
    paint_into(parts.ravel(), np.concatenate((np.zeros(1, np.int32), numbers)), sites.ravel())
    return sites


def _ridges(picture: NormalizedImage) -> Int32Array:
    from scipy import ndimage

    return np.asarray(
        segmentation.watershed(ndimage.gaussian_filter(compute_ridges(scale_intensity(picture)), RIDGE_BLUR))
    )


def _watershed(
    channels: ChannelImage, settings: Settings, inside: BoolArray | None, spacing: Spacing
) -> NDArray[np.generic]:
    """Watersheds of the gradient from evenly spaced seeds; 0 where none reaches."""
    if spacing is None:
        height = np.sqrt(sum(filters.sobel(channels[..., c]) ** 2 for c in range(channels.shape[-1])))
    else:
        height = _slope(channels, spacing)
    wanted = _wanted(settings, height.shape, inside, spacing)
    markers = wanted if spacing is None else place_seeds(height.shape, wanted, inside, spacing)
    # The distance to a site's seed competes with a gradient of a few units; a tenth of SLIC's value looks alike.
    result = segmentation.watershed(height, markers=markers, mask=inside, compactness=settings.compactness / 10)
    return np.asarray(result)


def _slope(channels: ChannelImage, spacing: tuple[float, ...]) -> NDArray[np.generic]:
    """(\\*shape,) gradient of channels (\\*shape, C) in units of the spacing; as `sobel` has it where that is 1."""
    axes = range(len(spacing))
    squares = [
        (filters.sobel(channels[..., c], axis=a) / spacing[a]) ** 2 for c in range(channels.shape[-1]) for a in axes
    ]
    return np.asarray(np.sqrt(sum(squares) / len(spacing)))


def place_seeds(shape: tuple[int, ...], wanted: int, inside: BoolArray | None, spacing: tuple[float, ...]) -> Sites:
    """(\\*shape,) 1, 2, ... in the middles of the cells of :func:`cell_grid`, 0 elsewhere."""
    pixels = int(np.prod(shape)) if inside is None else int(inside.sum())
    cells = cell_grid(shape, wanted, pixels, spacing)[0][-len(shape) :]
    places = [(2 * np.arange(count) + 1) * n // (2 * count) for count, n in zip(cells, shape, strict=True)]
    seeds = np.zeros(shape, np.int32)
    seeds[np.ix_(*places)] = np.arange(1, int(np.prod(cells)) + 1).reshape(cells)
    return seeds if inside is None else np.where(inside, seeds, 0)


def find_basins(height: ChannelImage, settings: Settings, inside: BoolArray | None, spacing: Spacing = None) -> Sites:
    """(\\*shape,) int32 sites 1..n: watersheds of a landscape (\\*shape,) in units of the channels, such as a map.

    Each begins at the lowest pixel of a cell of :func:`cell_grid`, of those the one nearest to its middle: a seed on a
    ridge would take something of both sides.
    """
    shape = height.shape
    wanted = _wanted(settings, shape, inside, spacing)
    pixels = int(np.prod(shape)) if inside is None else int(inside.sum())
    cells, _ = cell_grid(shape, wanted, pixels, spacing)
    cell, far = np.zeros(shape, np.int32), np.zeros(shape, np.float32)
    for axis, (length, count) in enumerate(zip(shape, cells[-len(shape) :], strict=True)):
        place = np.arange(length)
        index = place * count // length
        off = np.square((place + 0.5) * count / length - index - 0.5)
        line = [-1 if a == axis else 1 for a in range(len(shape))]
        cell = cell * np.int32(count) + index.astype(np.int32).reshape(line)
        far = far + off.astype(np.float32).reshape(line)
    flat = cell.ravel() if inside is None else np.where(inside, cell, -1).ravel()
    order = np.lexsort((far.ravel(), height.ravel(), flat))
    first = np.flatnonzero(np.diff(flat[order], prepend=-2))
    first = first[flat[order[first]] >= 0]
    seeds = np.zeros(flat.size, np.int32)
    seeds[order[first]] = np.arange(1, len(first) + 1)
    # Not compact: a ridge that is two pixels wide is to be shared by its two sides.
    groups = segmentation.watershed(height, markers=seeds.reshape(shape), mask=inside)
    return label_connected(np.where(groups == 0, groups.max() + 1, groups), inside)


def _grid(
    channels: ChannelImage, settings: Settings, inside: BoolArray | None, spacing: Spacing = None
) -> NDArray[np.generic]:
    """Boxes of equal sides, whatever the image shows."""
    shape = channels.shape[:-1]
    pixels = int(np.prod(shape)) if inside is None else int(inside.sum())
    steps = spacing or (1,) * len(shape)
    side = (pixels * np.prod(steps) / _wanted(settings, shape, inside, spacing)) ** (1 / len(shape))
    blocks = np.zeros(shape, np.int64)
    for axis, length in enumerate(shape):
        cells = max(1, min(length, round(length * steps[axis] / side)))
        index = np.arange(length) * cells // length
        blocks = blocks * cells + index.reshape([-1 if a == axis else 1 for a in range(len(shape))])
    return blocks + 1


def _felzenszwalb(
    channels: ChannelImage, settings: Settings, inside: BoolArray | None, spacing: Spacing
) -> NDArray[np.generic]:
    """Merging along pixel faces, in any number of dimensions and within a mask, unlike scikit-image's.

    The scale is found by bisection, so that the mean site has the size that is asked for. The spacing matters for that
    alone.
    """
    shape = channels.shape[:-1]
    numbers = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    left, right, weight = [], [], []
    for axis in range(len(shape)):
        a = np.moveaxis(numbers, axis, 0)
        c = np.moveaxis(channels, axis, 0)
        keep = np.ones(a[1:].shape, bool)
        if inside is not None:
            m = np.moveaxis(inside, axis, 0)
            keep = m[1:] & m[:-1]
        left.append(a[:-1][keep])
        right.append(a[1:][keep])
        weight.append(np.linalg.norm(c[1:] - c[:-1], axis=-1)[keep])
    weights = np.concatenate(weight).astype(np.float32)
    order = np.argsort(weights, kind="stable")
    edges = np.concatenate(left)[order], np.concatenate(right)[order], weights[order]

    wanted = _wanted(settings, shape, inside, spacing)
    outside = 0 if inside is None else int(inside.size - inside.sum())
    smallest = max(1, (numbers.size - outside) // wanted // 4)
    low, high = 1e-3, 1e5
    for _ in range(12):
        middle = geometric_mean(low, high)
        roots = felzenszwalb_roots(*edges, numbers.size, middle, smallest)
        count = int((roots == numbers.ravel()).sum()) - outside
        if abs(count - wanted) <= 0.02 * wanted:
            break
        low, high = (middle, high) if count > wanted else (low, middle)
    return roots.reshape(shape) + 1


def geometric_mean(low: float, high: float) -> float:
    """The geometric mean: the scale is searched over many orders of magnitude."""
    return float(np.sqrt(low * high))
