"""Tables and summaries as files: CSV and JSON, whole or not at all, in folders that are there."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from napari_gsw.files.folders import writing


def write_csv(path: Path, head: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A table; what was there before is replaced only when the new one is complete."""
    text = io.StringIO(newline="")
    table = csv.writer(text)
    table.writerow(head)
    table.writerows(rows)
    _replace(path, text.getvalue())


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """As :func:`write_csv`, for JSON."""
    _replace(path, json.dumps(content, indent=2) + "\n")


def _replace(path: Path, text: str) -> None:
    """Put a text into a file beside its place, and then into its place."""
    scratch = path.with_name(path.name + ".part")
    with writing(repr(str(path))):
        try:
            with scratch.open("w", newline="", encoding="utf-8") as file:
                file.write(text)
            scratch.replace(path)
        except BaseException:
            scratch.unlink(missing_ok=True)
            raise
