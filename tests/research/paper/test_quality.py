"""The experiment that reports the quality of the presets."""

from __future__ import annotations

import json

import numpy as np
import pytest

from napari_gsw.cli import main
from napari_gsw.research.paper.quality import detection_area


def test_area_is_the_chance_that_an_error_is_less_sure():
    rng = np.random.default_rng(0)
    right, wrong = rng.integers(0, 9, (2, 12)).astype(float)
    pairs = [(w, r, a, b) for a, w in enumerate(wrong) for b, r in enumerate(right)]
    expected = sum(w * r * ((a > b) + (a == b) / 2) for w, r, a, b in pairs) / (right.sum() * wrong.sum())
    assert detection_area(right, wrong) == pytest.approx(expected)


@pytest.mark.slow
def test_quick_run_on_built_in_pictures(tmp_path):
    assert main(["reproduce", "quality", "--quick", "--limit", "1", "-o", str(tmp_path), "-q"]) == 0
    (found,) = json.loads((tmp_path / "quality.json").read_text())["data"].values()
    assert found["images"] == 1
    for name in ("general", "photo", "felzenszwalb"):
        assert 0 <= found["methods"][name]["mean"]["covering"] <= 1
    for name in ("general", "photo"):
        known = found["methods"][name]["uncertainty"]
        assert 0 <= known["errors_detection_area"] <= 1
        assert len(known["calibrated"]["said"]) == len(known["calibrated"]["people"])
        levels, mean = found["methods"][name]["levels"], found["methods"][name]["mean"]
        assert levels["covering"]["ois"] >= levels["covering"]["ods"] > 0
        assert 0 <= mean["covering"] <= 1
    rivals = {"mutex-watershed", "multicut", "gasp"} & set(found["methods"])
    for name in rivals:  # as many as are installed, on the sites of photo
        assert found["methods"][name]["mean"]["n_regions"] >= 1
    assert (tmp_path / "quality.md").read_text().startswith("### ")
    assert (tmp_path / "quality.png").exists()
