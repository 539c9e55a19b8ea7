"""The consensus against enumeration, and its losses against the metrics."""

from __future__ import annotations

import math

import numpy as np
import pytest

from exact_posterior import partitions
from napari_gsw.core.errors import InputError
from napari_gsw.core.posterior import consensus as module
from napari_gsw.core.posterior.consensus import (
    compute_expected_loss,
    find_consensus,
    find_credible_ball,
    partition_distance,
)
from napari_gsw.scores.partitions import rand_index, variation_of_information

LOSSES = ("vi", "binder")


def slow_distance(a, b, loss, weight):
    """Entropies and pairs of weighted points, spelled out."""
    w = np.asarray(weight, float)
    if loss == "vi":

        def entropy(*labels):
            share = {}
            for key, x in zip(zip(*labels, strict=True), w, strict=True):
                share[key] = share.get(key, 0) + x / w.sum()
            return -sum(p * math.log2(p) for p in share.values())

        return 2 * entropy(a, b) - entropy(a) - entropy(b)
    differ = (np.equal.outer(a, a) != np.equal.outer(b, b)) * np.outer(w, w)
    return differ.sum() / (w.sum() * (w.sum() - 1))


def blobs(rng, sites, draws, clusters, noise=0.1):
    """Draws around one partition: sites on a line, borders that wander, some sites anywhere."""
    rows = []
    for _ in range(draws):
        cuts = np.linspace(0, sites, clusters + 1)[1:-1] + rng.normal(0, sites / clusters / 6, clusters - 1)
        z = np.searchsorted(np.sort(cuts), np.arange(sites))
        stray = rng.random(sites) < noise
        z[stray] = rng.integers(0, clusters, stray.sum())
        rows.append(rng.permutation(clusters)[z])
    return np.array(rows, np.int32)


@pytest.mark.parametrize("loss", LOSSES)
def test_distances_are_those_of_the_metrics(loss):
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 5, 40), rng.integers(3, 9, 40)
    exact = variation_of_information(a, b) if loss == "vi" else 1 - rand_index(a, b)
    assert partition_distance(a, b, loss) == pytest.approx(exact)
    assert partition_distance(b, a, loss) == pytest.approx(exact)
    assert partition_distance(a, a + 7, loss) == 0
    weight = rng.random(40) * 9 + 0.1
    assert partition_distance(a, b, loss, weight) == pytest.approx(slow_distance(a, b, loss, weight))
    draws = rng.integers(0, 4, (7, 40))
    mean = np.mean([slow_distance(a, row, loss, weight) for row in draws])
    assert compute_expected_loss(a, draws, loss, weight) == pytest.approx(mean)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", [*range(10), *(pytest.param(s, marks=pytest.mark.slow) for s in range(10, 30))])
