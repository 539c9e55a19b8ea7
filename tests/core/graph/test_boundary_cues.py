"""Cues of edges: against slow, obvious code, and in the columns where the shipped forests expect them."""

from __future__ import annotations

import numpy as np
import pytest

from napari_gsw.core.graph.boundary_cues import (
    chi_squared_distance,
    compare_rows,
    compute_context_cues,
    compute_embedding,
    compute_local_cues,
    sum_site_values,
)
from napari_gsw.core.special import logit
from pictures import across_stripes, described, stripes

RNG = np.random.default_rng(3)


def test_first_cues_against_a_loop():
    words, graph, _ = described(stripes(30.0))
    sums = sum_site_values(words, graph)
    cues = compute_local_cues(words, graph, sums)
    colour = words.photo_colour.toarray()
    near = [{k} for k in range(graph.n)]
    for i, j in graph.edges:
        near[i].add(j)
        near[j].add(i)
    for e in RNG.choice(len(graph.edges), 20, replace=False):
        i, j = graph.edges[e]
        assert cues[e, 0] == graph.contrast[e]
        p, q = (colour[[k]] / colour[k].sum() for k in (i, j))
        assert cues[e, 3] == pytest.approx(chi_squared_distance(p, q)[0])
        a, b = (colour[sorted(near[x] - near[y])].sum(axis=0) for x, y in ((i, j), (j, i)))
        if a.sum() and b.sum():
            assert cues[e, 6] == pytest.approx(chi_squared_distance(a[None] / a.sum(), b[None] / b.sum())[0])


def test_cues_are_where_the_shipped_forests_look_for_them():
    """A forest knows a cue by its column: the usual values of four of them follow the length of the boundary."""
    words, graph, _ = described(stripes(30.0))
    sums = sum_site_values(words, graph)
    first = compute_local_cues(words, graph, sums)
    second = compute_context_cues(graph, first, np.full(len(graph.edges), logit(0.3)), sums)
    assert (first.shape[1], second.shape[1]) == (34, 55)
    for column, usual in zip((0, 3, 4, 17), (23, 25, 27, 29), strict=True):
        assert first[:, usual] == pytest.approx(first[:, column].mean())
    assert np.array_equal(second[:, :34], first)


def test_cues_of_a_network_are_where_its_forests_look_for_them():
    """Of the shipped network: its places among the differences, what it draws at the end of the first cues."""
    pytest.importorskip("onnxruntime")
    words, graph, sites = described(stripes(30.0))
    sums, drawn = sum_site_values(words, graph, network=True), words.boundary_sums(graph.edges) / graph.length
    first = compute_local_cues(words, graph, sums, network=True)
    second = compute_context_cues(graph, first, np.full(len(graph.edges), logit(0.3)), sums)
    assert (first.shape[1], second.shape[1]) == (43, 65)
    assert np.array_equal(first[:, -3], drawn)
    assert first[:, -1] == pytest.approx(drawn.mean())
    i, j = graph.edges.T
    assert first[:, 6] == pytest.approx(np.linalg.norm(words.embedding[i] - words.embedding[j], axis=1))
    without = compute_local_cues(words, graph, sum_site_values(words, graph))
    assert np.array_equal(first[:, [0, 1, 2, 3, 4, 5, 7]], without[:, [0, 1, 2, 3, 4, 5, 6]])
    across = across_stripes(graph, sites)
    assert np.median(drawn[across]) > 0.5 > 0.2 > np.median(drawn[~across])


def test_second_cues_tell_which_regions_an_edge_parts():
    words, graph, sites = described(stripes())
    sums = sum_site_values(words, graph)
    first = compute_local_cues(words, graph, sums)
    across = across_stripes(graph, sites)
    second = compute_context_cues(graph, first, logit(np.where(across, 0.9, 0.1)), sums)
    smaller = np.exp(second[:, -6])  # share of the smaller of the two regions
    assert smaller[across].min() > 0.2
    assert np.exp(second[:, -1])[across].max() < 3.5  # regions left when the stripes merge


def test_differences_of_groups_of_sites():
    n, parts_ = 8, [5, 9, 12]
    sums = np.concatenate((RNG.integers(0, 4, (n, 9)), RNG.random((n, 3)), RNG.integers(5, 9, (n, 1))), axis=1)
    sums[0, :9] = 0
    i, j = np.array([0, 0, 2, 5]), np.array([1, 3, 7, 6])

    def expected(a, b):
        a, b = a[:-1] / max(a[-1], 1e-9), b[:-1] / max(b[-1], 1e-9)
        kinds = [chi_squared_distance(a[None, s], b[None, s])[0] for s in (slice(5), slice(5, 9))]
        return [*kinds, np.linalg.norm(a[9:] - b[9:])]

    assert compare_rows(sums[i], sums[j], parts_) == pytest.approx(
        np.array([expected(sums[a], sums[b]) for a, b in zip(i, j, strict=True)])
    )


def test_the_slowest_mode_parts_two_groups():
    left = [(i, j) for i in range(10) for j in range(i)]
    edges = np.array(left + [(i + 10, j + 10) for i, j in left] + [(0, 10)], np.int32)
    affinity = np.r_[np.ones(len(edges) - 1), 0.05]
    place, slowness = compute_embedding(20, edges, affinity, 4)
    first = np.sign(place[:, 0])
    assert (first[:10] == first[0]).all()
    assert (first[10:] == -first[0]).all()
    assert (np.diff(slowness) >= 0).all()
    assert slowness[0] < 0.05
    again, _ = compute_embedding(20, edges, affinity, 4)
    assert np.array_equal(place, again)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_tiny_graphs_have_no_modes(n):
    edges = np.array([(i, i + 1) for i in range(n - 1)], np.int32).reshape(-1, 2)
    place, slowness = compute_embedding(n, edges, np.ones(len(edges)), 4)
    assert place.shape == (n, 4)
    assert np.isfinite(place).all()
    assert (slowness == 1).all()
