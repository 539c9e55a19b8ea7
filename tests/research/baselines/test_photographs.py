"""Mean shift, Felzenszwalb and normalized cuts: known answers on synthetic images, and slow reference code."""

from __future__ import annotations

import sys
from itertools import pairwise

import numpy as np
import pytest
from scipy import ndimage
from scipy.sparse import csr_array
from skimage import segmentation
from skimage.color import rgb2lab
from skimage.data import astronaut

from napari_gsw.core.errors import InputError
from napari_gsw.core.image.normalized_image import normalize_image
from napari_gsw.core.settings import Settings
from napari_gsw.core.sites.superpixels import make_superpixels
from napari_gsw.research.baselines import normalized_cut as cuts
from napari_gsw.research.baselines.normalized_cut import NormalizedCut, segment_normalized_cut
from napari_gsw.research.baselines.photographs import (
    MAX_LEVELS,
    Felzenszwalb,
    MeanShift,
    choose_near,
    choose_of_small,
    merge_regions,
    number_regions,
    pair_pixels,
    quantize_colours,
    segment_felzenszwalb,
    segment_mean_shift,
)

# Each with options for small images, and the pixels that count as neighbours of each other in its regions.
METHODS = {
    "mean-shift": (segment_mean_shift, MeanShift(spatial=6, min_size=60), ndimage.generate_binary_structure(2, 1)),
    "felzenszwalb": (
        segment_felzenszwalb, Felzenszwalb(scale=200, min_size=60), ndimage.generate_binary_structure(2, 2),
    ),
    "normalized-cut": (segment_normalized_cut, NormalizedCut(site_size=40), None),
}  # fmt: skip
PHOTOGRAPHIC = ("mean-shift", "felzenszwalb")
PHOTO = np.ascontiguousarray(astronaut()[20:120, 170:270])


def quadrants(noise: float = 4.0) -> tuple[np.ndarray, np.ndarray]:
    """A image of four noisy colours, and where they are."""
    truth = np.kron([[1, 2], [3, 4]], np.ones((30, 40))).astype(np.int32)
    colours = np.array([[0, 0, 0], [200, 60, 50], [50, 110, 200], [90, 160, 70], [230, 220, 120]], float)
    image = colours[truth] + np.random.default_rng(3).normal(0, noise, (60, 80, 3))
    return np.clip(np.rint(image), 0, 255).astype(np.uint8), truth


def grey_of(lightness: np.ndarray) -> np.ndarray:
    """Grey levels from 0 to 1 whose L* in Lab and in L*u*v* is the given one."""
    levels = np.linspace(0, 1, 10_001)
    return np.interp(lightness, rgb2lab(np.repeat(levels[:, None], 3, axis=1))[:, 0], levels)


@pytest.mark.parametrize("name", METHODS)
def test_finds_flat_patches_with_noise(name):
    method, options, _ = METHODS[name]
    image, truth = quadrants()
    if name == "felzenszwalb":
        options = options.replace(sigma=0.2)  # a wider blur makes strips of mixed colours between the patches
    found = method(image, options)
    assert found.dtype == np.int32
    assert np.array_equal(found, truth)


@pytest.mark.parametrize("name", METHODS)
def test_regions_are_numbered_by_first_pixel_and_connected(name):
    method, options, neighbours = METHODS[name]
    found = method(PHOTO, options)
    assert found.shape == PHOTO.shape[:2]
    values, first = np.unique(found, return_index=True)
    assert np.array_equal(values, np.arange(1, len(values) + 1))
    assert len(values) > 3
    assert (np.diff(first) > 0).all()
    if neighbours is not None:
        assert all(ndimage.label(found == i, neighbours)[1] == 1 for i in values)


@pytest.mark.parametrize("name", METHODS)
def test_dtype_axes_and_alpha_make_no_difference(name):
    method, options, _ = METHODS[name]
    found = method(PHOTO, options)
    assert np.array_equal(found, method(PHOTO.copy(), options))
    assert np.array_equal(found, method(PHOTO / 255, options))
    assert np.array_equal(found, method((PHOTO / 255).astype(np.float32), options))
    assert np.array_equal(found, method(np.moveaxis(PHOTO, -1, 0), options, "SYX"))
    with_alpha = np.concatenate((PHOTO, PHOTO[..., :1]), axis=-1)
    assert np.array_equal(found, method(with_alpha, options))


