"""Every tie between a widget and the rest of napari, and the one place that cuts them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from qtpy.QtCore import QEvent, QObject, QTimer
from qtpy.QtGui import QCloseEvent
from qtpy.QtOpenGLWidgets import QOpenGLWidget
from qtpy.QtWidgets import QDockWidget, QMainWindow, QWidget


class Connection:
    """One of napari's events and the slot that hears it.

    napari is given a method of this plain object: to disconnect one of a Qt object, it looks at the object itself,
    which Qt may have deleted by then.
    """

    def __init__(self, signal: Any, slot: Callable[..., Any]) -> None:
        self.signal, self.slot = signal, slot
        signal.connect(self.hear)

    def hear(self, event: Any = None) -> None:
        owner = getattr(self.slot, "__self__", None)
        if not (isinstance(owner, QObject) and is_deleted(owner)):
            self.slot(event)

    def end(self) -> None:
        self.signal.disconnect(self.hear)


class LayerRemovals(Connection):
    """As a connection to the removal of layers; of a batch of them the slot hears once, at its end.

    Parameters
    ----------
    events : of the list of layers.
    """

    def __init__(self, events: Any, slot: Callable[..., Any]) -> None:
        self._batches = 0
        self._last: Any = None
        self._events = events
        events.begin_batch.connect(self.begin)
        events.end_batch.connect(self.end_batch)
        super().__init__(events.removed, slot)

    def hear(self, event: Any = None) -> None:
        if self._batches:
            self._last = event
        else:
            super().hear(event)

    def begin(self, event: Any = None) -> None:
        self._batches += 1

    def end_batch(self, event: Any = None) -> None:
        self._batches -= 1
        if not self._batches and self._last is not None:
            last, self._last = self._last, None
            super().hear(last)

    def end(self) -> None:
        super().end()
        self._events.begin_batch.disconnect(self.begin)
        self._events.end_batch.disconnect(self.end_batch)


class Connections:
    """Connections to napari's events, and what else has to end, until it is cut.

    It is no Qt object, and touches none that is deleted, so that it can be cut in whatever order Qt deletes a window.

    Attributes
    ----------
    alive : whether it has not been cut yet.
    """

    def __init__(self) -> None:
        self.is_open = True
        self._connections: list[Connection] = []
        self._endings = ExitStack()

    def connect(self, signal: Any, slot: Callable[..., Any]) -> None:
        """Connect a slot to one of napari's events until the link is cut. It is called with the event."""
        self._connections.append(Connection(signal, slot))

    def connect_layers(self, events: Any, slot: Callable[..., Any], *more: Any) -> None:
        """Connect a slot to the events of a list of layers: insertion, removal, another name, and `more` of them.

        Where many layers go at once, it is called when they are gone: what a form says need not follow each of them.
        """
        for signal in (events.inserted, events.renamed, *more):
            self.connect(signal, slot)
        self._connections.append(LayerRemovals(events, slot))

    def disconnect(self, signal: Any, slot: Callable[..., Any]) -> None:
        """Take one connection back; nothing happens if there is none."""
        for connection in [c for c in self._connections if c.signal is signal and c.slot == slot]:
            connection.end()
            self._connections.remove(connection)

    def on_close(self, ending: Callable[[], Any]) -> None:
        """Call something when the link is cut, in the reverse order of asking; it must not rely on Qt objects."""
        self._endings.callback(ending)

    def stop_on_close(self, timer: QTimer) -> None:
        """Stop a timer when the link is cut, if there still is one."""
        self.on_close(lambda: None if is_deleted(timer) else timer.stop())

    def close(self, *_: object) -> None:
        """Let go of everything; more than once does no harm."""
        if not self.is_open:
            return
        self.is_open = False
        for connection in self._connections:
            connection.end()
        self._connections.clear()
        self._endings.close()  # all of them, even if one fails


def is_deleted(thing: QObject) -> bool:
    """Whether Qt has already deleted what a Python object stands for."""
    try:
        thing.objectName()
    except RuntimeError:
        return True
    return False


