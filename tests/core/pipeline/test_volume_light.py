"""Volumes whose objects hardly stand out are looked at plane by plane by the network of objects."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

import napari_gsw as gsw
import napari_gsw.core.pipeline.prepare as module
from napari_gsw.core.features.network import predict_slices


def crowd(blur=(2.0, 1.0, 1.0), noise=6.0):
    """Balls that shine into each other's planes, and which pixels are in one."""
    rng, shape = np.random.default_rng(3), (16, 56, 56)
    places, light = np.indices(shape), np.zeros(shape)
    for _ in range(22):
        centre = (rng.random(3) * shape).reshape(3, 1, 1, 1)
        ball = (((places - centre) * np.array([2, 1, 1]).reshape(3, 1, 1, 1)) ** 2).sum(axis=0) < 42
        light[ball] = rng.uniform(60, 160)
    return ndimage.gaussian_filter(light, blur) + rng.normal(100, noise, shape), light > 0


def test_light_of_other_planes_is_not_inside():
    pytest.importorskip("onnxruntime")
    from napari_gsw.core.features.network import load_builtin_network

    volume, truth = crowd()
    steps = []
    inside = predict_slices(volume[..., np.newaxis], load_builtin_network("objects"), 2.0, lambda *at: steps.append(at))
    assert inside.shape == volume.shape
    assert inside.dtype == np.float32
    assert inside[truth].mean() > 2 * inside[~truth].mean()
    assert steps == [(k, len(volume)) for k in range(1, len(volume) + 1)]


@pytest.mark.parametrize("asked", [True, False])
def test_the_network_is_asked_where_objects_hardly_stand_out(asked, monkeypatch):
    """Not where they stand out well: their own light has their borders."""
    pytest.importorskip("onnxruntime")
    volume, _ = crowd()
    limits = {True: (True, False), False: (True, True)}[asked]  # distinct enough for a volume, and for a picture
    monkeypatch.setattr(module, "has_contrast", lambda measured, least, axes: limits[axes == 2])
    stages = []
    given = {"preset": "microscopy", "axes": "ZYX", "sweeps": 20, "seed": 1}
    result = gsw.segment(volume, report=lambda stage, snapshot: stages.append(stage.name) and None, **given)
    assert ("planes" in stages) == asked
    assert ("sha256" in result.provenance["network"]) == asked
    assert ("unused" in result.provenance["network"]) != asked
    classical = gsw.segment(volume, objects="classical", **given)
    assert np.array_equal(result.labels, classical.labels) != asked
    if asked:
        again = gsw.segment(volume, **given)
        assert np.array_equal(result.labels, again.labels)
        assert result.n_regions > 5


@pytest.mark.parametrize("width", [0, 2])
def test_noise_has_no_objects(width):
    noise = ndimage.gaussian_filter(np.random.default_rng(0).normal(size=(16, 48, 48)), width)
    result = gsw.segment(noise, preset="microscopy", axes="ZYX", sweeps=20)
    assert result.n_regions <= 1
    assert result.remark
