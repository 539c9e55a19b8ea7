"""Qt's model of a table, in the user's order and with the user's filter: ``area > 50, stability < 0.8``."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from qtpy.QtCore import QAbstractTableModel, QModelIndex, Qt

from napari_gsw.core.errors import InputError

OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    ">=": operator.ge, "<=": operator.le, "!=": operator.ne, "==": operator.eq, "=": operator.eq, ">": operator.gt,
    "<": operator.lt,
}  # fmt: skip
CONDITION = re.compile(r"^(.+?)\s*(>=|<=|!=|==|=|>|<)\s*(\S+)$")
ROOT = QModelIndex()


def filter_rows(table: pd.DataFrame, text: str) -> NDArray[np.bool_]:
    """Return which rows of a table meet all conditions of a text, with commas or ``and`` between them.

    A column may be named without its unit, or by the beginning of its name.

    >>> table = pd.DataFrame({"index": [1, 2, 3], "area (µm²)": [10.0, 60.0, 90.0]})
    >>> filter_rows(table, "area > 50 and index != 3")
    array([False,  True, False])
    """
    kept = np.ones(len(table), bool)
    for condition in filter(None, (part.strip() for part in re.split(r",|\band\b", text))):
        match = CONDITION.match(condition)
        if match is None:
            raise InputError(f"write a column, a sign and a number, such as area > 50, not {condition!r}")
        name, sign, value = match.groups()
        column = table[find_column(table, name)].to_numpy()
        try:
            number = float(value)
        except ValueError:
            raise InputError(f"{value!r} is not a number") from None
        if column.dtype.kind not in "biuf":
            raise InputError(f"{name} has no numbers to compare")
        kept &= OPERATORS[sign](column, number)
    return kept


def find_column(names: Iterable[str], name: str) -> str:
    """Return the column that a user means; an InputError if there is none or more than one."""
    wanted, texts = name.strip().lower(), {column: column.lower() for column in names}
    for fitting in (
        [column for column, text in texts.items() if text == wanted],
        [column for column, text in texts.items() if text.split(" (")[0] == wanted],
        [column for column, text in texts.items() if text.startswith(wanted)],
    ):
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            raise InputError(f"{name!r} may be {', '.join(fitting)}")
    raise InputError(f"there is no column {name!r}")


class TableModel(QAbstractTableModel):  # type: ignore[misc]
    """Model of a `table`, of whose rows those of `order` are displayed."""

    def __init__(self) -> None:
        super().__init__()
        self.table = pd.DataFrame()
        self.order: NDArray[np.int64] = np.zeros(0, np.int64)
        self._columns: list[NDArray[Any]] = []
        self._kept: NDArray[np.bool_] = np.zeros(0, bool)
        self._sorted: tuple[str, bool] | None = None

    def set_table(self, table: pd.DataFrame, kept: NDArray[np.bool_]) -> None:
        """Show the rows of a table that are `kept` (rows,), in the same order if it has the column of the order."""
        self.beginResetModel()
        self.table, self._kept = table, kept
        self._columns = [table[name].to_numpy() for name in table]
        self._update_order()
        self.endResetModel()

    def _update_order(self) -> None:
        order = np.arange(len(self.table))
        if self._sorted is not None and self._sorted[0] in self.table:
            name, upwards = self._sorted
            column = self.table[name].reset_index(drop=True)
            if column.dtype.kind not in "biuf":
                column = column.astype(str)
            order = column.sort_values(ascending=upwards, kind="stable", na_position="last").index.to_numpy()
        self.order = order[self._kept[order]]

    def rowCount(self, parent: QModelIndex = ROOT) -> int:
        return 0 if parent.isValid() else len(self.order)

    def columnCount(self, parent: QModelIndex = ROOT) -> int:
        return 0 if parent.isValid() else len(self._columns)

    def data(self, index: QModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if role == Qt.ItemDataRole.DisplayRole:
            return format_cell(self._columns[index.column()][self.order[index.row()]])
        if role == Qt.ItemDataRole.TextAlignmentRole and self._columns[index.column()].dtype.kind in "biuf":
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        return None

    def headerData(self, section: int, side: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if role not in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole):
            return None
        return str(self.table.columns[section]) if side == Qt.Orientation.Horizontal else str(section + 1)

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        self.layoutAboutToBeChanged.emit()
        before, chosen = self.order, self.persistentIndexList()
        is_known = 0 <= column < len(self._columns)
        self._sorted = (self.table.columns[column], order == Qt.SortOrder.AscendingOrder) if is_known else None
        self._update_order()
        # The chosen rows stay chosen, wherever they are now.
        positions = {int(row): position for position, row in enumerate(self.order)}
        moved = [self.index(positions[int(before[index.row()])], index.column()) for index in chosen]
        self.changePersistentIndexList(chosen, moved)
        self.layoutChanged.emit()


def format_cell(value: Any) -> str:
    """Return the text of a cell.

    >>> format_cell(3), format_cell(0.123456), format_cell(float("nan")), format_cell("2 5")
    ('3', '0.1235', '', '2 5')
    """
    if not isinstance(value, (float, np.floating)):
        return str(value)
    number = float(value)
    return "" if np.isnan(number) else f"{number:.4g}" if abs(number) < 1e4 else f"{number:.0f}"
