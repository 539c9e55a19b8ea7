"""Regions against slow obvious code, and the levels of their hierarchy."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from skimage.measure import label

import napari_gsw as gsw
from napari_gsw.core.image.normalized_image import normalize_image
from napari_gsw.core.posterior.regions import find_regions, make_boundary_tree, merge_weak_boundaries
from problems import planar


def slow_regions(problem, clusters, smallest, together):
    """One small region at a time, the smallest (of those the first) first."""
    graph = problem.graph
    region = np.arange(problem.n)
    for _ in range(problem.n):
        for (i, j), order in zip(problem.edges, graph.order, strict=True):
            if order == 1 and clusters[i] == clusters[j]:
                region[region == max(region[i], region[j])] = min(region[i], region[j])
    while True:
        names = np.unique(region)
        size = {r: graph.pixels[region == r].sum() for r in names}
        done = True
        for r in sorted(names, key=lambda r: (size[r], r)):
            if size[r] >= smallest:
                continue
            score = {}
            for e, (i, j) in enumerate(problem.edges):
                if graph.order[e] == 1 and (region[i] == r) != (region[j] == r):
                    other = region[j] if region[i] == r else region[i]
                    total, length = score.get(other, (0.0, 0.0))
                    score[other] = total + graph.length[e] * together[e], length + graph.length[e]
            if score:
                best = min(score, key=lambda o: (-score[o][0] / score[o][1], o))
                region[region == r] = best
                done = False
                break
        if done:
            return region


def partition(labels):
    return labels[:, None] == labels


@pytest.mark.parametrize("smallest", [0, 60, 150, 10**6])
@pytest.mark.parametrize("seed", range(3))
def test_against_one_at_a_time(seed, smallest):
    rng = np.random.default_rng(seed)
    problem = gsw.prepare(rng.random((40, 50)), site_size=25, superpixels="grid")
    clusters = rng.integers(0, 3, problem.n)
    together = rng.random(len(problem.edges))
    found = find_regions(problem, clusters, smallest, together)
    pixels = np.bincount(found, problem.graph.pixels)
    assert (pixels >= smallest).all() or len(pixels) == 1
    if smallest <= 60:  # merges that do not touch each other: the order cannot matter
        np.testing.assert_array_equal(partition(found), partition(slow_regions(problem, clusters, smallest, together)))


def test_without_a_smallest_size_they_are_the_connected_parts_of_the_image():
    rng = np.random.default_rng(4)
    problem = gsw.prepare(rng.random((40, 50)), site_size=20)
    clusters = rng.integers(0, 2, problem.n)
    image = problem.paint(find_regions(problem, clusters) + 1)
    expected = label(problem.paint(clusters + 1), connectivity=1)
    np.testing.assert_array_equal(image, expected)


def test_a_small_region_joins_the_nearest_colour_or_the_most_probable_neighbour():
    image = np.repeat([[0.0] * 10 + [0.4] * 2 + [1.0] * 10], 10, axis=0)
    problem = gsw.prepare(image, sites=np.repeat([[1] * 10 + [2] * 2 + [3] * 10], 10, axis=0))
    clusters = np.arange(3)
    assert find_regions(problem, clusters, 50).tolist() == [0, 0, 1]
    assert find_regions(problem, clusters, 50, np.array([0.1, 0.6])).tolist() == [0, 1, 1]
    assert find_regions(problem, clusters, 50, np.array([np.nan, np.nan])).tolist() == [0, 0, 1]


def test_a_small_region_without_a_neighbour_stays():
    sites = np.zeros((10, 10), int)
    sites[:, :4], sites[2, 8] = 1, 2
    problem = gsw.prepare(np.zeros((10, 10)), sites=sites)
    assert find_regions(problem, np.zeros(2, int), 5).tolist() == [0, 1]


def test_a_problem_without_an_image_counts_sites():
    problem = planar(80)
    rng = np.random.default_rng(0)
    found = find_regions(problem, rng.integers(0, 4, 80), 3)
    assert np.bincount(found).min() >= 3


def test_means_and_pixels_of_the_graph():
    image = np.random.default_rng(1).random((20, 24))
    problem = gsw.prepare(image, site_size=30, denoise="no")
    seen = normalize_image(image).channels[..., 0]
    for site in range(problem.n):
        inside = problem.sites == site + 1
        assert problem.graph.pixels[site] == inside.sum()
        assert problem.graph.means[site, 0] == pytest.approx(seen[inside].mean(), rel=1e-5)


# ---- the hierarchy


def nested(coarse, fine):
    """Return whether every region of the one is a union of regions of the other."""
    return len(np.unique(np.stack((coarse, fine)), axis=1).T) == len(np.unique(fine))


@pytest.fixture(scope="module")
def stripes():
    """Three stripes in noise, with four specks that stand out from everything."""
    colours = np.array([[150, 110, 90], [90, 140, 110], [100, 110, 160]])
    image = np.repeat(colours, 30, axis=0)[np.newaxis] + np.random.default_rng(0).normal(0, 6, (90, 90, 3))
    for row, column in ((20, 10), (60, 70), (70, 40), (30, 40)):
        image[row : row + 9, column : column + 9] = (255, 0, 255)
    image = np.clip(image, 0, 255).astype(np.uint8)
    return gsw.prepare(image, preset="general", site_size=60)


def test_levels_nest_and_have_as_many_regions_as_asked_for(stripes):
    tree = make_boundary_tree(stripes, np.full(len(stripes.edges), 0.7))
    levels = [tree.labels_with(count) for count in (2, 5, 20, 60, stripes.n)]
    assert [len(np.unique(level)) for level in levels] == [2, 5, 20, 60, stripes.n]
    assert all(nested(coarse, fine) for coarse, fine in itertools.pairwise(levels))


def test_couplings_order_what_the_posterior_is_sure_of(stripes):
    """All boundaries are as good as certain; the weak ones go first all the same, and the small specks among them."""
    tree = make_boundary_tree(stripes, np.zeros(len(stripes.edges)))
    kept = np.diff(tree.labels_with(20)[stripes.edges]).ravel() != 0
    contrast = stripes.graph.contrast
    assert contrast[kept].mean() > 2 * contrast[~kept].mean()
    pixels = stripes.graph.pixels
    for count in (3, 5, 7, 12, 28):
        assert np.bincount(tree.labels_with(count), pixels).max() < 0.75 * pixels.sum(), count


def test_a_problem_without_an_image_has_levels_too():
    plain = planar(n=60)
    together = np.linspace(0.1, 0.9, len(plain.edges))
    assert make_boundary_tree(plain, together).labels_with(1).tolist() == [0] * plain.n


def test_learnt_couplings_are_log_odds_again(stripes):
    """Twice the strength, or another neutral point, is the same evidence of boundaries: the same hierarchy."""
    odds = np.random.default_rng(0).normal(0, 2, len(stripes.edges))
    trees = []
    for beta, offset in ((1.0, 0.0), (2.5, 1.6)):
        settings = stripes.settings.replace(coupling="learnt", beta=beta, offset=offset)
        one = replace(stripes, beta=-beta * (odds + offset), settings=settings)
        trees.append(make_boundary_tree(one, np.full(len(odds), 0.5)))
    assert trees[0].height == pytest.approx(trees[1].height)
    assert np.array_equal(trees[0].labels_with(30), trees[1].labels_with(30))


def test_regions_join_where_their_boundary_is_weak_and_nowhere_else(stripes):
    """From single sites the weakest boundary that stays is that of the tree; from regions, joins nest."""
    together = np.full(len(stripes.edges), 0.7)
    sites = np.arange(stripes.n, dtype=np.int32)
    tree = make_boundary_tree(stripes, together)
    for weakest in (0.2, 0.4, 0.6):
        assert np.array_equal(merge_weak_boundaries(stripes, together, sites, weakest), tree.labels(weakest))
    regions = tree.labels_with(30)
    levels = [merge_weak_boundaries(stripes, together, regions, weakest) for weakest in (0.0, 0.3, 0.5, 0.9)]
    assert levels[0] is regions
    assert all(nested(coarse, fine) for fine, coarse in itertools.pairwise(levels))
    assert len(np.unique(levels[-1])) < len(np.unique(levels[0]))
    assert merge_weak_boundaries(stripes, np.full(len(stripes.edges), np.nan), regions, 0.9) is regions


def test_what_a_person_has_painted_joins_with_nothing(stripes):
    together = np.full(len(stripes.edges), 0.7)
    regions = make_boundary_tree(stripes, together).labels_with(30)
    held = np.zeros(stripes.n, bool)
    held[[3, 50]] = True
    joined = merge_weak_boundaries(stripes, together, regions, 0.99, held)
    for site in (3, 50):
        assert np.array_equal(joined == joined[site], regions == regions[site])
    assert len(np.unique(joined)) < 30
    assert np.array_equal(merge_weak_boundaries(stripes, together, regions, 0.99, np.ones(stripes.n, bool)), regions)


def test_names_that_were_painted_stay_apart_however_weak_their_border():
    image = np.full((60, 60, 3), 100, np.uint8) + np.random.default_rng(0).integers(0, 5, (60, 60, 1), np.uint8)
    seeds = np.zeros((60, 60), int)
    seeds[20:40, 5], seeds[20:40, 54] = 1, 2
    joined, separate = (gsw.segment(image, preset="general", sweeps=40, seeds=seeds, join=join) for join in (0.9, 0.0))
    assert joined.problem.closed
    assert set(np.unique(joined.labels)) == {1, 2}
    assert np.array_equal(joined.labels, separate.labels)
