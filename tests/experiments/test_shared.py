"""The experiment on paint that is understood in other images."""

from __future__ import annotations

import json

import numpy as np
import pytest

from napari_gsw.cli import main
from napari_gsw.research.paper import shared
from napari_gsw.research.paper.shared import SharedTask


def test_each_label_is_painted_once_and_where_it_is():
    truth = [np.ones((9, 9), np.int32), np.full((9, 9), 2, np.int32)]
    truth[0][:, 6:] = 2
    paint = shared.painted(truth)
    assert set(np.unique(paint[0])) == {0, 1}
    assert set(np.unique(paint[1])) == {0, 2}
    for labels, dabs in zip(truth, paint, strict=True):
        assert np.array_equal(dabs[dabs > 0], labels[dabs > 0])
        assert 9 <= np.count_nonzero(dabs) <= 25


def test_each_part_that_hangs_together_through_the_images_is_painted(monkeypatch):
    monkeypatch.setattr(shared, "SMALLEST_PART", 20)
    truth = [np.ones((9, 30), np.int32) for _ in range(2)]
    for labels in truth:
        labels[:, 8:20] = 2
    truth[0][0, 0] = 3  # too small for a dab
    paint = np.stack(shared.painted_parts(truth))
    dabs, count = shared.ndimage.label(paint)
    assert count == 3  # the first label is in two places
    assert sorted(int(paint[dabs == k].max()) for k in range(1, 4)) == [1, 1, 2]
    assert np.array_equal(paint[paint > 0], np.stack(truth)[paint > 0])


def test_paint_is_understood_in_the_other_images():
    assert shared.understood(SharedTask("two colours", shared.SHARED, 0))["right"] >= shared.RIGHT
    image = shared.two_colours(np.random.default_rng(0), np.array([[90], [160]]))
    assert {labels.shape for labels in image.truth} == {one.shape for one in image.images} == {shared.SHAPE}


@pytest.mark.slow
def test_from_end_to_end(tmp_path, monkeypatch):
    monkeypatch.setattr(shared, "SCENES", {"two greys": shared.SCENES["two greys"]})
    assert main(["reproduce", "shared", "--quick", "-o", str(tmp_path), "-q", "--jobs", "1"]) == 0
    moves = json.loads((tmp_path / "shared.json").read_text())["moves"]
    assert list(moves) == list(shared.MOVES)
    for scenes in moves.values():
        assert list(scenes) == ["two greys"]
        assert scenes["two greys"]["runs"] == 1
        assert scenes["two greys"]["right"] == (scenes["two greys"]["pixels"] >= shared.RIGHT)
