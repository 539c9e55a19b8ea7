"""Scores of a hierarchy are those of its cuts, painted and measured one by one."""

from __future__ import annotations

import numpy as np
import pytest

from napari_gsw.core.graph.merge_tree import build_merge_tree
from napari_gsw.research.evaluation.evaluate import (
    LEVEL_MEASURES,
    THRESHOLDS,
    find_best_levels,
    score_levels,
)
from napari_gsw.scores.partitions import covering, probabilistic_rand, variation_of_information


@pytest.mark.parametrize("ignore", [False, True])
def test_scores_of_levels_are_those_of_painted_cuts(ignore):
    rng = np.random.default_rng(0)
    sites = np.kron(np.arange(1, 26).reshape(5, 5), np.ones((4, 4), int)).astype(np.int32)
    sites[:2, :2] = 0  # no site there
    right = [(i, i + 1) for i in range(25) if i % 5 < 4]
    edges = np.array(right + [(i, i + 5) for i in range(20)], np.int32)
    tree = build_merge_tree(25, edges, rng.random(len(edges)))
    human_labels = [rng.integers(0, 4, sites.shape).astype(np.int32) for _ in range(3)]
    scored = score_levels(sites, tree, human_labels, ignore)
    for place in (0, 20, 55, 99):
        labels = np.concatenate(([0], tree.labels(THRESHOLDS[place]) + 1))[sites]
        wheres = [human != 0 if ignore else None for human in human_labels]
        pairs = list(zip(human_labels, wheres, strict=True))
        rand = np.mean([probabilistic_rand(labels, [human], where) for human, where in pairs])
        assert scored["probabilistic_rand"][place] == pytest.approx(rand)
        information = np.mean([variation_of_information(labels, human, where) for human, where in pairs])
        assert scored["variation_of_information"][place] == pytest.approx(information)
        assert scored["covering"][place] == pytest.approx(np.mean([covering(labels, *pair) for pair in pairs]))
        assert scored["n_regions"][place] == labels.max()


def test_the_best_level_of_each_image_is_never_worse_than_that_of_all():
    rng = np.random.default_rng(1)
    rows = [{name: rng.random(100).tolist() for name in (*LEVEL_MEASURES, "n_regions")} for _ in range(4)]
    best = find_best_levels(rows)
    assert all((row["ois"] >= row["ods"]) == (name != "variation_of_information") for name, row in best.items())
    vi = np.array([row["variation_of_information"] for row in rows])
    assert best["variation_of_information"]["ods"] == vi.mean(axis=0).min()
    assert best["variation_of_information"]["ois"] == vi.min(axis=1).mean()
