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

import numpy as np
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
    mean_and_median,
    p_value,
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
# The columns of the paper's table, and further methods.
PAPER_METHODS = ("mean-shift", "rdd-crp", *POTTS)
FURTHER = ("dd-crp", "felzenszwalb", "normalized-cut")
PIXEL_METHODS = ("mean-shift", "felzenszwalb", "normalized-cut")
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
QUICK_IMAGES, QUICK_SWEEPS = 4, 60


def score(example: Example, methods: Sequence[str], sweeps: int, seed: int) -> Record:
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
    settings = preset("paper", sweeps=sweeps).to_dict()
    methods = available_methods((*PAPER_METHODS, *FURTHER))
    limit = study.image_limit(QUICK_IMAGES)
    data: dict[str, Any] = {}
    for data_set, examples in study.compared_data().items():
        parts = data[data_set] = {}
        for part, names, count in (("table", methods, limit), ("mixing", tuple(MIXING), MIXING_IMAGES)):
            chosen = spread(spread(examples, limit), count)
            tasks = {example.name: (example, names, sweeps, study.seed) for example in chosen}
            depends_on = {"sweeps": sweeps, "columns": names, "settings": settings}
            title = f"table1-{data_set.lower()}" + ("-mixing" if part == "mixing" else "")
            records = study.run(title, score, tasks, depends_on, chosen, prefix=f"{title}/")
            parts[part] = summarize(list(records.values()), names)
        parts["failed"] = [name for name in study.failed if name.startswith(f"table1-{data_set.lower()}")]
    study.write_json("table1", settings=settings, data=data)
    study.write_csv("table1", *_tabulate(data))
    study.write_markdown("table1", format_markdown(data))
    _draw(data, study)


def summarize(records: Sequence[Record], methods: Sequence[str]) -> dict[str, Any]:
    """Compute medians and means of each method, and its p-value against the one with the highest median Rand index."""
    if not records:
        return {"images": 0, "best": None, "methods": {}}
    values = {name: gather(records, name, MEASURES) for name in methods}
    rand = {name: values[name]["rand_one_human"] for name in methods}
    best = max(methods, key=lambda name: float(np.median(rand[name])))
    summary = {
        name: {
            **mean_and_median(values[name]),
            "p_value": None if name == best else p_value(rand[best], rand[name]),
        }
        for name in methods
    }
    return {"images": len(records), "best": best, "methods": summary}


def _tabulate(data: Mapping[str, Any]) -> tuple[Sequence[str], list[list[Any]]]:
    head = ["data", "part", "method", "images", *(f"median_{m}" for m in MEASURES), *(f"mean_{m}" for m in MEASURES)]
    rows: list[list[Any]] = []
    for data_set, parts in data.items():
        for part in ("table", "mixing"):
            for name, method in parts[part]["methods"].items():
                paper = TABLE.get(data_set, {}).get(name)
                beside = (method["p_value"], paper and paper.rand, paper and paper.clusters)
                values = (*method["median"].values(), *method["mean"].values(), *beside)
                rows.append([data_set, part, name, parts[part]["images"], *values])
    return [*head, "p_value", "paper_median_rand", "paper_median_clusters"], rows


def format_markdown(data: Mapping[str, Any]) -> str:
    """Format the tables: the paper's values in brackets, the best median Rand index in bold."""
    head = (
        "method", "Rand, one human", "p", "clusters", "Rand, all humans", "adjusted Rand", "VI", "covering",
        "boundary F", "seconds",
    )  # fmt: skip
    text = []
    for data_set, parts in data.items():
        for part, suffix in (("table", ""), ("mixing", ": how much of the fall is mixing")):
            summary = parts[part]
            if summary["images"]:
                rows = [
                    _format_row(name, method, TABLE.get(data_set, {}).get(name), name == summary["best"])
                    for name, method in summary["methods"].items()
                ]
                text.append(f"### {data_set}{suffix} ({summary['images']} images)\n\n{markdown_table(head, rows)}\n")
    return "".join(text) + "All figures are medians over the images; in brackets those that the paper prints.\n"


def _format_row(name: str, method: Mapping[str, Any], paper: PaperValue | None, is_best: bool) -> list[str]:
    m, p = method["median"], method["p_value"]
    rand = f"{m['rand_one_human']:.4f}"
    return [
        name,
        (f"**{rand}**" if is_best else rand) + (f" ({paper.rand:.4f})" if paper else ""),
        "–" if p is None else "<.001" if p < 0.001 else f"{p:.3f}",
        f"{m['n_regions']:g}" + (f" ({paper.clusters})" if paper else ""),
        f"{m['probabilistic_rand']:.4f}",
        f"{m['adjusted_rand']:.3f}",
        f"{m['variation_of_information']:.2f}",
        f"{m['covering']:.3f}",
        f"{m['boundary_f']:.3f}",
        f"{m['seconds']:.1f}",
    ]


def _draw(data: Mapping[str, Any], study: Study) -> None:
    """Draw median Rand index and number of clusters of each method, ours filled, the paper's hollow."""
    tables = {data_set: parts["table"] for data_set, parts in data.items() if parts["table"]["images"]}
    if not tables:
        return
    figure = make_figure(5.2 * len(tables) + 1, 4.2)
    for axes, (data_set, table) in zip(np.atleast_1d(figure.subplots(1, len(tables))), tables.items(), strict=True):
        medians = {name: method["median"] for name, method in table["methods"].items()}
        rand = {name: median["rand_one_human"] for name, median in medians.items()}
        middle = (min(rand.values()) + max(rand.values())) / 2
        for y, (name, median) in enumerate(medians.items()):
            ink = INKS[4] if name in POTTS else INKS[1]
            axes.plot(rand[name], y, "o", color=ink, markersize=8)
            offset, side = (-8, "right") if rand[name] > middle else (8, "left")  # towards the middle
            text = f"{median['n_regions']:g} clusters"
            axes.annotate(
                text, (rand[name], y), (offset, -10), textcoords="offset points", ha=side, fontsize=7, color=ink
            )
            if paper := TABLE.get(data_set, {}).get(name):
                axes.plot(paper.rand, y, "o", color=ink, markersize=8, fillstyle="none")
        axes.set_yticks(range(len(medians)), list(medians))
        axes.invert_yaxis()
        title = f"{data_set}, {table['images']} images; hollow: the paper"
        tidy_axes(axes, "median Rand index, one human", "", title)
        axes.grid(axis="x", color="#e5e5e5", linewidth=0.8)
        axes.margins(x=0.15, y=0.08)
    study.save_figure("table1", figure)
