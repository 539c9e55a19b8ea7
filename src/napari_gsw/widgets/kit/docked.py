"""A widget that ends its work when its dock is closed."""

from __future__ import annotations

from typing import Any

from qtpy.QtCore import QEvent, QTimer
from qtpy.QtGui import QCloseEvent
from qtpy.QtWidgets import QDockWidget, QMainWindow, QWidget

from napari_gsw.widgets.kit.canvas_guard import guard
from napari_gsw.widgets.kit.link import Link
from napari_gsw.widgets.kit.turns import SHORT_TURNS


class Docked(QWidget):  # type: ignore[misc]
    """Cuts its link however the dock goes away; until then threads that compute in Python take short turns.

    In a window it sees to it that layers are removed safely there.

    Attributes
    ----------
    link : what ties the widget to the viewer, and what has to end with it.
    """

    def __init__(self, viewer: Any) -> None:
        super().__init__()
        self.link = Link()
        SHORT_TURNS.begin()
        self.link.at_end(SHORT_TURNS.end)
        self._viewer = viewer
        self.destroyed.connect(self.link.cut)
        self._settling = QTimer(self)
        self._settling.setSingleShot(True)
        self._settling.timeout.connect(self._settle)
        self.link.stop_at_end(self._settling)

    def event(self, event: QEvent) -> bool:
        """Closing the dock takes the panel out of it without closing the panel."""
        if event.type() == QEvent.Type.ParentChange and self.parent() is None:
            self.shut_down()
        elif event.type() == QEvent.Type.ParentChange and self.link.alive:
            self._settling.start(0)  # when the window has taken the dock in
        return bool(super().event(event))

    def closeEvent(self, event: QCloseEvent) -> None:
        self.shut_down()
        super().closeEvent(event)

    def shut_down(self) -> None:
        """End what is going on and let go of the viewer; more than once does no harm."""
        self.link.cut()

    def _main_window(self) -> QWidget:
        """The window of the viewer; a dock that floats is a window of its own inside it."""
        window = self.window()
        while window.parentWidget() is not None:
            window = window.parentWidget().window()
        return window

    def _settle(self) -> None:
        """What can be done only when the window has the dock."""
        main = self._main_window()
        if isinstance(main, QMainWindow):
            guard(main, self._viewer)
        self._become_tab()

    def _become_tab(self) -> None:
        """Two docks of ours on one side are tabs of one: above each other they would be strips."""
        own, window = dock_of(self), self.window()
        if own is None or not isinstance(window, QMainWindow):
            return
        area = window.dockWidgetArea(own)
        for other in window.findChildren(Docked):
            dock = dock_of(other)
            beside = dock is not None and dock is not own and not dock.isFloating() and dock.isVisible()
            if beside and window.dockWidgetArea(dock) == area and dock not in window.tabifiedDockWidgets(own):
                window.tabifyDockWidget(dock, own)
                own.show()
                own.raise_()
                return


def dock_of(widget: QWidget) -> QDockWidget | None:
    """The dock that a widget is in, however deep; None if it is in none."""
    parent = widget.parentWidget()
    while parent is not None and not isinstance(parent, QDockWidget):
        parent = parent.parentWidget()
    return parent
