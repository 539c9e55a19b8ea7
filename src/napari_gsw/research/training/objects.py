"""Learn which fragments of objects are one, from labels and from networks that have not seen the pictures.

    python -m napari_gsw.research.training.objects FOLDER OUT NETWORKS

FOLDER has images/ and labels/, 0 for the background; NETWORKS the files that object_network wrote with ``--folds``.
Writes OUT/objects.json, learnt from all pictures, and OUT/objects_fold0.json and so on, each learnt without the
pictures of its fold; and OUT/reliability.csv: how often two fragments are one object where the posterior says how
probable that is, with a network and a model that have not seen the picture. The three numbers that bring it to how
often they are one are printed (core/posterior/objects.py has those of the package).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from napari_gsw.core.array_types import Float64Array, Int64Array, LabelImage
from napari_gsw.core.errors import InputError
from napari_gsw.core.features.network import Network
from napari_gsw.core.features.object_network import CENTRE, INSIDE, predict_objects
from napari_gsw.core.graph.boundary_model import DecisionForest
from napari_gsw.core.graph.object_cues import compute_fragment_cues, compute_pair_cues, sum_fragments
from napari_gsw.core.graph.object_model import ObjectModel
from napari_gsw.core.graph.region_graph import build_region_graph
from napari_gsw.core.image.foreground_signal import OBJECT_SIGNAL
from napari_gsw.core.image.normalized_image import NormalizedImage, check_image, select_channels
from napari_gsw.core.pipeline.segment import segment
from napari_gsw.core.posterior.objects import MIN_PROBABILITY
from napari_gsw.core.posterior.result import Result
from napari_gsw.core.posterior.uncertainty import count_site_pixels
from napari_gsw.core.settings.presets import preset
from napari_gsw.core.sites.fragments import find_fragments, make_object_sites, mark_fragments
from napari_gsw.files.results import write_csv
from napari_gsw.research.evaluation.data_sets import AnnotatedImage, list_labelled_folder
from napari_gsw.research.training.boundaries import as_forest
from napari_gsw.research.training.network_objects import touching_pictures

TREES = {
    "objective": "binary",
    "num_leaves": 8,
    "learning_rate": 0.05,
    "min_data_in_leaf": 30,
    "feature_fraction": 0.7,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "seed": 0,
    "deterministic": True,
    "num_threads": 1,
    "verbose": -1,
}
ROUNDS = 120
# Pictures of round shapes that overlap, which every model learns from too: people part them, and nuclei seldom look so.
TOUCHING = 8


class ObjectLook(NamedTuple):
    """What is learnt from one picture.

    Attributes
    ----------
    own, is_object : (fragments, cues), and whether most of a fragment is in an object.
    pair, one : (pairs, cues) of those of which at least one is an object, and whether they are the same one.
    """

    own: Float64Array
    is_object: Int64Array
    pair: Float64Array
    one: Int64Array


def object_look(scene: AnnotatedImage, network: Network) -> ObjectLook:
    """The fragments of a picture, and what its labels say of them."""
    values, _ = select_channels(scene.image, check_image(scene.image, scene.axes))
    return look_at(values, scene.human_labels[0], network)


def look_at(values: NDArray[Any], labels: LabelImage, network: Network) -> ObjectLook:
    """The fragments of values (h, w) or (h, w, c), and what labels (h, w) say of them."""
    maps = predict_objects(values, network)
    pieces = find_fragments(maps[..., INSIDE], maps[..., CENTRE])
    sites = make_object_sites(pieces, None)
    graph = build_region_graph(NormalizedImage(maps[..., :1], False), sites)
    fragment = mark_fragments(sites, pieces)
    best = _most_of(sites, labels)
    sums = sum_fragments(sites, maps)
    i, j = graph.edges.T
    touching = fragment[i] & fragment[j]
    known = ((best[i] > 0) | (best[j] > 0))[touching]
    one = (best[i] == best[j])[touching][known]
    return ObjectLook(
        compute_fragment_cues(sums)[fragment],
        (best > 0)[fragment].astype(np.int64),
        compute_pair_cues(sites, maps, sums, graph.edges[touching])[known],
        one.astype(np.int64),
    )


def learn(looks: Sequence[ObjectLook]) -> ObjectModel:
    """The two forests of some pictures."""
    own = fitted([one.own for one in looks], [one.is_object for one in looks])
    return ObjectModel(own, fitted([one.pair for one in looks], [one.one for one in looks]))


def fitted(rows: Sequence[Float64Array], targets: Sequence[Int64Array]) -> DecisionForest:
    """Boosted trees for the log odds of a target of 0 or 1."""
    import lightgbm

    data = lightgbm.Dataset(np.concatenate(rows), np.concatenate(targets))
    return as_forest(lightgbm.train(dict(TREES), data, ROUNDS).dump_model()["tree_info"])


def learn_folds(folder: str, out: str, networks: str, report: Callable[[int], None] = lambda done: None) -> None:
    """Learn from all pictures, and without those of each fold; the network of a fold has not seen them."""
    files = sorted(Path(networks).glob("fold*.npz"))
    examples = list_labelled_folder(folder)
    if len(files) < 2:
        raise InputError(f"{networks!r} has no fold0.npz, fold1.npz ...: teach them by object_network --folds 3")
    folds = [Network.load(file, "objects") for file in files]
    looks = []
    for number, example in enumerate(examples):
        looks.append(object_look(example.read(), folds[number % len(folds)]))
        report(number + 1)
    drawn = touching_pictures(np.random.default_rng(0), TOUCHING)
    more = [look_at(values, labels, folds[number % len(folds)]) for number, (values, labels) in enumerate(drawn)]
    target = Path(out)
    target.mkdir(parents=True, exist_ok=True)
    learn([*looks, *more]).save(target / "objects.json")
    for fold in range(len(folds)):
        others = [one for number, one in enumerate(looks) if number % len(folds) != fold]
        learn([*others, *more]).save(target / f"objects_fold{fold}.json")


def write_reliability(folder: str, out: str, networks: str) -> None:
    """Segment every picture with the network and the model of its fold, and write how often the posterior is right."""
    count = len(sorted(Path(networks).glob("fold*.npz")))
    said, one = [], []
    for number, example in enumerate(list_labelled_folder(folder)):
        scene, fold = example.read(), number % count
        files = {"network": str(Path(networks, f"fold{fold}.npz")), "boundary_model": f"{out}/objects_fold{fold}.json"}
        result = segment(scene.image, preset("microscopy", axes=scene.axes, **files))
        if result.problem.has_fragments:
            pairs = pairs_of(result, scene.human_labels[0])
            said.append(pairs[0])
            one.append(pairs[1])
    write_csv(Path(out, "reliability.csv"), ("from", "to", "pairs", "said", "one"), reliability(said, one))
    print("calibration: {:.3f} {:.3f} {:.3f}".format(*calibration(np.concatenate(said), np.concatenate(one))))


def pairs_of(result: Result, labels: LabelImage) -> tuple[Float64Array, Int64Array]:
    """(pairs,) of touching fragments how probable it is that they are one object, and whether labels (h, w) say so."""
    problem = result.problem
    assert problem.signal is not None
    best = _most_of(problem.site_image, labels)
    i, j = problem.edges.T
    bright = np.bincount(problem.site_image.ravel(), problem.signal.ravel() > OBJECT_SIGNAL / 2, problem.n + 1)[1:]
    fragment = 2 * bright > count_site_pixels(problem)
    known = fragment[i] & fragment[j] & ((best[i] > 0) | (best[j] > 0))
    return result.summary.same_object_probability[known], (best[i] == best[j])[known].astype(np.int64)


def calibration(said: Float64Array, one: Int64Array) -> Float64Array:
    """(3,) both slopes and the shift of :func:`napari_gsw.core.posterior.objects.calibrate`.

    Parameters
    ----------
    said, one : (pairs,) what the posterior says, and 1 where it is so.
    """
    p = np.clip(said, MIN_PROBABILITY, 1 - MIN_PROBABILITY)
    rows = np.stack((np.log(p), -np.log1p(-p), np.ones_like(p)), axis=1)

    def surprise(numbers: Float64Array) -> float:
        odds = rows @ numbers
        return float(np.mean(np.logaddexp(0, odds) - one * odds))

    return np.asarray(minimize(surprise, np.array([1.0, 1.0, 0.0]), method="BFGS").x)


def reliability(said: Sequence[Float64Array], one: Sequence[Int64Array], bins: int = 10) -> list[list[float]]:
    """Rows of a table: from which to which probability, how many pairs, what was said and what was so in the mean."""
    share, truth = np.concatenate(said), np.concatenate(one)
    step = np.minimum((share * bins).astype(int), bins - 1)
    rows = []
    for k in range(bins):
        here = step == k
        means = (float(share[here].mean()), float(truth[here].mean())) if here.any() else (float("nan"),) * 2
        rows.append([k / bins, (k + 1) / bins, float(here.sum()), *means])
    return rows


def _most_of(sites: LabelImage, labels: LabelImage) -> Int64Array:
    """(n,) the label that most pixels of each site have."""
    n, k = int(sites.max()), int(labels.max()) + 1
    pairs = np.bincount(sites.ravel().astype(np.int64) * k + labels.ravel(), minlength=(n + 1) * k)
    return np.asarray(pairs.reshape(n + 1, k)[1:].argmax(axis=1))


def main(words: Sequence[str] | None = None) -> None:
    """Learn from a folder, and write the models."""
    folder, out, networks = sys.argv[1:] if words is None else words
    learn_folds(folder, out, networks)
    write_reliability(folder, out, networks)


if __name__ == "__main__":
    main()
