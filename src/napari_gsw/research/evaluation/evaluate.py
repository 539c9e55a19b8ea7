"""Scores of a method on a data set with human segmentations: ``images.csv`` and ``evaluation.json``.

Partitions are scored against annotators, labels of scribbles by their Dice coefficient, objects by image and pooled. A
hierarchy is cut at every threshold; its best cuts are those with one threshold for the whole data set (optimal data-set
scale, ODS), and with the best one for each image (optimal image scale, OIS).
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from napari_gsw.batch import interruption
from napari_gsw.batch.jobs import JobOptions, Record, run_jobs
from napari_gsw.core.errors import InputError
from napari_gsw.core.posterior.result import MethodResult
from napari_gsw.files.labels import write_labels
from napari_gsw.files.output_folder import check_writable, ensure_folder
from napari_gsw.files.results import OutputOptions, check_outputs, write_csv, write_json
from napari_gsw.methods import METHODS, Choice, list_scribble_methods, segment
from napari_gsw.research.evaluation.data_sets import AnnotatedImage, Example
from napari_gsw.research.evaluation.easy_images import EasyImage
from napari_gsw.scores.objects import (
    INSTANCE_MEASURES,
    compute_object_measures,
    count_matches,
    mark_background,
    mean_dice,
    pool_counts,
)
from napari_gsw.scores.partitions import best_overlap, compute_scores, contingency_table, rand_index, score_table

Scorable = Example | EasyImage
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
# Scores of an image of objects on a background, and of one with scribbles.
OBJECT_MEASURES: Mapping[str, Heading] = {
    **{name: heading for name, heading in MEASURES.items() if name != "seconds"},
    **INSTANCE_MEASURES,
    "seconds": MEASURES["seconds"],
}
SCRIBBLE_MEASURES: Mapping[str, Heading] = {"dice": ("Dice", 4), "labels": ("labels", 1), "seconds": ("seconds", 2)}
# Heights at which a hierarchy is cut, as probabilities, the scores of a cut, and that of which less is better.
THRESHOLDS = tuple(round(percent / 100, 2) for percent in range(100))
LEVEL_MEASURES = ("probabilistic_rand", "variation_of_information", "covering")
LESS_IS_BETTER = "variation_of_information"


def summarize(rows: Sequence[Record], headings: Iterable[str]) -> dict[str, Any]:
    """Compute mean and median of scores over images, and what was scored of objects (pooled) and of hierarchies."""
    columns = {name: [row[name] for row in rows] for name in headings} if rows else {}
    summary: dict[str, Any] = {
        "mean": {name: float(np.mean(column)) for name, column in columns.items()},
        "median": {name: float(np.median(column)) for name, column in columns.items()},
    }
    if set(INSTANCE_MEASURES) <= set(columns):
        summary["pooled"] = compute_object_measures(pool_counts(rows))
    if rows and LEVELS in rows[0]:
        summary[LEVELS] = find_best_levels([row[LEVELS] for row in rows])
    return summary


def format_table(summary: Mapping[str, Any]) -> str:
    """Format what :func:`summarize` returns as a table for the terminal."""
    mean, median, pooled = summary["mean"], summary["median"], summary.get("pooled", {})
    lines = [f"{'':>24}{'mean':>10}{'median':>10}{'pooled' if pooled else '':>10}".rstrip()]
    for name in mean:
        heading, digits = {**OBJECT_MEASURES, **SCRIBBLE_MEASURES}[name]
        over_all = f"{pooled[name]:>10.{digits}f}" if name in pooled else ""
        lines.append(f"{heading:>24}{mean[name]:>10.{digits}f}{median[name]:>10.{digits}f}{over_all}")
    if LEVELS in summary:
        lines += ["", f"{'levels of the hierarchy':>24}{'ODS':>10}{'at':>10}{'regions':>10}{'OIS':>10}"]
        for name, row in summary[LEVELS].items():
            heading, digits = MEASURES[name]
            ods, ois = (f"{row[key]:>10.{digits}f}" for key in ("ods", "ois"))
            lines.append(f"{heading:>24}{ods}{row['threshold']:>10.2f}{row['regions']:>10.1f}{ois}")
    return "\n".join(lines)


def evaluate(
    examples: Sequence[Scorable], choice: Choice, job_options: JobOptions, seed: int = 0, save_labels: bool = False,
    levels: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Segment and score every example, and write ``images.csv`` and ``evaluation.json``, whose content is returned.

    Also write the label image of every example into ``labels/``, and score the hierarchies, if asked to.
    """
    headings = choose_headings(examples, choice)
    if levels and not (METHODS[choice.method].samples and headings is not SCRIBBLE_MEASURES):
        raise InputError(f"levels are those of a hierarchy, and {choice.method} has none here; leave --levels out")
    overwrite = job_options.overwrite
    check_writable(job_options.folder, (TABLE, SUMMARY), overwrite)
    folder = job_options.folder / "labels"
    if save_labels:
        for example in examples:
            check_outputs(folder / f"{example.name}.tif", OutputOptions(), samples=False, overwrite=overwrite)
        ensure_folder(folder)
    settings = {**choice.to_dict(), "seed": seed}
    depends_on = {"settings": settings, "labels": save_labels, "levels": levels}
    jobs, files = {e.name: e for e in examples}, {e.name: e.files for e in examples}
    work = partial(score_example, choice, seed, folder if save_labels else None, overwrite, levels)
    records = run_jobs("evaluate", work, jobs, depends_on, job_options, files)
    ensure_folder(job_options.folder)
    rows = [[name, *(row[m] for m in headings), ""] for name, row in records.done.items()]
    rows += [[name, *("" for _ in headings), reason] for name, reason in records.failed.items()]
    write_csv(job_options.folder / TABLE, ("image", *headings, "skipped"), rows)
    content = {
        "images": len(records.done),
        "failed": list(records.failed),
        "reasons": dict(records.failed),
        "settings": settings,
        **summarize(list(records.done.values()), headings),
    }
    write_json(job_options.folder / SUMMARY, content)
    return content


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


