"""Colours of text that no theme of napari's has."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from napari.utils.notifications import notification_manager, show_error
from napari.utils.theme import get_theme
from qtpy.QtCore import QEvent, Qt
from qtpy.QtGui import QResizeEvent
from qtpy.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSlider,
    QAbstractSpinBox,
    QComboBox,
    QLabel,
    QPushButton,
    QSizePolicy,
    QWidget,
)
from superqt import QElidingLabel

from napari_gsw.core.errors import InputError
from napari_gsw.widgets.common.setting_widgets import insert_titles

# Amber and blue that can be read on a dark ground and on a light one.
WARNING = {"dark": "#e0a030", "light": "#8a5a00"}
LINK = {"dark": "#6cb2ff", "light": "#0b57b0"}
# What sRGB adds to how light a colour looks.
LIGHTNESS = np.array([0.2126, 0.7152, 0.0722])


def muted_colour(theme_name: str) -> str:
    """A colour for text that stands back: between a theme's text and its background."""
    theme: Any = get_theme(theme_name)
    text, back = (np.array(c.as_rgb_tuple()[:3], float) for c in (theme.text, theme.background))
    return "#{:02x}{:02x}{:02x}".format(*(0.65 * text + 0.35 * back).round().astype(int))


def warning_colour(theme_name: str) -> str:
    """A colour for what a person has to read."""
    return WARNING[_ground(theme_name)]


def link_colour(theme_name: str) -> str:
    """A colour for what leads to another page."""
    return LINK[_ground(theme_name)]


def _ground(theme_name: str) -> str:
    """Whether a theme's background is dark or light."""
    theme: Any = get_theme(theme_name)
    return "light" if LIGHTNESS @ np.array(theme.background.as_rgb_tuple()[:3], float) > 128 else "dark"


def make_button(text: str, tip: str, slot: Any) -> QPushButton:
    button = QPushButton(text)
    button.setToolTip(tip)
    button.clicked.connect(lambda: slot())
    return button


def make_text_label(name: str) -> QLabel:
    """A line of text that wraps and can be copied."""
    label = QLabel()
    label.setObjectName(name)
    label.setWordWrap(True)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return label


# What a theme may leave empty above and below the text, and at the ends of a line, in pixels: text that is fitted into
# the line knows nothing of it.
MARGIN, THEME_ROOM = 8, 4


class ElidedLabel(QLabel):  # type: ignore[misc]
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

    def set_text(self, text: str, more: str = "") -> None:
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


class WorkerFailure(NamedTuple):
    """An error as a worker's result. Raised, a RuntimeError would be swallowed by napari and any other be printed."""

    reason: Exception


def format_error(reason: Exception) -> str:
    return format_sentence(str(reason) or type(reason).__name__)


def format_sentence(text: str) -> str:
    """Words for a person: a capital at the beginning and a full stop at the end, wherever they come from.

    >>> as_sentence("the image has no pixel"), as_sentence("Run longer!"), as_sentence("")
    ('The image has no pixel.', 'Run longer!', '')
    """
    text = insert_titles(text.strip())
    end = "" if text.endswith((".", "!", "?", ":", "...")) else "."
    return f"{text[0].upper()}{text[1:]}{end}" if text else ""


def report_error(reason: Exception, who: str) -> None:
    """Bad input is a sentence; anything else is a bug, whose report napari offers behind the sentence."""
    if isinstance(reason, InputError):
        show_error(f"{who}: {format_error(reason)}")
    else:
        notification_manager.receive_error(type(reason), reason, reason.__traceback__)


CONTROLS = (QAbstractButton, QComboBox, QAbstractSpinBox, QAbstractSlider, QAbstractItemView)


def find_controls(root: QWidget) -> list[QWidget]:
    """Everything in a widget that a person can operate, without the parts that Qt makes these of."""
    operated = (widget for widget in root.findChildren(QWidget) if isinstance(widget, CONTROLS))
    return [w for w in operated if not w.objectName().startswith("qt_") and not _is_inside_control(w, root)]


def add_whats_this(root: QWidget) -> None:
    """Give every control in a widget its *What's this?*, where it has none of its own."""
    for widget in find_controls(root):
        if not widget.whatsThis():
            widget.setWhatsThis(_explanation(widget, root))


def _explanation(widget: QWidget, root: QWidget) -> str:
    """The nearest tooltip, from the control outwards."""
    while widget is not None and widget is not root:
        if widget.toolTip():
            return str(widget.toolTip())
        widget = widget.parentWidget()
    return ""


def _is_inside_control(widget: QWidget, root: QWidget) -> bool:
    """Whether it is a part of another control, as the list of a combo box is, or a scroll bar."""
    parent = widget.parentWidget()
    while parent is not None and parent is not root:
        if isinstance(parent, CONTROLS) or parent.objectName().startswith("qt_scrollarea_"):
            return True
        parent = parent.parentWidget()
    return False
