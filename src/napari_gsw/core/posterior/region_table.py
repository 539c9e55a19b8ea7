"""Tables with one row for each label of a segmentation: size, shape, pixel values and certainty."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from skimage import measure

from napari_gsw.core.array_types import Float64Array, Int64Array
from napari_gsw.core.errors import InputError
from napari_gsw.core.image import lazy
from napari_gsw.core.image.block_grid import Grid, Slices, crop
from napari_gsw.core.image.normalized_image import channels_last, guess_axes
from napari_gsw.core.model.problem import Problem, boundary_length, site_pixels, touching_edges
from napari_gsw.core.posterior.objects import calibrate
from napari_gsw.core.posterior.summary import Summary
from napari_gsw.core.sites.blocked_labels import SiteImage, count_site_values
from napari_gsw.core.sites.site_values import touching_pairs
from napari_gsw.core.special import number_labels, sum_by_group

Columns = dict[str, NDArray[Any]]
# Reads the pixels (\*tile, channels) of an image.
Reader = Callable[[Slices], NDArray[Any]]

# The convex hull of a volume tests every voxel of its box, which would take minutes for larger boxes.
MAX_HULL_VOXELS = 1 << 17
# A label is one object in a draw if one cluster holds this share of its pixels.
OBJECT_SHARE = 0.9
POWERS = {1: "", 2: "²", 3: "³"}
COLOURS = ("red", "green", "blue", "alpha")


def measure_regions(
    problem: Problem,
    labels: NDArray[np.integer],
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
    k, pixels = len(index), site_pixels(problem)
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
    ends = labels[problem.edges[touching_edges(problem)]]
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
    d = len(shape)
    if d not in (2, 3) or np.dtype(labels.dtype).kind not in "ui":
        raise InputError(f"labels must be whole numbers in 2 or 3 dimensions, not {labels.dtype} of shape {shape}")
    steps = np.abs(np.ones(d) if scale is None else np.asarray(scale, dtype=np.float64))
    if steps.shape != (d,) or not np.isfinite(steps).all() or not steps.all():
        raise InputError(f"scale must be {d} numbers other than 0, not {scale!r}")
    read, space, rgb = (None, "ZYX"[-d:], False) if image is None else _make_reader(image, axes, shape)
    chunks = lazy.get_chunk_shape(labels) if lazy.is_lazy(labels) else shape
    grid = Grid(tuple((*range(0, n, step), n) for n, step in zip(shape, chunks, strict=True)))
    shift = np.zeros(0)
    if read is not None:
        centre = read(grid.slices(tuple(count // 2 for count in grid.counts)))
        means = centre.reshape(-1, centre.shape[-1]).mean(axis=0, dtype=np.float64)
        shift = np.nan_to_num(means, posinf=0.0, neginf=0.0)
    index, sums, low, high, pairs = _sum_labels(labels, grid, read, shift)
    pixels = sums[:, :1]
    whole = {} if lazy.is_lazy(labels) else _measure_whole_regions(np.asarray(labels), pixels[:, 0], read, steps)
    n_pairs, c = d * (d + 1) // 2, len(shift)
    centroid, second, mean, squares = np.split(sums[:, 1:] / pixels, np.cumsum([d, n_pairs, c]), axis=1)

    def with_unit(name: str, power: int = 1) -> str:
        return f"{name} ({unit}{POWERS[power]})" if unit else name

    table: Columns = {
        "index": index.astype(np.int64),
        "pixels": pixels[:, 0].astype(np.int64),
        with_unit("area" if d == 2 else "volume", d): pixels[:, 0] * float(np.prod(steps)),
        "share (%)": 100 * pixels[:, 0] / int(np.prod(shape)),
    }
    table |= {with_unit(f"centroid_{axis}"): centroid[:, a] * steps[a] for a, axis in enumerate(space.lower())}
    for name, corner in (("first", low), ("end", high)):
        table |= {f"{name}_{axis}": corner[:, a] for a, axis in enumerate(space.lower())}
    for channel, name in enumerate(_name_channels(c, rgb, names)):
        table[f"mean{name}"] = mean[:, channel] + shift[channel]
        if f"intensity_median-{channel}" in whole:
            table[f"median{name}"] = whole[f"intensity_median-{channel}"]
        table[f"sd{name}"] = np.sqrt(np.maximum(squares[:, channel] - mean[:, channel] ** 2, 0.0))
    # The ellipse or ellipsoid with the same variances.
    covariance = np.empty((len(index), d, d))
    for column, (a, b) in enumerate(combinations_with_replacement(range(d), 2)):
        moment = second[:, column] - centroid[:, a] * centroid[:, b]
        covariance[:, a, b] = covariance[:, b, a] = moment * steps[a] * steps[b]
    variance = np.maximum(np.linalg.eigvalsh(covariance), 0.0)
    smallest, largest = variance[:, 0], variance[:, -1]
    factor = 16.0 if d == 2 else 20.0
    table[with_unit("major_axis")] = np.sqrt(factor * largest)
    table[with_unit("minor_axis")] = np.sqrt(factor * smallest)
    if d == 2:
        table["eccentricity"] = np.sqrt(1 - np.divide(smallest, largest, out=np.ones(len(index)), where=largest > 0))
    if "perimeter" in whole:
        table[with_unit("perimeter")] = whole["perimeter"] * steps[0]
    if "solidity" in whole:
        table["solidity"] = whole["solidity"]
    if summary is not None and summary.problem.sites is not None:
        sites = summary.problem.sites if sites is None else sites
        table |= _certainty_columns(labels, summary, sites, clusters, table["index"])
    table["neighbours"] = _list_neighbours(index, pairs)
    return table


class _LabelSums(NamedTuple):
    """Sums over the pixels of k labels in d dimensions."""

    labels: Int64Array  # (k,) ascending
    # (k, columns) pixels, coordinates, their d (d + 1) / 2 products, values less a shift of each channel, their squares
    sums: Float64Array
    low: Int64Array  # (k, d) first pixel of the bounding box
    high: Int64Array  # (k, d) one after its last pixel
    pairs: Int64Array  # (p, 2) labels that touch, the smaller one first


def _sum_labels(labels: Any, grid: Grid, read: Reader | None, shift: Float64Array) -> _LabelSums:
    """Sum over the pixels of each label; `shift` is about the mean of each channel, so that squares lose no digits."""
    jobs = [(labels, read, shift, grid.slices(i, 1), grid.slices(i)) for i in grid]
    if len(jobs) == 1:
        return _sum_tile(*jobs[0])
    tiles = lazy.map_blocks(_sum_tile, jobs, lambda done: None)
    joined = _LabelSums(*(np.concatenate(arrays) for arrays in zip(*tiles, strict=True)))
    index, row = np.unique(joined.labels, return_inverse=True)
    low = np.full((len(index), joined.low.shape[1]), np.iinfo(np.int64).max)
    high = np.zeros_like(low)
    np.minimum.at(low, row, joined.low)
    np.maximum.at(high, row, joined.high)
    return _LabelSums(index, sum_by_group(joined.sums, row, len(index)), low, high, np.unique(joined.pairs, axis=0))


def _sum_tile(labels: Any, read: Reader | None, shift: Float64Array, around: Slices, inside: Slices) -> _LabelSums:
    """Sum over one tile; `around` has one more pixel on each side, for the pairs across the border of the tile."""
    from scipy import ndimage

    wide = lazy.read(labels, around)
    index, rows = number_labels(np.concatenate(([0], wide.ravel().astype(np.int64))))
    wide_rows = rows[1:].reshape(wide.shape).astype(np.int32)
    pairs = index[touching_pairs(wide_rows)[0] + 1]
    tile = wide_rows[crop(around, inside)]
    k, d = len(index) - 1, tile.ndim
    mask = tile > 0
    row = tile[mask] - 1
    coordinates = [
        np.broadcast_to(coordinate.astype(np.float64), tile.shape)[mask] for coordinate in np.ogrid[tuple(inside)]
    ]
    channels = [] if read is None else list((read(inside)[mask].astype(np.float64) - shift).T)
    columns = [
        np.ones(len(row)),
        *coordinates,
        *(coordinates[a] * coordinates[b] for a, b in combinations_with_replacement(range(d), 2)),
        *channels,
        *(channel**2 for channel in channels),
    ]
    sums = np.stack([np.bincount(row, column, k) for column in columns], axis=1).astype(np.float64)
    here = np.flatnonzero(sums[:, 0])  # others are only beyond the border
    boxes = [[(axis.start, axis.stop) for axis in box] for box in ndimage.find_objects(tile, k) if box is not None]
    corners = np.array(boxes, np.int64).reshape(-1, d, 2) + np.array([axis.start for axis in inside])[:, np.newaxis]
    return _LabelSums(index[1:][here], sums[here], corners[..., 0], corners[..., 1], pairs)


def _list_neighbours(labels: NDArray[np.integer], pairs: NDArray[np.integer]) -> NDArray[Any]:
    """(k,) text with the labels that each label touches."""
    both = np.unique(np.concatenate((pairs, pairs[:, ::-1])), axis=0)
    split = np.split(both[:, 1], np.searchsorted(both[:, 0], labels[1:])) if len(labels) else []
    return np.array([" ".join(map(str, neighbours)) for neighbours in split], dtype=object)


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


def _measure_whole_regions(
    labels: NDArray[np.integer], pixels: Float64Array, read: Reader | None, steps: Float64Array
) -> Columns:
    """Measure what needs all pixels of a label at once: medians, and outlines by scikit-image."""
    numbers = number_labels(np.concatenate(([0], labels.ravel().astype(np.int64))))[1]
    is_square = labels.ndim == 2 and np.isclose(steps[0], steps[1])
    properties = (*(["perimeter"] if is_square else []), *([] if read is None else ["intensity_median"]))
    values = None if read is None else read(tuple(slice(0, n) for n in labels.shape))
    with np.errstate(invalid="ignore"):  # infinite values around a label
        table: Columns = measure.regionprops_table(
            numbers[1:].reshape(labels.shape), values, properties, extra_properties=(_count_hull_pixels,)
        )
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


# ---- certainty


def _certainty_columns(
    labels: Any, summary: Summary, sites: SiteImage, clusters: Int64Array | None, index: Int64Array
) -> Columns:
    """Sites, cluster, and how certain the posterior is, of the labels `index` (k,) of an image in memory or lazy."""
    problem, k = summary.problem, len(index)
    site, label, count = count_site_values(sites, problem.n, lambda where: lazy.read(labels, where))
    overlap = np.searchsorted(index, label), site, count
    # The label of most of a site, if there is more of it than of no label.
    row, most = _find_commonest((site, overlap[0], count), problem.n)
    rest = np.zeros(problem.n) if problem.graph is None else problem.graph.pixels - np.bincount(site, count, problem.n)
    row[rest > most] = -1
    n_sites = np.bincount(row[row >= 0], minlength=k)
    # In which share of the draws does one cluster hold nearly all pixels of a label?
    size, probability = np.bincount(overlap[0], count, k), np.zeros(k)
    for draw in summary.draws:
        probability += _find_commonest((overlap[0], draw[site], count), k)[1] >= OBJECT_SHARE * size
    n_draws = len(summary.draws)
    probability = np.where((size > 0) & (n_draws > 0), probability / max(n_draws, 1), np.nan)
    clusters = summary.clusters if clusters is None else clusters
    partner_columns: Columns = {}
    if problem.has_fragments:
        probability = np.where(n_sites > 1, calibrate(probability), probability)
        partner, share = find_likeliest_partner(problem, summary.same_object_probability, row, k)
        partner_columns = {
            "one_with": np.where(partner >= 0, index[partner], 0),
            "one_with_probability": np.where(partner >= 0, calibrate(share), 0),
        }
    return {
        "sites": n_sites,
        "cluster": np.maximum(_find_commonest((overlap[0], clusters[site], count), k)[0], 0),
        "stability": measure_stability(problem, summary.snapshot.together, clusters, row, k),
        "one_object": probability,
        **partner_columns,
        "locked": np.bincount(row[(row >= 0) & (summary.seeds >= 0)], minlength=k),
    }


def _find_commonest(
    pairs: tuple[Int64Array, NDArray[np.integer], Int64Array], k: int
) -> tuple[Int64Array, Float64Array]:
    """Find the value with which each group (k,) has most pixels, -1 for none, and their number.

    `pairs` are groups, values >= 0 and pixels. Of values with equally many pixels it is the largest.
    """
    group, value, pixels = pairs
    n_values = int(value.max(initial=0)) + 1
    key, index = np.unique(group * n_values + value, return_inverse=True)
    total = np.bincount(index, pixels, len(key))
    order = np.argsort(total, kind="stable")  # what has most pixels is written last
    commonest, largest = np.full(k, -1), np.zeros(k)
    commonest[key[order] // n_values], largest[key[order] // n_values] = key[order] % n_values, total[order]
    return commonest, largest


def measure_stability(
    problem: Problem, together: Float64Array, clusters: Int64Array, row_of_site: Int64Array, k: int
) -> Float64Array:
    """(k,) probability that a boundary in or around a label is as shown, averaged by length; NaN if unknown.

    Inside, the two sites of an edge should be together; at the border, apart. The chain knows nothing of a border
    between two labels of one cluster, which were split by their shape: these edges do not count.
    """
    ends, length = row_of_site[problem.edges], boundary_length(problem)
    inside = ends[:, 0] == ends[:, 1]
    apart = clusters[problem.edges[:, 0]] != clusters[problem.edges[:, 1]]
    as_shown = np.where(inside, together, 1 - together)
    total, weight = np.zeros(k), np.zeros(k)
    for end in ends.T:
        counted = (inside | apart) & (end >= 0)
        weight += np.bincount(end[counted], length[counted], k)
        total += np.bincount(end[counted], (length * as_shown)[counted], k)
    return np.asarray(np.divide(total, weight, out=np.full(k, np.nan), where=weight > 0))


def find_likeliest_partner(
    problem: Problem, same_object: Float64Array, row_of_site: Int64Array, k: int
) -> tuple[Int64Array, Float64Array]:
    """Find with which touching label each label is most probably one object.

    Returns the table row (k,) of that label, -1 for none, and the probability (k,), 0 for none. `row_of_site` (n,) is
    -1 for a site without a label.
    """
    ends = row_of_site[problem.edges]
    between = (ends >= 0).all(axis=1) & (ends[:, 0] != ends[:, 1])
    pairs, probability = np.concatenate((ends[between], ends[between, ::-1])), np.tile(same_object[between], 2)
    order = np.argsort(probability, kind="stable")  # the most probable is written last
    partner, largest = np.full(k, -1), np.zeros(k)
    partner[pairs[order, 0]], largest[pairs[order, 0]] = pairs[order, 1], probability[order]
    return partner, largest
