"""The dock with the table of a Labels layer: click a row to go there, a region to find its row, lasso dots to choose.

It reads ``layer.features``: those that the GSW segmentation widget writes, or anybody's with a column ``index``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import napari
import numpy as np
from napari.layers import Labels
from numpy.typing import NDArray
from qtpy.QtCore import QItemSelection, QItemSelectionModel, QSize, Qt, QTimer
from qtpy.QtGui import QGuiApplication, QKeySequence, QResizeEvent
from qtpy.QtWidgets import (
    QAbstractItemView,
    QComboBox,
    QFileDialog,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QShortcut,
    QSplitter,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from napari_gsw.core.errors import InputError
from napari_gsw.core.posterior.label_table import Columns
from napari_gsw.files.results import columns_to_csv
from napari_gsw.widgets.common.dock_panel import DockPanel
from napari_gsw.widgets.common.labels import (
    ElidedLabel,
    format_sentence,
    make_button,
    make_text_label,
    muted_colour,
    warning_colour,
)
from napari_gsw.widgets.common.layer_choosers import LayerCombo
from napari_gsw.widgets.layers.layer_metadata import get_layer_kind, unwrap_viewer
from napari_gsw.widgets.table.outlines import ChosenOutlines, find_row, go_to_row, has_table
from napari_gsw.widgets.table.plot import ColumnPlot
from napari_gsw.widgets.table.table_model import TableModel, cell_text, filter_rows

# How long a selection waits for the rest of it before it is drawn, in milliseconds.
PAUSE = 40
# How far, in pixels of the canvas, a click may stray.
STILL = 4
# Rows that columns are made wide enough for.
SEEN_ROWS = 30
# Pixels around the text of a cell.
CELL_MARGIN = 8
# What the plot shows first, by the beginning of the names.
FIRST_PLOT = ("pixels", "stability")
NO_TABLE = "Run a segmentation, or choose a Labels layer that has features: their table is shown here."


class TablePanel(DockPanel):
    """A table, a plot of two of its columns, and the outlines of what is chosen in them."""

    def __init__(self, napari_viewer: napari.Viewer) -> None:
        super().__init__(napari_viewer)
        self.viewer = viewer = unwrap_viewer(napari_viewer)
        self.model = TableModel()
        self.outlines = ChosenOutlines(viewer)
        self._followed: list[Labels] = []
        self._picked = False
        self._refusal = ""
        self._build()
        self._pause = QTimer(self)
        self._pause.setSingleShot(True)
        self._pause.setInterval(PAUSE)
        self._pause.timeout.connect(self._show_chosen)
        # A table is shown in a turn of its own: whoever writes it has taken as long to measure it.
        self._renewal = QTimer(self)
        self._renewal.setSingleShot(True)
        self._renewal.timeout.connect(self._renew)
        self._is_stale = False
        self._latest: Labels | None = None
        connections = self.connections
        connections.stop_on_close(self._pause)
        connections.stop_on_close(self._renewal)
        connections.connect_layers(viewer.layers.events, self._layers_changed)
        connections.connect(viewer.events.theme, self._theme_changed)
        viewer.mouse_drag_callbacks.append(self._pressed)
        connections.on_close(lambda: viewer.mouse_drag_callbacks.remove(self._pressed))
        connections.on_close(self.outlines.remove)
        self._theme_changed()
        self._layers_changed()

    # ---- building

    def _build(self) -> None:
        self.layer_combo = LayerCombo(has_table)
        self.layer_combo.setToolTip("A Labels layer with a table: the regions or clusters of a segmentation")
        self.layer_combo.activated.connect(self._pick)
        self.layer_combo.chosen.connect(self._show_table)
        self.filter = QLineEdit()
        self.filter.setPlaceholderText("Filter: area > 50")
        self.filter.setClearButtonEnabled(True)
        self.filter.setToolTip(
            "Show only rows that meet all of these: columns, signs (< <= = != >= >) and numbers, as in\n"
            "area > 50, stability < 0.8"
        )
        self.filter.textChanged.connect(self._filter)
        top = QHBoxLayout()
        top.addWidget(self.layer_combo, 1)
        top.addWidget(self.filter, 2)
        self.table = QTableView()
        self.table.setModel(self.model)
        self.table.setSortingEnabled(True)
        self.table.horizontalHeader().setSortIndicator(-1, Qt.SortOrder.AscendingOrder)
        self.table.verticalHeader().setVisible(False)
        self.table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.table.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.table.clicked.connect(lambda index: self.go_to(int(self.model.order[index.row()])))
        self.table.selectionModel().selectionChanged.connect(lambda *_: self._pause.start())
        self.plot = ColumnPlot()
        self.plot.lassoed.connect(self.choose)
        self.plot.row_clicked.connect(self._dot_clicked)
        self.across, self.up = QComboBox(), QComboBox()
        for combo, tip in ((self.across, "Column along the plot"), (self.up, "Column up the plot")):
            combo.setToolTip(tip)
            combo.activated.connect(lambda _: self._draw())
        axes = QHBoxLayout()
        axes.addWidget(self.up, 1)
        axes.addWidget(QLabel("against"))
        axes.addWidget(self.across, 1)
        lower = QWidget()
        column = QVBoxLayout(lower)
        column.setContentsMargins(0, 0, 0, 0)
        column.addLayout(axes)
        column.addWidget(self.plot, 1)
        self.splitter = QSplitter(Qt.Orientation.Horizontal)
        self.splitter.addWidget(self.table)
        self.splitter.addWidget(lower)
        self.splitter.setStretchFactor(0, 3)
        self.splitter.setStretchFactor(1, 2)
        self.status = ElidedLabel("status")
        self.nothing = make_text_label("nothing")
        self.nothing.setText(NO_TABLE)
        self.nothing.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.copy_button = make_button("Copy", "Copy the chosen rows, or all that are shown (Ctrl+C)", self.copy)
        self.save_button = make_button("Save CSV ...", "Write the rows that are shown as a table", self._ask_file)
        self.clear_button = make_button("Choose none", "Choose no row", lambda: self.choose(np.zeros(0, np.int64)))
        shortcut = QShortcut(QKeySequence(QKeySequence.StandardKey.Copy), self.table)
        shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        shortcut.activated.connect(self.copy)
        # What is said of the filter stands beside it, however high the dock is.
        words = QHBoxLayout()
        words.addWidget(self.status, 1)
        for button in (self.clear_button, self.copy_button, self.save_button):
            words.addWidget(button)
        frame = QVBoxLayout(self)
        frame.setContentsMargins(6, 4, 6, 6)
        frame.setSpacing(4)
        frame.addLayout(top)
        frame.addLayout(words)
        frame.addWidget(self.splitter, 1)
        frame.addWidget(self.nothing, 1)

    def sizeHint(self) -> QSize:
        return QSize(720, 260)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """The plot is beside the table in a wide dock, and below it in a narrow one."""
        super().resizeEvent(event)
        wide = event.size().width() > event.size().height()
        self.splitter.setOrientation(Qt.Orientation.Horizontal if wide else Qt.Orientation.Vertical)

    # ---- what is shown

    @property
    def layer(self) -> Labels | None:
        layer: Labels | None = self.layer_combo.value()
        return layer

    @property
    def chosen(self) -> NDArray[np.int64]:
        """The rows that are chosen, of all that there are."""
        shown = sorted(index.row() for index in self.table.selectionModel().selectedRows())
        return self.model.order[shown] if shown else np.zeros(0, np.int64)

    def _layers_changed(self, event: Any = None) -> None:
        """Follow the features of every Labels layer."""
        here = [layer for layer in self.viewer.layers if isinstance(layer, Labels)]
        for layer in [x for x in self._followed if not any(x is y for y in here)]:
            self.connections.disconnect(layer.events.features, self._features_changed)
        for layer in [x for x in here if not any(x is y for y in self._followed)]:
            self.connections.connect(layer.events.features, self._features_changed)
        self._followed = here
        self._list()

    def _features_changed(self, event: Any) -> None:
        self._is_stale |= event.source is self.layer
        if get_layer_kind(event.source) == "regions" and has_table(event.source):
            self._latest = event.source
        self._renewal.start(0)

    def _renew(self) -> None:
        before, is_stale, self._is_stale = self.layer, self._is_stale, False
        self._list()
        if is_stale and self.layer is before:
            self._show_table()

    def _list(self) -> None:
        """List the layers with a table; regions come first, the newest table before others, unless one was picked."""
        self.layer_combo.follow(self.viewer.layers)
        self._latest = self._latest if self._latest in self.viewer.layers else None
        if not self._picked or self.layer is None:
            regions = [x for x in self.viewer.layers if has_table(x) and get_layer_kind(x) == "regions"]
            if regions:  # those that were measured last are what is worked on
                latest = [x for x in regions if x is self._latest]
                self.layer_combo.choose((latest or regions)[-1])
        if self.layer is None:
            self._show_table()

    def _pick(self) -> None:
        self._picked = True

    def _show_table(self) -> None:
        """Show the table of the layer; what was chosen stays chosen."""
        chosen = self._keys(self.chosen)
        layer = self.layer
        columns: Columns = {} if layer is None else {str(n): c.to_numpy() for n, c in layer.features.items()}
        names = list(self.model.columns)
        self.model.set_columns(columns, self._kept(columns))
        if names != list(columns):
            self._fit_columns()
            self._offer_axes(columns)
        keys = self._keys(np.arange(self.model.rows))
        known = set(chosen)
        self._draw()
        self.choose(np.array([row for row, key in enumerate(keys) if key in known], np.int64))

    def _fit_columns(self) -> None:
        """Columns as wide as their names and first rows need; Qt itself would ask for every cell a dozen times."""
        header, metrics = self.table.horizontalHeader(), self.table.fontMetrics()
        for place, column in enumerate(self.model.columns.values()):
            texts = (cell_text(column[row]) for row in self.model.order[:SEEN_ROWS])
            width = max((metrics.horizontalAdvance(text) for text in texts), default=0) + CELL_MARGIN
            header.resizeSection(place, max(width, header.sectionSizeHint(place)))

    def _keys(self, rows: NDArray[np.int64]) -> list[tuple[Any, ...]]:
        """What rows are known by: their label and their place along a stack."""
        columns = self.model.columns
        names = [name for name in ("t", "z", "index") if name in columns]
        return [tuple(columns[name][row] for name in names) for row in rows]

    def _kept(self, columns: Columns) -> NDArray[np.bool_]:
        """The rows that pass the filter; all of them, with a word, if it cannot be read."""
        rows = len(next(iter(columns.values()), ()))
        try:
            self._refusal = ""
            return filter_rows(columns, self.filter.text(), rows)
        except InputError as reason:
            self._refusal = str(reason) if columns else ""
            return np.ones(rows, bool)

    def _filter(self) -> None:
        chosen = self.chosen
        self.model.set_kept(self._kept(self.model.columns))
        self._draw()
        self.choose(chosen)

    def _offer_axes(self, columns: Columns) -> None:
        """Columns of numbers for the plot; the choice stays if it can."""
        names = [name for name, column in columns.items() if column.dtype.kind in "biuf"]
        for combo, first in zip((self.across, self.up), FIRST_PLOT, strict=True):
            before = combo.currentText()
            combo.clear()
            combo.addItems(names)
            wanted = before if before in names else next((n for n in names if n.startswith(first)), "")
            combo.setCurrentIndex(max(combo.findText(wanted), 0) if names else -1)

    def _draw(self) -> None:
        """Plot the rows that pass the filter."""
        columns, names = self.model.columns, (self.across.currentText(), self.up.currentText())
        if not all(name in columns for name in names):
            self.plot.show_points(np.zeros(0), np.zeros(0), ("", ""))
            return
        shown = np.isin(np.arange(self.model.rows), self.model.order)
        x, y = (np.where(shown, columns[name].astype(np.float64), np.nan) for name in names)
        self.plot.show_points(x, y, names)

    # ---- choosing

    def choose(self, rows: NDArray[np.integer]) -> None:
        """Choose some rows, of those that are shown."""
        shown = np.flatnonzero(np.isin(self.model.order, rows))
        selection = QItemSelection()
        last = max(self.model.columnCount() - 1, 0)
        for run in np.split(shown, np.flatnonzero(np.diff(shown) > 1) + 1) if len(shown) else ():
            selection.select(self.model.index(int(run[0]), 0), self.model.index(int(run[-1]), last))
        self.table.selectionModel().select(selection, QItemSelectionModel.SelectionFlag.ClearAndSelect)
        if len(shown):
            self.table.scrollTo(self.model.index(int(shown[0]), 0))
        self._pause.start()

    def _show_chosen(self) -> None:
        rows, columns, layer = self.chosen, self.model.columns, self.layer
        self.plot.show_chosen(rows)
        if len(rows) == 0 or "index" in columns:
            self.outlines.show(layer, columns, rows)
        count, shown = self.model.rows, len(self.model.order)
        words = f"{count:,} rows" if shown == count else f"{shown:,} of {count:,} rows"
        chosen = f", {len(rows):,} chosen" if len(rows) else ""
        self._say(self._refusal or (f"{words}{chosen}" if layer is not None else ""), is_refusal=bool(self._refusal))
        for widget in (self.copy_button, self.save_button, self.clear_button, self.filter):
            widget.setEnabled(layer is not None)
        self.splitter.setVisible(layer is not None)
        self.nothing.setVisible(layer is None)

    def _say(self, text: str, is_refusal: bool = False) -> None:
        self._ink(is_refusal)
        self.status.set_text(format_sentence(text) if is_refusal else text)

    def _ink(self, is_refusal: bool) -> None:
        ink = (warning_colour if is_refusal else muted_colour)(self.viewer.theme)
        self.status.setStyleSheet(f"QLabel {{ color: {ink}; }}")

    def go_to(self, row: int) -> None:
        """Move the view to the label of a row."""
        if self.layer is not None and not self.layer.multiscale:
            go_to_row(self.viewer, self.layer, self.model.columns, row)

    def _dot_clicked(self, row: int) -> None:
        self.choose(np.array([row]))
        self.go_to(row)

    def find(self, position: Any) -> None:
        """Choose the row of the label at a position of the world."""
        row = None if self.layer is None else find_row(self.layer, self.model.columns, position)
        if row is not None:
            self.choose(np.array([row]))

    def _pressed(self, viewer: Any, event: Any) -> Iterator[None]:
        """A click on the picture, if no tool is in hand."""
        active = viewer.layers.selection.active
        began = np.array(event.pos)
        yield
        while event.type == "mouse_move":
            yield
        still = np.abs(np.array(event.pos) - began).max() <= STILL
        if still and event.button == 1 and self.isVisible() and getattr(active, "mode", "pan_zoom") == "pan_zoom":
            self.find(event.position)

    # ---- taking it elsewhere

    def _taken(self, rows: NDArray[np.integer]) -> Columns:
        return {name: column[rows] for name, column in self.model.columns.items()}

    def copy(self) -> None:
        """Copy the chosen rows, or all that are shown, for a spreadsheet."""
        rows = self.chosen if len(self.chosen) else self.model.order
        QGuiApplication.clipboard().setText(columns_to_csv(self._taken(rows), "\t"))
        self._say(f"{len(rows):,} rows copied")

    def _ask_file(self) -> None:
        path, _ = QFileDialog.getSaveFileName(self, "Save the table", "regions.csv", "Table (*.csv)")
        if path:
            self.save(Path(path))

    def save(self, path: Path) -> None:
        """Write the rows that are shown, in their order."""
        try:
            path.write_text(columns_to_csv(self._taken(self.model.order), ","), encoding="utf-8")
            self._say(f"Written to {path}")
        except OSError as reason:
            self._say(f"the table cannot be written to {path}: {reason.strerror or reason}", is_refusal=True)

    def _theme_changed(self, event: Any = None) -> None:
        self.plot.follow_theme(self.viewer.theme)
        self._ink(bool(self._refusal))
