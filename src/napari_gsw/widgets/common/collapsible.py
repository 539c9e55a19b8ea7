"""Sections that fold, the scroll area around them, and the headings of rows."""

from __future__ import annotations

from qtpy.QtCore import QSize, Qt, Signal
from qtpy.QtGui import QShowEvent
from qtpy.QtWidgets import QFrame, QHBoxLayout, QLabel, QScrollArea, QSizePolicy, QToolButton, QVBoxLayout, QWidget
from superqt import QElidingLabel

from napari_gsw.widgets.common.dock_panel import make_timer
from napari_gsw.widgets.common.help_page import make_help_button
from napari_gsw.widgets.common.labels import LINE_MARGIN, add_whats_this
from napari_gsw.widgets.common.tab_order import set_tab_order

# The headings of the panel's rows. Each is as wide as the widest, so that all rows begin at one line.
HEADINGS = ("Image", "Where", "Preset *", "Strokes", "Regions", "Objects", "Show", "Range", "Detail")
# The font of a theme is a little larger than the one that is measured.
HEADING_MARGIN = 10


def make_scroll_area(column: QWidget) -> QScrollArea:
    """Make a scroll area around a column, as wide as itself."""
    area = QScrollArea()
    area.setWidgetResizable(True)
    area.setFrameShape(QFrame.Shape.NoFrame)
    area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    area.setWidget(column)
    return area


class RowHeading(QLabel):  # type: ignore[misc]
    """Label as wide as the widest of the headings, in the font of any theme."""

    def sizeHint(self) -> QSize:
        widest = max(self.fontMetrics().horizontalAdvance(heading) for heading in HEADINGS)
        return QSize(widest + HEADING_MARGIN, super().sizeHint().height())

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()


class Section(QWidget):  # type: ignore[misc]
    """Title with a summary of the values; unfolded, it shows its controls.

    superqt's QCollapsible fixes the height of its content, and its content is in the window from the start. Here it
    joins when it is first unfolded: a panel has 300 widgets in its sections, and Qt and napari would send 18 events to
    each when the dock opens. Until then it is an invisible window of ours, for Python may delete a widget without a
    parent in any thread.
    ``?`` opens a page of the documentation, `page`, with a heading after ``#``.
    """

    toggled = Signal(bool)

    def __init__(self, title: str, help: str = "", page: str = "widget.md") -> None:
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
        self.summary.setEllipsesWidth(LINE_MARGIN)
        self.summary.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.help = make_help_button(page)
        self.body = QWidget()
        self.destroyed.connect(self.body.deleteLater)  # if it was never shown
        self._body_timer = make_timer(self, self._adopt_body)
        self.content = QVBoxLayout(self.body)
        self.content.setContentsMargins(14, 2, 0, 6)
        self.content.setSpacing(4)
        head = QHBoxLayout()
        head.setContentsMargins(0, 0, 0, 0)
        head.setSpacing(0)
        head.addWidget(self.button)
        head.addWidget(self.summary, 1)
        head.addWidget(self.help)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(head)

    def set_summary(self, text: str) -> None:
        """Show the present values beside the title."""
        self.summary.setText(text)
        self.summary.setToolTip(text)

    def set_summary_colour(self, colour: str) -> None:
        """Set the colour of the summary."""
        self.summary.setStyleSheet(f"QLabel {{ color: {colour}; }}")

    def unfold(self, on: bool = True) -> None:
        """Show the controls, or hide them."""
        self.button.setChecked(on)

    def add_line(self, text: str) -> QLabel:
        """Add a line of explanation to the controls."""
        label = QLabel(text)
        label.setWordWrap(True)
        self.content.addWidget(label)
        return label

    def showEvent(self, event: QShowEvent) -> None:
        self._body_timer.start()  # in a later event than the one that opens the dock
        super().showEvent(event)

    def _adopt_body(self) -> None:
        if self.body.parentWidget() is None:
            self.body.setParent(self, Qt.WindowType.Window)

    def _toggle(self, on: bool) -> None:
        if self.body.isWindow():
            add_whats_this(self.body)
            self.body.setParent(self, Qt.WindowType.Widget)
            self.layout().addWidget(self.body)
        self.button.setArrowType(Qt.ArrowType.DownArrow if on else Qt.ArrowType.RightArrow)
        self.body.setVisible(on)
        if on:  # the settings have made their controls now
            set_tab_order(self.help, self.body)
        self.toggled.emit(on)
