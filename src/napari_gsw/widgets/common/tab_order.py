"""Order of the tab key: as widgets are laid out, also where they were made later than their neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from qtpy.QtCore import Qt
from qtpy.QtWidgets import QFormLayout, QGridLayout, QLayout, QWidget


def set_tab_order(*roots: QWidget) -> None:
    """Lead the tab key through widgets and what is laid out in them.

    Qt follows the order in which widgets came into the window. The first widget keeps its place.
    """
    for before, after in pairwise(stop for root in roots for stop in iter_tab_stops(root)):
        QWidget.setTabOrder(before, after)


def iter_tab_stops(widget: QWidget) -> Iterator[QWidget]:
    """Iterate over the tab stops in a widget, itself included, in the order of the layout."""
    if widget.focusPolicy() & Qt.FocusPolicy.TabFocus:
        yield widget
    if widget.layout() is not None:
        yield from _iter_layout(widget.layout())


def _iter_layout(layout: QLayout) -> Iterator[QWidget]:
    indices = list(range(layout.count()))
    if isinstance(layout, QFormLayout):  # which counts in the order in which rows were added
        indices.sort(key=lambda index: layout.getItemPosition(index)[0])
    elif isinstance(layout, QGridLayout):
        indices.sort(key=lambda index: layout.getItemPosition(index)[:2])
    for item in map(layout.itemAt, indices):
        if item.widget() is not None:
            yield from iter_tab_stops(item.widget())
        elif item.layout() is not None:
            yield from _iter_layout(item.layout())
