"""Maps beside the images of a folder."""

import json

import numpy as np
import pytest
import tifffile

import napari_gsw as gsw
from napari_gsw.batch.run import run_batch
from napari_gsw.cli import batch, main
from napari_gsw.core.features.input_maps import MAP_NAMES


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    for place in ("in", "maps"):
        (tmp_path / place).mkdir()
    for name in ("a", "b"):
        tifffile.imwrite(tmp_path / "in" / f"{name}.tif", rng.random((40, 50)).astype(np.float32))
        np.save(tmp_path / "maps" / f"{name}_lines.npy", rng.random((40, 50)))
    return tmp_path


def test_each_image_has_its_own_map(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    options = ["--sweeps", "5", "--jobs", "1", "-q", "--boundaries", "maps/{stem}_lines.npy"]
    assert main(["batch", "in", "-o", "out", *options]) == 0
    for name in ("a", "b"):
        image, lines = tifffile.imread(f"in/{name}.tif"), np.load(f"maps/{name}_lines.npy")
        alone = gsw.segment(image, axes="YX", sweeps=5, boundaries=lines)
        assert np.array_equal(tifffile.imread(f"out/{name}.tif"), alone.labels)
        record = json.loads((folder / "out" / f"{name}.provenance.json").read_text())
        assert record["given"] == alone.provenance["given"]


def test_an_image_without_its_map_fails_alone(folder):
    (folder / "maps" / "b_lines.npy").unlink()
    maps = {"boundaries": str(folder / "maps" / "{stem}_lines.npy")}
    rows = run_batch(folder / "in", folder / "out", sweeps=5, maps=maps)
    assert [row["status"] for row in rows] == ["done", "failed"]


@pytest.mark.parametrize(
    ("maps", "method", "words"),
    [
        ({"boundaries": "maps/a.npy"}, "gsw", "boundaries must name a file for each image"),
        ({"boundaries": "maps/{stem}.npy"}, "felzenszwalb", "felzenszwalb takes no boundaries"),
    ],
)
def test_maps_that_cannot_be_meant_are_refused_before_the_first_image(folder, maps, method, words):
    with pytest.raises(gsw.InputError, match=words):
        run_batch(folder / "in", folder / "out", method=method, maps=maps)


def test_the_names_of_maps_are_the_same_everywhere():
    assert batch.MAPS == MAP_NAMES
