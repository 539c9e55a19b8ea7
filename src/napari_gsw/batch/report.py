"""What became of a batch: ``batch.csv``, a row an image, and ``batch.json``, what made them and the totals.

Several runs may share an output folder, each with some of the images (a job array, say). Each reports what all of them
have come to, as their journals tell it, and looks again when it has written: so the last one to write knows of all.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from napari_gsw.batch.images import has_all_files
from napari_gsw.batch.jobs import Failure, JobOutcome, Journal, Record
from napari_gsw.batch.spec import BatchSpec
from napari_gsw.core.versions import collect_versions
from napari_gsw.files.results import make_printable, write_csv, write_json

TABLE, SUMMARY = "batch.csv", "batch.json"
DONE, FAILED, LEFT = "done", "failed", "left"
FIGURES = ("regions", "clusters", "sites", "best_log_posterior", "seconds")
# Looks at what others have written meanwhile, at most.
ROUNDS = 5
COLUMNS = ("name", "status", *FIGURES, "attempts", "labels", "remarks", "reason")


def make_report(names: Sequence[str], outcomes: Mapping[str, JobOutcome]) -> list[Record]:
    """A row an image with the columns of ``batch.csv``; what is not known is None.

    Parameters
    ----------
    names : of all images, in the order of the rows.
    outcomes : what became of them, by name; those that are not there were never reached and are `left`.
    """
    return [_row(name, outcomes.get(name)) for name in names]


def write_report(
    order: BatchSpec, output: Path, outcomes: Mapping[str, JobOutcome | None], journal: Journal, seconds: float
) -> None:
    """Write both files into the output folder.

    Parameters
    ----------
    order : what the batch is to make.
    output : its folder.
    outcomes : what became of the images of this run, by name; None of one that was never reached.
    journal : of this run and all that share its folder and its settings.
    seconds : how long this run took.
    """
    for _ in range(ROUNDS):
        before = journal.files()
        everything = {**_others(order, output, journal), **outcomes}
        reached = {name: outcome for name, outcome in everything.items() if outcome is not None}
        _write_files(order, output, make_report(sorted(everything), reached), seconds)
        if journal.files() == before:
            return


def _others(order: BatchSpec, output: Path, journal: Journal) -> dict[str, JobOutcome | None]:
    """What the journals tell of images that are there and, if they are done, of results that are there."""
    others = {}
    for name, (outcome, _) in journal.read().items():
        row = None if outcome is None else outcome.record_or_failure
        gone = isinstance(row, dict) and not has_all_files(output, row)
        if not gone and os.path.exists(order.image_folder / name):
            others[name] = outcome
    return others


def _write_files(order: BatchSpec, output: Path, rows: Sequence[Record], seconds: float) -> None:
    write_csv(output / TABLE, COLUMNS, [["" if row[c] is None else row[c] for c in COLUMNS] for row in rows])
    count = Counter(row["status"] for row in rows)
    content = {
        "software": "napari-gsw",
        "versions": collect_versions(),
        "folder": make_printable(str(order.image_folder)),
        "settings": order.choice.to_dict(),
        "seed": int(order.seed),
        "selection": vars(order.selection),
        "format": order.format,
        "extras": vars(order.extras),
        "teachers": [{"image": t.image.name, "painted": t.painted.name} for t in order.teachers],
        "images": len(rows),
        **{status: count[status] for status in (DONE, FAILED, LEFT)},
        "failures": {
            make_printable(row["name"]): make_printable(row["reason"]) for row in rows if row["status"] == FAILED
        },
        "regions": sum(row["regions"] or 0 for row in rows),
        "image_seconds": round(sum(row["seconds"] or 0.0 for row in rows), 3),
        "run_seconds": round(seconds, 3),
    }
    write_json(output / SUMMARY, content)


def _row(name: str, outcome: JobOutcome | None) -> Record:
    empty: Record = dict.fromkeys(COLUMNS) | {"name": name, "status": LEFT, "attempts": 0, "remarks": "", "reason": ""}
    if outcome is None:
        return empty
    row = outcome.record_or_failure
    if isinstance(row, Failure):
        return empty | {"status": FAILED, "attempts": outcome.attempts, "reason": row.reason}
    known = {column: value for column, value in row.items() if column in COLUMNS}
    return empty | known | {"status": DONE, "attempts": outcome.attempts}
