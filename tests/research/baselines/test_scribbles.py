"""Methods that spread scribbles: known answers on synthetic images, and graph cuts against all segmentations."""

from __future__ import annotations

import itertools
import json
import sys
from functools import partial

import imageio.v3 as iio
import numpy as np
import pytest

from napari_gsw.batch.images import BatchSpec
from napari_gsw.cli import main
from napari_gsw.core.errors import InputError
from napari_gsw.methods import METHODS, choose, list_scribble_methods, segment
from napari_gsw.research.baselines.graph_cut import (
    GraphCut,
    compute_energy,
    expand_labels,
    pair_pixels,
    segment_graph_cut,
)
from napari_gsw.research.baselines.scribbles import (
    Forest,
    RandomWalker,
    Watershed,
    segment_forest,
    segment_random_walker,
    segment_watershed,
    spread_scribbles,
)

SCRIBBLE_METHODS = {
    "random-walker": partial(segment_random_walker, options=RandomWalker()),
    "watershed": partial(segment_watershed, options=Watershed()),
    "forest": partial(segment_forest, options=Forest()),
    "graph-cut": partial(segment_graph_cut, options=GraphCut()),
}


@pytest.fixture(params=SCRIBBLE_METHODS)
def method(request):
    if request.param in ("forest", "graph-cut"):
        pytest.importorskip("sklearn")
    if request.param == "graph-cut":
        pytest.importorskip("ortools")
    return SCRIBBLE_METHODS[request.param]


def quadrants(noise=4.0):
    """A picture of four noisy colours of odd sides, what is wanted of it, and a stroke in each."""
    wanted = np.kron([[7, 2], [3, 40]], np.ones((30, 40))).astype(np.int32)[:-1, :-1]
    colours = {7: (200, 60, 50), 2: (50, 110, 200), 3: (90, 160, 70), 40: (230, 220, 120)}
    image = np.zeros((*wanted.shape, 3))
    painted = np.zeros_like(wanted)
    for k, (number, colour) in enumerate(colours.items()):
        image[wanted == number] = colour
        row, column = 12 + 30 * (k // 2), 10 + 40 * (k % 2)
        painted[row, column : column + 15] = number
    image += np.random.default_rng(3).normal(0, noise, image.shape)
    return np.clip(np.rint(image), 0, 255).astype(np.uint8), wanted, painted


def test_patches_get_the_labels_of_their_scribbles(method):
    image, wanted, painted = quadrants()
    labels = method(image, painted)
    assert labels.dtype == np.int32
    assert set(np.unique(labels)) == {2, 3, 7, 40}
    # The widest blurs of the forest are as wide as the patches.
    assert np.mean(labels == wanted) > (0.9 if method.func is segment_forest else 0.97)
    assert np.array_equal(labels[painted > 0], painted[painted > 0])
    assert np.array_equal(labels, method(image, painted))
    assert np.array_equal(labels, method(np.moveaxis(image, -1, 0), painted, axes="SYX"))


def test_painted_pixels_stay(method):
    image, wanted, painted = quadrants()
    painted[5, 5] = 40
    labels = method(image, painted)
    assert labels[5, 5] == 40
    assert np.mean(labels == wanted) > 0.8


@pytest.mark.parametrize("size", [(1, 1), (1, 30), (3, 3), (40, 41)])
def test_one_label_flat_image_and_all_painted(method, size):
    image = np.full((*size, 3), 90, np.uint8)
    one = np.zeros(size, int)
    one[0, 0] = 9
    assert (method(image, one) == 9).all()
    both = one.copy()
    both[-1, -1] = 5
    assert set(np.unique(method(image, both))) <= {5, 9}
    full = 1 + np.indices(size).sum(axis=0) % 2
    assert np.array_equal(method(image, full), full)


def test_takes_grey_images(method):
    image = np.zeros((40, 40), np.uint8)
    image[:, 20:] = 200
    painted = np.zeros((40, 40), int)
    painted[10:30, 5] = 1
    painted[10:30, 35] = 2
    assert np.array_equal(method(image, painted), 1 + (image > 100))


def test_refuses_invalid_scribbles(method):
    image, _, painted = quadrants()
    for seeds, words in (
        (painted * 0, "paint at least one scribble"),
        (painted[:-1], "of the image's shape"),
        (painted * 1.0, "must be whole numbers"),
        (painted - 1, r"numbers in \[0, "),
    ):
        with pytest.raises(InputError, match=words):
            method(image, seeds)
    with pytest.raises(InputError, match="grey or an RGB image in two dimensions"):
        method(np.zeros((4, 20, 20)), np.ones((20, 20), int), axes="ZYX")


@pytest.mark.parametrize(
    ("name", "package"),
    [("forest", "sklearn.ensemble"), ("graph-cut", "sklearn.mixture"), ("graph-cut", "ortools.graph.python.max_flow")],
)
def test_names_missing_package(monkeypatch, name, package):
    image, _, painted = quadrants()
    monkeypatch.setitem(sys.modules, package, None)
    if package.startswith("ortools"):
        pytest.importorskip("sklearn")
    with pytest.raises(InputError, match=r'pip install "napari-gsw\[interactive\]"'):
        SCRIBBLE_METHODS[name](image, painted)


def test_thin_scribbles_survive_at_half_size():
    painted = np.zeros((7, 9), int)
    painted[3, :] = 4
    painted[6, 8] = 9

    def compute_maps(lab, codes):
        assert lab.shape == (4, 5, 3)
        assert (codes[1] == 0).all()
        assert codes[3, 4] == 1
        return np.stack((np.zeros(codes.shape), np.ones(codes.shape)))

    labels = spread_scribbles(np.zeros((7, 9, 3)), painted, "auto", "a test", compute_maps)
    assert np.array_equal(labels, np.where(painted > 0, painted, 9))


@pytest.mark.parametrize("seed", range(4))
def test_cut_is_the_best_of_all_segmentations(seed):
    """Of two labels exactly; of three no other segmentation of this small grid may be much better."""
    pytest.importorskip("ortools")
    rng = np.random.default_rng(seed)
    shape = (3, 3) if seed % 2 else (2, 4)
    pairs = pair_pixels(rng.normal(0, 10, (*shape, 3)), 8.0)
    for k in (2, 3):
        cost = 20 * rng.random((k, *shape))
        flat = cost.reshape(k, -1)
        every = itertools.product(range(k), repeat=cost[0].size)
        best = min(compute_energy(np.array(codes), flat, pairs) for codes in every)
        value = compute_energy(expand_labels(cost, pairs).ravel(), flat, pairs)
        assert value == pytest.approx(best) if k == 2 else best - 1e-9 <= value <= 1.1 * best


def test_boundary_runs_where_it_costs_least():
    pairs = pair_pixels(np.repeat([0.0, 0.0, 50.0], 4)[None, :, None] + np.zeros((6, 1, 3)), 5.0)
    price = {(int(p), int(q)): float(cost) for p, q, cost in zip(*pairs, strict=True)}
    assert price[7, 8] < price[3, 4] == pytest.approx(5.0)
    assert (11, 12) not in price  # no neighbour there
    assert price[3, 16] == price[4, 15] == pytest.approx(5.0 / np.sqrt(2))
    assert len(price) == 6 * 11 + 5 * 12 + 2 * 5 * 11
    cost = np.zeros((2, 6, 12))
    cost[0, 2:4, 10] = cost[1, 2:4, 1] = 1e6
    assert (expand_labels(cost, pairs) == np.repeat([0, 1], [8, 4])).all()


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (segment_watershed, (Watershed(gradient_sigma=1), Watershed(gradient_sigma=4))),
        (segment_random_walker, (RandomWalker(walk_beta=1), RandomWalker(walk_beta=500))),
        (segment_forest, (Forest(smoothing=0), Forest(smoothing=5))),
        (segment_forest, (Forest(splits="best"), Forest())),
    ],
)
def test_options_change_the_result(function, options):
    pytest.importorskip("sklearn")
    image, _, painted = quadrants(noise=30)
    first, second = (function(image, painted, chosen) for chosen in options)
    assert not np.array_equal(first, second)


