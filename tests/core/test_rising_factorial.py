"""log Gamma(a + m) - log Gamma(a) against sums of logarithms, and what is made of it at the ends of the range."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy.special import gammaln

import napari_gsw as gsw
from napari_gsw.core.likelihood.likelihood_tables import build_tables
from napari_gsw.core.special import LARGE, log_gamma, log_rising_factorial


def sum_of_logs(a: float, m: int) -> float:
    """log(a) + log(a + 1) + ... to the last digit."""
    return math.fsum(math.log(a + i) for i in range(m))


@pytest.mark.parametrize("a", [LARGE, 1e5, 1e9, 1e12, 1e15, 1e100, 1e300])
@pytest.mark.parametrize("m", [1, 2, 17, 1000, 50_000])
def test_whole_steps_are_sums_of_logarithms(a, m):
    assert float(log_rising_factorial(a, m)) == pytest.approx(sum_of_logs(a, m), rel=4e-16)


@pytest.mark.parametrize("a", [1e-100, 1e-6, 0.3, 1.0, 50.0, 3e4])
@pytest.mark.parametrize("m", [1, 2, 17, 1000])
def test_small_arguments(a, m):
    assert float(log_rising_factorial(a, m)) == pytest.approx(sum_of_logs(a, m), rel=1e-13, abs=1e-10)


@pytest.mark.parametrize("a", [LARGE, 123456.7, 1e9, 1e15])
@pytest.mark.parametrize("m", [1e-9, 0.1, 0.5, 3.25, 1e4 + 1 / 3, 1e12])
def test_fractional_steps_add_up(a, m):
    """Twice half a step is a step, and (a)_{m+1} = (a)_m (a + m)."""
    halves = float(log_rising_factorial(a, m / 2) + log_rising_factorial(a + m / 2, m / 2))
    assert halves == pytest.approx(float(log_rising_factorial(a, m)), rel=2e-15 + 1e-16 * a / LARGE * (m < 1e-6))
    with localcontext() as context:
        context.prec = 40
        step = float((Decimal(a) + Decimal(m)).ln())
    assert float(log_rising_factorial(a, m + 1)) == pytest.approx(float(log_rising_factorial(a, m)) + step, rel=1e-15)


def test_both_formulas_meet():
    m = np.array([0.0, 0.3, 1.0, 7.5, 1e4, 1e9])
    below = float(np.nextafter(LARGE, 0))
    assert log_rising_factorial(below, m) == pytest.approx(log_rising_factorial(LARGE, m), rel=1e-11, abs=1e-10)


def test_ordinary_parameters_are_differences_of_log_gammas():
    a, m = np.array([0.2, 3.0, 50.0, 1e4]), np.arange(6.0)[:, np.newaxis] / 7
    assert np.array_equal(log_rising_factorial(a, m), log_gamma(a + m) - log_gamma(a))
    np.testing.assert_allclose(log_rising_factorial(a, m), gammaln(a + m) - gammaln(a), rtol=1e-13, atol=3e-11)
    assert (log_rising_factorial(a, 0.0) == 0).all()
    both = log_rising_factorial(np.append(a, 1e9), 2.0)
    assert np.array_equal(both[:4], log_gamma(a + 2.0) - log_gamma(a))
    assert both[4] == pytest.approx(sum_of_logs(1e9, 2), rel=4e-16)


@pytest.mark.parametrize("phi", [2e-100, 1e-20, 1e5, 1e7, 1e9])
def test_histograms_at_the_ends_of_the_range(phi):
    """The log marginal and the tables, against the product of predictive probabilities."""
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 40, (6, 5))
    block = gsw.DirichletMultinomial(counts, phi)
    labels = np.array([0, 1, 0, 1, 1, 0])
    exact = 0.0
    for k in (0, 1):
        own = counts[labels == k].sum(axis=0)
        exact += sum(sum_of_logs(p, m) for p, m in zip(block.concentration, own, strict=True))
        exact -= sum_of_logs(phi, own.sum())
    assert block.log_marginal(labels) == pytest.approx(exact, rel=1e-12)
    packed = build_tables([block], 6)
    total = counts.sum()
    assert packed.table[-1] == pytest.approx(-sum_of_logs(phi, total), rel=1e-13)


def test_a_prior_that_is_nearly_certain_tells_clusters_nothing():
    """The limit: with phi beyond all draws, joining two clusters changes nothing."""
    counts = np.random.default_rng(1).integers(0, 9, (8, 4))
    block = gsw.DirichletMultinomial(counts, 1e9)
    apart = block.log_marginal(np.arange(8))
    assert block.log_marginal(np.zeros(8, int)) == pytest.approx(apart, abs=1e-4)


@pytest.mark.parametrize("name", ["phi", "evidence"])
@pytest.mark.parametrize("value", [1e12, 1e308, math.inf, math.nan, 0.0, -1.0, "50", True])
def test_histograms_refuse_what_cannot_be_computed(name, value):
    with pytest.raises(gsw.InputError, match=rf"{name} must be a number in \(.*, 1e\+09\]"):
        gsw.DirichletMultinomial(np.ones((2, 2), int), **{name: value})


@pytest.mark.parametrize(("name", "value"), [("kappa", 1e-320), ("shape", 1e15), ("shape", 1.0), ("spread", 1e12)])
def test_channels_refuse_what_cannot_be_computed(name, value):
    with pytest.raises(gsw.InputError, match=rf"gauss_{name} must be a number in \(.*, 1e\+09\]"):
        gsw.Gaussian.from_values(np.arange(6.0).reshape(3, 2), **{name: value})


def test_phi_below_the_range_is_refused():
    with pytest.raises(gsw.InputError, match=r"phi must be a number in \(1e-100, 1e\+09\], not 1e-320"):
        gsw.DirichletMultinomial(np.ones((2, 2), int), phi=1e-320)


def test_values_whose_squares_overflow_are_refused():
    with pytest.raises(gsw.InputError, match="scale them down"):
        gsw.Gaussian.from_values(np.array([[1e200], [-1e200]]))


@pytest.mark.parametrize("shape", [3.0, 1e6, 1e9])
@pytest.mark.parametrize("kappa", [2e-100, 0.01, 1e9])
def test_channels_at_the_ends_of_the_range(shape, kappa):
    """As the shape grows the variance becomes known, and the marginal that of a Gaussian with known variance."""
    x = np.random.default_rng(2).normal(size=(30, 1))
    block = gsw.Gaussian.from_values(x, shape=shape, kappa=kappa, spread=0.3)
    labels = np.arange(30) % 3
    value = block.log_marginal(labels)
    assert np.isfinite(value)
    if shape == 1e9:
        centred, known = x[:, 0] - x.mean(), 0.3 * x.var()
        exact = -15 * np.log(2 * np.pi * known)
        for k in range(3):
            y = centred[labels == k]
            exact += (math.log(kappa) - math.log(kappa + 10)) / 2
            exact -= (y @ y - y.sum() ** 2 / (kappa + 10)) / (2 * known)
        assert value == pytest.approx(exact, abs=1e-4)
    problem = gsw.Problem(30, (block,), np.zeros((0, 2), np.int32), 0.0, gsw.Potts(4))  # type: ignore[arg-type]
    state = gsw.run(problem, 2, init=labels)
    assert state.log_posterior == pytest.approx(gsw.log_posterior(problem, state.labels), abs=1e-4)
