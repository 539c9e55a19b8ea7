"""Data sets are found and read in their publishers' layouts, and every defect of a file is one line that names it."""

from __future__ import annotations

import warnings
from pathlib import Path

import imageio.v3 as iio
import numpy as np
import pytest
import tifffile
from scipy.io import savemat

import napari_gsw as gsw
from napari_gsw.core.errors import InputError
from napari_gsw.research.evaluation.data_sets import Example, list_bsds, list_labelled_folder, list_labelme
from napari_gsw.scores.partitions import adjusted_rand

DATA = Path(__file__).parents[4] / "shared" / "data"
RNG = np.random.default_rng(0)
SHAPE = (20, 30)
PHOTOGRAPH = RNG.integers(0, 255, (*SHAPE, 3), dtype=np.uint8)
FIRST, SECOND = (RNG.integers(1, 9, SHAPE, dtype=np.uint16) for _ in range(2))


def put(file, content):
    """Write an array, bytes or text, whatever the file's name asks for, with the folders above it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        file.write_bytes(content)
    elif isinstance(content, str):
        file.write_text(content, encoding="utf-8")
    elif file.suffix == ".npy":
        np.save(file, content, allow_pickle=True)
    elif file.suffix in (".tif", ".tiff"):
        tifffile.imwrite(file, content)
    else:
        iio.imwrite(file, content)
    return file


def structs(n):
    """A cell of one array of structs instead of one struct."""
    cell = np.empty((1, 1), object)
    cell[0, 0] = np.full((1, n), np.void((FIRST,), [("Segmentation", object)]))
    return {"groundTruth": cell}


def cells(*segmentations):
    """A cell of structs, as the Berkeley files have it."""
    cell = np.empty((1, len(segmentations)), object)
    for k, segmentation in enumerate(segmentations):
        cell[0, k] = {"Segmentation": segmentation, "Boundaries": np.zeros(SHAPE, bool)}
    return {"groundTruth": cell}


def berkeley(folder, variables=None, name="a"):
    """A data set of one image; returns its truth file."""
    put(folder / f"images/train/{name}.jpg", PHOTOGRAPH)
    truth = folder / f"groundTruth/train/{name}.mat"
    truth.parent.mkdir(parents=True, exist_ok=True)
    savemat(truth, cells(FIRST, SECOND) if variables is None else variables, do_compression=True)
    return truth


def box(top, left, bottom, right, deleted="0"):
    """A LabelMe object with a rectangle from the first to the last pixel, both its own."""
    corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
    points = "".join(f"<pt><x>{x}</x><y>{y}</y></pt>" for x, y in corners)
    return f"<object><name>a &amp; b</name><deleted>{deleted}</deleted><polygon>{points}</polygon></object>"


def polygons(folder, *objects, image=PHOTOGRAPH, name="a"):
    """A data set of one image; returns its truth file."""
    put(folder / f"images/{name}.png", image)
    return put(folder / f"annotations/{name}.xml", f"<annotation>{''.join(objects)}</annotation>")


def painted(folder, *objects):
    polygons(folder, *objects)
    (human,) = list_labelme(folder)[0].read().human_labels
    return human


def labelled(folder, image, labels, image_name="a.tif", labels_name="a.tif"):
    """A data set of one image; returns its truth file."""
    put(folder / "images" / image_name, image)
    return put(folder / "labels" / labels_name, labels)


def message(call, *arguments):
    """The one line of the InputError that a call must end with; nothing else, and no warning, may escape."""
    with pytest.raises(InputError) as caught:
        call(*arguments)
    line = str(caught.value)
    assert line
    assert len(line.splitlines()) == 1
    return line


def refused(examples, file):
    """Why the one example of a data set cannot be read; the file to blame is named."""
    (example,) = examples
    line = message(example.read)
    assert repr(str(file)) in line
    return line


# Listing


def test_lists_are_sorted_by_name_and_name_their_files(tmp_path):
    for name in ("b10", "b9", "a"):
        berkeley(tmp_path, name=name)
        polygons(tmp_path / "l", box(0, 0, 5, 5), name=name)
        labelled(tmp_path / "f", PHOTOGRAPH, FIRST, f"{name}.png", f"{name}.tif")
    names = ["a", "b10", "b9"]
    assert list_bsds(tmp_path, "train") == [
        Example(n, tmp_path / f"images/train/{n}.jpg", tmp_path / f"groundTruth/train/{n}.mat", "bsds") for n in names
    ]
    home = tmp_path / "l"
    assert list_labelme(str(home)) == [
        Example(n, home / f"images/{n}.png", home / f"annotations/{n}.xml", "labelme") for n in names
    ]
    home = tmp_path / "f"
    assert list_labelled_folder(home) == [
        Example(n, home / f"images/{n}.png", home / f"labels/{n}.tif", "folder") for n in names
    ]


def test_names_are_sorted_without_their_endings(tmp_path):
    for name in ("a.png", "a-b.png", "a.b.png"):  # "a-b.png" < "a.png", but "a" < "a-b"
        put(tmp_path / "images" / name, PHOTOGRAPH)
    (tmp_path / "labels").mkdir()
    assert [e.name for e in list_labelled_folder(tmp_path)] == ["a", "a-b", "a.b"]


def test_only_images_are_listed(tmp_path):
    berkeley(tmp_path)
    put(tmp_path / "images/train/Thumbs.db", b"")
    put(tmp_path / "images/train/._a.jpg", b"")
    (tmp_path / "images/train/folder.jpg").mkdir()
    put(tmp_path / "images/train/c.png", PHOTOGRAPH)
    put(tmp_path / "images/train/D.JPG", b"")
    assert [e.image.name for e in list_bsds(tmp_path, "train")] == ["D.JPG", "a.jpg", "c.png"]


@pytest.mark.parametrize("ending", ["png", "TIF"])
def test_labels_may_have_any_of_their_endings(ending, tmp_path):
    truth = labelled(tmp_path, PHOTOGRAPH, FIRST.astype(np.uint8), "a.jpg", f"a.{ending.lower()}")
    truth = truth.rename(truth.with_suffix(f".{ending}"))
    (example,) = list_labelled_folder(tmp_path)
    assert example.truth == truth
    assert np.array_equal(example.read().human_labels[0], FIRST)


def test_two_images_of_one_name_are_refused(tmp_path):
    labelled(tmp_path, PHOTOGRAPH, FIRST, "a.png")
    put(tmp_path / "images/a.tif", PHOTOGRAPH)
    line = message(list_labelled_folder, tmp_path)
    assert "a.png" in line
    assert "a.tif" in line


@pytest.mark.parametrize(
    ("lister", "made", "missing", "layout"),
    [
        (list_labelme, "", "images", "images/NAME.jpg and annotations/NAME.xml"),
        (list_labelme, "images/a.jpg", "annotations", "images/NAME.jpg and annotations/NAME.xml"),
        (list_labelled_folder, "", "images", "labels/NAME.tif"),
        (list_labelled_folder, "images/a.jpg", "labels", "labels/NAME.tif"),
        (lambda folder: list_bsds(folder, "train"), "", "images", "groundTruth/<split>/NAME.mat"),
        (lambda folder: list_bsds(folder, "train"), "images/a.jpg", "images/train", "groundTruth/<split>/NAME.mat"),
        (lambda folder: list_bsds(folder, "train"), "images/train/a.jpg", "groundTruth/train", "groundTruth/<split>"),
    ],
)
def test_a_missing_folder_is_named_with_the_layout(lister, made, missing, layout, tmp_path):
    if made:
        put(tmp_path / made, PHOTOGRAPH)
    line = message(lister, tmp_path)
    assert f"{str(tmp_path / missing)!r} is missing" in line
    assert layout in line


@pytest.mark.parametrize("folder", ["nowhere", "file", "a\0b"])
def test_what_is_no_folder(folder, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    assert repr(str(tmp_path / folder / "images")) in message(list_labelme, tmp_path / folder)


def test_a_split_that_is_not_there_is_told_with_those_that_are(tmp_path):
    for split in ("val", "train"):
        put(tmp_path / f"images/{split}/a.jpg", PHOTOGRAPH)
    put(tmp_path / "images/a.jpg", PHOTOGRAPH)
    for split in ("test", "", "a.jpg", ".", "../images/val", "t\0"):
        line = message(list_bsds, tmp_path, split)
        assert "train, val" in line
        assert repr(str(Path(tmp_path, "images", split))) in line


def test_a_folder_without_images(tmp_path):
    for folder in ("images", "annotations"):
        put(tmp_path / folder / "notes.txt", "")
    line = message(list_labelme, tmp_path)
    assert f"no image in {str(tmp_path / 'images')!r}" in line
    assert "the layout must be images/" in line


@pytest.mark.parametrize(
    ("lister", "image", "truth"),
    [
        (list_labelme, "images/a.jpg", "annotations/a.xml"),
        (list_labelled_folder, "images/a.jpg", "labels/a.tif"),
        (lambda folder: list_bsds(folder, "train"), "images/train/a.jpg", "groundTruth/train/a.mat"),
    ],
)
def test_an_image_without_its_truth_is_listed_and_then_refused(lister, image, truth, tmp_path):
    put(tmp_path / image, PHOTOGRAPH)
    (tmp_path / truth).parent.mkdir(parents=True)
    (example,) = examples = lister(tmp_path)
    assert (example.name, example.truth) == ("a", tmp_path / truth)
    assert "is missing" in refused(examples, tmp_path / truth)
    (tmp_path / truth).mkdir()
    assert "is missing" in refused(examples, tmp_path / truth)


# Images


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.jpg", b"no image", "cannot be read as an image"),
        ("a.jpg", b"", "cannot be read as an image"),
        ("a.tif", b"II*\0", "cannot be read as an image"),
        ("a.png", iio.imwrite("<bytes>", PHOTOGRAPH, extension=".png")[:300], "cannot be read as an image"),
        ("a.npy", np.array([{}]), "cannot be read as an image"),
        ("a.npy", np.zeros((0, 5)), "empty"),
        ("a.npy", np.full(SHAPE, np.nan), "NaN"),
        ("a.npy", np.zeros((2, 3, 4, 5, 6)), "axes"),
    ],
)
def test_an_image_that_cannot_be_read(name, content, words, tmp_path):
    labelled(tmp_path, content, FIRST, name)
    assert words in refused(list_labelled_folder(tmp_path), tmp_path / "images" / name)


def test_an_image_that_is_too_large(tmp_path, monkeypatch):
    def full(*_):
        raise MemoryError

    labelled(tmp_path, PHOTOGRAPH, FIRST, "a.png")
    monkeypatch.setattr("napari_gsw.research.evaluation.data_sets.normalize_image", full)
    assert "too large" in refused(list_labelled_folder(tmp_path), tmp_path / "images/a.png")


@pytest.mark.parametrize("lister", [list_labelme, lambda folder: list_bsds(folder, "train")])
def test_a_photograph_that_cannot_be_read(lister, tmp_path):
    berkeley(tmp_path)
    polygons(tmp_path, box(0, 0, 5, 5))
    (example,) = lister(tmp_path)
    example.image.write_bytes(b"no image")
    assert "cannot be read as an image" in refused([example], example.image)
    example.image.unlink()
    refused([example], example.image)


# Berkeley


@pytest.mark.parametrize("dtype", [np.uint8, np.float64])
def test_berkeley_gives_the_segmentation_of_every_person(dtype, tmp_path):
    berkeley(tmp_path, cells(FIRST.astype(dtype), SECOND.astype(dtype)))
    (example,) = list_bsds(tmp_path, "train")
    scene = example.read()
    assert np.array_equal(scene.image, iio.imread(tmp_path / "images/train/a.jpg"))
    assert (scene.axes, scene.ignore_background) == ("auto", False)
    assert len(scene.human_labels) == 2
    for human, truth in zip(scene.human_labels, (FIRST, SECOND), strict=True):
        assert human.dtype == np.int32
        assert np.array_equal(human, truth)


def odd(value):
    array = FIRST.astype(np.float64)
    array[3, 4] = value
    return array


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"somethingElse": FIRST}, "no cell groundTruth"),
        ({"groundTruth": FIRST}, "no cell groundTruth"),
        ({"groundTruth": "text"}, "no cell groundTruth"),
        ({"groundTruth": np.empty((1, 0), object)}, "no cell groundTruth"),
        ({"groundTruth": {"Segmentation": FIRST}}, "no cell groundTruth"),
        ({"groundTruth": np.array([[{"Boundaries": FIRST}, {"Boundaries": FIRST}]])}, "without one field Segmentation"),
        ({"groundTruth": np.array([["text", FIRST]], object)}, "without one field Segmentation"),
        (structs(2), "without one field Segmentation"),
        (structs(0), "without one field Segmentation"),
        (cells(FIRST, FIRST.T), "labels of shape (30, 20), its image has the shape (20, 30)"),
        (cells(np.zeros((0, 0))), "labels of shape (0, 0)"),
        (cells({"Segmentation": FIRST}), "labels of shape (1, 1)"),
        (cells(FIRST, odd(1.5)), "whole numbers"),
        (cells(odd(np.nan)), "whole numbers"),
        (cells(odd(np.inf)), "whole numbers"),
        (cells(FIRST * 1j), "whole numbers"),
        (cells(np.full(SHAPE, "a")), "whole numbers"),
    ],
)
def test_a_berkeley_file_with_other_contents(variables, words, tmp_path):
    truth = berkeley(tmp_path, variables)
    assert words in refused(list_bsds(tmp_path, "train"), truth)


def test_a_berkeley_file_that_is_none(tmp_path):
    truth = berkeley(tmp_path)
    whole = truth.read_bytes()
    for content in (b"", b"no matrix", whole[:60], whole[:128], whole[:200], whole[:-20], whole[:300] + bytes(500)):
        truth.write_bytes(content)
        refused(list_bsds(tmp_path, "train"), truth)
    truth.write_bytes(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + bytes(100))
    assert "cannot be read as a MATLAB file" in refused(list_bsds(tmp_path, "train"), truth)


def test_remarks_of_a_decoder_do_not_leak(tmp_path, monkeypatch):
    berkeley(tmp_path)

    def chatty(*_, **__):
        warnings.warn("something about the file", stacklevel=1)
        return {"groundTruth": 3}

    monkeypatch.setattr("napari_gsw.research.evaluation.data_sets.loadmat", chatty)
    (example,) = list_bsds(tmp_path, "train")
    assert "no cell groundTruth" in message(example.read)


# LabelMe


def test_small_polygons_are_painted_over_large_ones(tmp_path):
    small, large, middle = box(4, 4, 6, 6), box(0, 0, 15, 20), box(2, 2, 10, 12)
    human = painted(tmp_path, small, large, middle)
    expected = np.zeros(SHAPE, np.int32)
    expected[0:16, 0:21] = 1
    expected[2:11, 2:13] = 2
    expected[4:7, 4:7] = 3
    assert human.dtype == np.int32
    assert np.array_equal(human, expected)
    scene = list_labelme(tmp_path)[0].read()
    assert np.array_equal(scene.image, PHOTOGRAPH)
    assert (scene.axes, scene.ignore_background) == ("auto", True)


def test_of_equal_areas_the_later_is_painted_over_the_earlier(tmp_path):
    upper, lower = box(0, 0, 9, 9), box(5, 0, 14, 9)
    human = painted(tmp_path, upper, lower)
    assert human[[0, 7, 12], 3].tolist() == [1, 2, 2]
    human = painted(tmp_path, lower, upper)
    assert human[[0, 7, 12], 3].tolist() == [2, 2, 1]


def test_area_does_not_depend_on_the_sense_of_a_polygon(tmp_path):
    for large in (box(0, 0, 15, 20), box(15, 0, 0, 20)):
        human = painted(tmp_path, box(4, 4, 6, 6), large)
        assert (human[5, 5], human[1, 1]) == (2, 1)


def test_deleted_objects_are_skipped(tmp_path):
    kept = box(0, 0, 9, 9)
    alone = painted(tmp_path, kept)
    assert np.array_equal(painted(tmp_path, box(2, 2, 4, 4, deleted="1"), kept), alone)
    assert np.array_equal(painted(tmp_path, kept, box(2, 2, 4, 4, deleted="\n 1\n")), alone)
    assert np.array_equal(painted(tmp_path, kept, box("nan", 2, "x", 4, deleted="1")), alone)
    assert painted(tmp_path, kept, box(2, 2, 4, 4, deleted="")).max() == 2
    assert painted(tmp_path, kept, box(2, 2, 4, 4).replace("<deleted>0</deleted>", "")).max() == 2


def test_polygons_are_clipped_to_the_image(tmp_path):
    human = painted(tmp_path, box(-7, -3, 4, 100), box(15, 25, 40, 31), box(50, 50, 51, 51))
    expected = np.zeros(SHAPE, np.int32)
    expected[:5] = 1
    expected[15:, 25:] = 2
    assert np.array_equal(human, expected)


def test_odd_whitespace_other_fields_and_the_order_of_x_and_y(tmp_path):
    plain = painted(tmp_path, box(2, 3, 9, 19))
    points = "".join(
        f"<pt><y>\n {y}.0\t</y><time>x</time><x>{x}</x></pt>" for x, y in [(3, 2), (19, 2), (19, 9), (3, 9)]
    )
    point = "<pt><x>3</x><y>4</y></pt>"  # two of them are no polygon
    odd = f"<object><polygon><username>me</username>{points}</polygon><polygon>{2 * point}</polygon></object>"
    assert np.array_equal(painted(tmp_path, odd), plain)
    assert (plain[2:10, 3:20] == 1).all()
    assert plain.sum() == 8 * 17


@pytest.mark.parametrize(
    "objects",
    [
        [],
        [box(0, 0, 9, 9, deleted="1")],
        [box(50, 50, 60, 60)],
        ["<object><polygon><pt><x>1</x><y>2</y></pt></polygon></object>"],
        ["<polygon/>"],
    ],
    ids=["empty", "deleted", "outside", "point", "no object"],
)
def test_annotations_without_a_usable_polygon(objects, tmp_path):
    truth = polygons(tmp_path, *objects)
    assert "no polygon" in refused(list_labelme(tmp_path), truth)


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e300", "-1e300", "", "x", "1,5", "<b>1</b>"])
def test_coordinates_that_are_no_positions(value, tmp_path):
    for bad in (box(0, 0, value, 5), box(0, 0, 5, value)):
        truth = polygons(tmp_path, box(0, 0, 9, 9), bad)
        assert "corner" in refused(list_labelme(tmp_path), truth)
    truth = polygons(tmp_path, box(0, 0, 9, 9).replace("<x>9</x>", ""))
    assert "corner" in refused(list_labelme(tmp_path), truth)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no annotation",
        b"<annotation><object></annotation>",
        b"<annotation><name>a & b</name></annotation>",
        b'<?xml version="1.0" encoding="nonsense"?><annotation/>',
        b"<annotation>\xff\xfe</annotation>",
        bytes(range(256)),
    ],
    ids=range(7),
)
def test_annotations_that_are_not_well_formed(content, tmp_path):
    truth = polygons(tmp_path)
    truth.write_bytes(content)
    assert "cannot be read as XML" in refused(list_labelme(tmp_path), truth)


def test_annotations_of_an_image_of_another_shape(tmp_path):
    def size(rows, columns):
        return f"<imagesize><nrows> {rows}\n</nrows><ncols>{columns}</ncols></imagesize>"

    truth = polygons(tmp_path, box(0, 0, 9, 9), size(30, 20))
    assert "an image of shape (30, 20), its image has the shape (20, 30)" in refused(list_labelme(tmp_path), truth)
    assert painted(tmp_path, box(0, 0, 9, 9), size(20, 30)).sum() == 100
    assert painted(tmp_path, box(0, 0, 9, 9), size("", "")).sum() == 100
    truth = polygons(tmp_path, box(0, 0, 9, 9))
    (example,) = list_labelme(tmp_path)
    volume = put(tmp_path / "volume.npy", np.zeros((5, 20, 30)))
    assert "flat image" in refused([Example("a", volume, example.truth, "labelme")], truth)


# Folders of labels


@pytest.mark.parametrize(
    ("image", "name", "axes"),
    [
        (PHOTOGRAPH, "a.tif", "YXS"),
        (RNG.integers(0, 255, (*SHAPE, 4), dtype=np.uint8), "a.png", "auto"),
        (PHOTOGRAPH[..., 0], "a.bmp", "auto"),
        (PHOTOGRAPH[..., 0].astype(np.uint16), "a.tiff", "YX"),
        (RNG.random((7, 8, 9)), "a.tif", "ZYX"),
        (RNG.random((7, 8, 9)), "a.npy", "auto"),
    ],
)
def test_images_of_every_kind_with_labels(image, name, axes, tmp_path):
    space = image.shape if image.dtype == float else SHAPE
    labels = RNG.integers(0, 300, space, dtype=np.uint16)
    labelled(tmp_path, image, labels, name)
    scene = list_labelled_folder(tmp_path)[0].read()
    assert np.array_equal(scene.image, image)
    assert (scene.axes, scene.ignore_background) == (axes, False)
    (human,) = scene.human_labels
    assert human.dtype == np.int32
    assert np.array_equal(human, labels)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.tif", FIRST.T, "labels of shape (30, 20), its image has the shape (20, 30)"),
        ("a.tif", PHOTOGRAPH, "labels of shape (20, 30, 3)"),
        ("a.tif", odd(1.5).astype(np.float32), "whole numbers"),
        ("a.npy", odd(np.nan), "whole numbers"),
        ("a.npy", FIRST * 1j, "whole numbers"),
        ("a.npy", np.full(SHAPE, "a"), "whole numbers"),
        ("a.npy", np.array([{}]), "cannot be read"),
        ("a.npy", b"", "cannot be read"),
        ("a.tif", b"II*\0", "cannot be read"),
        ("a.png", b"no image", "cannot be read"),
    ],
)
def test_labels_that_cannot_be_used(name, content, words, tmp_path):
    truth = labelled(tmp_path, PHOTOGRAPH, content, "a.png", name)
    assert words in refused(list_labelled_folder(tmp_path), truth)


@pytest.mark.parametrize("folder", ["images", "labels"])
def test_an_archive_that_is_named_as_an_array(folder, tmp_path):
    labelled(tmp_path, PHOTOGRAPH, FIRST, "a.npy", "a.npy")
    file = tmp_path / folder / "a.npy"
    with file.open("wb") as stream:
        np.savez(stream, FIRST)
    refused(list_labelled_folder(tmp_path), file)


@pytest.mark.parametrize(("dtype", "far"), [("uint32", 2**32 - 1), ("uint64", 2**63 + 1), ("int64", -(2**40) + 1)])
def test_numbers_beyond_32_bits_keep_their_regions(dtype, far, tmp_path):
    labels = FIRST.astype(dtype)
    labels[0, :2] = 0, far  # cut to 32 bits, the latter two would become 1, which is a region already
    labelled(tmp_path, PHOTOGRAPH, labels, "a.png", "a.npy")
    (human,) = list_labelled_folder(tmp_path)[0].read().human_labels
    assert (human.dtype, human.min()) == (np.int32, 0)
    pairs = set(zip(human.ravel().tolist(), labels.ravel().tolist(), strict=True))
    assert len(pairs) == len(np.unique(labels)) == len(np.unique(human))


@pytest.mark.parametrize("dtype", [bool, np.int8, np.int64, ">u2"])
def test_labels_of_any_whole_type(dtype, tmp_path):
    labels = (FIRST - 3 * (np.dtype(dtype).kind == "i")).astype(dtype)
    labelled(tmp_path, PHOTOGRAPH, labels, "a.png", "a.npy")
    (human,) = list_labelled_folder(tmp_path)[0].read().human_labels
    assert human.dtype == np.dtype(np.int32)
    assert np.array_equal(human, labels)


# The data sets themselves


def stored(name):
    """A development data set; the test is skipped where it is absent."""
    if not (DATA / name).is_dir():
        pytest.skip(f"needs the data set {name}")
    return DATA / name


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "lister"),
    [
        ("bsds500", lambda folder: list_bsds(folder, "train")),
        ("labelme8", list_labelme),
        ("microscopy", list_labelled_folder),
    ],
)
def test_data_sets_as_they_are_stored(name, lister):
    for example in lister(stored(name))[::10]:
        scene = example.read()
        for human in scene.human_labels:
            assert human.shape == scene.image.shape[: human.ndim]
            assert len(np.unique(human)) > 1


@pytest.mark.data
def test_nuclei_of_a_volume_are_seen():
    """They were all taken for background, and nothing said so but an empty result."""
    scene = {e.name: e for e in list_labelled_folder(stored("microscopy"))}["stardist_3d"].read()
    result = gsw.segment(scene.image, preset="microscopy", axes=scene.axes)
    assert result.n_regions > 20
    pytest.importorskip("onnxruntime")  # which alone tells them apart as people do
    assert adjusted_rand(scene.human_labels[0], result.labels) > 0.74
