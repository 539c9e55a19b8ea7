"""A column of widgets that scrolls up and down when the dock is low."""

from __future__ import annotations

from qtpy.QtCore import QSize, Qt, QTimer, Signal
from qtpy.QtGui import QShowEvent
from qtpy.QtWidgets import QFrame, QHBoxLayout, QLabel, QScrollArea, QSizePolicy, QToolButton, QVBoxLayout, QWidget
from superqt import QElidingLabel

from napari_gsw.widgets.common.help_page import make_help_button
from napari_gsw.widgets.common.labels import THEME_ROOM, add_whats_this
from napari_gsw.widgets.common.tab_order import set_tab_order


def make_scroll_area(column: QWidget) -> QScrollArea:
    """A scroll area around a column, as wide as itself."""
    area = QScrollArea()
    area.setWidgetResizable(True)
    area.setFrameShape(QFrame.Shape.NoFrame)
    area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    area.setWidget(column)
    return area


# All that stand one below the other in the panel: each is as wide as the widest, so that the rows begin at one line.
WORDS = ("Image", "Where", "Preset *", "Strokes", "Regions", "Objects", "Show", "Range", "Detail")
# The theme makes its font a little larger than what is measured.
MARGIN = 10


class RowHeading(QLabel):  # type: ignore[misc]
    """As wide as any of `WORDS`, in whatever font a theme has, and whatever it says."""

    def sizeHint(self) -> QSize:
        widest = max(self.fontMetrics().horizontalAdvance(word) for word in WORDS)
        return QSize(widest + MARGIN, super().sizeHint().height())

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()


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
        self.help = make_help_button(page)
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
            add_whats_this(self.body)
            self.body.setParent(self, Qt.WindowType.Widget)
            self.layout().addWidget(self.body)
        self.button.setArrowType(Qt.ArrowType.DownArrow if on else Qt.ArrowType.RightArrow)
        self.body.setVisible(on)
        if on:  # controls have made their boxes now
            set_tab_order(self.help, self.body)
        self.toggled.emit(on)

    def add_line(self, text: str) -> QLabel:
        """A line of explanation among the controls."""
        label = QLabel(text)
        label.setWordWrap(True)
        self.content.addWidget(label)
        return label
