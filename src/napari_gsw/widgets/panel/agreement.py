"""Whether the chains agree, in a sentence; and where there is one chain alone, a button that runs several."""

from __future__ import annotations

from qtpy.QtCore import Qt, Signal
from qtpy.QtWidgets import QHBoxLayout, QWidget

from napari_gsw.widgets.kit.buttons import push_button
from napari_gsw.widgets.kit.still_line import StillLine
from napari_gsw.widgets.session.frame import Frame

# As many as are needed to see a chain that has settled elsewhere, and as most computers have cores for.
SEVERAL = 4
SEVERAL_TIP = (
    f"Start {SEVERAL} chains afresh from different states, with these settings; locks stay. If they come to the same, "
    "the result does not hang on where one of them began. The best state of all is kept"
)
ONE_TIP = (
    "One chain can show that it still drifts, not that it has looked everywhere: another may settle at a better state. "
    "Only chains that began apart and came to the same say more"
)
ALL_TIP = (
    "Whether the chains, which began apart, agree on log posterior, number of clusters, their sizes and every edge "
    "(R-hat near 1, enough effective samples)"
)


class Agreement(QWidget):  # type: ignore[misc]
    """The line below the trace.

    Signals
    -------
    several_wanted : the user wants several chains.
    """

    several_wanted = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.line = StillLine("verdict", 3)
        self.several = push_button(f"Run {SEVERAL} chains", SEVERAL_TIP, self.several_wanted.emit)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(4)
        row.addWidget(self.line, 1)
        row.addWidget(self.several, 0, Qt.AlignmentFlag.AlignTop)
        self.refresh(False)

    def refresh(self, possible: bool, frame: Frame | None = None) -> None:
        """Follow a frame; `possible` is whether there can be a run."""
        if frame is None or not frame.verdict:
            self.line.say("")
            self.several.setVisible(False)
            return
        alone = len(frame.traces) == 1
        words, figures = plain(frame.verdict)
        self.line.say(words, "\n".join(filter(None, (figures, ONE_TIP if alone else ALL_TIP))))
        self.several.setVisible(alone)
        self.several.setEnabled(possible)


def plain(verdict: str) -> tuple[str, str]:
    """A verdict as a sentence without figures, and the figures for whoever wants them.

    >>> plain("one chain, not settled yet: run longer (log posterior: R-hat 1.30)")
    ('One chain, not settled yet: run longer.', 'Log posterior: R-hat 1.30.')
    >>> plain("4 chains agree (R-hat 1.01, 210 effective samples)")
    ('4 chains agree.', 'R-hat 1.01, 210 effective samples.')
    """
    before, _, rest = verdict.partition(" (")
    figures, _, after = rest.rpartition(")")
    return _sentence(before + after), _sentence(figures)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}." if text else ""
