"""Scatter plot of two columns of a table, with a lasso."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from qtpy.QtCore import QSize, Qt, Signal
from skimage.measure import points_in_poly

from napari_gsw.core.array_types import Float64Array, Int64Array
from napari_gsw.widgets.common.text import colour_plot

# Pixels below the name of a column, which pyqtgraph puts lower than its axis is.
BOTTOM_MARGIN = 6
COLOUR, CHOSEN_COLOUR = "#4c9be8", "#f28e2b"


class LassoBox(pg.ViewBox):  # type: ignore[misc]
    """Plot area where dragging with the left button draws a line around points; the wheel zooms.

    The signal `drawn` has the line, (p, 2) in the plot's coordinates.
    """

    drawn = Signal(object)

    def __init__(self) -> None:
        super().__init__(enableMenu=False)
        self.line = pg.PlotCurveItem(pen=pg.mkPen(CHOSEN_COLOUR, width=1))
        self.addItem(self.line, ignoreBounds=True)
        self._path: list[tuple[float, float]] = []

    def mouseDragEvent(self, event: Any, axis: int | None = None) -> None:
        if event.button() != Qt.MouseButton.LeftButton or axis is not None:
            super().mouseDragEvent(event, axis)
            return
        event.accept()
        if event.isStart():
            start = self.mapSceneToView(event.buttonDownScenePos())
            self._path = [(start.x(), start.y())]
        point = self.mapSceneToView(event.scenePos())
        self._path.append((point.x(), point.y()))
        path = np.array(self._path)
        if event.isFinish():
            self.line.setData([], [])
            self.drawn.emit(path)
        else:
            self.line.setData(path[:, 0], path[:, 1])


class ColumnPlot(pg.PlotWidget):  # type: ignore[misc]
    """Plot with a dot for each row.

    The signal `lassoed` has the rows (r,) inside the line; `row_clicked` the row of a dot.
    """

    lassoed = Signal(object)
    row_clicked = Signal(int)

    def __init__(self) -> None:
        self.box = LassoBox()
        super().__init__(viewBox=self.box)
        self.setMinimumHeight(120)
        self.hideButtons()
        for side in self.getPlotItem().axes:  # 0.4 is not written as 400 (x0.001), and labels are laid out once
            self.getAxis(side).enableAutoSIPrefix(False)
        self.getPlotItem().layout.setContentsMargins(0, 0, 0, BOTTOM_MARGIN)
        # Two for all dots: pyqtgraph paints a dot once for every brush that it is given, whatever its colour.
        self._brushes = np.array([pg.mkBrush(COLOUR), pg.mkBrush(CHOSEN_COLOUR)])
        self.dots = pg.ScatterPlotItem(size=6, pen=None)
        self.addItem(self.dots)
        self.box.drawn.connect(self._on_drawn)
        self.dots.sigClicked.connect(self._on_clicked)
        self.points: Float64Array = np.zeros((0, 2))
        self.rows: Int64Array = np.zeros(0, np.int64)
        self.setToolTip("Drag around dots to choose their rows, click one to go there; the wheel zooms")

    def sizeHint(self) -> QSize:
        return QSize(320, 180)

    def show_points(self, x: NDArray[Any], y: NDArray[Any], names: tuple[str, str]) -> None:
        """Plot columns (rows,) against each other; rows without a number in one of them have no dot."""
        points = np.stack((np.asarray(x, np.float64), np.asarray(y, np.float64)), axis=1)
        self.rows = np.flatnonzero(np.isfinite(points).all(axis=1))
        self.points = points[self.rows]
        self.setLabel("bottom", names[0])
        self.setLabel("left", names[1])
        self.show_chosen(np.zeros(0, np.int64))
        self.box.autoRange()

    def show_chosen(self, rows: NDArray[np.integer]) -> None:
        brushes = self._brushes[np.isin(self.rows, rows).astype(int)].tolist()
        self.dots.setData(pos=self.points, brush=brushes, data=self.rows)

    def follow_theme(self, name: str) -> None:
        colour_plot(self, map(self.getAxis, ("left", "bottom")), name)

    def _on_drawn(self, path: Float64Array) -> None:
        has_area = len(self.points) and len(path) > 2
        self.lassoed.emit(self.rows[points_in_poly(self.points, path)] if has_area else self.rows[:0])

    def _on_clicked(self, _: Any, dots: Any, *__: Any) -> None:
        if len(dots):
            self.row_clicked.emit(int(dots[0].data()))
