"""Sums by group and special functions, against numpy and scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special
from scipy.sparse import csr_array

from napari_gsw.core.special import FAR, expit, log_gamma, logit, sum_by_group, sum_sparse_by_group

RNG = np.random.default_rng(4)


def test_sums_by_group():
    values, group = RNG.integers(0, 9, (30, 7)), RNG.integers(0, 5, 30)
    group[group == 3] = 2  # a group without a row
    expected = np.zeros((6, 7))
    np.add.at(expected, group, values)
    assert np.array_equal(sum_by_group(values, group, 6), expected)
    assert np.array_equal(sum_by_group(values[:, 2], group, 6), expected[:, 2])
    sums = sum_sparse_by_group(csr_array(values), group, 6)
    assert np.array_equal(sums.toarray(), expected)
    assert sums.has_canonical_format


def test_odds_and_probabilities():
    x = np.random.default_rng(0).normal(0, 30, 10_000)
    np.testing.assert_allclose(expit(x), special.expit(x), rtol=1e-13)
    p = np.random.default_rng(1).uniform(0, 1, 10_000) ** 9
    np.testing.assert_allclose(logit(p), special.logit(p), rtol=1e-13, atol=1e-15)
    assert expit(np.float32(0)).dtype == np.float32
    np.testing.assert_array_equal(expit([np.nan, -np.inf, np.inf]), [np.nan, 0, 1])
    np.testing.assert_allclose(expit(np.array([0, 3], np.uint8)), special.expit([0.0, 3.0]))


def test_log_gamma():
    rng = np.random.default_rng(2)
    x = np.concatenate((rng.uniform(1e-9, 30, 20_000), 10 ** rng.uniform(-9, 15, 20_000), np.arange(1, 500), [FAR]))
    ours, theirs = log_gamma(x), special.gammaln(x)
    assert np.abs(ours - theirs).max() <= 1e-13 + 4e-16 * np.abs(theirs).max()
    np.testing.assert_allclose(ours, theirs, rtol=4e-15, atol=2e-14)
    assert log_gamma([0.0, np.inf]).tolist() == [np.inf, np.inf]
    assert log_gamma(np.zeros((0, 3))).shape == (0, 3)
    assert log_gamma(1) == log_gamma(2.0) == 0
    assert log_gamma([[3, 4]]).shape == (1, 2)
    # Where the series begins it goes on from the other one, and the same argument has the same value anywhere.
    step = np.nextafter(FAR, 0)
    assert log_gamma(FAR) - log_gamma(step) == pytest.approx(0, abs=3e-14)
    assert all(log_gamma(value) == one for value, one in zip(x[:500], ours[:500], strict=True))
