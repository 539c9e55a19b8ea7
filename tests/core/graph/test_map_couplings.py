"""Couplings from a map of boundaries: against a loop over the faces, in two and three dimensions."""

from dataclasses import replace

import numpy as np
import pytest

from napari_gsw.core.graph.couplings import compute_map_couplings
from napari_gsw.core.graph.region_graph import build_region_graph
from napari_gsw.core.image.normalized_image import NormalizedImage
from napari_gsw.core.settings import Settings
from napari_gsw.core.sites.site_values import sum_over_faces
from napari_gsw.core.sites.superpixels import label_connected

rng = np.random.default_rng(0)


def random_sites(shape):
    sites = label_connected(rng.integers(1, 4, shape))
    sites[(0,) * len(shape)] = 0
    return label_connected(sites)


def slow_means(log_odds, sites, edges, spacing):
    """Mean over faces of the larger of two pixels, by area."""
    sums, areas = np.zeros(len(edges)), np.zeros(len(edges))
    at = {tuple(e): k for k, e in enumerate(edges.tolist())}
    for place in np.ndindex(sites.shape):
        for axis in range(sites.ndim):
            other = tuple(p + (a == axis) for a, p in enumerate(place))
            if other[axis] == sites.shape[axis] or 0 in (sites[place], sites[other]) or sites[place] == sites[other]:
                continue
            area = np.prod(spacing) / spacing[axis]
            edge = at[tuple(sorted((int(sites[place]) - 1, int(sites[other]) - 1)))]
            sums[edge] += area * max(log_odds[place], log_odds[other])
            areas[edge] += area
    return sums / areas, areas


@pytest.mark.parametrize(("shape", "spacing"), [((9, 11), None), ((9, 11), (2.0, 1.0)), ((4, 6, 7), (5.0, 1.0, 1.0))])
def test_couplings_are_minus_the_mean_log_odds_along_the_edge(shape, spacing):
    sites = random_sites(shape)
    picture = NormalizedImage(np.zeros((*shape, 1), np.float32), False, spacing)
    graph = build_region_graph(picture, sites)
    log_odds = rng.normal(-1.5, 1, size=shape).astype(np.float32)
    slow, areas = slow_means(log_odds, sites, graph.edges, spacing or (1.0,) * len(shape))
    assert np.allclose(graph.length, areas)
    settings = Settings(boundaries_weight=2.0, boundaries_level=0.25)
    beta = compute_map_couplings(
        sum_over_faces(log_odds, sites, graph.edges, use_maximum=True, spacing=spacing), graph, settings
    )
    assert np.allclose(beta, -2.0 * (slow - np.log(1 / 3)), atol=1e-6)
    assert (beta < 0).any()
    assert (beta > 0).any()


def test_neighbours_of_neighbours_take_the_weakest_boundary_on_the_way():
    sites = np.repeat(np.array([[1, 2, 3]]), 2, axis=1).astype(np.int32)
    graph = build_region_graph(NormalizedImage(np.zeros((*sites.shape, 1), np.float32), False), sites, 2)
    log_odds = np.array([[0, 1, 1, 0, 3, 3]], np.float32)
    beta = compute_map_couplings(
        sum_over_faces(log_odds, sites, graph.edges[:2], use_maximum=True),
        graph,
        Settings(boundaries_weight=1.0, second_weight=0.5),
    )
    assert graph.edges.tolist() == [[0, 1], [1, 2], [0, 2]]
    assert beta.tolist() == [-1.0, -3.0, -1.5]


def test_a_spacing_that_is_equal_changes_no_length_and_no_contrast():
    sites = random_sites((5, 6, 7))
    picture = NormalizedImage(rng.random((5, 6, 7, 2)).astype(np.float32), False)
    plain, spaced = (build_region_graph(p, sites) for p in (picture, replace(picture, spacing=(1.0, 1.0, 1.0))))
    assert np.array_equal(plain.length, spaced.length)
    assert np.array_equal(plain.contrast, spaced.contrast)
