"""Learn the couplings of the presets ``photo``, ``membranes`` and ``microscopy``.

    python -m napari_gsw.research.training.couplings photo BSDS SPLIT OUT [NETWORKS]
    python -m napari_gsw.research.training.couplings membranes FOLDER OUT
    python -m napari_gsw.research.training.couplings objects FOLDER OUT NETWORKS

``photo`` learns where annotators draw boundaries, ``membranes`` which superpixels of an electron micrograph are of one
cell. Both write OUT/boundaries.json, learnt from all images, and OUT/fold0.json and so on, which have not seen the
images of a fold: the scores of the couplings are measured with these. Photographs have five folds; sections are left
out together if their names agree except for the last character. FOLDER has ``images/membrane*`` and
``labels/membrane*``, in which membranes are 0. A first forest predicts, from the cues of an edge, the fraction of
annotators who separate its two superpixels; a second one also gets cues computed from the first one's predictions for
images that this has not seen.

``objects`` learns which fragments belong to one object. FOLDER has images/ and labels/, 0 for the background. Writes
OUT/objects.json, OUT/objects_fold0.json and so on; and OUT/reliability.csv: how often two fragments are one object, by
the posterior probability of that, with a network and a model that have not seen the image. Prints the three numbers
that calibrate that probability (core/posterior/objects.py has those of the package).

NETWORKS is the output folder of :mod:`napari_gsw.research.training.networks`, with a network for each fold: its maps
are cues. Learning needs ``pip install "napari-gsw[learning]"``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize

from napari_gsw.core.array_types import BoolArray, Float64Array, Int64Array, LabelImage
from napari_gsw.core.errors import InputError
from napari_gsw.core.features.network import CENTRE, INSIDE, Network, predict_objects
from napari_gsw.core.features.site_features import ImageFeatures
from napari_gsw.core.graph.boundary_cues import (
    compute_context_cues,
    compute_context_membrane_cues,
    compute_local_cues,
    compute_local_membrane_cues,
    sum_site_values,
)
from napari_gsw.core.graph.boundary_model import (
    BoundaryModel,
    DecisionForest,
    ObjectModel,
    compute_fragment_cues,
    compute_pair_cues,
    sum_fragments,
)
from napari_gsw.core.graph.region_graph import build_region_graph
from napari_gsw.core.image.foreground_signal import OBJECT_SIGNAL
from napari_gsw.core.image.normalized_image import NormalizedImage, normalize_image, read_channels
from napari_gsw.core.image.ridges import scale_intensity
from napari_gsw.core.model.problem import site_pixels
from napari_gsw.core.pipeline.segment import segment
from napari_gsw.core.posterior.objects import MIN_PROBABILITY
from napari_gsw.core.posterior.result import Result
from napari_gsw.core.settings import Settings
from napari_gsw.core.settings.presets import preset
from napari_gsw.core.sites.site_values import find_site_majority
from napari_gsw.core.sites.superpixels import find_fragments, make_object_sites, make_superpixels, mark_fragments
from napari_gsw.files.results import write_csv
from napari_gsw.research.evaluation.data_sets import Example, list_bsds, list_labelled_folder
from napari_gsw.research.training.pictures import draw_touching
from napari_gsw.scores.partitions import contingency_table

FOLDS = 5
# Few small trees: more would overfit.
TREES: Mapping[str, Any] = {
    "objective": "cross_entropy", "num_leaves": 16, "learning_rate": 0.08, "min_data_in_leaf": 100, "lambda_l2": 1.0,
    "feature_fraction": 0.7, "max_bin": 63, "seed": 0, "deterministic": True, "verbose": -1,
}  # fmt: skip
OBJECT_TREES: Mapping[str, Any] = {
    "objective": "binary", "num_leaves": 8, "learning_rate": 0.05, "min_data_in_leaf": 30, "feature_fraction": 0.7,
    "bagging_fraction": 0.8, "bagging_freq": 1, "seed": 0, "deterministic": True, "num_threads": 1, "verbose": -1,
}  # fmt: skip
ROUNDS, MEMBRANE_ROUNDS = 120, 160
# Synthetic images of round shapes that overlap, which every model of objects learns from too: nuclei seldom look so.
N_TOUCHING = 8


# ---- forests


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


# ---- boundaries of superpixels


class TrainingImage(NamedTuple):
    """The cues of the m edges of an image, and their target."""

    cues: Float64Array  # (m, cues) local cues
    target: Float64Array  # (m,) fraction of annotators who separate the two superpixels
    weight: Float64Array  # (m,)
    add_context: Callable[[Float64Array], Float64Array]  # all cues, from a first estimate (m,) of the log odds


def learn_folds(
    images: Sequence[TrainingImage], groups: Sequence[Any], folder: Path, rounds: int = ROUNDS, **about: Any
) -> None:
    """Learn from all images, and without those of each group, and write the models into a folder.

    ``fold0.json`` and so on have not seen a group, in the order of the groups; ``boundaries.json`` has seen all.
    """

    def fit(left_out: frozenset[Any], rows: Sequence[Float64Array] | None = None) -> DecisionForest | None:
        kept = [image for image, group in zip(images, groups, strict=True) if group not in left_out]
        rows = [image.cues for image in kept] if rows is None else rows
        targets, weights = [image.target for image in kept], [image.weight for image in kept]
        return fit_trees(rows, targets, weights, rounds=rounds) if kept else None

    fit_first = cache(fit)
    folder.mkdir(parents=True, exist_ok=True)
    names = {f"fold{number}": frozenset([group]) for number, group in enumerate(sorted(set(groups)))}
    for name, left_out in {**names, "boundaries": frozenset[Any]()}.items():
        rows = []
        for image, group in zip(images, groups, strict=True):
            if group not in left_out:
                unseen = fit_first(left_out | {group})
                rows.append(image.add_context(unseen.scores(image.cues) if unseen else np.zeros(len(image.target))))
        first, second = fit_first(left_out), fit(left_out, rows)
        if first and second:
            BoundaryModel(first, second, **about).save(folder / f"{name}.json")


def extract_photograph(example: Example, settings: Settings) -> TrainingImage:
    """Read a photograph and compute its cues; long boundaries have a larger weight, and all images have the same."""
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


def learn_photographs(
    examples: Sequence[Example], folder: Path, settings: Settings, networks: Path | None = None
) -> None:
    """Learn the model of all images, and those that leave one fold out, and write them into a folder.

    `networks` has ``fold0.npz`` and so on, a network for each fold that has not seen its images.
    """
    fold = fold_of(len(examples)).tolist()
    names = ["none" if networks is None else str(networks / f"fold{k}.npz") for k in fold]
    images = [extract_photograph(e, settings.replace(network=name)) for e, name in zip(examples, names, strict=True)]
    learn_folds(images, fold, folder, network=networks is not None)


def fold_of(count: int) -> Int64Array:
    """Return the fold of each image, in the order of their names."""
    return np.arange(count) % FOLDS


def extract_section(example: Example) -> TrainingImage:
    """Read a section and compute its cues; only edges between superpixels in cells have a weight."""
    annotated = example.read()
    image = normalize_image(annotated.image, annotated.axes)
    sites = make_superpixels(image, preset("membranes"))
    graph = build_region_graph(image, sites)
    # The cell that most pixels of a superpixel lie in, 0 if they lie in none.
    truth = annotated.human_labels[0]
    table, numbers = contingency_table(sites, truth).toarray(), np.unique(truth)
    table[:, numbers == 0] = 0
    cell = np.where(table.any(axis=1), numbers[table.argmax(axis=1)], 0)
    i, j = graph.edges.T
    cues = compute_local_membrane_cues(scale_intensity(image), sites, graph)
    return TrainingImage(
        cues,
        (cell[i] != cell[j]).astype(np.float64),
        graph.length * ((cell[i] > 0) & (cell[j] > 0)),
        lambda odds: compute_context_membrane_cues(graph, cues, odds),
    )


def membrane_examples(folder: Path) -> list[Example]:
    """List the sections of a folder; pixels of membranes are not labelled."""
    return [example for example in list_labelled_folder(folder, True) if example.name.startswith("membrane")]


def fold_names(examples: Sequence[Example]) -> list[str]:
    """Return the group of each image: its name without the last character."""
    return [example.name[:-1] for example in examples]


def learn_membranes(examples: Sequence[Example], out: Path) -> None:
    """Learn from all images, and without each group, and write the models."""
    images = [extract_section(example) for example in examples]
    learn_folds(images, fold_names(examples), out, MEMBRANE_ROUNDS, cues="membranes")


# ---- fragments of objects


class ObjectImage(NamedTuple):
    """The cues of an image and their targets."""

    fragment_cues: Float64Array  # (fragments, cues)
    is_object: BoolArray  # (fragments,) most of it is in an object
    pair_cues: Float64Array  # (pairs, cues) of those of which at least one is an object
    is_same: BoolArray  # (pairs,) the two are the same object


def extract_fragments(values: NDArray[Any], labels: LabelImage, network: Network) -> ObjectImage:
    """Find the fragments of an image (h, w) or (h, w, c), and their targets from labels (h, w)."""
    maps = predict_objects(values, network)
    fragments = find_fragments(maps[..., INSIDE], maps[..., CENTRE])
    sites = make_object_sites(fragments, np.ones(fragments.shape, bool))
    graph = build_region_graph(NormalizedImage(maps[..., :1], False), sites)
    is_fragment = mark_fragments(sites, fragments)
    label = find_site_majority(sites, int(sites.max()), labels)
    sums = sum_fragments(sites, maps)
    i, j = graph.edges.T
    pairs = is_fragment[i] & is_fragment[j] & ((label[i] > 0) | (label[j] > 0))
    return ObjectImage(
        compute_fragment_cues(sums)[is_fragment],
        (label > 0)[is_fragment],
        compute_pair_cues(sites, maps, sums, graph.edges[pairs]),
        (label[i] == label[j])[pairs],
    )


def learn_objects(folder: str, out: str, networks: str) -> None:
    """Learn from all images, and without those of each fold, whose network has not seen them."""
    folds = [Network.load(file, "objects") for file in sorted(Path(networks).glob("fold*.npz"))]
    if len(folds) < 2:
        raise InputError(f"{networks!r} has no fold0.npz, fold1.npz ...: learn them by networks objects --folds 3")
    images = []
    for number, example in enumerate(list_labelled_folder(folder)):
        annotated = example.read()
        values, _ = read_channels(annotated.image, annotated.axes)
        images.append(extract_fragments(values, annotated.human_labels[0], folds[number % len(folds)]))
    drawn = draw_touching(np.random.default_rng(0), N_TOUCHING)
    more = [
        extract_fragments(values, labels, folds[number % len(folds)]) for number, (values, labels) in enumerate(drawn)
    ]
    Path(out).mkdir(parents=True, exist_ok=True)
    for fold in [None, *range(len(folds))]:
        kept = [image for number, image in enumerate(images) if number % len(folds) != fold]
        rows, is_object, pairs, is_same = zip(*kept, *more, strict=True)
        model = ObjectModel(
            fit_trees(rows, is_object, parameters=OBJECT_TREES), fit_trees(pairs, is_same, parameters=OBJECT_TREES)
        )
        model.save(Path(out, "objects.json" if fold is None else f"objects_fold{fold}.json"))


def write_reliability(folder: str, out: str, networks: str) -> None:
    """Segment every image with the network and the model of its fold, and write how often the posterior is right."""
    n_folds = len(list(Path(networks).glob("fold*.npz")))
    pairs = []
    for number, example in enumerate(list_labelled_folder(folder)):
        annotated, fold = example.read(), number % n_folds
        files = {"network": str(Path(networks, f"fold{fold}.npz")), "boundary_model": f"{out}/objects_fold{fold}.json"}
        result = segment(annotated.image, preset("microscopy", axes=annotated.axes, **files))
        if result.problem.has_fragments:
            pairs.append(list_pairs(result, annotated.human_labels[0]))
    probability, is_same = (np.concatenate(column) for column in zip(*pairs, strict=True))
    rows = tabulate_reliability(probability, is_same)
    write_csv(Path(out, "reliability.csv"), ("from", "to", "pairs", "said", "one"), rows)
    print("calibration: {:.3f} {:.3f} {:.3f}".format(*fit_calibration(probability, is_same)))


def list_pairs(result: Result, labels: LabelImage) -> tuple[Float64Array, BoolArray]:
    """List the probability (pairs,) that touching fragments are one object, and whether labels (h, w) say so."""
    problem = result.problem
    assert problem.signal is not None
    label = find_site_majority(problem.site_image, problem.n, labels)
    i, j = problem.edges.T
    bright = np.bincount(problem.site_image.ravel(), problem.signal.ravel() > OBJECT_SIGNAL / 2, problem.n + 1)[1:]
    is_fragment = 2 * bright > site_pixels(problem)
    pairs = is_fragment[i] & is_fragment[j] & ((label[i] > 0) | (label[j] > 0))
    return result.summary.same_object_probability[pairs], (label[i] == label[j])[pairs]


def fit_calibration(probability: Float64Array, is_same: NDArray[Any]) -> Float64Array:
    """Fit (3,) both slopes and the shift of :func:`napari_gsw.core.posterior.objects.calibrate`."""
    p = np.clip(probability, MIN_PROBABILITY, 1 - MIN_PROBABILITY)
    rows = np.stack((np.log(p), -np.log1p(-p), np.ones_like(p)), axis=1)

    def loss(coefficients: Float64Array) -> float:
        odds = rows @ coefficients
        return float(np.mean(np.logaddexp(0, odds) - is_same * odds))

    return np.asarray(minimize(loss, np.array([1.0, 1.0, 0.0]), method="BFGS").x)


def tabulate_reliability(probability: Float64Array, is_same: NDArray[Any], bins: int = 10) -> list[list[float]]:
    """Tabulate by bins of the probability: its range, the number of pairs, its mean and how often it is so."""
    index = np.minimum((probability * bins).astype(int), bins - 1)
    count = np.bincount(index, minlength=bins)
    with np.errstate(invalid="ignore"):
        mean, share = (np.bincount(index, values, bins) / count for values in (probability, is_same))
    edges = np.arange(bins + 1) / bins
    return [list(map(float, row)) for row in zip(edges[:-1], edges[1:], count, mean, share, strict=True)]


if __name__ == "__main__":
    kind, *words = sys.argv[1:]
    if kind == "photo":
        where, split, destination, *rest = words
        photo = preset("photo", coupling="contrast")
        learn_photographs(list_bsds(where, split), Path(destination), photo, Path(rest[0]) if rest else None)
    elif kind == "membranes":
        learn_membranes(membrane_examples(Path(words[0])), Path(words[1]))
    else:
        learn_objects(*words)
        write_reliability(*words)
