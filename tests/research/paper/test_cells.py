"""Nuclei and membranes by folds."""

from __future__ import annotations

import json

import imageio.v3 as iio
import numpy as np
import pytest

from napari_gsw.batch.jobs import JobOptions
from napari_gsw.cli import main
from napari_gsw.research.evaluation.data_sets import list_labelled_folder
from napari_gsw.research.paper import experiment, quality
from napari_gsw.research.paper.experiment import Study
from napari_gsw.research.training.couplings import membrane_examples
from napari_gsw.sample_data import sample


@pytest.fixture
def nuclei(tmp_path):
    """A folder with the four quarters of our sample."""
    image, truth = sample("nuclei")
    for place in ("images", "labels"):
        (tmp_path / "nuclei" / place).mkdir(parents=True)
    rows, columns = (side // 2 for side in truth.shape)
    for k, corner in enumerate(np.ndindex(2, 2)):
        part = tuple(slice(c * side, (c + 1) * side) for c, side in zip(corner, (rows, columns), strict=True))
        iio.imwrite(tmp_path / "nuclei" / "images" / f"{k}.png", image[part])
        iio.imwrite(tmp_path / "nuclei" / "labels" / f"{k}.png", truth[part].astype(np.uint8))
    return tmp_path / "nuclei"


@pytest.fixture
def sections(tmp_path):
    """A folder with sections of two groups, and a picture of another kind."""
    for place in ("images", "labels"):
        (tmp_path / "sections" / place).mkdir(parents=True)
    light, truth = sample("membranes")
    for name in ("membrane_00", "membrane_01", "membrane_10", "nuclei_00"):
        iio.imwrite(tmp_path / "sections" / "images" / f"{name}.png", light)
        iio.imwrite(tmp_path / "sections" / "labels" / f"{name}.png", truth.astype(np.uint8))
    return tmp_path / "sections"


def test_from_end_to_end(nuclei, sections, tmp_path, capsys):
    out = tmp_path / "out"
    words = ["reproduce", "cells", "--quick", "--nuclei", str(nuclei), "--membranes", str(sections)]
    assert main([*words, "-o", str(out), "--jobs", "1"]) == 0
    assert "may have learnt" in capsys.readouterr().err
    content = json.loads((out / "cells.json").read_text())["data"]
    for data_set, ours in (("nuclei", "microscopy"), ("membranes", "membranes")):
        assert content[data_set]["pictures"] == 2
        assert content[data_set]["held_out"] is False
        assert content[data_set]["methods"][ours]["all"]["mean"]["adjusted_rand"] > 0.5
    pooled = content["nuclei"]["methods"]["otsu-watershed"]["all"]["pooled"]
    assert 0 < pooled["f1_70"] <= pooled["f1_50"] <= 1
    halves = content["nuclei"]["methods"]["microscopy"]
    mean = np.mean([halves[half]["mean"]["ap_50"] for half in ("even", "odd")])
    assert halves["all"]["mean"]["ap_50"] == pytest.approx(mean)


def test_without_data_there_is_a_sentence(tmp_path, capsys):
    assert main(["reproduce", "cells", "-o", str(tmp_path), "--jobs", "1"]) == 0
    assert "--nuclei or --membranes" in capsys.readouterr().err


def test_no_picture_is_judged_by_what_has_seen_it(nuclei, sections, tmp_path, monkeypatch):
    """Pictures of a fold use what was learnt once without it."""
    learnt = []

    def learn(*arguments):
        learnt.append(arguments[-2:])

    monkeypatch.setattr(quality, "learn_objects", learn)
    monkeypatch.setattr(quality, "learn_membranes", learn)
    (tmp_path / "networks").mkdir()
    for k in range(quality.NUCLEI_FOLDS):
        (tmp_path / "networks" / f"fold{k}.npz").touch()
    study = Study(JobOptions(tmp_path))
    monkeypatch.setattr(experiment, "available_methods", lambda names: tuple(names))
    examples = list_labelled_folder(nuclei)
    choices, folds = quality.choose_for_nuclei(examples, study)
    assert list(folds.values()) == [0, 1, 2, 0]
    of = [choice["microscopy"].settings for choice in choices]
    assert [one.network[-9:] for one in of] == [f"fold{k}.npz" for k in range(3)]
    assert [one.boundary_model[-18:] for one in of] == [f"objects_fold{k}.json" for k in range(3)]
    assert [choice["network-watershed"].options.network for choice in choices] == [one.network for one in of]
    examples = membrane_examples(sections)
    assert [example.name for example in examples] == ["membrane_00", "membrane_01", "membrane_10"]
    choices, folds = quality.choose_for_membranes(examples, study)
    assert list(folds.values()) == [0, 0, 1]
    assert [choice["membranes"].settings.boundary_model[-10:] for choice in choices] == ["fold0.json", "fold1.json"]
    for choice in choices:
        assert choice["mutex-watershed"].settings.boundary_model == choice["membranes"].settings.boundary_model
    assert len(learnt) == 2
