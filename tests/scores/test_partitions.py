"""Metrics against the definitions, pair by pair."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from napari_gsw.core.errors import InputError
from napari_gsw.scores import partitions as metrics

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
    one[:, 40:] = two[:, 44:] = 1
    assert metrics.boundary_f(one, one) == metrics.boundary_f(one * 0, one * 0) == 1.0
    assert [metrics.boundary_f(one, two, tolerance) for tolerance in (2, 4)] == [0.0, 1.0]
    assert metrics.boundary_f(one, [two, one], tolerance=2) == pytest.approx(2 / 3)  # precision 1, recall 1/2


def test_shapes_must_agree():
    with pytest.raises(InputError, match="same shape"):
        metrics.rand_index(A, A.T)
    with pytest.raises(InputError, match="no pixel"):
        metrics.covering(A, B, np.zeros(A.shape, bool))
    with pytest.raises(InputError, match="at least one"):
        metrics.probabilistic_rand(A, [])
    assert metrics.rand_index([1], [2]) == 1.0


def test_millions_of_pixels_do_not_overflow():
    a = np.repeat(np.arange(2), 200_000)
    assert metrics.rand_index(a, a) == 1.0
    assert metrics.rand_index(a, a * 0) == pytest.approx(0.5, abs=1e-5)


@pytest.mark.parametrize(
    "labels",
    [
        np.array([5, -128, 5, 127], np.int8),
        np.array([2**64 - 1, 3, 3], np.uint64),
        np.array([2**64 - 1, 2**64 - 2, 2**64 - 1], np.uint64),
        np.array([0, 10**9, 7], np.int64),
        np.array([True, False, True]),
        np.array([0.5, -1.0, 0.5]),
    ],
)
def test_any_numbers_are_labels(labels):
    """Those that are looked up and those that are sorted count the same."""
    other = np.arange(len(labels)) % 2
    slow = [[((labels == x) & (other == y)).sum() for y in np.unique(other)] for x in np.unique(labels)]
    assert metrics.contingency_table(labels, other).toarray().tolist() == slow


def test_a_large_table_counts_as_a_small_one():
    a, b = RNG.integers(0, 400, (2, 5000))
    slow = np.zeros((400, 400), int)
    np.add.at(slow, (a, b), 1)
    used = np.ix_(np.unique(a), np.unique(b))
    assert slow[used].size > metrics.MAX_CELLS
    assert np.array_equal(metrics.contingency_table(a, b).toarray(), slow[used])


def stack(ndim, seed):
    return np.random.default_rng(seed).integers(0, 4, (9, 11, 5, 4)[:ndim])


@pytest.mark.parametrize("ndim", [1, 3])
@pytest.mark.parametrize("ignore", [False, True])
def test_scores_are_those_of_the_single_functions(ndim, ignore):
    found, *many = (stack(ndim, seed) for seed in range(4))
    rows = metrics.compute_scores(found, many, tolerance=0.5, ignore_background=ignore)
    assert len(rows) == 4
    for row, reference in zip(rows, many, strict=False):
        where = reference != 0 if ignore else np.ones(found.shape, bool)
        a, b = found[where], reference[where]
        assert row == pytest.approx(
            (
                metrics.rand_index(a, b), metrics.adjusted_rand(a, b), metrics.variation_of_information(a, b),
                metrics.covering(a, b), metrics.boundary_f(found, reference, 0.5, where),
                len(np.unique(a)), len(np.unique(b)),
            )
        )  # fmt: skip
    means = metrics.Scores(*np.mean(rows[:-1], axis=0))
    assert rows[-1]._replace(boundary_f=0) == pytest.approx(means._replace(boundary_f=0))
    if not ignore:
        assert rows[-1].rand == pytest.approx(metrics.probabilistic_rand(found, many))
        assert rows[-1].boundary_f == pytest.approx(metrics.boundary_f(found, many, 0.5))


def slow_boundary_f(found, many, reach, masks):
    """Pixel by pixel: an edge counts where both of its ends are compared."""

    def edge(labels, mask):
        return {
            (y, x)
            for y, x in np.ndindex(labels.shape)
            for v, w in ((y + 1, x), (y, x + 1))
            if v < labels.shape[0] and w < labels.shape[1]
            if labels[y, x] != labels[v, w] and mask[y, x] and mask[v, w]
        }

    def near(these, those):
        hits = [any(np.hypot(p[0] - q[0], p[1] - q[1]) <= reach for q in those) for p in these]
        return np.mean(hits) if hits else 1.0

    ours = [edge(found, mask) for mask in masks]
    theirs = [edge(reference, mask) for reference, mask in zip(many, masks, strict=True)]
    precision = near(set.union(*ours), set.union(*theirs))
    recall = np.mean([near(t, o) for t, o in zip(theirs, ours, strict=True)])
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


@pytest.mark.parametrize("reach", [0, 1, 1.5])
@pytest.mark.parametrize("ignore", [False, True])
def test_boundaries_of_several_references(reach, ignore):
    rng = np.random.default_rng(5)
    found, *many = (np.kron(rng.integers(0, 3, (4, 4)), np.ones((3, 3), int)) for _ in range(3))
    masks = [reference != 0 if ignore else np.ones(found.shape, bool) for reference in many]
    rows = metrics.compute_scores(found, many, tolerance=reach, ignore_background=ignore)
    for row, reference, mask in zip(rows, many, masks, strict=False):
        assert row.boundary_f == pytest.approx(slow_boundary_f(found, [reference], reach, [mask]))
    assert rows[-1].boundary_f == pytest.approx(slow_boundary_f(found, many, reach, masks))


def test_the_default_tolerance_is_a_share_of_the_diagonal():
    assert metrics.default_tolerance((300, 400)) == pytest.approx(3.75)
    one, two = np.zeros((300, 400), int), np.zeros((300, 400), int)
    one[:, 200:] = two[:, 203:] = 1
    assert metrics.compute_scores(one, [two])[0].boundary_f == metrics.boundary_f(one, two) == 1.0
    assert metrics.boundary_f(one, two, tolerance=2.9) == 0.0
    for wrong in (-1, np.nan):
        with pytest.raises(InputError, match="0 pixels or more"):
            metrics.compute_scores(one, [two], tolerance=wrong)


def least_disagreement(found, reference, where):
    """In how many pixels they differ at least, of all ways to give each region at most one partner."""
    ours, theirs = np.unique(found[where]), [*np.unique(reference[where]), None, None, None]
    counts = []
    for partners in permutations(theirs, len(ours)):
        partner = dict(zip(ours, partners, strict=True))
        counts.append(sum(partner[found[p]] != reference[p] for p in np.ndindex(found.shape) if where[p]))
    return min(counts)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("ignore", [False, True])
def test_regions_are_paired_as_well_as_can_be(seed, ignore):
    rng = np.random.default_rng(seed)
    found, reference = rng.integers(0, 3, (3, 4)), rng.integers(0, 4, (3, 4))
    where = reference != 0 if ignore else np.ones(found.shape, bool)
    differs = metrics.compute_disagreement(found, [reference], ignore_background=ignore)
    assert differs.dtype == np.float32
    assert set(np.unique(differs)) <= {0, 1}
    assert differs.sum() == least_disagreement(found, reference, where)
    assert not differs[~where].any()
    # What agrees is a pairing: no region has two partners.
    agreed = set(zip(found[(differs == 0) & where], reference[(differs == 0) & where], strict=True))
    assert len(agreed) == len({a for a, _ in agreed}) == len({b for _, b in agreed})


@pytest.mark.parametrize("ndim", [1, 3])
def test_disagreement_is_the_share_of_the_references(ndim):
    found, *many = (stack(ndim, seed) for seed in range(4))
    each = [metrics.compute_disagreement(found, [reference]) for reference in many]
    assert metrics.compute_disagreement(found, many) == pytest.approx(np.mean(each, axis=0))
    each = [metrics.compute_disagreement(found, [reference], ignore_background=True) for reference in many]
    labelled = np.sum([reference != 0 for reference in many], axis=0)
    slow = np.where(labelled > 0, np.sum(each, axis=0) / np.maximum(labelled, 1), 0)
    assert metrics.compute_disagreement(found, many, ignore_background=True) == pytest.approx(slow)


def test_equal_regions_do_not_disagree_whatever_their_numbers():
    assert not metrics.compute_disagreement(A, [A * 7 + 3, 9 - A]).any()
    assert not metrics.compute_disagreement(A, [A * 0], ignore_background=True).any()


def test_scores_say_what_they_need_and_what_they_do():
    for measure in (metrics.compute_scores, metrics.compute_disagreement):
        with pytest.raises(InputError, match="at least one reference"):
            measure(A, [])
        with pytest.raises(InputError, match="same shape"):
            measure(A, [A, A.T])
        steps = []
        measure(A, [A, B], report=steps.append)
        assert any("reference 2 of 2" in step for step in steps)

    def stop(step):
        raise KeyboardInterrupt(step)

    with pytest.raises(KeyboardInterrupt, match="regions of the reference"):
        metrics.compute_scores(A, [B], report=stop)
    with pytest.raises(InputError, match="no pixel"):
        metrics.compute_scores(A, [A * 0], ignore_background=True)


def test_best_overlap_against_a_loop():
    rng = np.random.default_rng(8)
    found, truth = rng.integers(0, 5, (2, 30, 30))
    best = [
        max(((found == k) & (truth == t)).sum() / ((found == k) | (truth == t)).sum() for k in range(5))
        for t in range(1, 5)
    ]
    assert metrics.best_overlap(found, truth) == pytest.approx(np.mean(best))
    assert metrics.best_overlap(found, np.zeros_like(truth)) == 1.0
