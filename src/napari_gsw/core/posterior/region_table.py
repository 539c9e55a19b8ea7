"""Tables with one row for each label of a segmentation: size, shape, pixel values and certainty."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from skimage import measure

from napari_gsw.core.array_types import Float64Array, Int32Array, Int64Array, LabelImage
from napari_gsw.core.errors import InputError
from napari_gsw.core.image import lazy
from napari_gsw.core.image.block_grid import Grid, Slices, crop
from napari_gsw.core.image.normalized_image import channels_last, guess_axes
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.posterior.objects import calibrate
from napari_gsw.core.posterior.summary import Summary
from napari_gsw.core.sites.blocked_labels import SiteImage, count_site_values
from napari_gsw.core.special import sum_by_group

Columns = dict[str, NDArray[Any]]
# Reads the pixels (\*tile, channels) of an image.
Reader = Callable[[Slices], NDArray[Any]]

# A look-up table of labels may have this many entries more than the image has pixels.
MAX_UNUSED_LABELS = 1 << 20
# The convex hull of a volume tests every voxel of its box, which would take minutes for larger boxes.
MAX_HULL_VOXELS = 1 << 17
# A label is one object in a draw if one cluster holds this share of its pixels.
OBJECT_SHARE = 0.9
POWERS = {1: "", 2: "²", 3: "³"}
COLOURS = ("red", "green", "blue", "alpha")


def measure_regions(
    problem: Problem,
    labels: NDArray[np.integer],
    pixels: NDArray[np.number],
    together: Float64Array,
    means: Float64Array,
    locks: NDArray[np.bool_] | None = None,
    names: Sequence[str] = (),
    pixel_size: float = 1.0,
) -> Columns:
    """Measure each label > 0 of the sites (n,), from their number of pixels and mean values, without the image.

    `together` (m,) is the probability that the ends of an edge share a cluster.
    """
    index, row = np.unique(labels, return_inverse=True)
    k = len(index)
    size = np.bincount(row, pixels, k)
    table: Columns = {
        "index": index.astype(np.int64),
        "pixels": size.astype(np.int64),
        "area": size * pixel_size,
        "share": 100 * size / size.sum(),
        "sites": np.bincount(row, minlength=k),
    }
    for c in range(means.shape[1]):
        name = names[c] if c < len(names) else "mean" if means.shape[1] == 1 else f"mean_{c + 1}"
        table[name] = np.bincount(row, means[:, c] * pixels, k) / size
    table["stability"] = measure_stability(problem, together, row, row, k)
    touching = slice(None) if problem.graph is None else problem.graph.order == 1
    ends = labels[problem.edges[touching]]
    table["neighbours"] = _list_neighbours(index, ends[ends[:, 0] != ends[:, 1]])
    table["locked"] = np.zeros(k, np.int64) if locks is None else np.bincount(row, locks, k).astype(np.int64)
    return table


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
    """Measure each label > 0 of an image; docs/regions.md describes the columns, with one row per label, ascending.

    Labels and image are in memory or lazy, in 2D or 3D; median, perimeter and solidity need all pixels of a label at
    once, so that tables of lazy labels do not have them. `summary` adds the columns of certainty; `sites` are those
    under the labels if these are one slice of its problem, and `clusters` (n,) the displayed ones. `scale` is the size
    of a pixel along each axis, in `unit`, and `names` are those of the channels.
    """
    shape = tuple(labels.shape)
    if len(shape) not in (2, 3) or np.dtype(labels.dtype).kind not in "ui":
        raise InputError(f"labels must be whole numbers in 2 or 3 dimensions, not {labels.dtype} of shape {shape}")
    steps = np.abs(np.ones(len(shape)) if scale is None else np.asarray(scale, dtype=np.float64))
    if steps.shape != (len(shape),) or not np.isfinite(steps).all() or not steps.all():
        raise InputError(f"scale must be {len(shape)} numbers other than 0, not {scale!r}")
    read, space, rgb = (None, "ZYX"[-len(shape) :], False) if image is None else _make_reader(image, axes, shape)
    chunks = lazy.get_chunk_shape(labels) if lazy.is_lazy(labels) else shape
    grid = Grid(tuple((*range(0, n, step), n) for n, step in zip(shape, chunks, strict=True)))
    shift = np.zeros(0)
    if read is not None:
        centre = read(grid.slices(tuple(count // 2 for count in grid.counts)))
        means = centre.reshape(-1, centre.shape[-1]).mean(axis=0, dtype=np.float64)
        shift = np.nan_to_num(means, posinf=0.0, neginf=0.0)
    sums = _sum_labels(labels, grid, read, shift)
    whole = {} if lazy.is_lazy(labels) else _measure_whole_regions(np.asarray(labels), sums.pixels, read, steps)
    table = _position_columns(sums, space.lower(), steps, unit, int(np.prod(shape)))
    if read is not None:
        table |= _value_columns(sums, shift, whole, _name_channels(len(shift), rgb, names))
    table |= _shape_columns(sums, whole, steps, unit)
    if summary is not None and summary.problem.sites is not None:
        sites = summary.problem.sites if sites is None else sites
        table |= _certainty_columns(labels, summary, sites, clusters, table["index"])
    table["neighbours"] = _list_neighbours(sums.labels, sums.pairs)
    return table


class _LabelSums(NamedTuple):
    """Sums over the pixels of k labels in d dimensions."""

    labels: NDArray[np.uint64]  # (k,) ascending
    pixels: Int64Array  # (k,)
    first: Float64Array  # (k, d) sums of coordinates in pixels
    second: Float64Array  # (k, d (d + 1) / 2) sums of their products
    values: Float64Array  # (k, channels) sums of values less a shift
    squares: Float64Array  # (k, channels) sums of their squares
    low: Int64Array  # (k, d) first pixel of the bounding box
    high: Int64Array  # (k, d) one after its last pixel
    pairs: NDArray[np.uint64]  # (p, 2) labels that touch, the smaller one first


def _sum_labels(labels: Any, grid: Grid, read: Reader | None, shift: Float64Array) -> _LabelSums:
    """Sum over the pixels of each label; `shift` is about the mean of each channel, so that squares lose no digits."""
    jobs = [(labels, read, shift, grid.slices(i, 1), grid.slices(i)) for i in grid]
    if len(jobs) == 1:
        return _sum_tile(*jobs[0])
    tiles = lazy.map_blocks(_sum_tile, jobs, lambda done: None)
    index, row = np.unique(np.concatenate([tile.labels for tile in tiles]), return_inverse=True)
    joined = _LabelSums(*(np.concatenate(arrays) for arrays in zip(*tiles, strict=True)))
    low = np.full((len(index), joined.low.shape[1]), np.iinfo(np.int64).max)
    high = np.zeros_like(low)
    np.minimum.at(low, row, joined.low)
    np.maximum.at(high, row, joined.high)
    pixels, first, second, values, squares = (sum_by_group(column, row, len(index)) for column in joined[1:6])
    pairs = np.unique(joined.pairs, axis=0)
    return _LabelSums(index, pixels.astype(np.int64), first, second, values, squares, low, high, pairs)


def _sum_tile(labels: Any, read: Reader | None, shift: Float64Array, around: Slices, inside: Slices) -> _LabelSums:
    """Sum over one tile; `around` has one more pixel on each side, for the pairs across the border of the tile."""
    from scipy import ndimage

    wide = lazy.read(labels, around)
    tile = wide[crop(around, inside)]
    index, rows = _index_labels(tile)
    k, d = len(index), tile.ndim
    mask = rows > 0
    row = rows[mask] - 1

    def sum_columns(columns: list[NDArray[Any]]) -> Float64Array:
        sums = [np.bincount(row, column, k) for column in columns]
        return np.stack(sums, axis=1) if sums else np.zeros((k, 0))

    coordinates = [
        np.broadcast_to(coordinate.astype(np.float64), tile.shape)[mask] for coordinate in np.ogrid[tuple(inside)]
    ]
    channels = [] if read is None else list((read(inside)[mask].astype(np.float64) - shift).T)
    boxes = [[(axis.start, axis.stop) for axis in box] for box in ndimage.find_objects(rows, k)]
    corners = np.array(boxes, np.int64).reshape(k, d, 2) + np.array([axis.start for axis in inside])[:, np.newaxis]
    return _LabelSums(
        index,
        np.bincount(row, minlength=k),
        sum_columns(coordinates),
        sum_columns([coordinates[a] * coordinates[b] for a, b in combinations_with_replacement(range(d), 2)]),
        sum_columns(channels),
        sum_columns([channel**2 for channel in channels]),
        corners[..., 0],
        corners[..., 1],
        _find_touching(wide, crop(around, inside)),
    )


def _index_labels(labels: LabelImage) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """List the labels other than 0, ascending, and give each pixel its position in the list from 1, or 0."""
    largest = int(labels.max(initial=0))
    if largest > labels.size + MAX_UNUSED_LABELS:
        index, rows = np.unique(np.concatenate(([0], labels.ravel().astype(np.uint64))), return_inverse=True)
        return index[1:], rows[1:].reshape(labels.shape).astype(np.int32)
    is_used = np.zeros(largest + 1, bool)
    is_used[labels.ravel()] = True
    is_used[0] = False
    table = np.where(is_used, np.cumsum(is_used), 0).astype(np.int32)
    return np.flatnonzero(is_used).astype(np.uint64), table[labels]


def _find_touching(wide: LabelImage, inner: Slices) -> NDArray[np.uint64]:
    """(p, 2) labels on the two sides of a face in or around `inner`, the smaller one first."""
    keys = []
    for axis in range(wide.ndim):
        lines = wide[tuple(slice(None) if a == axis else s for a, s in enumerate(inner))]
        a, b = np.moveaxis(lines, axis, 0)[:-1], np.moveaxis(lines, axis, 0)[1:]
        border = (a != b) & (a > 0) & (b > 0)
        a, b = a[border].astype(np.uint64), b[border].astype(np.uint64)
        keys.append((np.minimum(a, b) << np.uint64(32)) | np.maximum(a, b))
    key = np.unique(np.concatenate(keys))
    return np.stack((key >> np.uint64(32), key & np.uint64(0xFFFFFFFF)), axis=1)


def _list_neighbours(labels: NDArray[np.integer], pairs: NDArray[np.integer]) -> NDArray[Any]:
    """(k,) text with the labels that each label touches."""
    both = np.unique(np.concatenate((pairs, pairs[:, ::-1])), axis=0)
    split = np.split(both[:, 1], np.searchsorted(both[:, 0], labels[1:])) if len(labels) else []
    return np.array([" ".join(map(str, neighbours)) for neighbours in split], dtype=object)


def _column_header(name: str, unit: str, power: int = 1) -> str:
    """Write the header of a column with its unit, if there is one, as in "area (µm²)"."""
    return f"{name} ({unit}{POWERS[power]})" if unit else name


def _name_channels(count: int, rgb: bool, names: Sequence[str] = ()) -> list[str]:
    """Name the channels in column headers: an underscore and a name, or nothing if there is one channel.

    >>> _name_channels(1, False), _name_channels(2, False), _name_channels(2, False, ["DAPI", "GFP"])
    ([''], ['_1', '_2'], ['_DAPI', '_GFP'])
    """
    if len(set(names)) == count == len(names):
        return [f"_{name}" for name in names]
    if rgb and count >= 3:
        return [f"_{name}" for name in COLOURS[:count]]
    return [""] if count == 1 else [f"_{c + 1}" for c in range(count)]


def _make_reader(image: Any, axes: str, shape: tuple[int, ...]) -> tuple[Reader, str, bool]:
    """Return a reader of an image, the letters of its space, and whether its channels are RGB."""
    if lazy.is_lazy(image):
        opened = lazy.open_lazy_image(image, axes)
        letters, space = opened.axes, opened.shape

        def read(where: Slices) -> NDArray[Any]:
            slices = dict(zip((a for a in letters if a in "ZYX"), where, strict=True))
            index = tuple(slices.get(a, slice(None) if a in "CS" else 0) for a in opened.letters)
            return channels_last(lazy.read(opened.array, index), letters)  # type: ignore[arg-type]
    else:
        array = np.asarray(image)
        letters = (guess_axes(array) if axes == "auto" else axes).upper()
        if len(letters) != array.ndim:
            raise InputError(f"axes must have {array.ndim} letters for an image of shape {array.shape}, not {axes!r}")
        pixels = channels_last(array, letters)
        space = pixels.shape[:-1]

        def read(where: Slices) -> NDArray[Any]:
            return pixels[where]

    if space != shape:
        raise InputError(f"labels of shape {shape} do not lie on an image of shape {space}")
    return read, "".join(a for a in letters if a in "ZYX"), "S" in letters


def _measure_whole_regions(labels: LabelImage, pixels: Int64Array, read: Reader | None, steps: Float64Array) -> Columns:
    """Measure what needs all pixels of a label at once: medians, and outlines by scikit-image."""
    rows = _index_labels(labels)[1]
    is_square = rows.ndim == 2 and np.isclose(steps[0], steps[1])
    properties = (*(["perimeter"] if is_square else []), *([] if read is None else ["intensity_median"]))
    values = None if read is None else read(tuple(slice(0, n) for n in labels.shape))
    with np.errstate(invalid="ignore"):  # infinite values around a label
        table: Columns = measure.regionprops_table(rows, values, properties, extra_properties=(_count_hull_pixels,))
    table["solidity"] = pixels / table.pop("_count_hull_pixels")
    return table


def _count_hull_pixels(image: NDArray[np.bool_]) -> float:
    """Count the pixels of the convex hull; NaN for a volume that is too large, or flat and has no hull."""
    from skimage.morphology import convex_hull_image  # slow to import, and few need it

    if image.ndim == 3:
        voxels = np.argwhere(image)
        if image.size > MAX_HULL_VOXELS or np.linalg.matrix_rank(voxels - voxels[0]) < 3:
            return np.nan
    return float(np.count_nonzero(convex_hull_image(image)))


def _position_columns(sums: _LabelSums, axes: str, steps: Float64Array, unit: str, pixels: int) -> Columns:
    """Label, size, centroid and bounding box."""
    size = _column_header("area" if len(axes) == 2 else "volume", unit, len(axes))
    table: Columns = {
        "index": sums.labels.astype(np.int64),
        "pixels": sums.pixels,
        size: sums.pixels * float(np.prod(steps)),
        "share (%)": 100 * sums.pixels / pixels,
    }
    centroid = sums.first / sums.pixels[:, np.newaxis] * steps
    table |= {_column_header(f"centroid_{axis}", unit): centroid[:, a] for a, axis in enumerate(axes)}
    for name, corner in (("first", sums.low), ("end", sums.high)):
        table |= {f"{name}_{axis}": corner[:, a] for a, axis in enumerate(axes)}
    return table


def _value_columns(sums: _LabelSums, shift: Float64Array, whole: Columns, names: Sequence[str]) -> Columns:
    """Mean, median and standard deviation of every channel."""
    size = sums.pixels[:, np.newaxis]
    mean = sums.values / size
    deviation = np.sqrt(np.maximum(sums.squares / size - mean**2, 0.0))
    table: Columns = {}
    for c, name in enumerate(names):
        table[f"mean{name}"] = mean[:, c] + shift[c]
        if f"intensity_median-{c}" in whole:
            table[f"median{name}"] = whole[f"intensity_median-{c}"]
        table[f"sd{name}"] = deviation[:, c]
    return table


def _shape_columns(sums: _LabelSums, whole: Columns, steps: Float64Array, unit: str) -> Columns:
    """Axes of the ellipse or ellipsoid with the same variances, eccentricity; perimeter and solidity if in memory."""
    k, d = sums.first.shape
    mean = sums.first / sums.pixels[:, np.newaxis]
    covariance = np.empty((k, d, d))
    for column, (a, b) in enumerate(combinations_with_replacement(range(d), 2)):
        moment = sums.second[:, column] / sums.pixels - mean[:, a] * mean[:, b]
        covariance[:, a, b] = covariance[:, b, a] = moment * steps[a] * steps[b]
    variance = np.maximum(np.linalg.eigvalsh(covariance), 0.0)
    smallest, largest = variance[:, 0], variance[:, -1]
    factor = 16.0 if d == 2 else 20.0
    table: Columns = {
        _column_header("major_axis", unit): np.sqrt(factor * largest),
        _column_header("minor_axis", unit): np.sqrt(factor * smallest),
    }
    if d == 2:
        ratio = np.divide(smallest, largest, out=np.ones(k), where=largest > 0)
        table["eccentricity"] = np.sqrt(1 - ratio)
    if "perimeter" in whole:
        table[_column_header("perimeter", unit)] = whole["perimeter"] * steps[0]
    if "solidity" in whole:
        table["solidity"] = whole["solidity"]
    return table


class Overlap(NamedTuple):
    """Number of pixels that sites and labels have in common, for every pair that has any."""

    site: Int64Array  # (pairs,) from 0
    row: Int64Array  # (pairs,) table row of the label, from 0
    pixels: Int64Array  # (pairs,)
    row_of_site: Int64Array  # (n,) row of the label that has most of a site, -1 for none


def count_overlap(problem: Problem, sites: SiteImage, labels: Any, index: Int64Array) -> Overlap:
    """Count the pixels that sites share with a label image, in memory or lazy, whose labels are `index` (k,)."""
    site, label, count = count_site_values(sites, problem.n, lambda where: lazy.read(labels, where))
    row = np.searchsorted(index, label)
    inside = np.bincount(site, count, problem.n)
    outside = np.zeros(problem.n) if problem.graph is None else problem.graph.pixels - inside
    largest = np.zeros(problem.n)
    np.maximum.at(largest, site, count)
    row_of_site = np.full(problem.n, -1)
    order = np.argsort(count, kind="stable")  # the label of most pixels is written last
    row_of_site[site[order]] = row[order]
    row_of_site[outside > largest] = -1
    return Overlap(site, row, count, row_of_site)


def measure_stability(
    problem: Problem, together: Float64Array, clusters: Int64Array, row_of_site: Int64Array, k: int
) -> Float64Array:
    """(k,) probability that a boundary in or around a label is as shown, averaged by length; NaN if unknown.

    Inside, the two sites of an edge should be together; at the border, apart. The chain knows nothing of a border
    between two labels of one cluster, which were split by their shape: these edges do not count.
    """
    ends = row_of_site[problem.edges]
    length = np.ones(len(ends)) if problem.graph is None else problem.graph.length
    inside = ends[:, 0] == ends[:, 1]
    apart = clusters[problem.edges[:, 0]] != clusters[problem.edges[:, 1]]
    as_shown = np.where(inside, together, 1 - together)
    total, weight = np.zeros(k), np.zeros(k)
    for end in ends.T:
        counted = (inside | apart) & (end >= 0)
        weight += np.bincount(end[counted], length[counted], k)
        total += np.bincount(end[counted], (length * as_shown)[counted], k)
    return np.asarray(np.divide(total, weight, out=np.full(k, np.nan), where=weight > 0))


def object_probability(draws: Int32Array, overlap: Overlap, k: int) -> Float64Array:
    """(k,) share of the draws (d, n) in which one cluster holds nearly all pixels of a label; NaN without draws."""
    size = np.bincount(overlap.row, overlap.pixels, k)
    count = np.zeros(k)
    for draw in draws:
        n_clusters = int(draw.max()) + 1
        key, index = np.unique(overlap.row * n_clusters + draw[overlap.site], return_inverse=True)
        largest = np.zeros(k)
        np.maximum.at(largest, key // n_clusters, np.bincount(index, overlap.pixels, len(key)))
        count += largest >= OBJECT_SHARE * size
    return np.where((size > 0) & (len(draws) > 0), count / max(len(draws), 1), np.nan)


def find_likeliest_partner(
    problem: Problem, same_object: Float64Array, overlap: Overlap, k: int
) -> tuple[Int64Array, Float64Array]:
    """Find with which touching label each label is most probably one object.

    Returns the table row (k,) of that label, -1 for none, and the probability (k,), 0 for none.
    """
    ends = overlap.row_of_site[problem.edges]
    between = (ends >= 0).all(axis=1) & (ends[:, 0] != ends[:, 1])
    pairs, probability = np.concatenate((ends[between], ends[between, ::-1])), np.tile(same_object[between], 2)
    order = np.argsort(probability, kind="stable")  # the most probable is written last
    partner, largest = np.full(k, -1), np.zeros(k)
    partner[pairs[order, 0]], largest[pairs[order, 0]] = pairs[order, 1], probability[order]
    return partner, largest


def find_commonest(values: Int64Array, overlap: Overlap, k: int) -> Int64Array:
    """(k,) value that most pixels of a label have, of values (n,) >= 0 of the sites; 0 for a label without sites."""
    n_values = int(values.max(initial=0)) + 1
    key, index = np.unique(overlap.row * n_values + values[overlap.site], return_inverse=True)
    order = np.argsort(np.bincount(index, overlap.pixels, len(key)), kind="stable")
    result = np.zeros(k, np.int64)
    result[key[order] // n_values] = key[order] % n_values
    return result


def _certainty_columns(
    labels: Any, summary: Summary, sites: SiteImage, clusters: Int64Array | None, index: Int64Array
) -> Columns:
    """Sites, cluster, and how certain the posterior is."""
    problem, k = summary.problem, len(index)
    overlap = count_overlap(problem, sites, labels, index)
    row, probability = overlap.row_of_site, object_probability(summary.draws, overlap, k)
    clusters = summary.clusters if clusters is None else clusters
    n_sites = np.bincount(row[row >= 0], minlength=k)
    partner_columns: Columns = {}
    if problem.has_fragments:
        probability = np.where(n_sites > 1, calibrate(probability), probability)
        partner, share = find_likeliest_partner(problem, summary.same_object_probability, overlap, k)
        partner_columns = {
            "one_with": np.where(partner >= 0, index[partner], 0),
            "one_with_probability": np.where(partner >= 0, calibrate(share), 0),
        }
    return {
        "sites": n_sites,
        "cluster": find_commonest(clusters, overlap, k),
        "stability": measure_stability(problem, summary.snapshot.together, clusters, row, k),
        "one_object": probability,
        **partner_columns,
        "locked": np.bincount(row[(row >= 0) & (summary.seeds >= 0)], minlength=k),
    }
