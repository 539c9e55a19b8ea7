"""Label images written in every format, read back by the packages that others use."""

from __future__ import annotations

import csv
import json
import os
import xml.etree.ElementTree as ET
from pathlib import Path

import imageio.v3 as iio
import numpy as np
import pytest
import tifffile

from napari_gsw.core.errors import InputError
from napari_gsw.files import labels as labels_module
from napari_gsw.files.geometry import normalize_unit
from napari_gsw.files.images import read_image, read_labels
from napari_gsw.files.labels import layer_axes, write_labels, write_labels_layer
from napari_gsw.files.output_folder import sibling_name

ENDINGS = (".tif", ".tiff", ".ome.tif", ".ome.tiff", ".png", ".npy", ".zarr", ".ome.zarr")
MADE = {"software": "napari-gsw", "seed": 3, "settings": {"alpha": 1.5, "note": "<µm> & {braces}"}}


def example(*shape, dtype=np.uint16, most=300):
    """Labels without a symmetry that a swap of axes would keep; `most` is among them."""
    labels = np.random.default_rng(0).integers(0, min(most, 250), shape).astype(dtype)
    labels.flat[1] = most
    return labels


def files(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


def ome(path):
    """Attributes of an OME-TIFF's image and pixels, and its description."""
    with tifffile.TiffFile(path) as tiff:
        assert tiff.is_ome
        root = ET.fromstring(tiff.ome_metadata)
    space = {"ome": root.tag.partition("}")[0].strip("{")}
    image = root.find("ome:Image", space)
    return image.attrib, image.find("ome:Pixels", space).attrib, image.findtext("ome:Description", None, space)


def origin(path):
    """Return the content of a provenance file without its list of files."""
    content = json.loads(path.read_text())
    del content["files"]
    return content


def zarr_group(path):
    zarr = pytest.importorskip("zarr")
    return zarr.open_group(str(path), mode="r")


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("shape", [(5, 7), (4, 5, 7)], ids=str)
@pytest.mark.parametrize(("dtype", "most"), [("uint8", 200), ("uint16", 300), ("uint32", 70_000)])
def test_what_is_written_is_read_back(ending, shape, dtype, most, tmp_path):
    labels = example(*shape, dtype=dtype, most=most)
    written = write_labels(labels, tmp_path / f"cells{ending}")
    back = read_labels(written)
    assert np.array_equal(back, labels)
    assert (back.dtype, back.dtype.isnative) == (labels.dtype, True)
    fits = ending != ".png" or (len(shape) == 2 and dtype != "uint32")
    assert written == tmp_path / ("cells" + (ending if fits else ".tif"))
    assert [p.name for p in tmp_path.iterdir()] == [written.name]
    known = {2: "YX", 3: "ZYX"}[len(shape)] if ending not in (".png", ".npy") or not fits else "auto"
    assert read_image(written)[1] == known


@pytest.mark.parametrize(
    ("given", "most", "stored"),
    [
        ("bool", 1, "uint8"),
        ("int64", 255, "uint8"),
        ("int32", 256, "uint16"),
        ("uint32", 65_535, "uint16"),
        ("int64", 65_536, "uint32"),
        (">u2", 5, "uint16"),
        ("uint16", 5, "uint16"),
    ],
)
def test_the_smallest_type_that_holds_the_labels(given, most, stored, tmp_path):
    labels = np.zeros((4, 5), given)
    labels[1, 2] = most
    for ending in ENDINGS:
        back = read_labels(write_labels(labels, tmp_path / ending[1:] / f"a{ending}"))
        assert (back.dtype, back[1, 2], np.count_nonzero(back)) == (stored, most, 1), ending


def test_imagej_hyperstack_with_its_calibration(tmp_path):
    labels = example(2, 3, 5, 7)
    units = ("millisecond", "micrometer", "micrometer", "micrometer")
    write_labels(
        labels, tmp_path / "a.tif", scale=(250, 2, 0.5, 0.25), units=units, translate=(0, 4, -1, 0), provenance=MADE
    )
    with tifffile.TiffFile(tmp_path / "a.tif") as tiff:
        told, series, tags = tiff.imagej_metadata, tiff.series[0], tiff.pages[0].tags
        assert (series.kind, series.axes) == ("imagej", "TZYX")
        assert np.array_equal(series.asarray(), labels)
        x, y = (np.divide(*tags[f"{axis}Resolution"].value) for axis in "XY")
    assert (x, y) == (4, 2)  # pixels for a unit
    assert (told["frames"], told["slices"]) == (2, 3)
    assert (told["spacing"], told["unit"], told["finterval"]) == (2, "um", 0.25)
    assert (told["zorigin"], told["yorigin"]) == (-2, 2)
    assert "xorigin" not in told
    assert json.loads(told["Info"]) == MADE


def test_units_that_differ_and_units_that_say_nothing(tmp_path):
    def told(**given):
        write_labels(example(2, 5, 7), tmp_path / "a.tif", overwrite=True, **given)
        with tifffile.TiffFile(tmp_path / "a.tif") as tiff:
            return tiff.imagej_metadata

    mixed = told(scale=(1, 500, 0.5), units=("mm", "nm", "µm"))
    assert (mixed["unit"], mixed["yunit"], mixed["zunit"]) == ("um", "nm", "mm")
    same = told(scale=(1, 2, 3), units="Å")
    assert (same["unit"], set(same) & {"yunit", "zunit"}) == ("angstrom", set())  # the description is ASCII
    assert told(scale=(1, 2, 3))["unit"] == "pixel"
    assert not {"unit", "spacing", "finterval"} & set(told())
    frames = told(axes="TYX", scale=(3, 1, 1), units=("pixel", "um", "um"))
    assert "finterval" not in frames
    assert told(axes="TYX", scale=(3, 1, 1), units="um")["finterval"] == 3
    assert told(axes="TYX", scale=(3, 1, 1), units=("min", "um", "um"))["finterval"] == 180


def test_what_imagej_cannot_hold_is_a_plain_tiff_that_tells_the_same(tmp_path, monkeypatch):
    labels = example(2, 3, 5, 7, dtype=np.uint32, most=70_000)
    given = dict(scale=(1.5, 2, 0.5, 0.25), units=("s", "um", "um", "um"), provenance=MADE)
    write_labels(labels, tmp_path / "a.tif", **given)
    monkeypatch.setattr(labels_module, "CLASSIC_TIFF", 100)
    write_labels(labels.astype(np.uint16), tmp_path / "big.tif", **given)
    for name, wanted, big in (("a.tif", labels, False), ("big.tif", labels.astype(np.uint16), True)):
        with tifffile.TiffFile(tmp_path / name) as tiff:
            assert (tiff.is_imagej, tiff.is_bigtiff, tiff.series[0].axes) == (False, big, "TZYX")
            assert np.array_equal(tiff.series[0].asarray(), wanted)
            told = tiff.shaped_metadata[0]
            assert np.divide(*tiff.pages[0].tags["XResolution"].value) == 4
        assert (told["spacing"], told["unit"], told["finterval"], told["provenance"]) == (2, "um", 1.5, MADE)


def test_ome_tiff_with_sizes_units_and_name(tmp_path):
    labels = example(2, 3, 5, 7)
    write_labels(
        labels,
        tmp_path / "a.ome.tif",
        scale=(30, 2000, 0.5, 0.25),
        units=("s", "nm", "µm", "micrometers"),
        name='Zellkörper "1" <&>\x00',
        provenance=MADE,
    )
    image, pixels, description = ome(tmp_path / "a.ome.tif")
    assert image["Name"] == 'Zellkörper "1" <&>'
    sizes = {axis: (float(pixels[f"PhysicalSize{axis}"]), pixels[f"PhysicalSize{axis}Unit"]) for axis in "XYZ"}
    assert sizes == {"X": (0.25, "µm"), "Y": (0.5, "µm"), "Z": (2000, "nm")}
    assert (float(pixels["TimeIncrement"]), pixels["TimeIncrementUnit"]) == (30, "s")
    assert json.loads(description) == MADE
    with tifffile.TiffFile(tmp_path / "a.ome.tif") as tiff:
        assert tiff.series[0].axes == "TZYX"
        assert np.array_equal(tiff.series[0].asarray(), labels)

    write_labels(labels[0, 0], tmp_path / "b.ome.tif", scale=(2, 3), units="furlong")
    pixels = ome(tmp_path / "b.ome.tif")[1]
    assert (pixels["PhysicalSizeX"], pixels["PhysicalSizeXUnit"]) == ("3.0", "reference frame")
    write_labels(labels[0, 0], tmp_path / "c.ome.tif", scale=(2, 3))
    assert ome(tmp_path / "c.ome.tif")[1]["PhysicalSizeXUnit"] == "pixel"  # OME would take it for micrometres
    write_labels(labels[0, 0], tmp_path / "d.ome.tif")
    assert "PhysicalSizeX" not in ome(tmp_path / "d.ome.tif")[1]


def test_ome_zarr_with_axes_scale_translation_and_provenance(tmp_path):
    labels = example(2, 3, 5, 7)
    write_labels(
        labels,
        tmp_path / "a.zarr",
        scale=(30, 2, 0.5, 0.25),
        units=("s", "um", "um", "um"),
        translate=(0, 4, 5, 6),
        name="cells",
        provenance=MADE,
    )
    group = zarr_group(tmp_path / "a.zarr")
    assert (group.metadata.zarr_format, group.attrs["napari-gsw"]) == (3, MADE)
    assert set(group.attrs["ome"]) == {"version", "multiscales", "image-label"}
    assert (group.attrs["ome"]["version"], group.attrs["ome"]["image-label"]) == ("0.5", {"version": "0.5"})
    (image,) = group.attrs["ome"]["multiscales"]
    space = [{"name": axis, "type": "space", "unit": "micrometer"} for axis in "zyx"]
    assert image["axes"] == [{"name": "t", "type": "time", "unit": "second"}, *space]
    assert image["name"] == "cells"
    moves = [
        {"type": "scale", "scale": [30, 2, 0.5, 0.25]},
        {"type": "translation", "translation": [0, 4, 5, 6]},
    ]
    assert image["datasets"] == [{"path": "0", "coordinateTransformations": moves}]
    assert np.array_equal(group["0"][...], labels)
    assert group["0"].metadata.dimension_names == ("t", "z", "y", "x")


def test_pixels_have_no_unit_in_ome_zarr(tmp_path):
    write_labels(example(5, 7), tmp_path / "a.zarr", units=("pixel", "pixel"), scale=(1, 1))
    (image,) = zarr_group(tmp_path / "a.zarr").attrs["ome"]["multiscales"]
    assert image["axes"] == [{"name": axis, "type": "space"} for axis in "yx"]
    assert image["datasets"][0]["coordinateTransformations"] == [{"type": "scale", "scale": [1, 1]}]


def test_large_labels_have_coarser_levels_in_ome_zarr(tmp_path):
    labels = example(2, 3, 1201, 600)
    write_labels(labels, tmp_path / "a.zarr", scale=(1, 2, 0.5, 0.25))
    group = zarr_group(tmp_path / "a.zarr")
    (image,) = group.attrs["ome"]["multiscales"]
    assert [d["path"] for d in image["datasets"]] == ["0", "1", "2"]
    for level, dataset in enumerate(image["datasets"]):
        n = 2**level
        assert np.array_equal(group[dataset["path"]][...], labels[:, :, ::n, ::n])
        assert dataset["coordinateTransformations"] == [{"type": "scale", "scale": [1, 2, 0.5 * n, 0.25 * n]}]
    assert group["2"].shape == (2, 3, 301, 150)
    assert np.array_equal(read_labels(write_labels(labels[0], tmp_path / "b.zarr")), labels[0])


def test_a_deep_stack_is_halved_in_depth_too(tmp_path):
    write_labels(np.ones((600, 3, 40), np.uint8), tmp_path / "a.zarr")
    group = zarr_group(tmp_path / "a.zarr")
    (image,) = group.attrs["ome"]["multiscales"]
    assert group["1"].shape == (300, 2, 20)
    assert image["datasets"][1]["coordinateTransformations"] == [{"type": "scale", "scale": [2, 2, 2]}]


@pytest.mark.parametrize(
    ("ending", "axes", "stored"),
    [
        (".tif", "CZYX", "ZCYX"),
        (".ome.tif", "ZCYX", "CZYX"),
        (".zarr", "ZCYX", "CZYX"),
        (".zarr", "CTYX", "TCYX"),
        (".tif", "XYZT", "TZYX"),
        (".ome.tif", "xyzt", "TZYX"),
    ],
)
def test_axes_take_the_order_of_the_format(ending, axes, stored, tmp_path):
    labels = example(2, 3, 5, 7)
    path = write_labels(labels, tmp_path / f"a{ending}", axes=axes, scale=(1, 2, 3, 4))
    wanted = labels.transpose([axes.upper().index(axis) for axis in stored])
    sizes = dict(zip(axes.upper(), (1, 2, 3, 4), strict=True))
    if ending == ".zarr":
        group = zarr_group(path)
        (image,) = group.attrs["ome"]["multiscales"]
        found, back = "".join(axis["name"] for axis in image["axes"]).upper(), group["0"][...]
        scale = image["datasets"][0]["coordinateTransformations"][0]["scale"]
        assert scale == [sizes[axis] for axis in stored]
    else:
        with tifffile.TiffFile(path) as tiff:
            found, back = tiff.series[0].axes, tiff.series[0].asarray()
            told, tags = tiff.imagej_metadata, tiff.pages[0].tags
        if ending == ".tif":
            assert np.divide(*tags["XResolution"].value) == pytest.approx(1 / sizes["X"])
            assert told["spacing"] == sizes["Z"]
        else:
            assert float(ome(path)[1]["PhysicalSizeX"]) == sizes["X"]
    assert found == stored
    assert np.array_equal(back, wanted)


@pytest.mark.parametrize("ending", [".tif", ".ome.tif", ".zarr"])
def test_five_dimensions(ending, tmp_path):
    labels = example(2, 2, 3, 5, 7)
    path = write_labels(labels, tmp_path / f"a{ending}")
    back = zarr_group(path)["0"][...] if ending == ".zarr" else tifffile.imread(path)
    assert np.array_equal(back, labels.swapaxes(1, 2) if ending == ".tif" else labels)


def test_png_and_npy_are_what_others_read(tmp_path):
    labels = example(5, 7)
    write_labels(labels, tmp_path / "a.png")
    assert np.array_equal(iio.imread(tmp_path / "a.png"), labels)
    write_labels(labels, tmp_path / "a.NPY")
    assert np.array_equal(np.load(tmp_path / "a.NPY", allow_pickle=False), labels)


@pytest.mark.parametrize("ending", ENDINGS)
def test_provenance_stands_beside_the_labels(ending, tmp_path):
    write_labels(example(5, 7), tmp_path / "new" / f"cells{ending}", provenance=MADE)
    assert {p.name for p in (tmp_path / "new").iterdir()} == {f"cells{ending}", "cells.provenance.json"}
    assert origin(tmp_path / "new" / "cells.provenance.json") == MADE
    assert sibling_name(f"labels{ending}", "provenance.json") == "provenance.json"


def test_provenance_of_other_labels_does_not_stay(tmp_path):
    write_labels(example(5, 7), tmp_path / "labels.tif", provenance=MADE)
    write_labels(example(5, 7), tmp_path / "labels.png")
    assert (tmp_path / "provenance.json").exists()  # the labels that it tells of are still there
    write_labels(example(5, 7), tmp_path / "labels.tif")
    assert {p.name for p in tmp_path.iterdir()} == {"labels.tif", "labels.png"}
    (tmp_path / "provenance.json").write_text('{"software": "of someone else"}')
    write_labels(example(5, 7), tmp_path / "labels.tif", overwrite=True)
    assert (tmp_path / "provenance.json").exists()


def full_disk(*_, **__):
    raise OSError(28, "No space left on device")


def zarr_that_fills_the_disk(monkeypatch):
    """The second level no longer fits, when the first is on the disk already."""
    zarr = pytest.importorskip("zarr")
    create = zarr.Group.create_array
    monkeypatch.setattr(
        zarr.Group, "create_array", lambda group, name, **k: full_disk() if name == "1" else create(group, name, **k)
    )


@pytest.mark.parametrize("ending", [".tif", ".ome.tif", ".png", ".npy", ".zarr"])
@pytest.mark.parametrize("earlier", [False, True], ids=["new", "over an earlier one"])
def test_a_full_disk_leaves_nothing_behind(ending, earlier, tmp_path, monkeypatch):
    out = tmp_path / "new" / "cells"
    path = out / f"a{ending}"
    before = example(600, 7)
    if earlier:
        write_labels(before, path, provenance=MADE)
    listed = files(tmp_path)
    if ending == ".zarr":
        zarr_that_fills_the_disk(monkeypatch)
    else:
        monkeypatch.setattr("tifffile.imwrite", full_disk)
        monkeypatch.setattr("imageio.v3.imwrite", full_disk)
        monkeypatch.setattr("numpy.save", full_disk)
    with pytest.raises(InputError, match="No space left on device"):
        write_labels(before + 1, path, provenance={"seed": 4})
    assert files(tmp_path) == listed
    if earlier:
        assert np.array_equal(read_labels(path), before)
        assert origin(out / "a.provenance.json") == MADE


def test_a_zarr_that_cannot_take_its_place_gives_it_back(tmp_path, monkeypatch):
    labels = example(5, 7)
    path = write_labels(labels, tmp_path / "a.zarr")
    listed = files(tmp_path)
    replace, moves = os.replace, []

    def fails_to_put_the_new_one_there(source, place):
        if path in (source, place):
            moves.append((Path(source).name, Path(place).name))
            if len(moves) == 2:
                full_disk()
        replace(source, place)

    monkeypatch.setattr("os.replace", fails_to_put_the_new_one_there)
    with pytest.raises(InputError, match="No space left"):
        write_labels(labels + 1, path, overwrite=True)
    assert moves == [("a.zarr", ".replaced-a.zarr"), ("a.zarr", "a.zarr"), (".replaced-a.zarr", "a.zarr")]
    assert files(tmp_path) == listed
    assert np.array_equal(read_labels(path), labels)


def test_an_earlier_zarr_is_replaced_as_a_whole(tmp_path):
    write_labels(example(1100, 7), tmp_path / "a.zarr", provenance=MADE)
    assert (tmp_path / "a.zarr" / "1").exists()
    labels = example(5, 7)
    write_labels(labels, tmp_path / "a.zarr")
    assert np.array_equal(read_labels(tmp_path / "a.zarr"), labels)
    assert {p.name for p in (tmp_path / "a.zarr").iterdir()} == {"zarr.json", "0"}
    assert [p.name for p in tmp_path.iterdir()] == ["a.zarr"]


def test_what_is_not_ours_is_not_deleted(tmp_path):
    zarr = pytest.importorskip("zarr")
    (tmp_path / "folder.zarr").mkdir()
    (tmp_path / "folder.zarr" / "thesis.txt").write_text("all my work")
    zarr.save_array(str(tmp_path / "array.zarr"), np.ones(3))
    image = zarr.open_group(str(tmp_path / "image.zarr"), mode="w-", zarr_format=3)
    image.attrs.update({"ome": {"version": "0.5", "multiscales": []}})
    (tmp_path / "file.zarr").write_text("a file")
    (tmp_path / "folder.tif").mkdir()
    (tmp_path / "folder.png").mkdir()
    listed = files(tmp_path)
    for path in tmp_path.iterdir():
        with pytest.raises(InputError, match=r"choose another name|name a file for the labels"):
            write_labels(example(5, 7), path)
    assert files(tmp_path) == listed
    assert (tmp_path / "folder.zarr" / "thesis.txt").read_text() == "all my work"


def test_a_volume_named_png_does_not_write_over_a_tiff(tmp_path):
    (tmp_path / "cells.tif").write_text("the image itself")
    with pytest.raises(InputError, match=r"cells.tif' is there already"):
        write_labels(example(3, 5, 7), tmp_path / "cells.png")
    assert [p.name for p in tmp_path.iterdir()] == ["cells.tif"]
    assert (tmp_path / "cells.tif").read_text() == "the image itself"


@pytest.mark.parametrize("name", ["a.jpg", "a", ".tif", "a.ome", "a.tif.gz"])
def test_an_unknown_ending_is_refused_with_those_that_are_known(name, tmp_path):
    with pytest.raises(InputError) as said:
        write_labels(example(5, 7), tmp_path / "new" / name)
    for ending in (".tif", ".ome.tif", ".png", ".npy", ".zarr"):
        assert ending in str(said.value)
    assert files(tmp_path) == []


@pytest.mark.parametrize(
    ("labels", "given", "words"),
    [
        (np.ones((5, 7)), {}, "must be whole numbers, not float64"),
        (np.array([[1, -2]]), {}, "must be numbers >= 0, not -2"),
        (np.zeros((0, 3), int), {}, "must not be empty"),
        (np.ones(5, int), {}, "2 to 5 dimensions, not 1"),
        (np.ones((1,) * 6, int), {}, "2 to 5 dimensions, not 6"),
        (np.ones((5, 7), int), {"axes": "ZYX"}, "axes must be 2 different letters"),
        (np.ones((5, 7), int), {"axes": "YY"}, "axes must be 2 different letters"),
        (np.ones((5, 7), int), {"axes": "ZX"}, "with Y and X among them"),
        (np.ones((5, 7), int), {"scale": (1, 0)}, "scale must not be 0"),
        (np.ones((5, 7), int), {"scale": (1, np.nan)}, "scale must be one finite number"),
        (np.ones((5, 7), int), {"scale": (1,)}, "scale must be one finite number for each of the axes YX"),
        (np.ones((5, 7), int), {"scale": 2}, "scale must be one number for each axis"),
        (np.ones((5, 7), int), {"translate": (1, 2, 3)}, "translate must be one finite number"),
        (np.ones((5, 7), int), {"units": ("um",)}, "units must be one for each of the axes YX, not 1"),
        (np.ones((5, 7), int), {"provenance": {"a": object()}}, "ready for JSON"),
        (np.full((5, 7), 2**32), {}, "TIFF holds labels up to 4294967295, not 4294967296"),
    ],
)
def test_what_cannot_be_written_is_one_sentence(labels, given, words, tmp_path):
    with pytest.raises(InputError) as said:
        write_labels(labels, tmp_path / "new" / "a.tif", **given)
    assert words in str(said.value)
    assert "\n" not in str(said.value)
    assert files(tmp_path) == []


def test_labels_of_64_bits(tmp_path):
    labels = np.full((5, 7), 2**40)
    for ending in (".npy", ".zarr"):
        assert np.array_equal(read_labels(write_labels(labels, tmp_path / f"a{ending}")), labels)
    for ending in (".tif", ".ome.tif", ".png"):
        with pytest.raises(InputError, match=r"write \.npy or \.zarr"):
            write_labels(labels, tmp_path / f"a{ending}")


def test_zarr_folders_that_others_wrote(tmp_path):
    """A bare array, NGFF 0.4 in zarr format 2, one without an image, and one that is broken."""
    zarr = pytest.importorskip("zarr")
    labels = example(3, 5, 7)
    zarr.save_array(str(tmp_path / "array.zarr"), labels)
    back, axes = read_image(tmp_path / "array.zarr")
    assert axes == "auto"
    assert np.array_equal(back, labels)
    group = zarr.open_group(str(tmp_path / "old"), mode="w-", zarr_format=2)
    axes = [{"name": name, "type": "space"} for name in "zyx"]
    group.attrs.update({"multiscales": [{"version": "0.4", "axes": axes, "datasets": [{"path": "full"}]}]})
    group.create_array("full", shape=labels.shape, dtype=labels.dtype)[...] = labels
    back, axes = read_image(tmp_path / "old")
    assert axes == "ZYX"
    assert np.array_equal(back, labels)
    group.attrs.update({"multiscales": []})
    (tmp_path / "broken.zarr").mkdir()
    (tmp_path / "broken.zarr" / "zarr.json").write_text("{")
    for name in ("old", "broken.zarr"):
        with pytest.raises(InputError, match="cannot be read as an image"):
            read_image(tmp_path / name)
    write_labels(example(2, 3, 5, 7), tmp_path / "time.zarr")
    with pytest.raises(InputError, match="time axis of 2"):
        read_labels(tmp_path / "time.zarr")


class Unit:
    """Like pint's: not a string, but says its name."""

    def __init__(self, name):
        self.name = name

    def __str__(self):
        return self.name


def layer(**more):
    """Attributes as napari hands them over."""
    base = dict(name="cells", scale=[2.0, 0.5, 0.25], translate=[0.0, 0.0, 0.0], axis_labels=("-3", "-2", "-1"))
    return base | dict(units=(Unit("micrometer"),) * 3, metadata={}, multiscale=False) | more


def test_a_layer_keeps_its_scale_units_and_name(tmp_path):
    labels = example(3, 5, 7)
    assert write_labels_layer(str(tmp_path / "a.ome.tif"), labels, layer()) == [str(tmp_path / "a.ome.tif")]
    image, pixels, _ = ome(tmp_path / "a.ome.tif")
    assert (image["Name"], float(pixels["PhysicalSizeZ"]), pixels["PhysicalSizeZUnit"]) == ("cells", 2, "µm")
    write_labels_layer(str(tmp_path / "b.zarr"), labels, layer(translate=[1.0, 2.0, 3.0]))
    write_labels_layer(str(tmp_path / "c.zarr"), labels, layer(axis_labels=("Time", "y", "x")))
    moved, timed = (zarr_group(tmp_path / name).attrs["ome"]["multiscales"][0] for name in ("b.zarr", "c.zarr"))
    assert moved["datasets"][0]["coordinateTransformations"][1]["translation"] == [1, 2, 3]
    assert [axis["name"] for axis in moved["axes"]] == ["z", "y", "x"]
    assert len(timed["datasets"][0]["coordinateTransformations"]) == 1
    assert timed["axes"][0] == {"name": "t", "type": "time"}  # a micrometre is no time


def test_a_layer_without_an_ending_with_provenance_and_regions(tmp_path):
    pandas = pytest.importorskip("pandas")
    regions = pandas.DataFrame({"index": [1, 2], "area": [10.5, 3.0]})
    meta = layer(metadata={"napari-gsw": MADE}, features=regions)
    written = write_labels_layer(str(tmp_path / "cells"), example(3, 5, 7), meta)
    names = ["cells.tif", "cells.provenance.json", "cells.regions.csv"]
    assert written == [str(tmp_path / name) for name in names]
    assert {p.name for p in tmp_path.iterdir()} == set(names)
    assert origin(tmp_path / "cells.provenance.json") == MADE
    with (tmp_path / "cells.regions.csv").open() as file:
        assert list(csv.reader(file)) == [["index", "area"], ["1", "10.5"], ["2", "3.0"]]
    for none in (pandas.DataFrame(), pandas.DataFrame({"area": [1.0]}), regions[:0], None):
        assert len(write_labels_layer(str(tmp_path / "none.tif"), example(3, 5, 7), layer(features=none))) == 1
    assert not (tmp_path / "none.regions.csv").exists()


def test_a_layer_with_a_table_of_somebody_elses_is_saved_twice(tmp_path):
    pandas = pytest.importorskip("pandas")
    meta = layer(features=pandas.DataFrame({"index": [1, 2], "area": [10.5, 3.0]}))
    for _ in range(2):
        written = write_labels_layer(str(tmp_path / "cells.tif"), example(3, 5, 7), meta)
    assert str(tmp_path / "cells.regions.csv") in written


def test_a_layer_of_several_levels_and_a_lazy_one(tmp_path):
    labels = example(3, 6, 8)
    write_labels_layer(str(tmp_path / "a.tif"), [labels, labels[:, ::2, ::2]], layer(multiscale=True))
    assert np.array_equal(read_labels(tmp_path / "a.tif"), labels)
    dask = pytest.importorskip("dask.array")
    write_labels_layer(str(tmp_path / "b.tif"), dask.from_array(labels, chunks=2), layer())
    assert np.array_equal(read_labels(tmp_path / "b.tif"), labels)


@pytest.mark.parametrize("name", ["is-a-file/below/a.tif", "a.jpg", "x" * 300 + ".tif", "x" * 300 + ".zarr"])
def test_a_layer_that_cannot_be_saved_says_why(name, tmp_path):
    """Not a ValueError: napari would report that there is no such writer."""
    (tmp_path / "is-a-file").write_text("")
    with pytest.raises(OSError, match=r"cannot be written|labels are written as") as said:
        write_labels_layer(str(tmp_path / name), example(3, 5, 7), layer())
    assert not isinstance(said.value, ValueError)
    assert "\n" not in str(said.value)
    assert files(tmp_path) == ["is-a-file"]


def test_axes_of_a_layer():
    assert layer_axes(("T", "Depth", "row", "column"), 4) == "TZYX"
    assert layer_axes(("channel", " y ", "X"), 3) == "CYX"
    assert layer_axes(("x", "y"), 2) == "XY"
    for names in (("-2", "-1"), ("z", "y"), ("y", "y"), ("t", "y", "x"), (), None):
        assert layer_axes(names, 2) is None


def test_names_of_units():
    for unit in ("um", "\N{MICRO SIGN}m", "\N{GREEK SMALL LETTER MU}m", "Micrometres"):
        assert normalize_unit(unit) == "micrometer"
    given = (Unit("css_pixel"), "pixels", "ms", "m", "Hours", "light years")
    assert [normalize_unit(unit) for unit in given] == [
        "pixel", "pixel", "millisecond", "meter", "hour", "light years",
    ]  # fmt: skip
