"""Quality of the presets beside other methods, and of the uncertainty, on images that nothing was learnt from.

Where images are those that the models of the package were learnt from, each is segmented with models that have not seen
it: of photographs and of nuclei by folds of the images in turn, of membranes by groups of neighbouring sections. Models
are learnt into ``OUT/boundaries``, ``OUT/couplings`` and ``OUT/membranes`` if they are missing; networks of the folds
are taken from ``OUT/networks`` (``fold0.npz`` and so on, of :mod:`napari_gsw.research.training.networks`).

For photographs, the frequency with which annotators draw boundaries is compared with their probability, the uncertainty
is scored as a detector of wrong boundaries, and the curve of :mod:`napari_gsw.core.posterior.result` is fitted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, xlog1py, xlogy

from napari_gsw.batch.jobs import Record
from napari_gsw.core.array_types import BoolArray, Float64Array
from napari_gsw.core.features.site_features import ImageFeatures
from napari_gsw.core.graph.boundary_model import load_boundary_model
from napari_gsw.core.image.normalized_image import normalize_image
from napari_gsw.core.posterior.regions import boundary_log_odds, find_boundary_faces
from napari_gsw.core.posterior.result import Result, calibrate_boundary_odds
from napari_gsw.core.settings.presets import preset
from napari_gsw.methods import Choice, choose
from napari_gsw.research.evaluation.data_sets import AnnotatedImage, Example, spread
from napari_gsw.research.evaluation.evaluate import MEASURES, choose_headings, score_image, score_levels, summarize
from napari_gsw.research.figures import INKS, make_axes, tidy_axes
from napari_gsw.research.paper import experiment
from napari_gsw.research.paper.experiment import Study
from napari_gsw.research.training.couplings import (
    FOLDS,
    fold_names,
    fold_of,
    learn_membranes,
    learn_objects,
    learn_photographs,
)
from napari_gsw.scores.partitions import default_tolerance, dilate_boundaries, find_boundaries

OURS = ("general", "photo")
PEERS = ("felzenszwalb", "mean-shift")
# They partition the superpixels of a preset by its couplings.
SIGNED_GRAPHS = ("mutex-watershed", "multicut", "gasp")
TESTED = ("probabilistic_rand", "variation_of_information", "covering")
# The split that the bundled couplings were learnt on.
LEARNT_ON = "train"
NUCLEI_FOLDS = 3
# The best of 33 settings of the distance watershed on the twelve sections of the documentation.
DISTANCE = {"threshold": 0.9, "smoothing": 8.0}
BINS, QUICK_PHOTOGRAPHS, QUICK_CELLS = 10, 4, 2
# The methods of each fold by name, and the fold of each example.
Folds = tuple[list[dict[str, Choice]], dict[Example, int]]


# ---- methods of each fold


def find_models(
    study: Study, pattern: str, n_folds: int, images: str, learn: Callable[[Path], Any] | None
) -> list[str]:
    """Return the file of the model of each fold; they are learnt into their folder if that is possible, else none."""
    models = [study.folder / pattern.format(k) for k in range(n_folds)]
    if study.quick or learn is None or not experiment.available_methods(["learning"]):
        print(f"napari-gsw: the models of the package may have learnt from these very {images}", file=sys.stderr)
        return []
    if not all(model.exists() for model in models):
        print(f"napari-gsw: learning models for the folds of the {images} (minutes)", file=sys.stderr)
        learn(models[0].parent)
    return list(map(str, models))


def choose_for_photographs(examples: Sequence[Example], study: Study) -> Folds:
    """Choose the methods; the models of the package are used for all but the images that they were learnt from."""
    changes = [{"boundary_model": "shipped", "network": "shipped"}] * FOLDS
    if len(examples) >= 2 * FOLDS and all(e.kind == "bsds" and e.image.parent.name == LEARNT_ON for e in examples):
        networks = [study.folder / "networks" / f"fold{k}.npz" for k in range(FOLDS)]
        has_networks = all(network.exists() for network in networks)

        def learn(out: Path) -> None:
            settings = preset("photo", coupling="contrast")
            learn_photographs(examples, out, settings, networks[0].parent if has_networks else None)

        if models := find_models(study, "boundaries/fold{}.json", FOLDS, "photographs", learn):
            changes = [{"boundary_model": model, "network": "none"} for model in models]
        if has_networks:
            changes = [c | {"network": str(network)} for c, network in zip(changes, networks, strict=True)]
    names = experiment.available_methods((*OURS, *PEERS, *SIGNED_GRAPHS))
    choices = []
    for change in changes:
        learnt = {"photo": choose("gsw", "photo", change)}
        learnt |= {name: choose(name, "photo", change) for name in names if name in SIGNED_GRAPHS}
        choices.append({n: learnt.get(n) or choose("gsw" if n in OURS else n, "general") for n in names})
    return choices, dict(zip(examples, fold_of(len(examples)), strict=True))


def choose_for_nuclei(examples: Sequence[Example], study: Study) -> Folds:
    """Choose the methods of each fold, with a network and couplings that have not seen its images if possible."""
    networks = [study.folder / "networks" / f"fold{k}.npz" for k in range(NUCLEI_FOLDS)]

    def learn(out: Path) -> None:
        learn_objects(str(examples[0].image.parents[1]), str(out), str(networks[0].parent))

    learn_if_possible = learn if all(network.exists() for network in networks) else None
    models = find_models(study, "couplings/objects_fold{}.json", NUCLEI_FOLDS, "nuclei", learn_if_possible)
    choices = []
    for k in range(NUCLEI_FOLDS):
        network = {"network": str(networks[k])} if models else {}
        model = {"boundary_model": models[k]} if models else {}
        choices.append(
            {
                "microscopy": choose("gsw", "microscopy", network | model),
                "microscopy, classical": choose("gsw", "microscopy", {"objects": "classical"}),
                "network-watershed": choose("network-watershed", changes=network),
                "otsu-watershed": choose("otsu-watershed"),
            }
        )
    return choices, {example: k % NUCLEI_FOLDS for k, example in enumerate(examples)}


def choose_for_membranes(examples: Sequence[Example], study: Study) -> Folds:
    """Choose the methods of each group of sections, with couplings that have not seen it if possible."""
    groups = fold_names(examples)
    names = sorted(set(groups))
    learn = None if len(names) < 2 else lambda out: learn_membranes(examples, out)
    models = find_models(study, "membranes/fold{}.json", len(names), "sections", learn)
    signed_graphs = experiment.available_methods(SIGNED_GRAPHS[1:] + SIGNED_GRAPHS[:1])
    choices = [
        {
            "membranes": choose("gsw", "membranes", changes),
            **{name: choose(name, "membranes", changes) for name in signed_graphs},
            "distance-watershed": choose("distance-watershed", changes=DISTANCE),
        }
        for changes in ([{"boundary_model": model} for model in models] or [{}] * len(names))
    ]
    return choices, {e: names.index(group) for e, group in zip(examples, groups, strict=True)}


# ---- nuclei and membranes


def reproduce_cells(study: Study) -> None:
    """Score nuclei and membranes, as far as they are given, and write ``cells.json``.

    It has for each method the means over all images and over every other one, and scores pooled over all objects.
    """
    if not study.nuclei and not study.membranes:
        print("napari-gsw: cells: nothing to look at without --nuclei or --membranes", file=sys.stderr)
    data = {}
    for data_set, examples, choose_methods in (
        ("nuclei", study.nuclei, choose_for_nuclei),
        ("membranes", study.membranes, choose_for_membranes),
    ):
        if not examples:
            continue
        choices, folds = choose_methods(examples, study)
        chosen = spread(examples, study.count(None, QUICK_CELLS))
        rows = list(study.score(f"cells-{data_set}", chosen, choices, folds).values())
        halves = {"all": rows, "even": rows[::2], "odd": rows[1::2]}
        methods: dict[str, Any] = {}
        for name, choice in choices[0].items():
            headings = choose_headings(chosen, choice)
            methods[name] = {
                half: summarize([row[name] for row in part], headings) for half, part in halves.items() if part
            }
        ours, choice = next(iter(choices[0].items()))
        held_out = choice.settings.boundary_model != preset(ours).boundary_model
        data[data_set] = {"pictures": len(rows), "held_out": held_out, "methods": methods}
    study.write("cells", {"data": data})


# ---- photographs


def reproduce(study: Study) -> None:
    """Segment and score photographs, and write ``quality.json``, ``.md`` and ``.png``."""
    data: dict[str, Any] = {}
    for data_set, examples in study.compared_data().items():
        choices, folds = choose_for_photographs(examples, study)
        chosen = spread(examples, study.count(None, QUICK_PHOTOGRAPHS))
        records = study.score(f"quality-{data_set.lower()}", chosen, choices, folds, score_with_edges)
        is_held_out = choices[0]["photo"].settings.boundary_model != "shipped"
        couplings = "held out" if is_held_out else "shipped model"
        data[data_set] = summarize_photographs(list(records.values())) | {"couplings": couplings}
    text = [
        experiment.format_methods(f"{name} ({of['images']} images, photo: {of['couplings']})", of["methods"], MEASURES)
        for name, of in data.items()
    ]
    study.write("quality", {"data": data}, text="".join(text) + "All figures are means over the images.\n")
    curves = {
        f"{name}, {data_set}": method["uncertainty"]
        for data_set, summary in data.items()
        for name, method in summary["methods"].items()
        if "uncertainty" in method
    }
    if not curves:
        return
    figure, grid = make_axes(4.4 * len(curves), 4.2, columns=len(curves))
    for axes, (title, curve) in zip(grid[0], curves.items(), strict=True):
        axes.plot([0, 1], [0, 1], color="#bbbbbb", linewidth=1)
        for key, ink in (("posterior", INKS[1]), ("calibrated", INKS[4])):
            axes.plot(curve[key]["said"], curve[key]["people"], "o-", color=ink, label=key, markersize=4)
        axes.legend(frameon=False, fontsize=8)
        axes.set_aspect("equal")
        tidy_axes(axes, "said to be a boundary", "people who draw it", title)
    study.write("quality", figure=figure)


def score_with_edges(example: Example, fold: int, seed: int, choices: Sequence[Mapping[str, Choice]]) -> Record:
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
    calibrated probability of a boundary, the fraction of annotators with a boundary near the edge, averaged along it,
    the number of faces, and whether the result has a boundary. `model` is a file or ``shipped``; `network` is a file,
    ``shipped`` or ``none``.
    """
    problem, together, humans = result.problem, result.snapshot.together, annotated.human_labels
    assert problem.graph is not None
    settings = (problem.settings or preset("general")).replace(network=network)
    features = ImageFeatures([normalize_image(annotated.image, settings.axes)], [problem.site_image], settings)
    boundary_model = load_boundary_model(model, features.has_network)
    learnt = boundary_model.log_odds(features, problem.graph)
    calibrated = expit(calibrate_boundary_odds(learnt, together, boundary_model.network))
    tolerance = default_tolerance(humans[0].shape)
    near = np.mean([dilate_boundaries(find_boundaries(human), tolerance) for human in humans], axis=0).ravel()
    first, second, edge = find_boundary_faces(problem)
    m = len(problem.edges)
    human = np.bincount(edge, (near[first] + near[second]) / 2, m) / np.maximum(np.bincount(edge, minlength=m), 1)
    i, j = problem.edges.T
    return np.stack((learnt, together, calibrated, human, problem.graph.length, result.regions[i] != result.regions[j]))


