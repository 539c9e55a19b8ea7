"""Plain shapes out of focus get their borders back; everything else stays what it is."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage
from skimage import data

import napari_gsw as gsw
from napari_gsw.core.image.focus import deblur, estimate_blur, toggle_contrast
from napari_gsw.core.image.normalized_image import normalize_image
from napari_gsw.core.sites.superpixels import make_superpixels
from napari_gsw.research.evaluation.easy_images import EasyImage


def channels_of(easy: EasyImage):
    scene = easy.read()
    return normalize_image(scene.image, scene.axes, calm=True).channels


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
    channels = normalize_image(image, "YXS" if image.ndim == 3 else "YX", calm=True).channels
    assert deblur(channels) is channels


@pytest.mark.parametrize("channels", [np.zeros((200, 200, 3), np.float32), np.zeros((4, 90, 1), np.float32)])
def test_what_has_no_borders_stays_as_it_is(channels):
    assert deblur(channels) is channels


def test_noise_is_no_picture_out_of_focus():
    noise = ndimage.gaussian_filter(np.random.default_rng(0).normal(0, 100, (256, 256)), 2.0)
    assert estimate_blur(noise[..., np.newaxis].astype(np.float32) * 10) is None


def test_a_step_is_half_way_up_the_slope():
    """Against a slow and obvious way: each pixel takes the nearer of the two ends that it sees."""
    rng = np.random.default_rng(1)
    light = ndimage.gaussian_filter(rng.normal(0, 60, (30, 34)), 2.0).astype(np.float32)
    steps = toggle_contrast(light, 3)
    for row in range(30):
        for column in range(34):
            rows = np.clip(np.arange(row - 3, row + 4), -30, 59)
            columns = np.clip(np.arange(column - 3, column + 4), -34, 67)
            rows, columns = np.where(rows < 0, -1 - rows, rows), np.where(columns < 0, -1 - columns, columns)
            rows, columns = np.where(rows > 29, 59 - rows, rows), np.where(columns > 33, 67 - columns, columns)
            seen = light[np.ix_(rows, columns)]
            low, high, own = seen.min(), seen.max(), light[row, column]
            expected = own if high - low <= 6 else low if own - low < high - own else high
            assert steps[row, column] == expected


def test_superpixels_keep_to_one_side_of_a_border_out_of_focus():
    easy = EasyImage("stripes", blur=2.0)
    truth, seen = easy.read().human_labels[0], normalize_image(easy.read().image, "YX", calm=True)

    def mixed(**changes):
        sites = make_superpixels(seen, gsw.preset("general", **changes))
        counts = np.array([np.bincount(truth[sites == s], minlength=9).max() for s in range(1, sites.max() + 1)])
        return 1 - counts.sum() / truth.size

    assert mixed() < 0.5 * mixed(refocus="no")


def test_the_blocks_of_an_image_are_never_refocused(tmp_path):
    """Whether an image is out of focus cannot be told by one of its blocks."""
    zarr = pytest.importorskip("zarr")
    image = EasyImage("stripes", size=256, blur=2.0, noise=0).read().image
    lazy = zarr.create_array(tmp_path / "a.zarr", shape=image.shape, chunks=(128, 128), dtype=image.dtype)
    lazy[:] = image
    auto, no = (gsw.prepare(lazy, gsw.preset("general", block_pixels=2**12, refocus=r)) for r in ("auto", "no"))
    assert auto.n == no.n
    assert np.array_equal(auto.edges, no.edges)
