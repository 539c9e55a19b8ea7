"""Tables and summaries as files: CSV and JSON, whole or not at all, in folders that are there."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from napari_gsw.core.errors import InputError


def made_folder(folder: Path) -> Path:
    """A folder that is there, with those above it."""
    with writing(f"the output folder {str(folder)!r}"):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


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
    scratch = path.with_name(path.name + ".part")
    with writing(repr(str(path))):
        try:
            with scratch.open("w", newline="", encoding="utf-8") as file:
                file.write(text)
            scratch.replace(path)
        except BaseException:
            scratch.unlink(missing_ok=True)
            raise


@contextmanager
def writing(what: str) -> Iterator[None]:
    """What the system does not let us write (a full disk, a lack of rights) is the user's to mend: one line tells."""
    try:
        yield
    except OSError as reason:
        raise InputError(f"{what} cannot be written: {reason.strerror or reason}") from None
