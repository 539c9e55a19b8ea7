"""Which rows of a table a person wants to see: ``area > 50, stability < 0.8``."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.errors import InputError

OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "!=": operator.ne,
    "==": operator.eq,
    "=": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
}
CONDITION = re.compile(r"^(.+?)\s*(>=|<=|!=|==|=|>|<)\s*(\S+)$")


def kept_rows(columns: Mapping[str, NDArray[Any]], text: str, rows: int) -> NDArray[np.bool_]:
    """(rows,) whether a row meets all conditions of a text; an empty one is met by all.

    Parameters
    ----------
    columns : by name, each (rows,).
    text : conditions with commas or ``and`` between them. A column goes by its name, with or without its unit, or by
        the beginning of it.

    Examples
    --------
    >>> table = {"index": np.array([1, 2, 3]), "area (µm²)": np.array([10.0, 60.0, 90.0])}
    >>> kept_rows(table, "area > 50 and index != 3", 3)
    array([False,  True, False])
    """
    kept = np.ones(rows, bool)
    for part in filter(None, (part.strip() for part in re.split(r",|\band\b", text))):
        match = CONDITION.match(part)
        if match is None:
            raise InputError(f"write a column, a sign and a number, such as area > 50, not {part!r}")
        name, sign, value = match.groups()
        column = columns[named_column(columns, name)]
        try:
            number = float(value)
        except ValueError:
            raise InputError(f"{value!r} is not a number") from None
        if column.dtype.kind not in "biuf":
            raise InputError(f"{name} has no numbers to compare")
        kept &= OPERATORS[sign](column, number)
    return kept


def named_column(columns: Mapping[str, Any], name: str) -> str:
    """The column that a person means; an InputError if it is none or several."""
    wanted = name.strip().lower()
    bare = {column: column.lower().split(" (")[0] for column in columns}
    for fits in (lambda c: c.lower() == wanted, lambda c: bare[c] == wanted, lambda c: c.lower().startswith(wanted)):
        fitting = [column for column in columns if fits(column)]
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            raise InputError(f"{name!r} may be {', '.join(fitting)}")
    raise InputError(f"there is no column {name!r}")
