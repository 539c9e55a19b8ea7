"""Table 1: mean shift, rdd-CRP and the (truncated) Potts-DP on both data sets, beside the figures of the paper.

Everything that samples does so on the same sites, counts and likelihood of an image. Beside the paper's median Rand
index, number of clusters and Wilcoxon tests stand measures that punish over-segmentation, and two more methods. A
second part tells how much of the fall with T_min is mixing: the same chains without whole-cluster moves (the paper's
sampler), at its lambda and at a smaller one.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_gsw.batch.jobs import JobOptions, JobRecords, Record, run_jobs
from napari_gsw.core.model import priors
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.pipeline.prepare import prepare
from napari_gsw.core.pipeline.sampling_run import make_ensemble
from napari_gsw.core.sampler.chain import step
from napari_gsw.core.settings.presets import preset
from napari_gsw.files.results import write_csv, write_json, write_text
from napari_gsw.methods import choose, segment
from napari_gsw.research import figures
from napari_gsw.research.baselines import crp
from napari_gsw.research.evaluation.data_sets import Example, list_files
from napari_gsw.research.evaluation.evaluate import MEASURES, find_typical_human, score_partition
from napari_gsw.research.paper.comparison import available_methods, compared_data, p_value
from napari_gsw.research.paper.paper import TABLE
from napari_gsw.research.paper.pictures import ExperimentPlan, spread

SIZES = (0, 3, 6, 9)
# The columns of the paper's table, and further methods.
OURS = tuple(f"T_min {size}" for size in SIZES)
PAPERS = ("mean-shift", "rdd-crp", *OURS)
FURTHER = ("dd-crp", "felzenszwalb", "normalized-cut")
# The same posterior by better and by worse chains: with a whole-cluster move in each sweep, with the paper's moves
# alone, and with these at a smaller lambda.
MIXING: Mapping[str, Mapping[str, Any]] = {
    f"T_min {size}, {words}": {"min_size": size, "lam": lam, "regroups": regroups}
    for words, lam, regroups in (
        ("whole-cluster moves", 10.0, 1),
        ("the paper's moves", 10.0, 0),
        ("the paper's moves, lambda 3", 3.0, 0),
    )
    for size in SIZES
}
MIXING_IMAGES = 24
QUICK_IMAGES, QUICK_SWEEPS = 4, 60


class Table1Image(NamedTuple):
    """An image that all methods of some columns segment."""

    example: Example
    columns: tuple[str, ...]
    sweeps: int
    seed: int


def scored(task: Table1Image) -> Record:
    """Measures of every method on one image."""
    scene = task.example.read()
    settings = preset("paper", axes=scene.axes, sweeps=task.sweeps)
    began = time.perf_counter()
    problem = prepare(scene.image, settings)
    preparation = time.perf_counter() - began
    typical = find_typical_human(scene.human_labels)
    row: Record = {}
    for name in task.columns:
        began = time.perf_counter()
        if name in ("rdd-crp", "dd-crp"):
            snapshot = crp.run(problem, crp.RddCrp() if name == "rdd-crp" else crp.DdCrp(), task.seed)[0]
            labels: NDArray[Any] = problem.paint(snapshot.best.labels + 1)
        elif name in OURS or name in MIXING:
            changes = MIXING[name] if name in MIXING else {"min_size": SIZES[OURS.index(name)]}
            labels = best_labels(problem, changes, task.seed)
        else:
            labels = segment(scene.image, choose(name, "paper", {"axes": scene.axes}), task.seed).labels
        seconds = time.perf_counter() - began
        samples = name not in ("mean-shift", "felzenszwalb", "normalized-cut")
        row[name] = {**score_partition(labels, scene, typical), "seconds": seconds + (preparation if samples else 0.0)}
    return row


def best_labels(problem: Problem, changes: Mapping[str, Any], seed: int) -> NDArray[Any]:
    """The label image of the best state of the chain that the changed settings describe, on the same sites."""
    assert problem.settings is not None
    settings = problem.settings.replace(**changes)
    changed = dataclasses.replace(problem, prior=priors.make_prior(settings), settings=settings)
    (chain,) = make_ensemble(changed, settings, seed).chains
    step(chain, settings.sweeps)
    return problem.paint(chain.sums.best + 1)


def reproduce(plan: ExperimentPlan, job_options: JobOptions) -> JobRecords:
    """Segment and score, and write ``table1.json``, ``.csv``, ``.md`` and ``.png``; returns the rows of all images."""
    sweeps = QUICK_SWEEPS if plan.quick else preset("paper").sweeps
    columns = available_methods((*PAPERS, *FURTHER))
    limit = plan.image_limit(QUICK_IMAGES)
    done: dict[str, Record] = {}
    failed: dict[str, str] = {}
    content: dict[str, Any] = {"seed": plan.seed, "settings": preset("paper", sweeps=sweeps).to_dict(), "data": {}}
    for data_set, examples in compared_data(plan, job_options.folder).items():
        parts = {}
        for part, names, count in (("", columns, limit), ("mixing", tuple(MIXING), MIXING_IMAGES)):
            some = spread(spread(examples, limit), count)
            jobs = {e.name: Table1Image(e, names, sweeps, plan.seed) for e in some}
            depends_on = {"sweeps": sweeps, "seed": plan.seed, "columns": names, "settings": content["settings"]}
            title = "-".join(filter(None, ("table1", data_set.lower(), part)))
            rows = run_jobs(title, scored, jobs, depends_on, job_options, list_files(some))
            done |= {f"{title}/{name}": row for name, row in rows.done.items()}
            failed |= {f"{data_set}/{name}": reason for name, reason in rows.failed.items()}
            parts[part or "table"] = summarised(list(rows.done.values()), names)
        content["data"][data_set] = parts | {"failed": [name for name in failed if name.startswith(f"{data_set}/")]}
    write_json(job_options.folder / "table1.json", content)
    write_csv(job_options.folder / "table1.csv", *_lines(content["data"]))
    write_text(job_options.folder / "table1.md", markdown(content["data"]))
    _draw(content["data"], job_options)
    return JobRecords(done, failed)


def summarised(rows: Sequence[Record], names: Sequence[str]) -> dict[str, Any]:
    """Medians and means of each method, and its p-value against the one with the highest median Rand index."""
    if not rows:
        return {"images": 0, "best": None, "methods": {}}
    rand = {name: np.array([row[name]["rand_one_human"] for row in rows]) for name in names}
    best = max(names, key=lambda name: float(np.median(rand[name])))
    methods: dict[str, Any] = {}
    for name in names:
        values = {m: np.array([row[name][m] for row in rows]) for m in MEASURES}
        methods[name] = {
            "median": {m: float(np.median(v)) for m, v in values.items()},
            "mean": {m: float(np.mean(v)) for m, v in values.items()},
            "p_value": None if name == best else p_value(rand[best], rand[name]),
        }
    return {"images": len(rows), "best": best, "methods": methods}


def _lines(data: Mapping[str, Any]) -> tuple[Sequence[str], list[list[Any]]]:
    head = ["data", "part", "method", "images", *(f"median_{m}" for m in MEASURES), *(f"mean_{m}" for m in MEASURES)]
    lines: list[list[Any]] = []
    for data_set, parts in data.items():
        for part in ("table", "mixing"):
            for name, method in parts[part]["methods"].items():
                printed = TABLE.get(data_set, {}).get(name)
                beside = (method["p_value"], printed and printed.rand, printed and printed.clusters)
                values = (*method["median"].values(), *method["mean"].values(), *beside)
                lines.append([data_set, part, name, parts[part]["images"], *values])
    return [*head, "p_value", "paper_median_rand", "paper_median_clusters"], lines


def markdown(data: Mapping[str, Any]) -> str:
    """The tables for a person; the paper's figures in brackets, the best by median Rand in bold."""
    text = []
    for data_set, parts in data.items():
        for part in ("table", "mixing"):
            summary = parts[part]
            if not summary["images"]:
                continue
            title = data_set if part == "table" else f"{data_set}: how much of the fall is mixing"
            text.append(f"### {title} ({summary['images']} images)\n")
            text.append(
                "| method | Rand, one human | p | clusters | Rand, all humans | adjusted Rand | VI | covering "
                "| boundary F | seconds |"
            )
            text.append("|---|---|---|---|---|---|---|---|---|---|")
            for name, method in summary["methods"].items():
                text.append(_markdown_line(name, method, TABLE.get(data_set, {}).get(name), name == summary["best"]))
            text.append("")
    return "\n".join(text) + "\nAll figures are medians over the images; in brackets those that the paper prints.\n"


