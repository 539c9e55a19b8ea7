"""Lines of text, buttons, text colours, and how errors reach the user."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from napari.utils.notifications import notification_manager, show_error
from napari.utils.theme import get_theme
from qtpy.QtCore import QEvent, Qt
from qtpy.QtGui import QResizeEvent
from qtpy.QtWidgets import QButtonGroup, QCheckBox, QLabel, QPushButton, QSizePolicy, QWidget
from superqt import QElidingLabel

from napari_gsw.core.errors import InputError
from napari_gsw.widgets.common.setting_widgets import insert_titles

# Amber and blue that can be read on a dark background and on a light one.
WARNING = {"dark": "#e0a030", "light": "#8a5a00"}
LINK = {"dark": "#6cb2ff", "light": "#0b57b0"}
# Pixels that a theme may leave empty above and below the text, and at the ends of a line. Text fitted into a line does
# not take them into account.
LABEL_MARGIN, LINE_MARGIN = 8, 4


def muted_colour(theme_name: str) -> str:
    """Return a colour between the text and the background of a theme."""
    theme: Any = get_theme(theme_name)
    text, background = (np.array(c.as_rgb_tuple()[:3], float) for c in (theme.text, theme.background))
    return "#{:02x}{:02x}{:02x}".format(*(0.65 * text + 0.35 * background).round().astype(int))


def readable_colour(colours: Mapping[str, str], theme_name: str) -> str:
    """Return the colour, WARNING or LINK, that can be read on the background of a theme."""
    theme: Any = get_theme(theme_name)
    luminance = np.array([0.2126, 0.7152, 0.0722]) @ np.array(theme.background.as_rgb_tuple()[:3], float)
    return colours["light" if luminance > 128 else "dark"]


def colour_plot(canvas: Any, axes: Iterable[Any], theme_name: str) -> str:
    """Give a canvas of pyqtgraph and its axes the colours of a theme; return that of the text."""
    theme: Any = get_theme(theme_name)
    colour: str = theme.text.as_hex()
    canvas.setBackground(theme.background.as_hex())
    for axis in axes:
        axis.setPen(colour)
        axis.setTextPen(colour)
    return colour


def make_button(text: str, tip: str, slot: Any) -> QPushButton:
    """Make a push button with a tooltip."""
    button = QPushButton(text, toolTip=tip)
    button.clicked.connect(lambda: slot())
    return button


def make_choice(text: str, tip: str, group: QButtonGroup) -> QPushButton:
    """Make a button that stays down until another one of its group is pressed."""
    button = QPushButton(text, toolTip=tip, checkable=True)
    group.addButton(button)
    return button


def make_check_box(text: str, tip: str, slot: Any = None, on: bool = False) -> QCheckBox:
    """Make a check box with a tooltip."""
    box = QCheckBox(text, toolTip=tip, checked=on)
    if slot is not None:
        box.toggled.connect(slot)
    return box


def make_text_label(name: str, text: str) -> QLabel:
    """Make a label whose text wraps and can be copied."""
    label = QLabel(text, objectName=name, wordWrap=True)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return label


class ElidedLabel(QLabel):  # type: ignore[misc]
    """Label of a fixed height: text that does not fit ends in dots, and the tooltip has all of it.

    Lines are broken here and not by Qt, which would wrap the last one, dots and all, out of sight.
    """

    def __init__(self, name: str, lines: int = 1) -> None:
        super().__init__(objectName=name)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop)
        self.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self._max_lines, self._text = lines, ""
        self._fit()

    def set_text(self, text: str, more: str = "") -> None:
        """Show a text; the tooltip shows it and `more`."""
        if text != self._text:
            self._text = text
            self._fit()
        self.setToolTip("\n".join(filter(None, (text, more))))

    def text(self) -> str:
        return self._text

    def displayed_text(self) -> str:
        return str(super().text())

    def event(self, event: QEvent) -> bool:
        """Fit the text again: the font of napari's theme comes when the label is first shown, and may change."""
        handled = bool(super().event(event))
        if event.type() in (QEvent.Type.Polish, QEvent.Type.FontChange, QEvent.Type.StyleChange):
            self._fit()
        return handled

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        metrics, width = self.fontMetrics(), self.width() - LINE_MARGIN
        height = self._max_lines * metrics.lineSpacing() + LABEL_MARGIN
        if height != self.minimumHeight():
            self.setFixedHeight(height)
        paragraphs = (QElidingLabel.wrapText(text, width, self.font()) for text in self._text.split("\n"))
        lines = [line.rstrip() for paragraph in paragraphs for line in paragraph]
        last = self._max_lines - 1
        if len(lines) > self._max_lines:
            lines[last:] = [metrics.elidedText(" ".join(lines[last:]), Qt.TextElideMode.ElideRight, width)]
        text = "\n".join(lines)
        if text != super().text():
            super().setText(text)


def format_error(reason: Exception) -> str:
    """Return an error as a sentence."""
    return format_sentence(str(reason) or type(reason).__name__)


def format_sentence(text: str) -> str:
    """Return a text with titles of settings for their names, a capital and a full stop.

    >>> format_sentence("the image has no pixel"), format_sentence("Run longer!"), format_sentence("")
    ('The image has no pixel.', 'Run longer!', '')
    """
    text = insert_titles(text.strip())
    end = "" if text.endswith((".", "!", "?", ":", "...")) else "."
    return f"{text[0].upper()}{text[1:]}{end}" if text else ""


def report_error(reason: Exception, source: str) -> None:
    """Show bad input as one sentence, and any other error with napari's report of its traceback."""
    if isinstance(reason, InputError):
        show_error(f"{source}: {format_error(reason)}")
    else:
        notification_manager.receive_error(type(reason), reason, reason.__traceback__)


def add_whats_this(root: QWidget) -> None:
    """Give every widget with a tooltip its text as *What's this?*, which Qt shows for the widgets inside, too."""
    for widget in root.findChildren(QWidget):
        if widget.toolTip() and not widget.whatsThis() and not isinstance(widget, QLabel):  # whose tips change
            widget.setWhatsThis(widget.toolTip())


def format_count(number: int, word: str) -> str:
    """Return a number with a noun in singular or plural.

    >>> format_count(1, "cluster"), format_count(1200, "site")
    ('1 cluster', '1,200 sites')
    """
    return f"{number:,} {word}{'s' * (number != 1)}"
