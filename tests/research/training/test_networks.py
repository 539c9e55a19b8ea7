"""Teaching networks on tiny pictures, where PyTorch is installed."""

from __future__ import annotations

import numpy as np
import pytest

import napari_gsw as gsw
from napari_gsw.core.features.object_network import to_uint8
from napari_gsw.core.image.normalized_image import normalize_image
from napari_gsw.research.training.pictures import (
    WIDTH,
    Picture,
    draw_shapes,
    draw_touching,
    make_centre_map,
    make_pictures,
    make_width_map,
    median_width,
    scale_to_width,
)

RNG = np.random.default_rng(8)


def discs(side=48, count=4):
    """A noisy picture of bright discs, and their labels."""
    y, x = np.mgrid[:side, :side]
    labels = np.zeros((side, side), np.int64)
    for number, (v, u) in enumerate(RNG.integers(8, side - 8, (count, 2)), start=1):
        labels[np.hypot(y - v, x - u) < 6] = number
    return np.clip(60 + 120 * (labels > 0) + RNG.normal(0, 10, labels.shape), 0, 255).astype(np.uint8), labels


@pytest.fixture
def folder(tmp_path):
    """Four pictures with their labels."""
    from napari_gsw.files.images import iio

    for name in ("images", "labels"):
        (tmp_path / name).mkdir()
    for number in range(4):
        image, labels = discs()
        iio.imwrite(tmp_path / "images" / f"{number}.png", np.repeat(image[..., None], 3, axis=-1))
        iio.imwrite(tmp_path / "labels" / f"{number}.tif", labels.astype(np.uint16))
    return tmp_path


def test_middles_are_bright_in_the_middle_of_objects():
    labels = np.zeros((20, 30), np.int64)
    labels[3:14, 3:14], labels[3:14, 14:25] = 1, 2
    middle = make_centre_map(labels)
    assert middle[8, 8] == middle[8, 19] == 255
    assert middle[8, 13] == middle[8, 14] == middle[0, 0] == 0


def test_pictures_are_brought_to_one_size_of_objects():
    labels = np.zeros((90, 90), np.int64)
    labels[10:54, 20:64] = 5
    image, smaller = scale_to_width(to_uint8(labels * 1000), labels)
    assert median_width(smaller) == pytest.approx(WIDTH, abs=1)
    assert image.shape == (*smaller.shape, 3)
    assert image[smaller == 5].mean() > 240 > 10 > image[smaller == 0].mean()
    assert median_width(np.zeros((4, 4), np.int64)) == WIDTH


def test_widths_go_by_octaves_and_pictures_are_seen_at_two_scales():
    labels = np.zeros((90, 90), np.int64)
    labels[10:18, 20:28], labels[30:62, 30:62] = 3, 7
    assert make_width_map(labels)[12, 22] == round(255 / 5)
    assert make_width_map(labels)[40, 40] == round(255 * 3 / 5)
    assert make_width_map(labels)[0, 0] == 0
    labels[30:62, 30:62] = 0
    pictures = make_pictures(labels * 20, labels)
    assert [one.labels[0].max() for one in pictures] == [1, 1]
    assert median_width(pictures[0].labels[0]) == pytest.approx(8 * 3, abs=1)  # three times is the most
    assert np.array_equal(pictures[1].labels[0], labels > 0)
    # A picture of stains is there more often.
    stained = np.stack((labels, 0 * labels, 3 * labels), axis=-1)
    assert len(make_pictures(100 * stained + 5, labels)) >= len(pictures)


def test_every_other_drawn_picture_has_no_object():
    pictures = draw_shapes(np.random.default_rng(3), 4, 64)
    assert [bool(one.labels[0].any()) for one in pictures] == [False, True, False, True]
    shapes = pictures[1]
    assert shapes.image.shape == (64, 64, 3)
    assert shapes.targets.shape == (64, 64, 2)


@pytest.mark.parametrize("kind", ["photo", "objects"])
def test_a_network_is_learnt_from_a_folder(kind, folder, tmp_path):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    from napari_gsw.core.features.network import load_weights
    from napari_gsw.research.training import networks

    out = tmp_path / "out"
    size = ["--steps", "4", "--batch", "2", "--side", "32", "--folds", "2", "--device", "cpu", "--seed", "5"]
    networks.main([kind, str(folder), "-o", str(out), *size])
    first = load_weights(out / "network.npz", kind)[1]
    assert load_weights(out / "fold1.npz", kind)[1] != first
    assert (out / "curves.png").stat().st_size > 1000
    networks.main([kind, str(folder), "-o", str(tmp_path / "again"), *size])
    assert load_weights(tmp_path / "again" / "network.npz", kind)[1] == first
    with pytest.raises(gsw.InputError, match="multiple of 16"):
        networks.main([kind, str(folder), "-o", str(out), "--side", "40"])


