"""One row for each label of an image: size, place, values, shape, and how sure the posterior is of it.

It is the table of what is shown and exported, whatever the view: clusters, regions or objects. Pictures in memory have
all columns; of lazy ones everything that block-wise sums can tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.arrays import Floats, Longs
from napari_gsw.core.errors import InputError
from napari_gsw.core.image.block_grid import Slices
from napari_gsw.core.image.lazy import is_lazy, read
from napari_gsw.core.image.lazy_image import open_lazy
from napari_gsw.core.image.picture import channels_last, guess_axes
from napari_gsw.core.posterior.colouring import right_as_often
from napari_gsw.core.posterior.label_certainty import commonest, joined, one_object, overlap, stability
from napari_gsw.core.posterior.label_shapes import axis_lengths, eccentricity, medians, outlines, spreads
from napari_gsw.core.posterior.label_sums import LabelSums, Reader, label_sums, numbered_rows, tiles_of_labels
from napari_gsw.core.posterior.region_table import Columns
from napari_gsw.core.posterior.summary import Summary
from napari_gsw.core.sites.mosaic import SiteImage

POWERS = {1: "", 2: "²", 3: "³"}
COLOURS = ("red", "green", "blue")


def measured(
    labels: Any,
    image: Any = None,
    axes: str = "auto",
    summary: Summary | None = None,
    *,
    sites: SiteImage | None = None,
    clusters: Longs | None = None,
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
    values, letters, rgb = (None, "ZYX"[-len(shape) :], False) if image is None else reader_of(image, axes, shape)
    channels = 0 if values is None else values(tuple(slice(0, 1) for _ in shape)).shape[-1]
    shift = np.zeros(channels)
    if values is not None:
        grid = tiles_of_labels(labels)
        middle = grid.inside(tuple(count // 2 for count in grid.counts))
        shift = np.nan_to_num(
            values(middle).reshape(-1, channels).mean(axis=0, dtype=np.float64), posinf=0.0, neginf=0.0
        )
    sums = label_sums(labels, values, shift)
    table = _places(sums, letters.lower(), steps, unit, int(np.prod(shape)))
    middles = None
    rows = None if is_lazy(labels) else numbered_rows(np.asarray(labels))[1]
    if values is not None:
        if rows is not None:
            middles = medians(rows, values(tuple(slice(0, n) for n in shape)), sums.pixels)
        table |= _values(sums, shift, middles, channel_names(channels, rgb, names))
    table |= _shapes(sums, rows, steps, unit)
    if summary is not None and summary.problem.sites is not None:
        under = summary.problem.sites if sites is None else sites
        table |= _certainty(labels, summary, under, clusters, table["index"])
    table["neighbours"] = _neighbours(sums)
    return table


def header(name: str, unit: str, power: int = 1) -> str:
    """The head of a column with its unit, if there is one.

    >>> header("area", "µm", 2), header("area", "", 2)
    ('area (µm²)', 'area')
    """
    return f"{name} ({unit}{POWERS[power]})" if unit else name


def channel_names(count: int, rgb: bool, names: Sequence[str] = ()) -> list[str]:
    """Names of the channels as columns have them, with an underscore before each; of one channel none is needed.

    >>> channel_names(1, False), channel_names(2, False), channel_names(2, False, ["DAPI", "GFP"])
    ([''], ['_1', '_2'], ['_DAPI', '_GFP'])
    """
    if len(names) == count:
        return [f"_{name}" for name in names] if len(set(names)) == count else channel_names(count, rgb)
    if rgb and count >= len(COLOURS):
        return [f"_{name}" for name in (*COLOURS, "alpha")[:count]]
    return [""] if count == 1 else [f"_{c + 1}" for c in range(count)]


def reader_of(image: Any, axes: str, shape: tuple[int, ...]) -> tuple[Reader, str, bool]:
    """What reads (\\*tile, channels) of an image, the letters of its space, and whether its channels are RGB."""
    if is_lazy(image):
        opened = open_lazy(image, axes)
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


def _places(sums: LabelSums, axes: str, steps: Floats, unit: str, pixels: int) -> Columns:
    """Number, size, centroid and box."""
    area = "area" if len(axes) == 2 else "volume"
    table: Columns = {
        "index": sums.numbers.astype(np.int64),
        "pixels": sums.pixels,
        header(area, unit, len(axes)): sums.pixels * float(np.prod(steps)),
        "share (%)": 100 * sums.pixels / pixels,
    }
    centre = sums.first / sums.pixels[:, np.newaxis] * steps
    for a, letter in enumerate(axes):
        table[header(f"centroid_{letter}", unit)] = centre[:, a]
    for end, place in (("first", sums.low), ("end", sums.high)):
        for a, letter in enumerate(axes):
            table[f"{end}_{letter}"] = place[:, a]
    return table


def _values(sums: LabelSums, shift: Floats, middles: Floats | None, names: Sequence[str]) -> Columns:
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


def _shapes(sums: LabelSums, rows: NDArray[np.int32] | None, steps: Floats, unit: str) -> Columns:
    """Axes and eccentricity; perimeter and solidity of what is in memory."""
    variance = spreads(sums, steps)
    table: Columns = dict(
        zip((header("major_axis", unit), header("minor_axis", unit)), axis_lengths(variance), strict=True)
    )
    if variance.shape[1] == 2:
        table["eccentricity"] = eccentricity(variance)
    if rows is not None:
        perimeter, solidity = outlines(rows, sums.pixels, steps)
        if perimeter is not None:
            table[header("perimeter", unit)] = perimeter
        table["solidity"] = solidity
    return table


def _certainty(labels: Any, summary: Summary, sites: SiteImage, clusters: Longs | None, index: Longs) -> Columns:
    """Sites, cluster, and how sure the posterior is."""
    problem, k = summary.problem, len(index)
    common = overlap(problem, sites, labels, index)
    numbers = summary.clusters if clusters is None else clusters
    held = (common.of_site >= 0) & (summary.seeds >= 0)
    one_with: Columns = {}
    count = np.bincount(common.of_site[common.of_site >= 0], minlength=k)
    one = one_object(summary.draws, common, k)
    if problem.coloured:
        one = np.where(count > 1, right_as_often(one), one)
        other, share = joined(problem, summary.same_colour, common, k)
        share = np.where(other >= 0, right_as_often(share), 0)
        one_with = {"one_with": np.where(other >= 0, index[other], 0), "one_with_probability": share}
    return {
        "sites": count,
        "cluster": commonest(numbers, common, k),
        "stability": stability(problem, summary.snapshot.together, numbers, common, k),
        "one_object": one,
        **one_with,
        "locked": np.bincount(common.of_site[held], minlength=k),
    }


def _neighbours(sums: LabelSums) -> NDArray[Any]:
    """(k,) the labels that touch each label, as text."""
    both = np.concatenate((sums.pairs, sums.pairs[:, ::-1]))
    both = both[np.lexsort((both[:, 1], both[:, 0]))]
    split = np.split(both[:, 1], np.searchsorted(both[:, 0], sums.numbers[1:])) if len(sums.numbers) else []
    return np.array([" ".join(map(str, row)) for row in split], dtype=object)
