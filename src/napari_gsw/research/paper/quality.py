"""Quality of the presets on images that nothing was learnt from, beside other methods, and of the uncertainty.

Every method segments the same images. For images of the split that its couplings were learnt on, the photo preset uses
one of five models that has not seen the image (:mod:`napari_gsw.research.training.boundaries`). For both presets, the
frequency with which annotators draw boundaries is compared with their predicted probability, and the uncertainty is
scored as a detector of wrong boundaries.

    python -m napari_gsw.research.paper.quality BSDS SPLIT MODELS [NETWORKS]

fits the curve of :mod:`napari_gsw.core.posterior.calibrated_boundary` to the annotators. MODELS and NETWORKS are the
output folders of ``napari_gsw.research.training.boundaries`` and ``networks``: the log odds of each image come from the
model and the network of five that have not seen it. It prints the curve of all images, and the calibration errors of
curves that are fitted to half of the images on the other half.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, xlog1py, xlogy

from napari_gsw.batch.jobs import Record
from napari_gsw.core.array_types import Float64Array
from napari_gsw.core.features.site_features import ImageFeatures
from napari_gsw.core.graph.boundary_model import load_boundary_model
from napari_gsw.core.image.normalized_image import normalize_image
from napari_gsw.core.pipeline.segment import segment
from napari_gsw.core.posterior.calibrated_boundary import calibrate_boundary_odds
from napari_gsw.core.posterior.regions import boundary_log_odds
from napari_gsw.core.posterior.result import Result
from napari_gsw.core.posterior.uncertainty import find_boundary_faces
from napari_gsw.core.settings.presets import preset
from napari_gsw.methods import Choice, choose
from napari_gsw.research.evaluation.data_sets import AnnotatedImage, Example, list_bsds, spread
from napari_gsw.research.evaluation.evaluate import (
    LEVELS,
    MEASURES,
    find_best_levels,
    score_image,
    score_levels,
)
from napari_gsw.research.figures import INKS, make_figure, tidy_axes
from napari_gsw.research.paper import experiment
from napari_gsw.research.paper.experiment import Study
from napari_gsw.research.training.boundaries import FOLDS, fold_of, learn_all
from napari_gsw.scores.partitions import default_tolerance, dilate_boundaries, find_boundaries

OURS = ("general", "photo")
PEERS = ("felzenszwalb", "mean-shift")
# They partition the superpixels of the photo preset by its couplings.
SIGNED_GRAPHS = ("mutex-watershed", "multicut", "gasp")
TESTED = ("probabilistic_rand", "variation_of_information", "covering")
# The split that the bundled couplings were learnt on.
LEARNT_ON = "train"
# Bins of probabilities, and of the scores from which the area under a curve is computed.
BINS, FINE_BINS = 10, 200
QUICK_IMAGES = 4


def score(example: Example, fold: int, seed: int, choices: Sequence[Mapping[str, Choice]]) -> Record:
    """Score every method and the uncertainty on an image, with a model and a network that have not seen it."""
    annotated = example.read()
    learnt = choices[fold]["photo"].settings
    record: Record = {}
    for name, choice in choices[fold].items():
        record[name], outcome = score_image(annotated, choice, seed)
        if outcome.result is not None and not annotated.ignore_background:
            args = (outcome.result, annotated, learnt.boundary_model, learnt.network)
            record[name] |= {"uncertainty": score_uncertainty(*args), **score_levels(outcome, annotated)}
    return record


def score_uncertainty(result: Result, annotated: AnnotatedImage, model: str, network: str) -> dict[str, Any]:
    """Count what annotators draw along the edges of the region graph, by what the model says.

    ``posterior`` and ``calibrated`` are as of :func:`bin_by_probability`. ``errors`` and ``drawn`` are (2, fine bins):
    faces that are right and faces that are wrong by their uncertainty, of all edges and of those on boundaries of the
    result.
    """
    problem = result.problem
    assert problem.graph is not None
    human = annotator_agreement(result, annotated)
    length = problem.graph.length
    learnt, has_network = predict_boundary_odds(result, annotated, model, network)
    calibrated = expit(calibrate_boundary_odds(learnt, result.snapshot.together, has_network))
    i, j = problem.edges.T
    drawn = result.regions[i] != result.regions[j]
    wrong = drawn != (human >= 0.5)

    def count(score: Float64Array, chosen: Any) -> list[list[float]]:
        index = np.minimum((score * FINE_BINS).astype(int), FINE_BINS - 1)
        masks = (~wrong & chosen, wrong & chosen)
        return [np.bincount(index[mask], length[mask], FINE_BINS).tolist() for mask in masks]

    return {
        "posterior": bin_by_probability(1 - result.snapshot.together, human, length),
        "calibrated": bin_by_probability(calibrated, human, length),
        "errors": count(2 * np.minimum(calibrated, 1 - calibrated), True),
        "drawn": count(1 - calibrated, drawn),
    }


def predict_boundary_odds(
    result: Result, annotated: AnnotatedImage, model: str, network: str
) -> tuple[Float64Array, bool]:
    """Predict (m,) log odds of an annotator's boundary along every edge, and whether a network was used.

    `model` is a file or ``shipped``; `network` is a file, ``shipped`` or ``none``.
    """
    problem = result.problem
    assert problem.graph is not None
    settings = (problem.settings or preset("general")).replace(network=network)
    features = ImageFeatures([normalize_image(annotated.image, settings.axes)], [problem.site_image], settings)
    boundary_model = load_boundary_model(model, features.has_network)
    return boundary_model.log_odds(features, problem.graph), boundary_model.network


def annotator_agreement(result: Result, annotated: AnnotatedImage) -> Float64Array:
    """Compute (m,) the fraction of annotators with a boundary near an edge, averaged along it."""
    m, humans = len(result.problem.edges), annotated.human_labels
    tolerance = default_tolerance(humans[0].shape)
    near = np.mean([dilate_boundaries(find_boundaries(human), tolerance) for human in humans], axis=0).ravel()
    first, second, edge = find_boundary_faces(result.problem)
    return np.bincount(edge, (near[first] + near[second]) / 2, m) / np.maximum(np.bincount(edge, minlength=m), 1)


def bin_by_probability(probability: Float64Array, human: Float64Array, weight: Float64Array) -> list[list[float]]:
    """Compute (bins, 3): weight, weighted sum of the probability, and of the annotators, by the probability."""
    index = np.minimum((probability * BINS).astype(int), BINS - 1)
    columns = (weight, weight * probability, weight * human)
    return [list(row) for row in zip(*(np.bincount(index, c, BINS).tolist() for c in columns), strict=True)]


def detection_area(right: Float64Array, wrong: Float64Array) -> float:
    """Compute the probability that a wrong face is more uncertain than a right one, from (bins,) counts; ties are half.

    Examples
    --------
    >>> detection_area(np.array([3.0, 1.0]), np.array([0.0, 2.0]))
    0.875
    """
    below = np.cumsum(right) - right
    return float((wrong * (below + right / 2)).sum() / max(right.sum() * wrong.sum(), 1e-12))


def reproduce(study: Study) -> None:
    """Segment and score, and write ``quality.json``, ``.md`` and ``.png``."""
    data: dict[str, Any] = {}
    for data_set, examples in study.compared_data().items():
        choices, folds = choose_methods(examples, study)
        chosen = spread(examples, study.count(None, QUICK_IMAGES))
        cases = {example.name: (example, folds[example]) for example in chosen}
        records = study.run(f"quality-{data_set.lower()}", score, cases, choices=choices)
        is_held_out = choices[0]["photo"].settings.boundary_model != "shipped"
        couplings = "held out" if is_held_out else "shipped model"
        data[data_set] = summarize(list(records.values())) | {"couplings": couplings}
    text = [
        experiment.format_methods(f"{name} ({of['images']} images, photo: {of['couplings']})", of["methods"], MEASURES)
        for name, of in data.items()
    ]
    study.write("quality", {"data": data}, text="".join(text) + "All figures are means over the images.\n")
    _draw(data, study)


def choose_methods(examples: Sequence[Example], study: Study) -> tuple[list[dict[str, Choice]], dict[Example, int]]:
    """Choose the methods of each fold, and the fold of each example.

    The models of the package are used for all but the images that they were learnt from.
    """
    changes = [{"boundary_model": "shipped", "network": "shipped"}] * FOLDS
    if len(examples) >= 2 * FOLDS and all(e.kind == "bsds" and e.image.parent.name == LEARNT_ON for e in examples):
        networks = [study.folder / "networks" / f"fold{k}.npz" for k in range(FOLDS)]
        models = [study.folder / "boundaries" / f"fold{k}.json" for k in range(FOLDS)]
        has_networks = all(network.exists() for network in networks)
        settings, network_folder = preset("photo", coupling="contrast"), networks[0].parent if has_networks else None
        learn = partial(learn_all, examples, models[0].parent, settings, network_folder)
        if experiment.has_models(models, learn, study.quick, "photographs"):
            changes = [{"boundary_model": str(model), "network": "none"} for model in models]
        if has_networks:
            changes = [c | {"network": str(network)} for c, network in zip(changes, networks, strict=True)]
    names = experiment.available_methods((*OURS, *PEERS, *SIGNED_GRAPHS))
    choices = []
    for change in changes:
        learnt = {"photo": choose("gsw", "photo", change)}
        learnt |= {name: choose(name, "photo", change) for name in names if name in SIGNED_GRAPHS}
        choices.append({n: learnt.get(n) or choose("gsw" if n in OURS else n, "general") for n in names})
    return choices, dict(zip(examples, fold_of(len(examples)), strict=True))


def summarize(records: Sequence[Record]) -> dict[str, Any]:
    """Compute means of each method, p-values of ours against each peer, and scores of our uncertainty."""
    methods = experiment.summarize_methods(records, MEASURES, OURS, PEERS, TESTED)
    for name in methods:
        scored = [record[name] for record in records if "uncertainty" in record[name]]
        if scored:
            methods[name]["uncertainty"] = _pool([row["uncertainty"] for row in scored])
            methods[name][LEVELS] = find_best_levels([row[LEVELS] for row in scored])
    return {"images": len(records), "methods": methods}


def _pool(counts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Compute areas, curves and calibration errors from the counts of all images."""
    total = {key: np.sum([count[key] for count in counts], axis=0) for key in counts[0]}
    content: dict[str, Any] = {f"{key}_detection_area": detection_area(*total[key]) for key in ("errors", "drawn")}
    for key in ("posterior", "calibrated"):
        weight, probability, human = total[key][total[key][:, 0] > 0].T
        content[key] = {
            "said": (probability / weight).tolist(),
            "people": (human / weight).tolist(),
            "faces": weight.tolist(),
            "calibration_error": float(np.abs(probability - human).sum() / weight.sum()),
        }
    return content