def score_example(
    choice: Choice, seed: int, folder: Path | None, overwrite: bool, levels: bool, example: Scorable
) -> Record:
    """Read, segment and score an image; write its labels into a folder, and score its hierarchy, if asked to."""
    annotated = example.read()
    row, outcome = score_image(annotated, choice, seed, example.has_objects)
    if folder is not None:
        write_labels(outcome.labels, folder / f"{example.name}.tif", provenance=outcome.provenance, overwrite=overwrite)
    return row | (score_levels(outcome, annotated) if levels else {})


def score_image(
    annotated: AnnotatedImage, choice: Choice, seed: int, has_objects: bool = False
) -> tuple[Record, MethodResult]:
    """Segment and score an image; return the result too."""
    arrays: dict[str, Any] = {} if annotated.seeds is None else {"seeds": annotated.seeds}
    choice, check = choice.with_axes(annotated.axes), interruption.raise_if_interrupted
    start = time.perf_counter()
    outcome = segment(annotated.image, choice, seed, report=check, **arrays)
    row: Record = {"seconds": time.perf_counter() - start}
    labels, truth = outcome.labels, annotated.human_labels[0]
    if annotated.seeds is not None:
        row |= {"dice": mean_dice(labels, truth), "labels": float(len(np.unique(truth)))}
    else:
        row |= score_partition(labels, annotated)
    if has_objects:  # without a 0, the largest region of the labels is the background
        counts = count_matches(mark_background(labels) if (truth == 0).any() else labels, truth)
        row |= counts | compute_object_measures(counts)
    return row, outcome


