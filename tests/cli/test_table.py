"""``--table``: every label of the file of labels has its row in regions.csv, and the areas agree."""

from __future__ import annotations

import csv

import numpy as np
import pytest
import tifffile

from napari_gsw.batch.run import run_batch
from napari_gsw.cli import main
from napari_gsw.files.results import OutputOptions
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
    run_batch(
        tmp_path / "in", tmp_path / "out", extras=OutputOptions(table=True), sweeps=6, block_pixels=4096, view="regions"
    )
    rows = rows_of(tmp_path / "out" / "large.regions.csv")
    check(np.asarray(zarr.open(str(tmp_path / "out" / "large.zarr"), mode="r")["0"]), rows)
    assert "mean" in rows[0]
    assert "median" not in rows[0]


def sized(path, image, file_format):
    """An image whose pixels are half a micrometre wide, its planes two apart."""
    if file_format == "ome":
        sizes = {f"PhysicalSize{axis}": 0.5 for axis in "YX"} | ({"PhysicalSizeZ": 2.0} if image.ndim == 3 else {})
        path = path.with_name("image.ome.tif")
        tifffile.imwrite(path, image, metadata={"axes": "ZYX"[-image.ndim :], **sizes})
    else:
        planes = {"spacing": 2.0} if image.ndim == 3 else {}
        metadata = {"axes": "ZYX"[-image.ndim :], "unit": "\\u00B5m", **planes}  # as ImageJ writes it
        tifffile.imwrite(path, image, imagej=True, resolution=(2, 2), metadata=metadata)
    return path


@pytest.mark.parametrize(("depth", "file_format"), [(2, "ome"), (2, "imagej"), (3, "ome"), (3, "imagej")])
def test_pixels_keep_their_size(tmp_path, depth, file_format):
    """The pixel size of the file is in the files of the labels, and the table has these units."""
    image = mosaic()[0][:60, :70, 0] if depth == 2 else mosaic_3d()[0][:8, :24, :24]
    file, out = sized(tmp_path / "image.tif", image, file_format), tmp_path / "out"
    more = ("--save-sites", "--uncertainty", "--table", "-q", "--sweeps", "8")
    assert main(["segment", str(file), "-o", str(out), "--set", "site_size=20", *more]) == 0
    pixel, size = (0.25, "area (µm²)") if depth == 2 else (0.5, "volume (µm³)")
    for row in (rows := rows_of(out / "regions.csv")):
        assert float(row[size]) == pytest.approx(pixel * int(row["pixels"]))
        assert float(row["centroid_y (µm)"]) < 0.5 * image.shape[-2]
    assert rows
    for name in ("labels", "sites", "entropy", "boundary", "coarsest"):
        with tifffile.TiffFile(out / f"{name}.tif") as tiff:
            told, tags = tiff.imagej_metadata, tiff.pages.first.tags
            assert tiff.asarray().shape == image.shape
            assert (told["unit"], tags["XResolution"].value, tags["YResolution"].value) == ("um", (2, 1), (2, 1))
            assert told.get("spacing") == (2.0 if depth == 3 else None)


@pytest.mark.parametrize(
    ("kind", "spacing", "volume", "size"), [("imagej", "3,1,1", "volume", 3), ("ome", "4,1,1", "volume (µm³)", 0.5)]
)
def test_a_chosen_distance_keeps_only_units_in_its_proportion(tmp_path, kind, spacing, volume, size):
    """The file has planes of 2 and pixels of half a micrometre."""
    file, out = sized(tmp_path / "image.tif", mosaic_3d()[0][:8, :24, :24], kind), tmp_path / "out"
    assert main(["segment", str(file), "-o", str(out), "--table", "-q", "--sweeps", "3", "--spacing", spacing]) == 0
    assert all(float(row[volume]) == size * int(row["pixels"]) for row in rows_of(out / "regions.csv"))


def test_what_a_file_says_wrongly_costs_no_result(tmp_path):
    """Its distances are refused, unless better ones are given: then nothing may be said after the last sweep."""
    image, file, out = mosaic_3d()[0][:8, :24, :24], tmp_path / "image.ome.tif", tmp_path / "out"
    tifffile.imwrite(file, image, metadata={"axes": "ZYX", **{f"PhysicalSize{axis}": 0.0 for axis in "XYZ"}})
    assert main(["segment", str(file), "-o", str(out), "-q", "--sweeps", "3"]) == 2
    assert main(["segment", str(file), "-o", str(out), "-q", "--sweeps", "3", "--spacing", "3,1,1"]) == 0


@pytest.mark.parametrize("words", [("--preset", "photo", "--spacing", "5,1,1"), ("--spacing", " Auto")])
def test_a_distance_that_nobody_needs_costs_no_result(tmp_path, words):
    """Photographs have squares whatever is said, and words may be written in any way."""
    file, out = sized(tmp_path / "image.tif", mosaic()[0][:60, :70, 0], "ome"), tmp_path / "out"
    assert main(["segment", str(file), "-o", str(out), "--table", "-q", "--sweeps", "3", *words]) == 0
    assert all(float(row["area (µm²)"]) == 0.25 * int(row["pixels"]) for row in rows_of(out / "regions.csv"))


def test_sizes_that_are_none_are_not_written(tmp_path):
    image, file, out = mosaic_3d()[0][:8, :24, :24], tmp_path / "image.ome.tif", tmp_path / "out"
    tifffile.imwrite(file, image, metadata={"axes": "ZYX", "PhysicalSizeX": 0.0, "PhysicalSizeY": 0.0})
    assert main(["segment", str(file), "-o", str(out), "--table", "-q", "--sweeps", "3"]) == 0
    assert all(float(row["volume"]) == int(row["pixels"]) for row in rows_of(out / "regions.csv"))


def test_axes_in_an_order_that_no_format_has_stay_as_they_are(tmp_path):
    """So that labels lie beside their image when both are read again."""
    image, out = np.moveaxis(mosaic_3d()[0][:8, :24, :24], 0, 2), tmp_path / "out"
    np.save(tmp_path / "image.npy", image)
    words = ["segment", str(tmp_path / "image.npy"), "-o", str(out), "--axes", "YXZ", "--table", "-q", "--sweeps", "3"]
    assert main([*words, "--spacing", "1,1,2"]) == 0
    labels = tifffile.imread(out / "labels.tif")
    assert labels.shape == image.shape
    check(labels, rows_of(out / "regions.csv"))
