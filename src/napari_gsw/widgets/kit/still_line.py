"""A line of text that has its place: whatever it says, nothing beside it moves."""

from __future__ import annotations

from qtpy.QtCore import QEvent, Qt
from qtpy.QtWidgets import QSizePolicy
from superqt import QElidingLabel

# What a theme may put above and below the text, in pixels.
MARGIN = 8


class StillLine(QElidingLabel):  # type: ignore[misc]
    """Text of a fixed height; what does not fit ends in dots, and the tooltip has all of it.

    Parameters
    ----------
    name : of the widget. lines : how many there is room for.
    """

    def __init__(self, name: str, lines: int = 1) -> None:
        super().__init__()
        self.setObjectName(name)
        self.setWordWrap(lines > 1)
        self.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop)
        self.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self._lines = lines
        self._make_room()

    def say(self, text: str, more: str = "") -> None:
        """Show a text; `more` is for whoever lets the mouse rest on it."""
        if text != self.text():
            self.setText(text)
        self.setToolTip("\n".join(filter(None, (text, more))))

    def event(self, event: QEvent) -> bool:
        """napari's theme has a font of its own, which comes when the line is first shown, and may change."""
        handled = bool(super().event(event))
        if event.type() in (QEvent.Type.Polish, QEvent.Type.FontChange, QEvent.Type.StyleChange):
            self._make_room()
        return handled

    def _make_room(self) -> None:
        height = self._lines * self.fontMetrics().lineSpacing() + MARGIN
        if height != self.minimumHeight():
            self.setFixedHeight(height)
