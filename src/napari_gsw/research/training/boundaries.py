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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from napari_gsw.core.array_types import Float64Array, Int64Array
from napari_gsw.core.features.site_features import ImageFeatures
from napari_gsw.core.graph.boundary_cues import (
    DIFFERENCES,
    SiteSums,
    compute_context_cues,
    compute_local_cues,
    mean_network_boundary,
)
from napari_gsw.core.graph.boundary_model import BoundaryModel, DecisionForest
from napari_gsw.core.graph.region_graph import RegionGraph, build_region_graph
from napari_gsw.core.image.normalized_image import normalize_image
from napari_gsw.core.settings import Settings
from napari_gsw.core.settings.presets import preset
from napari_gsw.core.sites.site_values import find_site_majority
from napari_gsw.core.sites.superpixels import make_superpixels
from napari_gsw.research.evaluation.data_sets import Example, list_bsds

FOLDS = 5
# Few small trees: more would overfit.
TREES: Mapping[str, Any] = {
    "objective": "cross_entropy",
    "num_leaves": 16,
    "learning_rate": 0.08,
    "min_data_in_leaf": 100,
    "lambda_l2": 1.0,
    "feature_fraction": 0.7,
    "max_bin": 63,
    "seed": 0,
    "deterministic": True,
    "verbose": -1,
}
ROUNDS = 120


@dataclass(frozen=True, eq=False)
class TrainingImage:
    """The cues of an image and their target."""

    graph: RegionGraph
    sums: SiteSums  # of words and channels over the superpixels, from which the context cues are computed
    cues: Float64Array  # (m, cues) local cues of each edge
    target: Float64Array  # (m,) fraction of annotators who separate the two superpixels


def extract_cues(example: Example, settings: Settings) -> TrainingImage:
    """Read an image and compute its local cues."""
    annotated = example.read()
    image = normalize_image(annotated.image, annotated.axes)
    sites = make_superpixels(image, settings)
    graph = build_region_graph(image, sites)
    features = ImageFeatures([image], [sites], settings)
    network = features.has_network
    sums = SiteSums(features, graph, features.embedding if network else None)
    i, j = graph.edges.T
    separated = []
    for human in annotated.human_labels:
        segments = np.unique(human, return_inverse=True)[1].reshape(human.shape)
        majority = find_site_majority(sites, int(sites.max()), segments)
        separated.append(majority[i] != majority[j])
    cues = compute_local_cues(features, graph, sums, mean_network_boundary(features, graph) if network else None)
    return TrainingImage(graph, sums, cues, np.mean(separated, axis=0))


def fit_trees(
    rows: Sequence[Float64Array],
    targets: Sequence[ArrayLike],
    weights: Sequence[Float64Array] | None = None,
    parameters: Mapping[str, Any] = TREES,
    rounds: int = ROUNDS,
) -> DecisionForest:
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


def learn(
    images: Sequence[TrainingImage], fold: NDArray[np.integer], cache: dict[frozenset[int], DecisionForest]
) -> BoundaryModel:
    """Learn both forests.

    Parameters
    ----------
    images : sequence of TrainingImage
        The images.
    fold : (images,) array of int
        Images that are left out together.
    cache : dict
        First forests by the folds that they have not seen.
    """
    missing = frozenset(range(FOLDS)) - set(fold.tolist())

    def fit(rows: Sequence[Float64Array], chosen: Sequence[TrainingImage]) -> DecisionForest:
        # Long boundaries have a larger weight, and all images have the same.
        weights = [image.graph.length / image.graph.length.mean() for image in chosen]
        return fit_trees(rows, [image.target for image in chosen], weights)

    def fit_first(left_out: frozenset[int]) -> DecisionForest:
        if left_out not in cache:
            kept = [image for image, f in zip(images, fold, strict=True) if f not in left_out]
            cache[left_out] = fit([image.cues for image in kept], kept)
        return cache[left_out]

    rows = []
    for image, f in zip(images, fold, strict=True):
        probability = expit(fit_first(missing | {int(f)}).scores(image.cues))
        rows.append(compute_context_cues(image.graph, image.cues, probability, image.sums))
    return BoundaryModel(fit_first(missing), fit(rows, images), network=len(images[0].sums.parts) == len(DIFFERENCES))


def learn_all(examples: Sequence[Example], folder: Path, settings: Settings, networks: Path | None = None) -> None:
    """Learn the model of all images, and those that leave one fold out, and write them into a folder.

    `networks` has ``fold0.npz`` and so on, a network for each fold that has not seen its images.
    """
    fold = fold_of(len(examples))
    names = ["none" if networks is None else str(networks / f"fold{k}.npz") for k in fold]
    images = [extract_cues(e, settings.replace(network=name)) for e, name in zip(examples, names, strict=True)]
    cache: dict[frozenset[int], DecisionForest] = {}
    folder.mkdir(parents=True, exist_ok=True)
    for left_out in range(FOLDS):
        kept = [image for image, f in zip(images, fold, strict=True) if f != left_out]
        learn(kept, fold[fold != left_out], cache).save(folder / f"fold{left_out}.json")
    learn(images, fold, cache).save(folder / "boundaries.json")


def fold_of(count: int) -> Int64Array:
    """Return the fold of each image, in the order of their names."""
    return np.arange(count) % FOLDS


if __name__ == "__main__":
    where, split, out, *networks = sys.argv[1:]
    network_folder = Path(networks[0]) if networks else None
    learn_all(list_bsds(Path(where), split), Path(out), preset("photo", coupling="contrast"), network_folder)
