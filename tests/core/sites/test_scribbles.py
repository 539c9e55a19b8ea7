"""Tests of scribbles and their sites."""

from __future__ import annotations

import numpy as np
import pytest

from napari_gsw.core.sites.scribbles import apply_scribble, find_scribbled_sites, make_scribble, split_sites, trace_path


@pytest.fixture
def grid():
    """Sixteen sites of 10 x 10 pixels."""
    y, x = np.mgrid[:40, :40] // 10
    return (4 * y + x + 1).astype(np.int32)


def paint(sites, regions):
    """Labels (h, w) of 1 in which regions are painted with other labels."""
    after = np.ones_like(sites)
    for region, label in regions:
        after[region] = label
    return after


def find(sites, regions, path=None):
    """The labels that sites take when regions are painted on labels of 1."""
    after = paint(sites, regions)
    found, labels = find_scribbled_sites(sites, np.flatnonzero(after != 1), after, path)
    return dict(zip(found.tolist(), labels.tolist(), strict=True))


@pytest.mark.parametrize(
    ("regions", "path", "expected"),
    [
        # half of the first two sites, and less than half of the fifth
        ([(np.s_[0:10, 5:15], 3), (np.s_[10:20, 5:9], 3)], None, {0: 3, 1: 3}),
        # a fine brush labels the sites under its centre
        ([(np.s_[5, :], 2)], np.array([[5.0, 1.0], [5.0, 28.0]]), {0: 2, 1: 2, 2: 2}),
        # one dab labels one site
        ([(np.s_[:, :12], 2), (np.s_[1:, :], 1)], None, {0: 2}),
        ([(np.s_[2, 2], 3), (np.s_[25, 25:27], 4)], None, {0: 3, 10: 4}),
        ([(np.s_[:10, :10], 5), (np.s_[:10, 10:20], 0)], None, {0: 5, 1: 0}),
        ([], None, {}),
    ],
)
def test_labelled_sites(grid, regions, path, expected):
    assert find(grid, regions, path) == expected


def test_paint_outside_the_sites_labels_nothing(grid):
    assert find(np.where(grid > 8, 0, grid), [(np.s_[25:, :], 4)]) == {}


@pytest.mark.parametrize("is_volume", [False, True])
def test_painting_an_existing_label_merges_whole_sites(grid, is_volume):
    after = grid.copy()
    after[:10, 8:18] = 1
    if is_volume:
        grid, after = np.stack((grid, grid)), np.stack((after, after))
    result = apply_scribble(grid, after)
    assert (result[..., :10, :20] == 1).all()
    assert len(np.unique(result)) == 15


def test_painting_a_new_label_splits(grid):
    after = grid.copy()
    after[0:10, 4:6] = 77  # a bar cuts the first site in two
    result = apply_scribble(grid, after)
    assert (result[0:10, 4:6] == 77).all()
    assert len(np.unique(result)) == 18
    assert result[0, 0] != result[0, 9]
    assert 1 in (result[0, 0], result[0, 9])


def test_a_row_of_sites_is_painted_split_and_walked_along():
    before = np.array([[1, 1, 2, 2, 3, 3]])
    assert apply_scribble(before, np.array([[1, 1, 1, 2, 3, 3]])).tolist() == [[1, 1, 1, 1, 3, 3]]
    assert apply_scribble(before, np.array([[1, 1, 2, 9, 3, 3]])).tolist() == [[1, 1, 2, 9, 3, 3]]
    sites, scribbles = np.array([[1, 1, 1, 1, 2, 2]]), np.array([[3, 0, 0, 5, 5, 0]])
    grey = np.array([[0.0, 0.0, 9.0, 9.0, 9.0, 9.0]])[..., np.newaxis]
    assert split_sites(sites, scribbles, grey)[0].tolist() == [[1, 1, 3, 3, 2, 2]]
    path = np.array([[0.0, 0.0], [2.0, 1.0], [2.0, 9.0]])
    assert trace_path((3, 4), path).tolist() == [[0, 0], [1, 0], [2, 1], [2, 2], [2, 3]]
    after = np.array([[0, 0, 0, 0, 7, 0, 0, 0, 0]])
    scribble = make_scribble(np.arange(1, 10)[np.newaxis], np.zeros_like(after), after)
    assert scribble.bounding_box(np.ones(9, int)) == (slice(0, 1), slice(3, 6))
    assert scribble.bounding_box(None) == (slice(0, 1), slice(0, 9))


def test_erasing_removes_pixels(grid):
    after = grid.copy()
    after[0:5, 0:10] = 0
    assert np.array_equal(apply_scribble(grid, after), after)


def test_label_painted_far_away_is_a_site_of_its_own(grid):
    after = grid.copy()
    after[30:, 30:] = 1
    result = apply_scribble(grid, after)
    assert (result[:10, :10] == 1).all()
    assert result[35, 35] not in (0, 1)
    assert len(np.unique(result)) == 16


def test_split_sites_have_scribbles_of_one_label():
    rng = np.random.default_rng(0)
    sites = np.kron(np.arange(1, 10).reshape(3, 3), np.ones((4, 4), int))
    scribbles = np.where(rng.random((12, 12)) < 0.08, rng.integers(1, 4, (12, 12)), 0)
    split, parent = split_sites(sites, scribbles, np.zeros((12, 12, 1), np.float32))
    assert (np.unique(split) == np.arange(1, len(parent) + 1)).all()
    assert (parent[split - 1] == sites - 1).all()
    for site in np.unique(split):
        labels = scribbles[split == site]
        assert len(np.unique(labels[labels > 0])) <= 1


def test_sites_with_one_label_are_not_split():
    sites = np.repeat(np.arange(1, 4), 4)[np.newaxis].repeat(12, 0)
    scribbles = np.zeros((12, 12), int)
    scribbles[3, 1], scribbles[8, 2] = 2, 2
    split, parent = split_sites(sites, scribbles, np.zeros((12, 12, 1), np.float32))
    assert split is sites
    assert parent.tolist() == [0, 1, 2]


@pytest.mark.parametrize("shape", [(12, 12), (3, 5, 12)])
def test_the_split_follows_the_step_of_colour(shape):
    channels = np.zeros((*shape, 1), np.float32)
    channels[..., 7:, :] = 50
    scribbles = np.zeros(shape, int)
    scribbles[..., 1, 1], scribbles[..., 1, 10] = 4, 9
    split, parent = split_sites(np.ones(shape, int), scribbles, channels)
    assert len(parent) == 2
    assert len(np.unique(split[..., :6])) == len(np.unique(split[..., 8:])) == 1
    assert split.flat[0] != split.flat[-1]
