"""How far the run is: a bar with blocks or sweeps and the time left, and a line of counters."""

from __future__ import annotations

from typing import NamedTuple

from qtpy.QtWidgets import QProgressBar, QVBoxLayout, QWidget

from napari_gsw.core.pipeline.stage import Stage
from napari_gsw.core.pipeline.warm_up import compiling_stage
from napari_gsw.widgets.kit.still_line import StillLine
from napari_gsw.widgets.panel.form import Expectation, count_clusters, count_sites
from napari_gsw.widgets.session.frame import Frame
from napari_gsw.widgets.session.session import Session


class StageWords(NamedTuple):
    """What a person reads while a stage of the preparation goes on, and what it is counted in."""

    title: str
    unit: str = ""


STAGES = {
    "preparing": StageWords("Opening the image"),
    "preview": StageWords("Looking at a coarse copy"),
    "planes": StageWords("Looking at planes"),
    "noise": StageWords("Taking off noise"),
    "superpixels": StageWords("Making superpixels"),
    "graph": StageWords("Building the graph"),
    "features": StageWords("Counting words"),
    "blocks": StageWords("Reading, making superpixels", "block"),
    "assembly": StageWords("Joining the blocks"),
    "start": StageWords("Starting the chain"),
    "compiling": StageWords("Compiling, once on this machine"),
}


class Progress(QWidget):  # type: ignore[misc]
    """Bar and counters of a session."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self.bar = QProgressBar()
        self.bar.setTextVisible(True)
        self.status = StillLine("status")
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(6)
        column.addWidget(self.bar)
        column.addWidget(self.status)

    def refresh(self, expectation: Expectation | None, frame: Frame | None = None) -> None:
        """Follow a frame; `expectation` is what to speak of where there is none."""
        stage = self.session.orders.stage
        if stage is None or stage.name != "sampling":  # whatever it does, this is what it waits for
            stage = compiling_stage() or stage
        if stage is not None and stage.name != "sampling":
            self._fill_bar(stage.done, stage.total, "%p %" if stage.total else "")
            self.status.say(describe_stage(stage))
        elif frame is None:
            self._fill_bar(0, 1, "")
            self.status.say("" if expectation is None else describe_expectation(expectation))
        else:
            self._show_frame(frame)

    def _show_frame(self, frame: Frame) -> None:
        left = (frame.target - frame.sweep) / frame.rate if frame.rate else 0.0
        running = self.session.state == "running" and left > 0
        sweeps = f"{frame.sweep:,} / {frame.target:,} sweeps{f', {_time(left)} left' if running else ''}"
        self._fill_bar(frame.sweep, max(frame.target, 1), sweeps)
        run, many = self.session.run, ""
        if run is not None and len(run.jobs) > 1 and self.session.state in ("running", "paused"):
            many = f"Slice {run.place + 1} of {len(run.jobs)}. "
        speed = f", {frame.rate:,.0f}/s" if frame.rate else ""
        plural = "" if frame.n_clusters == 1 else "s"
        regions = f", {frame.n_regions} {frame.kind}{'' if frame.n_regions == 1 else 's'}" if frame.n_regions else ""
        words = f"{many}{frame.n_clusters} cluster{plural}{regions}, best {frame.best:,.1f}{speed}"
        more = f"Best: log posterior of the best state, of sweep {frame.best_sweep:,}"
        self.status.say(words, more + ("\n/s: sweeps a second" if frame.rate else ""))

    def _fill_bar(self, value: int, most: int, text: str) -> None:
        """Qt paints a progress bar, and the window around it, at every change; here it may wait for its turn."""
        self.bar.setUpdatesEnabled(False)
        self.bar.setRange(0, most)
        self.bar.setValue(value)
        self.bar.setFormat(text)
        self.bar.setUpdatesEnabled(True)


def describe_stage(stage: Stage) -> str:
    """What goes on, in words.

    >>> describe_stage(Stage("blocks", 12, 64)), describe_stage(Stage("features"))
    ('Reading, making superpixels: block 12 of 64', 'Counting words ...')
    """
    words = STAGES.get(stage.name, StageWords(stage.name.replace("-", " ").capitalize()))
    if not stage.total:
        return f"{words.title} ..."
    unit = f"{words.unit} " if words.unit else ""
    return f"{words.title}: {unit}{stage.done:,} of {stage.total:,}"


def describe_expectation(expectation: Expectation) -> str:
    """What a run would begin with, in words; nothing if it is not known.

    >>> describe_expectation(Expectation(1000, False, 18.2))
    'About 1,000 sites; the prior expects 18 clusters.'
    """
    if expectation.sites is None or expectation.clusters is None:
        return ""
    return f"{count_sites(expectation).capitalize()}; the prior expects {count_clusters(expectation)}."


def _time(seconds: float) -> str:
    """A time as a person says it.

    >>> _time(4.2), _time(200), _time(8000)
    ('4 s', '3 min', '2.2 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
