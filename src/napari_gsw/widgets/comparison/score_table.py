"""The table of a comparison: what its columns tell, how a figure is written, and the table as text."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from qtpy.QtCore import Qt
from qtpy.QtGui import QResizeEvent
from qtpy.QtWidgets import QAbstractItemView, QHeaderView, QTableWidget, QTableWidgetItem

# A table with more rows than this scrolls.
ROWS = 8


# Figures by name.
Figures = Mapping[str, float]


class Column(NamedTuple):
    """A column of a table: what it is called, what it tells, and how a row is written."""

    header: str
    tip: str
    text: Callable[[Figures], str]


REGION_COLUMNS = (
    Column(
        "Rand ↑",
        "Rand index: the share of the pairs of pixels that are together in both or apart in both.\n"
        "0 to 1, higher is better. Over several references it is the probabilistic Rand index.",
        lambda row: f"{row['rand']:.3f}",
    ),
    Column(
        "Adj.\nRand ↑",
        "Adjusted Rand index: the Rand index corrected for chance.\n"
        "0 for unrelated segmentations, 1 for equal ones, higher is better.",
        lambda row: f"{row['adjusted_rand']:.3f}",
    ),
    Column(
        "VI ↓",
        "Variation of information in bits: what one segmentation leaves unknown about the other, both ways.\n"
        "0 for equal ones, lower is better.",
        lambda row: f"{row['variation_of_information']:.3f}",
    ),
    Column(
        "Cover-\ning ↑",
        "How well the regions of the reference are covered: their best intersection over union, averaged by size.\n"
        "0 to 1, higher is better.",
        lambda row: f"{row['covering']:.3f}",
    ),
    Column(
        "Bound.\nF ↑",
        "Harmonic mean of two shares: boundary pixels of the segmentation near the reference's, and the reverse.\n"
        "0 to 1, higher is better.",
        lambda row: f"{row['boundary_f']:.3f}",
    ),
    Column(
        "Regions",
        "Number of labels of the segmentation / of the reference, where they are compared.\n"
        "Neither more nor fewer is better; the closer the two, the better.",
        lambda row: f"{count(row['regions'])} / {count(row['reference_regions'])}",
    ),
)


def _share_column(name: str, header: str, tip: str) -> Column:
    """A column of figures from 0 to 1 of which the higher is the better."""
    return Column(header, f"{tip}\n0 to 1, higher is better.", lambda row: f"{row[name]:.3f}")


_MATCH = "An object matches one of the reference if they share at least {} of the pixels that either has.\n"
OBJECT_COLUMNS = (
    *(
        _share_column(
            f"ap_{percent}",
            f"AP\n.{percent // 10} ↑",
            _MATCH.format(f".{percent // 10}") + "Average precision: matches over matches, missed and false objects.",
        )
        for percent in (50, 60, 70, 80, 90)
    ),
    *(
        _share_column(
            f"f1_{percent}",
            f"F1\n.{percent // 10} ↑",
            _MATCH.format(f".{percent // 10}") + "F1: twice the matches over the objects of both.",
        )
        for percent in (50, 70)
    ),
    _share_column("panoptic_quality", "PQ ↑", "Panoptic quality: F1 at .5, each match weighted by how much it shares."),
    Column(
        "Objects",
        "Number of objects of the segmentation / of the reference. 0 is background; a segmentation without a 0 has\n"
        "its largest region for a background.",
        lambda row: f"{count(row['objects'])} / {count(row['true_objects'])}",
    ),
)


class ScoreTable(QTableWidget):  # type: ignore[misc]
    """One row of figures for each reference. Columns share the room, and scroll where there is too little of it."""

    def __init__(self, columns: Sequence[Column] = REGION_COLUMNS) -> None:
        super().__init__(0, len(columns))
        self._columns = columns
        self._segmentation = ""
        self._rows: list[tuple[str, Figures]] = []
        for j, column in enumerate(columns):
            head = QTableWidgetItem(column.header)
            head.setToolTip(column.tip)
            self.setHorizontalHeaderItem(j, head)
        self.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.horizontalHeader().setMinimumSectionSize(24)
        self.verticalHeader().setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.verticalHeader().setMaximumWidth(100)
        self.setStyleSheet("QHeaderView::section { border: none; }")
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)

    def fill(self, segmentation: str, references: Sequence[str], rows: Sequence[Figures]) -> None:
        """Show how a segmentation agrees with references, all of them by name; a row more is that of all together."""
        names = [*references, "all"] if len(references) > 1 else references
        self._segmentation, self._rows = segmentation, list(zip(names, rows, strict=True))
        self.setRowCount(len(rows))
        for i, (name, row) in enumerate(self._rows):
            head = QTableWidgetItem(name)
            head.setToolTip(name)
            self.setVerticalHeaderItem(i, head)
            for j, column in enumerate(self._columns):
                cell = QTableWidgetItem(column.text(row))
                cell.setTextAlignment(Qt.AlignmentFlag.AlignCenter)
                self.setItem(i, j, cell)
        # A single row is named in the caption, and its figures just fit into a narrow dock.
        self.verticalHeader().setVisible(len(rows) > 1)
        self._share()
        frame = 2 * self.frameWidth() + self.horizontalScrollBar().sizeHint().height()
        heights = [self.rowHeight(i) for i in range(min(len(rows), ROWS))]
        self.setFixedHeight(self.horizontalHeader().sizeHint().height() + sum(heights) + frame)

    def written(self, delimiter: str) -> str:
        """The table as text, with all digits."""
        text = io.StringIO()
        table = csv.writer(text, delimiter=delimiter, lineterminator="\n")
        for place, (name, row) in enumerate(self._rows):
            if place == 0:
                table.writerow(("segmentation", "reference", *row))
            table.writerow((self._segmentation, name, *(f"{figure:.10g}" for figure in row.values())))
        return text.getvalue()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._share()

    def _share(self) -> None:
        """Give each column what it needs, and an equal part of what is left."""
        letters = self.horizontalHeader().fontMetrics()
        heads = [max(map(letters.horizontalAdvance, column.header.splitlines())) + 8 for column in self._columns]
        needed = [max(head, self.sizeHintForColumn(j)) for j, head in enumerate(heads)]
        spare = max(0, self.viewport().width() - sum(needed)) // len(self._columns)
        for j, width in enumerate(needed):
            self.setColumnWidth(j, width + spare)


def count(number: float) -> str:
    """A number, with a decimal only if it needs one.

    >>> count(6.0), count(2.5)
    ('6', '2.5')
    """
    return f"{number:.1f}".removesuffix(".0")
