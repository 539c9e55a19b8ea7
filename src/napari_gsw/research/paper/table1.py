"""Table 1: mean shift, rdd-CRP and the (truncated) Potts-DP on both data sets, beside the values of the paper.

All samplers get the same superpixels, counts and likelihood of an image. Beside the paper's scores stand scores that
penalize over-segmentation, and two more methods. A second part separates mixing from the effect of T_min: the same
chains without whole-cluster moves (the paper's sampler), at its lambda and at a smaller one.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from numpy.typing import NDArray

from napari_gsw.batch.jobs import Record
from napari_gsw.core.model import priors
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.pipeline.prepare import prepare
from napari_gsw.core.pipeline.sampling_run import make_ensemble
from napari_gsw.core.sampler.chain import step
from napari_gsw.core.settings.presets import preset
from napari_gsw.methods import choose, segment
from napari_gsw.research.baselines import crp
from napari_gsw.research.evaluation.data_sets import Example, spread
from napari_gsw.research.evaluation.evaluate import MEASURES, find_typical_human, score_partition
from napari_gsw.research.figures import INKS, make_figure, tidy_axes
from napari_gsw.research.paper.experiment import (
    Study,
    available_methods,
    gather,
    markdown_table,
    p_value,
    summarize_methods,
)


class PaperValue(NamedTuple):
    """A column of the paper's table: median Rand index, p-value against the best method, clusters."""

    rand: float
    p_value: float | None
    clusters: int


# "<.001" in print is .001 here; the best method has no p-value.
TABLE: Mapping[str, Mapping[str, PaperValue]] = {
    "LabelMe": {
        "mean-shift": PaperValue(0.7623, 0.0011, 12),
        "rdd-crp": PaperValue(0.7759, None, 6),
        "T_min 0": PaperValue(0.7712, 0.0108, 9),
        "T_min 3": PaperValue(0.7692, 0.0965, 6),
        "T_min 6": PaperValue(0.7483, 0.001, 4),
        "T_min 9": PaperValue(0.7235, 0.001, 3),
    },
    "Berkeley": {
        "mean-shift": PaperValue(0.7988, None, 23),
        "rdd-crp": PaperValue(0.7748, 0.0066, 9),
        "T_min 0": PaperValue(0.7882, 0.0566, 12),
        "T_min 3": PaperValue(0.7797, 0.0052, 8),
        "T_min 6": PaperValue(0.7291, 0.001, 4),
        "T_min 9": PaperValue(0.6881, 0.001, 3),
    },
}
SIZES = (0, 3, 6, 9)
POTTS: Mapping[str, Mapping[str, Any]] = {f"T_min {size}": {"min_size": size} for size in SIZES}
PIXEL_METHODS = ("mean-shift", "felzenszwalb", "normalized-cut")
# The columns of the paper's table, and further methods.
METHODS = ("mean-shift", "rdd-crp", *POTTS, "dd-crp", "felzenszwalb", "normalized-cut")
# The same posterior, with a whole-cluster move in each sweep, with the paper's moves, and with a smaller lambda.
MIXING: Mapping[str, Mapping[str, Any]] = {
    f"T_min {size}, {moves}": {"min_size": size, "lam": lam, "regroups": regroups}
    for moves, lam, regroups in (
        ("whole-cluster moves", 10.0, 1),
        ("the paper's moves", 10.0, 0),
        ("the paper's moves, lambda 3", 3.0, 0),
    )
    for size in SIZES
}
CHANGES = {**POTTS, **MIXING}
MIXING_IMAGES = 24
# Scores that the paper does not have.
FURTHER_MEASURES = (
    "probabilistic_rand", "adjusted_rand", "variation_of_information", "covering", "boundary_f", "seconds",
)  # fmt: skip
QUICK_IMAGES, QUICK_SWEEPS = 4, 60


def score(example: Example, seed: int, methods: Sequence[str], sweeps: int) -> Record:
    """Score every method on an image."""
    annotated = example.read()
    settings = preset("paper", axes=annotated.axes, sweeps=sweeps)
    start = time.perf_counter()
    problem = prepare(annotated.image, settings)
    preparation = time.perf_counter() - start
    typical = find_typical_human(annotated.human_labels)
    record: Record = {}
    for name in methods:
        start = time.perf_counter()
        if name in ("rdd-crp", "dd-crp"):
            snapshot = crp.run(problem, crp.RddCrp() if name == "rdd-crp" else crp.DdCrp(), seed)[0]
            labels: NDArray[Any] = problem.paint(snapshot.best.labels + 1)
        elif name in CHANGES:
            labels = find_best_labels(problem, CHANGES[name], seed)
        else:
            labels = segment(annotated.image, choose(name, "paper", {"axes": annotated.axes}), seed).labels
        seconds = time.perf_counter() - start + (0.0 if name in PIXEL_METHODS else preparation)
        record[name] = {**score_partition(labels, annotated, typical), "seconds": seconds}
    return record