def _markdown_line(name: str, method: Mapping[str, Any], printed: Any, best: bool) -> str:
    m, p = method["median"], method["p_value"]
    chance = "–" if p is None else "<.001" if p < 0.001 else f"{p:.3f}"
    rand = f"{m['rand_one_human']:.4f}"
    cells = [
        name,
        (f"**{rand}**" if best else rand) + (f" ({printed.rand:.4f})" if printed else ""),
        chance,
        f"{m['n_regions']:g}" + (f" ({printed.clusters})" if printed else ""),
        f"{m['probabilistic_rand']:.4f}",
        f"{m['adjusted_rand']:.3f}",
        f"{m['variation_of_information']:.2f}",
        f"{m['covering']:.3f}",
        f"{m['boundary_f']:.3f}",
        f"{m['seconds']:.1f}",
    ]
    return "| " + " | ".join(cells) + " |"


def _draw(data: Mapping[str, Any], job_options: JobOptions) -> None:
    """Median Rand index and number of clusters of each method, ours filled, the paper's hollow."""
    tables = {data_set: parts["table"] for data_set, parts in data.items() if parts["table"]["images"]}
    if not tables:
        return
    drawing = figures.figure(5.2 * len(tables) + 1, 4.2)
    for axes, (data_set, table) in zip(np.atleast_1d(drawing.subplots(1, len(tables))), tables.items(), strict=True):
        names = list(table["methods"])
        rand = [table["methods"][name]["median"]["rand_one_human"] for name in names]
        for y, name in enumerate(names):
            median = table["methods"][name]["median"]
            ink = figures.INKS[4] if name in OURS else figures.INKS[1]
            axes.plot(rand[y], y, "o", color=ink, markersize=8)
            words = f"{median['n_regions']:g} clusters"
            left = rand[y] > (min(rand) + max(rand)) / 2  # towards the middle, where there is room
            place, side = (-8, "right") if left else (8, "left")
            axes.annotate(words, (rand[y], y), (place, -10), textcoords="offset points", ha=side, fontsize=7, color=ink)
            printed = TABLE.get(data_set, {}).get(name)
            if printed:
                axes.plot(printed.rand, y, "o", color=ink, markersize=8, fillstyle="none")
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        figures.tidy(
            axes, "median Rand index, one human", "", f"{data_set}, {table['images']} images; hollow: the paper"
        )
        axes.grid(axis="x", color="#e5e5e5", linewidth=0.8)
        axes.margins(x=0.15, y=0.08)
    figures.save(drawing, job_options.folder / "table1.png")
