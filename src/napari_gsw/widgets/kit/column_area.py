"""A column of widgets that scrolls up and down when the dock is low."""

from __future__ import annotations

from qtpy.QtCore import Qt
from qtpy.QtWidgets import QFrame, QScrollArea, QWidget


def column_area(column: QWidget) -> QScrollArea:
    """A scroll area around a column, as wide as itself."""
    area = QScrollArea()
    area.setWidgetResizable(True)
    area.setFrameShape(QFrame.Shape.NoFrame)
    area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    area.setWidget(column)
    return area
