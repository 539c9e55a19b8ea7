"""Scores of a method on a data set with human segmentations.

examples --> job (read, segment, score) --> a row an image --> images.csv, and mean and median in evaluation.json

What is measured follows from the data set: of a partition its agreement with people's, of labels that scribbles asked
for how many pixels have them, and of objects on a background how many there are too, image by image and all together.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_gsw.batch import interruption
from napari_gsw.batch.jobs import JobOptions, Record, run_jobs
from napari_gsw.core.errors import InputError
from napari_gsw.files.labels import write_labels
from napari_gsw.files.output_folder import check_writable, ensure_folder
from napari_gsw.files.results import OutputOptions, check_outputs, list_output_files, write_csv, write_json
from napari_gsw.methods import METHODS, Choice, list_scribble_methods, segment
from napari_gsw.research.evaluation.data_sets import AnnotatedImage, Scorable, list_files
from napari_gsw.research.evaluation.level_scores import find_best_levels, format_levels, score_levels
from napari_gsw.scores.objects import (
    INSTANCE_MEASURES,
    compute_object_measures,
    count_matches,
    counts_to_record,
    mark_background,
    mean_dice,
    pool_counts,
)
from napari_gsw.scores.partitions import best_overlap, compute_scores, rand_index

TABLE, SUMMARY = "images.csv", "evaluation.json"
# What a row calls the scores of a hierarchy.
LEVELS = "levels"
# A heading for a table, and the digits worth printing.
Heading = tuple[str, int]
# What is measured of each image, in the order of the tables.
MEASURES: Mapping[str, Heading] = {
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
# The same of an image of objects on a background.
OBJECT_MEASURES: Mapping[str, Heading] = {
    **{name: heading for name, heading in MEASURES.items() if name != "seconds"},
    **INSTANCE_MEASURES,
    "seconds": MEASURES["seconds"],
}
# The same of an image with scribbles.
SCRIBBLE_MEASURES: Mapping[str, Heading] = {
    "dice": ("Dice", 4),
    "labels": ("labels", 1),
    "seconds": ("seconds", 2),
}


@dataclass(frozen=True)
class ScoringTask:
    """One image to be segmented and scored.

    Attributes
    ----------
    example, choice, seed : what is segmented, and how.
    labels : where the label image goes, if anywhere.
    overwrite : whether files there that are not ours may be written over.
    levels : whether the hierarchy is scored too, cut at every threshold.
    """

    example: Scorable
    choice: Choice
    seed: int
    labels: Path | None = None
    overwrite: bool = False
    levels: bool = False


@dataclass(frozen=True)
class Evaluation:
    """Scores of a method on a data set.

    Attributes
    ----------
    settings : method and settings, ready for JSON.
    rows : measures of each image that was scored, by its name.
    failed : why the other images were skipped.
    headings : of the measures, in the order of the tables.
    """

    settings: Mapping[str, Any]
    rows: Mapping[str, Record]
    failed: Mapping[str, str]
    headings: Mapping[str, Heading]

    def summary(self, statistic: Callable[[list[float]], Any] = np.mean) -> dict[str, float]:
        """Mean (or another statistic) of each measure over the images; empty if there are none."""
        if not self.rows:
            return {}
        return {name: float(statistic([row[name] for row in self.rows.values()])) for name in self.headings}

    def pooled(self) -> dict[str, float]:
        """The measures of objects over those of all images at once; empty if objects were not measured."""
        if not self.rows or not set(INSTANCE_MEASURES) <= set(self.headings):
            return {}
        return compute_object_measures(pool_counts(self.rows.values()))

    def levels(self) -> dict[str, Any]:
        """The best levels of the hierarchies, as of :func:`best_levels`; empty if these were not scored."""
        rows = [row[LEVELS] for row in self.rows.values() if LEVELS in row]
        return find_best_levels(rows) if rows else {}

    def to_dict(self) -> dict[str, Any]:
        """The content of ``evaluation.json``."""
        return {
            "images": len(self.rows),
            "failed": list(self.failed),
            "reasons": dict(self.failed),
            "settings": dict(self.settings),
            "mean": self.summary(np.mean),
            "median": self.summary(np.median),
            **({"pooled": pooled} if (pooled := self.pooled()) else {}),
            **({"levels": levels} if (levels := self.levels()) else {}),
        }

    def table(self) -> str:
        """Mean and median of every measure, and of objects the figure over all of them, for a terminal."""
        mean, median, pooled = self.summary(np.mean), self.summary(np.median), self.pooled()
        lines = [f"{'':>24}{'mean':>10}{'median':>10}{'pooled' if pooled else '':>10}".rstrip()]
        for name, (heading, digits) in self.headings.items():
            if mean:
                over_all = f"{pooled[name]:>10.{digits}f}" if name in pooled else ""
                lines.append(f"{heading:>24}{mean[name]:>10.{digits}f}{median[name]:>10.{digits}f}{over_all}")
        if levels := self.levels():
            lines += ["", format_levels(levels)]
        return "\n".join(lines)


def evaluate(
    examples: Sequence[Scorable],
    choice: Choice,
    job_options: JobOptions,
    seed: int = 0,
    save_labels: bool = False,
    levels: bool = False,
) -> Evaluation:
    """Segment and score every example and write ``images.csv`` and ``evaluation.json``.

    Parameters
    ----------
    examples : of a data set.
    choice : the method and its settings.
    job_options : how the jobs are run, and the folder that the results go into.
    seed : of every image.
    save_labels : also write the label image of every example into ``labels/``.
    levels : also score the hierarchies, cut at every threshold; for the methods that have them.
    """
    headings = choose_headings(examples, choice)
    if levels and not (METHODS[choice.method].samples and headings is not SCRIBBLE_MEASURES):
        raise InputError(f"levels are those of a hierarchy, and {choice.method} has none here; leave --levels out")
    folder = job_options.folder / "labels" if save_labels else None
    check_writable(job_options.folder, (TABLE, SUMMARY), job_options.overwrite)
    jobs = {
        e.name: ScoringTask(e, choice, seed, folder and folder / f"{e.name}.tif", job_options.overwrite, levels)
        for e in examples
    }
    settings = {**choice.to_dict(), "seed": seed}
    depends_on = {"settings": settings, "labels": save_labels, **({"levels": True} if levels else {})}
    if folder is not None:
        for example in examples:
            check_outputs(
                folder, list_output_files(f"{example.name}.tif", OutputOptions(), samples=False), job_options.overwrite
            )
        ensure_folder(folder)
    rows = run_jobs("evaluate", score_example, jobs, depends_on, job_options, list_files(examples))
    evaluation = Evaluation(settings, rows.done, rows.failed, headings)
    write_evaluation(evaluation, job_options.folder)
    return evaluation


def choose_headings(examples: Sequence[Scorable], choice: Choice) -> Mapping[str, Heading]:
    """The measures of a data set with their headings; a method that cannot be measured on it is refused."""
    painted = any(example.painted for example in examples)
    if painted and "seeds" not in METHODS[choice.method].arrays:
        raise InputError(
            f"{choice.method} cannot use scribbles; those that can are {', '.join(list_scribble_methods())}"
        )
    if METHODS[choice.method].needs_seeds and not painted:
        raise InputError(f"{choice.method} needs scribbles, and this data set has none; take --scribbles DIR")
    if painted:
        return SCRIBBLE_MEASURES
    return OBJECT_MEASURES if all(example.has_objects for example in examples) else MEASURES


def score_example(task: ScoringTask) -> Record:
    """Read, segment and score one image; its row has a number for each measure of its data set."""
    scene = task.example.read()
    seeds: dict[str, Any] = {} if scene.seeds is None else {"seeds": scene.seeds}
    began = time.perf_counter()
    outcome = segment(
        scene.image, task.choice.with_axes(scene.axes), task.seed, report=interruption.raise_if_interrupted, **seeds
    )
    seconds = time.perf_counter() - began
    if task.labels is not None:
        write_labels(outcome.labels, task.labels, provenance=outcome.provenance, overwrite=task.overwrite)
    row: Record = (
        score_partition(outcome.labels, scene) if scene.seeds is None else score_scribbles(outcome.labels, scene)
    )
    if task.example.has_objects:
        row |= score_objects(outcome.labels, scene)
    if task.levels:
        assert outcome.result is not None
        sites, tree = outcome.result.problem.site_image, outcome.result.hierarchy
        row[LEVELS] = score_levels(sites, tree, scene.human_labels, scene.ignore_background)
    return {**row, "seconds": seconds}


def score_scribbles(labels: NDArray[Any], scene: AnnotatedImage) -> dict[str, float]:
    """How well the labels that scribbles ask for came out, and how many were wanted.

    Parameters
    ----------
    labels : label image of the scene's spatial shape, with the numbers of the scribbles.
    scene : the image, its scribbles and what was wanted.
    """
    (wanted,) = scene.human_labels
    return {"dice": mean_dice(labels, wanted), "labels": float(len(np.unique(wanted)))}


def score_partition(labels: NDArray[Any], scene: AnnotatedImage, typical: int | None = None) -> dict[str, float]:
    """All measures but the seconds: averaged over all humans (boundaries against all at once), and against one.

    Parameters
    ----------
    labels : label image of the scene's spatial shape.
    scene : the image and how people segment it.
    typical : which human is the one, if that is known already; see :func:`typical_human`.
    """
    rows = compute_scores(labels, scene.human_labels, ignore_background=scene.ignore_background)
    overall = rows[-1]
    return {
        "rand_one_human": rows[find_typical_human(scene.human_labels) if typical is None else typical].rand,
        "rand_first_human": rows[0].rand,
        "probabilistic_rand": overall.rand,
        "adjusted_rand": overall.adjusted_rand,
        "variation_of_information": overall.variation_of_information,
        "covering": overall.covering,
        "boundary_f": overall.boundary_f,
        "best_overlap": float(np.mean([best_overlap(labels, human) for human in scene.human_labels])),
        "n_regions": float(len(np.unique(labels))),
    }


def score_objects(labels: NDArray[Any], scene: AnnotatedImage) -> dict[str, float]:
    """How well the objects of a scene came out one by one, with the counts behind that.

    Parameters
    ----------
    labels : label image of the scene's spatial shape; without a 0, its largest region is the background.
    scene : the image and its objects, those of the first human; 0 is background, if there is any.
    """
    truth = scene.human_labels[0]
    counts = count_matches(mark_background(labels) if (truth == 0).any() else labels, truth)
    return counts_to_record(counts) | compute_object_measures(counts)


def find_typical_human(human_labels: Sequence[NDArray[Any]]) -> int:
    """Index of the human who agrees best with the others by the Rand index (the first of several).

    The score against one human depends a good deal on who that is, and files list people in no order. The one in the
    middle is a choice that depends neither on the order nor on the segmentation that is judged.

    Parameters
    ----------
    humans : label images of one shape.
    """
    if len(human_labels) < 3:
        return 0
    agreement = np.zeros((len(human_labels), len(human_labels)))
    for i, j in itertools.combinations(range(len(human_labels)), 2):
        agreement[i, j] = agreement[j, i] = rand_index(human_labels[i], human_labels[j])
    return int(np.argmax(agreement.sum(axis=1)))


def write_evaluation(evaluation: Evaluation, folder: Path) -> None:
    """Write ``images.csv``, a row an image, and ``evaluation.json``, the settings and the mean and median scores."""
    ensure_folder(folder)
    write_csv(
        folder / TABLE,
        ("image", *evaluation.headings, "skipped"),
        [
            *([name, *(row[m] for m in evaluation.headings), ""] for name, row in evaluation.rows.items()),
            *([name, *("" for _ in evaluation.headings), reason] for name, reason in evaluation.failed.items()),
        ],
    )
    write_json(folder / SUMMARY, evaluation.to_dict())
