"""A table of columns as Qt shows it: sorted by numbers, what is not known last."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from qtpy.QtCore import QAbstractTableModel, QModelIndex, Qt

from napari_gsw.core.posterior.region_table import Columns

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
