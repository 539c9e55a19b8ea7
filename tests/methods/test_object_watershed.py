"""Objects by a watershed: what the preset for microscopy is compared with."""

from __future__ import annotations

import numpy as np
import pytest

from napari_gsw.core.errors import InputError
from napari_gsw.core.features import network as networks
from napari_gsw.methods import choose, segment
from napari_gsw.research.baselines.object_watershed import (
    NetworkWatershed,
    OtsuWatershed,
    network_watershed,
    otsu_watershed,
)
from napari_gsw.scores.partitions import adjusted_rand
from pictures import cells


def test_otsu_finds_bright_and_dark_objects_and_nothing_where_nothing_is():
    image, truth = cells()
    labels = otsu_watershed(image, OtsuWatershed())
    assert labels.dtype == np.int32
    assert adjusted_rand(labels > 0, truth > 0) > 0.9
    assert adjusted_rand(otsu_watershed(255 - image, OtsuWatershed()) > 0, labels > 0) > 0.99
    assert not otsu_watershed(np.full((9, 9), 3), OtsuWatershed()).any()
    assert len(np.unique(otsu_watershed(image, OtsuWatershed(smallest=10**6)))) == 1
    with pytest.raises(InputError, match="two-dimensional"):
        otsu_watershed(np.zeros((3, 9, 9)), OtsuWatershed(), "ZYX")


@pytest.mark.skipif(not networks.has_onnxruntime(), reason="onnxruntime is not installed")
def test_the_network_and_a_watershed_part_touching_cells():
    image, truth = cells()
    outcome = segment(image, choose("network-watershed", changes={"axes": "YX"}))
    assert adjusted_rand(outcome.labels, truth) > 0.9
    # No border runs between two of the discs: to their middles is a longer way than the usual level.
    parted = segment(image, choose("network-watershed", changes={"axes": "YX", "level": 0.6}))
    assert adjusted_rand(parted.labels, truth) > 0.9
    assert parted.labels.max() == 7
    assert outcome.provenance["method"]["network"] == "shipped"


def test_without_onnxruntime_the_method_says_what_it_needs(monkeypatch):
    monkeypatch.setattr(networks, "has_onnxruntime", lambda: False)
    with pytest.raises(InputError, match=r"napari-gsw\[networks\]"):
        network_watershed(np.zeros((9, 9)), NetworkWatershed())
