"""What paint means for sites."""

from __future__ import annotations

import numpy as np
import pytest

from napari_gsw.core.sites.scribbles import apply_scribble, find_scribbled_sites


@pytest.fixture
def grid():
    """Sixteen sites of 10 x 10 pixels."""
    y, x = np.mgrid[:40, :40] // 10
    return (4 * y + x + 1).astype(np.int32)


def test_a_site_takes_a_label_if_half_of_it_is_painted(grid):
    before = np.ones_like(grid)
    after = before.copy()
    after[0:10, 5:15] = 3  # half of the first two
    after[10:20, 5:9] = 3  # less than half of the fifth, in the same stroke
    sites, labels = find_scribbled_sites(grid, before, after)
    assert sites.tolist() == [0, 1]
    assert labels.tolist() == [3, 3]


def test_a_fine_brush_means_the_sites_under_its_centre(grid):
    before = np.ones_like(grid)
    after = before.copy()
    after[5, :] = 2
    sites, _ = find_scribbled_sites(grid, before, after, np.array([[5.0, 1.0], [5.0, 28.0]]))
    assert sites.tolist() == [0, 1, 2]
    alone, labels = find_scribbled_sites(grid, before, np.where(np.arange(40) < 12, after, before))
    assert (alone.tolist(), labels.tolist()) == ([0], [2])


def test_paint_outside_the_sites_means_nothing(grid):
    sites = np.where(grid > 8, 0, grid)
    before = np.ones_like(grid)
    after = before.copy()
    after[25:, :] = 4
    assert find_scribbled_sites(sites, before, after)[0].size == 0
    assert find_scribbled_sites(sites, before, before)[0].size == 0


def test_two_labels_in_one_stroke(grid):
    before = np.ones_like(grid)
    after = before.copy()
    after[:10, :10] = 5
    after[:10, 10:20] = 0
    sites, labels = find_scribbled_sites(grid, before, after)
    assert dict(zip(sites.tolist(), labels.tolist(), strict=True)) == {0: 5, 1: 0}


def test_painting_a_known_label_merges_whole_sites(grid):
    after = grid.copy()
    after[:10, 8:18] = 1
    made = apply_scribble(grid, after)
    assert (made[:10, :20] == 1).all()
    assert len(np.unique(made)) == 15


def test_painting_a_new_label_splits(grid):
    after = grid.copy()
    after[0:10, 4:6] = 77  # a bar cuts the first site in two
    made = apply_scribble(grid, after)
    assert (made[0:10, 4:6] == 77).all()
    assert len(np.unique(made)) == 18
    left, right = made[0, 0], made[0, 9]
    assert left != right
    assert 1 in (left, right)


def test_erasing_takes_pixels_out(grid):
    after = grid.copy()
    after[0:5, 0:10] = 0
    made = apply_scribble(grid, after)
    assert (made[0:5, 0:10] == 0).all()
    assert (made[5:10, 0:10] == 1).all()


def test_a_label_painted_far_away_is_a_site_of_its_own(grid):
    after = grid.copy()
    after[30:, 30:] = 1
    made = apply_scribble(grid, after)
    assert (made[:10, :10] == 1).all()
    assert made[35, 35] not in (0, 1)
    assert len(np.unique(made)) == 16


def test_volumes(grid):
    stack = np.stack((grid, grid))
    after = stack.copy()
    after[0, :10, 8:18] = 1
    after[1, :10, 8:18] = 1
    made = apply_scribble(stack, after)
    assert (made[:, :10, :20] == 1).all()


def test_every_dab_means_a_site(grid):
    before = np.ones_like(grid)
    after = before.copy()
    after[2, 2] = 3
    after[25, 25:27] = 4
    sites, labels = find_scribbled_sites(grid, before, after)
    assert dict(zip(sites.tolist(), labels.tolist(), strict=True)) == {0: 3, 10: 4}
