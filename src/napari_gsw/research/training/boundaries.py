"""Learn where people draw boundaries, from photographs with human segmentations.

    python -m napari_gsw.research.training.boundaries BSDS SPLIT OUT [NETWORKS]

writes OUT/boundaries.json, the model that the package ships as its ``photo`` couplings, and beside it one model for
each of five folds of the images that has not seen the images of its fold: what is reported of the couplings is measured
with these. NETWORKS is the folder of :mod:`napari_gsw.research.training.boundary_network`, with a network for each fold that
has not seen the fold either: its boundaries are then cues. All this needs ``pip install "napari-gsw[learning]"``; to
use a model nothing more than the package is needed.

examples --> sites, cues, share of people who part the two sites of an edge --> first forest --> its probabilities for
images that it has not seen --> second cues --> second forest
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from napari_gsw.core.array_types import Float64Array
from napari_gsw.core.features.site_features import ImageFeatures
from napari_gsw.core.graph.boundary_cues import (
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
# Small trees and not too many: more fit the images at hand and no others.
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
class Look:
    """What there is to learn from one image.

    Attributes
    ----------
    graph : of its superpixels.
    sums : of words and channels over the sites (and of a network's places), from which cues are computed.
    cues : (m, cues) the first cues of each edge.
    apart : (m,) share of the people who put the two sites of an edge into different segments.
    """

    graph: RegionGraph
    sums: SiteSums
    cues: Float64Array
    apart: Float64Array

    @property
    def has_network(self) -> bool:
        """Whether the cues of a network are among them."""
        return "places" in self.sums.names


def look(example: Example, settings: Settings) -> Look:
    """Read an image and compute its first cues."""
    scene = example.read()
    checked_picture = normalize_image(scene.image, scene.axes)
    sites = make_superpixels(checked_picture, settings)
    graph = build_region_graph(checked_picture, sites)
    features = ImageFeatures([checked_picture], [sites], settings)
    network = features.has_network
    sums = SiteSums(features, graph, features.embedding if network else None)
    i, j = graph.edges.T
    votes = [label[i] != label[j] for label in (segment_of_sites(human, sites) for human in scene.human_labels)]
    cues = compute_local_cues(features, graph, sums, mean_network_boundary(features, graph) if network else None)
    return Look(graph, sums, cues, np.mean(votes, axis=0))


def segment_of_sites(human: NDArray[np.integer], sites: NDArray[np.int32]) -> NDArray[np.int64]:
    """The segment that most pixels of each site lie in.

    Parameters
    ----------
    human : label image of a person.
    sites : of the same shape, 1..n at every pixel.

    Returns
    -------
    (n,) int64, segments 0..k-1.
    """
    segments = np.unique(human, return_inverse=True)[1].reshape(human.shape)
    return find_site_majority(sites, int(sites.max()), segments)


def fitted(rows: Sequence[Float64Array], looks: Sequence[Look]) -> DecisionForest:
    """Boosted trees for the log odds of a boundary; long boundaries count more, all images the same.

    Parameters
    ----------
    rows : of each image (m, cues), what the trees are to look at.
    looks : the images, with what the trees are to tell.
    """
    import lightgbm

    weight = np.concatenate([one.graph.length / one.graph.length.mean() for one in looks])
    data = lightgbm.Dataset(np.concatenate(rows), np.concatenate([one.apart for one in looks]), weight=weight)
    return as_forest(lightgbm.train(dict(TREES), data, ROUNDS).dump_model()["tree_info"])


def as_forest(trees: Sequence[Mapping[str, Any]]) -> DecisionForest:
    """The trees that LightGBM describes, as arrays."""
    root: list[int] = []
    feature: list[int] = []
    threshold: list[float] = []
    left: list[int] = []
    right: list[int] = []

    def add(node: Mapping[str, Any]) -> int:
        here = len(feature)
        threshold.append(0.0)
        for column in (feature, left, right):
            column.append(-1)
        if "leaf_value" in node:
            threshold[here] = node["leaf_value"]
        else:
            feature[here], threshold[here] = node["split_feature"], node["threshold"]
            left[here] = add(node["left_child"])
            right[here] = add(node["right_child"])
        return here

    for tree in trees:
        root.append(add(tree["tree_structure"]))
    return DecisionForest.from_dict(
        {"root": root, "feature": feature, "threshold": threshold, "left": left, "right": right}
    )


def second_rows(first: DecisionForest, one: Look) -> Float64Array:
    """(m, cues) what the second forest looks at: cues that know what the first one says of all edges."""
    return compute_context_cues(one.graph, one.cues, expit(first.scores(one.cues)), one.sums)


def learn(
    looks: Sequence[Look], fold: NDArray[np.integer], cache: dict[frozenset[int], DecisionForest]
) -> BoundaryModel:
    """Both forests from some images.

    The second forest learns from probabilities of the first for images that this has not seen: it must know how wrong
    they are.

    Parameters
    ----------
    looks : the images.
    fold : (images,) which of the images are left out together.
    cache : first forests by the folds that they have not seen.
    """
    present = set(np.unique(fold).tolist())
    missing = frozenset(range(FOLDS)) - present

    def first(without: frozenset[int]) -> DecisionForest:
        if without not in cache:
            kept = [one for one, f in zip(looks, fold, strict=True) if f not in without]
            cache[without] = fitted([one.cues for one in kept], kept)
        return cache[without]

    rows = [second_rows(first(missing | {int(f)}), one) for one, f in zip(looks, fold, strict=True)]
    return BoundaryModel(first(missing), fitted(rows, looks), network=looks[0].has_network)


def learn_all(examples: Sequence[Example], folder: Path, settings: Settings, networks: Path | None = None) -> None:
    """Learn the model of all images, and those that leave one fold out, and write them into a folder.

    Parameters
    ----------
    networks : folder with a network for each fold, ``fold0.npz`` and so on, that has not seen its images; None for
        models without the cues of a network.
    """
    fold = fold_of(len(examples))
    names = ["none" if networks is None else str(networks / f"fold{k}.npz") for k in fold]
    looks = [look(e, settings.replace(network=name)) for e, name in zip(examples, names, strict=True)]
    cache: dict[frozenset[int], DecisionForest] = {}
    folder.mkdir(parents=True, exist_ok=True)
    for left_out in range(FOLDS):
        kept = [one for one, f in zip(looks, fold, strict=True) if f != left_out]
        learn(kept, fold[fold != left_out], cache).save(folder / f"fold{left_out}.json")
    learn(looks, fold, cache).save(folder / "boundaries.json")


def fold_of(count: int) -> NDArray[np.int64]:
    """(images,) fold of each image in the order of their names."""
    return np.array(list(itertools.islice(itertools.cycle(range(FOLDS)), count)))


if __name__ == "__main__":
    where, split, out, *networks = sys.argv[1:]
    folder = Path(networks[0]) if networks else None
    learn_all(list_bsds(Path(where), split), Path(out), preset("photo", coupling="contrast"), folder)