def _draw(data: Mapping[str, Any], study: Study) -> None:
    """Draw how often annotators draw a boundary against its predicted probability."""
    curves = {
        f"{name}, {data_set}": method["uncertainty"]
        for data_set, summary in data.items()
        for name, method in summary["methods"].items()
        if "uncertainty" in method
    }
    if not curves:
        return
    figure = make_figure(4.4 * len(curves), 4.2)
    for axes, (title, curve) in zip(figure.subplots(1, len(curves), squeeze=False)[0], curves.items(), strict=True):
        axes.plot([0, 1], [0, 1], color="#bbbbbb", linewidth=1)
        for key, ink in (("posterior", INKS[1]), ("calibrated", INKS[4])):
            axes.plot(curve[key]["said"], curve[key]["people"], "o-", color=ink, label=key, markersize=4)
        axes.legend(frameon=False, fontsize=8)
        axes.set_aspect("equal")
        tidy_axes(axes, "said to be a boundary", "people who draw it", title)
    study.write("quality", figure=figure)


# ---- the curve that calibrates the probability of a boundary


def collect_edges(example: Example, name: str, model: str, network: str = "none") -> Float64Array:
    """Collect (edges, 4) of an image and a preset: learnt log odds, log odds of the posterior, annotators, length."""
    annotated = example.read()
    changes = {"boundary_model": model, "network": network} if name == "photo" else {}
    result = segment(annotated.image, preset(name, axes=annotated.axes, **changes), seed=0)
    assert result.problem.graph is not None
    learnt, _ = predict_boundary_odds(result, annotated, model, network)
    posterior = boundary_log_odds(result.snapshot.together)
    return np.column_stack((learnt, posterior, annotator_agreement(result, annotated), result.problem.graph.length))


