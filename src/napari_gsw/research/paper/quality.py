"""Quality of the presets on images that nothing was learnt from, beside other methods, and of the uncertainty.

Every method segments the same images. For images of the split that its couplings were learnt on, the photo preset uses
one of five models that has not seen the image (:mod:`napari_gsw.research.training.boundaries`). For both presets, the
frequency with which annotators draw boundaries is compared with their predicted probability, and the uncertainty is
scored as a detector of wrong boundaries.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

from napari_gsw.batch.jobs import Record
from napari_gsw.core.array_types import Float64Array
from napari_gsw.core.features.site_features import ImageFeatures
from napari_gsw.core.graph.boundary_model import load_boundary_model
from napari_gsw.core.image.normalized_image import normalize_image
from napari_gsw.core.posterior.calibrated_boundary import calibrate_boundary_odds
from napari_gsw.core.posterior.result import Result
from napari_gsw.core.posterior.uncertainty import find_boundary_faces
from napari_gsw.core.settings.presets import preset
from napari_gsw.methods import choose, segment
from napari_gsw.research.evaluation.data_sets import AnnotatedImage, Example, spread
from napari_gsw.research.evaluation.evaluate import LEVELS, MEASURES, find_typical_human, score_partition
from napari_gsw.research.evaluation.level_scores import find_best_levels, score_levels
from napari_gsw.research.figures import INKS, make_figure, tidy_axes
from napari_gsw.research.paper.experiment import (
    Study,
    available_methods,
    can_learn,
    gather,
    markdown_table,
    mean_and_median,
    p_value,
)
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


def score(example: Example, methods: Sequence[str], model: str, network: str, seed: int) -> Record:
    """Score every method and the uncertainty on an image, with a model and a network that have not seen it."""
    annotated = example.read()
    typical = find_typical_human(annotated.human_labels)
    record: Record = {}
    for name in methods:
        is_learnt = name == "photo" or name in SIGNED_GRAPHS
        changes = {"axes": annotated.axes} | ({"boundary_model": model, "network": network} if is_learnt else {})
        choice = choose("gsw" if name in OURS else name, "photo" if is_learnt else "general", changes)
        start = time.perf_counter()
        outcome = segment(annotated.image, choice, seed)
        seconds = time.perf_counter() - start
        record[name] = {**score_partition(outcome.labels, annotated, typical), "seconds": seconds}
        if outcome.result is not None and not annotated.ignore_background:
            record[name]["uncertainty"] = score_uncertainty(outcome.result, annotated, model, network)
            sites, tree = outcome.result.problem.site_image, outcome.result.hierarchy
            record[name][LEVELS] = score_levels(sites, tree, annotated.human_labels)
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
    uncertainty = 2 * np.minimum(calibrated, 1 - calibrated)

    def count(score: Float64Array, chosen: Any) -> list[list[float]]:
        index = np.minimum((score * FINE_BINS).astype(int), FINE_BINS - 1)
        return [
            np.bincount(index[mask], length[mask], FINE_BINS).tolist() for mask in (~wrong & chosen, wrong & chosen)
        ]

    return {
        "posterior": bin_by_probability(1 - result.snapshot.together, human, length),
        "calibrated": bin_by_probability(calibrated, human, length),
        "errors": count(uncertainty, np.ones(len(wrong), bool)),
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
    problem = result.problem
    tolerance = default_tolerance(annotated.human_labels[0].shape)
    near = np.mean(
        [dilate_boundaries(find_boundaries(human), tolerance) for human in annotated.human_labels], axis=0
    ).ravel()
    first, second, edge = find_boundary_faces(problem)
    count = np.bincount(edge, minlength=len(problem.edges))
    return np.bincount(edge, (near[first] + near[second]) / 2, len(problem.edges)) / np.maximum(count, 1)


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
    methods = available_methods((*OURS, *PEERS, *SIGNED_GRAPHS))
    data: dict[str, Any] = {}
    for data_set, examples in study.compared_data().items():
        models = dict(zip(examples, find_models(examples, study.folder / "boundaries", study.quick), strict=True))
        networks = dict(zip(examples, find_networks(examples, study.folder / "networks"), strict=True))
        chosen = spread(examples, study.image_limit(QUICK_IMAGES))
        tasks = {e.name: (e, methods, models[e], networks[e], study.seed) for e in chosen}
        depends_on = {"methods": methods, "settings": [preset(name).to_dict() for name in OURS]}
        title = f"quality-{data_set.lower()}"
        records = study.run(title, score, tasks, depends_on, chosen, prefix=f"{data_set}/")
        couplings = "shipped model" if {models[e] for e in chosen} == {"shipped"} else "held out"
        data[data_set] = summarize(list(records.values()), methods) | {"couplings": couplings}
    study.write_json("quality", data=data)
    study.write_markdown("quality", format_markdown(data))
    _draw(data, study)


def find_models(examples: Sequence[Example], folder: Path, quick: bool) -> list[str]:
    """Find or learn for each example a boundary model that has not seen it, as far as possible."""
    if not are_training_images(examples):
        return ["shipped"] * len(examples)
    if not can_learn(quick):
        print("napari-gsw: photo has learnt from these very images", file=sys.stderr)
        return ["shipped"] * len(examples)
    if not _has_folds(folder, "json"):
        print("napari-gsw: learning couplings for five folds of the images (minutes)", file=sys.stderr)
        networks = folder.parent / "networks"
        learn_all(examples, folder, preset("photo", coupling="contrast"), networks if _has_folds(networks) else None)
    return [str(folder / f"fold{k}.json") for k in fold_of(len(examples))]


def find_networks(examples: Sequence[Example], folder: Path) -> list[str]:
    """Find for each example a network that has not seen it, or none."""
    if not are_training_images(examples):
        return ["shipped"] * len(examples)
    return [str(folder / f"fold{k}.npz") if _has_folds(folder) else "none" for k in fold_of(len(examples))]


def _has_folds(folder: Path, suffix: str = "npz") -> bool:
    return all((folder / f"fold{k}.{suffix}").exists() for k in range(FOLDS))


def are_training_images(examples: Sequence[Example]) -> bool:
    """Return whether the bundled couplings and their network were learnt from these images."""
    return len(examples) >= 2 * FOLDS and all(e.kind == "bsds" and e.image.parent.name == LEARNT_ON for e in examples)


def summarize(records: Sequence[Record], methods: Sequence[str]) -> dict[str, Any]:
    """Compute means of each method, p-values of ours against each peer, and scores of our uncertainty."""
    content: dict[str, Any] = {"images": len(records), "methods": {}}
    if not records:
        return content
    values = {name: gather(records, name, MEASURES) for name in methods}
    for name in methods:
        method: dict[str, Any] = mean_and_median(values[name])
        if name in OURS:
            method["p_value"] = {
                peer: {m: p_value(values[name][m], values[peer][m]) for m in TESTED} for peer in PEERS if peer in values
            }
            scored = [record[name] for record in records if "uncertainty" in record[name]]
            if scored:
                method["uncertainty"] = _pool([record["uncertainty"] for record in scored])
                method[LEVELS] = find_best_levels([record[LEVELS] for record in scored])
        content["methods"][name] = method
    return content


def _pool(counts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Compute areas, curves and calibration errors from the counts of all images."""
    total = {key: np.sum([count[key] for count in counts], axis=0) for key in counts[0]}
    content: dict[str, Any] = {f"{key}_detection_area": detection_area(*total[key]) for key in ("errors", "drawn")}
    for key in ("posterior", "calibrated"):
        weight, probability, human = total[key].T
        used = weight > 0
        content[key] = {
            "said": (probability[used] / weight[used]).tolist(),
            "people": (human[used] / weight[used]).tolist(),
            "faces": weight[used].tolist(),
            "calibration_error": float(np.abs(probability - human).sum() / weight.sum()),
        }
    return content


