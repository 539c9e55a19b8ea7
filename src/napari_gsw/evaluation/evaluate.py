"""Scores of a method on a data set with human segmentations.

examples --> job (read, segment, score) --> a row an image --> images.csv, and mean and median in evaluation.json
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_gsw.evaluation.data_sets import Example, Scene
from napari_gsw.evaluation.partition_scores import best_overlap, rand_index, scores
from napari_gsw.files.folders import ensure_folder
from napari_gsw.files.labels import put_labels
from napari_gsw.files.tables import write_csv, write_json
from napari_gsw.jobs.records import JobOptions, Row
from napari_gsw.jobs.run import run_jobs
from napari_gsw.methods.registry import Choice, segment

# What is measured of each image, in the order of the tables, with its heading and the digits worth printing.
MEASURES = {
    "rand_one_human": ("Rand, typical human", 4),
    "rand_first_human": ("Rand, first human", 4),
    "probabilistic_rand": ("Rand, all humans", 4),
    "adjusted_rand": ("adjusted Rand", 4),
    "variation_of_information": ("VI (bits)", 3),
    "covering": ("covering", 4),
    "boundary_f": ("boundary F", 4),
    "best_overlap": ("best overlap (IoU)", 4),
    "n_regions": ("regions", 1),
    "seconds": ("seconds", 2),
}


@dataclass(frozen=True)
class Task:
    """One image to be segmented and scored; `labels` is where its label image goes, if anywhere."""

    example: Example
    choice: Choice
    seed: int
    labels: Path | None = None


@dataclass(frozen=True)
class Evaluation:
    """Scores of a method on a data set.

    Attributes
    ----------
    settings : method and settings, ready for JSON.
    rows : measures of each image that was scored, by its name.
    failed : why the other images were skipped.
    """

    settings: Mapping[str, Any]
    rows: Mapping[str, Row]
    failed: Mapping[str, str]

    def summary(self, how: Any = np.mean) -> dict[str, float]:
        """Mean (or another summary) of each measure over the images; empty if there are none."""
        if not self.rows:
            return {}
        return {name: float(how([row[name] for row in self.rows.values()])) for name in MEASURES}

    def to_dict(self) -> dict[str, Any]:
        return {
            "images": len(self.rows),
            "failed": list(self.failed),
            "reasons": dict(self.failed),
            "settings": dict(self.settings),
            "mean": self.summary(np.mean),
            "median": self.summary(np.median),
        }

    def table(self) -> str:
        """Mean and median of every measure, for a terminal."""
        lines = [f"{'':>24}{'mean':>10}{'median':>10}"]
        mean, median = self.summary(np.mean), self.summary(np.median)
        for name, (heading, digits) in MEASURES.items():
            if mean:
                lines.append(f"{heading:>24}{mean[name]:>10.{digits}f}{median[name]:>10.{digits}f}")
        return "\n".join(lines)


def evaluate(
    examples: Sequence[Example], choice: Choice, manner: JobOptions, seed: int = 0, save_labels: bool = False
) -> Evaluation:
    """Segment and score every example and write ``images.csv`` and ``evaluation.json`` into the manner's folder.

    Parameters
    ----------
    save_labels : also write the label image of every example into ``labels/``.
    """
    folder = manner.folder / "labels" if save_labels else None
    jobs = {e.name: Task(e, choice, seed, folder and folder / f"{e.name}.tif") for e in examples}
    settings = {**choice.to_dict(), "seed": seed}
    depends = {"settings": settings, "labels": save_labels}
    if folder is not None:
        ensure_folder(folder)
    done = run_jobs("evaluate", scored, jobs, depends, manner, {e.name: (e.image, e.truth) for e in examples})
    found = Evaluation(settings, done.done, done.failed)
    write_evaluation(found, manner.folder)
    return found


def scored(task: Task) -> Row:
    """Read, segment and score one image."""
    scene = task.example.read()
    choice = task.choice
    if choice.settings.axes == "auto":
        choice = replace(choice, settings=choice.settings.replace(axes=scene.axes))
    began = time.perf_counter()
    found = segment(scene.image, choice, task.seed)
    took = time.perf_counter() - began
    if task.labels is not None:
        put_labels(found.labels, task.labels, provenance=found.provenance)
    return {**measures(found.labels, scene), "seconds": took}


def measures(labels: NDArray[Any], scene: Scene, typical: int | None = None) -> dict[str, float]:
    """All measures but the seconds: averaged over all humans (boundaries against all at once), and against one.

    Parameters
    ----------
    typical : which human is the one, if that is known already; see :func:`typical_human`.
    """
    rows = scores(labels, scene.humans, ignore_background=scene.ignore_background)
    every = rows[-1]
    return {
        "rand_one_human": rows[typical_human(scene.humans) if typical is None else typical].rand,
        "rand_first_human": rows[0].rand,
        "probabilistic_rand": every.rand,
        "adjusted_rand": every.adjusted_rand,
        "variation_of_information": every.variation_of_information,
        "covering": every.covering,
        "boundary_f": every.boundary_f,
        "best_overlap": float(np.mean([best_overlap(labels, human) for human in scene.humans])),
        "n_regions": float(len(np.unique(labels))),
    }


def typical_human(humans: Sequence[NDArray[Any]]) -> int:
    """Index of the human who agrees best with the others by the Rand index (the first of several).

    The score against one human depends a good deal on who that is, and files list people in no order. The one in the
    middle is a choice that depends neither on the order nor on the segmentation that is judged.
    """
    if len(humans) < 3:
        return 0
    agreement = np.zeros((len(humans), len(humans)))
    for i, j in itertools.combinations(range(len(humans)), 2):
        agreement[i, j] = agreement[j, i] = rand_index(humans[i], humans[j])
    return int(np.argmax(agreement.sum(axis=1)))


def write_evaluation(found: Evaluation, folder: Path) -> None:
    ensure_folder(folder)
    write_csv(
        folder / "images.csv",
        ("image", *MEASURES, "skipped"),
        [
            *([name, *(row[m] for m in MEASURES), ""] for name, row in found.rows.items()),
            *([name, *("" for _ in MEASURES), reason] for name, reason in found.failed.items()),
        ],
    )
    write_json(folder / "evaluation.json", found.to_dict())
