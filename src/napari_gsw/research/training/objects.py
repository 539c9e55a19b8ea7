"""Learn which fragments belong to one object, from labels and from networks that have not seen the images.

    python -m napari_gsw.research.training.objects FOLDER OUT NETWORKS

FOLDER has images/ and labels/, 0 for the background; NETWORKS is the output folder of
:mod:`napari_gsw.research.training.networks` with ``--folds``. Writes OUT/objects.json, learnt from all images, and
OUT/objects_fold0.json and so on, each learnt without the images of its fold; and OUT/reliability.csv: how often two
fragments are one object, by the posterior probability of that, with a network and a model that have not seen the image.
Prints the three numbers that calibrate that probability (core/posterior/objects.py has those of the package).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from napari_gsw.core.array_types import BoolArray, Float64Array, LabelImage
from napari_gsw.core.errors import InputError
from napari_gsw.core.features.network import Network
from napari_gsw.core.features.object_network import CENTRE, INSIDE, predict_objects
from napari_gsw.core.graph.object_model import ObjectModel, compute_fragment_cues, compute_pair_cues, sum_fragments
from napari_gsw.core.graph.region_graph import build_region_graph
from napari_gsw.core.image.foreground_signal import OBJECT_SIGNAL
from napari_gsw.core.image.normalized_image import NormalizedImage, read_channels
from napari_gsw.core.model.problem import site_pixels
from napari_gsw.core.pipeline.segment import segment
from napari_gsw.core.posterior.objects import MIN_PROBABILITY
from napari_gsw.core.posterior.result import Result
from napari_gsw.core.settings.presets import preset
from napari_gsw.core.sites.site_values import find_site_majority
from napari_gsw.core.sites.superpixels import find_fragments, make_object_sites, mark_fragments
from napari_gsw.files.results import write_csv
from napari_gsw.research.evaluation.data_sets import list_labelled_folder
from napari_gsw.research.training.boundaries import fit_trees
from napari_gsw.research.training.pictures import draw_touching

TREES = {
    "objective": "binary", "num_leaves": 8, "learning_rate": 0.05, "min_data_in_leaf": 30, "feature_fraction": 0.7,
    "bagging_fraction": 0.8, "bagging_freq": 1, "seed": 0, "deterministic": True, "num_threads": 1, "verbose": -1,
}  # fmt: skip
# Synthetic images of round shapes that overlap, which every model learns from too: nuclei seldom look so.
N_TOUCHING = 8


class ObjectImage(NamedTuple):
    """The cues of an image and their targets."""

    fragment_cues: Float64Array  # (fragments, cues)
    is_object: BoolArray  # (fragments,) most of it is in an object
    pair_cues: Float64Array  # (pairs, cues) of those of which at least one is an object
    is_same: BoolArray  # (pairs,) the two are the same object


def extract_cues(values: NDArray[Any], labels: LabelImage, network: Network) -> ObjectImage:
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


def learn_folds(folder: str, out: str, networks: str) -> None:
    """Learn from all images, and without those of each fold, whose network has not seen them."""
    folds = [Network.load(file, "objects") for file in sorted(Path(networks).glob("fold*.npz"))]
    if len(folds) < 2:
        raise InputError(f"{networks!r} has no fold0.npz, fold1.npz ...: learn them by networks objects --folds 3")
    images = []
    for number, example in enumerate(list_labelled_folder(folder)):
        annotated = example.read()
        values, _ = read_channels(annotated.image, annotated.axes)
        images.append(extract_cues(values, annotated.human_labels[0], folds[number % len(folds)]))
    drawn = draw_touching(np.random.default_rng(0), N_TOUCHING)
    more = [extract_cues(values, labels, folds[number % len(folds)]) for number, (values, labels) in enumerate(drawn)]
    Path(out).mkdir(parents=True, exist_ok=True)
    for fold in [None, *range(len(folds))]:
        kept = [image for number, image in enumerate(images) if number % len(folds) != fold]
        rows, is_object, pairs, is_same = zip(*kept, *more, strict=True)
        model = ObjectModel(fit_trees(rows, is_object, parameters=TREES), fit_trees(pairs, is_same, parameters=TREES))
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
    learn_folds(*sys.argv[1:])
    write_reliability(*sys.argv[1:])