def format_markdown(data: Mapping[str, Any]) -> str:
    """Format the tables and the figures of the uncertainty."""
    head = ("method", "Rand, all humans", "VI", "covering", "adjusted Rand", "boundary F", "regions", "seconds")
    formats = {
        "probabilistic_rand": ".4f", "variation_of_information": ".3f", "covering": ".4f", "adjusted_rand": ".3f",
        "boundary_f": ".3f", "n_regions": ".1f", "seconds": ".2f",
    }  # fmt: skip
    text = []
    for data_set, summary in data.items():
        methods = summary["methods"]
        rows = [[name, *(format(m["mean"][k], f) for k, f in formats.items())] for name, m in methods.items()]
        title = f"### {data_set} ({summary['images']} images, photo: {summary.get('couplings', '')})\n"
        text += [title, markdown_table(head, rows)]
        for name, method in methods.items():
            for peer, p in method.get("p_value", {}).items():
                values = ", ".join(f"{MEASURES[m][0]} {v:.2g}" for m, v in p.items())
                text.append(f"- {name} against {peer}, Wilcoxon's p: {values}")
            if "uncertainty" in method:
                u = method["uncertainty"]
                text.append(
                    f"- {name}: calibration error {u['calibrated']['calibration_error']:.3f} (posterior itself "
                    f"{u['posterior']['calibration_error']:.3f}); area under the error-detection curve "
                    f"{u['errors_detection_area']:.3f}, of drawn boundaries alone {u['drawn_detection_area']:.3f}"
                )
        text.append("")
    return "\n".join(text) + "\nAll figures are means over the images.\n"


def _draw(data: Mapping[str, Any], study: Study) -> None:
    """Draw how often annotators draw a boundary against its predicted probability."""
    curves = [
        (data_set, name, method["uncertainty"])
        for data_set, summary in data.items()
        for name, method in summary["methods"].items()
        if "uncertainty" in method
    ]
    if not curves:
        return
    figure = make_figure(4.4 * len(curves), 4.2)
    for axes, (data_set, name, curve) in zip(np.atleast_1d(figure.subplots(1, len(curves))), curves, strict=True):
        axes.plot([0, 1], [0, 1], color="#bbbbbb", linewidth=1)
        for key, ink in (("posterior", INKS[1]), ("calibrated", INKS[4])):
            axes.plot(curve[key]["said"], curve[key]["people"], "o-", color=ink, label=key, markersize=4)
        axes.legend(frameon=False, fontsize=8)
        axes.set_aspect("equal")
        tidy_axes(axes, "said to be a boundary", "people who draw it", f"{name}, {data_set}")
    study.save_figure("quality", figure)
