"""The levels of the hierarchy: they nest, follow the couplings where the posterior is silent, and specks go first."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

import napari_gsw as gsw
from napari_gsw.core.posterior.regions import make_boundary_tree, merge_weak_boundaries
from problems import planar


def nested(coarse, fine):
    """Whether every region of the one is a union of regions of the other."""
    return len(np.unique(np.stack((coarse, fine)), axis=1).T) == len(np.unique(fine))


@pytest.fixture(scope="module")
def problem():
    """Three stripes in noise, with four specks that stand out from everything."""
    colours = np.array([[150, 110, 90], [90, 140, 110], [100, 110, 160]])
    image = np.repeat(colours, 30, axis=0)[np.newaxis] + np.random.default_rng(0).normal(0, 6, (90, 90, 3))
    for row, column in ((20, 10), (60, 70), (70, 40), (30, 40)):
        image[row : row + 9, column : column + 9] = (255, 0, 255)
    image = np.clip(image, 0, 255).astype(np.uint8)
    return gsw.prepare(image, preset="general", site_size=60)


def test_levels_nest_and_have_as_many_regions_as_asked_for(problem):
    tree = make_boundary_tree(problem, np.full(len(problem.edges), 0.7))
    levels = [tree.labels_with(count) for count in (2, 5, 20, 60, problem.n)]
    assert [len(np.unique(level)) for level in levels] == [2, 5, 20, 60, problem.n]
    assert all(nested(coarse, fine) for coarse, fine in itertools.pairwise(levels))


def test_couplings_order_what_the_posterior_is_sure_of(problem):
    """All boundaries are as good as certain; the weak ones go first all the same."""
    tree = make_boundary_tree(problem, np.zeros(len(problem.edges)))
    labels = tree.labels_with(20)
    i, j = problem.edges.T
    kept = labels[i] != labels[j]
    contrast = problem.graph.contrast
    assert contrast[kept].mean() > 2 * contrast[~kept].mean()


def test_learnt_couplings_are_log_odds_again(problem):
    """Twice the strength, or another neutral point, is the same evidence of boundaries: the same hierarchy."""
    odds = np.random.default_rng(0).normal(0, 2, len(problem.edges))
    trees = []
    for beta, offset in ((1.0, 0.0), (2.5, 1.6)):
        settings = problem.settings.replace(coupling="learnt", beta=beta, offset=offset)
        one = replace(problem, beta=-beta * (odds + offset), settings=settings)
        trees.append(make_boundary_tree(one, np.full(len(odds), 0.5)))
    assert trees[0].height == pytest.approx(trees[1].height)
    assert np.array_equal(trees[0].labels_with(30), trees[1].labels_with(30))


def test_no_level_is_one_region_with_specks(problem):
    """The specks are the sharper, and the smaller."""
    tree = make_boundary_tree(problem, np.zeros(len(problem.edges)))
    pixels = problem.graph.pixels
    for count in (3, 5, 7, 12, 28):
        labels = tree.labels_with(count)
        share = np.bincount(labels, pixels) / pixels.sum()
        assert share.max() < 0.75, count


def test_a_problem_without_an_image_has_levels_too():
    plain = planar(n=60)
    together = np.linspace(0.1, 0.9, len(plain.edges))
    assert make_boundary_tree(plain, together).labels_with(1).tolist() == [0] * plain.n


def test_regions_join_where_their_boundary_is_weak_and_nowhere_else(problem):
    """From single sites the weakest boundary that stays is that of the tree; from regions, joins nest."""
    together = np.full(len(problem.edges), 0.7)
    sites = np.arange(problem.n, dtype=np.int32)
    tree = make_boundary_tree(problem, together)
    for weakest in (0.2, 0.4, 0.6):
        assert np.array_equal(merge_weak_boundaries(problem, together, sites, weakest), tree.labels(weakest))
    regions = tree.labels_with(30)
    levels = [merge_weak_boundaries(problem, together, regions, weakest) for weakest in (0.0, 0.3, 0.5, 0.9)]
    assert levels[0] is regions
    assert all(nested(coarse, fine) for fine, coarse in itertools.pairwise(levels))
    assert len(np.unique(levels[-1])) < len(np.unique(levels[0]))
    assert merge_weak_boundaries(problem, np.full(len(problem.edges), np.nan), regions, 0.9) is regions


def test_what_a_person_has_painted_joins_with_nothing(problem):
    together = np.full(len(problem.edges), 0.7)
    regions = make_boundary_tree(problem, together).labels_with(30)
    held = np.zeros(problem.n, bool)
    held[[3, 50]] = True
    joined = merge_weak_boundaries(problem, together, regions, 0.99, held)
    for site in (3, 50):
        assert np.array_equal(joined == joined[site], regions == regions[site])
    assert len(np.unique(joined)) < 30
    assert np.array_equal(merge_weak_boundaries(problem, together, regions, 0.99, np.ones(problem.n, bool)), regions)


def test_names_that_were_painted_stay_apart_however_weak_their_border():
    image = np.full((60, 60, 3), 100, np.uint8) + np.random.default_rng(0).integers(0, 5, (60, 60, 1), np.uint8)
    seeds = np.zeros((60, 60), int)
    seeds[20:40, 5], seeds[20:40, 54] = 1, 2
    result = gsw.segment(image, preset="photo", sweeps=40, seeds=seeds, join=0.9)
    assert result.problem.closed
    assert set(np.unique(result.labels)) == {1, 2}
    assert np.array_equal(result.labels, gsw.segment(image, preset="photo", sweeps=40, seeds=seeds, join=0.0).labels)
