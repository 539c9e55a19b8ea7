"""Labels from strokes: how well our presets spread what people have painted, beside methods that do nothing else.

Every method gets the same scribbles, and its labels are compared with those that the person wanted. Settings are tuned
on the images with an even number in the order of their names; the others say what that is worth elsewhere. What
further strokes are worth is for :mod:`napari_gsw.research.paper.steering_curves`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from napari_gsw.batch.jobs import JobOptions, JobRecords, Record, run_jobs
from napari_gsw.files.results import write_csv, write_json, write_text
from napari_gsw.research.evaluation.data_sets import Example, list_files
from napari_gsw.research.evaluation.evaluate import SCRIBBLE_MEASURES, ScoringTask, score_example
from napari_gsw.research.paper import steering_curves
from napari_gsw.research.paper.comparison import available_methods, named_choice, p_value
from napari_gsw.research.paper.pictures import ExperimentPlan, painted_mosaics, spread

OURS = ("general", "photo")
PEERS = ("random-walker", "watershed", "forest", "graph-cut")
# The parts of the pairs that have a table of their own: all, the half that is tuned on, and the other.
ALL, TUNED, OTHER = "all", "even", "odd"
PARTS = {ALL: "all pairs", TUNED: "even images, tuned on", OTHER: "odd images, not looked at"}
QUICK_PAIRS = 4


def reproduce(plan: ExperimentPlan, job_options: JobOptions) -> JobRecords:
    """Score and steer, and write ``steering.json``, ``.md``, ``.csv`` and ``.png``; returns the rows of all jobs."""
    pairs = plan.scribbles or painted_mosaics(job_options.folder)
    methods = available_methods((*OURS, *PEERS))
    some = spread(pairs, plan.image_limit(QUICK_PAIRS))
    done: dict[str, Record] = {}
    failed: dict[str, str] = {}
    scores: dict[str, Mapping[str, Record]] = {}
    for name in methods:  # a journal each, so that other settings of one cost nothing of the others
        choice = named_choice(name)
        jobs = {pair.name: ScoringTask(pair, choice, plan.seed) for pair in some}
        depends_on = {"settings": choice.to_dict(), "seed": plan.seed}
        rows = run_jobs(f"steering-{name}", score_example, jobs, depends_on, job_options, list_files(some))
        scores[name] = rows.done
        done |= {f"{name}/{pair}": row for pair, row in rows.done.items()}
        failed |= {f"{name}/{pair}": reason for pair, reason in rows.failed.items()}
    halves = half_of(pairs)
    curves = steering_curves.reproduce(plan, pairs, job_options)
    content: dict[str, Any] = {"seed": plan.seed, "failed": list(failed) + list(curves.failed)}
    content["table"] = {part: summarised(scores, _pairs_in(part, scores, halves)) for part in PARTS}
    content["curves"] = steering_curves.summarised(curves.done)
    folder = job_options.folder
    write_json(folder / "steering.json", content)
    write_csv(
        folder / "steering.csv",
        ("pair", "half", "method", *SCRIBBLE_MEASURES),
        [
            [pair, halves[pair], name, *(row[m] for m in SCRIBBLE_MEASURES)]
            for name, rows_of_pairs in scores.items()
            for pair, row in rows_of_pairs.items()
        ],
    )
    write_text(folder / "steering.md", markdown(content))
    steering_curves.write(curves.done, folder)
    return JobRecords(done | dict(curves.done), failed | dict(curves.failed))


def half_of(pairs: Sequence[Example]) -> dict[str, str]:
    """Which half of the data set each pair belongs to: its images in the order of their names, every other one."""
    number = {image: k for k, image in enumerate(sorted({pair.image.name for pair in pairs}))}
    return {pair.name: OTHER if number[pair.image.name] % 2 else TUNED for pair in pairs}


def _pairs_in(part: str, scores: Mapping[str, Mapping[str, Record]], halves: Mapping[str, str]) -> list[str]:
    """The pairs of a part that every method has labelled."""
    common = [pair for pair in halves if all(pair in rows for rows in scores.values())]
    return [pair for pair in common if part in (ALL, halves[pair])]


def summarised(scores: Mapping[str, Mapping[str, Record]], pairs: Sequence[str]) -> dict[str, Any]:
    """Mean and median of each method over some pairs, and p-values of ours against each peer.

    Parameters
    ----------
    scores : method -> pair -> its measures.
    pairs : names of those that count.
    """
    content: dict[str, Any] = {"pairs": len(pairs), "methods": {}}
    if not pairs:
        return content
    values = {
        name: {m: np.array([rows[p][m] for p in pairs]) for m in SCRIBBLE_MEASURES} for name, rows in scores.items()
    }
    for name, own in values.items():
        method: dict[str, Any] = {"mean": {m: float(v.mean()) for m, v in own.items()}}
        method["median"] = {m: float(np.median(v)) for m, v in own.items()}
        if name in OURS:
            method["p_value"] = {p: p_value(own["dice"], values[p]["dice"]) for p in values if p in PEERS}
        content["methods"][name] = method
    return content


def markdown(content: Mapping[str, Any]) -> str:
    """The tables for a person."""
    text = []
    for part, words in PARTS.items():
        summary = content["table"][part]
        if not summary["methods"]:
            continue
        text += [
            f"### Labels from scribbles, {words} ({summary['pairs']} pairs)\n",
            "| method | mean Dice | median Dice | seconds |",
            "|---|---|---|---|",
        ]
        for name, method in summary["methods"].items():
            mean, median = method["mean"], method["median"]
            text.append(f"| {name} | {mean['dice']:.4f} | {median['dice']:.4f} | {mean['seconds']:.2f} |")
        text.append("")
        for name, method in summary["methods"].items():
            if method.get("p_value"):
                words = ", ".join(f"{peer} {p:.2g}" for peer, p in method["p_value"].items())
                text.append(f"- {name}, Wilcoxon's p against: {words}")
        text.append("")
    return "\n".join([*text, steering_curves.markdown(content["curves"])])
