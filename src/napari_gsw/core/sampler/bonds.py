"""Bond strengths of edges, the choice of delta_ij. Every choice leaves the posterior invariant."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from napari_gsw.core.array_types import Float64Array
from napari_gsw.core.errors import InputError, check_number, to_float_array
from napari_gsw.core.likelihood.conjugate import DirichletMultinomial, Gaussian
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.sampler.state import Bonds
from napari_gsw.core.settings import Settings

# An edge of this strength is bonded whenever it can be; more would only lose the last digits of scores.
MAX_STRENGTH = 1e6


def constant_bonds(problem: Problem, lam: ArrayLike, cap: float | None = None) -> Bonds:
    """Set delta_ij = lam: 0 is single-site Gibbs, 1 the classical Swendsen-Wang; or one delta for each edge.

    Edges with a negative coupling are never bonded. `cap` limits beta_ij * delta_ij.
    """
    delta, m = to_float_array("lam", lam), len(problem.edges)
    if delta.ndim and delta.shape != (m,):
        raise InputError(f"lam must be one number or one for each of {m} edges, not shape {delta.shape}")
    if not np.isfinite(delta).all() or (delta < 0).any():
        raise InputError("lam must be a number >= 0 on every edge")
    with np.errstate(over="ignore"):
        strength = np.maximum(problem.beta, 0) * delta
    strength = np.minimum(strength, MAX_STRENGTH if cap is None else min(cap, MAX_STRENGTH))
    return Bonds(np.ascontiguousarray(strength), 0.0, 0.0)


def check_bonds(problem: Problem, bonds: Bonds) -> Bonds:
    """Check bonds that the user has made, and return them as the kernels need them."""
    if not isinstance(bonds, Bonds):
        raise InputError(f"bonds must be a record of napari_gsw.core.sampler.bonds, not {type(bonds).__name__}")
    strength, m = to_float_array("bonds", bonds.strength), len(problem.edges)
    if strength.shape != (m,) or not np.isfinite(strength).all() or (strength < 0).any():
        raise InputError(f"bonds must have a strength >= 0 for each of {m} edges, not shape {strength.shape}")
    high = check_number("the upper end of bonds", bonds.high, 0, math.nextafter(1, 0))
    low = check_number("the lower end of bonds", bonds.low, 0, high)
    return Bonds(np.minimum(np.ascontiguousarray(strength), MAX_STRENGTH), low, high)


def data_driven_bonds(problem: Problem, lam: float, tau: float, distance: str, cap: float | None = None) -> Bonds:
    """Set delta_ij = lam * exp(-tau d(y_i, y_j)), with d the named distance of the two sites' features."""
    return constant_bonds(problem, lam * np.exp(-tau * edge_distance(problem, distance)), cap)


def random_bonds(problem: Problem, low: float, high: float) -> Bonds:
    """Set one delta for all edges, so that an edge of mean coupling is bonded with a probability drawn for each sweep.

    The probability p is uniform in [low, high], and delta = -log(1 - p) / mean beta. With equal couplings every edge
    has the bond probability p; with couplings that follow the image, weak edges have less and strong ones more.
    """
    if not 0 <= low <= high < 1:
        raise InputError(f"bond probabilities must satisfy 0 <= low <= high < 1, not {low!r} and {high!r}")
    positive = np.maximum(problem.beta, 0)
    mean = positive[positive > 0].mean() if (positive > 0).any() else 1.0
    return Bonds(positive / mean if high > 0 else 0 * positive, float(low), float(high))


def bonds_from_settings(problem: Problem, settings: Settings) -> Bonds:
    """Make the bonds of ``settings.sampler``."""
    cap = settings.bond_cap
    if settings.sampler == "data-driven":
        return data_driven_bonds(problem, settings.lam, settings.tau, settings.distance, cap)
    if settings.sampler in ("bond", "bond-drawn"):
        low = settings.bond if settings.sampler == "bond" else settings.bond_low
        return random_bonds(problem, low, settings.bond)
    lam = {"gsw": settings.lam, "swendsen-wang": 1.0, "gibbs": 0.0}[settings.sampler]
    return constant_bonds(problem, lam, cap)


def edge_distance(problem: Problem, name: str) -> Float64Array:
    """Measure the distance of the two ends of every edge, averaged over the blocks of features it applies to.

    With p and q the normalized histograms of the two sites: ``hellinger`` is sqrt(1 - sum sqrt(p q)), ``chi2``
    sum (p - q)^2 / (p + q) / 2, ``total-variation`` sum |p - q| / 2; all in [0, 1]. ``euclidean`` is the distance of
    the channel means in standard deviations of the image.
    """
    i, j = problem.edges.T
    distances = []
    for block in problem.likelihoods:
        if name == "euclidean" and isinstance(block, Gaussian):
            scale = np.sqrt(np.where(block.variance > 0, block.variance, 1.0))
            means = block.sums / np.maximum(block.mass, 1)[:, np.newaxis] / scale
            distances.append(np.linalg.norm(means[i] - means[j], axis=1))
        elif name != "euclidean" and isinstance(block, DirichletMultinomial):
            totals = np.maximum(block.counts.sum(axis=1), 1)
            p = (block.counts.astype(np.float64) / totals[:, np.newaxis]).tocsr()
            distances.append(_histogram_distance(p[i], p[j], name))
    if not distances:
        kind = "continuous channels" if name == "euclidean" else "histograms"
        raise InputError(f"distance {name!r} needs {kind}, which this problem does not have")
    return np.asarray(np.mean(distances, axis=0), dtype=np.float64)


def _histogram_distance(p: csr_array, q: csr_array, name: str) -> Float64Array:
    """Measure the distance of the rows of two sparse arrays (m, words)."""
    if name == "hellinger":
        return np.asarray(np.sqrt(np.maximum(1 - np.sqrt(p.multiply(q)).sum(axis=1), 0))).ravel()
    gap = abs(p - q)
    if name == "chi2":
        both = (p + q).tocsr()
        both.data = 1 / both.data
        gap = gap.power(2).multiply(both)
    return np.asarray(gap.sum(axis=1)).ravel() / 2