class CanvasGuard(QObject):  # type: ignore[misc]
    """Enters the canvas of a window before a layer goes, leaves it after that, and keeps the status line true.

    It stays with the window when our last dock is closed: another viewer may still have one.
    """

    def __init__(self, window: QMainWindow, viewer: Any) -> None:
        super().__init__(window)
        self._viewer = viewer
        self._canvases: list[QOpenGLWidget] = []
        self._leaving = QTimer(self)
        self._leaving.setSingleShot(True)
        self._leaving.timeout.connect(self._leave)
        viewer.layers.events.removing.connect(self._enter)
        for event in (viewer.dims.events.ndisplay, viewer.dims.events.ndim, viewer.dims.events.order):
            event.connect(self._turn_away, position="first")
        viewer.mouse_move_callbacks.append(self._turn_back)

    def _enter(self, _event: object) -> None:
        if is_deleted(self):
            return
        if not self._canvases or any(map(is_deleted, self._canvases)):  # to look for them takes long
            self._canvases = self.parent().findChildren(QOpenGLWidget)
        for canvas in self._canvases:
            canvas.makeCurrent()
        self._leaving.start(0)

    def _leave(self) -> None:
        for canvas in self._canvases:
            if not is_deleted(canvas):
                canvas.doneCurrent()

    def _turn_away(self, _event: object) -> None:
        self._viewer.mouse_over_canvas = False

    def _turn_back(self, viewer: Any, _event: object) -> None:
        viewer.mouse_over_canvas = True


def install_guard(window: QMainWindow, viewer: Any) -> None:
    """See to it that a window has its guard."""
    if window.findChild(CanvasGuard) is None:
        CanvasGuard(window, viewer)


INTERVAL = 5e-5  # seconds


class ShortTurns:
    """Short turns from the first `begin` to the last `end`; then it is as it was, unless others have changed it."""

    def __init__(self) -> None:
        self._users = 0
        self._before = 0.0

    def begin(self) -> None:
        """There is a window more."""
        self._users += 1
        if self._users == 1:
            self._before = sys.getswitchinterval()
            sys.setswitchinterval(min(self._before, INTERVAL))

    def end(self) -> None:
        """There is a window less."""
        self._users -= 1
        if not self._users and sys.getswitchinterval() <= INTERVAL:
            sys.setswitchinterval(self._before)


SHORT_TURNS = ShortTurns()


class DockPanel(QWidget):  # type: ignore[misc]
    """Cuts its link however the dock goes away; until then threads that compute in Python take short turns.

    In a window it sees to it that layers are removed safely there.

    Attributes
    ----------
    link : what ties the widget to the viewer, and what has to end with it.
    """

    def __init__(self, viewer: Any) -> None:
        super().__init__()
        self.connections = Connections()
        SHORT_TURNS.begin()
        self.connections.on_close(SHORT_TURNS.end)
        self._viewer = viewer
        self.destroyed.connect(self.connections.close)
        self._settling = QTimer(self)
        self._settling.setSingleShot(True)
        self._settling.timeout.connect(self._settle)
        self.connections.stop_on_close(self._settling)

    def event(self, event: QEvent) -> bool:
        """Closing the dock takes the panel out of it without closing the panel."""
        if event.type() == QEvent.Type.ParentChange and self.parent() is None:
            self.shut_down()
        elif event.type() == QEvent.Type.ParentChange and self.connections.is_open:
            self._settling.start(0)  # when the window has taken the dock in
        return bool(super().event(event))

    def closeEvent(self, event: QCloseEvent) -> None:
        self.shut_down()
        super().closeEvent(event)

    def shut_down(self) -> None:
        """End what is going on and let go of the viewer; more than once does no harm."""
        self.connections.close()

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
            install_guard(main, self._viewer)
        self._become_tab()

    def _become_tab(self) -> None:
        """Two docks of ours on one side are tabs of one: above each other they would be strips."""
        own, window = find_dock(self), self.window()
        if own is None or not isinstance(window, QMainWindow):
            return
        area = window.dockWidgetArea(own)
        for other in window.findChildren(DockPanel):
            dock = find_dock(other)
            beside = dock is not None and dock is not own and not dock.isFloating() and dock.isVisible()
            if beside and window.dockWidgetArea(dock) == area and dock not in window.tabifiedDockWidgets(own):
                window.tabifyDockWidget(dock, own)
                own.show()
                own.raise_()
                return


def find_dock(widget: QWidget) -> QDockWidget | None:
    """The dock that a widget is in, however deep; None if it is in none."""
    parent = widget.parentWidget()
    while parent is not None and not isinstance(parent, QDockWidget):
        parent = parent.parentWidget()
    return parent
