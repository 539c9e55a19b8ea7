"""Objects that a person has numbered keep their number in the view of objects."""

from __future__ import annotations

import numpy as np
import pytest

import napari_gsw as gsw
from napari_gsw.core.posterior.block_objects import label_stitched_objects
from napari_gsw.core.posterior.objects import find_objects
from pictures import CENTRES, cells

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