def test_segment_by_name():
    image, _, painted = quadrants()
    assert set(list_scribble_methods()) == {"gsw", *SCRIBBLE_METHODS}
    assert all(METHODS[name].needs_seeds for name in SCRIBBLE_METHODS)
    outcome = segment(image, choose("watershed", changes={"gradient_sigma": 1.5}), seeds=painted)
    assert np.array_equal(outcome.labels, segment_watershed(image, painted, Watershed(gradient_sigma=1.5)))
    assert outcome.provenance["method"] == {"method": "watershed", "gradient_sigma": 1.5}
    assert set(outcome.provenance["given"]) == {"seeds"}
    with pytest.raises(InputError, match="watershed needs seeds"):
        segment(image, choose("watershed"))
    with pytest.raises(InputError, match="a batch has none"):
        BatchSpec("nowhere", choose("watershed"))


def test_scribbles_from_a_file_on_the_command_line(tmp_path):
    image, wanted, painted = quadrants()
    iio.imwrite(tmp_path / "image.png", image)
    iio.imwrite(tmp_path / "strokes.png", painted.astype(np.uint8))
    words = ["segment", str(tmp_path / "image.png"), "-q", "-o", str(tmp_path / "out"), "--method", "random-walker"]
    assert main(words) == 2
    assert main([*words, "--seeds", str(tmp_path / "strokes.png")]) == 0
    assert np.mean(iio.imread(tmp_path / "out" / "labels.tif") == wanted) > 0.97
    assert json.loads((tmp_path / "out" / "provenance.json").read_text())["method"]["method"] == "random-walker"
