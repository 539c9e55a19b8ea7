"""A part of the panel that folds: its title, its present values in one line, and its controls."""

from __future__ import annotations

from qtpy.QtCore import Qt, QTimer, Signal
from qtpy.QtGui import QShowEvent
from qtpy.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QToolButton, QVBoxLayout, QWidget
from superqt import QElidingLabel

from napari_gsw.widgets.kit.explanation import explain
from napari_gsw.widgets.kit.help_page import help_button
from napari_gsw.widgets.kit.still_line import THEME_ROOM
from napari_gsw.widgets.kit.tab_order import put_in_tab_order


class Section(QWidget):  # type: ignore[misc]
    """Folded, it tells what is set; unfolded, it lets it be changed.

    What folds is kept out of the window until it is first unfolded: a panel has three hundred widgets in it, to each of
    which Qt and napari would send eighteen events when the dock opens. It has no parent before that; then it is a
    window of ours that nobody sees, since what has no parent is Python's to delete, in any thread.

    Signals
    -------
    toggled : it was folded or unfolded.
    """

    toggled = Signal(bool)

    def __init__(self, title: str, help: str = "", page: str = "widget.md") -> None:
        """`page` is what its ``?`` opens: a page of the documentation, with a heading after ``#``."""
        super().__init__()
        self.button = QToolButton()
        self.button.setText(title)
        self.button.setCheckable(True)
        self.button.setArrowType(Qt.ArrowType.RightArrow)
        self.button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.button.setAutoRaise(True)
        self.button.setStyleSheet(
            "QToolButton { border: none; background: transparent; font-weight: 600; padding: 2px; }"
        )
        self.button.setToolTip(help)
        self.button.toggled.connect(self._toggle)
        self.summary = QElidingLabel()
        self.summary.setEllipsesWidth(THEME_ROOM)
        self.summary.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.body = QWidget()
        self.destroyed.connect(self.body.deleteLater)  # if it was never shown
        self._opened = QTimer(self)
        self._opened.setSingleShot(True)
        self._opened.timeout.connect(self._keep_body)
        self.content = QVBoxLayout(self.body)
        self.content.setContentsMargins(14, 2, 0, 6)
        self.content.setSpacing(4)
        head = QHBoxLayout()
        head.setContentsMargins(0, 0, 0, 0)
        head.setSpacing(0)
        head.addWidget(self.button)
        head.addWidget(self.summary, 1)
        self.help = help_button(page)
        head.addWidget(self.help)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(head)

    def set_summary(self, text: str) -> None:
        self.summary.setText(text)
        self.summary.setToolTip(text)

    def set_ink(self, colour: str) -> None:
        """The colour of the line of values: they stand back behind the title."""
        self.summary.setStyleSheet(f"QLabel {{ color: {colour}; }}")

    def unfold(self, on: bool = True) -> None:
        self.button.setChecked(on)

    def showEvent(self, event: QShowEvent) -> None:
        if self.body.parentWidget() is None:
            self._opened.start(0)  # in a turn after the one in which the dock opens
        super().showEvent(event)

    def _keep_body(self) -> None:
        if self.body.parentWidget() is None:
            self.body.setParent(self, Qt.WindowType.Window)

    def _toggle(self, on: bool) -> None:
        if self.body.isWindow():
            explain(self.body)
            self.body.setParent(self, Qt.WindowType.Widget)
            self.layout().addWidget(self.body)
        self.button.setArrowType(Qt.ArrowType.DownArrow if on else Qt.ArrowType.RightArrow)
        self.body.setVisible(on)
        if on:  # controls have made their boxes now
            put_in_tab_order(self.help, self.body)
        self.toggled.emit(on)

    def add_line(self, text: str) -> QLabel:
        """A line of explanation among the controls."""
        label = QLabel(text)
        label.setWordWrap(True)
        self.content.addWidget(label)
        return label
