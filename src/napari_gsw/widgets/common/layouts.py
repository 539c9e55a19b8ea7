"""Rows, columns, forms and folding sections, with the spacing that all docks share, and the order of the tab key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from qtpy import QtWidgets
from qtpy.QtCore import QSize, Qt, Signal
from qtpy.QtGui import QShowEvent
from qtpy.QtWidgets import QFormLayout, QGridLayout, QHBoxLayout, QLabel, QLayout, QSizePolicy, QVBoxLayout, QWidget
from superqt import QElidingLabel

from napari_gsw.widgets.common.dock_panel import make_timer
from napari_gsw.widgets.common.help_page import make_help_button
from napari_gsw.widgets.common.text import LINE_MARGIN, add_whats_this

# The headings of the panel's rows. Each is as wide as the widest, so that all rows begin at one line.
HEADINGS = ("Image", "Where", "Preset *", "Strokes", "Regions", "Objects", "Show", "Range", "Detail")
# The font of a theme is a little larger than the one that is measured.
HEADING_MARGIN = 10


def make_row(*widgets: QWidget | tuple[QWidget, int], parent: QWidget | None = None) -> QHBoxLayout:
    """Lay widgets out side by side, each with its stretch factor if it is given as a pair."""
    row = QHBoxLayout(parent)
    row.setContentsMargins(0, 0, 0, 0)
    row.setSpacing(4)
    for item in widgets:
        row.addWidget(*(item if isinstance(item, tuple) else (item, 0)))
    return row


def make_column(*items: QWidget | QLayout, parent: QWidget | None = None, spacing: int = 4) -> QVBoxLayout:
    """Lay widgets and layouts out one below the other."""
    column = QVBoxLayout(parent)
    column.setContentsMargins(0, 0, 0, 0)
    column.setSpacing(spacing)
    for item in items:
        if isinstance(item, QLayout):
            column.addLayout(item)
        else:
            column.addWidget(item)
    return column


def make_grid(
    *rows: Sequence[QWidget | None], parent: QWidget | None = None, spacing: tuple[int, int] = (4, 4)
) -> QGridLayout:
    """Lay widgets out in rows, where None leaves a cell empty; `spacing` is between columns and between rows."""
    grid = QGridLayout(parent)
    grid.setContentsMargins(0, 0, 0, 0)
    grid.setHorizontalSpacing(spacing[0])
    grid.setVerticalSpacing(spacing[1])
    for i, row in enumerate(rows):
        for j, widget in enumerate(row):
            if widget is not None:
                grid.addWidget(widget, i, j)
    return grid


def make_form(
    *rows: tuple[str | QWidget, QWidget | QLayout], parent: QWidget | None = None, spacing: int = 8
) -> QFormLayout:
    """Make a form whose fields are as wide as there is room for; `spacing` is between labels and fields."""
    form = QFormLayout(parent)
    form.setContentsMargins(0, 0, 0, 0)
    form.setHorizontalSpacing(spacing)
    form.setVerticalSpacing(4)
    form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
    for row in rows:
        form.addRow(*row)
    return form


def make_scroll_area(column: QWidget) -> QtWidgets.QScrollArea:
    """Make a scroll area around a column, as wide as itself."""
    area = QtWidgets.QScrollArea()
    area.setWidgetResizable(True)
    area.setFrameShape(QtWidgets.QFrame.Shape.NoFrame)
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
        self.button = QtWidgets.QToolButton(text=title, checkable=True, autoRaise=True, toolTip=help)
        self.button.setArrowType(Qt.ArrowType.RightArrow)
        self.button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.button.setStyleSheet(
            "QToolButton { border: none; background: transparent; font-weight: 600; padding: 2px; }"
        )
        self.button.toggled.connect(self._toggle)
        self.summary = QElidingLabel()
        self.summary.setEllipsesWidth(LINE_MARGIN)
        self.summary.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.help = make_help_button(page)
        self.body = QWidget()
        self.destroyed.connect(self.body.deleteLater)  # if it was never shown
        self._body_timer = make_timer(self, self._adopt_body)
        self.content = make_column(parent=self.body)
        self.content.setContentsMargins(14, 2, 0, 6)
        head = make_row(self.button, (self.summary, 1), self.help)
        head.setSpacing(0)
        make_column(head, parent=self, spacing=0)

    def set_summary(self, text: str) -> None:
        self.summary.setText(text)
        self.summary.setToolTip(text)

    def unfold(self, on: bool = True) -> None:
        self.button.setChecked(on)

    def add_line(self, text: str) -> QLabel:
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


def set_tab_order(*roots: QWidget) -> None:
    """Lead the tab key through widgets and what is laid out in them.

    Qt follows the order in which widgets came into the window. The first widget keeps its place.
    """
    for before, after in pairwise(stop for root in roots for stop in _iter_tab_stops(root)):
        QWidget.setTabOrder(before, after)


def _iter_tab_stops(item: QWidget | QLayout | None) -> Iterator[QWidget]:
    """Iterate over the tab stops in a widget, itself included, or in a layout, in the order of the layout."""
    if isinstance(item, QWidget):
        if item.focusPolicy() & Qt.FocusPolicy.TabFocus:
            yield item
        item = item.layout()
    if item is None:
        return
    indices = list(range(item.count()))
    if isinstance(item, QFormLayout):  # which counts in the order in which rows were added
        indices.sort(key=lambda index: item.getItemPosition(index)[0])
    elif isinstance(item, QGridLayout):
        indices.sort(key=lambda index: item.getItemPosition(index)[:2])
    for inner in map(item.itemAt, indices):
        yield from _iter_tab_stops(inner.layout() if inner.widget() is None else inner.widget())
