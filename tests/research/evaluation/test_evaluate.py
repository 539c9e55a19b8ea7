"""``napari-gsw evaluate``: scores of any method on data sets in their publishers' layouts."""

from __future__ import annotations

import csv
import json
import os
import signal
import sys
from types import SimpleNamespace

import imageio.v3 as iio
import numpy as np
import pytest
from scipy.io import savemat

import napari_gsw as gsw
from napari_gsw.cli import main
from napari_gsw.core.graph.merge_tree import build_merge_tree
from napari_gsw.core.posterior.result import MethodResult
from napari_gsw.methods import METHODS, choose, segment
from napari_gsw.research.evaluation.data_sets import AnnotatedImage, Example, list_bsds, list_labelled_folder, spread
from napari_gsw.research.evaluation.evaluate import (
    LEVELS,
    OBJECT_MEASURES,
    THRESHOLDS,
    find_typical_human,
    score_image,
    score_levels,
    score_partition,
)
from napari_gsw.sample_data import random_mosaic
from napari_gsw.scores.partitions import covering, probabilistic_rand, variation_of_information

PROMISED = (
    "rand_one_human", "probabilistic_rand", "adjusted_rand", "variation_of_information", "covering", "boundary_f",
    "n_regions", "seconds",
)  # fmt: skip


def scene(seed):
    return random_mosaic(np.random.default_rng(seed), (60, 80))


@pytest.fixture
def folder(tmp_path):
    """A folder with images/ and labels/ of three mosaics."""
    place = tmp_path / "data"
    for kind in ("images", "labels"):
        (place / kind).mkdir(parents=True)
    for k, name in enumerate("abc"):
        image, truth = scene(k)
        iio.imwrite(place / "images" / f"{name}.png", image)
        iio.imwrite(place / "labels" / f"{name}.png", truth)
    return place


@pytest.fixture
def bsds(tmp_path):
    """A split of three images with three humans each."""
    place = tmp_path / "bsds"
    for kind in ("images", "groundTruth"):
        (place / kind / "val").mkdir(parents=True)
    for k, name in enumerate("abc"):
        image, truth = scene(k)
        iio.imwrite(place / "images" / "val" / f"{name}.png", image)
        cell = np.empty((1, 3), object)
        for h, human in enumerate((np.ones_like(truth), truth, np.minimum(truth, 3))):
            cell[0, h] = {"Segmentation": human.astype(np.uint16), "Boundaries": human > 1}
        savemat(place / "groundTruth" / "val" / f"{name}.mat", {"groundTruth": cell}, do_compression=True)
    return place


def run(*words):
    return main(["evaluate", "-q", "--jobs", "1", *map(str, words)])


QUICK = ("--preset", "paper", "--set", "sweeps=30", "--set", "site_size=20")


