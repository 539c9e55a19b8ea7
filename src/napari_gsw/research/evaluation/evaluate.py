"""Scores of a method on a data set with human segmentations: ``images.csv`` and ``evaluation.json``.

The scores depend on the data set: of a partition its agreement with annotators; of scribbles the Dice coefficient of
the wanted labels; of objects on a background also scores of the objects, by image and pooled.
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
# Key of the scores of a hierarchy.
LEVELS = "levels"
# A heading for a table, and the digits worth printing.
Heading = tuple[str, int]
# Scores of a partition, in the order of the tables.
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
# Scores of an image of objects on a background.
OBJECT_MEASURES: Mapping[str, Heading] = {
    **{name: heading for name, heading in MEASURES.items() if name != "seconds"},
    **INSTANCE_MEASURES,
    "seconds": MEASURES["seconds"],
}
# Scores of an image with scribbles.
SCRIBBLE_MEASURES: Mapping[str, Heading] = {
    "dice": ("Dice", 4),
    "labels": ("labels", 1),
    "seconds": ("seconds", 2),
}


@dataclass(frozen=True)
class ScoringTask:
    """An image to segment and score."""

    example: Scorable
    choice: Choice
    seed: int
    labels: Path | None = None  # file of the label image
    overwrite: bool = False  # replace foreign files
    levels: bool = False  # score the hierarchy too


@dataclass(frozen=True)
class Evaluation:
    """Scores of a method on a data set."""

    settings: Mapping[str, Any]
    rows: Mapping[str, Record]  # scores of each image
    failed: Mapping[str, str]  # why the other images were skipped
    headings: Mapping[str, Heading]

    def summary(self, statistic: Callable[[list[float]], Any] = np.mean) -> dict[str, float]:
        """Compute the mean (or another statistic) of each score over the images."""
        if not self.rows:
            return {}
        return {name: float(statistic([row[name] for row in self.rows.values()])) for name in self.headings}

    def pooled(self) -> dict[str, float]:
        """Compute the scores of the objects of all images together, if objects were scored."""
        if not self.rows or not set(INSTANCE_MEASURES) <= set(self.headings):
            return {}
        return compute_object_measures(pool_counts(self.rows.values()))

    def levels(self) -> dict[str, Any]:
        """Find the best levels of the hierarchies, if these were scored."""
        rows = [row[LEVELS] for row in self.rows.values() if LEVELS in row]
        return find_best_levels(rows) if rows else {}

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``evaluation.json``."""
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
        """Format mean, median and pooled scores as a table for the terminal."""
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
    """Segment and score every example, and write ``images.csv`` and ``evaluation.json``.

    Parameters
    ----------
    examples : sequence of Scorable
        The data set.
    choice : Choice
        The method and its settings.
    job_options : JobOptions
        The output folder, and how the jobs are run.
    seed : int
        Random seed of every image.
    save_labels : bool
        Also write the label image of every example into ``labels/``.
    levels : bool
        Also score the hierarchies at every threshold.
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
    records = run_jobs("evaluate", score_example, jobs, depends_on, job_options, list_files(examples))
    evaluation = Evaluation(settings, records.done, records.failed, headings)
    ensure_folder(job_options.folder)
    rows = [[name, *(row[m] for m in headings), ""] for name, row in records.done.items()]
    rows += [[name, *("" for _ in headings), reason] for name, reason in records.failed.items()]
    write_csv(job_options.folder / TABLE, ("image", *headings, "skipped"), rows)
    write_json(job_options.folder / SUMMARY, evaluation.to_dict())
    return evaluation


def choose_headings(examples: Sequence[Scorable], choice: Choice) -> Mapping[str, Heading]:
    """Choose the scores of a data set; an InputError says that a method cannot be used on it."""
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
    """Read, segment and score an image."""
    annotated = task.example.read()
    seeds: dict[str, Any] = {} if annotated.seeds is None else {"seeds": annotated.seeds}
    start = time.perf_counter()
    outcome = segment(
        annotated.image,
        task.choice.with_axes(annotated.axes),
        task.seed,
        report=interruption.raise_if_interrupted,
        **seeds,
    )
    seconds = time.perf_counter() - start
    if task.labels is not None:
        write_labels(outcome.labels, task.labels, provenance=outcome.provenance, overwrite=task.overwrite)
    row: Record = (
        score_partition(outcome.labels, annotated)
        if annotated.seeds is None
        else score_scribbles(outcome.labels, annotated)
    )
    if task.example.has_objects:
        row |= score_objects(outcome.labels, annotated)
    if task.levels:
        assert outcome.result is not None
        sites, tree = outcome.result.problem.site_image, outcome.result.hierarchy
        row[LEVELS] = score_levels(sites, tree, annotated.human_labels, annotated.ignore_background)
    return {**row, "seconds": seconds}


def score_scribbles(labels: NDArray[Any], annotated: AnnotatedImage) -> dict[str, float]:
    """Score labels that have the numbers of the scribbles, and count the wanted labels."""
    (wanted,) = annotated.human_labels
    return {"dice": mean_dice(labels, wanted), "labels": float(len(np.unique(wanted)))}


def score_partition(labels: NDArray[Any], annotated: AnnotatedImage, typical: int | None = None) -> dict[str, float]:
    """Compute all scores of a partition, averaged over annotators (boundaries against all), and against one.

    `typical` is the index of that annotator, see :func:`find_typical_human`.
    """
    rows = compute_scores(labels, annotated.human_labels, ignore_background=annotated.ignore_background)
    overall = rows[-1]
    return {
        "rand_one_human": rows[find_typical_human(annotated.human_labels) if typical is None else typical].rand,
        "rand_first_human": rows[0].rand,
        "probabilistic_rand": overall.rand,
        "adjusted_rand": overall.adjusted_rand,
        "variation_of_information": overall.variation_of_information,
        "covering": overall.covering,
        "boundary_f": overall.boundary_f,
        "best_overlap": float(np.mean([best_overlap(labels, human) for human in annotated.human_labels])),
        "n_regions": float(len(np.unique(labels))),
    }


def score_objects(labels: NDArray[Any], annotated: AnnotatedImage) -> dict[str, float]:
    """Score and count the objects; without a 0, the largest region of the labels is the background."""
    truth = annotated.human_labels[0]
    counts = count_matches(mark_background(labels) if (truth == 0).any() else labels, truth)
    return counts_to_record(counts) | compute_object_measures(counts)


def find_typical_human(human_labels: Sequence[NDArray[Any]]) -> int:
    """Find the annotator who agrees best with the others by the Rand index, the first of several.

    The score against one annotator depends on who that is. This choice depends neither on the order of the file nor on
    the segmentation that is scored.
    """
    if len(human_labels) < 3:
        return 0
    agreement = np.zeros((len(human_labels), len(human_labels)))
    for i, j in itertools.combinations(range(len(human_labels)), 2):
        agreement[i, j] = agreement[j, i] = rand_index(human_labels[i], human_labels[j])
    return int(np.argmax(agreement.sum(axis=1)))
