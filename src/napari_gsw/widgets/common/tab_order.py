"""Where the tab key goes: in the order in which things stand, also to what was made later than its neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from qtpy.QtCore import Qt
from qtpy.QtWidgets import QFormLayout, QGridLayout, QLayout, QLayoutItem, QWidget


def set_tab_order(*roots: QWidget) -> None:
    """Let the tab key go through some widgets and what is laid out in them, one after the other.

    Qt goes in the order in which widgets came into the window. The first that can be reached stays where it is.
    """
    for before, after in pairwise(stop for root in roots for stop in iter_tab_stops(root)):
        QWidget.setTabOrder(before, after)


def iter_tab_stops(widget: QWidget) -> Iterator[QWidget]:
    """A widget, if the tab key can reach it, and what is laid out in it, from the first to the last."""
    if widget.focusPolicy() & Qt.FocusPolicy.TabFocus:
        yield widget
    if widget.layout() is not None:
        yield from _laid_out(widget.layout())


def _laid_out(layout: QLayout) -> Iterator[QWidget]:
    for item in _items(layout):
        if item.widget() is not None:
            yield from iter_tab_stops(item.widget())
        elif item.layout() is not None:
            yield from _laid_out(item.layout())


def _items(layout: QLayout) -> list[QLayoutItem]:
    """What is in a layout, row by row: forms and grids count in the order in which things were added."""
    places = list(range(layout.count()))
    if isinstance(layout, QFormLayout):
        places.sort(key=lambda place: layout.getItemPosition(place)[0])
    elif isinstance(layout, QGridLayout):
        places.sort(key=lambda place: layout.getItemPosition(place)[:2])
    return [layout.itemAt(place) for place in places]
