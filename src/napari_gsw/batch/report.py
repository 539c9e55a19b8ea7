"""What became of a batch: ``batch.csv``, a row an image, and ``batch.json``, what made them and the totals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from napari_gsw.batch.order import BatchOrder
from napari_gsw.core.versions import all_versions
from napari_gsw.files.tables import write_csv, write_json
from napari_gsw.jobs.records import Failure, JobOutcome, Row

TABLE, SUMMARY = "batch.csv", "batch.json"
DONE, FAILED, LEFT = "done", "failed", "left"
FIGURES = ("regions", "clusters", "sites", "best_log_posterior", "seconds")
COLUMNS = ("name", "status", *FIGURES, "attempts", "labels", "remarks", "reason")


def report_rows(names: Sequence[str], outcomes: Mapping[str, JobOutcome]) -> list[Row]:
    """A row an image with the columns of ``batch.csv``; what is not known is None.

    Parameters
    ----------
    names : of all images, in the order of the rows.
    outcomes : what became of them, by name; those that are not there were never reached and are `left`.
    """
    return [_row(name, outcomes.get(name)) for name in names]


def write_report(order: BatchOrder, output: Path, rows: Sequence[Row], seconds: float) -> None:
    """Write both files into the output folder; `seconds` is how long this run took."""
    write_csv(output / TABLE, COLUMNS, [["" if row[c] is None else row[c] for c in COLUMNS] for row in rows])
    count = Counter(row["status"] for row in rows)
    content = {
        "software": "napari-gsw",
        "versions": all_versions(),
        "folder": str(order.image_folder),
        "settings": order.choice.to_dict(),
        "seed": int(order.seed),
        "selection": vars(order.selection),
        "format": order.format,
        "extras": vars(order.extras),
        "teachers": [{"image": t.image.name, "painted": t.painted.name} for t in order.teachers],
        "images": len(rows),
        **{status: count[status] for status in (DONE, FAILED, LEFT)},
        "failures": {row["name"]: row["reason"] for row in rows if row["status"] == FAILED},
        "regions": sum(row["regions"] or 0 for row in rows),
        "image_seconds": round(sum(row["seconds"] or 0.0 for row in rows), 3),
        "run_seconds": round(seconds, 3),
    }
    write_json(output / SUMMARY, content)


def _row(name: str, outcome: JobOutcome | None) -> Row:
    empty: Row = dict.fromkeys(COLUMNS) | {"name": name, "status": LEFT, "attempts": 0, "remarks": "", "reason": ""}
    if outcome is None:
        return empty
    row = outcome.row_or_failure
    if isinstance(row, Failure):
        return empty | {"status": FAILED, "attempts": outcome.attempts, "reason": row.reason}
    known = {column: value for column, value in row.items() if column in COLUMNS}
    return empty | known | {"status": DONE, "attempts": outcome.attempts}
