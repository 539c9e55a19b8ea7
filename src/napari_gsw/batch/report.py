"""Reports of a batch: ``batch.csv``, a row for each image, and ``batch.json``, what made them and the totals.

Runs that share an output folder report what all of them have done, as their journals tell. Each looks again after it
has written, so that the last report is complete.
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
COLUMNS = ("name", "status", *FIGURES, "attempts", "labels", "remarks", "reason")
MAX_ROUNDS = 5


def make_report(names: Sequence[str], outcomes: Mapping[str, JobOutcome]) -> list[Record]:
    """Make the rows of ``batch.csv``, with None for what is unknown; images without an outcome are `left`."""
    return [_make_row(name, outcomes.get(name)) for name in names]


def write_report(
    spec: BatchSpec, output: Path, outcomes: Mapping[str, JobOutcome | None], journal: Journal, seconds: float
) -> None:
    """Write both reports into the output folder: `outcomes` are those of this run, `journal` tells of all runs."""
    for _ in range(MAX_ROUNDS):
        before = journal.files()
        everything = {**_read_other_outcomes(spec, output, journal), **outcomes}
        reached = {name: outcome for name, outcome in everything.items() if outcome is not None}
        _write_files(spec, output, make_report(sorted(everything), reached), seconds)
        if journal.files() == before:
            return


def _read_other_outcomes(spec: BatchSpec, output: Path, journal: Journal) -> dict[str, JobOutcome | None]:
    """Read the outcomes of images that exist and, if they are done, of results that exist."""
    others = {}
    for name, (outcome, _) in journal.read().items():
        record = None if outcome is None else outcome.record_or_failure
        is_gone = isinstance(record, dict) and not has_all_files(output, record)
        if not is_gone and os.path.exists(spec.image_folder / name):
            others[name] = outcome
    return others


def _write_files(spec: BatchSpec, output: Path, rows: Sequence[Record], seconds: float) -> None:
    write_csv(output / TABLE, COLUMNS, [["" if row[c] is None else row[c] for c in COLUMNS] for row in rows])
    count = Counter(row["status"] for row in rows)
    failures = {make_printable(row["name"]): make_printable(row["reason"]) for row in rows if row["status"] == FAILED}
    content = {
        "software": "napari-gsw",
        "versions": collect_versions(),
        "folder": make_printable(str(spec.image_folder)),
        "settings": spec.choice.to_dict(),
        "seed": int(spec.seed),
        "selection": vars(spec.selection),
        "format": spec.format,
        "extras": vars(spec.extras),
        "teachers": [{"image": t.image.name, "painted": t.painted.name} for t in spec.teachers],
        "images": len(rows),
        **{status: count[status] for status in (DONE, FAILED, LEFT)},
        "failures": failures,
        "regions": sum(row["regions"] or 0 for row in rows),
        "image_seconds": round(sum(row["seconds"] or 0.0 for row in rows), 3),
        "run_seconds": round(seconds, 3),
    }
    write_json(output / SUMMARY, content)


def _make_row(name: str, outcome: JobOutcome | None) -> Record:
    empty: Record = dict.fromkeys(COLUMNS) | {"name": name, "status": LEFT, "attempts": 0, "remarks": "", "reason": ""}
    if outcome is None:
        return empty
    record = outcome.record_or_failure
    if isinstance(record, Failure):
        return empty | {"status": FAILED, "attempts": outcome.attempts, "reason": record.reason}
    known = {column: value for column, value in record.items() if column in COLUMNS}
    return empty | known | {"status": DONE, "attempts": outcome.attempts}