def test_the_files_that_are_promised(folder, tmp_path, capsys):
    out = tmp_path / "out"
    code = main(["evaluate", "--jobs", "1", "--folder", str(folder), "-o", str(out), *QUICK])
    assert code == 0
    found = json.loads((out / "evaluation.json").read_text())
    assert found["images"] == 3
    assert found["failed"] == []
    assert found["settings"]["method"] == "gsw"
    assert found["settings"]["sweeps"] == 30
    assert found["settings"]["seed"] == 0
    with (out / "images.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["image"] for row in rows] == ["a", "b", "c"]
    for name in PROMISED:
        values = [float(row[name]) for row in rows]
        assert found["mean"][name] == pytest.approx(np.mean(values))
        assert found["median"][name] == pytest.approx(np.median(values))
    assert found["mean"]["adjusted_rand"] > 0.5
    printed = capsys.readouterr().out
    assert "3 images scored, 0 skipped" in printed
    assert all(heading in printed for heading, _ in OBJECT_MEASURES.values())
    assert set(found["pooled"]) <= set(OBJECT_MEASURES)
    objects, wanted, matches = (found["pooled"][m] for m in ("objects", "true_objects", "f1_50"))
    assert objects == sum(float(row["objects"]) for row in rows)
    assert 0 < matches <= 2 * min(objects, wanted) / (objects + wanted)


def test_the_scores_are_those_of_the_labels(bsds, tmp_path):
    out = tmp_path / "out"
    assert run("--bsds", bsds, "--split", "val", "-o", out, "--save-labels", *QUICK) == 0
    with (out / "images.csv").open() as file:
        rows = list(csv.DictReader(file))
    for example, row in zip(list_bsds(bsds), rows, strict=True):
        labels = iio.imread(out / "labels" / f"{row['image']}.tif")
        expected = score_partition(labels, example.read())
        assert {name: float(row[name]) for name in expected} == pytest.approx(expected)
    mine = gsw.segment(scene(0)[0], preset="paper", sweeps=30, site_size=20, seed=0)
    assert np.array_equal(iio.imread(out / "labels" / "a.tif"), mine.labels)


def test_two_processes_give_the_same(folder, tmp_path):
    for jobs in ("1", "2"):
        words = ["evaluate", "-q", "--jobs", jobs, "--folder", str(folder), "-o", str(tmp_path / jobs), *QUICK]
        assert main(words) == 0
    rows = {}
    for jobs in ("1", "2"):
        with (tmp_path / jobs / "images.csv").open() as file:
            rows[jobs] = [{k: v for k, v in row.items() if k != "seconds"} for row in csv.DictReader(file)]
    assert rows["1"] == rows["2"]


def test_bad_images_are_named_skipped_and_counted(bsds, tmp_path, capsys):
    (bsds / "groundTruth" / "val" / "a.mat").write_bytes(b"not a mat file")
    (bsds / "groundTruth" / "val" / "b.mat").unlink()
    out = tmp_path / "out"
    assert run("--bsds", bsds, "--split", "val", "-o", out, *QUICK) == 3
    found = json.loads((out / "evaluation.json").read_text())
    assert found["images"] == 1
    assert found["failed"] == ["a", "b"]
    assert "a.mat" in found["reasons"]["a"]
    err = capsys.readouterr().err
    assert "a skipped" in err
    assert "b skipped" in err
    with (out / "images.csv").open() as file:
        rows = {row["image"]: row for row in csv.DictReader(file)}
    assert "b.mat" in rows["b"]["skipped"]
    assert rows["b"]["covering"] == ""
    (bsds / "groundTruth" / "val" / "c.mat").unlink()
    assert run("--bsds", bsds, "-o", tmp_path / "none", *QUICK) == 3
    found = json.loads((tmp_path / "none" / "evaluation.json").read_text())
    assert (found["images"], found["mean"]) == (0, {})


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--bsds", "nowhere"], "nowhere"),
        (["--labelme", "nowhere"], "nowhere"),
        (["--folder", "nowhere"], "nowhere"),
        (["--folder", "a", "--split", "val"], "--split belongs to --bsds"),
        (["--folder", "DATA", "--method", "magic"], "method must be one of gsw"),
        (["--folder", "DATA", "--method", "felzenszwalb", "--set", "sweeps=3"], "felzenszwalb has no setting 'sweeps'"),
        (["--folder", "DATA", "--method", "watershed"], "watershed needs scribbles, and this data set has none"),
        (["--folder", "DATA", "--set", "swepes=3"], "did you mean sweeps"),
        (["--folder", "DATA", "--preset", "none"], "preset must be one of"),
    ],
)
def test_wrong_words_are_answered_in_one_line(folder, tmp_path, capsys, words, told):
    assert run(*[str(folder) if w == "DATA" else w for w in words], "-o", tmp_path / "out") == 2
    err = capsys.readouterr().err
    assert told in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("words", [[], ["--bsds", "a", "--folder", "b"]])
def test_one_data_set_is_named(tmp_path, capsys, words):
    with pytest.raises(SystemExit, match="2"):
        run(*words, "-o", tmp_path)
    assert "--folder" in capsys.readouterr().err


def test_a_limit_is_spread_over_the_data_set(tmp_path):
    assert spread(list(range(80)), 8) == list(range(0, 80, 10))
    assert spread([1, 2], 5) == [1, 2]
    assert spread([1, 2], None) == [1, 2]


def test_the_typical_human_is_the_one_in_the_middle():
    fine, middle, coarse = np.arange(12), np.arange(12) // 3, np.arange(12) // 6
    assert find_typical_human([fine, coarse, middle]) == 2
    assert find_typical_human([middle, fine, coarse]) == 0
    assert find_typical_human([coarse]) == 0


def test_pixels_without_a_polygon_do_not_count():
    truth = np.repeat([1, 2, 0], 4)[None]
    found = np.repeat([5, 6, 7], 4)[None]
    shown = AnnotatedImage(np.zeros((1, 12)), "YX", [truth], True)
    assert score_partition(found, shown)["rand_one_human"] == 1.0
    assert score_partition(found % 2, shown)["rand_one_human"] == 1.0
    assert score_partition(found % 2, shown._replace(ignore_background=False))["rand_one_human"] < 1.0


