"""Smoothing over the graph, and its slow modes."""

from __future__ import annotations

import numpy as np
import pytest

import napari_gsw as gsw
from napari_gsw.core.graph.boundary_cues import compute_embedding
from napari_gsw.core.graph.random_walk import COUNTS, make_transition_matrix, smooth_counts

RNG = np.random.default_rng(5)


def halves():
    image = np.zeros((40, 60), np.uint8)
    image[:, 30:] = 200
    return np.clip(image + RNG.normal(20, 8, image.shape), 0, 255).astype(np.uint8)


def test_a_walk_keeps_to_one_side_of_an_edge():
    problem = gsw.prepare(halves(), preset="paper", site_count=None, site_size=40)
    steps = make_transition_matrix(problem.graph, 12.0)
    assert steps.sum(axis=1) == pytest.approx(np.ones(problem.n))
    bright = problem.graph.means[:, 0] > 50
    after = np.linalg.matrix_power(steps.toarray(), 20)
    assert after[bright][:, ~bright].sum(axis=1).max() < 0.01
    assert (after[bright][:, bright] > 0).mean() > 0.9


def test_smoothed_counts_are_those_of_the_matrix_power():
    problem = gsw.prepare(halves(), preset="paper", site_count=None, site_size=40)
    steps, counts = make_transition_matrix(problem.graph, 12.0), problem.likelihoods[0].counts
    shares = counts.toarray() / counts.sum(axis=1)[:, None]
    expected = np.linalg.matrix_power(steps.toarray(), 5) @ shares
    found = smooth_counts(counts, steps, 5)
    assert np.abs(found.toarray() - COUNTS * expected).max() <= 0.5 + 1e-9
    assert abs(found.sum(axis=1) - COUNTS).max() < 12  # rounding


def test_passes_are_a_setting():
    image = halves()
    raw, smooth = (gsw.prepare(image, preset="paper", site_size=40, graph_passes=p).likelihoods[0] for p in (0, 5))
    assert raw.counts.sum() == image.size
    spread = [(b.counts.toarray() / b.counts.sum(axis=1)[:, None]).std(axis=0).sum() for b in (raw, smooth)]
    assert spread[1] < 0.9 * spread[0]  # sites of one kind look more alike now


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


def test_a_place_in_the_image_is_worth_some_draws():
    flat = np.full((40, 60), 7, np.uint8)
    problem = gsw.prepare(flat, preset="paper", position=5.0)
    assert len(problem.likelihoods) == 2
    halves_ = (problem.graph.pixels.cumsum() > problem.graph.pixels.sum() / 2).astype(int)
    mixed = RNG.permutation(halves_)
    assert gsw.log_posterior(problem, halves_) > gsw.log_posterior(problem, mixed)
    gaussian = gsw.prepare(flat, preset="paper", likelihood="gaussian", position=1.0)
    assert gaussian.likelihoods[0].sums.shape[1] == 3
