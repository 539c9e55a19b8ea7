"""Outlines of large label images are those that napari draws, in a moment."""

from __future__ import annotations

import numpy as np
import pytest

from napari_gsw.widgets.layers import lazy_labels as module
from napari_gsw.widgets.layers.lazy_labels import draw_outlines

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (40, 50), (61, 33)])
@pytest.mark.parametrize("thickness", [1, 2, 4])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int32])
def test_they_are_naparis(shape, thickness, dtype, monkeypatch):
    utils = pytest.importorskip("napari.layers.labels._labels_utils")
    coarse = RNG.integers(0, 5, (-(-shape[0] // 3), -(-shape[1] // 3)))
    labels = np.kron(coarse, np.ones((3, 3), int))[: shape[0], : shape[1]].astype(dtype)
    monkeypatch.setattr(module, "ROWS", 16)
    drawn = draw_outlines(labels, thickness)
    assert drawn.dtype == dtype
    assert np.array_equal(drawn, utils.get_contours(labels, thickness, 0))


def test_a_view_that_is_not_in_one_piece():
    labels = RNG.integers(0, 3, (20, 30)).astype(np.uint16)
    assert np.array_equal(
        draw_outlines(labels[::2, ::-1], 1), draw_outlines(np.ascontiguousarray(labels[::2, ::-1]), 1)
    )
