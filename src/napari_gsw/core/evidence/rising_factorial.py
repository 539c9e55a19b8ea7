"""The logarithm of the rising factorial Gamma(a + m) / Gamma(a), of which likelihoods and priors are made."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from napari_gsw.core.arrays import Floats

# From here on the difference of two log Gammas is a series of its own. Below, it is the difference of two values of
# scipy, right to 1e-10; every preset, and every parameter that is not meant as "very large", is there, so that tables
# keep their last digit from version to version.
LARGE = 2.0**15


def log_rising(a: ArrayLike, m: ArrayLike) -> Floats:
    """log Gamma(a + m) - log Gamma(a), without the cancellation.

    Log Gamma(a) is about a log a, the difference about m log a: of a = 1e12 the subtraction would leave two decimals.
    For large a both are Stirling's series, and its terms are subtracted one by one: with r = m / a,

        m log a + (a + m - 1/2) log(1 + r) - m - r / (12 (a + m))

    What is left out is below 1e-19 of the result, and no term is larger than the result, so that it is right to a few
    units in the last place.

    Parameters
    ----------
    a, m : numbers or arrays, broadcast: a > 0 and m >= 0, not necessarily whole.

    Returns
    -------
    float64 array of their common shape.

    Examples
    --------
    >>> float(log_rising(3.0, 2))  # log (3 * 4)
    2.4849066497880004
    >>> float(log_rising(1e300, 1)) == float(np.log(1e300))
    True
    """
    base, rise = np.asarray(a, np.float64), np.asarray(m, np.float64)
    large = base >= LARGE
    if not large.any():
        return np.asarray(gammaln(base + rise) - gammaln(base))
    r = rise / base
    series = rise * np.log(base) + (base + rise - 0.5) * np.log1p(r) - rise - r / (12 * (base + rise))
    if large.all():
        return np.asarray(series)
    return np.where(large, series, gammaln(base + rise) - gammaln(base))