@pytest.mark.parametrize("name", PHOTOGRAPHIC)
def test_grey_is_rgb_of_equal_channels(name):
    method, options, _ = METHODS[name]
    grey = PHOTO[..., 1] // 2  # not stretched to the full range either
    if name == "mean-shift":
        options = options.replace(range=5)
    found = method(grey, options)
    assert found.max() > 3
    assert np.array_equal(found, method(np.repeat(grey[..., np.newaxis], 3, axis=-1), options))
    assert np.array_equal(found, method(grey[..., np.newaxis], options, "YXC"))
    assert np.array_equal(found, method(np.stack((grey, grey[::-1]), axis=-1), options, "YXS"))


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("size", [(1, 1), (1, 30), (40, 40)])
def test_flat_image_is_one_region(name, size):
    method, options, _ = METHODS[name]
    for value in (0, 255):
        assert (method(np.full((*size, 3), value, np.uint8), options) == 1).all()


@pytest.mark.parametrize("name", PHOTOGRAPHIC)
@pytest.mark.parametrize(
    ("shape", "axes"), [((4, 20, 20), "ZYX"), ((4, 9, 9, 3), "auto"), ((3, 20, 20), "CYX"), ((20, 20, 2), "auto")]
)
def test_refuses_volumes_and_channels(name, shape, axes):
    with pytest.raises(InputError, match="grey or an RGB image in two dimensions"):
        METHODS[name][0](np.zeros(shape), METHODS[name][1], axes)


@pytest.mark.parametrize("name", METHODS)
def test_refuses_invalid_images(name):
    method, options, _ = METHODS[name]
    with pytest.raises(InputError):
        method(np.full((9, 9), np.nan), options)


def test_mean_shift_names_missing_opencv(monkeypatch):
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(InputError, match=r'pip install "napari-gsw\[peers\]"'):
        segment_mean_shift(PHOTO, MeanShift())


def test_range_bandwidth_fuses_near_colours():
    lightness = np.full((40, 40), 40.0)
    lightness[:, 20:] = 52.0
    image = grey_of(lightness)
    # The halves are 12 units apart: more than half the one bandwidth, less than half the other.
    assert np.array_equal(segment_mean_shift(image, MeanShift(spatial=4, range=11.5, min_size=1)), 1 + (lightness > 45))
    assert segment_mean_shift(image, MeanShift(spatial=4, range=25, min_size=1)).max() == 1


def test_bandwidths_limit_attraction():
    # Half the range bandwidth is never enough to fuse these, so that only the filtering can make them one.
    board = grey_of(40 + 12.0 * (np.indices((20, 20)).sum(axis=0) % 2))
    assert segment_mean_shift(board, MeanShift(spatial=2, range=11, min_size=1)).max() == board.size
    assert segment_mean_shift(board, MeanShift(spatial=2, range=13, min_size=1)).max() == 1
    narrow, wide = (segment_mean_shift(PHOTO, MeanShift(spatial=spatial, range=8, min_size=1)) for spatial in (1, 9))
    assert not np.array_equal(narrow, wide)


def test_ramp_is_linked_before_fusion():
    # The step of 5 units at its end is less than half the bandwidth, but the ramp as a whole is much darker.
    line = np.concatenate((20 + 0.5 * np.arange(80), np.full(40, 64.5)))
    found = segment_mean_shift(grey_of(np.tile(line, (6, 1))), MeanShift(spatial=2, range=11, min_size=1))
    assert found.max() == 2
    assert (found[:, :75] == 1).all()
    assert (found[:, 80:] == 2).all()


@pytest.mark.parametrize("smallest", [1, 300, 10**6])
def test_regions_have_the_minimum_size(smallest):
    found = segment_mean_shift(PHOTO, MeanShift(spatial=3, range=8, min_size=smallest))
    sizes = np.bincount(found.ravel())[1:]
    assert sizes.min() >= min(smallest, found.size)
    assert (len(sizes) == 1) == (smallest == 10**6)
    few = segment_felzenszwalb(PHOTO, Felzenszwalb(scale=20, min_size=smallest))
    assert np.bincount(few.ravel())[1:].min() >= min(smallest, found.size)


