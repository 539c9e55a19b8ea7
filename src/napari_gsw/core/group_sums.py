"""Sums over groups of rows: the pixels of a site, the sites of a cluster, the pieces of a site that blocks have cut."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.arrays import Floats


def group_sums(values: NDArray[Any], group: NDArray[np.integer], count: int) -> Floats:
    """(count, C) or (count,) sums of values (k, C) or (k,), whose rows belong to groups (k,) 0, 1, ...

    >>> group_sums(np.array([[1.0, 10.0], [2.0, 20.0], [4.0, 40.0]]), np.array([1, 0, 1]), 3).tolist()
    [[2.0, 20.0], [5.0, 50.0], [0.0, 0.0]]
    """
    if values.ndim == 1:
        return np.bincount(group, values, count).astype(np.float64)
    sums = np.zeros((count, values.shape[1]))
    for c, column in enumerate(values.T):
        sums[:, c] = np.bincount(group, column, count)
    return sums
