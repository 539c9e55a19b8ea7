"""Numbers of clusters: figures 1 and 2, and chains under limits of size."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

import napari_gsw as gsw
from napari_gsw.batch.jobs import JobOptions
from napari_gsw.cli import main
from napari_gsw.research.paper import prior
from napari_gsw.research.paper.experiment import Study

SMALL = np.kron(np.random.default_rng(3).integers(0, 255, (3, 4, 3)), np.ones((24, 24, 1))).astype(np.uint8)


def test_fig1_draws_what_it_says(tmp_path, monkeypatch):
    monkeypatch.setattr(prior, "FIG1_SITES", 100)
    monkeypatch.setattr(prior, "FIG1_QUICK_SWEEPS", 20_000)
    prior.reproduce_fig1(Study(JobOptions(tmp_path, quiet=True), quick=True))
    found = json.loads((tmp_path / "fig1.json").read_text())
    for alpha in (3, 5):
        one = found[f"alpha {alpha}"]
        assert one["exact_mean"] == pytest.approx(np.sum(alpha / (alpha + np.arange(100))), rel=1e-9)
        assert one["simulated_mean"] == pytest.approx(one["exact_mean"], abs=0.35)
        assert one["total_variation"] < 0.05
    with (tmp_path / "fig1.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert sum(float(r["exact"]) for r in rows if r["alpha"] == "3.0") == pytest.approx(1, abs=1e-9)
    assert (tmp_path / "fig1.png").stat().st_size > 5000


def test_fig2_starts_at_the_exact_mean_and_falls(tmp_path, monkeypatch):
    prior.make_graph.cache_clear()
    assert abs(prior.make_graph().n - 1099) < 20
    monkeypatch.setattr(prior, "SITE_SIZE", 3000)  # some 80 sites
    monkeypatch.setattr(prior, "QUICK_BETAS", (0.0, 0.2))
    monkeypatch.setattr(prior, "FIG2_QUICK_SWEEPS", 4000)
    prior.make_graph.cache_clear()
    try:
        prior.reproduce_fig2(Study(JobOptions(tmp_path, quiet=True), quick=True))
    finally:
        prior.make_graph.cache_clear()
    with (tmp_path / "fig2.csv").open() as file:
        rows = list(csv.DictReader(file))
    found = json.loads((tmp_path / "fig2.json").read_text())
    for alpha in (1.0, 3.0, 5.0):
        exact = gsw.DirichletProcess(alpha).expected_clusters(found["sites"])
        mine = {(float(r["beta"]), r["start"]): r for r in rows if float(r["alpha"]) == alpha}
        for start in ("one", "random"):
            free = mine[0.0, start]
            assert float(free["mean_clusters"]) == pytest.approx(exact, abs=5 * float(free["standard_error"]) + 0.05)
            assert float(mine[0.2, start]["mean_clusters"]) < 0.8 * exact
    assert found["without_coupling"]["alpha 1"]["exact_for_1099_sites"] == pytest.approx(7.58, abs=0.005)
    assert found["without_coupling"]["alpha 5"]["exact_for_1099_sites"] == pytest.approx(27.50, abs=0.005)


def test_the_law_of_k_is_met_where_it_is_certain_and_where_it_is_not():
    certain = prior.sample_uncoupled(6, 1.0, 3, 3, 0, 300, 4)
    assert (certain["likely"], certain["mean"]) == ([2, 2], 2.0)
    assert (certain["changes"], certain["distance"]) == ([0] * 4, [0.0] * 4)
    # Two sites, alpha 1: together or apart with probability 1/2 each.
    even = prior.sample_uncoupled(2, 1.0, 1, 2, 0, 4000, 4)
    assert even["likely"] == [1, 2]
    assert even["mean"] == pytest.approx(1.5)
    assert max(even["distance"]) < 0.05
    assert min(even["changes"]) > 1000


def test_chains_on_the_photograph_are_those_of_segment(monkeypatch):
    monkeypatch.setattr(prior, "astronaut", lambda: (SMALL, None))
    row = prior.run_on_photograph({"min_size": 2}, 5, 20)
    result = gsw.segment(SMALL, preset="paper", seed=5, chains=4, sweeps=20, min_size=2)
    assert row["sites"] == result.problem.n
    assert row["k"] == [trace.n_clusters[10:].mean() for trace in result.traces]
    assert row["log_posterior"] == [trace.log_posterior[10:].mean() for trace in result.traces]
    assert row["agree"] == result.diagnosis.agree


def test_a_quick_run_is_not_taken_for_a_full_one(tmp_path, monkeypatch):
    monkeypatch.setattr(prior, "LIMITS", ((2, 1, 2),))
    monkeypatch.setattr(prior, "PHOTOGRAPH_CASES", {})
    monkeypatch.setattr(prior, "LIMITS_SWEEPS", 300)
    changes = []
    for quick in (["--quick"], []):
        assert main(["reproduce", "limits", *quick, "-o", str(tmp_path), "-q", "--jobs", "1"]) == 0
        content = json.loads((tmp_path / "limits.json").read_text())
        changes.append(max(content["law"][0]["changes"]))
    assert content["sweeps"] == 300
    assert changes[0] < 200
    assert changes[1] != changes[0]


@pytest.mark.slow
def test_both_tables_are_written_by_the_command(tmp_path, monkeypatch):
    monkeypatch.setattr(prior, "LIMITS", prior.LIMITS[:2])
    monkeypatch.setattr(prior, "PHOTOGRAPH_CASES", {"none": {}})
    assert main(["reproduce", "limits", "shown", "--quick", "-o", str(tmp_path), "-q", "--jobs", "1"]) == 0
    content = json.loads((tmp_path / "limits.json").read_text())
    assert [(row["n"], row["low"], row["high"]) for row in content["law"]] == [(60, 5, 6), (40, 7, 10)]
    assert list(content["photograph"]) == ["none"]
    assert list(json.loads((tmp_path / "shown.json").read_text())["presets"]) == ["general", "photo"]