def find_best_labels(problem: Problem, changes: Mapping[str, Any], seed: int) -> NDArray[Any]:
    """Run a chain with changed settings on the same superpixels, and return the labels of its best state."""
    assert problem.settings is not None
    settings = problem.settings.replace(**changes)
    changed = dataclasses.replace(problem, prior=priors.make_prior(settings), settings=settings)
    (chain,) = make_ensemble(changed, settings, seed).chains
    step(chain, settings.sweeps)
    return problem.paint(chain.sums.best + 1)


def reproduce(study: Study) -> None:
    """Segment and score, and write ``table1.json``, ``.csv``, ``.md`` and ``.png``."""
    sweeps = QUICK_SWEEPS if study.quick else preset("paper").sweeps
    methods = available_methods(METHODS)
    data: dict[str, Any] = {}
    for data_set, examples in study.compared_data().items():
        data[data_set] = {}
        for part, names, count in (("table", methods, None), ("mixing", tuple(MIXING), MIXING_IMAGES)):
            chosen = spread(spread(examples, study.count(None, QUICK_IMAGES)), count)
            title = f"table1-{data_set.lower()}" + ("" if part == "table" else "-mixing")
            records = study.run(title, score, {e.name: (e,) for e in chosen}, methods=names, sweeps=sweeps)
            data[data_set][part] = summarize(list(records.values()))
    text, table = _tabulate(data)
    settings = preset("paper", sweeps=sweeps).to_dict()
    study.write("table1", {"settings": settings, "failed": list(study.failed), "data": data}, table, text)
    _draw(data, study)


def summarize(records: Sequence[Record]) -> dict[str, Any]:
    """Compute medians and means of each method, and its p-value against the one with the highest median Rand index."""
    values = gather(records, MEASURES)
    methods = summarize_methods(values)
    best = max(methods, key=lambda name: methods[name]["median"]["rand_one_human"], default="")
    for name, method in methods.items():
        pair = (values[one]["rand_one_human"] for one in (best, name))
        method["p_value"] = None if name == best else p_value(*pair)
    return {"images": len(records), "best": best, "methods": methods}


def _tabulate(data: Mapping[str, Any]) -> tuple[str, tuple[Sequence[str], list[list[Any]]]]:
    """Make the Markdown, with the paper's values in brackets, and head and rows of the CSV file."""
    text = "Medians over the images; in brackets those that the paper prints, in bold the best.\n"
    csv_rows = []
    for data_set, part, suffix in [(d, *p) for d in data for p in (("table", ""), ("mixing", ", mixing"))]:
        images, rows = data[data_set][part]["images"], []
        for name, method in data[data_set][part]["methods"].items():
            m, p = method["median"], method["p_value"]
            paper = TABLE.get(data_set, {}).get(name)
            rand = f"{m['rand_one_human']:.4f}"
            rand = (f"**{rand}**" if p is None else rand) + (f" ({paper.rand:.4f})" if paper else "")
            clusters = f"{m['n_regions']:g}" + (f" ({paper.clusters})" if paper else "")
            further = (f"{m[key]:.{MEASURES[key][1]}f}" for key in FURTHER_MEASURES)
            rows.append([name, rand, "–" if p is None else f"{p:.3f}", clusters, *further])
            values = (*m.values(), *method["mean"].values(), p, paper and paper.rand, paper and paper.clusters)
            csv_rows.append([data_set, part, name, images, *values])
        head = ("method", "Rand, one human", "p", "clusters", *(MEASURES[key][0] for key in FURTHER_MEASURES))
        text += f"\n### {data_set}{suffix} ({images} images)\n\n" + markdown_table(head, rows)
    head = ("data", "part", "method", "images", *(f"{s}_{m}" for s in ("median", "mean") for m in MEASURES))
    return text, ((*head, "p_value", "paper_median_rand", "paper_median_clusters"), csv_rows)


def _draw(data: Mapping[str, Any], study: Study) -> None:
    """Draw median Rand index and number of clusters of each method, ours filled, the paper's hollow."""
    figure = make_figure(5.2 * len(data) + 1, 4.2)
    for axes, (data_set, parts) in zip(figure.subplots(1, len(data), squeeze=False)[0], data.items(), strict=True):
        medians = {name: method["median"] for name, method in parts["table"]["methods"].items()}
        for y, (name, median) in enumerate(medians.items()):
            ink = INKS[4] if name in POTTS else INKS[1]
            axes.plot(median["rand_one_human"], y, "o", color=ink, markersize=8)
            if paper := TABLE.get(data_set, {}).get(name):
                axes.plot(paper.rand, y, "o", color=ink, markersize=8, fillstyle="none")
        axes.set_yticks(range(len(medians)), [f"{name}, {m['n_regions']:g} clusters" for name, m in medians.items()])
        axes.invert_yaxis()
        title = f"{data_set}, {parts['table']['images']} images; hollow: the paper"
        tidy_axes(axes, "median Rand index, one human", "", title)
        axes.grid(axis="x", color="#e5e5e5", linewidth=0.8)
        axes.margins(x=0.15, y=0.08)
    study.write("table1", figure=figure)
