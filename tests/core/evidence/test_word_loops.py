"""The compiled loops from pixels to words against slow, obvious code."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

from napari_gsw.core.features import words as words_module
from napari_gsw.core.features.codebook import find_distinct_rows, run_kmeans
from napari_gsw.core.features.texture import TEXTURE_SCALES, compute_texture
from napari_gsw.core.features.word_kernels import nearest
from napari_gsw.core.features.words import make_histograms

RNG = np.random.default_rng(11)


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 6, 7])
@pytest.mark.parametrize("pixels", [1, 5, 1000, 3001])
def test_the_nearest_word_is_that_of_all_distances(channels, pixels):
    values = np.round(RNG.normal(size=(pixels, channels)) * 30).astype(np.float32)  # whole numbers, so that ties occur
    centres = np.round(RNG.normal(size=(50, channels)) * 30).astype(np.float32)
    centres[40:] = centres[:10]
    distance = np.square(values[:, np.newaxis].astype(float) - centres).sum(axis=-1)
    assert np.array_equal(nearest(values, centres), distance.argmin(axis=1))


def test_the_nearest_word_of_constant_and_of_no_pixels():
    centres = RNG.normal(size=(9, 3)).astype(np.float32)
    assert (nearest(np.tile(centres[4], (30, 1)), centres) == 4).all()
    assert len(nearest(np.zeros((0, 3), np.float32), centres)) == 0


def slow_texture(light):
    out = []
    for scale in TEXTURE_SCALES:
        gradient = ndimage.gaussian_gradient_magnitude(light.astype(float), scale) * scale
        laplace = ndimage.gaussian_laplace(light.astype(float), scale) * scale**2
        out += [np.log1p(gradient), np.sign(laplace) * np.log1p(np.abs(laplace))]
    return np.stack(out, axis=-1)


@pytest.mark.parametrize("shape", [(60, 71), (5, 7), (1, 9), (40, 1), (12, 20, 23), (1, 12, 13), (3, 2, 30)])
def test_texture_is_that_of_scipys_filters(shape):
    light = (50 + 30 * ndimage.gaussian_filter(RNG.normal(size=shape), 0.7)).clip(0, 100).astype(np.float32)
    light.flat[:: max(1, light.size // 7)] = 100
    assert compute_texture(light) == pytest.approx(slow_texture(light), abs=1e-4)


@pytest.mark.parametrize("dense", [4, 0])
def test_histograms_are_the_same_with_and_without_a_table(monkeypatch, dense):
    monkeypatch.setattr(words_module, "DENSE", dense)
    sites, words = RNG.integers(0, 9, (40, 50)).astype(np.int32), RNG.integers(0, 7, (40, 50)).astype(np.int32)
    sites[0, 0] = 11  # and no site 9 or 10
    found = make_histograms(words, sites, 8)
    expected = np.zeros((11, 8), int)
    np.add.at(expected, (sites[sites > 0] - 1, words[sites > 0]), 1)
    assert np.array_equal(found.toarray(), expected)
    assert found.has_canonical_format
    assert (found.dtype, found.indices.dtype) == (np.int64, np.int32)


def test_k_means_lowers_the_error_and_keeps_a_centre_that_nobody_is_near():
    values = RNG.normal(size=(2000, 2)).astype(np.float32)
    start = np.concatenate((values[:20], [[1e4, 1e4]])).astype(np.float32)
    found = run_kmeans(values, start)

    def error(centres):
        return np.square(values[:, np.newaxis] - centres).sum(axis=-1).min(axis=1).mean()

    assert error(found) < 0.9 * error(start)
    assert found[-1].tolist() == [1e4, 1e4]


def test_different_rows_are_those_of_numpy():
    values = RNG.integers(0, 4, (500, 3)).astype(np.float32)
    assert np.array_equal(find_distinct_rows(values), np.unique(values, axis=0))
