"""Which rows of a table a person wants to see: ``area > 50, stability < 0.8``."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from qtpy.QtCore import QAbstractTableModel, QModelIndex, Qt

from napari_gsw.core.errors import InputError
from napari_gsw.core.posterior.label_table import Columns

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


def filter_rows(columns: Mapping[str, NDArray[Any]], text: str, rows: int) -> NDArray[np.bool_]:
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
        column = columns[find_column(columns, name)]
        try:
            number = float(value)
        except ValueError:
            raise InputError(f"{value!r} is not a number") from None
        if column.dtype.kind not in "biuf":
            raise InputError(f"{name} has no numbers to compare")
        kept &= OPERATORS[sign](column, number)
    return kept


def find_column(columns: Mapping[str, Any], name: str) -> str:
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


NOWHERE = QModelIndex()


class TableModel(QAbstractTableModel):  # type: ignore[misc]
    """Rows of columns, in an order and with a filter of the user's.

    Attributes
    ----------
    columns : all rows, by name, each (rows,).
    order : the rows that are shown, from above.
    """

    def __init__(self) -> None:
        super().__init__()
        self.columns: Columns = {}
        self.order: NDArray[np.int64] = np.zeros(0, np.int64)
        self._listed: list[NDArray[Any]] = []
        self._kept: NDArray[np.bool_] = np.zeros(0, bool)
        self._sorted: tuple[str, bool] | None = None

    @property
    def rows(self) -> int:
        """How many rows there are, shown or not."""
        return len(next(iter(self.columns.values()), ()))

    def set_columns(self, columns: Columns, kept: NDArray[np.bool_]) -> None:
        """Show another table, of which the rows `kept` (rows,) pass the filter; the order stays if its column does."""
        self.beginResetModel()
        self.columns, self._kept = columns, kept
        self._listed = list(columns.values())
        self._arrange()
        self.endResetModel()

    def set_kept(self, kept: NDArray[np.bool_]) -> None:
        """Filter the rows (rows,)."""
        self.set_columns(self.columns, kept)

    def _arrange(self) -> None:
        order = np.arange(self.rows)
        if self._sorted is not None and self._sorted[0] in self.columns:
            name, upwards = self._sorted
            column = self.columns[name]
            if column.dtype == object:
                order = np.array(sorted(order, key=lambda row: str(column[row])), np.int64)
                order = order if upwards else order[::-1]
            else:
                values = column.astype(np.float64)
                order = np.argsort(np.where(np.isnan(values), np.inf, values if upwards else -values), kind="stable")
        self.order = order[self._kept[order]]

    # ---- what Qt asks for

    def rowCount(self, parent: QModelIndex = NOWHERE) -> int:
        return 0 if parent.isValid() else len(self.order)

    def columnCount(self, parent: QModelIndex = NOWHERE) -> int:
        return 0 if parent.isValid() else len(self.columns)

    def data(self, index: QModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if role not in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.TextAlignmentRole):
            return None
        column = self._listed[index.column()]
        if role == Qt.ItemDataRole.DisplayRole:
            return cell_text(column[self.order[index.row()]])
        if role == Qt.ItemDataRole.TextAlignmentRole and column.dtype != object:
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        return None

    def headerData(self, section: int, side: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if role not in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole):
            return None
        return list(self.columns)[section] if side == Qt.Orientation.Horizontal else str(section + 1)

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        self.layoutAboutToBeChanged.emit()
        before, kept = self.order, self.persistentIndexList()
        names = list(self.columns)
        known = 0 <= column < len(names)
        self._sorted = (names[column], order == Qt.SortOrder.AscendingOrder) if known else None
        self._arrange()
        # What is chosen are rows of the table, wherever they are now.
        place = {int(row): now for now, row in enumerate(self.order)}
        moved = [self.index(place[int(before[index.row()])], index.column()) for index in kept]
        self.changePersistentIndexList(kept, moved)
        self.layoutChanged.emit()


def cell_text(value: Any) -> str:
    """A value as a cell shows it.

    >>> cell_text(3), cell_text(0.123456), cell_text(float("nan")), cell_text("2 5")
    ('3', '0.1235', '', '2 5')
    """
    if not isinstance(value, (float, np.floating)):
        return str(value)
    number = float(value)
    return "" if np.isnan(number) else f"{number:.4g}" if abs(number) < 1e4 else f"{number:.0f}"
