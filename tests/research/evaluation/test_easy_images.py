"""Easy pictures in small: each preset finds what is plain to see, and nothing where nothing is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import ndimage
from skimage.data import astronaut, chelsea, coffee

import napari_gsw as gsw
from napari_gsw.cli import main
from napari_gsw.core.errors import InputError
from napari_gsw.core.features.codebook import has_few_colours
from napari_gsw.core.features.network import has_onnxruntime, measure_plain_width, to_uint8
from napari_gsw.core.image.normalized_image import normalize_image
from napari_gsw.core.settings import MIN_REGION_PIXELS
from napari_gsw.research.evaluation.easy_images import (
    COLOUR,
    MIDDLE,
    EasyImage,
    make_easy_images,
    select_for_preset,
)
from napari_gsw.sample_data import mosaic
from napari_gsw.scores.partitions import adjusted_rand

SQUARE, DISKS, STRIPES, RAMP = (EasyImage(shape, size=96) for shape in ("square", "disks", "stripes", "ramp"))


def make_empty_images(size):
    """Make 20 images (size, size) uint8 without an object, by name: noise, gradients, and blurred spots."""
    rng = np.random.default_rng(14)
    side = np.linspace(-0.5, 0.5, size)
    rows, columns = np.meshgrid(side, side, indexing="ij")
    fields = {}
    for sigma in (2, 10, 25, 60):
        fields[f"noise-{sigma}"] = sigma * rng.normal(size=rows.shape)
    for width in (1, 2, 4, 8):
        smooth = ndimage.gaussian_filter(rng.normal(size=rows.shape), width)
        fields[f"soft-noise-{width}"] = 25 * smooth / smooth.std()
    counts = rng.poisson(np.full(rows.shape, 4.0))
    fields["photons"] = 12.0 * (counts - counts.mean())
    fields["even-noise"] = 80.0 * (rng.random(rows.shape) - 0.5)
    for contrast, noise in ((100, 0), (100, 10), (40, 25)):
        ramp = contrast * (0.8 * columns + 0.6 * rows)
        fields[f"ramp-{contrast}-{noise}"] = ramp + noise * rng.normal(size=rows.shape)
    for noise in (0, 10):
        fields[f"corners-{noise}"] = -150 * (rows**2 + columns**2) + noise * rng.normal(size=rows.shape)
    spots = np.zeros(rows.shape)
    spots[tuple(rng.integers(0, size, (2, 30)))] = 1.0
    for width, noise in ((20, 0), (20, 10), (30, 5)):
        haze = ndimage.gaussian_filter(spots, width, mode="wrap")
        fields[f"haze-{width}-{noise}"] = 80 * (haze / haze.max() - 0.5) + noise * rng.normal(size=rows.shape)
    fields["constant"] = np.zeros(rows.shape)
    fields["nearly-constant"] = (rng.random(rows.shape) < 0.5).astype(np.float64)
    return {name: np.clip(np.rint(MIDDLE + field), 0, 255).astype(np.uint8) for name, field in fields.items()}


def score(easy, preset):
    scene = easy.read()
    return adjusted_rand(gsw.segment(scene.image, preset=preset, axes=scene.axes).labels, scene.human_labels[0])


@pytest.mark.parametrize(
    "easy",
    [
        EasyImage("square", size=256),
        replace(SQUARE, colour=True, contrast=5, noise=0),
        replace(DISKS, colour=True, contrast=5, noise=2),
        replace(RAMP, contrast=20, noise=0, dtype="float32"),
        replace(STRIPES, size=128, blur=2.0),
        replace(RAMP, size=256, colour=True, contrast=5, noise=0),  # whose ramp is one step of 8 bits
        replace(RAMP, size=128, colour=True, contrast=100, noise=2),
    ],
    ids=lambda easy: easy.name,
)
def test_general_finds_the_truth(easy):
    assert score(easy, "general") >= 0.98


@pytest.mark.parametrize(
    "easy",
    [
        replace(SQUARE, contrast=100, noise=45),
        replace(DISKS, colour=True),
        RAMP,
        pytest.param(
            replace(DISKS, size=128, blur=2.0),
            marks=pytest.mark.skipif(not has_onnxruntime(), reason="onnxruntime is not installed"),
        ),
        replace(SQUARE, size=384, contrast=140, noise=0),  # wider than what the network has seen
        replace(RAMP, size=400, colour=True, contrast=5, noise=0),
    ],
    ids=lambda easy: easy.name,
)
def test_microscopy_finds_the_objects(easy):
    assert score(easy, "microscopy") >= 0.98


@pytest.mark.parametrize(
    "easy",
    [
        replace(SQUARE, size=128, colour=True, blur=2.0),
        replace(RAMP, size=512, colour=True),  # so large that its two sides are two clusters
    ],
    ids=lambda easy: easy.name,
)
def test_photo_finds_the_truth(easy):
    assert score(easy, "photo") >= 0.98


def test_general_finds_the_patches_of_the_mosaic():
    image, truth = mosaic()
    assert adjusted_rand(gsw.segment(image).labels, truth) >= 0.98


@pytest.mark.parametrize("name", make_empty_images(8))
def test_where_nothing_is_nothing_comes_out(name):
    result = gsw.segment(make_empty_images(160)[name], preset="microscopy")
    assert result.n_regions <= 1
    assert result.remark == ("" if result.n_regions else "no object stands out from the background")


def test_the_suite_is_what_it_says():
    pictures = make_easy_images()
    assert len({easy.name for easy in pictures}) == len(pictures) > 100
    assert all(easy.contrast > 2 * easy.noise for easy in pictures)
    assert {easy.dtype for easy in pictures} == {"uint8", "uint16", "float32"}
    assert {64, 2000} <= {easy.size for easy in pictures}
    assert len(select_for_preset("general", pictures)) == len(pictures) > len(select_for_preset("photo", pictures)) > 0
    with pytest.raises(InputError, match="paper"):
        select_for_preset("paper", pictures)
    assert len(make_empty_images(16)) == 20


def test_the_noise_and_the_contrast_are_those_of_the_name():
    scene = EasyImage("disks", size=200, contrast=80, noise=10, dtype="float32").read()
    inside, outside = (255 * scene.image[(scene.human_labels[0] > 0) == k] for k in (True, False))
    assert inside.mean() - outside.mean() == pytest.approx(80, abs=1)
    assert outside.std() == pytest.approx(10, rel=0.05)
    assert len(np.unique(scene.human_labels[0])) == 3
    assert len(np.unique(EasyImage("stripes").read().human_labels[0])) == 4


def test_evaluate_draws_them(tmp_path):
    words = ["evaluate", "-q", "--jobs", "1", "--easy", "--preset", "microscopy", "--limit", "2", "-o", str(tmp_path)]
    assert main(words) == 0
    assert (tmp_path / "images.csv").read_text().count("\n") == 3


@pytest.mark.parametrize("preset", ["general", "photo"])
def test_what_is_a_speck_in_a_photograph_is_a_thing_in_a_small_picture(preset):
    rows, columns = np.mgrid[:64, :64]
    truth = np.zeros((64, 64), int)
    for number, (y, x) in enumerate(((16, 16), (16, 48), (48, 16), (48, 48)), 1):
        truth[np.hypot(rows - y, columns - x) < 9] = number
    assert np.bincount(truth.ravel()).min() < MIN_REGION_PIXELS
    levels = 80 + 60 * (truth[..., np.newaxis] > 0) * COLOUR + np.random.default_rng(0).normal(0, 10, (64, 64, 3))
    result = gsw.segment(np.rint(levels).astype(np.uint8), preset=preset, seed=0)
    assert adjusted_rand(result.labels, truth) >= 0.98


@pytest.mark.parametrize(
    ("way", "contrast", "noise"),
    [
        ((0.3, 1.0, 0.3), 5, 0),  # steps at different places in 8 bits
        ((0.3, 0.3, -1.0), 20, 8),
        ((0.89, 1.0, -0.61), 100, 2),  # words of photographs would part it
        ((-1.0, -0.06, -0.03), 80, 1),
    ],
)
def test_a_ramp_is_one_surface_in_any_colour(way, contrast, noise):
    side = (np.arange(128) + 0.5) / 128
    truth = (np.abs(side[:, np.newaxis] - 0.5) < 0.2) & (np.abs(side - 0.5) < 0.2)
    levels = MIDDLE + contrast * (truth - 0.5 + 0.25 * (side - 0.5))[..., np.newaxis] * np.array(way)
    image = np.rint(levels + np.random.default_rng(0).normal(0, noise, levels.shape)).clip(0, 255).astype(np.uint8)
    assert contrast < 50 or has_few_colours([normalize_image(image, reduce_noise=True)])
    assert adjusted_rand(gsw.segment(image, seed=0).labels, truth) >= 0.98


def test_photographs_have_many_colours():
    for image in (astronaut(), coffee(), chelsea()):
        assert not has_few_colours([normalize_image(image, reduce_noise=True)])


def test_how_wide_plain_shapes_are():
    easy = EasyImage("square", size=300, contrast=80, noise=4).read()
    wide = 2 * ndimage.distance_transform_edt(easy.human_labels[0] > 0).max()
    assert measure_plain_width(to_uint8(easy.image)) == pytest.approx(wide, abs=4)
    assert measure_plain_width(to_uint8(255 - easy.image)) == pytest.approx(wide, abs=4)
    assert measure_plain_width(to_uint8(astronaut())) == 0
