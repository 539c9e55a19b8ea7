"""The dock "Table of regions": click a row to go to its label, a label to find its row, or lasso dots of a plot.

It reads ``layer.features``: those that the GSW segmentation widget writes, or any with a column ``index``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import napari
import numpy as np
import pandas as pd
from napari.layers import Labels
from numpy.typing import NDArray
from qtpy import QtWidgets
from qtpy.QtCore import QItemSelection, QItemSelectionModel, QSize, Qt
from qtpy.QtGui import QGuiApplication, QKeySequence, QResizeEvent
from qtpy.QtWidgets import QLabel, QWidget

from napari_gsw.core.errors import InputError
from napari_gsw.files.results import columns_to_csv
from napari_gsw.widgets.common.dock_panel import DockPanel, make_timer
from napari_gsw.widgets.common.layer_choosers import LayerCombo
from napari_gsw.widgets.common.layouts import make_column, make_row
from napari_gsw.widgets.common.text import (
    WARNING,
    ElidedLabel,
    format_sentence,
    make_button,
    make_text_label,
    muted_colour,
    readable_colour,
)
from napari_gsw.widgets.layers.cursor import centre_view
from napari_gsw.widgets.layers.layer_metadata import KIND, TABLE_AXES, get_layer_kind, get_placement, make_metadata
from napari_gsw.widgets.layers.lazy_labels import add_labels, make_colormap
from napari_gsw.widgets.table.plot import ColumnPlot
from napari_gsw.widgets.table.table_model import TableModel, filter_rows, format_cell

# Milliseconds to wait for more changes of the selection before it is drawn.
SELECTION_DELAY = 40
# Pixels of the canvas by which a click may move.
CLICK_TOLERANCE = 4
# Rows that set the width of columns, and pixels around the text of a cell.
N_FITTED_ROWS, CELL_MARGIN = 30, 8
# Columns of the first plot, by the beginning of their names.
PLOTTED = ("pixels", "stability")
NO_ROWS = np.zeros(0, np.int64)
OUTLINE_COLOUR = "#f28e2b"


def has_table(layer: Any) -> bool:
    """Return whether the features of a layer are a table of its labels."""
    return isinstance(layer, Labels) and layer.metadata.get(KIND) != "chosen" and "index" in layer.features.columns


def _get_axes(layer: Labels) -> str:
    axes = str(layer.metadata.get(TABLE_AXES, ""))
    return axes if len(axes) == layer.ndim else "tczyx"[-layer.ndim :]


def _find_box(layer: Labels, table: pd.DataFrame, row: int) -> tuple[Any, ...]:
    """Return the index of the bounding box of a row's label: a number or a slice for each axis."""
    index: list[Any] = []
    for axis, letter in enumerate(_get_axes(layer)):
        if f"first_{letter}" in table:
            index.append(slice(int(table[f"first_{letter}"].iat[row]), int(table[f"end_{letter}"].iat[row])))
        elif letter in table:
            index.append(int(table[letter].iat[row]))
        else:
            index.append(0 if layer.data.shape[axis] == 1 else slice(None))
    return tuple(index)


def find_row(layer: Labels, table: pd.DataFrame, position: Sequence[float]) -> int | None:
    """Return the row of the label at a position of the world, or None."""
    number = layer.get_value(position, world=True)
    if not number or layer.multiscale:
        return None
    fits = np.asarray(table["index"]) == int(number)
    pixel = np.round(np.asarray(layer.world_to_data(np.asarray(position)[-layer.ndim :]))).astype(int)
    for axis, letter in enumerate(_get_axes(layer)):
        if letter in table:
            fits &= np.asarray(table[letter]) == pixel[axis]
    rows = np.flatnonzero(fits)
    return int(rows[0]) if len(rows) else None


class ChosenOutlines:
    """Layer with the outlines of the chosen rows, while there are any; never selected."""

    def __init__(self, viewer: napari.Viewer) -> None:
        self.viewer = viewer
        self.layer: Labels | None = None
        self._placement = ""

    def show(self, layer: Labels | None, table: pd.DataFrame, rows: NDArray[np.integer]) -> None:
        if layer is None or not len(rows) or layer.multiscale:
            self.remove()
            return
        image = np.zeros(layer.data.shape, np.uint8)
        for row in rows:
            index = _find_box(layer, table, int(row))
            image[index] |= np.asarray(layer.data[index]) == table["index"].iat[row]
        placement = get_placement(layer)
        shown = self.layer if self.layer in self.viewer.layers else None
        if shown is not None and shown.data.shape == image.shape and str(placement) == self._placement:
            shown.data[...] = image
            shown.refresh(thumbnail=False, extent=False, highlight=False)
            return
        self.remove()
        self._placement = str(placement)
        look: dict[str, Any] = {"name": f"{layer.name} chosen", "metadata": make_metadata("chosen"), "contour": 3}
        look |= {"colormap": make_colormap(OUTLINE_COLOUR), **placement}
        self.layer = add_labels(self.viewer, image, select=False, **look)
        self.layer.editable = False

    def remove(self) -> None:
        layer, self.layer = self.layer, None
        if layer is not None and layer in self.viewer.layers:
            self.viewer.layers.remove(layer)


