"""Special functions of the model, sums by group, and numbers of labels.

Stored results depend on the last digit of these functions, which differs from that of scipy's.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from napari_gsw.core.array_types import Float64Array

# From here on Stirling's series is right to the last digit.
FAR = 12
# Its coefficients: Bernoulli's numbers B_2k over 2k (2k - 1).
STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
HALF_LOG_2_PI = 0.5 * math.log(2 * math.pi)
# From here on the rising factorial is a series; below, it is a difference that is right to 1e-10.
LARGE = 2.0**15
# Labels are looked up in a table as long as this or as there are entries, whichever is more; others are sorted.
MAX_LOOKUP = 2**16


def log_gamma(x: ArrayLike) -> Float64Array:
    """Compute log Gamma(x) for x > 0 by Stirling's series; exactly 0 at 1 and 2.

    Small x are moved to where the series converges: Gamma(x + k) = x (x + 1) ... (x + k - 1) Gamma(x).

    Examples
    --------
    >>> [round(float(value), 12) for value in log_gamma([1, 2, 5])]  # the last one is log 24
    [0.0, 0.0, 3.178053830348]
    """
    values = np.atleast_1d(np.asarray(x, np.float64))
    near = values < FAR
    few = values[near]
    product = np.ones_like(few)
    for k in range(FAR):
        product *= few + k
    far = values.copy()
    far[near] = few + FAR
    with np.errstate(all="ignore"):
        inverse = 1 / far
        square = inverse * inverse
        series = np.full_like(far, STIRLING[-1])
        for factor in STIRLING[-2::-1]:
            series = series * square + factor
        result = (far - 0.5) * np.log(far) - far + HALF_LOG_2_PI + inverse * series
        result[near] -= np.log(product)
    result[(values == 1) | (values == 2)] = 0.0
    result[np.isposinf(values)] = np.inf
    return result.reshape(np.shape(x))


def log_rising_factorial(a: ArrayLike, m: ArrayLike) -> Float64Array:
    """Compute log Gamma(a + m) - log Gamma(a) for a > 0, m >= 0, without cancellation.

    The subtraction would leave two decimals for a = 1e12. For large a, the terms of both Stirling series are subtracted
    one by one: with r = m / a,

        m log a + (a + m - 1/2) log(1 + r) - m - r / (12 (a + m))

    The rest is below 1e-19 of the result.

    Examples
    --------
    >>> round(float(log_rising_factorial(3.0, 2)), 12)  # log (3 * 4)
    2.484906649788
    >>> float(log_rising_factorial(1e300, 1)) == float(np.log(1e300))
    True
    """
    base, rise = np.asarray(a, np.float64), np.asarray(m, np.float64)
    large = base >= LARGE
    if not large.any():
        return np.asarray(log_gamma(base + rise) - log_gamma(base))
    r = rise / base
    series = rise * np.log(base) + (base + rise - 0.5) * np.log1p(r) - rise - r / (12 * (base + rise))
    if large.all():
        return np.asarray(series)
    return np.where(large, series, log_gamma(base + rise) - log_gamma(base))


def expit(odds: ArrayLike) -> Float64Array:
    """Compute 1 / (1 + exp(-x)) without overflow.

    Examples
    --------
    >>> expit([-800.0, 0.0, 800.0]).tolist()
    [0.0, 0.5, 1.0]
    """
    x = np.asarray(odds)
    with np.errstate(invalid="ignore"):  # NaN stays NaN
        return np.asarray(np.exp(-np.logaddexp(0.0, -(x if x.dtype.kind == "f" else x.astype(np.float64)))))


def logit(probability: ArrayLike) -> Float64Array:
    """Compute log p - log (1 - p), the inverse of :func:`expit`."""
    p = np.asarray(probability)
    return np.asarray(np.log(p) - np.log1p(-p))


def sum_sparse_by_group(counts: csr_array, group: NDArray[np.integer], n_groups: int) -> csr_array:
    """Sum the rows of a sparse array (k, columns) that belong to the groups (k,) 0, 1, ...; float64."""
    k = len(group)
    sums: csr_array = csr_array((np.ones(k), (group, np.arange(k))), shape=(n_groups, k)) @ counts
    sums.sort_indices()
    return sums


def sum_by_group(values: NDArray[Any], group: NDArray[np.integer], count: int) -> Float64Array:
    """Sum the rows of values (k, C) or (k,) that belong to the groups (k,) 0, 1, ...

    >>> sum_by_group(np.array([[1.0, 10.0], [2.0, 20.0], [4.0, 40.0]]), np.array([1, 0, 1]), 3).tolist()
    [[2.0, 20.0], [5.0, 50.0], [0.0, 0.0]]
    """
    if values.ndim == 1:
        return np.bincount(group, values, count).astype(np.float64)
    sums = np.zeros((count, values.shape[1]))
    for c, column in enumerate(values.T):
        sums[:, c] = np.bincount(group, column, count)
    return sums


def number_labels(labels: NDArray[np.generic]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Give labels numbers 0, 1, ... in their order: the labels (k,), and the number of each entry (size,).

    >>> [part.tolist() for part in number_labels(np.array([[7, 2], [7, 9]]))]
    [[2, 7, 9], [1, 0, 1, 2]]
    """
    x = labels.ravel()
    if x.dtype.kind in "biu" and x.size:
        low, high = int(x.min()), int(x.max())
        # A lookup is an order of magnitude faster than the sort of np.unique.
        if high - low < max(x.size, MAX_LOOKUP) and high < 2**63:
            index = x.astype(np.int64) - low
            is_used = np.zeros(high - low + 1, bool)
            is_used[index] = True
            return np.flatnonzero(is_used) + low, (np.cumsum(is_used, dtype=np.intp) - 1)[index]
    values, numbers = np.unique(x, return_inverse=True)
    return values, numbers.ravel()
