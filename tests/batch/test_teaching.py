"""A folder of images, taught by what was painted on one."""

from __future__ import annotations

import json

import imageio.v3 as iio
import numpy as np
import pytest
import tifffile

import napari_gsw as gsw
from napari_gsw.batch.images import BatchSpec, ReferenceImage, Selection, select_images
from napari_gsw.batch.run import run_batch
from napari_gsw.cli import main
from napari_gsw.files.images import read_labels
from napari_gsw.files.results import OutputOptions
from napari_gsw.methods import choose
from napari_gsw.sample_data import random_mosaic

FAST = dict(sweeps=40, site_size=60)
OPTIONS = [word for name, value in FAST.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def two_colours(shape, seed, turned=False):
    """A noisy picture of two colours, and which is which, 3 and 8."""
    rng = np.random.default_rng(seed)
    truth = np.where((np.arange(shape[0])[:, None] + np.arange(shape[1])) < sum(shape) / 2, 3, 8)
    truth = truth[::-1] if turned else truth
    colours = np.where((truth == 3)[..., None], (200, 80, 60), (70, 120, 180))
    return np.clip(colours + rng.normal(0, 12, (*shape, 3)), 0, 255).astype(np.uint8), truth


@pytest.fixture
def lesson(tmp_path):
    """A folder of two images, and beside it one on which two strokes were painted."""
    folder = tmp_path / "images"
    folder.mkdir()
    truths = {}
    for name, shape, seed, turned in (("a", (50, 60), 1, True), ("b", (40, 70), 2, False)):
        image, truths[name] = two_colours(shape, seed, turned)
        iio.imwrite(folder / f"{name}.png", image)
    first, truth = two_colours((60, 60), 0)
    paint = np.zeros(truth.shape, np.uint8)
    paint[5:12, 5:12], paint[48:55, 48:55] = 3, 8
    iio.imwrite(tmp_path / "first.png", first)
    tifffile.imwrite(tmp_path / "painted.tif", paint)
    return tmp_path, truths


def taught(lesson, *options):
    path, _ = lesson
    return main([
        "batch", str(path / "images"), "-o", str(path / "out"), "--teach", str(path / "painted.tif"),
        "--image", str(path / "first.png"), "--jobs", "1", "-q", *OPTIONS, *options,
    ])  # fmt: skip


def test_labels_mean_in_every_image_what_they_mean_in_the_paint(lesson):
    path, truths = lesson
    assert taught(lesson) == 0
    for name, truth in truths.items():
        assert (read_labels(path / "out" / f"{name}.tif") == truth).mean() > 0.93
    record = json.loads((path / "out" / "a.provenance.json").read_text())
    assert record["image"]["shape"] == [50, 60, 3]
    assert [(t["image"], t["painted"]) for t in record["teachers"]] == [("first.png", "painted.tif")]
    assert len(record["teachers"][0]["painted_sha256"]) == 64
    assert str(path) not in json.dumps(record)
    summary = json.loads((path / "out" / "batch.json").read_text())
    assert summary["teachers"] == [{"image": "first.png", "painted": "painted.tif"}]


@pytest.mark.slow
def test_an_image_is_segmented_as_together_with_its_teacher_in_python(lesson):
    path, _ = lesson
    rows = run_batch(
        path / "images", path / "out", teachers=[ReferenceImage(path / "first.png", path / "painted.tif")],
        extras=OutputOptions(sites=True, plot=True, uncertainty=True), **FAST,
    )  # fmt: skip
    images = [iio.imread(path / "images" / "a.png"), iio.imread(path / "first.png")]
    result = gsw.segment(images, seeds=[None, tifffile.imread(path / "painted.tif")], **FAST)
    assert np.array_equal(read_labels(path / "out" / "a.tif"), result.labels[0])
    assert rows[0]["sites"] == result.problem.sites_in_image(0).sum() < result.problem.n
    assert rows[0]["clusters"] == len(np.unique(result.labels[0]))
    sites = read_labels(path / "out" / "a.sites.tif")
    assert sites.shape == (50, 60)
    assert (path / "out" / "a.entropy.tif").exists()
    assert (path / "out" / "a.overlay.png").exists()


def test_a_teacher_in_the_folder_is_segmented_with_its_own_paint(lesson):
    path, _ = lesson
    rows = run_batch(
        path, path / "out", selection=Selection(pattern="first.png"),
        teachers=[ReferenceImage(path / "first.png", path / "painted.tif")], **FAST,
    )  # fmt: skip
    alone = gsw.segment([iio.imread(path / "first.png")], seeds=[tifffile.imread(path / "painted.tif")], **FAST)
    assert rows[0]["sites"] == alone.problem.n
    assert np.array_equal(read_labels(path / "out" / "first.tif"), alone.labels[0])


def test_several_teachers(lesson):
    path, truths = lesson
    paint = tifffile.imread(path / "painted.tif")
    other = np.where(paint == 3, 0, paint)
    tifffile.imwrite(path / "eight.tif", other)
    tifffile.imwrite(path / "three.tif", np.where(paint == 8, 0, paint))
    second, _ = two_colours((60, 60), 7)
    iio.imwrite(path / "second.png", second)
    assert main([
        "batch", str(path / "images"), "-o", str(path / "out"), "--teach", str(path / "three.tif"),
        "--image", str(path / "first.png"), "--teach", str(path / "eight.tif"), "--image", str(path / "second.png"),
        "--jobs", "1", "-q", *OPTIONS, "--sweeps", "300",
    ]) == 0  # fmt: skip
    for name, truth in truths.items():
        assert (read_labels(path / "out" / f"{name}.tif") == truth).mean() > 0.93


def test_other_paint_makes_the_images_again(lesson):
    path, _ = lesson
    assert taught(lesson) == 0
    before = read_labels(path / "out" / "a.tif")
    paint = tifffile.imread(path / "painted.tif")
    tifffile.imwrite(path / "painted.tif", np.where(paint == 3, 5, paint).astype(np.uint16))
    assert taught(lesson, "--resume") == 0
    assert np.array_equal(read_labels(path / "out" / "a.tif"), np.where(before == 3, 5, before))


def test_the_axes_of_a_teacher_may_have_another_order(tmp_path):
    image, truth = random_mosaic(np.random.default_rng(1), (40, 50))
    folder = tmp_path / "images"
    folder.mkdir()
    tifffile.imwrite(folder / "a.tif", image.transpose(2, 0, 1)[:2].astype(np.uint16), metadata={"axes": "CYX"})
    tifffile.imwrite(tmp_path / "first.tif", image[..., :2].astype(np.uint16), metadata={"axes": "YXC"})
    tifffile.imwrite(tmp_path / "painted.tif", np.where(np.random.default_rng(0).random(truth.shape) < 0.05, truth, 0))
    teacher = ReferenceImage(tmp_path / "first.tif", tmp_path / "painted.tif")
    assert [row["status"] for row in run_batch(folder, tmp_path / "out", teachers=[teacher], **FAST)] == ["done"]


def test_what_cannot_teach_is_said_before_the_first_image(lesson, capsys):
    path, _ = lesson
    folder = str(path / "images")
    paint = path / "painted.tif"

    def sentence(*options):
        assert main(["batch", folder, "-o", str(path / "out"), *options]) == 2
        assert not (path / "out").exists()
        return capsys.readouterr().err

    assert "1 --teach, but 0 --image" in sentence("--teach", str(paint))
    assert "is not a file" in sentence("--teach", str(paint), "--image", str(path / "none.png"))
    both = ("--teach", str(paint), "--image", str(path / "first.png"))
    assert "cannot be taught" in sentence(*both, "--method", "mean-shift")
    tifffile.imwrite(paint, np.zeros((60, 60), np.uint8))
    assert "nothing is painted" in sentence(*both)
    tifffile.imwrite(paint, np.ones((50, 60), np.uint8))
    assert "must have the shape of 'first.png'" in sentence(*both)


def test_an_image_that_does_not_fit_its_teacher_costs_no_other(lesson):
    path, _ = lesson
    iio.imwrite(path / "images" / "grey.png", iio.imread(path / "images" / "a.png")[..., 0])
    assert taught(lesson) == 3
    rows = (path / "out" / "batch.csv").read_text()
    assert "same channels, not 1 and RGB" in rows
    assert (path / "out" / "b.tif").exists()


def test_the_chains_of_a_taught_image_stay_together(lesson):
    path, _ = lesson
    image = select_images(path / "images", path / "out", Selection())[0]
    choice = choose("gsw", "general", {"chains": 2})
    teachers = (ReferenceImage(path / "first.png", path / "painted.tif"),)
    assert BatchSpec(path / "images", choice).make_task(image, path / "out").has_separable_chains()
    taught = BatchSpec(path / "images", choice, teachers=teachers)
    assert not taught.make_task(image, path / "out").has_separable_chains()
