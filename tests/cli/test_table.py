"""``--table``: every label of the file of labels has its row in regions.csv, and the areas agree."""

from __future__ import annotations

import csv

import numpy as np
import pytest
import tifffile

from napari_gsw.batch import Extras, run_batch
from napari_gsw.cli import main
from napari_gsw.sample_data import mosaic, mosaic_3d


def rows_of(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def check(labels, rows):
    numbers, pixels = np.unique(labels[labels > 0], return_counts=True)
    assert len(numbers)
    assert [int(row["index"]) for row in rows] == numbers.tolist()
    assert [int(row["pixels"]) for row in rows] == pixels.tolist()
    assert [float(row.get("area") or row["volume"]) for row in rows] == pixels.tolist()


@pytest.mark.parametrize(
    ("depth", "words"),
    [
        (2, ("--sweeps", "8", "--min-region", "0")),
        pytest.param(3, ("--preset", "microscopy", "--sweeps", "8"), marks=pytest.mark.slow),
        (2, ("--method", "felzenszwalb")),
    ],
)
def test_every_label_has_its_row(tmp_path, words, depth):
    image = mosaic()[0][:60, :70] if depth == 2 else mosaic_3d()[0][:8, :24, :24]
    file, out = tmp_path / "image.tif", tmp_path / "out"
    tifffile.imwrite(file, image)
    axes = ("--axes", "YXS" if depth == 2 else "ZYX")
    assert main(["segment", str(file), "-o", str(out), "--table", "-q", *axes, *words]) == 0
    check(tifffile.imread(out / "labels.tif"), rows_of(out / "regions.csv"))
    assert main(["segment", str(file), "-o", str(out), "-q", *axes, *words]) == 0
    assert not (out / "regions.csv").exists()  # of other labels than those beside it


def test_a_batch_and_an_image_in_blocks(tmp_path, capsys):
    zarr = pytest.importorskip("zarr")
    pytest.importorskip("dask")
    (tmp_path / "in").mkdir()
    image = np.tile(mosaic()[0][:64, :64, 0], (3, 3))
    array = zarr.create_array(
        str(tmp_path / "in" / "large.zarr"), shape=image.shape, chunks=(64, 64), dtype=image.dtype
    )
    array[...] = image
    run_batch(tmp_path / "in", tmp_path / "out", extras=Extras(table=True), sweeps=6, block_pixels=4096, view="regions")
    rows = rows_of(tmp_path / "out" / "large.regions.csv")
    check(np.asarray(zarr.open(str(tmp_path / "out" / "large.zarr"), mode="r")["0"]), rows)
    assert "mean" in rows[0]
    assert "median" not in rows[0]
