"""The trace in a section of its own: folded away until there is something to see."""

from __future__ import annotations

from qtpy.QtWidgets import QHBoxLayout, QWidget

from napari_gsw.widgets.kit.buttons import push_button
from napari_gsw.widgets.kit.section import Section
from napari_gsw.widgets.kit.still_line import StillLine
from napari_gsw.widgets.panel.trace_plot import TracePlot
from napari_gsw.widgets.session.frame import Frame
from napari_gsw.widgets.session.session import Session


class TraceSection(Section):
    """The plot, and below it what to do with a sweep of the past that is being looked at.

    Attributes
    ----------
    plot : the trace.
    """

    def __init__(self, session: Session) -> None:
        super().__init__(
            "Trace", "How the chains climb: log posterior and number of clusters, sweep by sweep", "widget.md#the-trace"
        )
        self.session = session
        self.plot = TracePlot()
        self.plot.setFixedHeight(self.plot.sizeHint().height())
        self.plot.sweep_clicked.connect(session.canvas.view_sweep)
        self.content.setContentsMargins(0, 2, 0, 6)
        self.content.addWidget(self.plot)
        self.content.addWidget(self._viewing_row())
        # Whether it was unfolded for the first run, which is done once: what a person folds away stays folded.
        self._shown = False

    def _viewing_row(self) -> QWidget:
        self.viewing = QWidget()
        row = QHBoxLayout(self.viewing)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(4)
        self.viewing_text = StillLine("viewing")
        canvas, corrections = self.session.canvas, self.session.corrections
        self.back_button = push_button("Back to live", "Show the chain as it is now", canvas.live_again)
        self.from_here = push_button(
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

    def refresh(self, frame: Frame | None) -> None:
        """Follow a frame; None empties the plot."""
        self.set_summary("before the first run" if frame is None else f"{frame.sweep:,} sweeps")
        if frame is not None and frame.sweep and not self._shown:
            self._shown = True
            self.unfold()
        sweep = self.session.canvas.viewing
        self.viewing.setVisible(sweep is not None)
        if sweep is not None:
            self.viewing_text.say(f"Viewing sweep {sweep:,}", "What is shown is this sweep, not the newest one")
        if not self.plot.isVisible():
            return
        if frame is not None:
            self.plot.show_traces(frame.traces, (frame.best_sweep, frame.best), frame.marks)
        else:
            self.plot.show_traces([], None)
        self.plot.show_cursor(sweep)
