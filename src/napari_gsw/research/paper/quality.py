"""How good the presets are on images that nothing was learnt from, beside other methods; and is the uncertainty right?

Every method segments the same images. The photo preset uses, for images of the split that its couplings were learnt on,
a model of five that has not seen the image (:mod:`napari_gsw.research.training.boundaries`). For both presets it is counted
how often people draw the boundaries that are said to be so and so probable, and how well uncertainty tells pixels on
wrong boundaries from the others.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from napari_gsw.batch.jobs import JobOptions, JobRecords, Record, run_jobs
from napari_gsw.core.array_types import BoolArray, Float64Array
from napari_gsw.core.features.site_features import ImageFeatures
from napari_gsw.core.graph.boundary_model import load_boundary_model
from napari_gsw.core.image.normalized_image import normalize_image
from napari_gsw.core.posterior.calibrated_boundary import calibrate_boundary_odds
from napari_gsw.core.posterior.result import Result
from napari_gsw.core.posterior.uncertainty import find_boundary_faces
from napari_gsw.core.settings.presets import preset
from napari_gsw.files.results import write_json, write_text
from napari_gsw.methods import choose, segment
from napari_gsw.research import figures
from napari_gsw.research.evaluation.data_sets import AnnotatedImage, Example, list_files
from napari_gsw.research.evaluation.evaluate import LEVELS, MEASURES, find_typical_human, score_partition
from napari_gsw.research.evaluation.level_scores import find_best_levels, score_levels
from napari_gsw.research.paper.comparison import available_methods, compared_data, p_value
from napari_gsw.research.paper.pictures import ExperimentPlan, spread
from napari_gsw.research.training.boundaries import FOLDS, fold_of, learn_all
from napari_gsw.scores.partitions import default_tolerance, dilate_boundaries, find_boundaries

OURS = ("general", "photo")
PEERS = ("felzenszwalb", "mean-shift")
# They divide the sites of the photo preset by its couplings.
RIVALS = ("mutex-watershed", "multicut", "gasp")
JUDGED = ("probabilistic_rand", "variation_of_information", "covering")
# The split that the shipped couplings were learnt on.
LEARNT_ON = "train"
BINS = 10
# Bins of the scores from which the area under a curve is computed.
FINE_BINS = 200
QUICK_IMAGES = 4


class QualityImage(NamedTuple):
    """An image that all methods segment, and the model of human boundaries and the network that have not seen it."""

    example: Example
    methods: tuple[str, ...]
    model: str
    network: str
    seed: int


def scored(task: QualityImage) -> Record:
    """Measures of every method on one image, and what its uncertainty is worth."""
    scene = task.example.read()
    typical = find_typical_human(scene.human_labels)
    row: Record = {}
    for name in task.methods:
        learnt = name == "photo" or name in RIVALS
        changes = {"axes": scene.axes} | ({"boundary_model": task.model, "network": task.network} if learnt else {})
        choice = choose("gsw" if name in OURS else name, "photo" if learnt else "general", changes)
        began = time.perf_counter()
        outcome = segment(scene.image, choice, task.seed)
        seconds = time.perf_counter() - began
        row[name] = {**score_partition(outcome.labels, scene, typical), "seconds": seconds}
        if outcome.result is not None and not scene.ignore_background:
            row[name]["uncertainty"] = judged(outcome.result, scene, task)
            sites, tree = outcome.result.problem.site_image, outcome.result.hierarchy
            row[name][LEVELS] = score_levels(sites, tree, scene.human_labels)
    return row


def judged(result: Result, scene: AnnotatedImage, task: QualityImage) -> dict[str, Any]:
    """What people say along every edge of the region graph, counted by what the model says.

    Faces of pixels are counted. ``posterior`` and ``calibrated`` are (bins, 3): faces, sum of what is said, sum of the
    share of people who agree. ``errors`` and ``drawn`` are (2, fine bins): faces that are right and faces that are
    wrong by their uncertainty, of all faces between sites, and of those on boundaries of the result.
    """
    problem = result.problem
    assert problem.graph is not None
    people = people_along(result, scene)
    length = problem.graph.length
    learnt, network = learnt_odds(result, scene, task.model, task.network)
    apart, human = (
        1 - result.snapshot.together,
        expit(calibrate_boundary_odds(learnt, result.snapshot.together, network)),
    )
    i, j = problem.edges.T
    drawn = result.regions[i] != result.regions[j]
    wrong = drawn != (people >= 0.5)
    unsure = 2 * np.minimum(human, 1 - human)
    return {
        "posterior": reliability(apart, people, length),
        "calibrated": reliability(human, people, length),
        "errors": _by_score(unsure, wrong, length),
        "drawn": _by_score(1 - human[drawn], wrong[drawn], length[drawn]),
    }


def learnt_odds(result: Result, scene: AnnotatedImage, model: str, network: str) -> tuple[Float64Array, bool]:
    """(m,) log odds of a human boundary along every edge, and whether a network was looked at for them.

    Parameters
    ----------
    model : a file, or ``shipped``.
    network : the one that the model looks at, if it looks at any: a file, ``shipped`` or ``none``.
    """
    problem = result.problem
    assert problem.graph is not None
    settings = (problem.settings or preset("general")).replace(network=network)
    features = ImageFeatures([normalize_image(scene.image, settings.axes)], [problem.site_image], settings)
    chosen = load_boundary_model(model, features.has_network)
    return chosen.log_odds(features, problem.graph), chosen.network


def people_along(result: Result, scene: AnnotatedImage) -> Float64Array:
    """(m,) share of the people with a boundary within reach of an edge, averaged along it."""
    problem = result.problem
    shape = scene.human_labels[0].shape
    tolerance = default_tolerance(shape)
    near = np.mean(
        [dilate_boundaries(find_boundaries(human), tolerance) for human in scene.human_labels], axis=0
    ).ravel()
    first, second, edge = find_boundary_faces(problem)
    count = np.bincount(edge, minlength=len(problem.edges))
    return np.bincount(edge, (near[first] + near[second]) / 2, len(problem.edges)) / np.maximum(count, 1)


def reliability(probability: Float64Array, people: Float64Array, weight: Float64Array) -> list[list[float]]:
    """(bins, 3): weight, sum of what is said and sum of the people who agree, by what is said."""
    index = np.minimum((probability * BINS).astype(int), BINS - 1)
    columns = (weight, weight * probability, weight * people)
    return [list(row) for row in zip(*(np.bincount(index, c, BINS).tolist() for c in columns), strict=True)]


def _by_score(unsure: Float64Array, wrong: BoolArray, weight: Float64Array) -> list[list[float]]:
    """(2, fine bins): weight of what is right and of what is wrong, by its uncertainty."""
    index = np.minimum((unsure * FINE_BINS).astype(int), FINE_BINS - 1)
    return [np.bincount(index[w], weight[w], FINE_BINS).tolist() for w in (~wrong, wrong)]


def area(right: Float64Array, wrong: Float64Array) -> float:
    """Probability that a wrong face is less sure than a right one, ties half: the area under the detection curve.

    Parameters
    ----------
    right, wrong : (bins,) faces that are right and faces that are wrong, by their uncertainty.

    Examples
    --------
    >>> area(np.array([3.0, 1.0]), np.array([0.0, 2.0]))
    0.875
    """
    below = np.cumsum(right) - right
    return float((wrong * (below + right / 2)).sum() / max(right.sum() * wrong.sum(), 1e-12))


def reproduce(plan: ExperimentPlan, job_options: JobOptions) -> JobRecords:
    """Segment and score, and write ``quality.json``, ``.md`` and ``.png``; returns the rows of all images."""
    methods = available_methods((*OURS, *PEERS, *RIVALS))
    limit = plan.image_limit(QUICK_IMAGES)
    done: dict[str, Record] = {}
    failed: dict[str, str] = {}
    content: dict[str, Any] = {"seed": plan.seed, "data": {}}
    for data_set, examples in compared_data(plan, job_options.folder).items():
        models = dict(zip(examples, models_for(examples, job_options.folder / "boundaries", plan.quick), strict=True))
        networks = dict(zip(examples, networks_for(examples, job_options.folder / "networks"), strict=True))
        some = spread(examples, limit)
        jobs = {e.name: QualityImage(e, methods, models[e], networks[e], plan.seed) for e in some}
        depends_on = {"seed": plan.seed, "methods": methods, "settings": [preset(name).to_dict() for name in OURS]}
        rows = run_jobs(f"quality-{data_set.lower()}", scored, jobs, depends_on, job_options, list_files(some))
        done |= {f"{data_set}/{name}": row for name, row in rows.done.items()}
        failed |= {f"{data_set}/{name}": reason for name, reason in rows.failed.items()}
        couplings = "shipped model" if {models[e] for e in some} == {"shipped"} else "held out"
        content["data"][data_set] = summarised(list(rows.done.values()), methods) | {"couplings": couplings}
    write_json(job_options.folder / "quality.json", content)
    write_text(job_options.folder / "quality.md", markdown(content["data"]))
    _draw(content["data"], job_options)
    return JobRecords(done, failed)


def models_for(examples: Sequence[Example], folder: Path, quick: bool) -> list[str]:
    """For each example a model of human boundaries that has not seen it, as far as that can be had."""
    if not are_learnt_from(examples):
        return ["shipped"] * len(examples)
    if quick or importlib.util.find_spec("lightgbm") is None:
        why = "--quick" if quick else 'no lightgbm: pip install "napari-gsw[learning]"'
        print(f"napari-gsw: photo has learnt from these very images ({why})", file=sys.stderr)
        return ["shipped"] * len(examples)
    if not all((folder / f"fold{k}.json").exists() for k in range(FOLDS)):
        print("napari-gsw: learning couplings for five folds of the images (minutes)", file=sys.stderr)
        networks = folder.parent / "networks"
        there = all((networks / f"fold{k}.npz").exists() for k in range(FOLDS))
        learn_all(examples, folder, preset("photo", coupling="contrast"), networks if there else None)
    return [str(folder / f"fold{k}.json") for k in fold_of(len(examples))]


def networks_for(examples: Sequence[Example], folder: Path) -> list[str]:
    """For each example a network that has not seen it: of the folds in the folder, or none where these are missing."""
    if not are_learnt_from(examples):
        return ["shipped"] * len(examples)
    if not all((folder / f"fold{k}.npz").exists() for k in range(FOLDS)):
        return ["none"] * len(examples)
    return [str(folder / f"fold{k}.npz") for k in fold_of(len(examples))]


def are_learnt_from(examples: Sequence[Example]) -> bool:
    """Whether these are the images that the shipped couplings and their network were learnt from."""
    return len(examples) >= 2 * FOLDS and all(e.kind == "bsds" and e.image.parent.name == LEARNT_ON for e in examples)


def summarised(rows: Sequence[Record], methods: Sequence[str]) -> dict[str, Any]:
    """Means of each method, p-values of ours against each peer, and the uncertainty of ours."""
    content: dict[str, Any] = {"images": len(rows), "methods": {}}
    if not rows:
        return content
    values = {name: {m: np.array([row[name][m] for row in rows]) for m in MEASURES} for name in methods}
    for name in methods:
        method: dict[str, Any] = {"mean": {m: float(v.mean()) for m, v in values[name].items()}}
        method["median"] = {m: float(np.median(v)) for m, v in values[name].items()}
        if name in OURS:
            method["p_value"] = {
                peer: {m: p_value(values[name][m], values[peer][m]) for m in JUDGED}
                for peer in methods
                if peer in PEERS
            }
            known = [row[name]["uncertainty"] for row in rows if "uncertainty" in row[name]]
            if known:
                method["uncertainty"] = _pooled(known)
                method[LEVELS] = find_best_levels([row[name][LEVELS] for row in rows if LEVELS in row[name]])
        content["methods"][name] = method
    return content


def _pooled(known: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What :func:`judged` has counted on all images, as areas, curves and calibration errors."""
    total = {key: np.sum([counts[key] for counts in known], axis=0) for key in known[0]}
    content: dict[str, Any] = {f"{key}_detection_area": area(*total[key]) for key in ("errors", "drawn")}
    for key in ("posterior", "calibrated"):
        weight, probability, people = total[key].T
        some = weight > 0
        content[key] = {
            "said": (probability[some] / weight[some]).tolist(),
            "people": (people[some] / weight[some]).tolist(),
            "faces": weight[some].tolist(),
            "calibration_error": float(np.abs(probability - people).sum() / weight.sum()),
        }
    return content


