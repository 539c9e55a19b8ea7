"""Scribbles and what people wanted: the data set, its measure, and a method scored on it."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import imageio.v3 as iio
import numpy as np
import pytest

from napari_gsw.cli import main
from napari_gsw.core.errors import InputError
from napari_gsw.research.evaluation.data_sets import list_scribbles
from napari_gsw.research.evaluation.evaluate import SCRIBBLE_MEASURES
from napari_gsw.scores.objects import dice_per_label, mean_dice

DATA = Path(__file__).parents[4] / "shared" / "data" / "scribbles"
QUICK = ("--preset", "paper", "--set", "sweeps=30", "--set", "site_size=20")


@pytest.fixture
def folder(tmp_path):
    """Two images of three clear stripes, and three pairs of scribbles and labels; one image's name begins another's."""
    place = tmp_path / "data"
    for kind in ("images", "scribbles", "labels"):
        (place / kind).mkdir(parents=True)
    wanted = np.repeat([4, 1, 2], 30)[None] + np.zeros((60, 1), int)
    colours = np.array([[0, 0, 0], [200, 40, 40], [40, 160, 60], [0, 0, 0], [50, 60, 210]])
    noise = np.random.default_rng(0).normal(0, 6, (*wanted.shape, 3))
    painted = np.zeros_like(wanted)
    painted[20:40, 10:15] = 4
    painted[20:40, 40:45] = 1
    painted[20:40, 70:75] = 2
    for name in ("a", "a_b"):
        iio.imwrite(place / "images" / f"{name}.png", np.clip(colours[wanted] + noise, 0, 255).astype(np.uint8))
    for name in ("a_7", "a_9", "a_b_7"):
        iio.imwrite(place / "scribbles" / f"{name}.png", painted.astype(np.uint8))
        iio.imwrite(place / "labels" / f"{name}.png", wanted.astype(np.uint8))
    return place


def test_dice_of_each_wanted_label():
    assert dice_per_label([1, 1, 1, 2], [1, 1, 2, 2]).tolist() == pytest.approx([4 / 5, 2 / 3])
    assert mean_dice([1, 1, 1, 2], [1, 1, 2, 2]) == pytest.approx((4 / 5 + 2 / 3) / 2)
    assert mean_dice([5, 5, 3], [5, 5, 3]) == 1.0
    # The numbers count, not the partition; what nobody wanted is wrong, and what did not come out has 0.
    assert mean_dice([2, 2, 1, 1], [1, 1, 2, 2]) == 0.0
    assert dice_per_label([1, 1, 7, 7], [1, 1, 1, 2]).tolist() == pytest.approx([4 / 5, 0])
    assert mean_dice([1, 1, 7, 7], [1, 1, 0, 0], np.array([1, 1, 0, 0])) == 1.0
    with pytest.raises(InputError, match="same shape"):
        mean_dice([1, 2], [1, 2, 3])
    with pytest.raises(InputError, match="no pixel"):
        mean_dice([1, 2], [1, 2], [False, False])


def test_pairs_find_their_image(folder):
    examples = list_scribbles(folder)
    assert [(e.name, e.image.name) for e in examples] == [("a_7", "a.png"), ("a_9", "a.png"), ("a_b_7", "a_b.png")]
    assert examples[1].files == tuple(folder / part for part in ("images/a.png", "labels/a_9.png", "scribbles/a_9.png"))
    scene = examples[0].read()
    assert scene.seeds.dtype == scene.human_labels[0].dtype == np.int32
    assert np.unique(scene.seeds).tolist() == [0, 1, 2, 4]
    assert np.array_equal(scene.human_labels[0][scene.seeds > 0], scene.seeds[scene.seeds > 0])


def test_what_is_wrong_with_a_pair_is_said_with_its_file(folder):
    (folder / "labels" / "a_7.png").unlink()
    iio.imwrite(folder / "scribbles" / "a_9.png", np.zeros((60, 90), np.uint8))
    iio.imwrite(folder / "labels" / "a_b_7.png", np.zeros((60, 90), np.uint8))
    for example, words in zip(
        list_scribbles(folder), (r"a_7\.png", r"a_9\.png.*must have scribbles", "at every pixel"), strict=True
    ):
        with pytest.raises(InputError, match=words):
            example.read()
    iio.imwrite(folder / "scribbles" / "c_1.png", np.ones((60, 90), np.uint8))
    with pytest.raises(InputError, match=r"c_1\.png' has no image"):
        list_scribbles(folder)
    with pytest.raises(InputError, match="IMAGE_USER"):
        list_scribbles(folder / "images")


def test_the_files_that_are_promised(folder, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["evaluate", "--jobs", "1", "--scribbles", str(folder), "-o", str(out), "--save-labels", *QUICK]) == 0
    evaluation = json.loads((out / "evaluation.json").read_text())
    assert evaluation["images"] == 3
    assert set(evaluation["mean"]) == set(evaluation["median"]) == set(SCRIBBLE_MEASURES)
    with (out / "images.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["image"] for row in rows] == ["a_7", "a_9", "a_b_7"]
    assert list(rows[0]) == ["image", *SCRIBBLE_MEASURES, "skipped"]
    wanted = iio.imread(folder / "labels" / "a_7.png")
    for row in rows:
        labels = iio.imread(out / "labels" / f"{row['image']}.tif")
        assert float(row["dice"]) == pytest.approx(mean_dice(labels, wanted))
        assert float(row["labels"]) == 3
    assert evaluation["mean"]["dice"] == pytest.approx(np.mean([float(row["dice"]) for row in rows]))
    assert evaluation["mean"]["dice"] > 0.9
    printed = capsys.readouterr().out
    assert "Dice" in printed
    assert "Rand" not in printed


def test_scribbles_that_change_are_segmented_again(folder, tmp_path):
    words = ["evaluate", "-q", "--jobs", "1", "--scribbles", str(folder), "-o", str(tmp_path / "out"), *QUICK]
    (tmp_path / "out").mkdir()

    def rows():
        assert main(words) == 0
        with (tmp_path / "out" / "images.csv").open() as file:
            return [(row["dice"], row["seconds"]) for row in csv.DictReader(file)]

    first = rows()
    assert rows() == first
    painted = iio.imread(folder / "scribbles" / "a_9.png")
    painted[:, :30] = 0
    iio.imwrite(folder / "scribbles" / "a_9.png", painted)
    again = rows()
    assert (again[0], again[2]) == (first[0], first[2])
    assert float(again[1][0]) < float(first[1][0]) - 0.2


@pytest.mark.parametrize("method", ["random-walker", "watershed", "forest", "graph-cut"])
def test_every_method_from_scribbles_is_scored(folder, tmp_path, method):
    if method in ("forest", "graph-cut"):
        pytest.importorskip("sklearn")
        pytest.importorskip("ortools")
    words = ["evaluate", "-q", "--jobs", "1", "--limit", "1", "--method", method]
    assert main([*words, "--scribbles", str(folder), "-o", str(tmp_path / "out")]) == 0
    evaluation = json.loads((tmp_path / "out" / "evaluation.json").read_text())
    assert evaluation["mean"]["dice"] > 0.95
    assert evaluation["settings"]["method"] == method


@pytest.mark.parametrize("method", ["rdd-crp", "felzenszwalb"])
def test_a_method_that_cannot_use_scribbles_is_refused(folder, tmp_path, capsys, method):
    assert main(["evaluate", "-q", "--scribbles", str(folder), "-o", str(tmp_path), "--method", method]) == 2
    err = capsys.readouterr().err
    assert f"{method} cannot use scribbles; those that can are gsw" in err
    assert err.count("\n") == 1


@pytest.mark.data
def test_the_pairs_as_they_are_stored():
    if not DATA.is_dir():
        pytest.skip("needs the data set scribbles")
    examples = list_scribbles(DATA)
    assert len(examples) == len(list((DATA / "scribbles").iterdir()))
    assert len({e.image for e in examples}) == len(list((DATA / "images").iterdir()))
    for example in examples[::16]:
        scene = example.read()
        (wanted,) = scene.human_labels
        # People slip: a stroke may run over the outline that they wanted.
        assert np.mean(wanted[scene.seeds > 0] == scene.seeds[scene.seeds > 0]) > 0.9
