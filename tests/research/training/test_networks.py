"""Teaching networks on tiny pictures, where PyTorch is installed."""

from __future__ import annotations

import numpy as np
import pytest

import napari_gsw as gsw
from napari_gsw.core.features.network import to_uint8
from napari_gsw.research.training.pictures import (
    WIDTH,
    Augmentation,
    Crops,
    Picture,
    crop_picture,
    draw_shapes,
    draw_touching,
    find_borders,
    make_object_targets,
    make_picture,
    make_pictures,
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
    middle = make_picture(to_uint8(labels), labels).targets[..., 0]
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
    width = make_picture(to_uint8(labels), labels).targets[..., 1]
    assert width[12, 22] == round(255 / 5)
    assert width[40, 40] == round(255 * 3 / 5)
    assert width[0, 0] == 0
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


@pytest.mark.parametrize("kind", ["photo", "objects"])
def test_the_exported_weights_compute_what_the_module_computes(kind, tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("onnxruntime")
    from napari_gsw.core.features.network import INPUT_MEAN, INPUT_SCALE, Network
    from napari_gsw.research.training.networks import save_weights
    from napari_gsw.research.training.unet import Layer, UNet

    torch.manual_seed(0)
    module = UNet(kind)
    image = RNG.normal(size=(2, 3, 32, 48)).astype(np.float32)
    for layer in module.modules():
        if isinstance(layer, Layer):
            torch.nn.init.uniform_(layer[1].weight, 0.5, 1.5)
            layer[1].momentum = None
    module(torch.tensor(image))  # means and variances that are not 0 and 1
    module.eval()
    with torch.no_grad():
        fine, places, _ = module(torch.tensor(image[:1]))
    save_weights(tmp_path / "own.npz", kind, module.export_weights())
    maps = Network.load(tmp_path / "own.npz", kind).predict(image[0].transpose(1, 2, 0) * INPUT_SCALE + INPUT_MEAN)
    assert maps.fine == pytest.approx(torch.sigmoid(fine)[0].permute(1, 2, 0).numpy(), abs=5e-3)
    if places is not None:
        assert maps.embedding[::4, ::4] == pytest.approx(places[0].permute(1, 2, 0).numpy(), abs=5e-2)


class Still:
    """Random numbers in the middle of their ranges."""

    def uniform(self, low, high):
        return (low + high) / 2

    def random(self, size=None):
        return 0.5 if size is None else np.full(size, 0.5)

    def normal(self, size=None):
        return 0.0 if size is None else np.zeros(size)

    def choice(self, values):
        return values[-1]


def test_crops_of_no_change_are_the_picture():
    image = RNG.integers(0, 256, (32, 32, 3)).astype(np.uint8)
    labels = RNG.integers(0, 9, (32, 32)).astype(np.int16)
    picture = Picture(image, [labels, labels])
    still = Augmentation(zoom=1.0, turn=0.0, gamma=1.0, gain=1.0, contrast=1.0, grey=0, invert=0, shuffle=0, noise=1.0)
    cropped, seen, extra, zoom = crop_picture(picture, still, 32, Still())
    assert extra is None
    assert zoom == 1
    assert cropped == pytest.approx(np.maximum(image / 255, 1e-4), abs=1e-5)
    assert np.array_equal(seen[1], labels)


@pytest.mark.parametrize("kind", ["photo", "objects"])
def test_crops_are_drawn_by_their_seed(kind):
    image, labels = discs()
    picture = make_picture(to_uint8(image), labels)
    crops = Crops(kind, [picture if kind == "objects" else picture._replace(targets=None)], 32, 3, seed=4)
    first, again, second = crops[0], crops[0], crops[1]
    assert len(crops) == 3
    assert all(np.array_equal(values, again[name]) for name, values in first.items())
    assert not np.array_equal(first["image"], second["image"])
    channels = 1 if kind == "photo" else 5
    assert first["image"].shape == (3, 32, 32)
    assert first["target"].shape == first["weight"].shape == (channels, 32, 32)
    assert 0 <= first["target"].min() <= first["target"].max() <= 1
    assert first["pairs"].shape == (len(first["same"]), 2)
    assert first["pairs"].max() < 8 * 8
    assert {name: values.dtype.kind for name, values in first.items()}.pop("pairs") == "i"


def test_borders_and_contacts_are_where_labels_meet():
    labels = np.zeros((12, 20), np.int16)
    labels[2:10, 2:8], labels[2:10, 9:15] = 1, 2
    target, weight = make_object_targets(labels, np.full((2, 12, 20), 0.5, np.float32), 2.0)
    mask, outline, centre, contact, width = target
    assert np.array_equal(mask, labels > 0)
    assert outline[5, 7] == outline[5, 8] == outline[5, 9] == 1 > outline[5, 5]
    assert np.array_equal(np.flatnonzero(contact[5]), [7, 8, 9])
    assert np.array_equal(centre, 0.5 * mask)
    assert np.allclose(width, 0.7)
    assert weight[3, 5, 8] == 6
    borders = find_borders(np.repeat([[0, 0, 0, 0, 1, 1, 1, 1]], 6, axis=0))
    assert np.array_equal(borders[3], [0, 0, 1, 1, 1, 0, 0, 0])


def test_reliability_says_how_often_what_was_said_is_so():
    from napari_gsw.research.training.couplings import tabulate_reliability

    rows = tabulate_reliability(np.array([0.1, 0.2, 0.9, 1.0]), np.array([0, 1, 1, 0]), bins=2)
    assert rows[0] == [0.0, 0.5, 2.0, pytest.approx(0.15), 0.5]
    assert rows[1] == [0.5, 1.0, 2.0, pytest.approx(0.95), 0.5]
    assert np.isnan(tabulate_reliability(np.array([0.9]), np.array([1]), bins=2)[0][3:]).all()


def test_a_calibration_is_right_as_often_as_it_says():
    """A posterior that squares the odds against two being one is brought back to how often they are."""
    from napari_gsw.research.training.couplings import fit_calibration

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