def test_quantizing_keeps_distances():
    rng = np.random.default_rng(0)
    luv = (rng.random((30, 30, 3)) * (100, 40, 25) + (0, -30, 5)).astype(np.float32)
    levels, scale = quantize_colours(luv)
    assert levels.min() == 0
    assert levels.max() == 255
    assert scale == pytest.approx(2.55, rel=0.02)
    # Both ends are rounded by up to half a level in each channel.
    a, b = levels[:-1].astype(float), levels[1:].astype(float)
    apart = np.linalg.norm(a - b, axis=-1) / scale
    assert np.abs(apart - np.linalg.norm(luv[1:] - luv[:-1], axis=-1)).max() <= np.sqrt(3) / scale
    assert quantize_colours(luv * 0)[1] == MAX_LEVELS


@pytest.mark.parametrize("seed", range(6))
def test_merging_equals_slow_code(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 9, 2))
    colours = ndimage.gaussian_filter(rng.random((*shape, 2)), (1, 1, 0)) if seed % 2 else rng.random((*shape, 2))
    link, reach, smallest = 0.3 * rng.random(), 0.4 * rng.random(), int(rng.integers(1, 12))
    labels = np.arange(shape[0] * shape[1])
    slow, flat, pairs = labels.reshape(shape), colours.reshape(-1, 2), pair_pixels(shape)
    steps = (
        (choose_near(link), near(link), 1),
        (choose_near(reach), near(reach), np.inf),
        (choose_of_small(smallest), of_small(smallest), np.inf),
    )
    for choose, slow_choose, rounds in steps:
        labels = merge_regions(labels, flat, pairs, choose, rounds)
        slow = slow_round(slow, colours, slow_choose) if rounds == 1 else slow_rounds(slow, colours, slow_choose)
        assert np.array_equal(number_regions(labels.reshape(shape)), number_regions(slow))


def near(reach):
    return lambda size, apart: [pair for pair in apart if apart[pair] < reach]


def of_small(smallest):
    def chosen(size, apart):
        pairs = []
        for region in size:
            mine = {pair: d for pair, d in apart.items() if region in pair}
            if size[region] < smallest and mine:
                pairs.append(min(mine, key=mine.get))
        return pairs

    return chosen


def slow_rounds(labels, colours, chosen):
    while not np.array_equal(after := slow_round(labels, colours, chosen), labels):
        labels = after
    return labels


def slow_round(labels, colours, chosen):
    """Look at every pair of pixels, then join the chosen pairs of regions one after the other."""
    size = {int(i): int((labels == i).sum()) for i in np.unique(labels)}
    mean = {i: colours[labels == i].mean(axis=0) for i in size}
    lines = [*labels, *labels.T]
    touching = {(min(a, b), max(a, b)) for line in lines for a, b in pairwise(line.tolist()) if a != b}
    apart = {(a, b): np.linalg.norm(mean[a] - mean[b]) for a, b in touching}
    now = {i: i for i in size}
    for a, b in chosen(size, apart):
        low, high = sorted((now[a], now[b]))
        now = {i: low if region == high else region for i, region in now.items()}
    return np.vectorize(now.get)(labels)


def test_felzenszwalb_has_the_scale_of_scikit_image():
    options = Felzenszwalb(scale=150, sigma=0.6, min_size=40)
    found = segment_felzenszwalb(PHOTO, options)
    assert np.array_equal(found, number_regions(segmentation.felzenszwalb(PHOTO, scale=150, sigma=0.6, min_size=40)))
    assert found.max() > segment_felzenszwalb(PHOTO, options.replace(scale=1500)).max()


def test_normalized_cut_takes_flat_colours_and_volumes():
    board = np.kron(np.indices((6, 6)).sum(axis=0) % 2, np.ones((12, 12)))
    assert 30 <= segment_normalized_cut(board, NormalizedCut(site_size=40)).max() <= 40
    halves = np.zeros((2, 8, 30, 30))
    halves[1, :, :, 15:] = 1.0
    assert np.array_equal(
        segment_normalized_cut(halves, NormalizedCut(site_size=60), "CZYX"), 1 + halves[1].astype(np.int32)
    )


