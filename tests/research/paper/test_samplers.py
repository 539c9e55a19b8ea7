"""Chains compared by sweeps and by time: figure 4, and the search."""

from __future__ import annotations

import csv
import json

import pytest

from napari_gsw.batch.jobs import JobOptions
from napari_gsw.research.paper import samplers
from napari_gsw.research.paper.experiment import Study, make_mosaics


def hand_made_run(values, seconds):
    return {"value": values, "clusters": 3, "seconds": seconds}


def test_gains_by_sweeps_and_by_the_clock():
    """Gibbs reaches -90 in 4 s; lambda 10 is at -80 after 2 s and at -70 after 8 s."""
    n = samplers.CHUNK
    runs = {
        f"paper/one/{name}": hand_made_run([-100.0] * n + [-90.0] * n, [2.0, 4.0]) for name in ("0", "1", "5", "20")
    }
    runs["paper/one/10"] = hand_made_run([-80.0] * n + [-70.0] * n, [2.0, 8.0])
    rows = {"a": {"sites": 10, "runs": runs}}
    assert samplers.compute_gains(rows, "paper", "one", by_time=False)["10"].tolist() == pytest.approx([100 * 20 / 90])
    assert samplers.compute_gains(rows, "paper", "one", by_time=True)["10"].tolist() == pytest.approx([100 * 10 / 90])
    assert samplers.compute_gains(rows, "paper", "one", by_time=True)["1"].tolist() == [0.0]


def test_fig4_from_end_to_end(tmp_path, monkeypatch):
    monkeypatch.setattr(samplers, "FIG4_QUICK_IMAGES", 2)
    monkeypatch.setattr(samplers, "QUICK_SWEEPS", {"paper": 12, "strong": 7})
    samplers.reproduce_fig4(Study(JobOptions(tmp_path, quiet=True), quick=True))
    found = json.loads((tmp_path / "fig4.json").read_text())
    assert found["images"] == 2
    assert found["paper, from one"]["by_sweeps"]["0"]["median_increase_percent"] == 0
    wins = found["strong, from random"]["gsw_wins_by_sweeps"]
    assert 0 <= wins["both"] <= min(wins["gibbs"], wins["swendsen-wang"]) <= 2
    assert (tmp_path / "fig4.csv").read_text().count("\n") == 1 + 2 * 2 * (5 + 3)
    assert {"fig4a.png", "fig4b.png"} <= {p.name for p in tmp_path.iterdir()}


def test_the_same_start_for_every_sampler(tmp_path, monkeypatch):
    """Chains must differ in their bonds alone: without any sweep all stand at the same log posterior."""
    starts = []
    monkeypatch.setattr(samplers, "run_chain", lambda chain, sweeps: starts.append(float(chain.sums.value[0])))
    samplers.run_samplers(make_mosaics(tmp_path)[0], 0, {"paper": 1, "strong": 1})
    five, three = len(samplers.SAMPLERS["paper"]), len(samplers.SAMPLERS["strong"])
    for group in (starts[:five], starts[five : 2 * five], starts[2 * five : 2 * five + three], starts[-three:]):
        assert len(set(group)) == 1
    assert len(set(starts)) == 4


def test_gaps_are_to_the_best_that_any_way_has_found(monkeypatch):
    monkeypatch.setattr(samplers, "CHUNK", 1)
    run = {"seconds": [0.5, 1.0, 2.5], "value": [-9.0, -4.0, -5.0]}
    assert [samplers.best_after(run, t) for t in (0.0, 0.9, 1.0, 3.0)] == [-9.0, -9.0, -4.0, -4.0]
    record = {"paper": [[{"best": [-9.0, -2.0]}], [{"best": [-8.0, -1.0]}]]}
    assert samplers.find_gaps([record], "paper").tolist() == [[[[8.0, 1.0]], [[7.0, 0.0]]]]


def test_search_from_end_to_end(tmp_path, monkeypatch):
    monkeypatch.setattr(samplers, "QUICK_SECONDS", 0.05)
    monkeypatch.setattr(samplers, "SEARCHED", ("paper",))
    monkeypatch.setattr(samplers, "SAMPLES", ("mosaic",))
    samplers.reproduce_search(Study(JobOptions(tmp_path, quiet=True), quick=True))
    found = json.loads((tmp_path / "search.json").read_text())["paper"]
    assert min(found[way]["polished"] for way in samplers.WAYS) == 0
    assert all(found[way]["at_0.1"] >= found[way]["at_1"] >= -0.001 for way in samplers.WAYS)
    with (tmp_path / "search.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["way"] for row in rows] == list(samplers.WAYS)
    assert all(int(row["sweeps"]) >= samplers.CHUNK and int(row["clusters"]) >= 1 for row in rows)
    replicas = samplers.TEMPERING["replicas"]
    assert [len(row["swap_rate"].split()) for row in rows] == [0] * 4 + [replicas - 1] * 2
    assert (tmp_path / "search.png").exists()
