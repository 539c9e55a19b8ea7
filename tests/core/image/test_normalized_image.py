"""Images of every kind become channels in perceptual units."""

from __future__ import annotations

import numpy as np
import pytest
from skimage.color import rgb2lab
from skimage.data import astronaut

import napari_gsw as gsw
from napari_gsw.core.image import normalized_image as module
from napari_gsw.core.image.normalized_image import normalize_image

RNG = np.random.default_rng(0)


def test_rgb_becomes_lab_and_alpha_is_ignored():
    rgb = astronaut()[:40, :50]
    rgba = np.concatenate((rgb, RNG.integers(0, 255, (40, 50, 1), dtype=np.uint8)), axis=-1)
    seen = normalize_image(rgb)
    assert seen.rgb
    assert seen.channels == pytest.approx(rgb2lab(rgb).astype(np.float32), abs=1e-3)
    assert np.array_equal(seen.channels, normalize_image(rgba).channels)
    assert np.array_equal(seen.luminance, seen.channels[..., 0])


@pytest.mark.parametrize(
    "dtype", [np.uint8, np.uint16, np.int16, np.int32, np.uint32, np.int64, np.float32, np.float64]
)
def test_any_type_and_range_is_stretched_to_the_same(dtype):
    values = np.linspace(0, 100, 60 * 60).reshape(60, 60)
    image = (values + (0 if np.dtype(dtype).kind == "u" else -50)).astype(dtype)
    seen = normalize_image(image)
    assert not seen.rgb
    assert seen.channels.shape == (60, 60, 1)
    assert (seen.channels.min(), seen.channels.max()) == (0, 100)
    assert seen.channels[..., 0] == pytest.approx(values, abs=2.0)


def test_boolean_images_and_rgb_floats():
    assert normalize_image(np.eye(6, dtype=bool)).channels.max() == 100
    rgb = astronaut()[:20, :20]
    exact = normalize_image(rgb).channels
    assert normalize_image(rgb / 255.0).channels == pytest.approx(exact, abs=1e-2)
    assert normalize_image(rgb.astype(np.uint16) * 257).channels.shape == exact.shape


@pytest.mark.parametrize(
    ("shape", "axes", "space", "channels"),
    [
        ((8, 9), "auto", (8, 9), 1),
        ((8, 9, 3), "auto", (8, 9), 3),
        ((8, 9, 4), "auto", (8, 9), 3),
        ((8, 9, 2), "auto", (8, 9), 2),
        ((8, 9, 7), "auto", (8, 9, 7), 1),
        ((5, 8, 9, 3), "auto", (5, 8, 9), 3),
        ((7, 8, 9), "CYX", (8, 9), 7),
        ((8, 9, 3), "ZYX", (8, 9, 3), 1),
        ((8, 9, 3), "YXC", (8, 9), 3),
        ((2, 5, 8, 9), "CZYX", (5, 8, 9), 2),
        ((9, 8, 5), "xyz", (9, 8, 5), 1),
        ((8, 9, 2), "YXS", (8, 9), 1),
    ],
)
def test_axes(shape, axes, space, channels):
    seen = normalize_image(RNG.integers(0, 255, shape, dtype=np.uint8), axes)
    assert seen.shape == space
    assert seen.channels.shape == (*space, channels)


def test_a_constant_image_is_black():
    assert not normalize_image(np.full((4, 4), 7)).channels.any()


def bad(value):
    image = np.ones((4, 4))
    image[1, 2] = value
    return image


@pytest.mark.parametrize(
    ("image", "axes", "words"),
    [
        (bad(np.nan), "auto", "1 pixels that are NaN or infinite"),
        (bad(np.inf), "auto", "NaN or infinite"),
        (np.zeros((0, 5)), "auto", "empty"),
        (np.zeros((4, 4), complex), "auto", "must hold numbers"),
        (np.zeros(5), "auto", "axes must be given"),
        (np.zeros((2, 3, 4, 5)), "auto", "axes must be given .* CZYX"),
        (np.zeros((4, 4)), "YXC", "axes must have 2 letters"),
        (np.zeros((4, 4, 4)), "TYX", "axes must be auto or Y, X"),
    ],
)
def test_images_that_cannot_be_used(image, axes, words):
    with pytest.raises(gsw.InputError, match=words):
        normalize_image(image, axes)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.float64])
def test_lab_of_every_type_is_that_of_scikit_image(dtype):
    rgb = RNG.integers(0, 256, (70, 90, 3), dtype=np.uint8)
    rgb[0, :3] = [[0, 0, 0], [255, 255, 255], [9, 9, 9]]
    given = rgb if dtype == np.uint8 else rgb.astype(dtype) * 257 if dtype == np.uint16 else rgb.astype(dtype) / 255
    assert normalize_image(given).channels == pytest.approx(rgb2lab(rgb), abs=1e-3)


def test_colours_do_not_depend_on_how_many_are_converted_at_once(monkeypatch):
    rgb = astronaut()[:30, :40]
    whole = normalize_image(rgb).channels
    monkeypatch.setattr(module, "LAB_PIXELS", 101)
    assert np.array_equal(normalize_image(rgb).channels, whole)