def markdown(data: Mapping[str, Any]) -> str:
    """The tables for a person."""
    text = []
    for data_set, summary in data.items():
        text += [
            f"### {data_set} ({summary['images']} images, photo: {summary.get('couplings', '')})\n",
            "| method | Rand, all humans | VI | covering | adjusted Rand | boundary F | regions | seconds |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for name, method in summary["methods"].items():
            m = method["mean"]
            text.append(
                f"| {name} | {m['probabilistic_rand']:.4f} | {m['variation_of_information']:.3f} | {m['covering']:.4f} "
                f"| {m['adjusted_rand']:.3f} | {m['boundary_f']:.3f} | {m['n_regions']:.1f} | {m['seconds']:.2f} |"
            )
        text.append("")
        for name, method in summary["methods"].items():
            for peer, p in method.get("p_value", {}).items():
                words = ", ".join(f"{MEASURES[m][0]} {v:.2g}" for m, v in p.items())
                text.append(f"- {name} against {peer}, Wilcoxon's p: {words}")
            if "uncertainty" in method:
                u = method["uncertainty"]
                text.append(
                    f"- {name}: calibration error {u['calibrated']['calibration_error']:.3f} (posterior itself "
                    f"{u['posterior']['calibration_error']:.3f}); area under the error-detection curve "
                    f"{u['errors_detection_area']:.3f}, of drawn boundaries alone {u['drawn_detection_area']:.3f}"
                )
        text.append("")
    return "\n".join(text) + "\nAll figures are means over the images.\n"


def _draw(data: Mapping[str, Any], job_options: JobOptions) -> None:
    """Reliability: how often people draw a boundary that is said to be so and so probable."""
    curves = [
        (data_set, name, method["uncertainty"])
        for data_set, summary in data.items()
        for name, method in summary["methods"].items()
        if "uncertainty" in method
    ]
    if not curves:
        return
    drawing = figures.figure(4.4 * len(curves), 4.2)
    for axes, (data_set, name, known) in zip(np.atleast_1d(drawing.subplots(1, len(curves))), curves, strict=True):
        axes.plot([0, 1], [0, 1], color="#bbbbbb", linewidth=1)
        for key, ink, words in (
            ("posterior", figures.INKS[1], "posterior"),
            ("calibrated", figures.INKS[4], "calibrated"),
        ):
            axes.plot(known[key]["said"], known[key]["people"], "o-", color=ink, label=words, markersize=4)
        axes.legend(frameon=False, fontsize=8)
        axes.set_aspect("equal")
        figures.tidy(axes, "said to be a boundary", "people who draw it", f"{name}, {data_set}")
    figures.save(drawing, job_options.folder / "quality.png")
