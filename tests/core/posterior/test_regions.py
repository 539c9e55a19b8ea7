"""Regions are the connected parts of clusters; small ones join the neighbour they belong to."""

from __future__ import annotations

import numpy as np
import pytest
from skimage.measure import label

import napari_gsw as gsw
from napari_gsw.core.image.normalized_image import normalize_image
from napari_gsw.core.posterior.regions import find_regions
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
