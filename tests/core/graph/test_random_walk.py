"""Walks over the graph: features smoothed by them, and the scribble met first, against dense solutions."""

from __future__ import annotations

import numpy as np
import pytest

import napari_gsw as gsw
from napari_gsw.core.graph import random_walk
from napari_gsw.core.graph.random_walk import (
    COUNTS,
    LOSS_RATE,
    AbsorbingWalk,
    group_strongest_pairs,
    make_transition_matrix,
    smooth_counts,
)
from problems import planar

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


def dense(n, edges, weight, names, count):
    """The same by the textbook: every row of the transition matrix written out."""
    matrix = np.zeros((n, n))
    for (i, j), w in zip(edges, weight, strict=True):
        matrix[i, j] += w
        matrix[j, i] += w
    step = matrix / ((1 + LOSS_RATE) * matrix.sum(axis=1, keepdims=True))
    answer = np.zeros((n, count))
    painted = np.flatnonzero(names >= 0)
    answer[painted, names[painted]] = 1
    free = np.flatnonzero(names < 0)
    inner = np.eye(len(free)) - step[np.ix_(free, free)]
    answer[free] = np.linalg.solve(inner, step[np.ix_(free, painted)] @ answer[painted])
    return answer


@pytest.mark.parametrize("seed", range(3))
def test_the_walk_is_the_one_of_the_textbook(seed):
    rng = np.random.default_rng(seed)
    problem = planar(60, seed=seed)
    beta = rng.normal(0.5, 1.0, len(problem.edges))
    names = np.full(60, -1)
    names[rng.choice(60, 7, replace=False)] = [0, 0, 1, 1, 2, 2, 2]
    walk = AbsorbingWalk(60, problem.edges, 2 * beta)
    expected = dense(60, problem.edges, np.exp(2 * beta), names, 3)
    assert np.allclose(walk.absorption_probability(names, 3), expected, atol=1e-9)


def test_a_simulated_walk_meets_them_as_often():
    rng = np.random.default_rng(0)
    edges, beta = np.array([(0, 1), (1, 2), (2, 3), (1, 4), (4, 3)]), np.array([0.2, -0.3, 0.5, 0.1, -0.6])
    names = np.array([0, -1, -1, 1, -1])
    matrix = np.zeros((5, 5))
    for (i, j), b in zip(edges, beta, strict=True):
        matrix[i, j] = matrix[j, i] = np.exp(2 * b)
    step = matrix / matrix.sum(axis=1, keepdims=True)
    met = []
    for _ in range(4000):
        at = 1
        while names[at] < 0:
            at = rng.choice(5, p=step[at])
        met.append(names[at])
    q = AbsorbingWalk(5, edges, 2 * beta).absorption_probability(names, 2)[1]
    assert np.mean(met) == pytest.approx(q[1], abs=0.03)


def test_a_site_that_nothing_leads_to_meets_nobody():
    walk = AbsorbingWalk(4, np.array([(0, 1)]), np.array([1.0]))
    q = walk.absorption_probability(np.array([0, -1, -1, -1]), 1)
    assert q[1, 0] > 0.99
    assert (q[2:] == 0).all()
    assert (
        AbsorbingWalk(3, np.zeros((0, 2), np.int32), np.zeros(0)).absorption_probability(np.array([-1, 0, -1]), 1)[:, 0]
        == [0, 1, 0]
    ).all()


def test_grouped_sites_meet_nearly_the_same_strokes(monkeypatch):
    """On a coarsened graph, no site changes its label."""
    problem = planar(400, clusters=4)
    rng = np.random.default_rng(3)
    beta = rng.normal(1.0, 1.5, len(problem.edges))
    names = np.full(400, -1)
    names[rng.choice(400, 12, replace=False)] = np.repeat(np.arange(4), 3)
    fine = AbsorbingWalk(400, problem.edges, 2 * beta).absorption_probability(names, 4)
    monkeypatch.setattr(random_walk, "MAX_NODES", 150)
    coarse = AbsorbingWalk(400, problem.edges, 2 * beta)
    assert coarse.group.max() + 1 <= 250
    found = coarse.absorption_probability(names, 4)
    assert np.abs(found - fine).mean() < 0.05
    assert (found.argmax(axis=1) == fine.argmax(axis=1)).mean() > 0.9


def test_groups_are_of_strongest_neighbours():
    edges, weight = np.array([(0, 1), (1, 2), (2, 3)]), np.array([5.0, 1.0, 4.0])
    assert group_strongest_pairs(4, edges, weight, 2).tolist() == [0, 0, 1, 1]
    assert group_strongest_pairs(4, edges, weight, 4).tolist() == [0, 1, 2, 3]


def test_a_walk_visits_a_site_as_often_as_it_would_meet_a_stroke_there():
    rng = np.random.default_rng(0)
    problem = planar(60, seed=0)
    walk = AbsorbingWalk(60, problem.edges, rng.normal(0.5, 1.0, len(problem.edges)))
    names = np.full(60, -1)
    names[[3, 20, 41]] = 0, 0, 1
    sites = np.array([5, 33])
    hitting_probability = walk.hitting_probability(names >= 0, sites)
    for row, site in zip(hitting_probability, sites, strict=True):
        more = names.copy()
        more[site] = 2
        assert np.allclose(row, walk.absorption_probability(more, 3)[:, 2], atol=1e-9)
