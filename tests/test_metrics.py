"""Metrics against the definitions, pair by pair."""

from __future__ import annotations

import numpy as np
import pytest

from napari_gsw.core import metrics
from napari_gsw.core.errors import InputError

RNG = np.random.default_rng(0)
A = RNG.integers(0, 4, (6, 7))
B = RNG.integers(3, 9, (6, 7))


def pairs(labels):
    x = labels.ravel()
    return (x[:, None] == x)[np.triu_indices(x.size, 1)]


def test_rand_counts_pairs():
    a, b = pairs(A), pairs(B)
    assert metrics.rand_index(A, B) == pytest.approx((a == b).mean())
    assert metrics.probabilistic_rand(A, [B, A]) == pytest.approx(((a == b).mean() + 1) / 2)


def test_adjusted_rand_by_permutation():
    """Its expectation over random relabellings with the same sizes is 0."""
    found = [metrics.adjusted_rand(A, RNG.permutation(B.ravel()).reshape(B.shape)) for _ in range(400)]
    assert np.mean(found) == pytest.approx(0, abs=4 * np.std(found) / 20)
    assert metrics.adjusted_rand(A, A + 5) == 1.0
    a, b = pairs(A).astype(float), pairs(B).astype(float)
    expected = a.sum() * b.sum() / a.size
    exact = ((a * b).sum() - expected) / ((a.sum() + b.sum()) / 2 - expected)
    assert metrics.adjusted_rand(A, B) == pytest.approx(exact)


def test_variation_of_information_in_bits():
    def entropy(*labels):
        counts = np.unique(np.stack([x.ravel() for x in labels]), axis=1, return_counts=True)[1]
        p = counts / counts.sum()
        return -(p * np.log2(p)).sum()

    assert metrics.variation_of_information(A, B) == pytest.approx(2 * entropy(A, B) - entropy(A) - entropy(B))
    assert metrics.variation_of_information(A, A) == 0
    assert metrics.variation_of_information(np.zeros(8), np.arange(8)) == pytest.approx(3.0)


def test_covering_is_by_the_humans_regions():
    total = 0.0
    for region in np.unique(B):
        here = region == B
        total += here.sum() * max((here & (s == A)).sum() / (here | (s == A)).sum() for s in np.unique(A))
    assert metrics.covering(A, B) == pytest.approx(total / A.size)
    assert metrics.covering(B, B) == pytest.approx(1.0)


def test_unlabelled_pixels_are_left_out():
    where = RNG.random(A.shape) < 0.6
    for score in (metrics.rand_index, metrics.adjusted_rand, metrics.variation_of_information, metrics.covering):
        assert score(A, B, where) == pytest.approx(score(A[where], B[where]))


def test_boundary_f():
    one, two = np.zeros((60, 80), int), np.zeros((60, 80), int)
    one[:, 40:] = 1
    two[:, 44:] = 1
    assert metrics.boundary_f(one, one) == 1.0
    assert metrics.boundary_f(one, two, tolerance=2) == 0.0
    assert metrics.boundary_f(one, two, tolerance=4) == 1.0
    assert metrics.boundary_f(one, [two, one], tolerance=2) == pytest.approx(2 / 3)  # precision 1, recall 1/2
    both = one + 2 * (np.arange(60) >= 30)[:, None]
    precision = metrics.boundary_f(both, one, tolerance=0)
    assert 0 < precision < 1
    assert metrics.boundary_f(np.zeros((5, 5)), np.zeros((5, 5))) == 1.0


def test_shapes_must_agree():
    with pytest.raises(InputError, match="same shape"):
        metrics.rand_index(A, A.T)
    with pytest.raises(InputError, match="no pixel"):
        metrics.covering(A, B, np.zeros(A.shape, bool))
    with pytest.raises(InputError, match="at least one human"):
        metrics.probabilistic_rand(A, [])
    assert metrics.rand_index([1], [2]) == 1.0


def test_millions_of_pixels_do_not_overflow():
    a = np.repeat(np.arange(2), 200_000)
    assert metrics.rand_index(a, a) == 1.0
    assert metrics.rand_index(a, a * 0) == pytest.approx(0.5, abs=1e-5)
