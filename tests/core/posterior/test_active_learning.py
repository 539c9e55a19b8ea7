"""Active learning: what a label says about others, and which site is asked about."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

import napari_gsw as gsw
from napari_gsw.core.model.external_field import ExternalField
from napari_gsw.core.model.priors import DirichletProcess
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.posterior.active_learning import (
    encode_labels,
    estimate_label_probabilities,
    label_draws,
    measure_label_information,
    next_query,
)
from napari_gsw.core.settings import Settings


def line_problem(n, beta=1.0):
    edges = np.stack((np.arange(n - 1), np.arange(1, n)), axis=1)
    return Problem(n, (), edges, np.broadcast_to(beta, n - 1), DirichletProcess(1.0))


def summary_of(problem, draws, seeds, field=None, closed=True):
    """A known posterior, from draws of our own."""
    prior = problem.prior.exactly(len(np.unique(seeds[seeds >= 0]))) if closed else None
    problem = problem.with_field(field, prior)
    clusters = np.asarray(draws[0], np.int64) + 1
    return SimpleNamespace(
        problem=problem, draws=np.asarray(draws, np.int32), seeds=seeds, settings=Settings(), clusters=clusters
    )


def test_the_information_in_draws_is_that_of_the_posterior():
    """A chain of five sites with three labels and couplings between neighbours, every state enumerated."""
    beta = np.array([1.5, 0.2, 1.0, 2.0])
    states = np.array(list(itertools.product(range(3), repeat=5)))
    pull = np.random.default_rng(0).normal(size=(5, 3))
    energy = ((states[:, 1:] == states[:, :-1]) * beta).sum(axis=1) + pull[np.arange(5), states].sum(axis=1)
    p = np.exp(energy) / np.exp(energy).sum()
    weight = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    exact = np.zeros(5)
    for i, j in itertools.permutations(range(5), 2):
        both = np.zeros((3, 3))
        np.add.at(both, (states[:, i], states[:, j]), p)
        exact[i] += weight[j] * (both * np.log(both / np.outer(both.sum(axis=1), both.sum(axis=0)))).sum()
    times = np.rint(p * 100_000).astype(int)
    estimate = measure_label_information(np.repeat(states, times, axis=0), np.arange(5), weight)
    assert estimate == pytest.approx(exact, rel=0.01)


def test_labels_that_are_drawn_apart_say_next_to_nothing():
    names = np.random.default_rng(0).integers(0, 3, (100, 400))
    coupled = np.concatenate((names, names[:, :10]), axis=1)
    weight = np.ones(410)
    alone, together = measure_label_information(coupled, np.array([50, 0]), weight)
    assert alone < 3
    assert together - np.log(3) == pytest.approx(alone, abs=2)


def test_codes_follow_how_often_a_site_has_a_label():
    names = np.array([[0, 5], [0, 1], [2, 1], [0, 1], [3, 4], [2, 3], [1, 2]])
    codes = encode_labels(names)
    assert codes[:, 0].tolist() == [0, 0, 1, 0, 3, 1, 2]
    assert (codes[[1, 2, 3], 1] == 0).all()
    assert codes.max() == 3


def test_a_group_that_hangs_together_is_asked_about_before_a_site_of_its_own():
    """Sites 2 to 6 flip together, site 9 alone as often."""
    problem = line_problem(12, np.where(np.isin(np.arange(11), [1, 6, 8, 9]), -6.0, 6.0))
    rng = np.random.default_rng(0)
    draws = np.zeros((200, 12), int)
    draws[:, 7:] = 1
    draws[:, 2:7] = rng.integers(0, 2, (200, 1))
    draws[:, 9] = rng.integers(0, 2, 200)
    seeds = np.full(12, -1, np.int32)
    seeds[[0, 11]] = 4, 7
    question = next_query(summary_of(problem, draws, seeds))
    assert 2 <= question.site <= 6
    assert question.propagation[2:7].min() > 0.8
    assert question.propagation[9] < 0.2
    assert question.propagation[[0, 11]].max() == 0
    assert question.gain > 5
    assert sorted(question.numbers.tolist()) == [4, 7]
    assert question.probabilities == pytest.approx([0.5, 0.5], abs=0.1)
    assert (np.diff(question.probabilities) <= 0).all()
    asked = np.zeros(12, bool)
    asked[2:7] = True
    assert next_query(summary_of(problem, draws, seeds), asked).site == 9
    asked[9] = True
    assert next_query(summary_of(problem, draws, seeds), asked) is None


def test_a_field_that_is_not_sure_is_asked_about_although_all_draws_agree():
    problem = line_problem(8, 0.5)
    draws = np.repeat([[0, 0, 0, 0, 0, 0, 1, 1]], 50, axis=0)
    seeds = np.full(8, -1, np.int32)
    seeds[[0, 7]] = 1, 2
    sure = np.log(np.array([[10.0, 1e-6]] * 6 + [[1e-6, 10.0]] * 2))
    sure[[0, 7]] = 0.0
    unsure = sure.copy()
    unsure[3] = np.log([1e-6, 1e-6])  # unlike everything that was painted
    anchor = np.array([0, 7], np.int32)
    summary = summary_of(problem, draws, seeds, ExternalField(unsure, anchor))
    assert next_query(summary).site == 3
    likely = estimate_label_probabilities(summary, label_draws(summary, draws)[1], 2)
    assert likely[3] == pytest.approx([0.75, 0.25], abs=0.01)
    assert likely[1, 0] > 0.99
    assert likely[[0, 7]] == pytest.approx(np.eye(2))
    assert next_query(summary_of(problem, draws, seeds)) is None  # without a field nothing is in doubt


def test_where_labels_are_open_candidates_are_those_of_a_partition():
    problem = line_problem(6)
    draws = np.array([[0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 1]] * 20)
    nobody = np.full(6, -1, np.int32)
    numbers = np.array([5, 5, 5, 9, 9, 9])
    question = next_query(summary_of(problem, draws, nobody, closed=False), labels=numbers)
    assert question.site == 2
    assert sorted(question.numbers.tolist()) == [5, 9]
    assert set(next_query(summary_of(problem, draws, nobody, closed=False)).numbers) == {1, 2}


def test_there_is_no_question_before_there_are_draws():
    problem = line_problem(4)
    seeds = np.array([1, -1, -1, 2], np.int32)
    summary = summary_of(problem, [[0, 0, 1, 1]], seeds)
    summary.draws = summary.draws[:0]
    assert next_query(summary) is None


def test_what_is_like_neither_stroke_is_asked_about():
    """Two painted halves and a block between them that resembles neither."""
    rng = np.random.default_rng(0)
    image = np.full((60, 90), 0.1)
    image[:, 45:] = 0.9
    image[20:40, 35:55] = 0.5
    strokes = np.zeros(image.shape, np.int32)
    strokes[5, 5:15], strokes[5, 75:85] = 1, 2
    result = gsw.segment(
        image + rng.normal(0, 0.01, image.shape), seeds=strokes, site_size=25, texture_words=0, sweeps=80
    )
    question = next_query(result.summary)
    sites = result.problem.site_image
    rows, columns = np.nonzero(sites == question.site + 1)
    assert 18 <= rows.mean() <= 42
    assert 33 <= columns.mean() <= 57
    inside = np.unique(sites[23:37, 38:52]) - 1
    assert question.propagation[inside].min() > 0.5
    assert question.propagation[np.unique(sites[:, :20]) - 1].max() < 0.5
