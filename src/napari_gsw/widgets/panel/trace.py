"""The trace of the chains: log posterior and number of clusters by sweep, in a section of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from qtpy.QtCore import QPointF, QSize, Qt, Signal
from qtpy.QtGui import QFontMetrics, QImage, QPainter, QShowEvent
from qtpy.QtWidgets import QApplication, QWidget

from napari_gsw.core.sampler.state import N_TRACED
from napari_gsw.widgets.common.dock_panel import make_timer
from napari_gsw.widgets.common.layouts import Section, make_row
from napari_gsw.widgets.common.text import ElidedLabel, colour_plot, make_button
from napari_gsw.widgets.session.array_run import Frame
from napari_gsw.widgets.session.session import Session

# Colours that read on a dark and on a light background, one for each chain, in turn.
LINE_COLOURS = ("#4c9be8", "#59a14f", "#b07aa1", "#e15759", "#76b7b2", "#9c755f", "#edc948", "#ff9da7")
BEST_COLOUR = "#f28e2b"
# Height of both plots together, and room for the figures and the name of an axis, in pixels.
HEIGHT, MIN_MARGIN = 200, 64
# Up to how many clusters between the fewest and the most each number has its tick.
FEW_CLUSTERS = 3
# Milliseconds that a drawing waits for its turn: longer than Qt waits before it paints what has changed.
DRAW_DELAY = 50
PLOT_TIP = (
    "Click to see the segmentation of that sweep. Drag to move, Ctrl + wheel to zoom, double click to see everything."
)

# The trace (sweeps, 3) of each chain; sweep and log posterior of the best sample; sweeps of the user's corrections.
Drawing = tuple[Sequence[NDArray[np.float64]], tuple[int, float] | None, tuple[int, ...]]


class TracePlot(pg.GraphicsLayoutWidget):  # type: ignore[misc]
    """Two linked plots of the chains.

    Drag to pan, Ctrl + wheel or right-drag to zoom, double click to see everything again. The wheel alone scrolls the
    panel around it. Signals: `sweep_clicked`, and `hovered` with a text that is empty when the mouse leaves.
    """

    sweep_clicked = Signal(float)
    hovered = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.upper = self.addPlot(row=0, col=0, enableMenu=False)
        self.lower = self.addPlot(row=1, col=0, enableMenu=False)
        self.plots = (self.upper, self.lower)
        self.lower.setXLink(self.upper)
        self.ci.layout.setRowStretchFactor(0, 2)
        self.ci.layout.setRowStretchFactor(1, 1)
        self.ci.setContentsMargins(0, 4, 8, 5)  # the name of an axis hangs over its edge
        self._cursors = [pg.InfiniteLine(angle=90, movable=False) for _ in self.plots]
        for plot, name, cursor in zip(self.plots, ("log posterior", "clusters"), self._cursors, strict=True):
            plot.setLabel("left", name)
            plot.hideButtons()
            for side in plot.axes:  # figures as they are; and labels, of hidden axes too, are laid out once
                plot.getAxis(side).enableAutoSIPrefix(False)
            plot.setDownsampling(auto=True, mode="peak")
            plot.setClipToView(True)
            plot.getViewBox().sigRangeChangedManually.connect(self._stop_following)
            cursor.setVisible(False)
            cursor.setZValue(5)
            plot.addItem(cursor, ignoreBounds=True)
        self.upper.getAxis("bottom").setStyle(showValues=False)
        self.lower.setLabel("bottom", "sweep")
        self._fit_margins(0.0)
        # The lines of each chain in both plots, and a mark for each correction.
        self._lines: list[tuple[Any, Any]] = []
        self._marks: list[Any] = []
        self.best = self.upper.plot(pen=None, symbol="o", symbolSize=7, symbolBrush=BEST_COLOUR, symbolPen=None)
        self.best.setZValue(4)
        self._text_colour = "#888888"
        self.follows = True
        self._traces: list[NDArray[np.float64]] = []  # on the screen
        self._wanted: Drawing = ([], None, ())
        self._delay = make_timer(self, self.draw_now, DRAW_DELAY)
        # A click waits until it is sure not to be the first half of a double click.
        self._clicked_sweep = 0.0
        self._click = make_timer(self, lambda: self.sweep_clicked.emit(self._clicked_sweep))
        self.scene().sigMouseClicked.connect(self._clicked)
        self.scene().sigMouseMoved.connect(self._hover)
        self.setToolTip(PLOT_TIP)

    def sizeHint(self) -> QSize:
        return QSize(320, HEIGHT)

    def show_traces(
        self, traces: Sequence[NDArray[np.float64]], best: tuple[int, float] | None, marks: Sequence[int] = ()
    ) -> None:
        """Draw log posterior and number of clusters of every chain, soon and not now.

        The panel is renewed whenever the list of layers changes, in the midst of napari's own work on its canvas (see
        :class:`DockPanel` for what painting in between can do). So what has not changed is left alone, and the rest
        is drawn in a later event.
        """
        before, self._wanted = self._wanted, (traces, best, tuple(marks))
        is_same = traces is before[0] or not (traces or before[0])
        if not (is_same and self._wanted[1:] == before[1:]) and not self._delay.isActive():
            self._delay.start()

    def draw_waiting(self) -> None:
        if self._delay.isActive():
            self.draw_now()

    def draw_now(self) -> None:
        self._delay.stop()
        traces, best, marks = self._wanted
        self._traces = list(traces)
        while len(self._lines) < len(traces):
            pen = pg.mkPen(LINE_COLOURS[len(self._lines) % len(LINE_COLOURS)], width=1)
            self._lines.append((self.upper.plot(pen=pen), self.lower.plot(pen=pen, stepMode="right")))
        for values, counts in self._lines[len(traces) :]:
            self.upper.removeItem(values)
            self.lower.removeItem(counts)
        for mark in self._marks:
            self.upper.removeItem(mark)
        del self._lines[len(traces) :]
        pen = pg.mkPen(self._text_colour, style=Qt.PenStyle.DotLine)
        self._marks = [pg.InfiniteLine(pos=sweep, angle=90, pen=pen) for sweep in marks]
        for mark in self._marks:
            self.upper.addItem(mark, ignoreBounds=True)
        for trace, (values, counts) in zip(traces, self._lines, strict=True):
            sweeps = np.arange(1, len(trace) + 1)
            values.setData(sweeps, trace[:, 0])
            counts.setData(sweeps, trace[:, 1])
        points = [] if best is None or best[0] <= 0 else [best]
        self.best.setData([sweep for sweep, _ in points], [value for _, value in points])
        if self.follows:
            self._fit()
        self.scene().prepareForPaint()  # which else moves the axes while they are painted, so that they are again

    def _fit(self) -> None:
        """Show everything, but not so that the climb of the first sweeps flattens all the rest."""
        length = max((len(t) for t in self._traces), default=0)
        for plot in self.plots:  # without lines there is nothing that figures could be of
            plot.getAxis("left").setStyle(showValues=length > 1)
        self.lower.getAxis("bottom").setStyle(showValues=length > 1)
        late = np.concatenate([t[len(t) // 20 :, :2] for t in self._traces]) if length > 1 else np.empty((0, 2))
        values, counts = late[np.isfinite(late[:, 0]), 0], late[:, 1]
        if not values.size:
            return
        margin = 0.08 * (float(np.ptp(values)) or 1.0)
        lowest, highest = float(values.min()) - margin, float(values.max()) + margin
        self.upper.setXRange(0, length, padding=0.01)
        self.upper.setYRange(lowest, highest, padding=0)
        self.lower.setYRange(max(0.0, float(counts.min()) - 1), float(counts.max()) + 1, padding=0)
        is_narrow = float(np.ptp(counts)) <= FEW_CLUSTERS  # there are no half clusters
        self.lower.getAxis("left").setTickSpacing(*((1, 1) if is_narrow else ()))
        self._fit_margins(lowest)

    def _fit_margins(self, lowest: float) -> None:
        """Leave as much beside both plots as the longest figure and the name of the axis need."""
        metrics = QFontMetrics(self.font())
        longest = max(metrics.horizontalAdvance(text) for text in (f"{lowest:.0f}", f"{lowest:g}"))
        for plot in self.plots:
            plot.getAxis("left").setWidth(max(MIN_MARGIN, longest + 2 * metrics.height()))
        self.lower.getAxis("bottom").setHeight(2.4 * metrics.height())

    def show_cursor(self, sweep: int | None) -> None:
        for cursor in self._cursors:
            cursor.setVisible(sweep is not None)
            if sweep is not None:
                cursor.setValue(sweep)

    def follow_theme(self, name: str) -> None:
        axes = [plot.getAxis(side) for plot in self.plots for side in ("left", "bottom")]
        self._text_colour = colour_plot(self, axes, name)
        for lines, style in ((self._cursors, Qt.PenStyle.DashLine), (self._marks, Qt.PenStyle.DotLine)):
            for line in lines:
                line.setPen(pg.mkPen(self._text_colour, style=style))

    def picture(self) -> QImage:
        """Draw an image for a file, at twice the size of the screen."""
        self.draw_now()
        image = QImage(self.size() * 2, QImage.Format.Format_ARGB32)
        image.setDevicePixelRatio(2)
        image.fill(self.backgroundBrush().color())
        painter = QPainter(image)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self.render(painter)
        painter.end()
        return image

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
        elif event.button() == Qt.MouseButton.LeftButton and (sweep := self._sweep_at(event.scenePos())) is not None:
            self._clicked_sweep = sweep
            self._click.start(QApplication.doubleClickInterval())

    def wheelEvent(self, event: Any) -> None:
        """Zoom with Ctrl; otherwise the wheel is for the panel, which would stick at the plot."""
        if event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            super().wheelEvent(event)
        else:
            event.ignore()

    def _stop_following(self, *_: Any) -> None:
        self.follows = False

    def _hover(self, point: QPointF) -> None:
        sweep = self._sweep_at(point)
        trace = self._traces[0] if self._traces else np.empty((0, N_TRACED))
        if sweep is None or not len(trace):
            self.hovered.emit("")
            return
        nearest = min(max(round(sweep), 1), len(trace))
        value, clusters = trace[nearest - 1, :2]
        self.hovered.emit(f"sweep {nearest:,}: {value:,.1f}, {clusters:.0f} clusters")

    def leaveEvent(self, event: Any) -> None:
        self.hovered.emit("")
        super().leaveEvent(event)


class TraceSection(Section):
    """The plot, and below it what can be done with an earlier sweep; the signal `hovered` is that of the plot.

    The plot takes as long to make as all that is above it in the panel: it is made when it is first unfolded.
    """

    hovered = Signal(str)

    def __init__(self, session: Session) -> None:
        super().__init__("Trace", "Log posterior and number of clusters of every chain by sweep", "widget.md#the-trace")
        self.session = session
        self._plot: TracePlot | None = None
        self._frame: Frame | None = None
        # Whether it was unfolded for the first run, which happens once: what the user folds away stays folded.
        self._shown = False
        self.content.setContentsMargins(0, 2, 0, 6)
        self.viewing, self.viewing_text = QWidget(visible=False), ElidedLabel("viewing")
        back_tip, go_on_tip = "Show the present sample of the chain", "Continue the chain from this sample"
        self.back_button = make_button("Back to live", back_tip, session.layer_view.show_current)
        self.from_here = make_button("Go on from here", go_on_tip, session.corrections.go_on_from_view)
        make_row((self.viewing_text, 1), self.back_button, self.from_here, parent=self.viewing)
        policy = self.viewing.sizePolicy()
        policy.setRetainSizeWhenHidden(True)  # nothing moves when it comes and goes
        self.viewing.setSizePolicy(policy)
        self.content.addWidget(self.viewing)

    @property
    def plot(self) -> TracePlot:
        if self._plot is None:
            plot = self._plot = TracePlot()
            plot.setFixedHeight(HEIGHT)
            plot.setWhatsThis(plot.toolTip())
            plot.follow_theme(self.session.viewer.theme)
            plot.sweep_clicked.connect(self.session.layer_view.view_sweep)
            plot.hovered.connect(self.hovered)
            self.session.drawable.connect(plot.draw_waiting)
            self.content.insertWidget(0, plot)
        return self._plot

    def follow_theme(self, name: str) -> None:
        if self._plot is not None:
            self._plot.follow_theme(name)

    def refresh(self, frame: Frame | None) -> None:
        self._frame = frame
        self.set_summary("before the first run" if frame is None else f"{frame.sweep:,} sweeps")
        if frame is not None and frame.sweep and not self._shown:
            self._shown = True
            self.unfold()
        sweep = self.session.layer_view.viewing
        self.viewing.setVisible(sweep is not None)
        if sweep is not None:
            self.viewing_text.set_text(f"Viewing sweep {sweep:,}", "The layers show this sweep, not the newest one")
        if self._plot is not None and self._plot.isVisible():
            self._show_frame()

    def picture(self) -> QImage:
        """Draw the trace of the latest frame for a file, even if it is folded away."""
        self._show_frame()
        if not self.plot.isVisible():  # and may never have been laid out
            self.plot.resize(self.plot.size().expandedTo(self.plot.sizeHint()))
        return self.plot.picture()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self.button.isChecked():  # with what came while the dock was hidden
            self._show_frame()

    def _toggle(self, on: bool) -> None:
        if on:  # with what came while it was folded
            self._show_frame()
        super()._toggle(on)

    def _show_frame(self) -> None:
        if (frame := self._frame) is None:
            self.plot.show_traces([], None)
        else:
            self.plot.show_traces(frame.traces, (frame.best_sweep, frame.best), frame.marks)
        self.plot.show_cursor(self.session.layer_view.viewing)
