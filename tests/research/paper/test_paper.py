"""The paper's figures and its table: exact where a law is known, and made by one command."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

import napari_gsw as gsw
from napari_gsw.batch.jobs import JobOptions
from napari_gsw.cli import main
from napari_gsw.core.model.priors import cluster_distribution
from napari_gsw.research.evaluation.data_sets import spread
from napari_gsw.research.evaluation.evaluate import MEASURES
from napari_gsw.research.paper import fig1, fig2, fig4, table1
from napari_gsw.research.paper.experiment import MOSAICS, Study, make_mosaics, make_photograph_tiles


@pytest.mark.parametrize("alpha", [0.3, 3.0, 5.0])
def test_the_exact_number_of_clusters(alpha):
    """Stirling numbers against the general recursion of the package, and against the sum of harmonic terms."""
    law = fig1.exact_distribution(60, alpha)
    assert law == pytest.approx(cluster_distribution(gsw.DirichletProcess(alpha), 60), abs=1e-12)
    for n in (60, 1000):
        mean = np.arange(n + 1) @ fig1.exact_distribution(n, alpha)
        assert mean == pytest.approx(np.sum(alpha / (alpha + np.arange(n))), rel=1e-9)


def test_fig1_draws_what_it_says(tmp_path, monkeypatch):
    monkeypatch.setattr(fig1, "N", 100)
    monkeypatch.setattr(fig1, "QUICK_SWEEPS", 20_000)
    fig1.reproduce(Study(JobOptions(tmp_path, quiet=True), quick=True))
    found = json.loads((tmp_path / "fig1.json").read_text())
    for alpha in (3, 5):
        one = found[f"alpha {alpha}"]
        assert one["simulated_mean"] == pytest.approx(one["exact_mean"], abs=0.35)
        assert one["total_variation"] < 0.05
    with (tmp_path / "fig1.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert sum(float(r["exact"]) for r in rows if r["alpha"] == "3.0") == pytest.approx(1, abs=1e-9)
    assert (tmp_path / "fig1.png").stat().st_size > 5000


def test_fig2_starts_at_the_exact_mean_and_falls(tmp_path, monkeypatch):
    monkeypatch.setattr(fig2, "SITE_SIZE", 3000)  # some 80 sites
    monkeypatch.setattr(fig2, "QUICK_BETAS", (0.0, 0.2))
    monkeypatch.setattr(fig2, "QUICK_SWEEPS", 4000)
    fig2.make_graph.cache_clear()
    try:
        fig2.reproduce(Study(JobOptions(tmp_path, quiet=True), quick=True))
    finally:
        fig2.make_graph.cache_clear()
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


def test_the_graph_of_fig2_has_about_as_many_sites_as_the_papers():
    fig2.make_graph.cache_clear()
    assert abs(fig2.make_graph().n - 1099) < 20


def hand_made_run(values, seconds):
    return {"value": values, "clusters": [3] * len(seconds), "seconds": seconds}


def test_gains_by_sweeps_and_by_the_clock():
    """Gibbs reaches -90 in 4 s; lambda 10 is at -80 after 2 s and at -70 after 8 s."""
    chunk = [-100.0] * fig4.CHUNK
    runs = {f"paper/one/{n}": hand_made_run([*chunk, *[-90.0] * fig4.CHUNK], [2.0, 4.0]) for n in ("0", "1", "5", "20")}
    runs["paper/one/10"] = hand_made_run([*[-80.0] * fig4.CHUNK, *[-70.0] * fig4.CHUNK], [2.0, 8.0])
    rows = {"a": {"sites": 10, "runs": runs}}
    assert fig4.compute_gains(rows, "paper", "one", by_time=False)["10"].tolist() == pytest.approx([100 * 20 / 90])
    assert fig4.compute_gains(rows, "paper", "one", by_time=True)["10"].tolist() == pytest.approx([100 * 10 / 90])
    assert fig4.compute_gains(rows, "paper", "one", by_time=True)["1"].tolist() == [0.0]


def test_a_win_is_over_both_rivals():
    def row(gibbs, classical, gsw_value):
        values = zip(fig4.SAMPLERS["strong"], (gibbs, classical, gsw_value), strict=True)
        return {"sites": 1, "runs": {f"strong/one/{n}": hand_made_run([v] * fig4.CHUNK, [1.0]) for n, v in values}}

    rows = {"a": row(1, 2, 3), "b": row(1, 3, 2), "c": row(3, 1, 2), "d": row(2, 2, 2)}
    assert fig4.count_wins(rows, "one", by_time=False) == {"gibbs": 2, "swendsen-wang": 2, "both": 1}


def test_fig4_from_end_to_end(tmp_path, monkeypatch):
    monkeypatch.setattr(fig4, "QUICK_IMAGES", 2)
    monkeypatch.setattr(fig4, "QUICK_SWEEPS", {"paper": 12, "strong": 7})
    study = Study(JobOptions(tmp_path, quiet=True), quick=True)
    fig4.reproduce(study)
    assert len(study.done) == 2
    for row in study.done.values():
        assert len(row["runs"]) == 2 * len(fig4.LAMBDAS) + 2 * len(fig4.SAMPLERS["strong"])
        for name, run in row["runs"].items():
            assert len(run["value"]) == (12 if name.startswith("paper") else 7)
            assert len(run["seconds"]) == len(run["clusters"]) == -(-len(run["value"]) // fig4.CHUNK)
    found = json.loads((tmp_path / "fig4.json").read_text())
    assert found["paper, from one"]["by_sweeps"]["0"]["median_increase_percent"] == 0
    assert {"gibbs", "swendsen-wang", "both"} == set(found["strong, from random"]["gsw_wins_by_sweeps"])
    assert {"fig4.csv", "fig4a.png", "fig4b.png"} <= {p.name for p in tmp_path.iterdir()}


def test_the_same_start_for_every_sampler(tmp_path, monkeypatch):
    """Chains must differ in their bonds alone: without any sweep all stand at the same log posterior."""
    starts = []
    true_start = fig4.start_chain
    monkeypatch.setattr(fig4, "start_chain", lambda *a: starts.append(true_start(*a)) or starts[-1])
    monkeypatch.setattr(fig4, "step", lambda chain, sweeps: np.zeros((sweeps, 2)))
    example = make_photograph_tiles(tmp_path)[0]
    fig4.run_samplers(example, {"paper": 1, "strong": 1}, 0)
    values = [float(chain.sums.value[0]) for chain in starts]
    five, three = len(fig4.LAMBDAS), len(fig4.SAMPLERS["strong"])
    for group in (values[:five], values[five : 2 * five], values[2 * five : 2 * five + three], values[-three:]):
        assert len(set(group)) == 1
    assert len(set(values)) == 4


def fake_rows(rand):
    lines = zip(*rand.values(), strict=True)
    return [{n: dict.fromkeys(MEASURES, r) for n, r in zip(rand, line, strict=True)} for line in lines]


def test_the_best_method_and_the_p_values():
    rng = np.random.default_rng(0)
    good = rng.uniform(0.7, 0.9, 40)
    found = table1.summarize(
        fake_rows({"a": good, "b": good - 0.05 - 0.01 * rng.random(40), "c": good + rng.normal(-0.001, 0.02, 40)}),
        ("a", "b", "c"),
    )
    best = found["best"]
    assert best in ("a", "c")
    assert found["methods"][best]["p_value"] is None
    assert found["methods"]["b"]["p_value"] < 1e-6
    assert found["methods"]["a" if best == "c" else "c"]["p_value"] > 0.01
    assert found["methods"]["a"]["median"]["covering"] == pytest.approx(np.median(good))


@pytest.mark.slow
def test_table1_from_end_to_end(tmp_path, monkeypatch):
    pytest.importorskip("cv2")
    monkeypatch.setattr(table1, "QUICK_IMAGES", 2)
    monkeypatch.setattr(table1, "QUICK_SWEEPS", 12)
    table1.reproduce(Study(JobOptions(tmp_path, quiet=True), quick=True))
    found = json.loads((tmp_path / "table1.json").read_text())["data"][MOSAICS]
    assert set(found["table"]["methods"]) == {*table1.PAPER_METHODS, *table1.FURTHER}
    assert set(found["mixing"]["methods"]) == set(table1.MIXING)
    assert found["table"]["images"] == 2
    text = (tmp_path / "table1.md").read_text()
    assert text.count("| T_min 9 |") == 1
    assert {"table1.csv", "table1.png"} <= {p.name for p in tmp_path.iterdir()}


def test_the_papers_own_figures_stand_beside_ours():
    one = {"median": dict.fromkeys(MEASURES, 0.5) | {"n_regions": 11.0}, "mean": {}, "p_value": 0.2}
    text = table1.format_markdown(
        {"Berkeley": {"table": {"images": 1, "best": "T_min 0", "methods": {"T_min 0": one}}, "mixing": {"images": 0}}}
    )
    assert "| T_min 0 | **0.5000** (0.7882) | 0.200 | 11 (12) |" in text


def test_size_limits_are_kept_in_the_table(tmp_path):
    """T_min is a setting of the chain, not a filter afterwards."""
    problem = gsw.prepare(make_mosaics(tmp_path)[0].read().image, preset="paper", site_size=60)
    for size in (3, 9):
        labels = table1.find_best_labels(problem, {"min_size": size, "sweeps": 30}, 0)
        sites = problem.sites - 1
        first = np.unique(sites, return_index=True)[1]
        assert np.unique(labels.ravel()[first], return_counts=True)[1].min() >= size


def test_reproduce_names_what_it_wrote_and_refuses_the_unknown(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(fig1, "QUICK_SWEEPS", 200)
    assert main(["reproduce", "fig1", "--quick", "--jobs", "1", "-o", str(tmp_path / "out")]) == 0
    assert "fig1.csv, fig1.json, fig1.png" in capsys.readouterr().out
    assert main(["reproduce", "fig9", "-o", str(tmp_path)]) == 2
    assert "there is no experiment 'fig9'" in capsys.readouterr().err
    assert main(["reproduce", "table1", "--bsds", str(tmp_path / "nowhere"), "-o", str(tmp_path)]) == 2


def test_built_in_pictures(tmp_path):
    tiles = make_photograph_tiles(tmp_path)
    assert len({t.name for t in tiles}) == len(tiles) >= 6
    made = make_mosaics(tmp_path)
    first = made[0].read()
    assert first.image.shape[:2] == first.human_labels[0].shape
    assert [m.name for m in make_mosaics(tmp_path)] == [m.name for m in made]
    assert spread(made, 3) == [made[0], made[4], made[8]]