def fit_curve(edges: Float64Array) -> Float64Array:
    """Fit the curve of maximum likelihood: (3,) intercept, weight of the learnt odds, weight of the posterior."""
    odds = np.column_stack((np.ones(len(edges)), edges[:, :2]))
    human, length = edges[:, 2], edges[:, 3] / edges[:, 3].sum()

    def loss(curve: Float64Array) -> float:
        probability = expit(odds @ curve)
        return -float((length * (xlogy(human, probability) + xlog1py(1 - human, -probability))).sum())

    # Where the posterior adds nothing to the learnt log odds, its weight is 0 and not slightly negative.
    return np.asarray(minimize(loss, np.array([0.0, 1.0, 0.0]), bounds=((None, None), (0, None), (0, None))).x)


def calibration_error(edges: Float64Array, curve: Float64Array) -> float:
    """Compute the mean difference of predicted probability and annotators, in bins of the probability."""
    probability = expit(curve[0] + edges[:, :2] @ curve[1:])
    weight, predicted, human = np.transpose(bin_by_probability(probability, edges[:, 2], edges[:, 3]))
    return float(np.abs(predicted - human).sum() / weight.sum())


def main(folder: str, split: str, models: str, networks: str | None = None) -> None:
    """Fit, and print."""
    examples = list_bsds(folder, split)
    edges: list[Float64Array] = []
    for example, fold in zip(examples, fold_of(len(examples)), strict=True):
        model = str(Path(models, f"fold{fold}.json"))
        network = "none" if networks is None else str(Path(networks, f"fold{fold}.npz"))
        edges.append(np.concatenate([collect_edges(example, name, model, network) for name in OURS]))
    print("curve", ", ".join(f"{x:.3f}" for x in fit_curve(np.concatenate(edges))))
    even, odd = np.concatenate(edges[::2]), np.concatenate(edges[1::2])
    for fitted, other in ((even, odd), (odd, even)):
        print(f"of half of the images, on the others: error {calibration_error(other, fit_curve(fitted)):.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