class TablePanel(DockPanel):
    """A table, a plot of two of its columns, and outlines of the chosen rows."""

    def __init__(self, napari_viewer: napari.Viewer) -> None:
        super().__init__(napari_viewer)
        viewer = self.viewer
        self.model = TableModel()
        self.outlines = ChosenOutlines(viewer)
        self._newest: Labels | None = None
        self._is_picked = self._is_stale = False
        self._filter_error = ""
        self._build()
        connections = self.connections
        self._selection_timer = connections.stop_on_close(make_timer(self, self._show_chosen, SELECTION_DELAY))
        # A table is shown in a later event: writing it has taken as long as showing it will.
        self._table_timer = connections.stop_on_close(make_timer(self, self._update_table))
        connections.connect_layers(viewer.layers.events, self._list_layers)
        connections.connect(viewer.layers.events, self._on_event)
        connections.connect(viewer.events.theme, self._follow_theme)
        viewer.mouse_drag_callbacks.append(self._on_pressed)
        connections.on_close(lambda: viewer.mouse_drag_callbacks.remove(self._on_pressed))
        connections.on_close(self.outlines.remove)
        self._follow_theme()
        self._list_layers()

    def _build(self) -> None:
        combo_tip = "A Labels layer with a table: the regions or clusters of a segmentation"
        self.layer_combo = LayerCombo(combo_tip, has_table)
        self.layer_combo.activated.connect(self._pick)
        self.layer_combo.chosen.connect(self._show_table)
        self.filter = QtWidgets.QLineEdit(placeholderText="Filter: area > 50", clearButtonEnabled=True)
        self.filter.setToolTip(
            "Show only rows that meet all of these: columns, signs (< <= = != >= >) and numbers, as in\n"
            "area > 50, stability < 0.8"
        )
        self.filter.textChanged.connect(self._show_table)
        self.table = QtWidgets.QTableView()
        self.table.setModel(self.model)
        self.table.setSortingEnabled(True)
        self.table.horizontalHeader().setSortIndicator(-1, Qt.SortOrder.AscendingOrder)
        self.table.verticalHeader().setVisible(False)
        self.table.setSelectionBehavior(QtWidgets.QAbstractItemView.SelectionBehavior.SelectRows)
        self.table.setHorizontalScrollMode(QtWidgets.QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.table.clicked.connect(lambda index: self.go_to(int(self.model.order[index.row()])))
        self.table.selectionModel().selectionChanged.connect(lambda *_: self._selection_timer.start())
        self.plot = ColumnPlot()
        self.plot.lassoed.connect(self.choose)
        self.plot.row_clicked.connect(lambda row: self.choose(np.array([row])))
        self.plot.row_clicked.connect(self.go_to)
        self.x_combo, self.y_combo = QtWidgets.QComboBox(), QtWidgets.QComboBox()
        for combo, tip in ((self.x_combo, "Column along the plot"), (self.y_combo, "Column up the plot")):
            combo.setToolTip(tip)
            combo.activated.connect(lambda _: self._draw_plot())
        plot_column = QWidget()
        axes = make_row((self.y_combo, 1), QLabel("against"), (self.x_combo, 1))
        make_column(axes, parent=plot_column).addWidget(self.plot, 1)
        self.splitter = QtWidgets.QSplitter(Qt.Orientation.Horizontal)
        for index, (widget, stretch) in enumerate(((self.table, 3), (plot_column, 2))):
            self.splitter.addWidget(widget)
            self.splitter.setStretchFactor(index, stretch)
        self.status = ElidedLabel("status")
        nothing = "Run a segmentation, or choose a Labels layer that has features: their table is shown here."
        self.nothing = make_text_label("nothing", nothing)
        self.nothing.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.copy_button = make_button("Copy", "Copy the chosen rows, or all that are shown (Ctrl+C)", self.copy)
        self.save_button = make_button("Save CSV ...", "Write the rows that are shown as a table", self._save_as)
        self.clear_button = make_button("Choose none", "Choose no row", lambda: self.choose(NO_ROWS))
        shortcut = QtWidgets.QShortcut(QKeySequence(QKeySequence.StandardKey.Copy), self.table)
        shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        shortcut.activated.connect(self.copy)
        # The status stands beside the filter, however low the dock is.
        buttons = make_row((self.status, 1), self.clear_button, self.copy_button, self.save_button)
        frame = make_column(make_row((self.layer_combo, 1), (self.filter, 2)), buttons, parent=self)
        frame.setContentsMargins(6, 4, 6, 6)
        frame.addWidget(self.splitter, 1)
        frame.addWidget(self.nothing, 1)

    def sizeHint(self) -> QSize:
        return QSize(720, 260)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Put the plot beside the table in a wide dock, and below it in a narrow one."""
        super().resizeEvent(event)
        is_wide = event.size().width() > event.size().height()
        self.splitter.setOrientation(Qt.Orientation.Horizontal if is_wide else Qt.Orientation.Vertical)

    # ---- the displayed table

    @property
    def layer(self) -> Labels | None:
        return self.layer_combo.value()

    def _on_event(self, event: Any) -> None:
        """Follow the features of every layer, whose events the list of layers emits, too."""
        layer = event.sources[0]
        if event.type == "features" and isinstance(layer, Labels):
            self._is_stale |= layer is self.layer
            if get_layer_kind(layer) == "regions" and has_table(layer):
                self._newest = layer
            self._table_timer.start()

    def _update_table(self) -> None:
        before, is_stale, self._is_stale = self.layer, self._is_stale, False
        self._list_layers()
        if is_stale and self.layer is before:
            self._show_table()

    def _list_layers(self, _event: Any = None) -> None:
        """List the layers with a table. Unless the user has picked one, the regions measured last are chosen."""
        self.layer_combo.follow(self.viewer.layers)
        self._newest = self._newest if self._newest in self.viewer.layers else None
        if not self._is_picked or self.layer is None:
            regions = [x for x in self.viewer.layers if has_table(x) and get_layer_kind(x) == "regions"]
            if regions:
                self.layer_combo.choose(self._newest if self._newest in regions else regions[-1])
        if self.layer is None:
            self._show_table()

    def _pick(self) -> None:
        self._is_picked = True

    def _show_table(self) -> None:
        chosen = set(self._make_keys(self.chosen))
        table = pd.DataFrame() if self.layer is None else self.layer.features.reset_index(drop=True).rename(columns=str)
        names, self._filter_error = list(self.model.table), ""
        try:
            kept = filter_rows(table, self.filter.text())
        except InputError as reason:
            self._filter_error = "" if table.empty else str(reason)
            kept = np.ones(len(table), bool)
        self.model.set_table(table, kept)
        if names != list(table):
            self._fit_columns()
            self._offer_axes(table)
        keys = self._make_keys(np.arange(len(table)))
        self._draw_plot()
        self.choose(np.array([row for row, key in enumerate(keys) if key in chosen], np.int64))

    def _make_keys(self, rows: NDArray[np.int64]) -> list[tuple[Any, ...]]:
        """Return what identifies rows: their positions along a stack and their labels."""
        table = self.model.table
        return list(table.iloc[rows][[x for x in ("t", "z", "index") if x in table]].itertuples(index=False, name=None))

    def _fit_columns(self) -> None:
        """Fit columns to their names and first rows; Qt itself would ask for every cell a dozen times."""
        header, metrics = self.table.horizontalHeader(), self.table.fontMetrics()
        first_rows = self.model.table.iloc[self.model.order[:N_FITTED_ROWS]]
        for index, name in enumerate(self.model.table):
            texts = map(format_cell, first_rows[name].to_numpy())
            width = max((metrics.horizontalAdvance(text) for text in texts), default=0) + CELL_MARGIN
            header.resizeSection(index, max(width, header.sectionSizeHint(index)))

    def _offer_axes(self, table: pd.DataFrame) -> None:
        """Offer columns of numbers for the plot; the choice stays if it can."""
        names = [name for name in table if table[name].dtype.kind in "biuf"]
        for combo, start in zip((self.x_combo, self.y_combo), PLOTTED, strict=True):
            before = combo.currentText()
            combo.clear()
            combo.addItems(names)
            wanted = before if before in names else next((name for name in names if name.startswith(start)), "")
            combo.setCurrentIndex(max(combo.findText(wanted), 0) if names else -1)

    def _draw_plot(self) -> None:
        table, names = self.model.table, (self.x_combo.currentText(), self.y_combo.currentText())
        if not all(name in table for name in names):
            self.plot.show_points(np.zeros(0), np.zeros(0), ("", ""))
            return
        is_shown = np.isin(np.arange(len(table)), self.model.order)
        x, y = (np.where(is_shown, table[name].to_numpy(np.float64), np.nan) for name in names)
        self.plot.show_points(x, y, names)

    # ---- the chosen rows

    @property
    def chosen(self) -> NDArray[np.int64]:
        positions = sorted(index.row() for index in self.table.selectionModel().selectedRows())
        return self.model.order[positions] if positions else NO_ROWS

    def choose(self, rows: NDArray[np.integer]) -> None:
        positions = np.flatnonzero(np.isin(self.model.order, rows))
        selection = QItemSelection()
        last_column = max(self.model.columnCount() - 1, 0)
        for block in np.split(positions, np.flatnonzero(np.diff(positions) > 1) + 1) if len(positions) else ():
            selection.select(self.model.index(int(block[0]), 0), self.model.index(int(block[-1]), last_column))
        self.table.selectionModel().select(selection, QItemSelectionModel.SelectionFlag.ClearAndSelect)
        if len(positions):
            self.table.scrollTo(self.model.index(int(positions[0]), 0))
        self._selection_timer.start()

    def _show_chosen(self) -> None:
        rows, table, layer = self.chosen, self.model.table, self.layer
        self.plot.show_chosen(rows)
        if len(rows) == 0 or "index" in table:
            self.outlines.show(layer, table, rows)
        count, n_shown = len(table), len(self.model.order)
        text = f"{count:,} rows" if n_shown == count else f"{n_shown:,} of {count:,} rows"
        text += f", {len(rows):,} chosen" if len(rows) else ""
        self._set_status(self._filter_error or (text if layer is not None else ""), bool(self._filter_error))
        for widget in (self.copy_button, self.save_button, self.clear_button, self.filter):
            widget.setEnabled(layer is not None)
        self.splitter.setVisible(layer is not None)
        self.nothing.setVisible(layer is None)

    def _set_status(self, text: str, is_error: bool = False) -> None:
        theme = self.viewer.theme
        colour = readable_colour(WARNING, theme) if is_error else muted_colour(theme)
        self.status.setStyleSheet(f"QLabel {{ color: {colour}; }}")
        self.status.set_text(format_sentence(text) if is_error else text)

    def _follow_theme(self, _event: Any = None) -> None:
        self.plot.follow_theme(self.viewer.theme)
        self._set_status(self.status.text(), bool(self._filter_error))

    def go_to(self, row: int) -> None:
        """Move the view to the label of a row."""
        if self.layer is not None and not self.layer.multiscale:
            index = _find_box(self.layer, self.model.table, row)
            mask = np.asarray(self.layer.data[index]) == self.model.table["index"].iat[row]
            if mask.any():
                centre_view(self.viewer, self.layer, index, mask, True)

    def _on_pressed(self, viewer: Any, event: Any) -> Iterator[None]:
        """Choose the row of the label that is clicked, if no tool is active."""
        active = viewer.layers.selection.active
        start = np.array(event.pos)
        yield
        while event.type == "mouse_move":
            yield
        is_click = np.abs(np.array(event.pos) - start).max() <= CLICK_TOLERANCE and event.button == 1
        has_tool = getattr(active, "mode", "pan_zoom") != "pan_zoom"
        if not is_click or has_tool or not self.isVisible() or self.layer is None:
            return
        row = find_row(self.layer, self.model.table, event.position)
        if row is not None:
            self.choose(np.array([row]))

    # ---- copying and saving

    def _to_csv(self, rows: NDArray[np.integer], delimiter: str) -> str:
        return columns_to_csv({name: x.to_numpy() for name, x in self.model.table.iloc[rows].items()}, delimiter)

    def copy(self) -> None:
        rows = self.chosen if len(self.chosen) else self.model.order
        QGuiApplication.clipboard().setText(self._to_csv(rows, "\t"))
        self._set_status(f"{len(rows):,} rows copied")

    def _save_as(self) -> None:
        path, _ = QtWidgets.QFileDialog.getSaveFileName(self, "Save the table", "regions.csv", "Table (*.csv)")
        if path:
            self.save(Path(path))

    def save(self, path: Path) -> None:
        try:
            path.write_text(self._to_csv(self.model.order, ","), encoding="utf-8")
            self._set_status(f"Written to {path}")
        except OSError as reason:
            self._set_status(f"the table cannot be written to {path}: {reason.strerror or reason}", is_error=True)
