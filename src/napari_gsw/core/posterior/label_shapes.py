"""The shape of each label: axes and eccentricity from its moments, perimeter and solidity from its pixels."""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray
from skimage import measure

from napari_gsw.core.arrays import Floats, Longs
from napari_gsw.core.posterior.label_sums import LabelSums

# The convex hull of a volume is asked of every voxel of its box: of larger boxes it would take minutes.
MOST_HULL = 1 << 17


def spreads(sums: LabelSums, scale: Floats) -> Floats:
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


def axis_lengths(variance: Floats) -> tuple[Floats, Floats]:
    """(k,) lengths of the longest and the shortest axis of an ellipse or ellipsoid with the same variances (k, d)."""
    factor = 16.0 if variance.shape[1] == 2 else 20.0
    return np.sqrt(factor * variance[:, 0]), np.sqrt(factor * variance[:, -1])


def eccentricity(variance: Floats) -> Floats:
    """(k,) eccentricity of the ellipse with the same variances (k, 2): 0 for a disc, near 1 for a line."""
    most, least = variance[:, 0], variance[:, 1]
    ratio: Floats = np.divide(least, most, out=np.ones_like(most), where=most > 0)
    return np.sqrt(1 - ratio)


def outlines(rows: NDArray[np.int32], pixels: Longs, scale: Floats) -> tuple[Floats | None, Floats]:
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
        if rows.ndim == 2 or (image.size <= MOST_HULL and _is_solid(image)):
            solidity[row] = pixels[row] / np.count_nonzero(convex_hull_image(image))
    return perimeter if square else None, solidity


def _is_solid(image: NDArray[np.bool_]) -> bool:
    """Whether the voxels of a volume do not all lie in one plane, so that there is a hull."""
    places = np.argwhere(image)
    return int(np.linalg.matrix_rank(places - places[0])) == image.ndim


def medians(rows: NDArray[np.int32], values: NDArray[np.generic], pixels: Longs) -> Floats:
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
