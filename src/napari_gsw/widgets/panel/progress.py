"""How far the run is: a bar with the sweeps and the time left, and a line of counters."""

from __future__ import annotations

from qtpy.QtWidgets import QProgressBar, QVBoxLayout, QWidget

from napari_gsw.widgets.kit.buttons import text_line
from napari_gsw.widgets.session.run import Frame
from napari_gsw.widgets.session.session import Session


class Progress(QWidget):  # type: ignore[misc]
    """Bar and counters of a session."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self.bar = QProgressBar()
        self.bar.setTextVisible(True)
        self.status = text_line("status")
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(6)
        column.addWidget(self.bar)
        column.addWidget(self.status)

    def refresh(self, outlook: str) -> None:
        """Follow the session; `outlook` is what to say before the first run."""
        frame, stage = self.session.frame, self.session.stage
        if stage:
            self._fill_bar(0, 0, "")
            self.status.setText(f"{stage} ...")
        elif frame is None:
            self._fill_bar(0, 1, "")
            self.status.setText(outlook)
        else:
            self._tell(frame)

    def _tell(self, frame: Frame) -> None:
        left = (frame.target - frame.sweep) / frame.rate if frame.rate else 0.0
        running = self.session.state == "running" and left > 0
        told = f"{frame.sweep:,} / {frame.target:,} sweeps{f', {_time(left)} left' if running else ''}"
        self._fill_bar(frame.sweep, max(frame.target, 1), told)
        run, many = self.session.run, ""
        if run is not None and len(run.jobs) > 1 and self.session.state in ("running", "paused"):
            many = f"Slice {run.place + 1} of {len(run.jobs)}. "
        speed = f", {frame.rate:,.0f} sweeps/s" if frame.rate else ""
        plural = "" if frame.n_clusters == 1 else "s"
        parts = f", {frame.n_regions} {frame.kind}{'' if frame.n_regions == 1 else 's'}" if frame.n_regions else ""
        self.status.setText(f"{many}{frame.n_clusters} cluster{plural}{parts}, best {frame.best:,.1f}{speed}")
        self.status.setToolTip(f"Log posterior of the best state, of sweep {frame.best_sweep:,}")

    def _fill_bar(self, value: int, most: int, text: str) -> None:
        """Qt paints a progress bar, and the window around it, at every change; here it may wait for its turn."""
        self.bar.setUpdatesEnabled(False)
        self.bar.setRange(0, most)
        self.bar.setValue(value)
        self.bar.setFormat(text)
        self.bar.setUpdatesEnabled(True)


def _time(seconds: float) -> str:
    """A time as a person says it.

    >>> _time(4.2), _time(200), _time(8000)
    ('4 s', '3 min', '2.2 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
