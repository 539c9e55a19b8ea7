"""Noise level of an image, and denoising."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

from napari_gsw.core.image import denoise as module
from napari_gsw.core.image.denoise import denoise, estimate_noise, minimize_total_variation
from napari_gsw.core.image.normalized_image import estimate_range, normalize_image
from napari_gsw.sample_data import astronaut


def step(noise, shape=(60, 80), seed=0):
    """A step of 100 in the middle of the columns."""
    clean = np.where(np.arange(shape[-1]) < shape[-1] // 2, 70.0, 170.0) * np.ones(shape)
    return clean + noise * np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize("noise", [1.0, 5.0, 40.0])
@pytest.mark.parametrize("dtype", [np.float32, np.uint16, np.int16])
def test_estimate_of_white_noise(noise, dtype):
    assert estimate_noise([step(noise, (150, 150))[..., None].astype(dtype)])[0] == pytest.approx(
        noise, rel=0.1, abs=0.1
    )


def test_each_channel_has_its_own_noise():
    image = np.stack((step(2.0), step(20.0, seed=1)), axis=-1)
    assert estimate_noise([image]) == pytest.approx([2.0, 20.0], rel=0.1)


def test_texture_and_ramps_are_not_noise():
    rng = np.random.default_rng(0)
    texture = 300 * ndimage.gaussian_filter(rng.normal(size=(100, 100)), 2.0)
    assert estimate_noise([texture[..., None]])[0] < 0.1 * texture.std()
    assert estimate_noise([np.add.outer(np.arange(50.0), np.arange(40.0))[..., None]])[0] == 0
    assert estimate_noise([np.zeros((1, 1, 1))])[0] == estimate_noise([np.zeros((5, 5, 1))])[0] == 0


def test_slices_of_a_volume_may_be_far_apart():
    volume = step(10.0, (8, 60, 60)) + 500 * (np.arange(8) % 2)[:, None, None]
    assert estimate_noise([volume[..., None]])[0] == pytest.approx(10.0, rel=0.1)


def test_noise_goes_and_edges_stay():
    image = step(25.0)[..., None]
    calm = denoise(image, estimate_noise([image]))
    assert calm[:, 5:30].std() < 0.15 * 25
    # The step is as sharp as it was: nearly all of it lies between two columns.
    assert (calm[:, 41] - calm[:, 38]).mean() > 85
    assert calm[:, :35].mean() == pytest.approx(image[:, :35].mean(), abs=5)


def test_a_volume_is_denoised_along_all_axes():
    volume = step(25.0, (6, 20, 24))[..., None]
    assert denoise(volume, np.array([25.0])).shape == volume.shape
    assert denoise(volume, np.array([25.0]))[:, :, :10].std() < 0.15 * 25


def energy(image, values, weight):
    slopes = [np.diff(image, axis=a, append=np.take(image, [-1], axis=a)) for a in (0, 1)]
    length = np.sqrt(sum((s**2).sum(axis=-1) for s in slopes))
    return float(((image - values) ** 2).sum() / 2 + weight * length.sum())


def test_the_energy_is_minimal():
    from skimage.restoration import denoise_tv_chambolle

    values = step(25.0, (30, 40))[..., None].astype(np.float32) / 25
    ours = np.moveaxis(
        minimize_total_variation(np.ascontiguousarray(np.moveaxis(values, -1, 0))[:, np.newaxis], 0.5, 200), 0, -1
    )[0]
    theirs = denoise_tv_chambolle(values.astype(float), weight=0.5, max_num_iter=5000, eps=1e-9, channel_axis=-1)
    assert energy(ours, values, 0.5) <= 1.002 * energy(theirs, values, 0.5)


@pytest.mark.parametrize("shape", [(1100, 30, 1), (3, 700, 20, 2)])
def test_slabs_do_not_change_the_result(shape, monkeypatch):
    values = np.random.default_rng(0).normal(size=shape) * 25 + 100 * (np.arange(shape[-2]) > 9)[:, None]
    apart = denoise(values, np.full(shape[-1], 25.0))
    monkeypatch.setattr(module, "SLAB", 10_000)
    assert np.array_equal(apart, denoise(values, np.full(shape[-1], 25.0)))
    monkeypatch.setattr(module, "SLAB", 64)
    monkeypatch.setattr(module, "HALO", 2)  # too few rows beyond
    assert not np.array_equal(apart, denoise(values, np.full(shape[-1], 25.0)))


def test_a_large_image_reports_progress_and_can_be_stopped(monkeypatch):
    monkeypatch.setattr(module, "SLAB", 16)
    said = []
    denoise(step(25.0)[..., None], np.array([25.0]), lambda done, total: said.append((done, total)))
    assert said == [(1, 4), (2, 4), (3, 4), (4, 4)]

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        denoise(step(25.0)[..., None], np.array([25.0]), stop)


def test_a_photograph_without_noise_stays_as_it_is():
    image = astronaut()[0][:200, :200]
    assert np.array_equal(normalize_image(image, reduce_noise=True).channels, normalize_image(image).channels)


def test_pale_colours_are_stretched_and_keep_their_hue():
    pale = np.full((20, 20, 3), (200, 60, 60), np.uint8)
    pale[:, 10:] += 4
    plain, calm = normalize_image(pale).channels, normalize_image(pale, reduce_noise=True).channels
    contrast = [np.linalg.norm(p[0, 15] - p[0, 5]) for p in (plain, calm)]
    assert contrast[1] > 5 * contrast[0]
    assert np.abs(calm.mean(axis=(0, 1)) - plain.mean(axis=(0, 1))).max() < 3
    span = estimate_range([np.full((5, 5, 3), 7, np.uint8)], True, reduce_noise=True)[0]
    assert (span.low[0], span.high[0]) == (0, 255)  # what is constant has nothing to be stretched


def test_one_huge_pixel_does_not_overflow():
    values = np.full((7, 5, 1), 1e-31)
    values[3, 2] = 1e9
    calm = denoise(values, np.array([1e-32]))
    assert np.isfinite(calm).all()


@pytest.mark.parametrize("unit", [1e-60, 1e-40, 1e39, 1e97])
def test_values_that_need_float64(unit):
    ordinary = step(10.0)[..., None]
    calm = denoise(ordinary * unit, np.array([10.0 * unit]))
    np.testing.assert_allclose(calm / unit, denoise(ordinary, np.array([10.0])), rtol=1e-5)
    small, large = (normalize_image(ordinary[..., 0] * factor, reduce_noise=True).channels for factor in (1.0, unit))
    np.testing.assert_allclose(small, large, atol=1e-3)
