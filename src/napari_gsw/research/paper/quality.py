"""Quality of the presets on images that nothing was learnt from, beside other methods, and of the uncertainty.

For images of the split that its couplings were learnt on, `photo` uses one of five models that has not seen the image.
The frequency with which annotators draw boundaries is compared with their probability, the uncertainty is scored as a
detector of wrong boundaries, and the curve of :mod:`napari_gsw.core.posterior.calibrated_boundary` is fitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, xlog1py, xlogy

from napari_gsw.batch.jobs import Record
from napari_gsw.core.array_types import BoolArray, Float64Array
from napari_gsw.core.features.site_features import ImageFeatures
from napari_gsw.core.graph.boundary_model import load_boundary_model
from napari_gsw.core.image.normalized_image import normalize_image
from napari_gsw.core.posterior.calibrated_boundary import calibrate_boundary_odds
from napari_gsw.core.posterior.regions import boundary_log_odds
from napari_gsw.core.posterior.result import Result
from napari_gsw.core.posterior.uncertainty import find_boundary_faces
from napari_gsw.core.settings.presets import preset
from napari_gsw.methods import Choice, choose
from napari_gsw.research.evaluation.data_sets import AnnotatedImage, Example, spread
from napari_gsw.research.evaluation.evaluate import MEASURES, score_image, score_levels
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
BINS, QUICK_IMAGES = 10, 4


def score(example: Example, fold: int, seed: int, choices: Sequence[Mapping[str, Choice]]) -> Record:
    """Score every method on an image, and collect the edges of ours."""
    annotated = example.read()
    learnt = choices[fold]["photo"].settings
    record: Record = {}
    for name, choice in choices[fold].items():
        record[name], outcome = score_image(annotated, choice, seed)
        if outcome.result is not None and not annotated.ignore_background:
            edges = collect_edges(outcome.result, annotated, learnt.boundary_model, learnt.network)
            record[name] |= {"edges": edges.round(6).tolist(), **score_levels(outcome, annotated)}
    return record


def collect_edges(result: Result, annotated: AnnotatedImage, model: str, network: str) -> Float64Array:
    """Collect (6, edges) of the region graph.

    The rows are the learnt log odds of a boundary, the posterior probability that the two ends are together, the
    calibrated probability of a boundary, the fraction of annotators who draw one, the number of faces, and whether the
    result has a boundary. `model` is a file or ``shipped``; `network` is a file, ``shipped`` or ``none``.
    """
    problem, together = result.problem, result.snapshot.together
    assert problem.graph is not None
    settings = (problem.settings or preset("general")).replace(network=network)
    features = ImageFeatures([normalize_image(annotated.image, settings.axes)], [problem.site_image], settings)
    boundary_model = load_boundary_model(model, features.has_network)
    learnt = boundary_model.log_odds(features, problem.graph)
    calibrated = expit(calibrate_boundary_odds(learnt, together, boundary_model.network))
    i, j = problem.edges.T
    drawn = result.regions[i] != result.regions[j]
    human = annotator_agreement(result, annotated)
    return np.stack((learnt, together, calibrated, human, problem.graph.length, drawn))


def annotator_agreement(result: Result, annotated: AnnotatedImage) -> Float64Array:
    """Compute (m,) the fraction of annotators with a boundary near an edge, averaged along it."""
    m, humans = len(result.problem.edges), annotated.human_labels
    tolerance = default_tolerance(humans[0].shape)
    near = np.mean([dilate_boundaries(find_boundaries(human), tolerance) for human in humans], axis=0).ravel()
    first, second, edge = find_boundary_faces(result.problem)
    return np.bincount(edge, (near[first] + near[second]) / 2, m) / np.maximum(np.bincount(edge, minlength=m), 1)


def bin_by_probability(probability: Float64Array, human: Float64Array, length: Float64Array) -> dict[str, Any]:
    """Compute how often annotators draw what is said to be so and so probable, and the mean difference of the two."""
    index = np.minimum((probability * BINS).astype(int), BINS - 1)
    faces, said, people = (np.bincount(index, x, BINS) for x in (length, length * probability, length * human))
    used = faces > 0
    return {
        "said": (said[used] / faces[used]).tolist(),
        "people": (people[used] / faces[used]).tolist(),
        "faces": faces[used].tolist(),
        "calibration_error": float(np.abs(said - people).sum() / faces.sum()),
    }


def detection_area(uncertainty: Float64Array, wrong: BoolArray, length: Float64Array) -> float:
    """Compute the probability that a wrong face is more uncertain than a right one; ties are half."""
    index = np.unique(uncertainty, return_inverse=True)[1]
    right_faces, wrong_faces = (np.bincount(index, length * chosen) for chosen in (~wrong, wrong))
    below = np.cumsum(right_faces) - right_faces
    area = (wrong_faces * (below + right_faces / 2)).sum()
    return float(area / max(right_faces.sum() * wrong_faces.sum(), 1e-12))


def fit_curve(edges: Float64Array) -> Float64Array:
    """Fit the curve of maximum likelihood: (3,) intercept, weight of the learnt odds, weight of the posterior."""
    learnt, together, _, human, length, _ = edges
    odds = np.column_stack((np.ones(len(learnt)), learnt, boundary_log_odds(together)))

    def loss(curve: Float64Array) -> float:
        probability = expit(odds @ curve)
        return -float((length * (xlogy(human, probability) + xlog1py(1 - human, -probability))).sum() / length.sum())

    # Where the posterior adds nothing to the learnt log odds, its weight is 0 and not slightly negative.
    return np.asarray(minimize(loss, np.array([0.0, 1.0, 0.0]), bounds=((None, None), (0, None), (0, None))).x)


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
    content = {"images": len(records), "methods": methods}
    scored = [record for record in records if "edges" in record["photo"]]
    for name in OURS if scored else ():
        edges = np.concatenate([record[name]["edges"] for record in scored], axis=1)
        _, together, calibrated, human, length, drawn = edges
        is_drawn = drawn > 0
        wrong = is_drawn != (human >= 0.5)
        methods[name]["uncertainty"] = {
            "errors_detection_area": detection_area(np.minimum(calibrated, 1 - calibrated), wrong, length),
            "drawn_detection_area": detection_area(1 - calibrated[is_drawn], wrong[is_drawn], length[is_drawn]),
            "posterior": bin_by_probability(1 - together, human, length),
            "calibrated": bin_by_probability(calibrated, human, length),
        }
    if len(scored) > 1:
        even, odd = (
            np.concatenate([record[name]["edges"] for record in half for name in OURS], axis=1)
            for half in (scored[::2], scored[1::2])
        )
        curve = fit_curve(even)
        probability = expit(curve[0] + curve[1] * odd[0] + curve[2] * boundary_log_odds(odd[1]))
        content["curve"] = fit_curve(np.concatenate((even, odd), axis=1)).tolist()
        content["curve_error_on_other_half"] = bin_by_probability(probability, *odd[3:5])["calibration_error"]
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
