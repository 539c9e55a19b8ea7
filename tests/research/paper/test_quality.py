"""The experiment that reports the quality of the presets."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.special import expit

from napari_gsw.cli import main
from napari_gsw.research.paper import quality


def test_area_is_the_chance_that_an_error_is_less_sure():
    rng = np.random.default_rng(0)
    score, wrong, length = rng.integers(0, 5, 20) / 5, rng.random(20) < 0.4, rng.integers(1, 9, 20).astype(float)
    pairs = [(i, j) for i in np.flatnonzero(wrong) for j in np.flatnonzero(~wrong)]
    ahead = [length[i] * length[j] * ((score[i] > score[j]) + (score[i] == score[j]) / 2) for i, j in pairs]
    expected = sum(ahead) / sum(length[i] * length[j] for i, j in pairs)
    assert quality.detection_area(score, wrong, length) == pytest.approx(expected)


def test_the_curve_is_that_of_the_annotators():
    odds = np.random.default_rng(0).normal(size=(2, 5000))
    human = expit(0.3 + 0.6 * odds[0] + 0.1 * odds[1])
    one = np.ones(5000)
    edges = np.stack((odds[0], 1 - expit(odds[1]), one, human, one, one))
    assert quality.fit_curve(edges) == pytest.approx([0.3, 0.6, 0.1], abs=0.005)
    bins = quality.bin_by_probability(np.array([0.52, 0.58]), np.array([0.5, 0.7]), np.ones(2))
    assert bins["calibration_error"] == pytest.approx(0.05)


@pytest.mark.slow
def test_quick_run_on_built_in_pictures(tmp_path):
    assert main(["reproduce", "quality", "--quick", "--limit", "2", "-o", str(tmp_path), "-q"]) == 0
    (found,) = json.loads((tmp_path / "quality.json").read_text())["data"].values()
    assert found["images"] == 2
    for name in ("general", "photo", "felzenszwalb"):
        assert 0 <= found["methods"][name]["mean"]["covering"] <= 1
    for name in ("general", "photo"):
        known = found["methods"][name]["uncertainty"]
        assert 0 <= known["errors_detection_area"] <= 1
        assert len(found["curve"]) == 3
        assert len(known["calibrated"]["said"]) == len(known["calibrated"]["people"])
        levels, mean = found["methods"][name]["levels"], found["methods"][name]["mean"]
        assert levels["covering"]["ois"] >= levels["covering"]["ods"] > 0
        assert 0 <= mean["covering"] <= 1
    rivals = {"mutex-watershed", "multicut", "gasp"} & set(found["methods"])
    for name in rivals:  # as many as are installed, on the sites of photo
        assert found["methods"][name]["mean"]["n_regions"] >= 1
    assert (tmp_path / "quality.md").read_text().startswith("### ")
    assert (tmp_path / "quality.png").exists()
