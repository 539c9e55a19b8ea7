"""Odds, log Gamma and what else scipy has too, beside scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import fft, ndimage, special

from napari_gsw.core.image.focus import cosine_transform, gaussian_blur
from napari_gsw.core.special import FAR, expit, log_gamma, logit


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


@pytest.mark.parametrize("width", [0.75, 1.0, 1.125, 2.25])
@pytest.mark.parametrize("shape", [(40, 51), (32, 9)])
def test_smoothed(width, shape):
    light = np.random.default_rng(3).normal(50, 20, shape).astype(np.float32)
    ours = gaussian_blur(light, width)
    assert ours.dtype == np.float32
    np.testing.assert_allclose(ours, ndimage.gaussian_filter(light, width), atol=1e-3)


@pytest.mark.parametrize("shape", [(1, 1), (3, 2), (40, 51)])
def test_cosines(shape):
    light = np.random.default_rng(4).normal(50, 20, shape)
    np.testing.assert_allclose(cosine_transform(cosine_transform(light).T).T, fft.dctn(light, norm="ortho"), atol=1e-9)
