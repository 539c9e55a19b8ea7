"""Plain shapes out of focus get their borders back; everything else stays what it is."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage
from skimage import data

import napari_gsw as gsw
from napari_gsw.core.image.focus import MAX_LEVELS, deblur, dequantize, estimate_blur, gaussian_blur, toggle_contrast
from napari_gsw.core.image.normalized_image import normalize_image
from napari_gsw.core.sites.superpixels import make_superpixels
from napari_gsw.research.evaluation.easy_images import EasyImage


def channels_of(easy: EasyImage):
    scene = easy.read()
    return normalize_image(scene.image, scene.axes, reduce_noise=True).channels


@pytest.mark.parametrize("blur", [1.0, 2.0, 3.0])
@pytest.mark.parametrize("shape", ["disks", "stripes"])
def test_the_width_of_the_blur_is_told(shape, blur):
    assert estimate_blur(channels_of(EasyImage(shape, blur=blur, noise=10))) == pytest.approx(blur, abs=0.5)


def test_a_sharp_picture_stays_as_it_is():
    channels = channels_of(EasyImage("disks", noise=0))
    assert deblur(channels) is channels


@pytest.mark.parametrize("name", ["astronaut", "coffee", "chelsea", "camera", "coins"])
def test_a_photograph_stays_as_it_is(name):
    image = getattr(data, name)()
    channels = normalize_image(image, "YXS" if image.ndim == 3 else "YX", reduce_noise=True).channels
    assert deblur(channels) is channels


@pytest.mark.parametrize("channels", [np.zeros((200, 200, 3), np.float32), np.zeros((4, 90, 1), np.float32)])
def test_what_has_no_borders_stays_as_it_is(channels):
    assert deblur(channels) is channels


def test_noise_is_no_picture_out_of_focus():
    noise = ndimage.gaussian_filter(np.random.default_rng(0).normal(0, 100, (256, 256)), 2.0)
    assert estimate_blur(noise[..., np.newaxis].astype(np.float32) * 10) is None


def test_a_step_is_half_way_up_the_slope():
    """Against a slow and obvious way: each pixel takes the nearer of the extremes around it."""
    image = ndimage.gaussian_filter(np.random.default_rng(1).normal(0, 60, (30, 34)), 2.0).astype(np.float32)
    steps = toggle_contrast(image, 3)
    for (y, x), value in np.ndenumerate(image):
        window = image[max(0, y - 3) : y + 4, max(0, x - 3) : x + 4]
        low, high = window.min(), window.max()
        expected = value if high - low <= 6 else low if value - low < high - value else high
        assert steps[y, x] == expected


def test_superpixels_keep_to_one_side_of_a_border_out_of_focus():
    easy = EasyImage("stripes", blur=2.0)
    truth, seen = easy.read().human_labels[0], normalize_image(easy.read().image, "YX", reduce_noise=True)

    def mixed(**changes):
        sites = make_superpixels(seen, gsw.preset("general", **changes))
        counts = np.array([np.bincount(truth[sites == s], minlength=9).max() for s in range(1, sites.max() + 1)])
        return 1 - counts.sum() / truth.size

    assert mixed() < 0.5 * mixed(refocus="no")


def test_the_blocks_of_an_image_are_never_refocused(tmp_path):
    """One block of an image cannot tell if the image is out of focus."""
    zarr = pytest.importorskip("zarr")
    image = EasyImage("stripes", size=256, blur=2.0, noise=0).read().image
    lazy = zarr.create_array(tmp_path / "a.zarr", shape=image.shape, chunks=(128, 128), dtype=image.dtype)
    lazy[:] = image
    auto, no = (gsw.prepare(lazy, gsw.preset("general", block_pixels=2**12, refocus=r)) for r in ("auto", "no"))
    assert auto.n == no.n
    assert np.array_equal(auto.edges, no.edges)


@pytest.mark.parametrize("width", [0.75, 1.0, 1.125, 2.25])
@pytest.mark.parametrize("shape", [(40, 51), (32, 9)])
def test_blur_is_that_of_scipy(width, shape):
    light = np.random.default_rng(3).normal(50, 20, shape).astype(np.float32)
    ours = gaussian_blur(light, width)
    assert ours.dtype == np.float32
    np.testing.assert_allclose(ours, ndimage.gaussian_filter(light, width), atol=1e-3)


def slope(levels, border):
    """A slope across so many levels, and a border of so many beyond it, rounded to whole levels."""
    light = np.linspace(0, levels, 80)[np.newaxis] + np.zeros((40, 1))
    light[:, 60:] += border
    return np.rint(light).astype(np.uint8), light


@pytest.mark.parametrize("levels", [1.0, 2.0])
def test_a_slope_has_no_steps_and_a_border_stays(levels):
    rounded, light = slope(levels, 5)
    smooth = dequantize(rounded)
    assert np.array_equal(np.rint(np.clip(smooth, rounded - 0.499, rounded + 0.499)), rounded)
    steps = np.abs(np.diff(smooth, axis=1))
    assert steps[:, :58].max() < 0.2
    assert steps[:, 59].min() > 4
    assert np.abs(smooth - light).mean() < np.abs(rounded - light).mean()


def test_plain_sides_stay_as_they_are():
    image = np.zeros((30, 30, 3), np.uint8)
    image[10:20, 10:20] = 5
    assert np.array_equal(dequantize(image), image)


@pytest.mark.parametrize("image", [np.arange(400).reshape(20, 20), np.zeros((9, 9)), np.eye(5, dtype=bool)])
def test_many_levels_and_what_was_not_rounded_are_given_back(image):
    assert image.dtype != int or np.ptp(image) > MAX_LEVELS
    assert dequantize(image) is image
