"""The table of a comparison: what its columns tell, how a figure is written, and the table as text."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import napari
from napari.layers import Labels
from napari.utils.notifications import show_error
from qtpy.QtCore import QSignalBlocker, Qt, QTimer
from qtpy.QtGui import QResizeEvent
from qtpy.QtWidgets import (
    QAbstractItemView,
    QApplication,
    QCheckBox,
    QComboBox,
    QDoubleSpinBox,
    QFileDialog,
    QFormLayout,
    QFrame,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QListWidget,
    QListWidgetItem,
    QPushButton,
    QScrollArea,
    QTableWidget,
    QTableWidgetItem,
    QVBoxLayout,
    QWidget,
)

from napari_gsw.scores.partitions import default_tolerance
from napari_gsw.widgets.common.dock_panel import DockPanel
from napari_gsw.widgets.comparison.layers import UNMATCHED, ComparisonLayers
from napari_gsw.widgets.comparison.scoring import (
    Comparison,
    ComparisonFailure,
    ComparisonResult,
    compared_shape,
    natural_references,
    natural_segmentation,
    obstacle,
    size,
)
from napari_gsw.widgets.layers.layer_metadata import get_layer_kind

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


# How often the step that the worker is at is shown, in milliseconds.
TICK = 100


class ComparisonPanel(DockPanel):
    """Compares a Labels layer with one or several others."""

    def __init__(self, napari_viewer: napari.Viewer) -> None:
        super().__init__(napari_viewer)
        self.viewer = napari_viewer
        self.comparison: Comparison | None = None
        self.result: ComparisonResult | None = None
        self._layers: list[Labels] = []
        self._others: list[Labels] = []
        # What the two lists show.
        self._offered: object = None
        # What the user chose by hand; None while the panel may choose.
        self._picked: Labels | None = None
        self._ticked: list[Labels] | None = None
        self.pictures = ComparisonLayers(napari_viewer)
        self._build()
        self._timer = QTimer(self, interval=TICK)
        self._timer.timeout.connect(self._tick)
        layers = self.viewer.layers.events
        self.connections.connect_layers(layers, self._layers_changed, layers.changed, layers.reordered)
        self.connections.connect(layers, self._heard)
        self.connections.on_close(self._end)
        self.connections.stop_on_close(self._timer)
        self._list()

    # ---- the form

    def _build(self) -> None:
        self.segmentation = QComboBox()
        self.segmentation.setToolTip("The Labels layer that is judged")
        # A long name must not widen the dock.
        self.segmentation.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.segmentation.setMinimumContentsLength(10)
        self.segmentation.activated.connect(self._pick)
        self.references = QListWidget()
        self.references.setToolTip("The Labels layers that it is compared with; tick one or several")
        self.references.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.references.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.references.setSelectionMode(QAbstractItemView.SelectionMode.NoSelection)
        self.references.setMinimumWidth(80)
        self.references.setSpacing(1)
        # The empty box that comes with the system cannot be seen on a dark background.
        self.references.setStyleSheet("QListView::indicator:unchecked { border: 1px solid #888; border-radius: 2px; }")
        self.references.setFixedHeight(92)
        self.references.itemChanged.connect(self._tick_changed)
        self.tolerance = QDoubleSpinBox()
        # One step below 0 stands for the default.
        self.tolerance.setRange(-0.5, 1000)
        self.tolerance.setSingleStep(0.5)
        self.tolerance.setDecimals(1)
        self.tolerance.setSuffix(" pixels")
        self.tolerance.setSpecialValueText("0.75 % of the diagonal")
        self.tolerance.setValue(self.tolerance.minimum())
        self.tolerance.setToolTip(
            "Boundaries match within this distance.\nOne step below 0 takes 0.75 % of the diagonal, as benchmarks do."
        )
        self.tolerance.valueChanged.connect(self._offer)
        self.ignore = QCheckBox("Ignore background (0) of references")
        self.ignore.setToolTip(
            "Leave out the pixels that have the label 0 in a reference, such as those that nobody labelled."
        )
        self.show_difference = QCheckBox("Show where they differ")
        self.show_difference.setChecked(True)
        self.show_difference.setToolTip(
            "A layer with the share of the references that see another region at each pixel.\n"
            "Regions are paired such that they share as many pixels as they can."
        )
        self.show_difference.toggled.connect(self._draw)
        self.show_unmatched = QCheckBox("Show missed and false objects")
        self.show_unmatched.setChecked(True)
        self.show_unmatched.setToolTip(
            "Two layers: objects of a reference that no object of the segmentation matches by half or more, and\n"
            "objects of the segmentation that match none. For references with a background, 0."
        )
        self.show_unmatched.toggled.connect(self._draw)
        form = QFormLayout()
        form.setContentsMargins(0, 0, 0, 0)
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        form.addRow("Segmentation", self.segmentation)
        form.addRow("References", self.references)
        form.addRow("Tolerance", self.tolerance)

        self.compare_button = QPushButton("Compare")
        self.compare_button.clicked.connect(self.toggle)
        self.copy_button = QPushButton("Copy")
        self.copy_button.setToolTip("Copy the table, with all digits, to paste it into a spreadsheet")
        self.copy_button.clicked.connect(self.copy)
        self.save_button = QPushButton("Save CSV...")
        self.save_button.setToolTip("Save the table, with all digits, as a file")
        self.save_button.clicked.connect(self._save_as)
        self.status, self.caption, self.table = QLabel(), QLabel(), ScoreTable()
        self.object_table = ScoreTable(OBJECT_COLUMNS)
        for label in (self.status, self.caption):
            label.setWordWrap(True)
        buttons = QHBoxLayout()
        buttons.addWidget(self.copy_button)
        buttons.addWidget(self.save_button)
        self.results = QWidget()
        figures = QVBoxLayout(self.results)
        figures.setContentsMargins(0, 0, 0, 0)
        figures.addWidget(self.caption)
        figures.addWidget(self.table)
        figures.addWidget(self.object_table)
        figures.addLayout(buttons)
        self.results.setVisible(False)

        inside = QWidget()
        column = QVBoxLayout(inside)
        column.addLayout(form)
        boxes = (self.ignore, self.show_difference, self.show_unmatched)
        for widget in (*boxes, self.compare_button, self.status, self.results):
            column.addWidget(widget)
        column.addStretch(1)
        scroll = QScrollArea()
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setWidget(inside)
        frame = QVBoxLayout(self)
        frame.setContentsMargins(0, 0, 0, 0)
        frame.addWidget(scroll)

    # ---- what the user does

    def toggle(self) -> None:
        """Begin a comparison, or end the one that goes on."""
        if self.comparison is None:
            self.start()
        else:
            self.stop()

    def start(self) -> None:
        """Compare the chosen layers."""
        segmentation, references = self.chosen
        if segmentation is None or self.reason is not None:
            self._offer()
            return
        # What was compared stays chosen when layers come and go.
        self._picked, self._ticked = segmentation, references
        self.comparison = comparison = Comparison(segmentation, references, self._reach, self.ignore.isChecked())
        comparison.worker.returned.connect(self._returned)
        comparison.worker.finished.connect(self._finished)
        self.compare_button.setText("Stop")
        self._lock(True)
        self.status.setText("comparing ...")
        self._timer.start()
        comparison.worker.start()

    def stop(self, why: str = "Stopped.") -> None:
        """End the comparison; the button comes back when the worker has noticed."""
        if self.comparison is not None:
            self._timer.stop()
            self.comparison.worker.quit()
            self.compare_button.setEnabled(False)
            self.status.setText(why)

    def copy(self) -> None:
        """Put the table on the clipboard, columns separated by tabs."""
        QApplication.clipboard().setText(self.table.written("\t"))

    def save(self, path: str | Path) -> None:
        """Write the table as a CSV file."""
        try:
            Path(path).write_text(self.table.written(","), encoding="utf-8")
        except OSError as reason:
            self._complain(f"the figures could not be saved: {reason.strerror or reason}; choose another place")
        else:
            self.status.setText(f"Saved {Path(path).name}.")

    def _save_as(self) -> None:
        dialog = QFileDialog(self, "Save the figures", "comparison.csv", "CSV (*.csv)")
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix("csv")
        if dialog.exec():
            self.save(dialog.selectedFiles()[0])
        dialog.deleteLater()

    def _pick(self, index: int) -> None:
        self._picked = self._layers[index]
        self._list()

    def _tick_changed(self, item: QListWidgetItem) -> None:
        self._ticked = self._ticks()
        self._offer()

    # ---- what is chosen

    @property
    def chosen(self) -> tuple[Labels | None, list[Labels]]:
        """The segmentation and its references."""
        index = self.segmentation.currentIndex()
        return (self._layers[index] if index >= 0 else None), self._ticks()

    @property
    def reason(self) -> str | None:
        """Why what is chosen cannot be compared, or None."""
        segmentation, references = self.chosen
        if segmentation is None or not self._others:
            return "Open or make two Labels layers to compare them."
        if not references:
            return "Tick a reference to compare with."
        return obstacle(segmentation, references)

    @property
    def _reach(self) -> float | None:
        value = float(self.tolerance.value())
        return value if value >= 0 else None

    def _ticks(self) -> list[Labels]:
        states = (self.references.item(row).checkState() for row in range(self.references.count()))
        return [layer for layer, state in zip(self._others, states, strict=True) if state == Qt.CheckState.Checked]

    # ---- what the comparison does

    def _tick(self) -> None:
        if self.comparison is not None and self.comparison.step:
            self.status.setText(f"comparing ... {self.comparison.step}")

    def _returned(self, result: ComparisonResult | ComparisonFailure | None) -> None:
        if (comparison := self.comparison) is None or result is None:
            return
        self._timer.stop()  # what is said from here on stays
        if isinstance(result, ComparisonFailure):
            self._complain(result.reason)
            return
        self.result = result
        self.pictures.take(result, comparison)
        self.status.setText("Done.")
        self.caption.setText(comparison.caption)
        by_object = result.object_rows or [{} for _ in result.rows]
        rows = [row._asdict() | objects for row, objects in zip(result.rows, by_object, strict=True)]
        self.table.fill(comparison.name, comparison.references, rows)
        if result.object_rows:
            self.object_table.fill(comparison.name, comparison.references, rows)
        self.object_table.setVisible(bool(result.object_rows))
        self.results.setVisible(True)
        self._draw()

    def _finished(self) -> None:
        """The worker is gone, whether it is done, failed or was stopped; what it said stays to be read."""
        if self.comparison is None:
            return
        self._timer.stop()
        self.comparison = None
        self.compare_button.setText("Compare")
        self._lock(False)
        said = self.status.text()
        self._list()  # layers may have come and gone meanwhile
        self.status.setText(said if self.reason is None else f"{said} {self.reason}")

    def _complain(self, reason: str) -> None:
        self.status.setText(reason)
        show_error(f"Compare segmentations: {reason}")

    def _draw(self, _: bool = True) -> None:
        """Show the pictures that are wanted, and hide the others."""
        self.pictures.show("difference", self.show_difference.isChecked())
        for kind in UNMATCHED:
            self.pictures.show(kind, self.show_unmatched.isChecked())

    # ---- what the viewer does

    def _heard(self, event: Any) -> None:
        """All that happens to any layer; another array may have another shape."""
        if event.type == "data":
            self._layers_changed()

    def _layers_changed(self, _event: Any = None) -> None:
        if self.comparison is None:
            self._list()
        elif any(layer not in self.viewer.layers for layer in self.comparison.layers):
            self.stop("Stopped, because a layer was removed.")

    def _list(self) -> None:
        """Offer the Labels layers that there are, topmost first, and keep what the user chose."""
        topmost_first = (layer for layer in list(self.viewer.layers)[::-1] if isinstance(layer, Labels))
        self._layers = layers = [layer for layer in topmost_first if get_layer_kind(layer) not in UNMATCHED]
        if self._picked not in layers:
            self._picked = None
        segmentation = self._picked or natural_segmentation(layers, self.viewer.layers.selection.active)
        self._others = [layer for layer in layers if layer != segmentation]
        if self._ticked:
            # Ticks that were all lost with their layers are forgotten; no tick at all is a choice too.
            self._ticked = [layer for layer in self._ticked if layer in self._others] or None
        ticked = natural_references(segmentation, self._others) if self._ticked is None else self._ticked
        words = [layer.name if layer.multiscale else f"{layer.name}, {size(layer.data.shape)}" for layer in layers]
        offered = layers, words, segmentation, ticked
        if offered != self._offered:  # most of what happens to layers changes nothing here
            self._offered = offered
            self._fill(segmentation, ticked, dict(zip(layers, words, strict=True)))
        self._offer()

    def _fill(self, segmentation: Labels | None, ticked: list[Labels], words: Mapping[Labels, str]) -> None:
        """Put into the two lists what there is to choose from."""
        with QSignalBlocker(self.segmentation), QSignalBlocker(self.references):
            self.segmentation.clear()
            self.segmentation.addItems([layer.name for layer in self._layers])
            self.segmentation.setCurrentIndex(self._layers.index(segmentation) if segmentation is not None else -1)
            self.references.clear()
            for layer in self._others:
                item = QListWidgetItem(layer.name, self.references)
                item.setFlags(Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsUserCheckable)
                item.setCheckState(Qt.CheckState.Checked if layer in ticked else Qt.CheckState.Unchecked)
                item.setToolTip(words[layer])

    def _offer(self, _: float = 0.0) -> None:
        """Say what a comparison would do, or why there can be none."""
        if self.comparison is not None:
            return
        reason = self.reason
        self.compare_button.setEnabled(reason is None)
        if reason is None:
            layer, reach = self._layers[self.segmentation.currentIndex()], self._reach
            shape = layer.data.shape
            reach = default_tolerance(compared_shape(layer)) if reach is None else reach
            reason = f"{size(shape)} pixels, boundaries within {count(reach)} pixels."
        self.status.setText(reason)

    def _lock(self, locked: bool) -> None:
        for widget in (self.segmentation, self.references, self.tolerance, self.ignore):
            widget.setEnabled(not locked)

    # ---- the end

    def _end(self) -> None:
        """End the comparison; no Qt here, since the panel may already have been destroyed with its window."""
        if self.comparison is not None:
            self.comparison.worker.quit()
            self.comparison = None
