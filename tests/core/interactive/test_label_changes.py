"""Labels on the screen that stay the same from one state of a chain to the next."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from napari_gsw.core.interactive import label_changes
from napari_gsw.core.interactive.label_changes import match_labels


def kept_weight(clusters, shown, weight):
    labels = match_labels(clusters, shown, weight)
    assert labels.min() > 0
    pairs = np.unique(np.stack((clusters, labels)), axis=1)
    assert all(np.unique(side).size == pairs.shape[1] for side in pairs)  # a label for each cluster, and no two share
    return weight[labels == shown].sum()


@pytest.mark.parametrize("seed", range(20))
def test_many_clusters_are_matched_nearly_as_well_as_few(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    shown = rng.integers(1, rng.integers(2, 40), 200)
    clusters = np.where(rng.random(200) < 0.3, rng.integers(0, 30, 200), shown)
    weight = rng.integers(1, 9, 200).astype(float)
    best = kept_weight(clusters, shown, weight)
    monkeypatch.setattr(label_changes, "MAX_MATCHED", 0)
    assert best >= kept_weight(clusters, shown, weight) >= 0.5 * best  # the bound of every greedy matching


def test_a_start_with_one_cluster_for_each_of_90000_superpixels():
    n = 90_000
    rng = np.random.default_rng(0)
    shown = rng.permutation(n) + 1
    clusters = np.where(rng.random(n) < 0.5, rng.integers(0, n, n), np.arange(n))
    tracemalloc.start()
    try:
        match_labels(clusters, shown, np.ones(n))
        assert tracemalloc.get_traced_memory()[1] < 100e6
    finally:
        tracemalloc.stop()
