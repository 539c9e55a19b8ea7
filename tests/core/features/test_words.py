"""Words of pixels: texture filters, colour spaces, histograms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import ndimage
from scipy.sparse import csr_array
from skimage.data import astronaut

import napari_gsw as gsw
from napari_gsw.core.features.codebook import Codebook, bin_luminance, make_histograms, smear_counts, to_codebook_space
from napari_gsw.core.features.texture import TEXTURE_SCALES, compute_texture
from napari_gsw.core.image.normalized_image import normalize_image
from napari_gsw.sample_data import mosaic

RNG = np.random.default_rng(11)
IMAGE = astronaut()[:120, :140]


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


@pytest.mark.parametrize("n_words", [8, None])
def test_histograms_count_the_words_of_each_site(n_words):
    sites, words = RNG.integers(0, 9, (40, 50)).astype(np.int32), RNG.integers(0, 7, (40, 50)).astype(np.int32)
    sites[0, 0] = 11  # and no site 9 or 10
    found = make_histograms(words, sites, n_words)
    expected = np.zeros((11, n_words or 7), int)
    np.add.at(expected, (sites[sites > 0] - 1, words[sites > 0]), 1)
    assert np.array_equal(found.toarray(), expected)
    assert found.has_canonical_format
    assert (found.dtype, found.indices.dtype) == (np.int64, np.int32)


def test_luminance_bins():
    seen = normalize_image(np.linspace(0, 1, 800).reshape(20, 40))
    words = bin_luminance(seen, 8)
    assert (words.min(), words.max()) == (0, 7)
    assert np.bincount(words.ravel()).min() > 80


def test_texture_does_not_depend_on_orientation():
    light = normalize_image(IMAGE[:100, :100]).luminance
    assert np.rot90(compute_texture(light)) == pytest.approx(compute_texture(np.rot90(light)), abs=1e-4)


def test_words_of_hue_saturation_and_value():
    """Hue is an angle: red on either side of 0 is near, and grey has none."""
    rgb = np.array([[[255, 0, 10], [255, 10, 0], [0, 255, 255], [128, 128, 128]]], np.uint8)
    seen = to_codebook_space(normalize_image(rgb), "hsv")[0]
    assert np.linalg.norm(seen[0] - seen[1]) < 0.15
    assert np.linalg.norm(seen[0] - seen[2]) > 1.9
    assert np.allclose(seen[3], [0, 0, 0.25], atol=0.01)
    with pytest.raises(gsw.InputError, match="lab"):
        to_codebook_space(normalize_image(rgb), "texture")


def test_a_codebook_of_the_users_own_decides_the_colours():
    image = mosaic()[0][:60, :80]
    for space in ("lab", "hsv"):
        book = Codebook.learn([to_codebook_space(normalize_image(image), space)], 30, space)
        one = gsw.prepare(image, preset="paper", site_size=60, codebook=book)
        words = book.words(to_codebook_space(normalize_image(image), space))
        assert one.likelihoods[0].counts.shape[1] == len(np.unique(words))
    both = [gsw.prepare(image, preset="paper", site_size=60, colours=c) for c in ("lab", "hsv")]
    assert both[0].likelihoods[0].counts.shape != both[1].likelihoods[0].counts.shape


def test_how_soft_words_are_belongs_to_the_codebook(tmp_path):
    """A site between two words counts for both; beyond its softness words do not know of each other."""
    counts = csr_array(np.array([[10, 0, 0], [0, 10, 0], [0, 0, 10]]))
    hard = Codebook(np.array([[0.0], [2.0], [60.0]]), "channels")
    assert smear_counts(counts, hard) is counts
    soft = replace(hard, softness=4.0)
    near = smear_counts(counts, soft).toarray()
    assert near[0, 1] > 0.8 * near[0, 0] > 0
    assert near[0, 2] == near[2, 0] == 0
    assert near.sum(axis=1) == pytest.approx(16 * 10, abs=2)
    many = csr_array(np.tile(counts.toarray(), (9000, 1)))  # more than are done at a time
    assert np.array_equal(smear_counts(many, soft).toarray(), np.tile(near, (9000, 1)))
    assert soft.thinned(3.0).softness == 4.0
    assert len(soft.thinned(3.0).centres) == 2
    for book in (hard, soft):
        book.save(tmp_path / "book.json")
        assert gsw.Codebook.load(tmp_path / "book.json").softness == book.softness
    (tmp_path / "book.json").write_text('{"space": "channels", "softness": "much", "centres": [[1.0]]}')
    with pytest.raises(gsw.InputError, match=r"book.json' is not a codebook: softness must be a number"):
        gsw.Codebook.load(tmp_path / "book.json")
    with pytest.raises(gsw.InputError, match="softness must be a number"):
        Codebook(np.eye(2), "channels", -1.0)
