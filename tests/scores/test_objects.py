"""Objects one by one: matches, false and missed ones, and the figures that are made of them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from napari_gsw.scores.objects import (
    INSTANCE_MEASURES,
    THRESHOLDS,
    compute_object_measures,
    count_matches,
    mark_background,
    match_objects,
    pool_counts,
)


def by_hand(labels, truth, threshold):
    """The most objects that can be matched one to one, by trying all ways."""
    names, true_names = ([v for v in np.unique(a) if v] for a in (labels, truth))

    def overlap(a, b):
        return np.sum((labels == a) & (truth == b)) / np.sum((labels == a) | (truth == b))

    ways = itertools.permutations([*true_names, *[None] * len(names)], len(names))
    return max(
        sum(b is not None and overlap(a, b) >= threshold for a, b in zip(names, way, strict=True)) for way in ways
    )


@pytest.mark.parametrize("seed", range(20))
def test_matches_are_as_many_as_there_can_be(seed):
    rng = np.random.default_rng(seed)
    truth = np.repeat(rng.integers(0, 4, 6), 4)
    labels = np.where(rng.random(24) < 0.3, rng.integers(0, 4, 24), truth)
    counts = count_matches(labels, truth)
    for threshold in THRESHOLDS:
        assert counts[f"matches_{100 * threshold:.0f}"] == by_hand(labels, truth, threshold)
    assert counts["objects"] == len(np.setdiff1d(labels, [0]))
    assert counts["true_objects"] == len(np.setdiff1d(truth, [0]))


def test_a_picture_by_hand():
    truth = np.array([0, 1, 1, 1, 1, 2, 2, 3, 3, 3])
    labels = np.array([7, 5, 5, 5, 0, 6, 6, 0, 0, 0])
    counts = count_matches(labels, truth)  # 5 is three quarters of 1, 6 is 2, 7 is false, 3 is missed
    assert [counts[f"matches_{k}"] for k in (50, 60, 70, 80, 90)] == [2, 2, 2, 1, 1]
    scores = compute_object_measures(counts)
    assert set(scores) == set(INSTANCE_MEASURES)
    assert scores["ap_50"] == pytest.approx(2 / 4)
    assert scores["ap_90"] == pytest.approx(1 / 5)
    assert scores["f1_70"] == pytest.approx(2 * 2 / 6)
    assert scores["panoptic_quality"] == pytest.approx((0.75 + 1) / (2 + 0.5 + 0.5))
    pairs = match_objects(labels, truth)
    assert sorted(zip(pairs.own_labels, pairs.true_labels, strict=True)) == [(5, 1), (6, 2)]
    assert pairs.false_labels.tolist() == [7]
    assert pairs.missed_labels.tolist() == [3]


def test_two_halves_of_an_object_are_one_match():
    counts = count_matches([1, 1, 2, 2], [1, 1, 1, 1])
    assert [counts[f"matches_{k}"] for k in (50, 60, 70, 80, 90)] == [1, 0, 0, 0, 0]
    assert counts["objects"] == 2
    assert count_matches([1, 1, 1, 1], [1, 1, 2, 2])["matches_50"] == 1


def test_nothing_to_be_found_and_nothing_that_came_out_is_right():
    nothing = compute_object_measures(count_matches(np.zeros(5, int), np.zeros(5, int)))
    assert nothing["f1_50"] == nothing["ap_90"] == nothing["panoptic_quality"] == 1
    for labels, truth in (([1, 0], [0, 0]), ([0, 0], [1, 0])):
        scores = compute_object_measures(count_matches(labels, truth))
        assert scores["f1_50"] == scores["ap_50"] == 0


def test_pooled_figures_are_those_of_all_objects():
    rng = np.random.default_rng(0)
    pairs = [(rng.integers(0, 3 + k, 40), rng.integers(0, 3, 40)) for k in range(4)]
    pairs.append((np.arange(40) // 4, np.arange(40) // 4))
    rows = [count_matches(*pair) for pair in pairs]
    # Pictures side by side, whose objects have numbers of their own.
    shifted = [np.concatenate([np.where(p[k] > 0, p[k] + 100 * i, 0) for i, p in enumerate(pairs)]) for k in (0, 1)]
    assert compute_object_measures(pool_counts(rows)) == pytest.approx(compute_object_measures(count_matches(*shifted)))


def test_a_segmentation_without_background_has_its_largest_region_for_it():
    assert mark_background(np.array([1, 1, 2, 3])).tolist() == [0, 0, 2, 3]
    assert mark_background(np.array([0, 1, 1, 3])).tolist() == [0, 1, 1, 3]
