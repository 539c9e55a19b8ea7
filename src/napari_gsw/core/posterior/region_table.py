"""What there is to say about each region of a segmentation, as a table."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.arrays import Floats
from napari_gsw.core.model.problem import Problem

Columns = dict[str, NDArray[Any]]


def region_table(
    problem: Problem,
    numbers: NDArray[np.integer],
    pixels: NDArray[np.number],
    together: Floats,
    means: Floats,
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
