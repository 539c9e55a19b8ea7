"""A large layer of labels looks as napari's does, and is one to napari."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("napari")
from napari.layers import Labels as NapariLabels

from napari_gsw.widgets.layers import lazy_labels
from napari_gsw.widgets.layers.lazy_labels import Labels

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("contour", [0, 1, 2])
def test_it_shows_what_naparis_shows(contour, monkeypatch):
    data = np.kron(RNG.integers(0, 6, (10, 12)), np.ones((7, 7), int)).astype(np.uint16)
    monkeypatch.setattr(lazy_labels, "MANY", 10)
    drawn = []
    inner = lazy_labels.draw_outlines
    monkeypatch.setattr(lazy_labels, "draw_outlines", lambda *given: drawn.append(1) or inner(*given))
    ours, theirs = Labels(data.copy()), NapariLabels(data.copy())
    for layer in (ours, theirs):
        layer.contour = contour
        layer.refresh()
    assert np.array_equal(ours._slice.image.view, theirs._slice.image.view)
    assert bool(drawn) == (contour > 0)
    ours.data_setitem((np.array([3]), np.array([4])), 9)  # of a part, napari makes them
    theirs.data_setitem((np.array([3]), np.array([4])), 9)
    assert np.array_equal(ours._slice.image.view, theirs._slice.image.view)
    assert ours._type_string == "labels"


@pytest.mark.parametrize("contour", [1, lazy_labels.THICK])
def test_whatever_is_written_is_outlined(contour, viewer, monkeypatch):
    """By us, by napari's brush, by a script."""
    data = np.kron(RNG.integers(0, 6, (10, 12)), np.ones((7, 7), int)).astype(np.uint16)
    monkeypatch.setattr(lazy_labels, "MANY", 10)
    ours, theirs = lazy_labels.add_labels(viewer, data.copy(), contour=contour), NapariLabels(data.copy())
    theirs.contour = contour

    def assert_same():
        assert np.array_equal(ours._slice.image.view, theirs._slice.image.view)

    assert_same()
    for layer in (ours, theirs):
        layer.data[20:23, 30:44] = 8
        layer.refresh()
    assert_same()
    for layer in (ours, theirs):
        layer.paint((30, 40), 9)
    assert_same()


def test_a_thumbnail_shows_what_was_written_since(viewer):
    layer = lazy_labels.add_labels(viewer, np.zeros((40, 50), np.uint16))
    before = layer.thumbnail.copy()
    layer.data[...] = 3
    layer.update_thumbnail()
    assert not np.array_equal(layer.thumbnail, before)


def test_inks_come_round_and_0_is_not_drawn():
    colours = lazy_labels.make_colormap("white", "yellow").map(np.arange(5, dtype=np.uint16))
    assert np.array_equal(colours[:, 3], [0, 1, 1, 1, 1])
    assert np.array_equal(colours[1], colours[3])
    assert np.allclose(colours[2, :3], [1, 1, 0])
