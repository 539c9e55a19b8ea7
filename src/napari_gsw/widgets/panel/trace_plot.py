"""The trace: log posterior above, number of clusters below, one line a chain, in napari's colours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyqtgraph as pg
from napari.utils.theme import get_theme
from numpy.typing import NDArray
from qtpy.QtCore import QPointF, QSize, Qt, QTimer, Signal
from qtpy.QtGui import QFontMetrics, QImage
from qtpy.QtWidgets import QApplication

from napari_gsw.core.sampler.state import N_TRACED

# Colours that read on a dark and on a light background, one for each chain, round and round.
LINES = ("#4c9be8", "#59a14f", "#b07aa1", "#e15759", "#76b7b2", "#9c755f", "#edc948", "#ff9da7")
BEST = "#f28e2b"
# Of both plots together, in pixels.
HEIGHT = 200
# Room for the numbers and the name of an axis, in pixels.
LEAST_MARGIN = 64
# Up to how many clusters between the fewest and the most each number has its tick.
FEW_CLUSTERS = 3
# How long a drawing waits for its turn, in milliseconds: longer than Qt waits before it paints what has changed.
OWN_TURN = 50
# How near, in pixels, a click has to stay to its press: a longer way is a pan.
STILL = 4


class Drawing(NamedTuple):
    """What is to be drawn: see :meth:`TracePlot.show_traces`."""

    traces: Sequence[NDArray[np.float64]]
    best: tuple[int, float] | None
    marks: tuple[int, ...]


class TracePlot(pg.GraphicsLayoutWidget):  # type: ignore[misc]
    """Two linked plots that follow the chains.

    Drag to pan, Ctrl + wheel or right-drag to zoom, double click to see everything again. The wheel alone scrolls the
    panel around it.

    Signals
    -------
    sweep_clicked : the user has pointed at a sweep.
    hovered : what is under the mouse, in words; empty when it leaves.
    """

    sweep_clicked = Signal(float)
    hovered = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.setMinimumHeight(150)
        self.upper = self.addPlot(row=0, col=0, enableMenu=False)
        self.lower = self.addPlot(row=1, col=0, enableMenu=False)
        self.lower.setXLink(self.upper)
        self.ci.layout.setRowStretchFactor(0, 2)
        self.ci.layout.setRowStretchFactor(1, 1)
        self.ci.setContentsMargins(0, 4, 8, 5)  # the name of an axis hangs over its edge
        self.plots = (self.upper, self.lower)
        for plot, name in zip(self.plots, ("log posterior", "clusters"), strict=True):
            plot.setLabel("left", name)
            plot.hideButtons()
            for side in plot.axes:  # figures as they are; and labels, of hidden axes too, are laid out once
                plot.getAxis(side).enableAutoSIPrefix(False)
            plot.setDownsampling(auto=True, mode="peak")
            plot.setClipToView(True)
            plot.getViewBox().sigRangeChangedManually.connect(self._zoomed)
        self.upper.getAxis("bottom").setStyle(showValues=False)
        self.lower.setLabel("bottom", "sweep")
        self._make_room(0.0)
        self._values: list[Any] = []
        self._counts: list[Any] = []
        self.best = self.upper.plot(pen=None, symbol="o", symbolSize=7, symbolBrush=BEST, symbolPen=None)
        self._cursors = [pg.InfiniteLine(angle=90, movable=False) for _ in self.plots]
        for plot, cursor in zip(self.plots, self._cursors, strict=True):
            cursor.setVisible(False)
            cursor.setZValue(5)
            plot.addItem(cursor, ignoreBounds=True)
        self._marks: list[Any] = []
        self._traces: list[NDArray[np.float64]] = []
        self._ink = "#888888"
        self.follows = True
        self._wanted = Drawing([], None, ())
        self._turn = QTimer(self)
        self._turn.setSingleShot(True)
        self._turn.timeout.connect(self.draw_now)
        # A click waits until it is sure not to be the first half of a double click.
        self._pointed = 0.0
        self._click = QTimer(self)
        self._click.setSingleShot(True)
        self._click.timeout.connect(self._point)
        self.scene().sigMouseClicked.connect(self._clicked)
        self.scene().sigMouseMoved.connect(self._hover)
        self.setToolTip(
            "Click to see the segmentation of that sweep. Drag to move, Ctrl + wheel to zoom, double click to see "
            "everything."
        )

    def sizeHint(self) -> QSize:
        """Small enough to leave the picture most of the window; the dock can be made wider."""
        return QSize(320, HEIGHT)

    # ---- drawing

    def show_traces(
        self, traces: Sequence[NDArray[np.float64]], best: tuple[int, float] | None, marks: Sequence[int] = ()
    ) -> None:
        """Draw log posterior and number of clusters of every chain, soon and not now.

        The words of the panel are renewed whenever the list of layers changes, in the midst of napari's own work on its
        canvas (see :class:`Docked` for what painting in between can do). So what has not changed is left alone, and the
        rest has a turn of its own.

        Parameters
        ----------
        traces : (sweeps, 3) for each chain.
        best : sweep and log posterior of the best state, or None.
        marks : sweeps at which a person stepped in.
        """
        before, self._wanted = self._wanted, Drawing(traces, best, tuple(marks))
        same = traces is before.traces or not (traces or before.traces)
        if not (same and self._wanted[1:] == before[1:]) and not self._turn.isActive():
            self._turn.start(OWN_TURN)

    def draw_waiting(self) -> None:
        """Draw what waits for its turn, if there is something: this is one."""
        if self._turn.isActive():
            self.draw_now()

    def draw_now(self) -> None:
        """Draw what was asked for, without waiting for a turn."""
        self._turn.stop()
        traces, best, marks = self._wanted
        self._traces = list(traces)
        self._match_lines(len(self._traces))
        for c, trace in enumerate(self._traces):
            sweep = np.arange(1, len(trace) + 1)
            self._values[c].setData(sweep, trace[:, 0])
            self._counts[c].setData(sweep, trace[:, 1])
        known = best is not None and best[0] > 0
        self.best.setData([best[0]] if known and best else [], [best[1]] if known and best else [])
        self._show_marks(marks)
        if self.follows:
            self._fit()
        self.scene().prepareForPaint()  # which else moves the axes while they are painted, so that they are again

    def _match_lines(self, count: int) -> None:
        while len(self._values) < count:
            pen = pg.mkPen(LINES[len(self._values) % len(LINES)], width=1)
            self._values.append(self.upper.plot(pen=pen))
            self._counts.append(self.lower.plot(pen=pen, stepMode="right"))
        while len(self._values) > count:
            self.upper.removeItem(self._values.pop())
            self.lower.removeItem(self._counts.pop())
        self.best.setZValue(4)

    def _show_marks(self, marks: Sequence[int]) -> None:
        for line in self._marks[len(marks) :]:
            self.upper.removeItem(line)
        del self._marks[len(marks) :]
        for i, sweep in enumerate(marks):
            if i == len(self._marks):
                line = pg.InfiniteLine(angle=90, pen=pg.mkPen(self._ink, style=Qt.PenStyle.DotLine))
                self.upper.addItem(line, ignoreBounds=True)
                self._marks.append(line)
            self._marks[i].setValue(sweep)

    def _fit(self) -> None:
        """Show everything, but not so that the climb of the first sweeps flattens all the rest."""
        length = max((len(t) for t in self._traces), default=0)
        for plot in self.plots:  # without lines there is nothing that figures could be of
            plot.getAxis("left").setStyle(showValues=length > 1)
        self.lower.getAxis("bottom").setStyle(showValues=length > 1)
        if length < 2:
            return
        late = np.concatenate([t[len(t) // 20 :, 0] for t in self._traces])
        late = late[np.isfinite(late)]
        if not late.size:
            return
        room = 0.08 * (float(np.ptp(late)) or 1.0)
        count = np.concatenate([t[len(t) // 20 :, 1] for t in self._traces])
        self.upper.setXRange(0, length, padding=0.01)
        self.upper.setYRange(float(late.min()) - room, float(late.max()) + room, padding=0)
        self.lower.setYRange(max(0.0, float(count.min()) - 1), float(count.max()) + 1, padding=0)
        few = float(np.ptp(count)) <= FEW_CLUSTERS  # there are no half clusters
        self.lower.getAxis("left").setTickSpacing(*((1, 1) if few else ()))
        self._make_room(float(late.min()) - room)

    def _make_room(self, lowest: float) -> None:
        """As much beside both plots as the longest number and the name of the axis need; the plots stay in line."""
        letters = QFontMetrics(self.font())
        longest = max(letters.horizontalAdvance(text) for text in (f"{lowest:.0f}", f"{lowest:g}"))
        width = max(LEAST_MARGIN, longest + 2 * letters.height())
        for plot in self.plots:
            plot.getAxis("left").setWidth(width)
        self.lower.getAxis("bottom").setHeight(2.4 * letters.height())

    def show_cursor(self, sweep: int | None) -> None:
        """Mark the sweep that is being looked at, or none."""
        for cursor in self._cursors:
            cursor.setVisible(sweep is not None)
            if sweep is not None:
                cursor.setValue(sweep)

    def follow_theme(self, name: str) -> None:
        """Take background and text colour from one of napari's themes."""
        theme: Any = get_theme(name)
        self.setBackground(theme.background.as_hex())
        self._ink = theme.text.as_hex()
        pen = pg.mkPen(self._ink)
        for plot in self.plots:
            for side in ("left", "bottom"):
                plot.getAxis(side).setPen(pen)
                plot.getAxis(side).setTextPen(pen)
        for cursor in self._cursors:
            cursor.setPen(pg.mkPen(self._ink, style=Qt.PenStyle.DashLine))
        for line in self._marks:
            line.setPen(pg.mkPen(self._ink, style=Qt.PenStyle.DotLine))

    def picture(self) -> QImage:
        """What is drawn, for a file, at twice the size of the screen."""
        self.draw_now()
        image = QImage(self.size() * 2, QImage.Format.Format_ARGB32)
        image.setDevicePixelRatio(2)
        self.render_to(image)
        return image

    def render_to(self, image: QImage) -> None:
        from qtpy.QtGui import QPainter

        image.fill(self.backgroundBrush().color())
        painter = QPainter(image)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self.render(painter)
        painter.end()

    # ---- the mouse

    def _sweep_at(self, point: QPointF) -> float | None:
        for plot in self.plots:
            if plot.sceneBoundingRect().contains(point):
                x = float(plot.getViewBox().mapSceneToView(point).x())
                return x if math.isfinite(x) else None
        return None

    def _clicked(self, event: Any) -> None:
        if event.double():
            self._click.stop()
            self.follows = True
            self._fit()
            return
        if event.button() == Qt.MouseButton.LeftButton and (sweep := self._sweep_at(event.scenePos())) is not None:
            self._pointed = sweep
            self._click.start(QApplication.doubleClickInterval())

    def _point(self) -> None:
        self.sweep_clicked.emit(self._pointed)

    def wheelEvent(self, event: Any) -> None:
        """Zoom with Ctrl; otherwise the wheel is for the panel, which would stick at the plot."""
        if event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            super().wheelEvent(event)
        else:
            event.ignore()

    def _zoomed(self, *_: Any) -> None:
        self.follows = False

    def _hover(self, point: QPointF) -> None:
        sweep = self._sweep_at(point)
        trace = self._traces[0] if self._traces else np.empty((0, N_TRACED))
        if sweep is None or not len(trace):
            self.hovered.emit("")
            return
        at = min(max(round(sweep), 1), len(trace))
        value, clusters = trace[at - 1, :2]
        self.hovered.emit(f"sweep {at:,}: {value:,.1f}, {clusters:.0f} clusters")

    def leaveEvent(self, event: Any) -> None:
        self.hovered.emit("")
        super().leaveEvent(event)
