"""Objects on a background: the signal, the outlines, the necks; what the microscopy preset makes of them."""

from __future__ import annotations

import numpy as np
import pytest
from skimage.draw import disk
from skimage.measure import label

import napari_gsw as gsw
from napari_gsw.core.image.foreground_signal import normalize_images
from napari_gsw.core.posterior.objects import (
    assign_pixels,
    find_objects,
    label_stitched_objects,
    measure_appearance,
    split_at_necks,
)
from napari_gsw.scores.partitions import adjusted_rand
from pictures import CENTRES, cells


def test_background_is_about_nothing_and_objects_about_fifty():
    image, truth = cells()
    found = normalize_images([image], has_objects=True)[0].channels[..., 0]
    assert abs(np.median(found[truth == 0])) < 5
    inner = [np.median(found[truth == k]) for k in range(1, 8)]
    assert min(inner) > 25
    assert max(inner) < 4 * min(inner)  # brightness itself differs more than three times above the background
    assert not normalize_images([np.full((9, 9), 7, np.uint8)], has_objects=True)[0].channels.any()


def test_dark_stains_are_objects_too():
    image, truth = cells()
    stained = np.stack([255 - image, 255 - image // 2, np.full_like(image, 240)], axis=-1)
    found = normalize_images([stained], has_objects=True)[0].channels[..., 0]
    assert np.median(found[truth > 0]) > 25 > 10 > abs(np.median(found[truth == 0]))


def test_the_preset_finds_every_object_and_parts_those_that_touch():
    image, truth = cells()
    result = gsw.segment(image, preset="microscopy", objects="classical", seed=0)
    assert label(truth > 0).max() == 6  # to a threshold two are one
    assert result.n_regions == 7
    assert adjusted_rand(result.labels, truth) > 0.95
    assert result.labels[0, 0] == 0
    assert np.array_equal(np.unique(result.labels), np.arange(8))
    together = gsw.segment(image, preset="microscopy", objects="classical", seed=0, neck=0.0)
    assert together.n_regions == 6
    assert result.regions.shape == result.clusters.shape == (result.problem.n,)


def test_volumes_and_masks():
    image, _ = cells()
    volume = np.stack([np.full_like(image, 12), image, image, image, np.full_like(image, 12)])
    result = gsw.segment(volume, preset="microscopy", objects="classical", axes="ZYX", seed=0)
    assert result.labels.shape == volume.shape
    assert 6 <= result.n_regions <= 8
    mask = np.zeros(image.shape, bool)
    mask[:60] = True
    inside = gsw.segment(image, preset="microscopy", objects="classical", mask=mask)
    assert not inside.labels[60:].any()
    assert inside.n_regions == 3


def test_small_objects_are_background():
    image, _ = cells()
    problem = gsw.prepare(image, preset="microscopy", objects="classical")
    clusters = gsw.run(problem, 30, seed=0).best.labels
    few = find_objects(problem, clusters, min_pixels=300)
    assert few.max() == 1  # only the two that touch are large enough together
    assert np.bincount(few.ravel())[1:].min() >= 300


def test_outlines_are_finer_than_sites():
    image, truth = cells(noise=2.0)
    problem = gsw.prepare(image, preset="microscopy", objects="classical", site_size=80, superpixels="grid")
    clusters = (problem.graph.means[:, 0] > 25).astype(int)
    coarse, fine = (
        problem.paint(clusters) > 0,
        assign_pixels(problem.sites, problem.signal, measure_appearance(problem, clusters)) > 0,
    )
    wrong = [(found != (truth > 0)).mean() for found in (coarse, fine)]
    assert wrong[1] < wrong[0] / 3


@pytest.mark.parametrize(("gap", "parts"), [(10, 1), (15, 2)])
def test_a_neck_parts_whatever_the_size(gap, parts):
    for zoom in (1, 3):
        mask = np.zeros((40 * zoom, 60 * zoom), bool)
        for column in (20, 20 + gap):
            mask[disk((20 * zoom, column * zoom), 9 * zoom, shape=mask.shape)] = True
        assert split_at_necks(mask, None, 0.85).max() == parts


def test_the_variance_can_be_known():
    image, _ = cells()
    block = gsw.prepare(image, preset="microscopy", objects="classical").likelihoods[0]
    z = np.arange(block.n) % 2
    # The limit of the normal-inverse-gamma marginal: a Gaussian of known variance with a Gaussian mean.
    s, variance = block.weight, block.spread * block.variance
    expected = 0.0
    for k in (0, 1):
        w, first, second = (s * x[z == k].sum(axis=0) for x in (block.mass, block.sums, block.squares))
        kappa = block.kappa + w
        one = np.log(block.kappa / kappa) / 2 - w / 2 * np.log(2 * np.pi * variance)
        expected += float((one - (second - first**2 / kappa) / (2 * variance)).sum())
    assert block.log_marginal(z) == pytest.approx(expected, rel=1e-5)


# ---- clamped objects

IMAGE, TRUTH = cells()
GRID = dict(preset="microscopy", objects="classical", superpixels="grid", site_size=16)


@pytest.fixture(scope="module")
def problem():
    return gsw.prepare(IMAGE, **GRID)


@pytest.fixture(scope="module")
def bright(problem):
    """(n,) clusters: 1 for the sites of cells, 0 for those of the background."""
    return (problem.graph.means[:, 0] > 25).astype(int)


def clamped(problem, **numbers):
    """(n,) seeds: a few sites around the centre of the cell `cell_N`, or at `row_R_column_C`."""
    seeds = np.full(problem.n, -1, np.int32)
    for place, number in numbers.items():
        words = place.split("_")
        row, column = CENTRES[int(words[1])] if words[0] == "cell" else (int(words[1]), int(words[3]))
        seeds[np.unique(problem.site_image[row - 2 : row + 3, column - 2 : column + 3]) - 1] = number
    return seeds


def test_an_object_has_the_number_of_its_clamp_and_the_others_those_that_are_left(problem, bright):
    free = find_objects(problem, bright, 16, 0.85)
    seeds = clamped(problem, cell_2=24, cell_5=1)
    labels = find_objects(problem, bright, 16, 0.85, seeds)
    assert labels[CENTRES[2]] == 24
    assert labels[CENTRES[5]] == 1
    assert np.array_equal(np.unique(labels), [0, 1, 2, 3, 4, 5, 6, 24])
    assert np.array_equal(labels > 0, free > 0)
    for number in (24, 1):  # the objects are those without clamps, under another name
        assert len(np.unique(free[labels == number])) == 1


def test_a_clamped_patch_of_the_background_is_shown_and_no_more(problem, bright):
    seeds = clamped(problem, row_60_column_70=7)
    labels = find_objects(problem, bright, 16, 0.85, seeds)
    assert np.array_equal(labels == 7, np.isin(problem.site_image, np.flatnonzero(seeds == 7) + 1))
    assert labels[0, 0] == 0
    assert np.array_equal(np.unique(labels), np.arange(9))


def test_clamped_objects_are_never_too_small(problem, bright):
    seeds = clamped(problem, cell_0=9)
    labels = find_objects(problem, bright, 5000, 0.0, seeds)
    assert np.array_equal(np.unique(labels), [0, 9])
    assert labels[CENTRES[0]] == 9


def test_two_clamps_are_never_one_object(problem, bright):
    """The two cells that touch are one part: with two clamps, each begins with its own cluster."""
    clusters = bright.copy()
    seeds = clamped(problem, cell_3=8, cell_4=5)
    clusters[seeds == 5] = 2
    for neck in (0.0, 0.85):
        labels = find_objects(problem, clusters, 16, neck, seeds)
        assert labels[CENTRES[3]] == 8
        assert labels[CENTRES[4]] == 5
        assert np.isin(np.unique(labels[np.isin(TRUTH, (4, 5))]), (0, 5, 8)).all()
        held = seeds[problem.site_image - 1]
        assert np.array_equal(labels[held > 0], held[held > 0])


def test_the_clamped_piece_keeps_the_number_at_a_neck(problem, bright):
    labels = find_objects(problem, bright, 16, 0.85, clamped(problem, cell_3=8))
    assert labels[CENTRES[3]] == 8
    assert labels[CENTRES[4]] not in (0, 8)
    # A clamp on the neck itself belongs to the side on which most of it lies, and is shown on both.
    seeds = clamped(problem, row_80_column_36=8)
    across = find_objects(problem, bright, 16, 0.85, seeds)
    assert (across[np.isin(problem.site_image, np.flatnonzero(seeds == 8) + 1)] == 8).all()


def test_the_result_of_a_chain_has_the_numbers_of_the_seeds():
    seeds = np.zeros(IMAGE.shape, int)
    seeds[21:29, 21:29] = 700
    result = gsw.segment(IMAGE, seeds=seeds, seed=0, sweeps=30, **GRID)
    assert result.labels[CENTRES[0]] == 700
    assert result.n_regions == 7
    assert np.array_equal(np.unique(result.labels), [0, 1, 2, 3, 4, 5, 6, 700])
    assert set(np.unique(result.regions)) <= set(np.unique(result.labels))


def test_blocks_have_the_numbers_of_the_seeds_too():
    da = pytest.importorskip("dask.array")
    image, truth = np.tile(IMAGE, (2, 2)), np.tile(TRUTH, (2, 2))
    seeds = np.zeros(image.shape, int)
    seeds[21:29, 21:29], seeds[135:142, 60:70] = 700, 3
    result = gsw.segment(
        da.from_array(image, chunks=(64, 64)), preset="microscopy", seeds=seeds, sweeps=30, block_pixels=2**12
    )
    assert len(result.problem.sites.grid) > 8
    labels = np.asarray(result.labels)
    assert labels[CENTRES[0]] == 700
    assert (labels == 700).sum() == pytest.approx((TRUTH == 1).sum(), abs=30)  # one cell, and not its three twins
    held = np.asarray(result.summary.seeds)[np.asarray(result.problem.sites) - 1]
    assert np.array_equal(labels == 3, held == 3)
    assert result.n_regions == len(np.unique(labels)) - 1
    assert result.n_regions == pytest.approx(len(np.unique(truth[truth > 0])) * 4 + 1, abs=2)


def test_pieces_that_were_stitched_with_two_clamps_stay_apart():
    number = label_stitched_objects(
        np.array([0, 0, 0, 1, 2, 2]), np.array([9, 5, 7, 50, 2, 1]), np.array([7, 3, 0, 0, 0, 2], np.int32), 40
    )
    assert number.tolist() == [7, 3, 7, 1, 2, 2]
