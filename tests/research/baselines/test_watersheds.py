"""Watersheds of a threshold, of network maps and of the distance to ridges."""

from __future__ import annotations

import numpy as np
import pytest

from napari_gsw.core.errors import InputError
from napari_gsw.core.features import network as networks
from napari_gsw.methods import choose, segment
from napari_gsw.research.baselines.watersheds import (
    DistanceWatershed,
    NetworkWatershed,
    OtsuWatershed,
    segment_distance_watershed,
    segment_network_watershed,
    segment_otsu_watershed,
)
from napari_gsw.sample_data import sample
from napari_gsw.scores.partitions import adjusted_rand
from pictures import cells


def test_otsu_finds_bright_and_dark_objects():
    image, truth = cells()
    labels = segment_otsu_watershed(image, OtsuWatershed())
    assert labels.dtype == np.int32
    assert adjusted_rand(labels > 0, truth > 0) > 0.9
    assert adjusted_rand(segment_otsu_watershed(255 - image, OtsuWatershed()) > 0, labels > 0) > 0.99
    assert not segment_otsu_watershed(np.full((9, 9), 3), OtsuWatershed()).any()
    assert len(np.unique(segment_otsu_watershed(image, OtsuWatershed(smallest=10**6)))) == 1
    with pytest.raises(InputError, match="two-dimensional"):
        segment_otsu_watershed(np.zeros((3, 9, 9)), OtsuWatershed(), "ZYX")


@pytest.mark.skipif(not networks.has_onnxruntime(), reason="onnxruntime is not installed")
def test_network_splits_touching_cells():
    image, truth = cells()
    outcome = segment(image, choose("network-watershed", changes={"axes": "YX"}))
    assert adjusted_rand(outcome.labels, truth) > 0.9
    # No border runs between two of the discs: to their middles is a longer way than the usual level.
    parted = segment(image, choose("network-watershed", changes={"axes": "YX", "level": 0.6}))
    assert adjusted_rand(parted.labels, truth) > 0.9
    assert parted.labels.max() == 7
    assert outcome.provenance["method"]["network"] == "shipped"


def test_names_missing_onnxruntime(monkeypatch):
    monkeypatch.setattr(networks, "has_onnxruntime", lambda: False)
    with pytest.raises(InputError, match=r"napari-gsw\[networks\]"):
        segment_network_watershed(np.zeros((9, 9)), NetworkWatershed())


def test_distance_watershed_finds_cells_between_membranes():
    image, truth = sample("membranes")
    labels = segment_distance_watershed(image, DistanceWatershed(threshold=0.9, smoothing=8.0))
    assert adjusted_rand(labels[truth > 0], truth[truth > 0]) > 0.5