def summarize_photographs(records: Sequence[Record]) -> dict[str, Any]:
    """Compute means of each method, p-values of ours against each peer, and scores of our uncertainty."""
    methods = experiment.summarize_methods(records, MEASURES, OURS, PEERS, TESTED)
    content = {"images": len(records), "methods": methods}
    scored = [record for record in records if "edges" in record["photo"]]
    for name in OURS if scored else ():
        _, together, calibrated, human, length, drawn = _join_edges(scored, [name])
        is_drawn = drawn > 0
        wrong = is_drawn != (human >= 0.5)
        methods[name]["uncertainty"] = {
            "errors_detection_area": detection_area(np.minimum(calibrated, 1 - calibrated), wrong, length),
            "drawn_detection_area": detection_area(1 - calibrated[is_drawn], wrong[is_drawn], length[is_drawn]),
            "posterior": bin_by_probability(1 - together, human, length),
            "calibrated": bin_by_probability(calibrated, human, length),
        }
    if len(scored) > 1:
        even, odd = _join_edges(scored[::2], OURS), _join_edges(scored[1::2], OURS)
        curve = fit_curve(even)
        probability = expit(curve[0] + curve[1] * odd[0] + curve[2] * boundary_log_odds(odd[1]))
        content["curve"] = fit_curve(np.concatenate((even, odd), axis=1)).tolist()
        content["curve_error_on_other_half"] = bin_by_probability(probability, *odd[3:5])["calibration_error"]
    return content


def _join_edges(records: Sequence[Record], names: Sequence[str]) -> Float64Array:
    return np.concatenate([record[name]["edges"] for record in records for name in names], axis=1)


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