def test_levels_are_scored_on_demand(bsds, tmp_path, capsys):
    words = ("evaluate", "--jobs", "1", "--bsds", bsds, "-o", tmp_path / "out", *QUICK)
    assert main([*map(str, words), "--levels"]) == 0
    best = json.loads((tmp_path / "out" / "evaluation.json").read_text())["levels"]
    assert best["covering"]["ois"] >= best["covering"]["ods"]
    assert best["variation_of_information"]["ois"] <= best["variation_of_information"]["ods"]
    assert 0 <= best["covering"]["threshold"] < 1
    assert "levels of the hierarchy" in capsys.readouterr().out
    assert run("--bsds", bsds, "-o", tmp_path / "other", "--levels", "--method", "felzenszwalb") == 2
    assert "felzenszwalb has none" in capsys.readouterr().err


def test_a_background_that_is_nobodys_is_left_out(folder, tmp_path, capsys):
    truth = scene(0)[1].copy()
    truth[::7] = 0
    iio.imwrite(folder / "labels" / "a.png", truth)
    (example, *_) = list_labelled_folder(folder, ignores_background=True)
    assert not example.has_objects
    shown = example.read()
    assert score_partition(scene(0)[1], shown)["adjusted_rand"] == 1.0
    assert score_partition(scene(0)[1], shown._replace(ignore_background=False))["adjusted_rand"] < 1.0
    assert run("--folder", folder, "-o", tmp_path / "out", "--ignore-background", "--limit", 1, *QUICK) == 0
    assert "ap_50" not in json.loads((tmp_path / "out" / "evaluation.json").read_text())["mean"]
    assert run("--easy", "-o", tmp_path / "other", "--ignore-background") == 2
    assert "belongs to --folder" in capsys.readouterr().err


# Rivals that are for other pictures, or for the couplings of another preset; they have tests of their own.
ELSEWHERE = (
    "multicut", "gasp", "mutex-watershed", "distance-watershed", "otsu-watershed", "network-watershed",
)  # fmt: skip


@pytest.mark.parametrize("method", [n for n in METHODS if not METHODS[n].needs_seeds and n not in ELSEWHERE])
def test_every_method_segments_and_is_scored(folder, method):
    """Three stripes of clear colours, which every method finds."""
    if method == "mean-shift":
        pytest.importorskip("cv2")
    truth = np.repeat([1, 2, 3], 30)[None] + np.zeros((60, 1), int)
    colours = np.array([[200, 40, 40], [40, 160, 60], [50, 60, 210]])
    noise = np.random.default_rng(0).normal(0, 6, (*truth.shape, 3))
    iio.imwrite(folder / "images" / "a.png", np.clip(colours[truth - 1] + noise, 0, 255).astype(np.uint8))
    iio.imwrite(folder / "labels" / "a.png", truth.astype(np.uint8))
    changes = {"sweeps": 60, "site_size": 20} if METHODS[method].samples else {}
    if method in ("mean-shift", "felzenszwalb"):
        changes = {"min_size": 300}
    (example, *_) = list_labelled_folder(folder)
    row, _ = score_image(example.read(), choose(method, "paper", changes), 0, example.has_objects)
    assert set(OBJECT_MEASURES) <= set(row)
    assert row["adjusted_rand"] > 0.8
    assert 3 <= row["n_regions"] <= 6


def test_settings_of_a_methods_own_go_first():
    choice = choose("rdd-crp", "paper", {"alpha": "1e-3", "gamma": "0.5", "evidence": "4"})
    assert choice.options.alpha == 1e-3
    assert choice.settings.evidence == 4
    assert choice.settings.alpha == 3.0
    assert choice.to_dict()["alpha"] == 1e-3
    with pytest.raises(gsw.InputError, match="takes no seeds"):
        segment(np.zeros((20, 20)), choice, seeds=np.zeros((20, 20), int))


