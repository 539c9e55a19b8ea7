"""Learnt boundaries: forests as numbers, and the couplings that follow for an image."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pytest

import napari_gsw as gsw
from napari_gsw.core.graph.boundary_cues import compute_context_cues, compute_local_cues, sum_site_values
from napari_gsw.core.graph.boundary_model import BoundaryModel, DecisionForest, load_boundary_model
from pictures import across_stripes, described, stripes

RNG = np.random.default_rng(3)


def random_forest(trees=7, features=4):
    """Complete trees of depth 2."""
    root = np.arange(trees) * 7
    feature = np.tile([0, 1, -1, -1, 2, -1, -1], trees)
    feature[feature >= 0] = RNG.integers(0, features, (feature >= 0).sum())
    left = np.concatenate([r + np.array([1, 2, -1, -1, 5, -1, -1]) for r in root])
    right = np.concatenate([r + np.array([4, 3, -1, -1, 6, -1, -1]) for r in root])
    return DecisionForest.from_dict(
        {"root": root, "feature": feature, "threshold": RNG.normal(size=7 * trees), "left": left, "right": right}
    )


def test_a_forest_is_the_sum_of_its_leaves():
    forest, rows = random_forest(), RNG.normal(size=(50, 4))
    for row, score in zip(rows, forest.scores(rows), strict=True):
        total = 0.0
        for node in forest.root:
            while forest.feature[node] >= 0:
                below = row[forest.feature[node]] <= forest.threshold[node]
                node = forest.left[node] if below else forest.right[node]
            total += forest.threshold[node]
        assert score == pytest.approx(total)


def test_a_forest_survives_json_and_refuses_what_is_none():
    forest = random_forest()
    again = DecisionForest.from_dict(json.loads(json.dumps(forest.to_dict())))
    rows = RNG.normal(size=(20, 4))
    assert again.scores(rows) == pytest.approx(forest.scores(rows), rel=1e-5)
    content = forest.to_dict()
    for broken in (
        {**content, "left": [0] * len(content["left"])},  # back to the root: it would go round for ever
        {**content, "right": [10**6] * len(content["right"])},
        {**content, "root": [-1]},
        {**content, "threshold": [float("nan")] * len(content["threshold"])},
        {k: v for k, v in content.items() if k != "feature"},
    ):
        with pytest.raises(gsw.InputError, match="not a forest"):
            DecisionForest.from_dict(broken)
    with pytest.raises(gsw.InputError, match="features"):
        forest.scores(rows[:, :1])


def test_people_draw_boundaries_where_colours_change():
    words, graph, sites = described(stripes())
    odds = load_boundary_model("shipped").log_odds(words, graph)
    across = across_stripes(graph, sites)
    assert np.median(odds[across]) > 0 > np.median(odds[~across])
    assert (odds[across] > np.median(odds[~across])).mean() > 0.95


def test_couplings_of_either_sign():
    both = gsw.prepare(stripes(), preset="photo", site_size=60)
    assert both.beta.min() < 0 < both.beta.max()
    positive = gsw.prepare(stripes(), preset="photo", site_size=60, repulsion=0.0)
    assert positive.beta.min() == 0
    result = gsw.segment(stripes(), preset="photo", site_size=60, seed=0)
    assert result.n_regions == 3


def test_what_the_model_cannot_do_is_said():
    with pytest.raises(gsw.InputError, match="contrast for a volume"):
        gsw.prepare(RNG.random((8, 20, 20)), preset="photo")
    with pytest.raises(gsw.InputError, match="neighbourhood"):
        gsw.prepare(stripes(), preset="photo", neighbourhood=2)
    with pytest.raises(gsw.InputError, match="cannot be read"):
        gsw.prepare(stripes(), preset="photo", boundary_model="nowhere.json")
    assert len(gsw.prepare(stripes()[..., 0], preset="photo").beta)  # grey
    assert gsw.segment(np.zeros((6, 6), np.uint8), preset="photo").n_regions == 1


def test_a_saved_model_is_the_same_model(tmp_path):
    load_boundary_model("shipped").save(tmp_path / "model.json")
    words, graph, _ = described(stripes())
    again = BoundaryModel.load(tmp_path / "model.json")
    assert again.log_odds(words, graph) == pytest.approx(load_boundary_model("shipped").log_odds(words, graph))
    (tmp_path / "broken.json").write_text("{}")
    with pytest.raises(gsw.InputError, match="not a boundary model"):
        BoundaryModel.load(tmp_path / "broken.json")


def test_lightgbm_trees_become_the_same_forest():
    lightgbm = pytest.importorskip("lightgbm")
    from napari_gsw.research.training.couplings import TREES, convert_trees

    rows = RNG.normal(size=(2000, 5))
    target = 1 / (1 + np.exp(-(rows[:, 0] + rows[:, 1] * rows[:, 2])))
    made = lightgbm.train(dict(TREES), lightgbm.Dataset(rows, target), 20)
    forest = convert_trees(made.dump_model()["tree_info"])
    assert forest.scores(rows) == pytest.approx(made.predict(rows, raw_score=True), abs=1e-6)


def add_context(graph, cues, sums, odds):
    return compute_context_cues(graph, cues, odds, sums)


def test_learning_on_images_of_its_own(tmp_path):
    pytest.importorskip("lightgbm")
    from napari_gsw.research.training.couplings import FOLDS, TrainingImage, fold_of, learn_folds

    looks = []
    for _ in range(FOLDS):
        words, graph, sites = described(stripes(20.0))
        sums = sum_site_values(words, graph)
        apart = across_stripes(graph, sites).astype(float)
        cues = compute_local_cues(words, graph, sums)
        context = partial(add_context, graph, cues, sums)
        looks.append(TrainingImage(cues, apart, graph.length / graph.length.mean(), context))
    learn_folds(looks, fold_of(len(looks)).tolist(), tmp_path)
    assert len(list(tmp_path.glob("fold?.json"))) == FOLDS
    model = BoundaryModel.load(tmp_path / "boundaries.json")
    words, graph, sites = described(stripes(20.0))
    odds = model.log_odds(words, graph)
    across = across_stripes(graph, sites)
    assert odds[across].mean() > odds[~across].mean() + 2
