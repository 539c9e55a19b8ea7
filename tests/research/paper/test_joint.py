"""Joint segmentation of several images, and the states of a run."""

from __future__ import annotations

import json

import numpy as np
import pytest

import napari_gsw as gsw
from napari_gsw.cli import main
from napari_gsw.research.paper import joint

SMALL = np.kron(np.random.default_rng(3).integers(0, 255, (3, 4, 3)), np.ones((24, 24, 1))).astype(np.uint8)


def test_each_label_is_painted_once_and_where_it_is():
    truth = [np.ones((9, 9), np.int32), np.full((9, 9), 2, np.int32)]
    truth[0][:, 6:] = 2
    paint = joint.paint_labels(truth)
    assert set(np.unique(paint[0])) == {0, 1}
    assert set(np.unique(paint[1])) == {0, 2}
    for labels, dabs in zip(truth, paint, strict=True):
        assert np.array_equal(dabs[dabs > 0], labels[dabs > 0])
        assert 9 <= np.count_nonzero(dabs) <= 25


def test_each_part_that_hangs_together_through_the_images_is_painted(monkeypatch):
    monkeypatch.setattr(joint, "MIN_PART_PIXELS", 20)
    truth = [np.ones((9, 30), np.int32) for _ in range(2)]
    for labels in truth:
        labels[:, 8:20] = 2
    truth[0][0, 0] = 3  # too small for a dab
    paint = np.stack(joint.paint_parts(truth))
    dabs, count = joint.ndimage.label(paint)
    assert count == 3  # the first label is in two places
    assert sorted(int(paint[dabs == k].max()) for k in range(1, 4)) == [1, 1, 2]
    assert np.array_equal(paint[paint > 0], np.stack(truth)[paint > 0])


def test_paint_is_understood_in_the_other_images():
    assert joint.score_joint("two colours", joint.SHARED, 0, 0)["right"] >= joint.MIN_RIGHT
    images, truth = joint.make_two_colours(((90,), (160,)), np.random.default_rng(0))
    assert {labels.shape for labels in truth} == {image.shape for image in images} == {joint.SHAPE}


@pytest.mark.slow
def test_from_end_to_end(tmp_path, monkeypatch):
    monkeypatch.setattr(joint, "SCENES", {"two greys": joint.SCENES["two greys"]})
    assert main(["reproduce", "shared", "--quick", "-o", str(tmp_path), "-q", "--jobs", "1"]) == 0
    moves = json.loads((tmp_path / "shared.json").read_text())["moves"]
    assert list(moves) == list(joint.MOVES)
    for scenes in moves.values():
        assert list(scenes) == ["two greys"]
        assert scenes["two greys"]["runs"] == 1
        assert scenes["two greys"]["right"] == (scenes["two greys"]["pixels"] >= joint.MIN_RIGHT)


def test_the_states_are_those_of_the_run_and_the_best_is_above_all(monkeypatch):
    monkeypatch.setattr(joint, "astronaut", lambda: (SMALL, None))
    row = joint.compare_states("general", 1, {"general": 40})
    result = gsw.segment(SMALL, preset="general", seed=1, sweeps=40)
    assert row["sites"] == result.problem.n
    beta = result.problem.beta
    assert row["couplings"] == {"least": beta.min(), "most": beta.max(), "repel": (beta < 0).mean()}
    (trace,) = result.traces
    assert row["best"]["log_posterior"] == pytest.approx(max(trace.log_posterior.max(), row["last"]["log_posterior"]))
    assert row["last"]["log_posterior"] == pytest.approx(trace.log_posterior[-1])
    assert row["last"]["clusters"] == trace.n_clusters[-1]
    assert row["late"]["mean"] == pytest.approx(trace.log_posterior[row["burn_in"] :].mean())
    assert row["consensus"]["clusters"] == result.n_clusters
    assert row["regions"]["clusters"] == len(np.unique(result.regions))
    assert 0 <= row["bits"] <= np.log2(result.problem.n)