@pytest.mark.parametrize("method", ["rdd-crp", "felzenszwalb"])
def test_segment_takes_any_method(folder, tmp_path, capsys, method):
    image = folder / "images" / "a.png"
    more = ["--set", "sweeps=30", "--set", "site_size=20"] if method == "rdd-crp" else ["--set", "min_size=50"]
    out = tmp_path / "out"
    assert main(["segment", str(image), "-o", str(out), "--method", method, "--save-plot", *more]) == 0
    made = json.loads((out / "provenance.json").read_text())
    assert (made["method"]["name"] if method == "rdd-crp" else made["method"]["method"]) == method
    assert (out / "trace.csv").exists() == (method == "rdd-crp")
    assert (out / "overlay.png").exists()
    assert "written to" in capsys.readouterr().out


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl+C is another thing there")
def test_ctrl_c_keeps_what_is_done_and_is_gone_on_from(folder, tmp_path, monkeypatch, capsys):
    """The signal comes while the second image is read."""
    begun = []

    def counted(self):
        begun.append(self.name)
        if len(begun) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return real(self)

    real = Example.read
    monkeypatch.setattr(Example, "read", counted)
    out = tmp_path / "out"
    assert run("--folder", folder, "-o", out, *QUICK) == 130
    assert "the same command goes on where it was" in capsys.readouterr().err
    assert run("--folder", folder, "-o", out, *QUICK) == 0
    assert begun == ["a", "b", "b", "c"]
    assert json.loads((out / "evaluation.json").read_text())["images"] == 3


def test_files_of_others_are_not_written_over(folder, tmp_path, monkeypatch, capsys):
    words = [
        "evaluate",
        "--folder",
        str(folder),
        "--method",
        "felzenszwalb",
        "--jobs",
        "1",
        "-q",
        "--save-labels",
        "-o",
    ]
    out = tmp_path / "out"
    (out / "labels").mkdir(parents=True)
    for name in ("images.csv", "evaluation.json", "labels/b.tif", "labels/c.provenance.json"):
        (out / name).write_text("mine")
        with monkeypatch.context() as patched:
            patched.setattr("napari_gsw.batch.jobs.run_jobs", lambda *_: pytest.fail("it was segmented"))
            assert main([*words, str(out)]) == 2
        assert f"{name.rpartition('/')[2]}': the file exists" in capsys.readouterr().err
        assert (out / name).read_text() == "mine"
        (out / name).unlink()
    (out / "images.csv").write_text("mine")
    assert main([*words, str(out), "--overwrite"]) == 0
    assert main([*words, str(out), "--fresh"]) == 0  # all of it is ours now


def test_figures_of_others_are_not_written_over(tmp_path, capsys):
    (tmp_path / "fig1.png").write_text("mine")
    assert main(["reproduce", "fig1", "-o", str(tmp_path), "--quick", "-q"]) == 2
    assert "fig1.png': the file exists" in capsys.readouterr().err
    assert (tmp_path / "fig1.png").read_text() == "mine"


@pytest.mark.parametrize("ignore", [False, True])
def test_scores_of_levels_are_those_of_painted_cuts(ignore):
    rng = np.random.default_rng(0)
    sites = np.kron(np.arange(1, 26).reshape(5, 5), np.ones((4, 4), int)).astype(np.int32)
    sites[:2, :2] = 0  # no site there
    right = [(i, i + 1) for i in range(25) if i % 5 < 4]
    edges = np.array(right + [(i, i + 5) for i in range(20)], np.int32)
    tree = build_merge_tree(25, edges, rng.random(len(edges)))
    human_labels = [rng.integers(0, 4, sites.shape).astype(np.int32) for _ in range(3)]
    result = SimpleNamespace(problem=SimpleNamespace(site_image=sites), hierarchy=tree)
    scored = score_levels(MethodResult(sites, {}, result), AnnotatedImage(sites, "YX", human_labels, ignore))[LEVELS]
    for place in (0, 20, 55, 99):
        labels = np.concatenate(([0], tree.labels(THRESHOLDS[place]) + 1))[sites]
        wheres = [human != 0 if ignore else None for human in human_labels]
        pairs = list(zip(human_labels, wheres, strict=True))
        rand = np.mean([probabilistic_rand(labels, [human], where) for human, where in pairs])
        assert scored["probabilistic_rand"][place] == pytest.approx(rand)
        information = np.mean([variation_of_information(labels, human, where) for human, where in pairs])
        assert scored["variation_of_information"][place] == pytest.approx(information)
        assert scored["covering"][place] == pytest.approx(np.mean([covering(labels, *pair) for pair in pairs]))
        assert scored["n_regions"][place] == labels.max()