def score_partition(labels: NDArray[Any], annotated: AnnotatedImage) -> dict[str, float]:
    """Compute all scores of a partition, averaged over annotators (boundaries against all), and against one."""
    rows = compute_scores(labels, annotated.human_labels, ignore_background=annotated.ignore_background)
    overall = rows[-1]._asdict()
    return {
        "rand_one_human": rows[find_typical_human(annotated.human_labels)].rand,
        "rand_first_human": rows[0].rand,
        "probabilistic_rand": overall["rand"],
        **{m: overall[m] for m in ("adjusted_rand", "variation_of_information", "covering", "boundary_f")},
        "best_overlap": float(np.mean([best_overlap(labels, human) for human in annotated.human_labels])),
        "n_regions": float(len(np.unique(labels))),
    }


def find_typical_human(human_labels: Sequence[NDArray[Any]]) -> int:
    """Find the annotator who agrees best with the others by the Rand index, the first of several.

    This choice depends neither on the order of the file nor on the segmentation that is scored.
    """
    agreement = np.zeros((len(human_labels), len(human_labels)))
    if len(human_labels) > 2:
        for i, j in itertools.combinations(range(len(human_labels)), 2):
            agreement[i, j] = agreement[j, i] = rand_index(human_labels[i], human_labels[j])
    return int(np.argmax(agreement.sum(axis=1)))


def score_levels(outcome: MethodResult, annotated: AnnotatedImage) -> Record:
    """Compute each of `LEVEL_MEASURES` at each of `THRESHOLDS`, averaged over annotators, and the number of regions."""
    assert outcome.result is not None
    sites, tree = outcome.result.problem.site_image, outcome.result.hierarchy
    # Labels of the sites at each threshold (thresholds, n + 1), 0 where there is no site.
    cuts = np.stack([np.concatenate(([0], tree.labels(threshold) + 1)) for threshold in THRESHOLDS])
    scores = []
    for human in annotated.human_labels:
        # Pixels are counted once per site, and a cut adds up rows of that table.
        mask = human != 0 if annotated.ignore_background else None
        table = contingency_table(sites, human, mask)
        numbers = np.unique(sites if mask is None else sites[mask])
        for cut in cuts:
            labels = np.unique(cut[numbers], return_inverse=True)[1]
            sums = sparse.csr_array((np.ones(len(numbers), np.int64), (labels, np.arange(len(numbers)))))
            rand, _, information, covered = score_table(sparse.csr_array(sums @ table))
            scores.append((rand, information, covered))
    means = np.reshape(scores, (-1, *cuts.shape[:1], len(LEVEL_MEASURES))).mean(axis=0)
    columns = {name: column.tolist() for name, column in zip(LEVEL_MEASURES, means.T, strict=True)}
    return {LEVELS: {**columns, "n_regions": [float(cut.max()) for cut in cuts]}}


def find_best_levels(rows: Sequence[Mapping[str, Sequence[float]]]) -> dict[str, Any]:
    """Find ODS and OIS of each measure over images, from the scores of :func:`score_levels` of each.

    By measure: ``ods``, the mean over images at the best common ``threshold``, with the mean number of ``regions``
    there; and ``ois``, the mean over images of the best of each.

    Examples
    --------
    >>> rows = [{name: [0.5] * 100 for name in (*LEVEL_MEASURES, "n_regions")} for _ in range(2)]
    >>> rows[0]["covering"][30], rows[1]["covering"][70] = 0.9, 1.0
    >>> find_best_levels(rows)["covering"]
    {'ods': 0.75, 'threshold': 0.7, 'regions': 0.5, 'ois': 0.95}
    """
    regions = np.mean([row["n_regions"] for row in rows], axis=0)
    best: dict[str, Any] = {}
    for name in LEVEL_MEASURES:
        scores = np.array([row[name] for row in rows])
        mean, sign = scores.mean(axis=0), -1 if name == LESS_IS_BETTER else 1
        index = int((sign * mean).argmax())
        ois = float(sign * (sign * scores).max(axis=1).mean())
        best[name] = {"ods": float(mean[index]), "threshold": THRESHOLDS[index], "regions": float(regions[index])}
        best[name]["ois"] = ois
    return best
