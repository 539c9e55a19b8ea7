"""The compiled loops over pixels against slow, obvious code."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage, sparse
from skimage.color import rgb2lab
from skimage.data import astronaut
from skimage.measure import label

import napari_gsw as gsw
from napari_gsw.core.evidence import site_features as features
from napari_gsw.core.evidence.codebook import different_rows, moved_to_means
from napari_gsw.core.evidence.word_kernels import nearest
from napari_gsw.core.evidence.words import histogram, texture
from napari_gsw.core.graph.boundary_cue_kernels import differences, surroundings
from napari_gsw.core.graph.boundary_cues import chi2
from napari_gsw.core.graph.random_walk import walked
from napari_gsw.core.image.picture import picture
from napari_gsw.core.sites.face_kernels import joined, parts
from napari_gsw.core.sites.per_site import means_over
from napari_gsw.core.sites.slic_kernels import clustered
from napari_gsw.core.sites.superpixels import connected, superpixels

RNG = np.random.default_rng(11)


def smooth(shape, width=2.0):
    return ndimage.gaussian_filter(RNG.normal(size=shape), width)


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 6, 7])
@pytest.mark.parametrize("pixels", [1, 5, 1000, 3001])
def test_the_nearest_word_is_that_of_all_distances(channels, pixels):
    values = np.round(RNG.normal(size=(pixels, channels)) * 30).astype(np.float32)  # whole numbers, so that ties occur
    centres = np.round(RNG.normal(size=(50, channels)) * 30).astype(np.float32)
    centres[40:] = centres[:10]
    distance = np.square(values[:, np.newaxis].astype(float) - centres).sum(axis=-1)
    assert np.array_equal(nearest(values, centres), distance.argmin(axis=1))


def test_the_nearest_word_of_constant_and_of_no_pixels():
    centres = RNG.normal(size=(9, 3)).astype(np.float32)
    assert (nearest(np.tile(centres[4], (30, 1)), centres) == 4).all()
    assert len(nearest(np.zeros((0, 3), np.float32), centres)) == 0


def slow_texture(light):
    out = []
    for scale in features.TEXTURE_SCALES:
        gradient = ndimage.gaussian_gradient_magnitude(light.astype(float), scale) * scale
        laplace = ndimage.gaussian_laplace(light.astype(float), scale) * scale**2
        out += [np.log1p(gradient), np.sign(laplace) * np.log1p(np.abs(laplace))]
    return np.stack(out, axis=-1)


@pytest.mark.parametrize("shape", [(60, 71), (5, 7), (1, 9), (40, 1), (12, 20, 23), (1, 12, 13), (3, 2, 30)])
def test_texture_is_that_of_scipys_filters(shape):
    light = (50 + 30 * smooth(shape, 0.7)).clip(0, 100).astype(np.float32)
    light.flat[:: max(1, light.size // 7)] = 100
    assert texture(light) == pytest.approx(slow_texture(light), abs=1e-4)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.float64])
def test_lab_of_every_type_is_that_of_scikit_image(dtype):
    rgb = RNG.integers(0, 256, (70, 90, 3), dtype=np.uint8)
    rgb[0, :3] = [[0, 0, 0], [255, 255, 255], [9, 9, 9]]
    given = rgb if dtype == np.uint8 else rgb.astype(dtype) * 257 if dtype == np.uint16 else rgb.astype(dtype) / 255
    assert picture(given).channels == pytest.approx(rgb2lab(rgb), abs=1e-3)


def test_colours_do_not_depend_on_how_many_are_converted_at_once(monkeypatch):
    from napari_gsw.core.image import picture as image

    rgb = astronaut()[:30, :40]
    whole = picture(rgb).channels
    monkeypatch.setattr(image, "SOME", 101)
    assert np.array_equal(picture(rgb).channels, whole)


@pytest.mark.parametrize("dense", [4, 0])
def test_histograms_are_the_same_with_and_without_a_table(monkeypatch, dense):
    monkeypatch.setattr(features, "DENSE", dense)
    sites, words = RNG.integers(0, 9, (40, 50)).astype(np.int32), RNG.integers(0, 7, (40, 50)).astype(np.int32)
    sites[0, 0] = 11  # and no site 9 or 10
    found = histogram(words, sites, 8)
    expected = np.zeros((11, 8), int)
    np.add.at(expected, (sites[sites > 0] - 1, words[sites > 0]), 1)
    assert np.array_equal(found.toarray(), expected)
    assert found.has_canonical_format
    assert (found.dtype, found.indices.dtype) == (np.int64, np.int32)


@pytest.mark.parametrize("shape", [(40, 50), (9, 14, 15), (1, 30), (30, 1)])
def test_parts_are_those_of_scikit_image(shape):
    labels = RNG.integers(0, 3, shape).astype(np.int32)
    found, count = parts(labels.reshape((1,) * (3 - len(shape)) + shape))
    expected = label(labels, background=0, connectivity=1)
    assert count == expected.max()
    assert np.array_equal(found.reshape(shape), expected)


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.uint64, np.float64])
def test_parts_of_labels_of_any_type(dtype):
    labels = RNG.integers(0, 2, (12, 13)).astype(dtype)
    if np.dtype(dtype).kind in "uif" and np.dtype(dtype).itemsize == 8:
        labels *= 2**40
    assert np.array_equal(connected(labels, None), label(labels > 0, connectivity=1))


def test_means_over_sites_of_any_type():
    sites = RNG.integers(0, 5, (20, 30)).astype(np.int32)
    for values in (RNG.random((20, 30, 2)).astype(np.float32), RNG.integers(0, 9, (20, 30, 3))):
        expected = [values[sites == i].mean(axis=0, dtype=float) for i in range(1, 5)]
        assert means_over(values, sites) == pytest.approx(np.array(expected))


def test_small_parts_join_the_neighbour_that_is_most_alike():
    # A row of parts 0 - 1 - 2 - 3 - 4, of which 1 and 3 are small, and 5, small and without a neighbour.
    edges = np.array([[0, 1], [1, 2], [2, 3], [3, 4]], np.int32)
    pixels = np.array([10, 2, 10, 3, 10, 1])
    means = np.array([0.0, 4.0, 5.0, 5.6, 6.0, 1.0])
    found = joined(edges, (means * pixels)[:, np.newaxis], pixels.copy(), np.argsort(pixels, kind="stable"), 5)
    assert found.tolist() == [1, 2, 2, 3, 3, 4]


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
    found = clustered(values, np.zeros((0, 0, 0), bool), grid, 0.8, 3)
    assert (found == slow_slic(values.astype(float), grid, 0.8, 3)).mean() > 0.998  # rounding decides between equals


def test_slic_finds_human_boundaries_within_the_size_that_is_asked_for():
    """Sites stay inside the two shapes of a noisy picture, and hardly any is smaller than half the size."""
    truth = np.hypot(*(np.indices((120, 130)) - 60)) < 40
    image = np.clip(RNG.normal(np.where(truth, 150, 90)[..., np.newaxis], 12, (120, 130, 3)), 0, 255).astype(np.uint8)
    sites = superpixels(picture(image), gsw.Settings(site_size=60))
    inside = np.bincount(sites.ravel(), truth.ravel())[1:]
    pixels = np.bincount(sites.ravel())[1:]
    assert np.minimum(inside, pixels - inside).sum() < 0.01 * truth.size
    assert (pixels >= 30).all()


def test_slic_of_a_mask_is_that_of_the_image_without_what_is_outside():
    seen = picture(astronaut()[:80, :90])
    mask = np.zeros((80, 90), bool)
    mask[10:70, 20:80] = True
    sites = superpixels(seen, gsw.Settings(site_size=60), mask)
    changed = seen.channels.copy()
    changed[~mask] = 0
    assert np.array_equal(sites, superpixels(type(seen)(changed, True), gsw.Settings(site_size=60), mask))


def test_k_means_lowers_the_error_and_keeps_a_centre_that_nobody_is_near():
    values = RNG.normal(size=(2000, 2)).astype(np.float32)
    start = np.concatenate((values[:20], [[1e4, 1e4]])).astype(np.float32)
    found = moved_to_means(values, start)

    def error(centres):
        return np.square(values[:, np.newaxis] - centres).sum(axis=-1).min(axis=1).mean()

    assert error(found) < 0.9 * error(start)
    assert found[-1].tolist() == [1e4, 1e4]


def test_different_rows_are_those_of_numpy():
    values = RNG.integers(0, 4, (500, 3)).astype(np.float32)
    assert np.array_equal(different_rows(values), np.unique(values, axis=0))


def test_a_walk_is_a_power_of_its_matrix_and_leaves_what_it_is_given():
    steps = sparse.csr_array(RNG.random((9, 9)) * (RNG.random((9, 9)) < 0.4))
    values = RNG.random((9, 5))
    before = values.copy()
    for passes in range(4):
        assert walked(values, steps, passes) == pytest.approx(np.linalg.matrix_power(steps.toarray(), passes) @ values)
    assert np.array_equal(values, before)


def test_differences_of_groups_of_sites():
    n, parts_ = 8, np.array([5, 9, 12])
    sums = np.concatenate((RNG.integers(0, 4, (n, 9)), RNG.random((n, 3)), RNG.integers(5, 9, (n, 1))), axis=1)
    sums[0, :9] = 0
    i, j = np.array([0, 0, 2, 5]), np.array([1, 3, 7, 6])

    def expected(a, b):
        a, b = a[:-1] / max(a[-1], 1e-9), b[:-1] / max(b[-1], 1e-9)
        kinds = [chi2(a[None, s], b[None, s])[0] for s in (slice(5), slice(5, 9))]
        return [*kinds, np.linalg.norm(a[9:] - b[9:])]

    assert differences(sums, i, j, parts_) == pytest.approx(
        np.array([expected(sums[a], sums[b]) for a, b in zip(i, j, strict=True)])
    )
    reach = RNG.random((n, n)) < 0.5
    csr = sparse.csr_array(reach.astype(float))
    around = reach @ sums
    found = surroundings(csr.indptr, csr.indices, sums, around, i.astype(np.int32), j.astype(np.int32), parts_)
    for row, a, b in zip(found, i, j, strict=True):
        only = [(reach[x] & ~reach[y]) @ sums for x, y in ((a, b), (b, a))]
        assert row == pytest.approx(expected(*only))
