"""What a stroke is worth: Dice against the number of strokes that a robot paints after one for each label.

The robot paints at random places, in the middle of the largest error, as a person would who looks for it, or where the
posterior asks it to. Of photographs people's scribbles are left aside: it begins with discs of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from napari_gsw.batch.jobs import JobOptions, JobRecords, Record, run_jobs
from napari_gsw.core.array_types import LabelImage
from napari_gsw.files.results import write_csv
from napari_gsw.methods import METHODS, Choice
from napari_gsw.research import figures
from napari_gsw.research.evaluation.data_sets import Example, list_files
from napari_gsw.research.evaluation.simulated_annotator import (
    Chooser,
    SimulatedAnnotator,
    choose_largest_error,
    choose_query,
    choose_random,
    simulate_scribbles,
)
from napari_gsw.research.paper.comparison import available_methods, named_choice
from napari_gsw.research.paper.pictures import BERKELEY, ExperimentPlan, spread

SCRIBBLES, NUCLEI = "scribbles", "nuclei"
# Whose labels are steered, on each data set.
STEERED = {
    SCRIBBLES: ("general", "photo", "graph-cut"), BERKELEY: ("photo", "graph-cut"), NUCLEI: ("microscopy",),
}  # fmt: skip
# Of nuclei, the foreground as one cluster: its objects have numbers of their own.
CHANGES: Mapping[str, Mapping[str, Any]] = {"microscopy": {"view": "clusters"}}
# Where the robot paints next; only a method that samples has questions.
ASK = "ask me"
CHOOSERS: Mapping[str, Chooser] = {"random": choose_random, "largest error": choose_largest_error, ASK: choose_query}
IMAGES, QUICK_IMAGES = 10, 1
STROKES, QUICK_STROKES = 10, 2
# Segments of a person that are wanted of a photograph; the rest of it is left out.
LARGEST = 8


class SteeredImage(NamedTuple):
    """An image that a robot steers a method on, by every chooser."""

    example: Example
    data_set: str
    choice: Choice
    strokes: int
    seed: int


def courses(task: SteeredImage) -> Record:
    """Dice and seconds after each stroke, by the name of the chooser."""
    scene = task.example.read()
    robot = SimulatedAnnotator(wanted_of(scene.human_labels[0], task.data_set))
    choice = task.choice.with_axes(scene.axes)
    row: Record = {}
    for name, chooser in choosers_of(choice).items():
        course = simulate_scribbles(scene.image, robot, choice, chooser, task.strokes, task.seed)
        row[name] = {"dice": course.dice, "seconds": course.seconds}
    return row


def choosers_of(choice: Choice) -> dict[str, Chooser]:
    """Those that a method can be steered by."""
    return {name: chooser for name, chooser in CHOOSERS.items() if name != ASK or METHODS[choice.method].samples}


def wanted_of(human: LabelImage, data_set: str) -> LabelImage:
    """The labels that are wanted, from 1; 0 where nothing is.

    Parameters
    ----------
    human : (\\*shape,) label image of one person.
    data_set : of nuclei, objects (2) and background (1) are wanted; of Berkeley, the largest segments.
    """
    if data_set == NUCLEI:
        return np.where(human > 0, 2, 1).astype(np.int32)
    if data_set != BERKELEY:
        return human
    numbers, index, pixels = np.unique(human, return_inverse=True, return_counts=True)
    rank = np.empty(len(numbers), np.int32)
    rank[np.argsort(-pixels, kind="stable")] = np.arange(1, len(numbers) + 1)
    return np.where(rank <= LARGEST, rank, 0)[index].reshape(human.shape)


def reproduce(plan: ExperimentPlan, pairs: Sequence[Example], job_options: JobOptions) -> JobRecords:
    """Steer all methods on all data sets; returns a row for each data set, method and image.

    Parameters
    ----------
    pairs : images with scribbles, of which each image is taken once.
    """
    once = {pair.image: pair for pair in reversed(pairs)}
    # Of a folder with other pictures beside them, those that are called so.
    nuclei = [e for e in plan.nuclei if e.name.startswith(NUCLEI)] or plan.nuclei
    data = {SCRIBBLES: list(once.values())[::-1], BERKELEY: plan.data.get(BERKELEY, ()), NUCLEI: nuclei}
    strokes = QUICK_STROKES if plan.quick else STROKES
    limit = plan.image_limit(QUICK_IMAGES)
    done: dict[str, Record] = {}
    failed: dict[str, str] = {}
    for data_set, examples in data.items():
        some = spread(examples, IMAGES if limit is None else min(limit, IMAGES)) if examples else []
        for name in available_methods(STEERED[data_set]) if some else ():
            choice = named_choice(name, CHANGES.get(name))
            jobs = {e.name: SteeredImage(e, data_set, choice, strokes, plan.seed) for e in some}
            depends_on = {
                "settings": choice.to_dict(),
                "strokes": strokes,
                "choosers": list(choosers_of(choice)),
                "seed": plan.seed,
            }
            title = f"steering-{data_set.lower()}-{name}"
            rows = run_jobs(title, courses, jobs, depends_on, job_options, list_files(some))
            done |= {f"{data_set}/{name}/{image}": row for image, row in rows.done.items()}
            failed |= {f"{data_set}/{name}/{image}": reason for image, reason in rows.failed.items()}
    return JobRecords(done, failed)


def summarised(rows: Mapping[str, Record]) -> dict[str, Any]:
    """Data set -> method -> chooser -> mean and median Dice after 0, 1, 2 ... strokes, over the images."""
    content: dict[str, Any] = {}
    for data_set, name in dict.fromkeys(tuple(key.split("/")[:2]) for key in rows):
        own = [row for key, row in rows.items() if key.startswith(f"{data_set}/{name}/")]
        by_chooser = {}
        for chooser in own[0]:
            dice = np.array([row[chooser]["dice"] for row in own])
            by_chooser[chooser] = {
                "mean": dice.mean(axis=0).tolist(),
                "median": np.median(dice, axis=0).tolist(),
                "seconds": float(np.mean([row[chooser]["seconds"] for row in own])),
            }
        content.setdefault(data_set, {})[name] = {"images": len(own), "choosers": by_chooser}
    return content


def write(rows: Mapping[str, Record], folder: Path) -> None:
    """Write ``steering_curves.csv`` and, if there are any, draw them as ``steering.png``."""
    lines = [
        [*key.split("/", 2), chooser, strokes, dice]
        for key, row in rows.items()
        for chooser, course in row.items()
        for strokes, dice in enumerate(course["dice"])
    ]
    write_csv(folder / "steering_curves.csv", ("data", "method", "image", "chooser", "strokes", "dice"), lines)
    if rows:
        _draw(summarised(rows), folder / "steering.png")


def markdown(curves: Mapping[str, Any]) -> str:
    """Mean Dice after some numbers of strokes, for a person."""
    text = []
    for data_set, methods in curves.items():
        some = next(iter(methods.values()))
        count = len(next(iter(some["choosers"].values()))["mean"])
        shown = [k for k in (0, 1, 2, 5, 10) if k < count]
        text += [
            f"### A robot on {data_set} ({some['images']} images), mean Dice after so many strokes beyond the first\n",
            "| method | next stroke | " + " | ".join(map(str, shown)) + " | seconds each |",
            "|---|---|" + "---|" * (len(shown) + 1),
        ]
        for name, method in methods.items():
            for chooser, curve in method["choosers"].items():
                figures_shown = " | ".join(f"{curve['mean'][k]:.4f}" for k in shown)
                text.append(f"| {name} | {chooser} | {figures_shown} | {curve['seconds']:.2f} |")
        text.append("")
    return "\n".join(text)


def _draw(curves: Mapping[str, Any], file: Path) -> None:
    """Mean Dice against strokes: a panel for each data set, a colour for each method, a dash for each chooser."""
    drawing = figures.figure(4.4 * len(curves), 5.0)
    styles = dict(zip(CHOOSERS, ("--", "-", ":"), strict=False))
    inks = dict(
        zip(dict.fromkeys(name for methods in curves.values() for name in methods), figures.INKS[1:], strict=False)
    )
    for axes, (data_set, methods) in zip(
        drawing.subplots(1, len(curves), squeeze=False)[0], curves.items(), strict=True
    ):
        for name, method in methods.items():
            for chooser, curve in method["choosers"].items():
                axes.plot(curve["mean"], styles[chooser], color=inks[name], linewidth=1.4, label=f"{name}, {chooser}")
        # Below the axes: curves go everywhere within them.
        axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
        axes.xaxis.get_major_locator().set_params(integer=True)
        figures.tidy(axes, "strokes after the first of each label", "mean Dice", data_set)
    figures.save(drawing, file)
