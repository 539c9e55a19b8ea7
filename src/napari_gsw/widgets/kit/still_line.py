"""A line of text that has its place: whatever it says, nothing beside it moves."""

from __future__ import annotations

from qtpy.QtCore import QEvent, Qt
from qtpy.QtGui import QResizeEvent
from qtpy.QtWidgets import QLabel, QSizePolicy
from superqt import QElidingLabel

# What a theme may leave empty above and below the text, and at the ends of a line, in pixels: text that is fitted into
# the line knows nothing of it.
MARGIN, THEME_ROOM = 8, 4


class StillLine(QLabel):  # type: ignore[misc]
    """Text of a fixed height; what does not fit ends in dots, and the tooltip has all of it.

    Its lines are broken here and not by Qt, which would wrap the last one, dots and all, out of sight.

    Parameters
    ----------
    name : of the widget. lines : how many there is room for.
    """

    def __init__(self, name: str, lines: int = 1) -> None:
        super().__init__()
        self.setObjectName(name)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop)
        self.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self._lines, self._words = lines, ""
        self._make_room()

    def say(self, text: str, more: str = "") -> None:
        """Show a text; `more` is for whoever lets the mouse rest on it."""
        if text != self._words:
            self._words = text
            self._fit()
        self.setToolTip("\n".join(filter(None, (text, more))))

    def text(self) -> str:
        """All of the text; :meth:`seen` is what there is room for."""
        return self._words

    def seen(self) -> str:
        """What is on the screen."""
        return str(super().text())

    def event(self, event: QEvent) -> bool:
        """napari's theme has a font of its own, which comes when the line is first shown, and may change."""
        handled = bool(super().event(event))
        if event.type() in (QEvent.Type.Polish, QEvent.Type.FontChange, QEvent.Type.StyleChange):
            self._make_room()
            self._fit()
        return handled

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _make_room(self) -> None:
        height = self._lines * self.fontMetrics().lineSpacing() + MARGIN
        if height != self.minimumHeight():
            self.setFixedHeight(height)

    def _fit(self) -> None:
        """Break the text into as many lines as there is room for, the last one with dots if there is more."""
        room = self.width() - THEME_ROOM
        lines = [
            line.rstrip()
            for paragraph in self._words.split("\n")
            for line in QElidingLabel.wrapText(paragraph, room, self.font())
        ]
        if len(lines) > self._lines:
            last = " ".join(lines[self._lines - 1 :])
            lines[self._lines - 1 :] = [self.fontMetrics().elidedText(last, Qt.TextElideMode.ElideRight, room)]
        shown = "\n".join(lines)
        if shown != super().text():
            super().setText(shown)
