"""Sites: connected, compactly numbered, deterministic, of the size that was asked for."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage
from skimage.data import astronaut

import napari_gsw as gsw
from napari_gsw.core.image.normalized_image import normalize_image
from napari_gsw.core.sites.superpixels import (
    SLIC_ROUNDS,
    cluster_by_slic,
    divide_into_cells,
    label_connected,
    make_superpixels,
    merge_small_regions,
    validate_sites,
)

METHODS = ("slic", "felzenszwalb", "watershed", "grid")
RNG = np.random.default_rng(0)
VOLUME = ndimage.gaussian_filter(RNG.normal(size=(16, 30, 32)), 2)
IMAGES = {
    "rgb": (astronaut()[100:220, 150:300], "auto"),
    "grey": (astronaut()[100:220, 150:300, 1].astype(np.uint16) * 9, "auto"),
    "float": (ndimage.gaussian_filter(RNG.normal(size=(100, 90)), 3), "auto"),
    "noise": (RNG.normal(size=(100, 90)), "auto"),
    "channels": (RNG.random((6, 60, 70)), "CYX"),
    "volume": (VOLUME, "ZYX"),
    "colour-volume": (np.stack([VOLUME, VOLUME**2, -VOLUME], axis=-1), "ZYXC"),
}


def check_sites(sites, inside):
    assert sites.dtype == np.int32
    assert np.array_equal(sites > 0, inside)
    n = sites.max()
    first = np.unique(sites[inside], return_index=True)
    assert np.array_equal(first[0], np.arange(1, n + 1))  # compact
    assert (np.diff(first[1]) > 0).all()  # in the order of the first pixel
    for i in range(1, n + 1):
        assert ndimage.label(sites == i)[1] == 1  # connected through faces


@pytest.mark.parametrize("kind", IMAGES)
@pytest.mark.parametrize("method", METHODS)
def test_sites_of_every_kind_of_image(method, kind):
    image, axes = IMAGES[kind]
    seen = normalize_image(image, axes)
    for size in (60,) if kind != "rgb" else (20, 200, 60):
        settings = gsw.Settings(superpixels=method, site_size=size)
        sites = make_superpixels(seen, settings)
        assert 0.6 * size < sites.size / sites.max() < 1.6 * size
    check_sites(sites, np.ones(seen.shape, bool))
    assert np.array_equal(sites, make_superpixels(seen, settings))


@pytest.mark.parametrize("kind", ["rgb", "volume"])
@pytest.mark.parametrize("method", METHODS)
def test_a_mask_is_respected(method, kind):
    image, axes = IMAGES[kind]
    seen = normalize_image(image, axes)
    mask = np.zeros(seen.shape, np.uint8)
    mask[3:-4, 5:-6] = 1
    mask[:, 20] = 0
    check_sites(make_superpixels(seen, gsw.Settings(superpixels=method), mask), mask > 0)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("pattern", ["small", "dots", "islands"])
def test_every_pixel_of_a_mask_is_in_a_site(method, pattern):
    mask = np.zeros((60, 60), bool)
    if pattern == "small":
        mask[20:29, 20:29] = True
    elif pattern == "dots":
        mask[::4, ::4] = True
    else:
        mask[[3, 3, 50, 57], [3, 40, 50, 2]] = True
        mask[20:40, 10:45] = True
    check_sites(make_superpixels(normalize_image(astronaut()[:60, :60]), gsw.Settings(superpixels=method), mask), mask)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", [(1, 1), (1, 50), (3, 3), (1, 1, 1)])
def test_tiny_images(method, shape):
    sites = make_superpixels(normalize_image(np.ones(shape), "ZYX"[-len(shape) :]), gsw.Settings(superpixels=method))
    check_sites(sites, np.ones(shape, bool))


def test_cells_are_cubes_in_space():
    assert divide_into_cells((30, 40), 12, 1200) == ((3, 4), 10.0)
    assert divide_into_cells((2, 50), 10, 100) == ((1, 10), 5.0)  # too thin to be divided along the first axis
    assert divide_into_cells((10, 40), 16, 400, (4.0, 1.0)) == ((4, 4), 10.0)  # pixels four times as high as wide


def test_slic_follows_an_edge():
    image = np.zeros((60, 60))
    image[:, 25:] = 1
    sites = make_superpixels(normalize_image(image), gsw.Settings())
    assert not set(np.unique(sites[:, :25])) & set(np.unique(sites[:, 25:]))


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.uint64, np.float64])
def test_connected_labels_of_any_type(dtype):
    labels = RNG.integers(0, 2, (12, 13)).astype(dtype)
    if np.dtype(dtype).itemsize == 8:
        labels *= 2**40
    assert np.array_equal(label_connected(labels), ndimage.label(labels > 0)[0])


def test_own_labels_may_have_gaps_background_and_separate_parts():
    labels = np.array([[7, 7, 0, 900], [7, 0, 0, 900], [0, 7, 3, 3]])
    assert validate_sites(labels, (3, 4)).tolist() == [[1, 1, 0, 2], [1, 0, 0, 2], [0, 3, 4, 4]]
    masked = validate_sites(labels, (3, 4), mask=[[1, 1, 1, 0], [1, 1, 1, 1], [1, 1, 1, 1]])
    assert masked.tolist() == [[1, 1, 0, 0], [1, 0, 0, 2], [0, 3, 4, 4]]
    assert validate_sites(np.ones((2, 2), bool), (2, 2)).tolist() == [[1, 1], [1, 1]]


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (np.zeros((3, 5), int), r"image's shape \(3, 4\), not \(3, 5\)"),
        (np.full((3, 4), -1), "numbers >= 0, not -1"),
        (np.zeros((3, 4)), "whole numbers, not float64"),
        (np.zeros((3, 4), int), "no site"),
    ],
)
def test_own_labels_that_cannot_be_used(labels, words):
    with pytest.raises(gsw.InputError, match=words):
        validate_sites(labels, (3, 4))


def test_masks_that_cannot_be_used():
    seen = normalize_image(np.ones((5, 5)))
    with pytest.raises(gsw.InputError, match="the mask has no pixel"):
        make_superpixels(seen, gsw.Settings(), np.zeros((5, 5)))
    with pytest.raises(gsw.InputError, match="the mask must have the image's shape"):
        make_superpixels(seen, gsw.Settings(), np.ones((5, 6)))


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (6, 6)])
def test_an_image_without_a_valley_between_ridges_is_one_site(shape):
    problem = gsw.prepare(np.zeros(shape), preset="membranes")
    assert problem.n == 1


def slow_slic(channels, grid, scale, rounds):
    """Every pixel against every cluster, of which those that began too far away do not count."""
    shape = channels.shape[:-1]
    place = np.stack(np.indices(shape), axis=-1).reshape(-1, 3)
    cell = place * grid // shape
    values = np.concatenate((place * scale, channels.reshape(len(place), -1)), axis=1)
    cells = np.stack(np.indices(grid), axis=-1).reshape(-1, 3)
    far = (np.abs(cell[:, np.newaxis] - cells) > 1).any(axis=-1)
    own = np.ravel_multi_index(cell.T, grid)
    middle = tuple((2 * cells + 1).T * np.array(shape)[:, np.newaxis] // (2 * np.array(grid)[:, np.newaxis]))
    for turn in range(rounds):
        centres = np.array([values[own == k].mean(axis=0) for k in range(len(cells))])
        if turn == 0:
            centres[:, 3:] = channels[middle]
        distance = np.square(values[:, np.newaxis] - centres).sum(axis=-1)
        own = np.where(far, np.inf, distance).argmin(axis=1)
    return own.reshape(shape) + 1


@pytest.mark.parametrize(("shape", "grid"), [((1, 30, 150), (1, 3, 14)), ((8, 14, 15), (2, 3, 3))])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_slic_is_k_means_of_colour_and_place(shape, grid, channels):
    smooth = [20 * ndimage.gaussian_filter(RNG.normal(size=shape), 1.5) for _ in range(channels)]
    values = np.stack(smooth, axis=-1).astype(np.float32)
    found = cluster_by_slic(values, np.ones(shape, bool), grid, np.full(3, 0.8, np.float32))
    expected = slow_slic(values.astype(float), grid, 0.8, SLIC_ROUNDS)
    assert (found == expected).mean() > 0.998  # rounding decides between equals


def test_slic_finds_human_boundaries_within_the_size_that_is_asked_for():
    """Sites stay inside the two shapes of a noisy picture, and hardly any is smaller than half the size."""
    truth = np.hypot(*(np.indices((120, 130)) - 60)) < 40
    image = np.clip(RNG.normal(np.where(truth, 150, 90)[..., np.newaxis], 12, (120, 130, 3)), 0, 255).astype(np.uint8)
    sites = make_superpixels(normalize_image(image), gsw.Settings(site_size=60))
    inside = np.bincount(sites.ravel(), truth.ravel())[1:]
    pixels = np.bincount(sites.ravel())[1:]
    assert np.minimum(inside, pixels - inside).sum() < 0.01 * truth.size
    assert (pixels >= 30).all()


def test_slic_of_a_mask_is_that_of_the_image_without_what_is_outside():
    seen = normalize_image(astronaut()[:80, :90])
    mask = np.zeros((80, 90), bool)
    mask[10:70, 20:80] = True
    sites = make_superpixels(seen, gsw.Settings(site_size=60), mask)
    changed = seen.channels.copy()
    changed[~mask] = 0
    assert np.array_equal(sites, make_superpixels(type(seen)(changed, True), gsw.Settings(site_size=60), mask))


def test_small_regions_merge_into_the_most_similar_neighbour():
    # A row of regions 0 - 1 - 2 - 3 - 4, of which 1 and 3 are small, and 5, small and without a neighbour.
    edges = np.array([[0, 1], [1, 2], [2, 3], [3, 4]], np.int32)
    n_pixels = np.array([10, 2, 10, 3, 10, 1])
    total = (np.array([0.0, 4.0, 5.0, 5.6, 6.0, 1.0]) * n_pixels)[:, np.newaxis]
    joined = merge_small_regions(edges, total, n_pixels.copy(), np.argsort(n_pixels, kind="stable"), 5)
    assert joined.tolist() == [0, 2, 2, 4, 4, 5]
