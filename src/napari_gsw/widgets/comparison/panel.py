"""The dock "Compare segmentations": choose Labels layers, read their scores, see where they differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import napari
import numpy as np
import pandas as pd
from napari.layers import Labels, Layer
from napari.utils.notifications import show_error
from numpy.typing import NDArray
from qtpy import QtWidgets
from qtpy.QtCore import QSignalBlocker, Qt, QTimer
from qtpy.QtGui import QResizeEvent
from qtpy.QtWidgets import QLabel, QWidget

from napari_gsw.scores.partitions import default_tolerance
from napari_gsw.widgets.common.dock_panel import DockPanel
from napari_gsw.widgets.common.layer_choosers import LayerCombo
from napari_gsw.widgets.common.layouts import make_column, make_form, make_row, make_scroll_area
from napari_gsw.widgets.common.text import make_button, make_check_box
from napari_gsw.widgets.comparison import scoring
from napari_gsw.widgets.comparison.scoring import Comparison, format_shape
from napari_gsw.widgets.layers.layer_metadata import COMPARED, Kind, get_layer_kind, get_placement, make_metadata

# Kinds that are Labels layers, and which are not offered for a comparison.
UNMATCHED: tuple[Kind, ...] = ("missed", "false")
# A table with more rows scrolls.
MAX_ROWS = 8
# Milliseconds between updates of the step in the status line.
STATUS_INTERVAL = 100


class Column(NamedTuple):
    """A column of a table: header, name of the score, tooltip, and name of a count to write after the score."""

    header: str
    name: str
    tip: str
    reference: str = ""

    def text(self, row: Mapping[str, float]) -> str:
        if self.reference:
            return f"{format_number(row[self.name])} / {format_number(row[self.reference])}"
        return f"{row[self.name]:.3f}"


SHARE = "0 to 1, higher is better."
REGION_COLUMNS = (
    Column("Rand ↑", "rand",
        "Rand index: the share of the pairs of pixels that are together in both or apart in both.\n"
        f"{SHARE} Over several references it is the probabilistic Rand index."),
    Column("Adj.\nRand ↑", "adjusted_rand",
        "Adjusted Rand index: the Rand index corrected for chance.\n"
        "0 for unrelated segmentations, 1 for equal ones, higher is better."),
    Column("VI ↓", "variation_of_information",
        "Variation of information in bits: what one segmentation leaves unknown about the other, both ways.\n"
        "0 for equal ones, lower is better."),
    Column("Cover-\ning ↑", "covering",
        "How well the regions of the reference are covered: their best intersection over union, averaged by size.\n"
        f"{SHARE}"),
    Column("Bound.\nF ↑", "boundary_f",
        "Harmonic mean of two shares: boundary pixels of the segmentation near the reference's, and the reverse.\n"
        f"{SHARE}"),
    Column("Regions", "regions",
        "Number of labels of the segmentation / of the reference, where they are compared.\n"
        "Neither more nor fewer is better; the closer the two, the better.", "reference_regions"),
)  # fmt: skip
MATCH_TIP = (
    "An object matches one of the reference if they share at least .{} of the pixels that either has.\n{}\n" + SHARE
)
AP_TIP = "Average precision: matches over matches, missed and false objects."
F1_TIP = "F1: twice the matches over the objects of both."
OBJECT_COLUMNS = (
    *(Column(f"AP\n.{k} ↑", f"ap_{k}0", MATCH_TIP.format(k, AP_TIP) + SHARE) for k in (5, 6, 7, 8, 9)),
    *(Column(f"F1\n.{k} ↑", f"f1_{k}0", MATCH_TIP.format(k, F1_TIP) + SHARE) for k in (5, 7)),
    Column("PQ ↑", "panoptic_quality",
        f"Panoptic quality: F1 at .5, each match weighted by how much it shares.\n{SHARE}"),
    Column("Objects", "objects",
        "Number of objects of the segmentation / of the reference. 0 is background; a segmentation without a 0 has\n"
        "its largest region for a background.", "true_objects"),
)  # fmt: skip


class ScoreTable(QtWidgets.QTableWidget):  # type: ignore[misc]
    """Table with a row of scores for each reference. Columns share the width, and scroll where it is too small."""

    def __init__(self, columns: Sequence[Column]) -> None:
        super().__init__(0, len(columns))
        self._columns = columns
        self._rows: list[dict[str, Any]] = []
        for j, column in enumerate(columns):
            self.setHorizontalHeaderItem(j, QtWidgets.QTableWidgetItem(column.header))
            self.horizontalHeaderItem(j).setToolTip(column.tip)
        self.horizontalHeader().setSectionResizeMode(QtWidgets.QHeaderView.ResizeMode.Fixed)
        self.horizontalHeader().setMinimumSectionSize(24)
        self.verticalHeader().setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.verticalHeader().setMaximumWidth(100)
        self.setStyleSheet("QHeaderView::section { border: none; }")
        self.setEditTriggers(QtWidgets.QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setHorizontalScrollMode(QtWidgets.QAbstractItemView.ScrollMode.ScrollPerPixel)

    def fill(self, rows: list[dict[str, Any]]) -> None:
        self._rows = rows
        self.setRowCount(len(rows))
        for i, row in enumerate(rows):
            self.setVerticalHeaderItem(i, QtWidgets.QTableWidgetItem(row["reference"]))
            self.verticalHeaderItem(i).setToolTip(row["reference"])
            for j, column in enumerate(self._columns):
                cell = QtWidgets.QTableWidgetItem(column.text(row))
                cell.setTextAlignment(Qt.AlignmentFlag.AlignCenter)
                self.setItem(i, j, cell)
        # The caption names a single row, and its scores just fit into a narrow dock.
        self.verticalHeader().setVisible(len(rows) > 1)
        self._fit_columns()
        frame = 2 * self.frameWidth() + self.horizontalScrollBar().sizeHint().height()
        heights = [self.rowHeight(i) for i in range(min(len(rows), MAX_ROWS))]
        self.setFixedHeight(self.horizontalHeader().sizeHint().height() + sum(heights) + frame)

    def to_csv(self, delimiter: str) -> str:
        table = pd.DataFrame(self._rows)
        return str(table.to_csv(sep=delimiter, index=False, float_format="%.10g", lineterminator="\n"))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_columns()

    def _fit_columns(self) -> None:
        """Give each column the width that it needs, and an equal part of the rest."""
        metrics = self.horizontalHeader().fontMetrics()
        headers = [max(map(metrics.horizontalAdvance, column.header.splitlines())) + 8 for column in self._columns]
        needed = [max(header, self.sizeHintForColumn(j)) for j, header in enumerate(headers)]
        spare = max(0, self.viewport().width() - sum(needed)) // len(self._columns)
        for j, width in enumerate(needed):
            self.setColumnWidth(j, width + spare)


def format_number(number: float) -> str:
    """Return a number, with a decimal only if needed."""
    return f"{number:.1f}".removesuffix(".0")


def _is_comparable(layer: Layer) -> bool:
    return isinstance(layer, Labels) and get_layer_kind(layer) not in UNMATCHED


class ComparisonPanel(DockPanel):
    """Compares a Labels layer with one or several others."""

    def __init__(self, napari_viewer: napari.Viewer) -> None:
        super().__init__(napari_viewer)
        self.comparison: Comparison | None = None  # which is under way
        self.result: Comparison | None = None  # which is displayed
        # The layers that may be references, and what the list of them shows.
        self._others: list[Labels] = []
        self._offered: object = None
        # What the user has chosen; None while the panel may choose.
        self._picked: Labels | None = None
        self._ticked: list[Labels] | None = None
        self._build()
        self._timer = QTimer(self, interval=STATUS_INTERVAL, timeout=self._show_step)
        layers = self.viewer.layers.events
        self.connections.connect_layers(layers, self._layers_changed, layers.changed, layers.reordered)
        self.connections.connect(layers, self._on_event)
        self.connections.on_close(self._end)
        self.connections.stop_on_close(self._timer)
        self._list_layers()

    def _build(self) -> None:
        self.segmentation = LayerCombo("The Labels layer that is judged", _is_comparable)
        self.segmentation.activated.connect(self._pick)
        references_tip = "The Labels layers that it is compared with; tick one or several"
        self.references = QtWidgets.QListWidget(toolTip=references_tip)
        self.references.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.references.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.references.setSelectionMode(QtWidgets.QAbstractItemView.SelectionMode.NoSelection)
        self.references.setMinimumWidth(80)
        self.references.setSpacing(1)
        # The empty box of the system is invisible on a dark background.
        self.references.setStyleSheet("QListView::indicator:unchecked { border: 1px solid #888; border-radius: 2px; }")
        self.references.setFixedHeight(92)
        self.references.itemChanged.connect(self._tick)
        # One step below 0 stands for the default.
        self.tolerance = QtWidgets.QDoubleSpinBox(
            minimum=-0.5, maximum=1000, singleStep=0.5, decimals=1, value=-0.5, suffix=" pixels"
        )
        self.tolerance.setSpecialValueText("0.75 % of the diagonal")
        self.tolerance.setToolTip(
            "Boundaries match within this distance.\nOne step below 0 takes 0.75 % of the diagonal, as benchmarks do."
        )
        self.tolerance.valueChanged.connect(self._update_status)
        self.ignore = make_check_box(
            "Ignore background (0) of references",
            "Leave out the pixels that have the label 0 in a reference, such as those that nobody labelled.",
        )
        self.show_difference = make_check_box(
            "Show where they differ",
            "A layer with the share of the references that see another region at each pixel.\n"
            "Regions are paired such that they share as many pixels as they can.",
            self._show_layers,
            on=True,
        )
        self.show_unmatched = make_check_box(
            "Show missed and false objects",
            "Two layers: objects of a reference that no object of the segmentation matches by half or more, and\n"
            "objects of the segmentation that match none. For references with a background, 0.",
            self._show_layers,
            on=True,
        )
        copy_tip = "Copy the table, with all digits, to paste it into a spreadsheet"
        self.compare_button = make_button("Compare", "", lambda: self.stop() if self.comparison else self.start())
        self.copy_button = make_button("Copy", copy_tip, self.copy)
        self.save_button = make_button("Save CSV...", "Save the table, with all digits, as a file", self._save_as)
        self.status, self.caption = QLabel(wordWrap=True), QLabel(wordWrap=True)
        self.table, self.object_table = ScoreTable(REGION_COLUMNS), ScoreTable(OBJECT_COLUMNS)
        self.results = QWidget(visible=False)
        buttons = make_row(self.copy_button, self.save_button)
        make_column(self.caption, self.table, self.object_table, buttons, parent=self.results)
        form = make_form(
            ("Segmentation", self.segmentation), ("References", self.references), ("Tolerance", self.tolerance)
        )
        boxes = (self.ignore, self.show_difference, self.show_unmatched)
        inner = QWidget()
        column = make_column(form, *boxes, self.compare_button, self.status, self.results, parent=inner, spacing=6)
        column.setContentsMargins(9, 9, 9, 9)
        column.addStretch(1)
        area = make_scroll_area(inner)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)
        make_column(area, parent=self)

    # ---- what is chosen

    @property
    def _tolerance(self) -> float | None:
        value = float(self.tolerance.value())
        return value if value >= 0 else None

    def _pick(self) -> None:
        self._picked = self.segmentation.value()
        self._list_layers()

    def _tick(self, _item: QtWidgets.QListWidgetItem) -> None:
        self._ticked = self._find_ticked()
        self._update_status()

    def _find_ticked(self) -> list[Labels]:
        states = (self.references.item(row).checkState() for row in range(self.references.count()))
        return [layer for layer, state in zip(self._others, states, strict=True) if state == Qt.CheckState.Checked]

    def _explain(self) -> str | None:
        """Explain why the chosen layers cannot be compared; None if they can."""
        segmentation, references = self.segmentation.value(), self._find_ticked()
        if segmentation is None or not self._others:
            return "Open or make two Labels layers to compare them."
        if not references:
            return "Tick a reference to compare with."
        return scoring.explain_mismatch(segmentation, references)

    def _update_status(self, _: float = 0.0) -> None:
        """Describe the comparison that a click would start, or say why there can be none."""
        if self.comparison is not None:
            return
        reason = self._explain()
        self.compare_button.setEnabled(reason is None)
        if reason is None:
            layer, tolerance = self.segmentation.value(), self._tolerance
            tolerance = default_tolerance(scoring.compared_shape(layer)) if tolerance is None else tolerance
            reason = f"{format_shape(layer.data.shape)} pixels, boundaries within {format_number(tolerance)} pixels."
        self.status.setText(reason)

    # ---- the comparison

    def start(self) -> None:
        segmentation, references = self.segmentation.value(), self._find_ticked()
        if self._explain() is not None:
            self._update_status()
            return
        # What was compared stays chosen when layers come and go.
        self._picked, self._ticked = segmentation, references
        self.comparison = comparison = Comparison(segmentation, references, self._tolerance, self.ignore.isChecked())
        comparison.worker.returned.connect(self._on_returned)
        comparison.worker.finished.connect(self._on_finished)
        self._show_running(True)
        self.status.setText("comparing ...")
        self._timer.start()
        comparison.worker.start()

    def _show_running(self, running: bool) -> None:
        self.compare_button.setText("Stop" if running else "Compare")
        for widget in (self.segmentation, self.references, self.tolerance, self.ignore):
            widget.setEnabled(not running)

    def stop(self, reason: str = "Stopped.") -> None:
        """Stop the comparison; the button is enabled again when the worker has ended."""
        if self.comparison is not None:
            self._timer.stop()
            self.comparison.worker.quit()
            self.compare_button.setEnabled(False)
            self.status.setText(reason)

    def _show_step(self) -> None:
        if self.comparison is not None and self.comparison.step:
            self.status.setText(f"comparing ... {self.comparison.step}")

    def _on_returned(self, failure: str | None) -> None:
        if (result := self.comparison) is None:
            return
        if failure is not None:
            self._timer.stop()  # the text from here on stays
            self._report_failure(failure)
        elif result.rows:  # and it was not stopped
            self._timer.stop()
            self.result = result
            self.status.setText("Done.")
            self.caption.setText(result.caption)
            rows: list[dict[str, Any]] = [
                {"segmentation": result.name, "reference": name, **scores._asdict(), **(objects or {})}
                for name, scores, objects in zip_longest([*result.references, "all"], result.rows, result.object_rows)
                if scores is not None
            ]
            self.table.fill(rows)
            if result.object_rows:
                self.object_table.fill(rows)
            self.object_table.setVisible(bool(result.object_rows))
            self.results.setVisible(True)
            self._show_layers(is_new=True)

    def _on_finished(self) -> None:
        """Offer another comparison when the worker is done, has failed or was stopped; its last text stays."""
        if self.comparison is None:
            return
        self._timer.stop()
        self.comparison = None
        self._show_running(False)
        text = self.status.text()
        self._list_layers()  # layers may have come and gone meanwhile
        reason = self._explain()
        self.status.setText(text if reason is None else f"{text} {reason}")

    def _report_failure(self, reason: str) -> None:
        self.status.setText(reason)
        show_error(f"Compare segmentations: {reason}")

    # ---- what is shown, copied and saved

    def _show_layers(self, _: bool = True, is_new: bool = False) -> None:
        if (result := self.result) is not None:
            for kind, image in result.images.items():
                box = self.show_difference if kind == "difference" else self.show_unmatched
                self._show_layer(result, kind, image, box.isChecked(), is_new)

    def _show_layer(
        self, result: Comparison, kind: Kind, image: NDArray[Any] | None, wanted: bool, is_new: bool
    ) -> None:
        """Show or hide the layer of a kind. It is made when it is first wanted, and a new result is written to it."""
        layers = self.viewer.layers
        mine = (x for x in layers if get_layer_kind(x) == kind and x.metadata.get(COMPARED) == result.ids)
        layer = next(mine, None)
        if layer is not None and (image is None or layer.data.shape != image.shape or layer.data.dtype != image.dtype):
            layers.remove(layer)
            layer = None
        if layer is not None:
            if is_new:
                layer.data[...] = image  # in place: the layer keeps its look
                for name, value in get_placement(layer).items():
                    if not np.array_equal(value, result.placement[name]):
                        setattr(layer, name, result.placement[name])
                layer.refresh()
            layer.visible = wanted
        elif image is not None and wanted:
            active = layers.selection.active
            look: dict[str, Any] = {"name": f"{result.title} [{kind}]", **result.placement}
            look["metadata"] = make_metadata(kind, {COMPARED: result.ids})
            if kind in UNMATCHED:
                self.viewer.add_labels(image, **look)
            else:
                self.viewer.add_image(image, colormap="magma", blending="additive", contrast_limits=(0, 1), **look)
            if active is not None:  # a user who paints goes on in the same layer
                layers.selection.active = active

    def copy(self) -> None:
        QtWidgets.QApplication.clipboard().setText(self.table.to_csv("\t"))

    def _save_as(self) -> None:
        dialog = QtWidgets.QFileDialog(self, "Save the figures", "comparison.csv", "CSV (*.csv)")
        dialog.setAcceptMode(QtWidgets.QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix("csv")
        if dialog.exec():
            path = Path(dialog.selectedFiles()[0])
            try:
                path.write_text(self.table.to_csv(","), encoding="utf-8")
                self.status.setText(f"Saved {path.name}.")
            except OSError as reason:
                why = reason.strerror or reason
                self._report_failure(f"the figures could not be saved: {why}; choose another place")
        dialog.deleteLater()

    # ---- events of the viewer

    def _on_event(self, event: Any) -> None:
        if event.type == "data":  # of any layer; another array may have another shape
            self._layers_changed()

    def _layers_changed(self, _event: Any = None) -> None:
        if self.comparison is None:
            self._list_layers()
        elif any(layer not in self.viewer.layers for layer in self.comparison.layers):
            self.stop("Stopped, because a layer was removed.")

    def _list_layers(self) -> None:
        """Offer the Labels layers, topmost first, and keep what the user has chosen."""
        self.segmentation.follow(self.viewer.layers)
        layers = [layer for layer in reversed(self.viewer.layers) if _is_comparable(layer)]
        if self._picked not in layers:
            self._picked = None
        segmentation = self._picked or scoring.guess_segmentation(layers, self.viewer.layers.selection.active)
        self.segmentation.choose(segmentation)
        self._others = [layer for layer in layers if layer is not segmentation]
        if self._ticked:
            # Ticks that were all lost with their layers are forgotten; no tick at all is a choice too.
            self._ticked = [layer for layer in self._ticked if layer in self._others] or None
        ticked = scoring.guess_references(segmentation, self._others) if self._ticked is None else self._ticked
        rows = []
        for layer in self._others:
            tip = layer.name if layer.multiscale else f"{layer.name}, {format_shape(layer.data.shape)}"
            rows.append((layer, layer.name, tip, layer in ticked))
        if rows != self._offered:  # most events of layers change nothing here
            self._offered = rows
            with QSignalBlocker(self.references):
                self.references.clear()
                for _layer, name, tip, is_ticked in rows:
                    item = QtWidgets.QListWidgetItem(name, self.references)
                    item.setFlags(Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsUserCheckable)
                    item.setCheckState(Qt.CheckState.Checked if is_ticked else Qt.CheckState.Unchecked)
                    item.setToolTip(tip)
        self._update_status()

    def _end(self) -> None:
        """End the comparison, without Qt: the panel may already have been destroyed with its window."""
        if self.comparison is not None:
            self.comparison.worker.quit()
            self.comparison = None
