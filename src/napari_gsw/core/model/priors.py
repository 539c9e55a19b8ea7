"""Priors on partitions, each as two tables.

Every exchangeable partition function of the paper has the form

    g(m_1, ..., m_k) = V(k) * W(m_1) * ... * W(m_k)

so a prior is ``log_v[k]`` and ``log_w[m]`` for k, m = 0..n. The sampler has no branch per prior; a limit on the
number of clusters is minus infinity in ``log_v``, a limit on their sizes minus infinity in ``log_w``.

=====================  ====  =====================================  ================================================
prior                  eq.   log V(k)                               log W(m)
=====================  ====  =====================================  ================================================
Potts(K)               7     log K! - log (K-k)!                    0
FiniteDirichlet        8     the same                               log Gamma(alpha+m) - log Gamma(alpha)
DirichletProcess       9     k log alpha                            log Gamma(m)
PitmanYor              10    sum_{i=1}^{k-1} log(alpha + i theta)   log Gamma(m-theta) - log Gamma(1-theta)
Truncated              11    that of the prior                      minus infinity for m < T_min or m > T_max
=====================  ====  =====================================  ================================================

Equation numbers are those of the paper. Its eq. (8) lacks the factor Gamma(alpha)^-k, which changes the number of
clusters and is included here. Its eq. (7) has K for K!, which changes nothing.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from napari_gsw.core.array_types import Float64Array
from napari_gsw.core.errors import InputError, check_integer, check_number, to_float_array
from napari_gsw.core.partitions import log_convolution
from napari_gsw.core.settings import MAX_PARAMETER, MIN_PARAMETER, Settings, setting_fields
from napari_gsw.core.special import LARGE, log_gamma, log_rising_factorial

# The largest K, which limits nothing; as a float it is far from infinity.
MAX_K = 10**100
# Larger logarithms in a user's table would cost the last digits of everything else.
MAX_LOG = 1e12


class PriorTables(NamedTuple):
    """A prior on partitions of n sites, V(k) times the product of W(m_j) (eq. 6); entry 0 of each is not used."""

    log_v: Float64Array  # (n + 1,) by the number of clusters
    log_w: Float64Array  # (n + 1,) by the number of sites in a cluster


class PartitionPrior(ABC):
    """Base class of the priors on partitions."""

    @abstractmethod
    def tables(self, n: int) -> PriorTables:
        """Return ``log_v`` and ``log_w`` for partitions of n sites."""

    def expected_clusters(self, n: int) -> float:
        """Compute the exact prior mean of the number of clusters among n uncoupled sites.

        Priors without a formula use :func:`cluster_distribution`, whose cost grows with n**2 times the number of
        clusters.
        """
        probability = cluster_distribution(self, check_integer("n", n))
        return float(np.arange(len(probability)) @ probability)

    def truncated(self, min_size: int = 1, max_size: int | None = None) -> Truncated:
        """Restrict the prior to partitions whose clusters all have min_size to max_size sites."""
        return Truncated(self, min_size, max_size)

    def exactly(self, k: int) -> Exactly:
        """Restrict the prior to partitions into k clusters."""
        return Exactly(self, k)


@dataclass(frozen=True)
class Potts(PartitionPrior):
    """At most K clusters of any size (eq. 7): all labellings with K labels are equally probable.

    >>> round(Potts(3).expected_clusters(2), 4)
    1.6667
    """

    K: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "K", check_integer("K", self.K, 1, MAX_K))

    def tables(self, n: int) -> PriorTables:
        return PriorTables(_log_falling(self.K, n), np.zeros(n + 1))

    def expected_clusters(self, n: int) -> float:
        n = check_integer("n", n)
        return float(-self.K * math.expm1(n * math.log1p(-1 / self.K))) if self.K > 1 else float(n > 0)


@dataclass(frozen=True)
class FiniteDirichlet(PartitionPrior):
    """At most K clusters with symmetric Dirichlet(alpha) proportions (eq. 8)."""

    K: int
    alpha: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "K", check_integer("K", self.K, 1, MAX_K))
        _check_alpha(self.alpha)

    def tables(self, n: int) -> PriorTables:
        return PriorTables(_log_falling(self.K, n), log_rising_factorial(self.alpha, np.arange(n + 1)))

    def expected_clusters(self, n: int) -> float:
        n = check_integer("n", n)
        # A cluster is empty with probability E[(1 - p)^n], p ~ Beta(alpha, (K - 1) alpha).
        if self.K == 1:
            return float(n > 0)
        empty = np.sum(np.log1p(-self.alpha / (float(self.K) * self.alpha + np.arange(n))))
        return float(-self.K * math.expm1(empty))


@dataclass(frozen=True)
class DirichletProcess(PartitionPrior):
    """Dirichlet process (Chinese restaurant process) with concentration alpha (eq. 9).

    >>> round(DirichletProcess(3.0).expected_clusters(1099), 2)
    18.24
    """

    alpha: float

    def __post_init__(self) -> None:
        _check_alpha(self.alpha)

    def tables(self, n: int) -> PriorTables:
        log_w = log_gamma(np.maximum(np.arange(n + 1), 1))
        return PriorTables(np.arange(n + 1) * np.float64(math.log(self.alpha)), np.asarray(log_w))

    def expected_clusters(self, n: int) -> float:
        return float(np.sum(self.alpha / (self.alpha + np.arange(check_integer("n", n)))))


@dataclass(frozen=True)
class PitmanYor(PartitionPrior):
    """Pitman-Yor process with discount theta and concentration alpha (eq. 10).

    Either 0 <= theta < 1 and alpha > -theta, or theta < 0 and alpha = -L theta with an integer L, the largest number of
    clusters.
    """

    alpha: float
    theta: float

    def __post_init__(self) -> None:
        alpha, theta = self.alpha, self.theta
        setting_fields()["alpha"].check("alpha", alpha)
        setting_fields()["theta"].check("theta", theta)
        if -MIN_PARAMETER < theta < 0:
            raise InputError(f"theta must be 0 or a number <= {-MIN_PARAMETER:g} or > 0, not {theta!r}")
        if theta >= 0:
            if not alpha > -theta:
                raise InputError(f"alpha must be a number > -theta = {-theta:g} for this theta, not {alpha:g}")
        elif self.limit is None:
            raise InputError(
                f"theta < 0 needs alpha = -L * theta with a whole number L >= 1; theta {theta:g} and alpha {alpha:g} "
                f"give L = {-alpha / theta:g}"
            )

    @property
    def limit(self) -> int | None:
        """Largest number of clusters L for theta < 0, otherwise None."""
        if self.theta >= 0:
            return None
        ratio = -self.alpha / self.theta
        nearest = round(ratio)
        return nearest if nearest >= 1 and math.isclose(ratio, nearest, rel_tol=1e-9) else None

    def tables(self, n: int) -> PriorTables:
        i = np.arange(1, max(n, 1))
        if self.limit is None:
            rising = self.alpha + i * self.theta
        else:  # (L - i) * -theta: exactly zero at i = L, where alpha + i theta would be rounded
            rising = np.maximum(float(self.limit) - i, 0.0) * -self.theta
        with np.errstate(divide="ignore"):
            log_v = np.concatenate(([0.0, 0.0], np.cumsum(np.log(rising))))[: n + 1]
        m = np.maximum(np.arange(n + 1), 1)
        # m - theta, not (1 - theta) + (m - 1), which has one rounding more; of a large -theta neither would do
        if 1 - self.theta >= LARGE:
            return PriorTables(log_v, log_rising_factorial(1 - self.theta, m - 1))
        return PriorTables(log_v, log_gamma(m - self.theta) - log_gamma(1 - self.theta))

    def expected_clusters(self, n: int) -> float:
        # E[k] = ((alpha + theta)_n / (alpha + 1)_{n-1} - alpha) / theta without its cancellation, also for theta = 0
        k = float(check_integer("n", n) > 0)
        for i in range(1, n):
            k += (self.alpha + self.theta * k) / (self.alpha + i)
        return k


@dataclass(frozen=True, eq=False)
class TablePrior(PartitionPrior):
    """Prior given by two tables: ``log_v[k]`` for k clusters and ``log_w[m]`` for a cluster of m sites.

    Both must have entries for 0..n; entry 0 is not used.
    """

    log_v: ArrayLike
    log_w: ArrayLike

    def __post_init__(self) -> None:
        for name in ("log_v", "log_w"):
            table = to_float_array(name, getattr(self, name)).copy()
            if table.ndim != 1 or len(table) < 2:
                raise InputError(f"{name} must be one row of at least 2 numbers, not an array of shape {table.shape}")
            if np.isnan(table[1:]).any() or np.isposinf(table[1:]).any():
                raise InputError(f"{name} must hold finite numbers or minus infinity, not NaN or plus infinity")
            if np.abs(table[1:][np.isfinite(table[1:])]).max(initial=0.0) > MAX_LOG:
                raise InputError(f"{name} must hold numbers in [{-MAX_LOG:g}, {MAX_LOG:g}] or minus infinity")
            table.setflags(write=False)
            object.__setattr__(self, name, table)

    def tables(self, n: int) -> PriorTables:
        tables = {}
        for name in ("log_v", "log_w"):
            table = np.asarray(getattr(self, name))
            if len(table) < n + 1:
                raise InputError(f"{name} must have at least {n + 1} entries for {n} sites, not {len(table)}")
            tables[name] = table[: n + 1].copy()
            tables[name][0] = 0.0
        return PriorTables(**tables)


@dataclass(frozen=True)
class Truncated(PartitionPrior):
    """Another prior restricted to partitions whose clusters all have min_size to max_size sites (eq. 11)."""

    prior: PartitionPrior
    min_size: int = 1
    max_size: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.prior, PartitionPrior):
            raise InputError(f"prior must be a partition prior such as DirichletProcess(alpha=3), not {self.prior!r}")
        object.__setattr__(self, "min_size", check_integer("min_size", self.min_size, 0, MAX_K))
        if self.max_size is not None:
            largest = check_integer("max_size", self.max_size, max(self.min_size, 1), MAX_K)
            object.__setattr__(self, "max_size", largest)

    def tables(self, n: int) -> PriorTables:
        if self.min_size > n:
            raise InputError(f"min_size must be a whole number in [0, {n}] for {n} sites, not {self.min_size}")
        log_v, log_w = self.prior.tables(n)
        log_w = log_w.copy()
        log_w[1 : self.min_size] = -np.inf
        if self.max_size is not None:
            log_w[self.max_size + 1 :] = -np.inf
        return PriorTables(log_v, log_w)


@dataclass(frozen=True)
class Exactly(PartitionPrior):
    """Another prior restricted to partitions into k clusters, for example if the user has labelled every cluster.

    The other prior's probability of k is a constant here, even where it is 0.
    """

    prior: PartitionPrior
    k: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", check_integer("k", self.k, 1))

    def tables(self, n: int) -> PriorTables:
        if self.k > n:
            raise InputError(f"{n} sites cannot be {self.k} clusters; make the sites smaller")
        log_v = np.full(n + 1, -np.inf)
        log_v[self.k] = 0.0
        return PriorTables(log_v, self.prior.tables(n).log_w)


def make_prior(settings: Settings) -> PartitionPrior:
    """Make the prior that the settings describe."""
    priors: dict[str, Callable[[], PartitionPrior]] = {
        "potts": lambda: Potts(settings.K),
        "finite-dirichlet": lambda: FiniteDirichlet(settings.K, settings.alpha),
        "dirichlet-process": lambda: DirichletProcess(settings.alpha),
        "pitman-yor": lambda: PitmanYor(settings.alpha, settings.theta),
    }
    prior = priors[settings.prior]()
    limited = settings.min_size > 1 or settings.max_size is not None
    return prior.truncated(settings.min_size, settings.max_size) if limited else prior


@lru_cache(maxsize=64)
def cluster_distribution(prior: PartitionPrior, n: int) -> Float64Array:
    """Compute the probability of k = 0..n clusters among n uncoupled sites, a read-only (n + 1,) float64 array.

    Z(n, k) = sum_m C(n-1, m-1) W(m) Z(n-m, k-1), in logarithms, where m is the size of the cluster of site 1. Rows are
    added until they are negligible.
    """
    log_v, log_w = prior.tables(n)
    # With z(j, k) = Z(j, k) / j! the binomial becomes m/j * W(m)/m!, a plain convolution.
    m = np.maximum(np.arange(n + 1), 1)
    weight = log_w + np.log(m) - log_gamma(m + 1)
    row = np.full(n + 1, -np.inf)
    row[0] = 0.0
    log_p = np.full(n + 1, -np.inf)
    inner = prior
    while isinstance(inner, Truncated):
        inner = inner.prior
    for k in range(1, n + 1):
        row = log_convolution(weight, row)
        log_p[k] = log_v[k] + row[n]
        # All priors except a table have one peak in k: past it, rows stay negligible.
        if not isinstance(inner, TablePrior) and -np.inf < log_p[k] < log_p.max() - 40:
            break
    if np.isneginf(log_p).all():
        raise InputError(f"min_size and max_size leave no partition of {n} sites")
    probability: Float64Array = np.exp(log_p - np.logaddexp.reduce(log_p))
    probability.setflags(write=False)
    return probability


def _log_falling(K: int, n: int) -> Float64Array:
    """Return (n + 1,) log K! - log (K - k)! for k = 0..n, minus infinity beyond K; a sum, because K may be huge."""
    with np.errstate(divide="ignore"):
        factors = np.log(np.maximum(float(K) - np.arange(n), 0.0))
    return np.concatenate(([0.0], np.cumsum(factors)))


def _check_alpha(alpha: float) -> None:
    check_number("alpha", alpha, 0, math.inf, exclusive_min=True)
    check_number("alpha", alpha, MIN_PARAMETER, MAX_PARAMETER, exclusive_min=True)