def test_enumeration_finds_nothing_better(loss, seed):
    """Draws without any structure are the hardest."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 7))
    draws = rng.integers(0, rng.integers(1, n + 1), (int(rng.integers(1, 9)), n))
    weight = rng.integers(1, 5, n) if seed % 2 else None
    exact = min(compute_expected_loss(z, draws, loss, weight) for z in partitions(n))
    found = find_consensus(draws, loss, weight)
    assert found.expected == pytest.approx(compute_expected_loss(found.labels, draws, loss, weight))
    assert found.expected == pytest.approx(exact)


@pytest.mark.parametrize("loss", LOSSES)
def test_nothing_single_improves_it(loss):
    """Every move of one site and every merge of two clusters, tried one by one."""
    rng = np.random.default_rng(2)
    draws, weight = blobs(rng, 40, 20, 4, 0.2), rng.integers(1, 9, 40)
    found = find_consensus(draws, loss, weight)
    z, k = found.labels, found.labels.max() + 1
    others = [np.where(np.arange(40) == i, j, z) for i in range(40) for j in range(k + 1)]
    others += [np.where(z == a, b, z) for a in range(k) for b in range(a)]
    assert found.expected <= min(compute_expected_loss(other, draws, loss, weight) for other in others) + 1e-9
    assert found.expected <= min(compute_expected_loss(row, draws, loss, weight) for row in draws)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_site_of_weight_w_is_w_sites(loss):
    rng = np.random.default_rng(3)
    draws, weight = blobs(rng, 30, 15, 4), rng.integers(1, 5, 30)
    copies = np.repeat(draws, weight, axis=1)
    found = find_consensus(draws, loss, weight)
    assert compute_expected_loss(np.repeat(found.labels, weight), copies, loss) == pytest.approx(found.expected)
    assert find_consensus(copies, loss).expected == pytest.approx(
        found.expected, rel=0.02
    )  # copies must move one by one
    ball, same = (
        find_credible_ball(draws, draws[0], 0.9, loss, weight),
        find_credible_ball(copies, copies[0], 0.9, loss),
    )
    assert ball.distances == pytest.approx(same.distances)


@pytest.mark.parametrize("loss", LOSSES)
def test_one_draw_is_its_own_consensus(loss):
    z = np.array([[4, 4, 9, 0, 9, 4]])
    found = find_consensus(z, loss, weight=[0.1, 0.7, 3, 0.3, 2, 5])
    assert found.labels.tolist() == [0, 0, 1, 2, 1, 0]
    assert found.labels.dtype == np.int32
    assert (found.loss, found.expected) == (loss, 0.0)
    assert find_consensus([[3]], loss).expected == 0


@pytest.mark.parametrize("loss", LOSSES)
def test_labels_mean_nothing(loss):
    rng = np.random.default_rng(4)
    draws = blobs(rng, 50, 20, 5)
    other = np.array([rng.permutation(5)[row] for row in draws]) * 1_000_003 - 2_000_000
    one, two = find_consensus(draws, loss), find_consensus(other, loss)
    assert np.array_equal(one.labels, two.labels)
    assert one.expected == two.expected
    assert compute_expected_loss(one.labels * 7 - 3, other, loss) == one.expected
    assert np.array_equal(find_credible_ball(draws, draws[3]).distances, find_credible_ball(other, other[3]).distances)


def test_many_draws_are_thinned_but_judged_together():
    rng = np.random.default_rng(5)
    draws = blobs(rng, 80, 260, 5)
    found = find_consensus(draws)
    assert found.expected == pytest.approx(compute_expected_loss(found.labels, draws))
    assert found.expected < min(compute_expected_loss(row, draws) for row in draws)
    truth = np.searchsorted(np.linspace(0, 80, 6)[1:-1], np.arange(80))
    assert found.expected <= compute_expected_loss(truth, draws) * 1.01


def test_without_room_for_a_search_the_best_draw_is_taken(monkeypatch):
    monkeypatch.setattr(module, "MAX_TABLE_ENTRIES", 1)
    draws = blobs(np.random.default_rng(7), 40, 20, 4)
    best = min(range(20), key=lambda t: compute_expected_loss(draws[t], draws))
    assert find_consensus(draws).expected == compute_expected_loss(draws[best], draws)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("level", [0.01, 0.5, 0.95, 1.0])
def test_the_ball_is_the_smallest_that_holds_its_share(loss, level):
    rng = np.random.default_rng(8)
    draws = rng.integers(0, rng.integers(1, 5, (60, 1)), (60, 12))
    centre = find_consensus(draws, loss).labels
    ball = find_credible_ball(draws, centre, level, loss)
    assert ball.distances == pytest.approx([partition_distance(centre, row, loss) for row in draws])
    assert np.array_equal(ball.inside, ball.distances <= ball.radius)
    assert ball.inside.mean() >= level
    assert (ball.distances < ball.radius).mean() < level
    clusters = np.array([len(np.unique(row)) for row in draws])
    inside = np.flatnonzero(ball.inside)
    assert ball.farthest == max(inside, key=lambda t: (ball.distances[t], -t))
    assert ball.coarsest == max(inside, key=lambda t: (-clusters[t], ball.distances[t], -t))
    assert ball.finest == max(inside, key=lambda t: (clusters[t], ball.distances[t], -t))


def test_a_level_that_is_no_binary_number():
    """0.07 of 100 draws are 7, although the computer's product is a little more."""
    assert 0.07 * 100 > 7
    draws = np.array([[0] * (200 - i) + [1] * i for i in range(100)])
    assert find_credible_ball(draws, draws[0], 0.07).inside.sum() == 7


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (dict(draws=[0, 1]), "shape"),
        (dict(draws=[[0.5, 1.0]]), "whole numbers"),
        (dict(draws=np.zeros((0, 3), int)), "burn-in"),
        (dict(loss="rand"), "one of vi, binder"),
    ],
)
def test_input_errors(arguments, says):
    with pytest.raises(InputError, match=says):
        find_consensus(**{"draws": [[0, 0, 1], [0, 1, 1]], **arguments})


def test_more_input_errors():
    with pytest.raises(InputError, match="3 labels"):
        compute_expected_loss([0, 1], [[0, 0, 1]])
    with pytest.raises(InputError, match="whole numbers"):
        partition_distance([0.0, 1.5], [0, 1])
    with pytest.raises(InputError, match="level"):
        find_credible_ball([[0, 0, 1]], [0, 0, 1], level=95)