def test_the_numbers_of_a_module_are_what_the_module_computes():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("onnxruntime")
    from napari_gsw.core.features.network import INPUT_MEAN, INPUT_SCALE, Network
    from napari_gsw.research.training.network_training import NetworkModule

    torch.manual_seed(0)
    module = NetworkModule("photo")
    image = RNG.normal(size=(2, 3, 32, 48)).astype(np.float32)
    for norm in module.norms.values():
        torch.nn.init.uniform_(norm.weight, 0.5, 1.5)
        norm.momentum = None
    module(torch.tensor(image))  # means and variances that are not 0 and 1
    module.eval()
    with torch.no_grad():
        fine, places, _ = module(torch.tensor(image[:1]))
    arrays = {name: a.astype(np.float32) for name, a in module.fuse_weights().items()}
    maps = Network("photo", arrays).predict(image[0].transpose(1, 2, 0) * INPUT_SCALE + INPUT_MEAN)
    assert maps.fine[..., 0] == pytest.approx(torch.sigmoid(fine)[0, 0].numpy(), abs=5e-3)
    assert maps.embedding[::4, ::4] == pytest.approx(places[0].permute(1, 2, 0).numpy(), abs=5e-2)


def test_colours_of_crops_are_those_of_pictures():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    from napari_gsw.research.training.network_training import convert_to_lab

    image = RNG.integers(0, 256, (20, 30, 3)).astype(np.uint8)
    ours = convert_to_lab(torch.tensor(image / 255.0, dtype=torch.float32).permute(2, 0, 1)[None])[0].permute(1, 2, 0)
    assert normalize_image(image).channels == pytest.approx(ours.numpy(), abs=0.01)


def test_crops_of_no_change_are_the_picture():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    from napari_gsw.research.training import network_training as crops

    image = RNG.integers(0, 256, (32, 32, 3)).astype(np.uint8)
    labels = RNG.integers(0, 9, (32, 32)).astype(np.int16)
    store = crops.ImageStore([Picture(image, [labels, labels])], torch.device("cpu"))
    still = crops.Augmentation(zoom=1.0, turn=0.0, gamma=0.0, gain=0.0, contrast=0.0, grey=0.0)
    drawn = {name: torch.tensor(a) for name, a in crops.draw_crops(np.random.default_rng(0), (1,), 1, still).items()}
    drawn["angle"][:], drawn["mirror"][:], drawn["position"][:] = 0, 1, 0.5
    images, seen, extra = store.look_up(drawn, 32)
    assert extra is None
    assert images[0].permute(1, 2, 0).numpy() == pytest.approx(np.maximum(image / 255, 1e-4), abs=1e-5)
    assert np.array_equal(seen[0, 1].numpy(), labels)


def test_reliability_says_how_often_what_was_said_is_so():
    from napari_gsw.research.training.objects import tabulate_reliability

    rows = tabulate_reliability(np.array([0.1, 0.2, 0.9, 1.0]), np.array([0, 1, 1, 0]), bins=2)
    assert rows[0] == [0.0, 0.5, 2.0, pytest.approx(0.15), 0.5]
    assert rows[1] == [0.5, 1.0, 2.0, pytest.approx(0.95), 0.5]
    assert np.isnan(tabulate_reliability(np.array([0.9]), np.array([1]), bins=2)[0][3:]).all()


def test_a_calibration_is_right_as_often_as_it_says():
    """A posterior that squares the odds against two being one is brought back to how often they are."""
    from napari_gsw.research.training.objects import fit_calibration

    rng = np.random.default_rng(0)
    truth = rng.uniform(0.02, 0.98, 40_000)
    one = (rng.random(truth.shape) < truth).astype(np.int64)
    odds = truth / (1 - truth)
    said = odds**2 / (1 + odds**2)
    first, second, shift = fit_calibration(said, one)
    assert (first, second, shift) == pytest.approx((0.5, 0.5, 0), abs=0.04)


def test_drawn_shapes_overlap_in_pairs_and_touch_nothing_else():
    from scipy import ndimage

    for values, labels in draw_touching(np.random.default_rng(1), 2, side=128):
        assert values.shape == labels.shape == (128, 128)
        parts, count = ndimage.label(labels > 0)
        inside = [np.unique(labels[parts == part]) for part in range(1, count + 1)]
        assert {len(one) for one in inside} == {1, 2}
        assert sum(map(len, inside)) == len(np.unique(labels)) - 1
        bright = ndimage.median(values, labels, np.unique(labels))
        assert bright[0] < 0.1 < 0.2 < bright[1:].min()
