"""The trace in a section of its own: folded away until there is something to see."""

from __future__ import annotations

from qtpy.QtCore import QTimer, Signal
from qtpy.QtGui import QImage, QShowEvent
from qtpy.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from napari_gsw.widgets.common.collapsible import Section
from napari_gsw.widgets.common.labels import ElidedLabel, make_button
from napari_gsw.widgets.common.tab_order import set_tab_order
from napari_gsw.widgets.panel.trace_plot import HEIGHT, TracePlot
from napari_gsw.widgets.session.array_run import Frame
from napari_gsw.widgets.session.session import Session

# Milliseconds after the dock has opened: a person has not pressed Run by then.
AFTER_OPENING = 300


class TraceSection(Section):
    """The plot, and below it what to do with a sweep of the past that is being looked at.

    The plot takes as long to make as all that is above it in the panel, and nobody sees it before the first run: it is
    made in a turn of its own, when the dock has opened, so that neither that nor the first run waits for it.

    Signals
    -------
    hovered : what is under the mouse, in words; empty when it leaves.
    """

    hovered = Signal(str)

    def __init__(self, session: Session) -> None:
        super().__init__(
            "Trace", "How the chains climb: log posterior and number of clusters, sweep by sweep", "widget.md#the-trace"
        )
        self.session = session
        self._plot: TracePlot | None = None
        self._frame: Frame | None = None
        self.content.setContentsMargins(0, 2, 0, 6)
        self._room = QWidget()
        self._room.setFixedHeight(HEIGHT)
        inside = QVBoxLayout(self._room)
        inside.setContentsMargins(0, 0, 0, 0)
        self.content.addWidget(self._room)
        self.content.addWidget(self._viewing_row())
        self._turn = QTimer(self)
        self._turn.setSingleShot(True)
        self._turn.timeout.connect(self._show_frame)
        # Whether it was unfolded for the first run, which is done once: what a person folds away stays folded.
        self._shown = False

    @property
    def plot(self) -> TracePlot:
        """The trace."""
        if self._plot is None:
            plot = self._plot = TracePlot()
            plot.setFixedHeight(HEIGHT)
            plot.setWhatsThis(plot.toolTip())
            plot.follow_theme(self.session.viewer.theme)
            plot.sweep_clicked.connect(self.session.canvas.view_sweep)
            plot.hovered.connect(self.hovered)
            self.session.drawable.connect(plot.draw_waiting)
            self._room.layout().addWidget(plot)
            if self.button.isChecked():  # it was unfolded before the plot was there
                set_tab_order(self.help, self.body)
        return self._plot

    def _viewing_row(self) -> QWidget:
        self.viewing = QWidget()
        row = QHBoxLayout(self.viewing)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(4)
        self.viewing_text = ElidedLabel("viewing")
        canvas, corrections = self.session.canvas, self.session.corrections
        self.back_button = make_button("Back to live", "Show the chain as it is now", canvas.show_current)
        self.from_here = make_button(
            "Go on from here", "Continue the chain from this state", corrections.go_on_from_view
        )
        row.addWidget(self.viewing_text, 1)
        row.addWidget(self.back_button)
        row.addWidget(self.from_here)
        policy = self.viewing.sizePolicy()
        policy.setRetainSizeWhenHidden(True)  # nothing moves when it comes and goes
        self.viewing.setSizePolicy(policy)
        self.viewing.setVisible(False)
        return self.viewing

    def follow_theme(self, name: str) -> None:
        """Take the colours of one of napari's themes."""
        if self._plot is not None:
            self._plot.follow_theme(name)

    def refresh(self, frame: Frame | None) -> None:
        """Follow a frame; None empties the plot."""
        self._frame = frame
        self.set_summary("before the first run" if frame is None else f"{frame.sweep:,} sweeps")
        if frame is not None and frame.sweep and not self._shown:
            self._shown = True
            self.unfold()
        sweep = self.session.canvas.viewing
        self.viewing.setVisible(sweep is not None)
        if sweep is not None:
            self.viewing_text.set_text(f"Viewing sweep {sweep:,}", "What is shown is this sweep, not the newest one")
        if self._plot is not None and self._plot.isVisible():
            self._show_frame()

    def picture(self) -> QImage:
        """The trace of the latest frame, folded away or not, for a file."""
        self._show_frame()
        if not self.plot.isVisible():  # and may never have been laid out
            self.plot.resize(self.plot.size().expandedTo(self.plot.sizeHint()))
        return self.plot.picture()

    def showEvent(self, event: QShowEvent) -> None:
        if not self._turn.isActive() and (self._plot is None or self.button.isChecked()):
            self._turn.start(AFTER_OPENING if self._plot is None else 0)  # with what came while the dock was hidden
        super().showEvent(event)

    def _toggle(self, on: bool) -> None:
        super()._toggle(on)
        if on:  # with what came while it was folded
            self._turn.start(0)

    def _show_frame(self) -> None:
        frame = self._frame
        if frame is not None:
            self.plot.show_traces(frame.traces, (frame.best_sweep, frame.best), frame.marks)
        else:
            self.plot.show_traces([], None)
        self.plot.show_cursor(self.session.canvas.viewing)
