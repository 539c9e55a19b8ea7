"""Conjugate families with an analytic marginal likelihood, eq. (3) of the paper.

A problem has one or several blocks (colour words, texture words, channels), independent given the partition. Their
`log_marginal` in plain numpy is the specification; :mod:`napari_gsw.core.likelihood.likelihood_tables` packs all blocks
into the tables that the sampler reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse

from napari_gsw.core.array_types import Float64Array
from napari_gsw.core.errors import InputError, check_integer, to_array, to_float_array
from napari_gsw.core.settings import MAX_PARAMETER, setting_fields
from napari_gsw.core.special import log_rising_factorial, sum_by_group, sum_sparse_by_group

MAX_COUNTS = 2**31 - 1
# The squares of larger values might not be finite.
MAX_VALUE = 1e100
# A smaller variance is a constant channel.
MIN_VARIANCE = 1e-200
# Sum of squares in units of the rate; beyond this the rounding of the sums is as large as the rate.
MAX_RATIO = 1e13
# A shape that stands for a known variance, the largest that is allowed. The marginal differs from its limit by less
# than 1e-6 of itself if clusters are worth a million times fewer draws than this, and rounding stays below 1e-5.
KNOWN_SHAPE = MAX_PARAMETER


@dataclass(frozen=True, eq=False)
class DirichletMultinomial:
    """Histograms of words with a Dirichlet prior of concentration pi = phi * ybar (section 4.1 of the paper).

    Of a cluster with counts m_d, sum m, up to a constant of the data,

        log p = log Gamma(phi) - log Gamma(phi + s m) + sum_d log Gamma(pi_d + s m_d) - log Gamma(pi_d)

    Parameters
    ----------
    counts : (n, words) array_like or sparse array of int
        Words that occur nowhere are dropped.
    phi : float
        Sum of pi.
    evidence : float, optional
        Independent draws that the average site is worth (default: one per pixel). Counts are scaled by one global
        weight s = evidence / (mean pixels of a site). Unless s = 1 that is a power likelihood with fractional counts,
        not a generative model: its sum over all data depends on the partition.
    """

    counts: csr_array
    phi: float = 50.0
    evidence: float | None = None

    def __post_init__(self) -> None:
        for name in ("phi", "evidence"):
            setting_fields()[name].check(name, getattr(self, name))
        object.__setattr__(self, "counts", _check_counts(self.counts))

    @property
    def n(self) -> int:
        """Number of sites."""
        return int(self.counts.shape[0])

    @cached_property
    def weight(self) -> float:
        """Draws s that one pixel is worth."""
        total = int(self.counts.sum())
        return 1.0 if self.evidence is None or total == 0 else self.evidence * self.n / total

    @cached_property
    def concentration(self) -> Float64Array:
        """(words,) pi of each word that occurs."""
        totals = self.counts.sum(axis=0).astype(np.float64)
        return self.phi * totals / totals.sum() if totals.size else totals

    def log_marginal(self, labels: NDArray[np.integer]) -> float:
        """Compute log p(y | partition), eq. (2), up to a constant of the data, for labels (n,)."""
        s, pi = self.weight, self.concentration
        k = np.unique(labels, return_inverse=True)[1]
        m = sum_sparse_by_group(self.counts, k, int(k.max()) + 1)  # a word that a cluster lacks adds nothing
        words, totals = log_rising_factorial(pi[m.indices], s * m.data), s * m.sum(axis=1)
        return float(np.sum(words) - np.sum(log_rising_factorial(self.phi, totals)))


@dataclass(frozen=True, eq=False)
class Gaussian:
    """Continuous channels, independent and Gaussian in each cluster, with a normal-inverse-gamma prior.

    sigma^2 ~ IG(shape, rate), mu | sigma^2 ~ N(mean of the image, sigma^2 / kappa), with the rate such that the
    expected variance within a cluster is `spread` times the variance of the image. :meth:`from_pixels` takes None for
    the shape where the variance is known. Of a cluster of weighted mass w, with weighted sums S_1 and S_2 in a channel,

        log p = log Gamma(a_n) - log Gamma(a_0) + a_0 log b_0 - a_n log b_n + log(kappa_0 / kappa_n) / 2 - w/2 log 2 pi
        kappa_n = kappa_0 + w,   a_n = a_0 + w / 2,   b_n = b_0 + (S_2 - S_1^2 / kappa_n) / 2

    Attributes
    ----------
    mass : (n,) int64, pixels of each site.
    sums, squares : (n, channels) sums over the pixels of x - mean and (x - mean)^2.
    variance : (channels,) variance of the image.
    """

    mass: NDArray[np.int64]
    sums: Float64Array
    squares: Float64Array
    variance: Float64Array
    evidence: float | None = None
    kappa: float = 0.01
    shape: float = 3.0
    spread: float = 0.05

    def __post_init__(self) -> None:
        for name in ("evidence", "gauss_kappa", "gauss_shape", "gauss_spread"):
            setting_fields()[name].check(name, getattr(self, name.removeprefix("gauss_")))
        mass = to_array("mass", self.mass)
        if mass.ndim != 1 or not mass.size or mass.dtype.kind not in "ui" or mass.min() < 0:
            raise InputError(f"mass must be whole numbers >= 0, one a site, not {mass.dtype} of shape {mass.shape}")
        if not 0 < mass.sum(dtype=np.float64) <= MAX_COUNTS:
            raise InputError(f"mass must add up to a number in [1, {MAX_COUNTS:,}], not {mass.sum()}")
        sums = to_float_array("sums", self.sums)
        if sums.ndim != 2 or len(sums) != len(mass):
            raise InputError(f"sums must have a row for each of {len(mass)} sites, not shape {sums.shape}")
        max_sum = MAX_VALUE * MAX_COUNTS
        for name, shape, low, high in (
            ("sums", sums.shape, -max_sum, max_sum),
            ("squares", sums.shape, 0.0, MAX_VALUE * max_sum),
            ("variance", sums.shape[1:], 0.0, MAX_VALUE**2),
        ):
            values = to_float_array(name, getattr(self, name))
            if values.shape != shape:
                raise InputError(f"{name} must have shape {shape}, as sums of {len(mass)} sites, not {values.shape}")
            if not ((values >= low) & (values <= high)).all():
                raise InputError(f"{name} must be numbers in [{low:g}, {high:g}], not NaN or beyond")
            object.__setattr__(self, name, values)
        object.__setattr__(self, "mass", mass.astype(np.int64))
        empty = self.mass == 0
        if self.sums[empty].any() or self.squares[empty].any():
            raise InputError("sums and squares must be 0 for a site of mass 0")
        with np.errstate(over="ignore"):
            ratio = self.squares.sum(axis=0) / self.rate
        if (ratio > MAX_RATIO).any():
            raise InputError(
                "the expected variance within a cluster (spread times variance) is negligible beside the squares of "
                "the values: choose a larger spread or shape, or give the variance of the values"
            )

    @classmethod
    def from_pixels(
        cls, values: ArrayLike, site: NDArray[np.integer], n: int, evidence: float | None = None,
        kappa: float = 0.01, shape: float | None = 3.0, spread: float = 0.05,
    ) -> Gaussian:  # fmt: skip
        """Make a block from pixels: values (pixels, channels) and the site 0..n-1 of each."""
        x, site = to_float_array("values", values), to_array("site", site)
        n = check_integer("n", n, 1)
        if site.ndim != 1 or site.dtype.kind not in "ui" or (site.size and not 0 <= site.min() <= site.max() < n):
            raise InputError(f"site must be whole numbers in [0, {n - 1}], one a pixel, not {site.dtype} {site.shape}")
        site = site.astype(np.int64)
        if x.ndim != 2 or x.shape[0] != len(site) or not len(site):
            raise InputError(f"values must have one row for each of {len(site)} pixels, not shape {x.shape}")
        if not np.isfinite(x).all():
            raise InputError("values must be finite, not NaN or infinite")
        if np.abs(x).max(initial=0.0) > MAX_VALUE:
            raise InputError(f"values must be numbers in [{-MAX_VALUE:g}, {MAX_VALUE:g}]; scale them down")
        x = x - x.mean(axis=0)
        mass = np.bincount(site, minlength=n)
        sums, squares = sum_by_group(x, site, n), sum_by_group(x * x, site, n)
        shape = KNOWN_SHAPE if shape is None else shape
        return cls(mass, sums, squares, x.var(axis=0), evidence, kappa, shape, spread)

    @classmethod
    def from_sums(
        cls, mass: NDArray[np.integer], sums: Float64Array, squares: Float64Array, evidence: float | None = None,
        kappa: float = 0.01, shape: float | None = 3.0, spread: float = 0.05,
    ) -> Gaussian:  # fmt: skip
        """Make a block from sums over the pixels of each site: mass (n,), sums and squares (n, channels) of values."""
        mass = to_array("mass", mass)
        total = int(mass.sum()) if mass.dtype.kind in "ui" else 0
        if total <= 0:
            raise InputError("mass must be whole numbers, with a pixel at least")
        mean = sums.sum(axis=0) / total
        variance = np.maximum(squares.sum(axis=0) / total - mean**2, 0)
        column = mass[:, np.newaxis]
        squares = np.maximum(squares - 2 * mean * sums + mean**2 * column, 0)
        shape = KNOWN_SHAPE if shape is None else shape
        return cls(mass.astype(np.int64), sums - mean * column, squares, variance, evidence, kappa, shape, spread)

    @classmethod
    def from_values(cls, values: ArrayLike, **more: float) -> Gaussian:
        """Make a block from one observation for each site: values (n, channels)."""
        x = to_float_array("values", values)
        if x.ndim != 2:
            raise InputError(f"values must have shape (sites, channels), not {x.shape}")
        return cls.from_pixels(x, np.arange(len(x)), len(x), **more)

    @property
    def n(self) -> int:
        """Number of sites."""
        return len(self.mass)

    @property
    def weight(self) -> float:
        """Draws s that one pixel is worth."""
        return 1.0 if self.evidence is None else self.evidence * self.n / float(self.mass.sum())

    @property
    def rate(self) -> Float64Array:
        """(channels,) b_0; any rate will do for a constant channel."""
        return (self.shape - 1) * self.spread * np.where(self.variance > MIN_VARIANCE, self.variance, 1.0)

    def _posterior_rates(self, labels: NDArray[np.integer]) -> tuple[Float64Array, Float64Array, Float64Array]:
        """Compute draws (k,), sums of squares (k, channels) and rates b (k, channels) of the clusters."""
        k = np.unique(labels, return_inverse=True)[1]
        w, first, second = (
            sum_by_group(self.weight * values, k, int(k.max()) + 1) for values in (self.mass, self.sums, self.squares)
        )
        spread = np.maximum(second - first**2 / (self.kappa + w)[:, np.newaxis], 0)  # not below 0 by a rounding
        return w, second, self.rate + spread / 2

    def rounding(self, labels: NDArray[np.integer]) -> float:
        """Bound the change of :meth:`log_marginal` by the rounding of sums.

        Terms of the size of the shape cancel. So do, in the rate b of a cluster, its squares and the square of its sum,
        and the logarithm of b counts as often as there are draws.
        """
        w, second, b = self._posterior_rates(labels)
        lost = np.finfo(float).eps * second.sum(axis=0) / b
        return 1e-13 * self.shape * self.n + 4 * float(((self.shape + w / 2)[:, np.newaxis] * lost).sum())

    def log_marginal(self, labels: NDArray[np.integer]) -> float:
        """Compute log p(y | partition), eq. (2), up to a constant of the data, for labels (n,)."""
        w, _, b = self._posterior_rates(labels)
        kappa, a, b0 = self.kappa + w, self.shape + w / 2, self.rate
        common = log_rising_factorial(self.shape, w / 2) + np.log(self.kappa / kappa) / 2 - w / 2 * np.log(2 * np.pi)
        terms = common[:, np.newaxis] + self.shape * np.log(b0) - a[:, np.newaxis] * np.log(b)
        return float(np.sum(terms))


# A block of the likelihood.
Likelihood = DirichletMultinomial | Gaussian


def _check_counts(values: Any) -> csr_array:
    """Convert counts to int64 without the words that occur nowhere, or raise an InputError."""
    raw: Any = values if issparse(values) else to_array("counts", values)
    if raw.dtype.kind not in "buif" or len(raw.shape) != 2 or raw.shape[0] < 1:
        raise InputError(f"counts must be whole numbers of shape (sites, words), not {raw.dtype} of {raw.shape}")
    counts = csr_array(raw.astype(np.float64 if raw.dtype.kind == "f" else np.int64))
    counts.sum_duplicates()
    if not np.isfinite(counts.data).all() or not np.array_equal(counts.data, np.rint(counts.data)):
        raise InputError("counts must be whole numbers; scale their weight with evidence instead")
    if counts.nnz and counts.data.min() < 0:
        raise InputError(f"counts must be >= 0, not {counts.data.min():g}")
    if counts.nnz and float(counts.data.astype(np.float64).sum()) > MAX_COUNTS:
        raise InputError(f"counts must add up to at most {MAX_COUNTS:,}, not {counts.data.sum():g}")
    counts.eliminate_zeros()
    return counts.astype(np.int64)[:, np.unique(counts.indices)]
