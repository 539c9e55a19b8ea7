"""Labels from strokes, measured: halves, tables, p-values and curves, from end to end on mosaics."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import imageio.v3 as iio
import numpy as np
import pytest

from napari_gsw.batch.jobs import JobOptions
from napari_gsw.cli import main
from napari_gsw.research.evaluation.data_sets import Example, list_labelled_folder, list_scribbles
from napari_gsw.research.paper import experiment, scribbles
from napari_gsw.research.paper.experiment import BERKELEY, Study, make_mosaics


def pair(name):
    return Example(name, Path(name.rsplit("_", 1)[0] + ".jpg"), Path(name), "scribbles", Path(name))


def test_halves_are_of_images_and_not_of_pairs():
    halves = scribbles.assign_halves([pair(name) for name in ("b_1", "a_1", "a_2", "c_1")])
    assert halves == {"a_1": "even", "a_2": "even", "b_1": "odd", "c_1": "even"}


def test_the_table_has_means_medians_and_p_values():
    rng = np.random.default_rng(0)
    good = rng.uniform(0.8, 0.95, 30)
    dice = {"general": good, "photo": good[::-1], "watershed": good - 0.05 - 0.01 * rng.random(30), "graph-cut": good}
    scores = {
        f"p{k}": {name: {"dice": values[k], "labels": 2.0, "seconds": 1.0} for name, values in dice.items()}
        for k in range(30)
    }
    table = scribbles.summarize_scores(scores, {f"p{k}": ("even", "odd")[k % 2] for k in range(30)})
    assert [part["pairs"] for part in table.values()] == [30, 15, 15]
    methods = table["all"]["methods"]
    assert methods["general"]["mean"]["dice"] == pytest.approx(good.mean())
    assert methods["watershed"]["median"]["dice"] < np.median(good)
    assert methods["general"]["p_value"]["watershed"]["dice"] < 1e-5
    assert methods["general"]["p_value"]["graph-cut"]["dice"] == 1.0
    assert "p_value" not in methods["watershed"]
    assert scribbles.summarize_scores({}, {})["all"]["methods"] == {}


def test_what_is_wanted_of_each_data_set():
    human = np.repeat(np.arange(12), np.arange(1, 13))[None]
    assert np.array_equal(scribbles.select_wanted(human, "scribbles"), human)
    assert np.array_equal(scribbles.select_wanted(human, "nuclei"), np.where(human > 0, 2, 1))
    berkeley = scribbles.select_wanted(human, BERKELEY)
    assert (berkeley[human == 11] == 1).all()
    assert (berkeley[human == 4] == 8).all()
    assert (berkeley[human < 4] == 0).all()


def test_curves_are_means_over_images():
    rows = {
        "scribbles/photo/a": {"random": {"dice": [0.2, 0.4], "seconds": [1.0, 1.0]}},
        "scribbles/photo/b/c": {"random": {"dice": [0.6, 0.8], "seconds": [2.0, 2.0]}},
        "nuclei/microscopy/a": {"random": {"dice": [1.0, 1.0], "seconds": [1.0, 1.0]}},
    }
    curves = scribbles.summarize_curves(rows)
    assert curves["scribbles"]["photo"]["images"] == 2
    assert curves["scribbles"]["photo"]["choosers"]["random"]["mean"] == pytest.approx([0.4, 0.6])
    assert curves["scribbles"]["photo"]["choosers"]["random"]["seconds"] == 1.5


def test_methods_without_their_package_are_left_out(monkeypatch, capsys):
    monkeypatch.setattr(experiment.importlib.util, "find_spec", lambda name: None if name == "ortools" else name)
    assert experiment.available_methods(("general", "forest", "graph-cut")) == ("general", "forest")
    assert 'graph-cut is left out; it needs: pip install "napari-gsw[interactive]"' in capsys.readouterr().err


@pytest.mark.slow
def test_steering_from_end_to_end(tmp_path, monkeypatch):
    """Mosaics with a robot's strokes, one image of objects, and one with the Berkeley rule."""
    monkeypatch.setattr(scribbles, "QUICK_PAIRS", 2)
    monkeypatch.setattr(scribbles, "OURS", ("general",))
    monkeypatch.setattr(
        scribbles, "CORRECTED", {"scribbles": ("watershed",), BERKELEY: ("watershed",), "nuclei": ("microscopy",)}
    )
    rng = np.random.default_rng(0)
    for kind in ("images", "labels"):
        (tmp_path / "nuclei" / kind).mkdir(parents=True)
    rows, columns = np.ogrid[:80, :90]
    cells = ((rows - 25) ** 2 + (columns - 30) ** 2 < 150) | ((rows - 55) ** 2 + (columns - 65) ** 2 < 150)
    iio.imwrite(
        tmp_path / "nuclei/images/nuclei_1.png", (20 + 150 * cells + rng.normal(0, 4, cells.shape)).astype(np.uint8)
    )
    iio.imwrite(tmp_path / "nuclei/images/membrane_1.png", np.zeros((9, 9), np.uint8))
    for name, labels in (("nuclei_1", cells), ("membrane_1", np.zeros((9, 9)))):
        iio.imwrite(tmp_path / f"nuclei/labels/{name}.png", labels.astype(np.uint8))
    out = tmp_path / "out"
    out.mkdir()
    inputs = {"quick": True, "nuclei": list_labelled_folder(tmp_path / "nuclei")}
    study = Study(JobOptions(out, quiet=True), {BERKELEY: make_mosaics(out)}, **inputs)
    scribbles.reproduce(study)
    assert study.failed == {}
    content = json.loads((out / "steering.json").read_text())
    assert content["table"]["all"]["pairs"] == 2
    assert content["table"]["even"]["pairs"] + content["table"]["odd"]["pairs"] == 2
    assert set(content["table"]["all"]["methods"]["general"]["p_value"]) <= set(scribbles.PEERS)
    assert content["table"]["all"]["methods"]["watershed"]["mean"]["dice"] > 0.5
    assert set(content["curves"]) == {"scribbles", BERKELEY, "nuclei"}
    curve = content["curves"]["nuclei"]["microscopy"]["choosers"]["largest error"]["mean"]
    assert len(curve) == scribbles.QUICK_SCRIBBLES + 1
    assert max(curve) > 0.9
    with (out / "steering_curves.csv").open() as file:
        assert {row["image"] for row in csv.DictReader(file) if row["data"] == "nuclei"} == {"nuclei_1"}
    assert {"steering.md", "steering.csv", "steering.png"} <= {file.name for file in out.iterdir()}
    first = (out / "steering.csv").read_text()
    scribbles.reproduce(study)
    assert (out / "steering.csv").read_text() == first  # nothing is done twice


def test_the_command_takes_scribbles(tmp_path, monkeypatch, capsys):
    data = make_mosaics(tmp_path, with_scribbles=True)
    assert [example.seeds.name for example in data] == [example.truth.name for example in make_mosaics(tmp_path)]
    monkeypatch.setattr(scribbles, "OURS", ())
    monkeypatch.setattr(scribbles, "PEERS", ("watershed",))
    monkeypatch.setattr(scribbles, "CORRECTED", {"scribbles": ("watershed",)} | dict.fromkeys((BERKELEY, "nuclei"), ()))
    words = ["reproduce", "steering", "--quick", "--limit", "3", "--jobs", "1", "-o", str(tmp_path / "out")]
    assert main([*words, "--scribbles", str(tmp_path / "mosaics")]) == 0
    assert json.loads((tmp_path / "out" / "steering.json").read_text())["table"]["all"]["pairs"] == 3
    assert "steering.csv, steering.json, steering.md, steering.png, steering_curves.csv" in capsys.readouterr().out
    assert not (tmp_path / "out" / "mosaics").exists()
    assert len(list_scribbles(tmp_path / "mosaics")) == len(data)
    assert main([*words, "--scribbles", str(tmp_path / "nowhere")]) == 2
