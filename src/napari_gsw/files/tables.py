"""Tables and summaries as files: CSV and JSON, whole or not at all, in folders that are there."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from napari_gsw.core.posterior.region_table import Columns
from napari_gsw.files.ledger import replacing


def write_csv(path: Path, head: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A table; what was there before is replaced only when the new one is complete, and only if it was ours."""
    text = io.StringIO(newline="")
    table = csv.writer(text)
    table.writerow(head)
    table.writerows(rows)
    write_text(path, printable(text.getvalue()))


def put_columns(columns: Columns, path: Path) -> None:
    """A table of columns (k,) by name as CSV, straight into a folder that is scratch; what is not known is empty."""
    with path.open("w", newline="", encoding="utf-8") as file:
        file.write(columns_text(columns, ","))


def columns_text(columns: Columns, delimiter: str) -> str:
    """A table of columns (k,) by name as text, with every digit; what is not known is empty.

    >>> import numpy as np
    >>> print(columns_text({"index": np.array([1, 2]), "sd": np.array([0.5, np.nan])}, ","))
    index,sd
    1,0.5
    2,
    <BLANKLINE>
    """
    text = io.StringIO(newline="")
    table = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    table.writerow(columns)
    cells = (["" if cell != cell else cell for cell in column.tolist()] for column in columns.values())
    table.writerows(zip(*cells, strict=True))
    return text.getvalue()


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """As :func:`write_csv`, for JSON."""
    write_text(path, json.dumps(content, indent=2) + "\n")


def write_text(path: Path, text: str) -> None:
    """As :func:`write_csv`, for any text."""
    with replacing(path) as scratch, scratch.open("w", newline="", encoding="utf-8") as file:
        file.write(text)


def printable(text: str) -> str:
    r"""Text that can be written and printed: of a file's name that is not UTF-8, the strange bytes as ``\xe9``.

    Examples
    --------
    >>> print(printable("caf\udce9.png"))
    caf\xe9.png
    """
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # half a character, as names on Windows may have
        return text.encode("utf-8", "backslashreplace").decode("utf-8")
