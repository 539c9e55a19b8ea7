"""What there is to say about each region of a segmentation, as a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from skimage import measure

from napari_gsw.core.array_types import Float64Array, Int64Array, LabelImage
from napari_gsw.core.errors import InputError
from napari_gsw.core.image import lazy
from napari_gsw.core.image.block_grid import Grid, Slices, crop
from napari_gsw.core.image.lazy import is_lazy, open_lazy_image, read
from napari_gsw.core.image.normalized_image import channels_last, guess_axes
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.posterior.label_certainty import (
    count_overlap,
    find_commonest,
    find_likeliest_partner,
    measure_stability,
    object_probability,
)
from napari_gsw.core.posterior.objects import calibrate
from napari_gsw.core.posterior.summary import Summary
from napari_gsw.core.sites.blocked_labels import SiteImage

Columns = dict[str, NDArray[Any]]


def measure_regions(
    problem: Problem,
    numbers: NDArray[np.integer],
    pixels: NDArray[np.number],
    together: Float64Array,
    means: Float64Array,
    locks: NDArray[np.bool_] | None = None,
    names: tuple[str, ...] = (),
    pixel_size: float = 1.0,
) -> Columns:
    """One row for each number on the screen, in ascending order.

    Parameters
    ----------
    numbers : (n,) positive number of each site.
    pixels : (n,) number of pixels of each site.
    together : (m,) probability that the ends of an edge share a cluster; NaN where it is not known yet.
    means : (n, channels) of the image's values (:func:`site_means`).
    names : of the channels.
    pixel_size : area or volume of a pixel in the user's units.

    Returns
    -------
    Columns by name: ``index`` the number; ``pixels``, ``area``, ``share`` of all pixels in per cent; ``sites``; mean of
    each channel; ``stability``, the probability that an edge at or in the region is as shown, averaged by boundary
    length: inside, that its ends are together, at the border, that they are apart; ``neighbours``, the numbers of the
    regions that touch it; ``locked`` sites.
    """
    index, region = np.unique(numbers, return_inverse=True)
    k = len(index)
    size = np.bincount(region, pixels, k)
    table: Columns = {
        "index": index.astype(np.int64),
        "pixels": size.astype(np.int64),
        "area": size * pixel_size,
        "share": 100 * size / size.sum(),
        "sites": np.bincount(region, minlength=k),
    }
    for c in range(means.shape[1]):
        name = names[c] if c < len(names) else "mean" if means.shape[1] == 1 else f"mean_{c + 1}"
        table[name] = np.bincount(region, means[:, c] * pixels, k) / size

    a, b = region[problem.edges[:, 0]], region[problem.edges[:, 1]]
    length = np.ones(len(a)) if problem.graph is None else problem.graph.length
    as_shown = np.where(a == b, together, 1 - together)
    weight = np.bincount(a, length, k) + np.bincount(b, length, k)
    total = np.bincount(a, length * as_shown, k) + np.bincount(b, length * as_shown, k)
    table["stability"] = np.divide(total, weight, out=np.full(k, np.nan), where=weight > 0)
    border = (a != b) if problem.graph is None else (a != b) & (problem.graph.order == 1)
    key = np.unique(np.concatenate((a[border] * k + b[border], b[border] * k + a[border])))
    split = np.split(index[key % k], np.searchsorted(key // k, np.arange(1, k)))
    table["neighbours"] = np.array([" ".join(map(str, row)) for row in split], dtype=object)
    table["locked"] = np.zeros(k, np.int64) if locks is None else np.bincount(region, locks, k).astype(np.int64)
    return table


# A look-up table of labels has at most so many entries more than the image has pixels.
MAX_UNUSED_LABELS = 1 << 20
# Reads (\*tile, channels) of the image at a place.
Reader = Callable[[Slices], NDArray[Any]]


class LabelSums(NamedTuple):
    """What is summed up of k labels in d axes.

    Attributes
    ----------
    numbers : (k,) uint64 the labels other than 0, ascending.
    pixels : (k,) how many pixels each has.
    first, second : (k, d) sums of coordinates, and (k, d (d + 1) / 2) of their products, in pixels.
    low, high : (k, d) int64 the box that holds it: first pixel, and one after the last.
    values, squares : (k, channels) sums of values less a shift, and of their squares.
    pairs : (p, 2) uint64 labels that touch, the smaller first.
    """

    numbers: NDArray[np.uint64]
    pixels: Int64Array
    first: Float64Array
    second: Float64Array
    low: Int64Array
    high: Int64Array
    values: Float64Array
    squares: Float64Array
    pairs: NDArray[np.uint64]


def sum_labels(labels: Any, values: Reader | None, shift: Float64Array) -> LabelSums:
    """The sums of a label image, in memory or lazy.

    Parameters
    ----------
    labels : (\\*shape,) whole numbers >= 0; 0 is no label.
    values : reads the image, or None for no channels.
    shift : (channels,) about the mean of each channel, so that squares lose no digits.
    """
    grid = make_label_grid(labels)
    jobs = [(labels, values, shift, grid.around(i, 1), grid.inside(i)) for i in grid]
    if len(jobs) == 1:
        return _sum_tile(*jobs[0])
    return _add_tiles(lazy.map_blocks(_sum_tile, jobs, lambda done: None))


def make_label_grid(labels: Any) -> Grid:
    """The chunks of a lazy label image; one tile of one in memory."""
    if not lazy.is_lazy(labels):
        return Grid(tuple((0, n) for n in labels.shape))
    lengths = lazy.get_chunk_shape(labels)
    starts = (range(0, n, step) for n, step in zip(labels.shape, lengths, strict=True))
    return Grid(tuple((*row, n) for row, n in zip(starts, labels.shape, strict=True)))


def index_labels(labels: LabelImage) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """(k,) the labels other than 0, ascending, and (\\*shape,) the row of each pixel from 1, 0 where there is none."""
    most = int(labels.max(initial=0))
    if most > labels.size + MAX_UNUSED_LABELS:
        index, rows = np.unique(np.concatenate(([0], labels.ravel().astype(np.uint64))), return_inverse=True)
        return index[1:], rows[1:].reshape(labels.shape).astype(np.int32)
    there = np.zeros(most + 1, bool)
    there[labels.ravel()] = True
    there[0] = False
    table = np.where(there, np.cumsum(there), 0).astype(np.int32)
    return np.flatnonzero(there).astype(np.uint64), table[labels]


def _sum_tile(labels: Any, values: Reader | None, shift: Float64Array, around: Slices, inside: Slices) -> LabelSums:
    """The sums of one tile; `around` has one more pixel on its sides, for the pairs across its border."""
    from scipy import ndimage

    wide = lazy.read(labels, around)
    tile = wide[crop(around, inside)]
    index, rows = index_labels(tile)
    k, d = len(index), tile.ndim
    boxes = ndimage.find_objects(rows, k)
    start = np.array([part.start for part in inside])
    low = np.array([[part.start for part in box] for box in boxes], np.int64).reshape(k, d) + start
    high = np.array([[part.stop for part in box] for box in boxes], np.int64).reshape(k, d) + start
    here = rows > 0
    row = rows[here] - 1
    places = [
        np.broadcast_to(
            np.arange(part.start, part.stop, dtype=np.float64).reshape([-1 if a == b else 1 for b in range(d)]),
            tile.shape,
        )[here]
        for a, part in enumerate(inside)
    ]
    products = [places[a] * places[b] for a, b in combinations_with_replacement(range(d), 2)]
    channels = [] if values is None else list((values(inside)[here].astype(np.float64) - shift).T)
    return LabelSums(
        index,
        np.bincount(row, minlength=k),
        _sum_by_row(row, places, k),
        _sum_by_row(row, products, k),
        low,
        high,
        _sum_by_row(row, channels, k),
        _sum_by_row(row, [channel**2 for channel in channels], k),
        _find_touching(wide, crop(around, inside)),
    )


def _sum_by_row(row: NDArray[np.integer], columns: list[Float64Array], k: int) -> Float64Array:
    """(k, columns) sums of each column (pixels,) by row."""
    return np.stack([np.bincount(row, column, k) for column in columns], axis=1) if columns else np.zeros((k, 0))


def _find_touching(wide: LabelImage, inner: Slices) -> NDArray[np.uint64]:
    """(p, 2) labels on the two sides of a face, the smaller first, of the faces in and around `inner`."""
    keys = []
    for axis in range(wide.ndim):
        part = wide[tuple(slice(None) if a == axis else s for a, s in enumerate(inner))]
        a, b = np.moveaxis(part, axis, 0)[:-1], np.moveaxis(part, axis, 0)[1:]
        border = (a != b) & (a > 0) & (b > 0)
        here, there = a[border].astype(np.uint64), b[border].astype(np.uint64)
        keys.append((np.minimum(here, there) << np.uint64(32)) | np.maximum(here, there))
    key = np.unique(np.concatenate(keys))
    return np.stack((key >> np.uint64(32), key & np.uint64(0xFFFFFFFF)), axis=1)


def _add_tiles(tiles: list[LabelSums]) -> LabelSums:
    """The sums of all tiles together."""
    index, row = np.unique(np.concatenate([tile.numbers for tile in tiles]), return_inverse=True)
    k = len(index)

    def added(name: str) -> Float64Array:
        return _sum_by_row(row, list(np.concatenate([getattr(tile, name) for tile in tiles]).T.astype(np.float64)), k)

    d = tiles[0].low.shape[1]
    low, high = np.full((k, d), np.iinfo(np.int64).max), np.zeros((k, d), np.int64)
    np.minimum.at(low, row, np.concatenate([tile.low for tile in tiles]))
    np.maximum.at(high, row, np.concatenate([tile.high for tile in tiles]))
    pixels = np.bincount(row, np.concatenate([tile.pixels for tile in tiles]), k).astype(np.int64)
    sums = {name: added(name) for name in ("first", "second", "values", "squares")}
    pairs = np.unique(np.concatenate([tile.pairs for tile in tiles]), axis=0)
    return LabelSums(index, pixels, low=low, high=high, pairs=pairs, **sums)


# The convex hull of a volume is asked of every voxel of its box: of larger boxes it would take minutes.
MAX_HULL_VOXELS = 1 << 17


def measure_axis_variance(sums: LabelSums, scale: Float64Array) -> Float64Array:
    """(k, d) variance of the pixels' places along the main axes of each label, the largest first, in units squared.

    Parameters
    ----------
    scale : (d,) distance from one pixel to the next along each axis.
    """
    k, d = sums.first.shape
    mean = sums.first / sums.pixels[:, np.newaxis]
    matrix = np.empty((k, d, d))
    for column, (a, b) in enumerate(combinations_with_replacement(range(d), 2)):
        moment = sums.second[:, column] / sums.pixels - mean[:, a] * mean[:, b]
        matrix[:, a, b] = matrix[:, b, a] = moment * scale[a] * scale[b]
    return np.maximum(np.linalg.eigvalsh(matrix)[:, ::-1], 0.0) if k else np.zeros((0, d))


def measure_axis_lengths(variance: Float64Array) -> tuple[Float64Array, Float64Array]:
    """(k,) lengths of the longest and the shortest axis of an ellipse or ellipsoid with the same variances (k, d)."""
    factor = 16.0 if variance.shape[1] == 2 else 20.0
    return np.sqrt(factor * variance[:, 0]), np.sqrt(factor * variance[:, -1])


def measure_eccentricity(variance: Float64Array) -> Float64Array:
    """(k,) eccentricity of the ellipse with the same variances (k, 2): 0 for a disc, near 1 for a line."""
    most, least = variance[:, 0], variance[:, 1]
    ratio: Float64Array = np.divide(least, most, out=np.ones_like(most), where=most > 0)
    return np.sqrt(1 - ratio)


def measure_outlines(
    rows: NDArray[np.int32], pixels: Int64Array, scale: Float64Array
) -> tuple[Float64Array | None, Float64Array]:
    """Perimeter and solidity of the labels 1..k of an image in memory, as scikit-image's regionprops has them.

    Parameters
    ----------
    rows : (\\*shape,) labels 1..k, each with `pixels` (k,); 0 is none.
    scale : (d,) distance from one pixel to the next along each axis.

    Returns
    -------
    perimeter : (k,) in units; None of volumes, and where pixels are not square.
    solidity : (k,) share of the convex hull that is filled; NaN where a volume is flat or too large for that.
    """
    from skimage.morphology import convex_hull_image  # which takes long to import, and few need

    square = rows.ndim == 2 and np.isclose(scale[0], scale[1])
    perimeter, solidity = np.zeros(len(pixels)), np.full(len(pixels), np.nan)
    for region in measure.regionprops(rows):
        row, image = region.label - 1, region.image
        if square:
            perimeter[row] = region.perimeter * scale[0]
        if rows.ndim == 2 or (image.size <= MAX_HULL_VOXELS and _is_solid(image)):
            solidity[row] = pixels[row] / np.count_nonzero(convex_hull_image(image))
    return perimeter if square else None, solidity


def _is_solid(image: NDArray[np.bool_]) -> bool:
    """Whether the voxels of a volume do not all lie in one plane, so that there is a hull."""
    places = np.argwhere(image)
    return int(np.linalg.matrix_rank(places - places[0])) == image.ndim


def measure_medians(rows: NDArray[np.int32], values: NDArray[np.generic], pixels: Int64Array) -> Float64Array:
    """(k, channels) median of the values (\\*shape, channels) of each of the labels 1..k."""
    flat = rows.ravel()
    order = np.argsort(flat, kind="stable")[np.count_nonzero(flat == 0) :]
    table = values.reshape(flat.size, -1)
    result = np.empty((len(pixels), table.shape[1]))
    ends = np.cumsum(pixels)
    for channel in range(table.shape[1]):
        column = table[order, channel]
        for row, (start, stop) in enumerate(zip(ends - pixels, ends, strict=True)):
            result[row, channel] = np.median(column[start:stop])
    return result


POWERS = {1: "", 2: "²", 3: "³"}
COLOURS = ("red", "green", "blue")


def measure_labels(
    labels: Any,
    image: Any = None,
    axes: str = "auto",
    summary: Summary | None = None,
    *,
    sites: SiteImage | None = None,
    clusters: Int64Array | None = None,
    scale: Sequence[float] | None = None,
    unit: str = "",
    names: Sequence[str] = (),
) -> Columns:
    """One row for each label other than 0, in ascending order.

    Parameters
    ----------
    labels : (\\*shape,) whole numbers >= 0 in two or three axes, in memory or lazy.
    image, axes : the pixels behind them, in memory or lazy, and a letter for each of the axes; None for no values.
    summary : the posterior that the labels come from; None leaves out how sure they are.
    sites : (\\*shape,) those under the labels, where these are only one plane of the summary's problem.
    clusters : (n,) cluster of each site on the screen, if these are not the numbers of the summary.
    scale : distance from one pixel to the next along each axis of the labels, in `unit`; by default 1.
    unit : symbol, such as ``µm``, that the headers of lengths, areas and volumes show.
    names : of the channels.

    Returns
    -------
    Columns by name, each (k,); docs/regions.md says what they are. Medians, perimeter and solidity need all pixels of a
    label at once: they are left out of the table of lazy labels.
    """
    shape = tuple(labels.shape)
    if len(shape) not in (2, 3) or np.dtype(labels.dtype).kind not in "ui":
        raise InputError(f"labels must be whole numbers in 2 or 3 dimensions, not {labels.dtype} of shape {shape}")
    steps = np.abs(np.ones(len(shape)) if scale is None else np.asarray(scale, dtype=np.float64))
    if steps.shape != (len(shape),) or not np.isfinite(steps).all() or not steps.all():
        raise InputError(f"scale must be {len(shape)} numbers other than 0, not {scale!r}")
    values, letters, rgb = (None, "ZYX"[-len(shape) :], False) if image is None else make_reader(image, axes, shape)
    channels = 0 if values is None else values(tuple(slice(0, 1) for _ in shape)).shape[-1]
    shift = np.zeros(channels)
    if values is not None:
        grid = make_label_grid(labels)
        middle = grid.inside(tuple(count // 2 for count in grid.counts))
        shift = np.nan_to_num(
            values(middle).reshape(-1, channels).mean(axis=0, dtype=np.float64), posinf=0.0, neginf=0.0
        )
    sums = sum_labels(labels, values, shift)
    table = _position_columns(sums, letters.lower(), steps, unit, int(np.prod(shape)))
    middles = None
    rows = None if is_lazy(labels) else index_labels(np.asarray(labels))[1]
    if values is not None:
        if rows is not None:
            middles = measure_medians(rows, values(tuple(slice(0, n) for n in shape)), sums.pixels)
        table |= _value_columns(sums, shift, middles, name_channels(channels, rgb, names))
    table |= _shape_columns(sums, rows, steps, unit)
    if summary is not None and summary.problem.sites is not None:
        under = summary.problem.sites if sites is None else sites
        table |= _certainty_columns(labels, summary, under, clusters, table["index"])
    table["neighbours"] = _neighbour_column(sums)
    return table


def column_header(name: str, unit: str, power: int = 1) -> str:
    """The head of a column with its unit, if there is one.

    >>> header("area", "µm", 2), header("area", "", 2)
    ('area (µm²)', 'area')
    """
    return f"{name} ({unit}{POWERS[power]})" if unit else name


def name_channels(count: int, rgb: bool, names: Sequence[str] = ()) -> list[str]:
    """Names of the channels as columns have them, with an underscore before each; of one channel none is needed.

    >>> channel_names(1, False), channel_names(2, False), channel_names(2, False, ["DAPI", "GFP"])
    ([''], ['_1', '_2'], ['_DAPI', '_GFP'])
    """
    if len(names) == count:
        return [f"_{name}" for name in names] if len(set(names)) == count else name_channels(count, rgb)
    if rgb and count >= len(COLOURS):
        return [f"_{name}" for name in (*COLOURS, "alpha")[:count]]
    return [""] if count == 1 else [f"_{c + 1}" for c in range(count)]


def make_reader(image: Any, axes: str, shape: tuple[int, ...]) -> tuple[Reader, str, bool]:
    """What reads (\\*tile, channels) of an image, the letters of its space, and whether its channels are RGB."""
    if is_lazy(image):
        opened = open_lazy_image(image, axes)
        letters = opened.axes

        def tile_of(where: Slices) -> NDArray[Any]:
            parts = dict(zip((a for a in letters if a in "ZYX"), where, strict=True))
            index = tuple(parts.get(a, slice(None) if a in "CS" else 0) for a in opened.letters)
            return channels_last(read(opened.array, index), letters)  # type: ignore[arg-type]

        space = opened.shape
    else:
        array = np.asarray(image)
        letters = (guess_axes(array) if axes == "auto" else axes).upper()
        if len(letters) != array.ndim:
            raise InputError(f"axes must have {array.ndim} letters for an image of shape {array.shape}, not {axes!r}")
        pixels = channels_last(array, letters)
        space = pixels.shape[:-1]

        def tile_of(where: Slices) -> NDArray[Any]:
            return pixels[where]

    if space != shape:
        raise InputError(f"labels of shape {shape} do not lie on an image of shape {space}")
    return tile_of, "".join(a for a in letters if a in "ZYX"), "S" in letters


def _position_columns(sums: LabelSums, axes: str, steps: Float64Array, unit: str, pixels: int) -> Columns:
    """Number, size, centroid and box."""
    area = "area" if len(axes) == 2 else "volume"
    table: Columns = {
        "index": sums.numbers.astype(np.int64),
        "pixels": sums.pixels,
        column_header(area, unit, len(axes)): sums.pixels * float(np.prod(steps)),
        "share (%)": 100 * sums.pixels / pixels,
    }
    centre = sums.first / sums.pixels[:, np.newaxis] * steps
    for a, letter in enumerate(axes):
        table[column_header(f"centroid_{letter}", unit)] = centre[:, a]
    for end, place in (("first", sums.low), ("end", sums.high)):
        for a, letter in enumerate(axes):
            table[f"{end}_{letter}"] = place[:, a]
    return table


def _value_columns(sums: LabelSums, shift: Float64Array, middles: Float64Array | None, names: Sequence[str]) -> Columns:
    """Mean, median and spread of every channel."""
    size = sums.pixels[:, np.newaxis]
    mean = sums.values / size
    spread = np.sqrt(np.maximum(sums.squares / size - mean**2, 0.0))
    table: Columns = {}
    for c, name in enumerate(names):
        table[f"mean{name}"] = mean[:, c] + shift[c]
        if middles is not None:
            table[f"median{name}"] = middles[:, c]
        table[f"sd{name}"] = spread[:, c]
    return table


def _shape_columns(sums: LabelSums, rows: NDArray[np.int32] | None, steps: Float64Array, unit: str) -> Columns:
    """Axes and eccentricity; perimeter and solidity of what is in memory."""
    variance = measure_axis_variance(sums, steps)
    table: Columns = dict(
        zip(
            (column_header("major_axis", unit), column_header("minor_axis", unit)),
            measure_axis_lengths(variance),
            strict=True,
        )
    )
    if variance.shape[1] == 2:
        table["eccentricity"] = measure_eccentricity(variance)
    if rows is not None:
        perimeter, solidity = measure_outlines(rows, sums.pixels, steps)
        if perimeter is not None:
            table[column_header("perimeter", unit)] = perimeter
        table["solidity"] = solidity
    return table


def _certainty_columns(
    labels: Any, summary: Summary, sites: SiteImage, clusters: Int64Array | None, index: Int64Array
) -> Columns:
    """Sites, cluster, and how sure the posterior is."""
    problem, k = summary.problem, len(index)
    common = count_overlap(problem, sites, labels, index)
    numbers = summary.clusters if clusters is None else clusters
    held = (common.of_site >= 0) & (summary.seeds >= 0)
    one_with: Columns = {}
    count = np.bincount(common.of_site[common.of_site >= 0], minlength=k)
    one = object_probability(summary.draws, common, k)
    if problem.has_fragments:
        one = np.where(count > 1, calibrate(one), one)
        other, share = find_likeliest_partner(problem, summary.same_colour, common, k)
        share = np.where(other >= 0, calibrate(share), 0)
        one_with = {"one_with": np.where(other >= 0, index[other], 0), "one_with_probability": share}
    return {
        "sites": count,
        "cluster": find_commonest(numbers, common, k),
        "stability": measure_stability(problem, summary.snapshot.together, numbers, common, k),
        "one_object": one,
        **one_with,
        "locked": np.bincount(common.of_site[held], minlength=k),
    }


def _neighbour_column(sums: LabelSums) -> NDArray[Any]:
    """(k,) the labels that touch each label, as text."""
    both = np.concatenate((sums.pairs, sums.pairs[:, ::-1]))
    both = both[np.lexsort((both[:, 1], both[:, 0]))]
    split = np.split(both[:, 1], np.searchsorted(both[:, 0], sums.numbers[1:])) if len(sums.numbers) else []
    return np.array([" ".join(map(str, row)) for row in split], dtype=object)
