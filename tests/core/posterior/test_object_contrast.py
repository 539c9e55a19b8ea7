"""Contrast of objects and background."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage
from skimage.measure import label

import napari_gsw as gsw
from napari_gsw.core.posterior.objects import (
    EdgeContrast,
    find_contrasting_objects,
    find_flat_objects,
    keep_objects,
    measure_contrast,
)

EVERYWHERE = np.ones((128, 128), bool)


def keep_distinct(objects, light, distinction, clamps=None):
    contrast = measure_contrast(objects, np.ones(objects.shape, bool), light)
    return keep_objects(objects, find_contrasting_objects(contrast, distinction, objects.ndim), clamps)


def cells(noise=2.0, blur=1.0, scale=1):
    """Nine disks of height 50, and their signal."""
    rows, columns = np.indices((128 * scale, 128 * scale)) / scale
    inside = np.hypot(rows % 42 - 21, columns % 42 - 21) < 10
    light = ndimage.gaussian_filter(50.0 * inside, blur) + noise * np.random.default_rng(0).normal(size=inside.shape)
    return label(inside, connectivity=1).astype(np.int32), light.astype(np.float32)


def field(width=3.0):
    """A smooth Gaussian field of unit variance, and its parts above 1."""
    smooth = ndimage.gaussian_filter(np.random.default_rng(1).normal(size=(512, 512)), width)
    light = (smooth / smooth.std()).astype(np.float32)
    return label(light > 1, connectivity=1).astype(np.int32), light


def test_cells_stand_out_and_a_gaussian_field_does_not():
    objects, light = cells()
    assert measure_contrast(objects, EVERYWHERE, light).distinction > 10
    assert find_contrasting_objects(measure_contrast(objects, EVERYWHERE, light), 6.3, 2)[1:].all()
    objects, light = field()
    measured = measure_contrast(objects, np.ones(light.shape, bool), light)
    assert measured.distinction == pytest.approx(2 / np.sqrt(np.pi) * 2.6, rel=0.2)
    assert not find_contrasting_objects(measured, 6.3, 2).any()


def test_a_piece_of_noise_among_cells_goes():
    objects, light = cells()
    objects[2:7, 2:7] = objects.max() + 1
    kept = np.unique(keep_distinct(objects, light, 6.3))
    assert kept.tolist() == list(range(objects.max()))
    clamps = np.zeros_like(objects)
    clamps[4, 4] = 1
    assert keep_distinct(objects, light, 6.3, clamps)[4, 4] == objects.max()


def test_cells_out_of_focus_do_not_stand_out():
    assert keep_distinct(*cells(scale=3), 1.0).max() == 9
    objects, light = cells(noise=0.01, blur=15.0, scale=3)
    assert not keep_distinct(objects, light, 1.0).any()


def test_sums_of_parts_are_those_of_all():
    objects, light = cells()
    total = measure_contrast(objects, EVERYWHERE, light)
    parts = [(slice(0, 50), slice(None)), (slice(50, None), slice(None))]
    many = [measure_contrast(objects, EVERYWHERE, light, core=part, pieces=objects[part]) for part in parts]
    height = len(total.border)
    for name in EdgeContrast._fields:
        values = [getattr(one, name) for one in many]
        if values[0].ndim == 2:
            values = [np.pad(v, ((0, height - len(v)), (0, 0))) for v in values]
        assert np.sum(values, axis=0) == pytest.approx(getattr(total, name))


def test_noise_that_is_read_in_blocks_has_no_objects_either():
    import dask.array as da

    noise = np.random.default_rng(5).normal(100, 20, (192, 192)).astype(np.float32)
    lazy = da.from_array(noise, chunks=(64, 64))
    assert gsw.segment(lazy, preset="microscopy", objects="classical", sweeps=20, block_pixels=2**12).n_regions <= 1


def test_pieces_of_an_object_in_several_blocks_are_judged_together():
    _, light = cells()
    objects = np.where(np.arange(128) < 64, 1, 2)[:, np.newaxis] * (cells()[0] > 0)
    halves = [(slice(0, 64), slice(None)), (slice(64, None), slice(None))]
    measured = []
    for part in halves:
        pieces = (objects[part] > 0).astype(np.int32)
        measured.append(measure_contrast(objects.astype(np.int32), EVERYWHERE, light, core=part, pieces=pieces))
    assert find_flat_objects(np.array([0, 0]), measured, 6.3, 2).tolist() == [False]
    assert find_flat_objects(np.array([0, 1]), measured, 1e6, 2).tolist() == [True, True]


def test_nuclei_of_a_volume_that_shine_into_each_others_planes_stand_out_and_noise_does_not():
    """All 51 nuclei of a stack were taken for background: the limit was that of pictures."""
    rng, shape = np.random.default_rng(0), (24, 48, 48)
    places, light, objects = np.indices(shape), np.zeros(shape), np.zeros(shape, np.int32)
    for number in range(1, 25):
        centre = (rng.random(3) * shape).reshape(3, 1, 1, 1)
        ball = (((places - centre) * np.array([2, 1, 1]).reshape(3, 1, 1, 1)) ** 2).sum(axis=0) < 42
        objects[ball], light[ball] = number, rng.uniform(30, 160)
    light = (ndimage.gaussian_filter(light, (1.5, 1, 1)) + rng.normal(0, 6, shape)).astype(np.float32)
    everywhere = np.ones(shape, bool)
    measured = measure_contrast(objects, everywhere, light)
    assert measured.distinction < 6.3
    assert find_contrasting_objects(measured, 6.3, 3).sum() > 12
    for width in (1, 2, 4):
        smooth = ndimage.gaussian_filter(rng.normal(size=shape), width)
        noise = (smooth / smooth.std()).astype(np.float32)
        parts = label(noise > 0.7, connectivity=1).astype(np.int32)
        assert not find_contrasting_objects(measure_contrast(parts, everywhere, noise), 6.3, 3).any()
