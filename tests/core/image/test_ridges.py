"""Dark lines stand out at every place, width and unit; steps, spots and bright lines do not."""

from __future__ import annotations

import numpy as np
import pytest

from napari_gsw.core.image.ridges import compute_curvatures, make_ridge_map


def lines(width=6, dark=60.0, light=180.0):
    image = np.full((64, 80), light)
    image[:, 30 : 30 + width] = dark
    image[20 : 20 + width] = dark
    return image


@pytest.mark.parametrize("width", [4, 6, 9])
def test_dark_lines_of_several_widths_are_ridges(width):
    ridges = make_ridge_map(lines(width))
    assert ridges.dtype == np.float32
    assert ridges.min() >= 0
    assert ridges.max() <= 1
    assert ridges[50, 30 + width // 2] > 0.6
    assert ridges[20 + width // 2, 60] > 0.6
    assert ridges[50:, 50:].max() < 0.1


def test_units_do_not_matter():
    image = lines()
    for other in (image / 255, (257 * image).astype(np.uint16), image.astype(np.uint8), np.stack([image] * 3, -1)):
        assert np.allclose(make_ridge_map(image), make_ridge_map(other.astype(other.dtype)), atol=0.02)


def test_bright_lines_and_steps_are_none():
    bright, step = lines(dark=180.0, light=60.0), np.where(np.arange(80) < 40, 60.0, 180.0) + np.zeros((64, 1))
    dark = compute_curvatures(lines() / 255, 3.5)[0]
    assert compute_curvatures(bright / 255, 3.5)[0][50, 33] < 0.2 * dark[50, 33]
    assert compute_curvatures(step / 255, 3.5)[0][:, 30:50].max() < 0.6 * dark[50, 33]


def test_planes_in_a_volume_and_nothing_in_nothing():
    volume = np.full((24, 24, 24), 180.0)
    volume[:, :, 10:15] = 60
    ridges = make_ridge_map(volume, "ZYX")
    assert ridges[12, 12, 12] > 0.6
    assert ridges[12, 12, 2] < 0.1
    assert not make_ridge_map(np.full((20, 20), 7.0)).any()