def test_options_of_normalized_cut():
    options = NormalizedCut(site_size=40)
    sites = make_superpixels(normalize_image(PHOTO), Settings(site_size=40))
    assert np.array_equal(segment_normalized_cut(PHOTO, options.replace(threshold=2)), sites)  # all is cut
    assert segment_normalized_cut(PHOTO, options.replace(threshold=0)).max() == 1
    counts = [segment_normalized_cut(PHOTO, options.replace(colour=colour)).max() for colour in (3, 10, 30)]
    assert counts == sorted(set(counts), reverse=True)


def test_seed_of_normalized_cut(monkeypatch):
    monkeypatch.setattr(cuts, "MAX_DENSE_NODES", 10)
    options = NormalizedCut(site_size=20)
    assert np.array_equal(
        segment_normalized_cut(PHOTO, options, seed=5), segment_normalized_cut(PHOTO, options, seed=5)
    )
    drawn = []

    def parts(n, edges, tie, threshold, rng):
        drawn.append(rng.random())
        return np.zeros(n, np.int64)

    monkeypatch.setattr("napari_gsw.research.baselines.normalized_cut.partition_graph", parts)
    for seed in (5, 5, 6):
        segment_normalized_cut(PHOTO, options, seed=seed)
    assert drawn[0] == drawn[1] != drawn[2]


def random_graph(rng, n):
    """A connected graph with self-ties, as a symmetric matrix."""
    tie = np.triu(rng.random((n, n)) * (rng.random((n, n)) < 0.3), 1)
    tie[np.arange(n - 1), np.arange(1, n)] = rng.random(n - 1) + 0.01
    return tie + tie.T + np.eye(n)


@pytest.mark.parametrize("seed", range(4))
def test_cheapest_cut_equals_slow_code(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 15))
    tie, values = random_graph(rng, n), rng.normal(size=n)
    costs = {}
    for limit in np.sort(values)[:-1]:
        low = values <= limit
        between = tie[low][:, ~low].sum()
        costs[limit] = between / tie[low].sum() + between / tie[~low].sum()
    best = min(costs, key=costs.get)
    side, cost = cuts.find_cheapest_cut(csr_array(tie), values)
    assert cost == pytest.approx(costs[best])
    assert np.array_equal(side, values <= best)


@pytest.mark.parametrize("dense", [0, 300])
def test_second_vector_solves_the_equation(dense, monkeypatch):
    monkeypatch.setattr(cuts, "MAX_DENSE_NODES", dense)
    rng = np.random.default_rng(1)
    tie = random_graph(rng, 40)
    vector = cuts.solve_second_vector(csr_array(tie), rng)
    degree = tie.sum(axis=0)
    value = np.sort(np.linalg.eigvals((np.diag(degree) - tie) / degree[:, None]).real)[1]
    assert np.allclose(np.diag(degree) @ vector - tie @ vector, value * degree * vector, atol=1e-4)
    assert abs(degree @ vector) < 1e-4 < np.abs(vector).max()


@pytest.mark.parametrize("dense", [0, 300])
def test_weakly_tied_blocks_are_cut(dense, monkeypatch):
    monkeypatch.setattr(cuts, "MAX_DENSE_NODES", dense)
    blocks = np.repeat([0, 1, 2, 3], [30, 50, 20, 1])
    edges = np.array([(i, j) for i in range(101) for j in range(i + 1, min(i + 6, 101))])
    inside = blocks[edges[:, 0]] == blocks[edges[:, 1]]
    for weak in (0.0, 1e-8, 1e-3):
        tie = np.where(inside, 0.9, weak)
        part = cuts.partition_graph(101, edges, tie, 0.02, np.random.default_rng(0))
        assert np.array_equal(number_regions(part), blocks + 1)
    whole = cuts.partition_graph(101, edges, np.where(inside, 0.9, 0.5), 0.02, np.random.default_rng(0))
    assert len(np.unique(whole)) == 1


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (MeanShift, {"range": 0}), (MeanShift, {"spatial": 0.5}), (MeanShift, {"min_size": 0}),
        (Felzenszwalb, {"scale": -1}), (Felzenszwalb, {"sigma": "wide"}), (NormalizedCut, {"colour": 0}),
    ],
)  # fmt: skip
def test_refuses_options_out_of_bounds(kind, wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        kind(**wrong)
