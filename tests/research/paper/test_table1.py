"""Table 1 of the paper, the command, and the images that are made on the spot."""

from __future__ import annotations

import json

import numpy as np
import pytest

from napari_gsw.batch.jobs import JobOptions
from napari_gsw.cli import main
from napari_gsw.research.evaluation.data_sets import spread
from napari_gsw.research.evaluation.evaluate import MEASURES
from napari_gsw.research.paper import prior, table1
from napari_gsw.research.paper.experiment import MOSAICS, Study, make_mosaics


def fake_rows(rand):
    lines = zip(*rand.values(), strict=True)
    return [{n: dict.fromkeys(MEASURES, r) for n, r in zip(rand, line, strict=True)} for line in lines]


def test_the_best_method_and_the_p_values():
    rng = np.random.default_rng(0)
    good = rng.uniform(0.7, 0.9, 40)
    found = table1.summarize(
        fake_rows({"a": good, "b": good - 0.05 - 0.01 * rng.random(40), "c": good + rng.normal(-0.001, 0.02, 40)})
    )
    best = found["best"]
    assert best in ("a", "c")
    assert found["methods"][best]["p_value"] is None
    assert found["methods"]["b"]["p_value"] < 1e-6
    assert found["methods"]["a" if best == "c" else "c"]["p_value"] > 0.01
    assert found["methods"]["a"]["median"]["covering"] == pytest.approx(np.median(good))
    assert table1.summarize([])["methods"] == {}


@pytest.mark.slow
def test_table1_from_end_to_end(tmp_path, monkeypatch):
    pytest.importorskip("cv2")
    monkeypatch.setattr(table1, "QUICK_IMAGES", 2)
    monkeypatch.setattr(table1, "QUICK_SWEEPS", 12)
    table1.reproduce(Study(JobOptions(tmp_path, quiet=True), quick=True))
    found = json.loads((tmp_path / "table1.json").read_text())["data"][MOSAICS]
    assert set(found["table"]["methods"]) == set(table1.METHODS)
    assert set(found["mixing"]["methods"]) == set(table1.MIXING)
    assert found["table"]["images"] == 2
    assert (tmp_path / "table1.md").read_text().count("| T_min 9 |") == 1
    head, *rows = (tmp_path / "table1.csv").read_text().splitlines()
    assert len(rows) == len(table1.METHODS) + len(table1.MIXING)
    assert "median_covering" in head
    assert (tmp_path / "table1.png").exists()


def test_the_papers_own_figures_stand_beside_ours():
    values = dict.fromkeys(MEASURES, 0.5) | {"n_regions": 11.0}
    parts = {
        "table": {"images": 1, "methods": {"T_min 0": {"median": values, "mean": values, "p_value": None}}},
        "mixing": {"images": 0, "methods": {}},
    }
    text, (head, rows) = table1._tabulate({"Berkeley": parts})
    assert "| T_min 0 | **0.5000** (0.7882) | – | 11 (12) |" in text
    row = dict(zip(head, rows[0], strict=True))
    assert (row["paper_median_rand"], row["median_n_regions"]) == (0.7882, 11.0)


def test_methods_are_of_the_same_superpixels_and_differ_in_their_moves():
    choices = table1.choose_methods([*table1.METHODS, *table1.MIXING], 30)
    settings = {name: choice.settings for name, choice in choices.items()}
    assert settings["T_min 3"].min_size == settings["T_min 3, the paper's moves"].min_size == 3
    assert settings["T_min 9, the paper's moves, lambda 3"].lam == 3
    assert settings["T_min 9, whole-cluster moves"].regroups == 1
    assert {settings[name].sweeps for name in ("rdd-crp", "dd-crp", *table1.POTTS)} == {30}
    assert len({one.site_count for one in settings.values()}) == 1
    assert settings["T_min 0"].consensus == "none"  # the best state


def test_reproduce_names_what_it_wrote_and_refuses_the_unknown(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(prior, "FIG1_QUICK_SWEEPS", 200)
    assert main(["reproduce", "fig1", "--quick", "--jobs", "1", "-o", str(tmp_path / "out")]) == 0
    assert "fig1.csv, fig1.json, fig1.png" in capsys.readouterr().out
    assert main(["reproduce", "fig9", "-o", str(tmp_path)]) == 2
    assert "there is no experiment 'fig9'" in capsys.readouterr().err
    assert main(["reproduce", "table1", "--bsds", str(tmp_path / "nowhere"), "-o", str(tmp_path)]) == 2


def test_built_in_pictures(tmp_path):
    made = make_mosaics(tmp_path)
    first = made[0].read()
    assert first.image.shape[:2] == first.human_labels[0].shape
    assert [m.name for m in make_mosaics(tmp_path)] == [m.name for m in made]
    assert spread(made, 3) == [made[0], made[4], made[8]]
