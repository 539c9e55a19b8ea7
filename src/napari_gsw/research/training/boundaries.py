"""Learn the ``photo`` couplings: where annotators draw boundaries in photographs.

    python -m napari_gsw.research.training.boundaries BSDS SPLIT OUT [NETWORKS]

writes OUT/boundaries.json, the model of the package, and OUT/fold0.json and so on, one model for each of five folds of
the images that has not seen the images of its fold: the scores of the couplings are measured with these. NETWORKS is
the output folder of :mod:`napari_gsw.research.training.networks`, with a network for each fold; its boundaries are then
cues. Learning needs ``pip install "napari-gsw[learning]"``.

The first forest predicts, from the cues of an edge, the fraction of annotators who separate its two superpixels. The
second forest also gets cues computed from the first one's predictions for images that this has not seen.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from napari_gsw.core.array_types import Float64Array, Int64Array
from napari_gsw.core.features.site_features import ImageFeatures
from napari_gsw.core.graph.boundary_cues import compute_context_cues, compute_local_cues, sum_site_values
from napari_gsw.core.graph.boundary_model import BoundaryModel, DecisionForest
from napari_gsw.core.graph.region_graph import build_region_graph
from napari_gsw.core.image.normalized_image import normalize_image
from napari_gsw.core.settings import Settings
from napari_gsw.core.settings.presets import preset
from napari_gsw.core.sites.site_values import find_site_majority
from napari_gsw.core.sites.superpixels import make_superpixels
from napari_gsw.research.evaluation.data_sets import Example, list_bsds

FOLDS = 5
# Few small trees: more would overfit.
TREES: Mapping[str, Any] = {
    "objective": "cross_entropy", "num_leaves": 16, "learning_rate": 0.08, "min_data_in_leaf": 100, "lambda_l2": 1.0,
    "feature_fraction": 0.7, "max_bin": 63, "seed": 0, "deterministic": True, "verbose": -1,
}  # fmt: skip
ROUNDS = 120


class TrainingImage(NamedTuple):
    """The cues of the m edges of an image, and their target."""

    cues: Float64Array  # (m, cues) local cues
    target: Float64Array  # (m,) fraction of annotators who separate the two superpixels
    weight: Float64Array  # (m,)
    add_context: Callable[[Float64Array], Float64Array]  # all cues, from a first estimate (m,) of the log odds


def extract_cues(example: Example, settings: Settings) -> TrainingImage:
    """Read an image and compute its cues; long boundaries have a larger weight, and all images have the same."""
    annotated = example.read()
    image = normalize_image(annotated.image, annotated.axes)
    sites = make_superpixels(image, settings)
    graph = build_region_graph(image, sites)
    features = ImageFeatures([image], [sites], settings)
    network = features.has_network
    sums = sum_site_values(features, graph, network)
    i, j = graph.edges.T
    separated = []
    for human in annotated.human_labels:
        segments = np.unique(human, return_inverse=True)[1].reshape(human.shape)
        majority = find_site_majority(sites, int(sites.max()), segments)
        separated.append(majority[i] != majority[j])
    cues = compute_local_cues(features, graph, sums, network)
    return TrainingImage(
        cues,
        np.mean(separated, axis=0),
        graph.length / graph.length.mean(),
        lambda odds: compute_context_cues(graph, cues, odds, sums),
    )


def fit_trees(
    rows: Sequence[Float64Array], targets: Sequence[ArrayLike], weights: Sequence[Float64Array] | None = None,
    parameters: Mapping[str, Any] = TREES, rounds: int = ROUNDS,
) -> DecisionForest:  # fmt: skip
    """Fit boosted trees for the log odds of a target in 0..1 to the (m, cues) rows of each image."""
    import lightgbm

    weight = None if weights is None else np.concatenate(weights)
    data = lightgbm.Dataset(np.concatenate(rows), np.concatenate(targets), weight=weight)
    return convert_trees(lightgbm.train(dict(parameters), data, rounds).dump_model()["tree_info"])


def convert_trees(trees: Sequence[Mapping[str, Any]]) -> DecisionForest:
    """Convert the trees that LightGBM describes to arrays."""
    columns: dict[str, list[Any]] = {"root": [], "feature": [], "threshold": [], "left": [], "right": []}

    def add(node: Mapping[str, Any]) -> int:
        index = len(columns["feature"])
        is_leaf = "leaf_value" in node
        columns["feature"].append(-1 if is_leaf else node["split_feature"])
        columns["threshold"].append(node["leaf_value"] if is_leaf else node["threshold"])
        for side in ("left", "right"):
            columns[side].append(-1)
        if not is_leaf:
            for side in ("left", "right"):
                columns[side][index] = add(node[f"{side}_child"])
        return index

    for tree in trees:
        columns["root"].append(add(tree["tree_structure"]))
    return DecisionForest.from_dict(columns)


def learn_folds(
    images: Sequence[TrainingImage], groups: Sequence[Any], folder: Path, rounds: int = ROUNDS, **about: Any
) -> None:
    """Learn from all images, and without those of each group, and write the models into a folder.

    ``fold0.json`` and so on have not seen a group, in the order of the groups; ``boundaries.json`` has seen all.
    """

    def fit(rows: Sequence[Float64Array], chosen: Sequence[TrainingImage]) -> DecisionForest:
        return fit_trees(rows, [image.target for image in chosen], [image.weight for image in chosen], rounds=rounds)

    def keep(left_out: frozenset[Any]) -> list[TrainingImage]:
        return [image for image, group in zip(images, groups, strict=True) if group not in left_out]

    @cache
    def fit_first(left_out: frozenset[Any]) -> DecisionForest | None:
        kept = keep(left_out)
        return fit([image.cues for image in kept], kept) if kept else None

    folder.mkdir(parents=True, exist_ok=True)
    names = {f"fold{number}": frozenset([group]) for number, group in enumerate(sorted(set(groups)))}
    for name, left_out in {**names, "boundaries": frozenset[Any]()}.items():
        rows = []
        for image, group in zip(images, groups, strict=True):
            if group not in left_out:
                unseen = fit_first(left_out | {group})
                rows.append(image.add_context(unseen.scores(image.cues) if unseen else np.zeros(len(image.target))))
        if rows and (first := fit_first(left_out)):
            BoundaryModel(first, fit(rows, keep(left_out)), **about).save(folder / f"{name}.json")


def learn_all(examples: Sequence[Example], folder: Path, settings: Settings, networks: Path | None = None) -> None:
    """Learn the model of all images, and those that leave one fold out, and write them into a folder.

    `networks` has ``fold0.npz`` and so on, a network for each fold that has not seen its images.
    """
    fold = fold_of(len(examples)).tolist()
    names = ["none" if networks is None else str(networks / f"fold{k}.npz") for k in fold]
    images = [extract_cues(e, settings.replace(network=name)) for e, name in zip(examples, names, strict=True)]
    learn_folds(images, fold, folder, network=networks is not None)


def fold_of(count: int) -> Int64Array:
    """Return the fold of each image, in the order of their names."""
    return np.arange(count) % FOLDS


if __name__ == "__main__":
    where, split, out, *rest = sys.argv[1:]
    network_folder = Path(rest[0]) if rest else None
    learn_all(list_bsds(Path(where), split), Path(out), preset("photo", coupling="contrast"), network_folder)
