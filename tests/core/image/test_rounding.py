"""Pictures of few grey levels, as they may have been before they were rounded."""

from __future__ import annotations

import numpy as np
import pytest

from napari_gsw.core.image.focus import MAX_LEVELS, dequantize


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
