"""Image -> sites: a label image of small connected regions, 2D or 3D."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from skimage import filters, segmentation

from napari_gsw.core.arrays import Ints, Mask, Pixels, Sites
from napari_gsw.core.errors import InputError
from napari_gsw.core.image.focus import refocused
from napari_gsw.core.image.picture import Picture
from napari_gsw.core.image.ridges import light_of, ridges
from napari_gsw.core.image.spacing import Spacing, pixel_volume, pixel_widths
from napari_gsw.core.inputs import plain_array
from napari_gsw.core.settings import Settings
from napari_gsw.core.sites.face_kernels import absorb_small_parts, connected_parts, sum_over_sites, touching_pairs
from napari_gsw.core.sites.pixel_kernels import felzenszwalb_roots, paint_into
from napari_gsw.core.sites.slic_kernels import slic_clusters

# Of the sites that are asked for, SLIC makes at least this share, or its compactness is doubled, at most so often.
LEAST_SHARE = 0.75
MOST_DOUBLINGS = 8
# Pixels over which ridges are blurred before their watersheds are sites: without it every grain would be one.
RIDGE_BLUR = 1.5
# Rounds of SLIC: later ones hardly move a pixel.
ROUNDS = 5


def superpixels(picture: Picture, settings: Settings, mask: ArrayLike | None = None) -> Sites:
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
        channels = refocused(channels)
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
    return connected(np.where(groups == 0, groups.max() + 1, groups), inside)


def given_sites(labels: ArrayLike, shape: tuple[int, ...], mask: ArrayLike | None = None) -> Sites:
    """A user's label image as sites: 0 is not a site, gaps in the numbering close, parts that do not touch separate."""
    array = plain_array("the label image", labels)
    if array.shape != shape:
        raise InputError(f"the label image must have the image's shape {shape}, not {array.shape}")
    if array.dtype.kind not in "bui":
        raise InputError(f"the label image must hold whole numbers, not {array.dtype}")
    if array.size and array.min() < 0:
        raise InputError(f"the label image must hold numbers >= 0, not {array.min()}")
    sites = connected(array, check_mask(mask, shape))
    if sites.max(initial=0) == 0:
        raise InputError("the label image has no site: every pixel is 0 (background) or masked")
    return sites


def connected(labels: NDArray[np.generic], inside: Mask | None) -> Sites:
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
    return connected_parts(np.ascontiguousarray(numbers).reshape(_deep(labels.shape)))[0].reshape(labels.shape)


def _deep(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape in three dimensions, for kernels."""
    return (1,) * (3 - len(shape)) + shape


def check_mask(mask: ArrayLike | None, shape: tuple[int, ...]) -> Mask | None:
    """(\\*shape,) where a mask is not 0; None if that is everywhere."""
    if mask is None:
        return None
    inside = plain_array("the mask", mask) != 0
    if inside.shape != shape:
        raise InputError(f"the mask must have the image's shape {shape}, not {inside.shape}")
    if not inside.any():
        raise InputError("the mask has no pixel: it must be non-zero where the image is to be segmented")
    return None if inside.all() else inside


def _wanted(settings: Settings, shape: tuple[int, ...], inside: Mask | None, spacing: Spacing = None) -> int:
    """How many sites are asked for."""
    pixels = int(np.prod(shape)) if inside is None else int(inside.sum())
    return settings.wanted_sites(pixels, pixel_volume(spacing))


def _slic(channels: Pixels, settings: Settings, inside: Mask | None, spacing: Spacing) -> Sites:
    """SLIC (Achanta et al. 2012), with as much compactness as it takes.

    On a noisy image clusters of colour are not clusters in space, and tidying them up leaves a few huge sites; so the
    compactness doubles until the number of sites is about the one that is asked for.
    """
    shape = channels.shape[:-1]
    pixels = int(np.prod(shape)) if inside is None else int(inside.sum())
    wanted = settings.wanted_sites(pixels, pixel_volume(spacing))
    if wanted == 1:
        return connected(np.ones(shape, np.int32), inside)
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


def _tidy(clusters: Sites, channels: Pixels, smallest: int) -> Sites:
    """(Z, Y, X) sites from clusters: their connected parts, of which the small ones join the neighbour most alike."""
    parts, count = connected_parts(clusters)
    flat = channels.reshape(parts.size, -1)
    edges, _, _ = touching_pairs(parts, np.empty((parts.size, 0), np.float32), count, (1.0, 1.0, 1.0))
    total, pixels = sum_over_sites(flat, parts.ravel(), count)
    numbers = absorb_small_parts(edges, total, pixels, np.argsort(pixels, kind="stable"), smallest)
    sites = np.empty_like(parts)
    paint_into(parts.ravel(), np.concatenate((np.zeros(1, np.int32), numbers)), sites.ravel())
    return sites


def _ridges(picture: Picture) -> Ints:
    from scipy import ndimage

    return np.asarray(segmentation.watershed(ndimage.gaussian_filter(ridges(light_of(picture)), RIDGE_BLUR)))


def _watershed(channels: Pixels, settings: Settings, inside: Mask | None, spacing: Spacing) -> NDArray[np.generic]:
    """Watersheds of the gradient from evenly spaced seeds; 0 where none reaches."""
    if spacing is None:
        height = np.sqrt(sum(filters.sobel(channels[..., c]) ** 2 for c in range(channels.shape[-1])))
    else:
        height = _slope(channels, spacing)
    wanted = _wanted(settings, height.shape, inside, spacing)
    markers = wanted if spacing is None else even_seeds(height.shape, wanted, inside, spacing)
    # The distance to a site's seed competes with a gradient of a few units; a tenth of SLIC's value looks alike.
    result = segmentation.watershed(height, markers=markers, mask=inside, compactness=settings.compactness / 10)
    return np.asarray(result)


def _slope(channels: Pixels, spacing: tuple[float, ...]) -> NDArray[np.generic]:
    """(\\*shape,) gradient of channels (\\*shape, C) in units of the spacing; as `sobel` has it where that is 1."""
    axes = range(len(spacing))
    squares = [
        (filters.sobel(channels[..., c], axis=a) / spacing[a]) ** 2 for c in range(channels.shape[-1]) for a in axes
    ]
    return np.asarray(np.sqrt(sum(squares) / len(spacing)))


def even_seeds(shape: tuple[int, ...], wanted: int, inside: Mask | None, spacing: tuple[float, ...]) -> Sites:
    """(\\*shape,) 1, 2, ... in the middles of the cells of :func:`cell_grid`, 0 elsewhere."""
    pixels = int(np.prod(shape)) if inside is None else int(inside.sum())
    cells = cell_grid(shape, wanted, pixels, spacing)[0][-len(shape) :]
    places = [(2 * np.arange(count) + 1) * n // (2 * count) for count, n in zip(cells, shape, strict=True)]
    seeds = np.zeros(shape, np.int32)
    seeds[np.ix_(*places)] = np.arange(1, int(np.prod(cells)) + 1).reshape(cells)
    return seeds if inside is None else np.where(inside, seeds, 0)


def basins(height: Pixels, settings: Settings, inside: Mask | None, spacing: Spacing = None) -> Sites:
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
    return connected(np.where(groups == 0, groups.max() + 1, groups), inside)


def _grid(channels: Pixels, settings: Settings, inside: Mask | None, spacing: Spacing = None) -> NDArray[np.generic]:
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


def _felzenszwalb(channels: Pixels, settings: Settings, inside: Mask | None, spacing: Spacing) -> NDArray[np.generic]:
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
