"""The compiled conversion of colours against scikit-image's."""

from __future__ import annotations

import numpy as np
import pytest
from skimage.color import rgb2lab
from skimage.data import astronaut

from napari_gsw.core.image import normalized_image as picture_module
from napari_gsw.core.image.normalized_image import normalize_image

RNG = np.random.default_rng(11)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.float64])
def test_lab_of_every_type_is_that_of_scikit_image(dtype):
    rgb = RNG.integers(0, 256, (70, 90, 3), dtype=np.uint8)
    rgb[0, :3] = [[0, 0, 0], [255, 255, 255], [9, 9, 9]]
    given = rgb if dtype == np.uint8 else rgb.astype(dtype) * 257 if dtype == np.uint16 else rgb.astype(dtype) / 255
    assert normalize_image(given).channels == pytest.approx(rgb2lab(rgb), abs=1e-3)


def test_colours_do_not_depend_on_how_many_are_converted_at_once(monkeypatch):
    rgb = astronaut()[:30, :40]
    whole = normalize_image(rgb).channels
    monkeypatch.setattr(picture_module, "SOME", 101)
    assert np.array_equal(normalize_image(rgb).channels, whole)
