"""The compiled loops over pixels against slow, obvious code."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage
from skimage.data import astronaut
from skimage.measure import label

import napari_gsw as gsw
from napari_gsw.core.image.normalized_image import normalize_image
from napari_gsw.core.sites.adjacency_kernels import label_components, merge_small_regions
from napari_gsw.core.sites.site_values import mean_per_site
from napari_gsw.core.sites.superpixels import label_connected, make_superpixels, slic_clusters

RNG = np.random.default_rng(11)


def smooth(shape, width=2.0):
    return ndimage.gaussian_filter(RNG.normal(size=shape), width)


@pytest.mark.parametrize("shape", [(40, 50), (9, 14, 15), (1, 30), (30, 1)])
def test_parts_are_those_of_scikit_image(shape):
    labels = RNG.integers(0, 3, shape).astype(np.int32)
    parts, count = label_components(labels.reshape((1,) * (3 - len(shape)) + shape))
    expected = label(labels, background=0, connectivity=1)
    assert count == expected.max()
    assert np.array_equal(parts.reshape(shape), expected)


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.uint64, np.float64])
def test_parts_of_labels_of_any_type(dtype):
    labels = RNG.integers(0, 2, (12, 13)).astype(dtype)
    if np.dtype(dtype).kind in "uif" and np.dtype(dtype).itemsize == 8:
        labels *= 2**40
    assert np.array_equal(label_connected(labels, None), label(labels > 0, connectivity=1))


def test_means_over_sites_of_any_type():
    sites = RNG.integers(0, 5, (20, 30)).astype(np.int32)
    for values in (RNG.random((20, 30, 2)).astype(np.float32), RNG.integers(0, 9, (20, 30, 3))):
        expected = [values[sites == i].mean(axis=0, dtype=float) for i in range(1, 5)]
        assert mean_per_site(values, sites) == pytest.approx(np.array(expected))


def test_small_parts_join_the_neighbour_that_is_most_alike():
    # A row of parts 0 - 1 - 2 - 3 - 4, of which 1 and 3 are small, and 5, small and without a neighbour.
    edges = np.array([[0, 1], [1, 2], [2, 3], [3, 4]], np.int32)
    pixels = np.array([10, 2, 10, 3, 10, 1])
    means = np.array([0.0, 4.0, 5.0, 5.6, 6.0, 1.0])
    number = merge_small_regions(
        edges, (means * pixels)[:, np.newaxis], pixels.copy(), np.argsort(pixels, kind="stable"), 5
    )
    assert number.tolist() == [1, 2, 2, 3, 3, 4]


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
    values = np.stack([20 * smooth(shape, 1.5) for _ in range(channels)], axis=-1).astype(np.float32)
    found = slic_clusters(values, np.zeros((0, 0, 0), bool), grid, (np.float32(0.8),) * 3, 3)
    assert (found == slow_slic(values.astype(float), grid, 0.8, 3)).mean() > 0.998  # rounding decides between equals


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
