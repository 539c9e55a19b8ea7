"""Rows, columns, forms and groups of buttons, with the spacing that all docks share."""

from __future__ import annotations

from qtpy.QtWidgets import QButtonGroup, QFormLayout, QHBoxLayout, QPushButton, QVBoxLayout, QWidget


def make_row(*widgets: QWidget | tuple[QWidget, int], parent: QWidget | None = None) -> QHBoxLayout:
    """Lay widgets out side by side, each with its stretch factor if it is given as a pair."""
    row = QHBoxLayout(parent)
    row.setContentsMargins(0, 0, 0, 0)
    row.setSpacing(4)
    for item in widgets:
        widget, stretch = item if isinstance(item, tuple) else (item, 0)
        row.addWidget(widget, stretch)
    return row


def make_column(*widgets: QWidget, parent: QWidget | None = None, spacing: int = 4) -> QVBoxLayout:
    """Lay widgets out one below the other."""
    column = QVBoxLayout(parent)
    column.setContentsMargins(0, 0, 0, 0)
    column.setSpacing(spacing)
    for widget in widgets:
        column.addWidget(widget)
    return column


def make_form(parent: QWidget | None = None, spacing: int = 8) -> QFormLayout:
    """Make a form whose fields are as wide as there is room for; `spacing` is between labels and fields."""
    form = QFormLayout(parent)
    form.setContentsMargins(0, 0, 0, 0)
    form.setHorizontalSpacing(spacing)
    form.setVerticalSpacing(4)
    form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
    return form


def make_choice(text: str, tip: str, group: QButtonGroup) -> QPushButton:
    """Make a button that stays down until another one of its group is pressed."""
    button = QPushButton(text)
    button.setCheckable(True)
    button.setToolTip(tip)
    group.addButton(button)
    return button
