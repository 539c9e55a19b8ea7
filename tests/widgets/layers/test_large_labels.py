"""A large layer of labels looks as napari's does, and is one to napari."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("napari")
from napari.layers import Labels as NapariLabels

from napari_gsw.widgets.layers import large_labels
from napari_gsw.widgets.layers.large_labels import Labels

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("contour", [0, 1, 2])
def test_it_shows_what_naparis_shows(contour, monkeypatch):
    data = np.kron(RNG.integers(0, 6, (10, 12)), np.ones((7, 7), int)).astype(np.uint16)
    monkeypatch.setattr(large_labels, "MANY", 10)
    drawn = []
    inner = large_labels.outlines
    monkeypatch.setattr(large_labels, "outlines", lambda *given: drawn.append(1) or inner(*given))
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


@pytest.mark.parametrize("contour", [1, large_labels.THICK])
def test_outlines_that_were_made_before_follow_whatever_is_written(contour, monkeypatch):
    """By us, by napari's brush and by a script; those that were handed over stay as they are."""
    data = np.kron(RNG.integers(0, 6, (10, 12)), np.ones((7, 7), int)).astype(np.uint16)
    monkeypatch.setattr(large_labels, "MANY", 10)
    made = large_labels.outlined(data.copy())
    kept = made.outlines.copy()
    ours, theirs = Labels(data.copy(), contour=contour, outlined=made), NapariLabels(data.copy())
    theirs.contour = contour

    def assert_same():
        assert np.array_equal(ours._slice.image.view, theirs._slice.image.view)
        assert np.array_equal(made.outlines, kept)

    assert_same()
    for change in ("brush", "script", "back"):
        for layer in (ours, theirs):
            if change == "brush":
                layer.paint((3, 4), 9)
            else:
                layer.data[20:23, 30:44] = 8
                layer.data[...] = data if change == "back" else layer.data
                layer.refresh()
        assert_same()
    ours.outlined = made  # as when a frame is drawn once more
    ours.refresh()
    assert_same()


def test_what_changes_little_is_not_outlined_again(monkeypatch):
    """A stroke on a large image froze the window until all of its outlines were made again."""
    from napari_gsw.core.sites import outlines as module

    data = np.kron(RNG.integers(0, 6, (40, 50)), np.ones((7, 7), int)).astype(np.uint16)
    monkeypatch.setattr(large_labels, "MANY", 10)
    layer = Labels(data.copy(), contour=large_labels.THICK, outlined=large_labels.outlined(data.copy()))
    sizes = []
    inner = module.outlines

    def watched(labels, thickness):
        sizes.append(labels.size)
        return inner(labels, thickness)

    for place in (module, large_labels):
        monkeypatch.setattr(place, "outlines", watched)
    layer.refresh()
    assert sizes == []
    layer.data[100:104, 50:53] = 7
    layer.refresh()
    assert len(sizes) == 1
    assert sizes[0] < 200


def test_inks_come_round_and_0_is_not_drawn():
    colours = large_labels.inks("white", "yellow").map(np.arange(5, dtype=np.uint16))
    assert np.array_equal(colours[:, 3], [0, 1, 1, 1, 1])
    assert np.array_equal(colours[1], colours[3])
    assert np.allclose(colours[2, :3], [1, 1, 0])
