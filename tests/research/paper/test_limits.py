"""The experiments behind the tables of the page on the model."""

from __future__ import annotations

import json

import numpy as np
import pytest

import napari_gsw as gsw
from napari_gsw.cli import main
from napari_gsw.research.paper import limits

SMALL = np.kron(np.random.default_rng(3).integers(0, 255, (3, 4, 3)), np.ones((24, 24, 1))).astype(np.uint8)


def test_the_law_of_k_is_met_where_it_is_certain_and_where_it_is_not():
    certain = limits.compare_with_exact(6, 3, 3, 300, 0)
    assert certain == {"likely": [2, 2], "mean": 2.0, "changes": [0] * 4, "distance": [0.0] * 4}
    # Two sites, alpha 1: together or apart with probability 1/2 each.
    even = limits.compare_with_exact(2, 1, 2, 4000, 0)
    assert even["likely"] == [1, 2]
    assert even["mean"] == pytest.approx(1.5)
    assert max(even["distance"]) < 0.05
    assert min(even["changes"]) > 1000


def test_chains_on_the_photograph_are_those_of_segment(monkeypatch):
    monkeypatch.setattr(limits, "astronaut", lambda: (SMALL, None))
    row = limits.run_on_photograph({"min_size": 2}, 20, 5)
    result = gsw.segment(SMALL, preset="paper", seed=5, chains=4, sweeps=20, min_size=2)
    assert row["sites"] == result.problem.n
    assert row["k"] == [trace.n_clusters[10:].mean() for trace in result.traces]
    assert row["changes"] == [int((np.diff(trace.n_clusters[10:]) != 0).sum()) for trace in result.traces]
    assert row["log_posterior"] == [trace.log_posterior[10:].mean() for trace in result.traces]
    assert row["agree"] == result.diagnosis.agree


@pytest.mark.slow
def test_a_quick_run_is_not_taken_for_a_full_one(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "CASES", ((2, 1, 2),))
    monkeypatch.setattr(limits, "PHOTOGRAPH_CASES", {})
    monkeypatch.setattr(limits, "SWEEPS", 300)
    changes = []
    for quick in (["--quick"], []):
        assert main(["reproduce", "limits", *quick, "-o", str(tmp_path), "-q", "--jobs", "1"]) == 0
        content = json.loads((tmp_path / "limits.json").read_text())
        changes.append(max(content["law"][0]["changes"]))
    assert content["sweeps"] == 300
    assert changes[0] < 200 < 300
    assert changes[1] != changes[0]


@pytest.mark.slow
def test_both_are_written_by_the_command(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "CASES", limits.CASES[:2])
    monkeypatch.setattr(limits, "PHOTOGRAPH_CASES", dict(list(limits.PHOTOGRAPH_CASES.items())[:1]))
    assert main(["reproduce", "limits", "shown", "--quick", "-o", str(tmp_path), "-q", "--jobs", "1"]) == 0
    content = json.loads((tmp_path / "limits.json").read_text())
    assert [(row["n"], row["low"], row["high"]) for row in content["law"]] == [(60, 5, 6), (40, 7, 10)]
    assert list(content["photograph"]) == ["none"]
    assert list(json.loads((tmp_path / "shown.json").read_text())["presets"]) == ["general", "photo"]
