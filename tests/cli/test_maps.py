"""Maps and spacing on the command line."""

import json

import numpy as np
import pytest
import tifffile

import napari_gsw as gsw
from napari_gsw.cli import main
from napari_gsw.sample_data import random_mosaic


@pytest.fixture
def folder(tmp_path):
    image, truth = random_mosaic(np.random.default_rng(3), (60, 70))
    tifffile.imwrite(tmp_path / "image.tif", image, photometric="rgb")
    rng = np.random.default_rng(0)
    tifffile.imwrite(tmp_path / "features.tif", rng.random((12, 60, 70)).astype(np.float32))
    np.save(tmp_path / "lines.npy", (255 * rng.random((60, 70))).astype(np.uint8))
    tifffile.imwrite(tmp_path / "front.tif", (truth / truth.max()).astype(np.float32))
    return tmp_path


def test_the_command_line_gives_what_the_call_gives(folder, capsys):
    out = folder / "out"
    maps = ["--features", str(folder / "features.tif"), "--boundaries", str(folder / "lines.npy"),
            "--foreground", str(folder / "front.tif")]  # fmt: skip
    assert main(["segment", str(folder / "image.tif"), "-o", str(out), "--sweeps", "20", *maps]) == 0
    said = capsys.readouterr().err
    assert "features: 12 channels on the first axis, 8 components with" in said
    assert "boundaries: values 0 to 255 (guessed)" in said
    result = gsw.segment(
        tifffile.imread(folder / "image.tif"), axes="YXS", sweeps=20, features=tifffile.imread(folder / "features.tif"),
        boundaries=np.load(folder / "lines.npy"), foreground=tifffile.imread(folder / "front.tif"),
    )  # fmt: skip
    assert np.array_equal(tifffile.imread(out / "labels.tif"), result.labels)
    record = json.loads((out / "provenance.json").read_text())
    assert record["maps"] == result.provenance["maps"]
    assert record["given"] == result.provenance["given"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--boundaries", "features.tif"], "boundaries must be one map, not 12 channels"),
        (["--features", "nowhere.tif"], "is not a file"),
        (["--spacing", "5,0"], "spacing must be numbers > 0"),
        (["--spacing", "5"], "spacing must have a number for each of 2 axes"),
        (["--foreground", "front.tif", "--foreground-range", "1"], "two different numbers LOW,HIGH"),
        (["--method", "felzenszwalb", "--features", "features.tif"], "felzenszwalb takes no features"),
    ],
)
def test_what_is_wrong_is_one_line_and_nothing_is_written(folder, capsys, monkeypatch, options, words):
    monkeypatch.chdir(folder)
    assert main(["segment", "image.tif", "-o", "out", "-q", *options]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1
    assert not (folder / "out" / "labels.tif").exists()


def test_a_map_is_not_written_over(folder, capsys):
    lines = folder / "lines.tif"
    tifffile.imwrite(lines, np.random.default_rng(0).random((60, 70)))
    before = lines.read_bytes()
    assert main(["segment", str(folder / "image.tif"), "-o", str(lines), "--boundaries", str(lines)]) == 2
    assert "would write over an input" in capsys.readouterr().err
    assert lines.read_bytes() == before


def test_settings_of_an_older_version_are_read(folder):
    old = folder / "old.json"
    old.write_text(json.dumps({"sweeps": 5, "boundaries": "shipped"}))
    assert main(["segment", str(folder / "image.tif"), "-o", str(folder / "out"), "--settings", str(old), "-q"]) == 0
    record = json.loads((folder / "out" / "provenance.json").read_text())
    assert record["settings"]["boundary_model"] == "shipped"
