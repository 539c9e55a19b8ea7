"""Base class of the docks: connections to napari that end with the dock, and what napari's canvas needs meanwhile."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from qtpy.compat import isalive
from qtpy.QtCore import QEvent, QObject, QTimer
from qtpy.QtGui import QCloseEvent
from qtpy.QtOpenGLWidgets import QOpenGLWidget
from qtpy.QtWidgets import QDockWidget, QMainWindow, QWidget


def make_timer(parent: QObject, slot: Callable[[], Any], milliseconds: int = 0) -> QTimer:
    """Make a timer that calls a slot once, some time after each start."""
    return QTimer(parent, singleShot=True, interval=milliseconds, timeout=slot)


def _skip_if_deleted(slot: Callable[..., Any]) -> Callable[..., None]:
    """Wrap a slot: to disconnect a method, napari looks at its owner, which Qt may have deleted by then."""

    def call(event: Any = None) -> None:
        owner = getattr(slot, "__self__", None)
        if not isinstance(owner, QObject) or isalive(owner):
            slot(event)

    return call


class Connections:
    """Connections to napari's events, and what else has to end with a dock.

    It is no Qt object and touches no deleted one, so that it can be closed in whatever order Qt deletes a window.
    """

    def __init__(self) -> None:
        self.is_open = True
        self._connected: list[tuple[Any, Callable[..., Any], Callable[..., None]]] = []
        self._endings = ExitStack()

    def connect(self, signal: Any, slot: Callable[..., Any]) -> None:
        """Connect a slot to an event of napari until the connections are closed; it is called with the event."""
        call = _skip_if_deleted(slot)
        signal.connect(call)
        self._connected.append((signal, slot, call))

    def connect_layers(self, events: Any, slot: Callable[..., Any], *more: Any) -> None:
        """Connect a slot to insertion, renaming and removal of layers, and to `more` signals.

        Of layers that are removed in one batch, the slot is called once, after the last of them.
        """
        call = _skip_if_deleted(slot)
        batches: list[Any] = []
        removed: list[Any] = []

        def wait_for_batches(event: Any) -> None:
            if event.type == "begin_batch":
                batches.append(event)
            elif event.type == "end_batch":
                del batches[-1:]
            else:
                removed[:] = [event]
            if removed and not batches:
                call(removed.pop())

        for signal in (events.begin_batch, events.end_batch, events.removed):
            self.connect(signal, wait_for_batches)
        for signal in (events.inserted, events.renamed, *more):
            self.connect(signal, slot)

    def disconnect(self, signal: Any, slot: Callable[..., Any]) -> None:
        """Take back the connections of a slot to a signal, if there are any."""
        for connection in [c for c in self._connected if c[0] is signal and c[1] == slot]:
            signal.disconnect(connection[2])
            self._connected.remove(connection)

    def on_close(self, ending: Callable[[], Any]) -> None:
        """Call a function on closing, the last added first; it must not rely on Qt objects."""
        self._endings.callback(ending)

    def stop_on_close(self, timer: QTimer) -> QTimer:
        """Stop a timer on closing, if Qt has not deleted it."""
        self.on_close(lambda: timer.stop() if isalive(timer) else None)
        return timer

    def close(self, *_: object) -> None:
        """End everything; a second call does nothing."""
        self.is_open = False
        for signal, _slot, call in self._connected:
            signal.disconnect(call)
        self._connected.clear()
        self._endings.close()  # all of them, even if one fails


class CanvasGuard(QObject):  # type: ignore[misc]
    """Removes layers in the drawing context of their own canvas, and keeps the status line from failing.

    To remove a layer, napari carries out what its canvas has queued, the deletion of textures and buffers included, in
    whatever drawing context is current. In that of Qt's own painting, or of another viewer's canvas, this deletes
    things of theirs, and the process ends at a later drawing.

    napari reads the features of a layer along a ray through the cursor, which it computes at the next movement of the
    mouse only. After other axes are displayed, moving a slider before the mouse would fail.

    The guard stays with the window when the last dock is closed: another viewer may still have one.
    """

    def __init__(self, window: QMainWindow, viewer: Any) -> None:
        super().__init__(window)
        self._viewer = viewer
        self._canvases: list[QOpenGLWidget] = []
        self._leaving = make_timer(self, self._leave_context)
        viewer.layers.events.removing.connect(self._enter_context)
        for event in (viewer.dims.events.ndisplay, viewer.dims.events.ndim, viewer.dims.events.order):
            event.connect(self._ignore_mouse, position="first")
        viewer.mouse_move_callbacks.append(self._follow_mouse)

    def _enter_context(self, _event: object) -> None:
        if not isalive(self):
            return
        if not self._canvases or not all(map(isalive, self._canvases)):  # looking for them takes long
            self._canvases = self.parent().findChildren(QOpenGLWidget)
        for canvas in self._canvases:
            canvas.makeCurrent()
        self._leaving.start()

    def _leave_context(self) -> None:
        for canvas in filter(isalive, self._canvases):
            canvas.doneCurrent()

    def _ignore_mouse(self, _event: object) -> None:
        self._viewer.mouse_over_canvas = False

    def _follow_mouse(self, viewer: Any, _event: object) -> None:
        viewer.mouse_over_canvas = True


class SwitchInterval:
    """Shortens Python's switch interval while a dock is open.

    Every call into Qt releases Python's lock. A thread that computes in Python hands it back after the switch interval,
    5 ms by default: a panel of 800 such calls takes 4 s beside one such thread instead of 0.025 s. With this interval
    it takes 0.12 s, and three threads of Python code are slower by a tenth.
    """

    SECONDS = 5e-5

    def __init__(self) -> None:
        self._n_docks = 0
        self._before = 0.0

    def begin(self) -> None:
        self._n_docks += 1
        if self._n_docks == 1:
            self._before = sys.getswitchinterval()
            sys.setswitchinterval(min(self._before, self.SECONDS))

    def end(self) -> None:
        """Restore the interval with the last dock, unless other code has changed it."""
        self._n_docks -= 1
        if not self._n_docks and sys.getswitchinterval() <= self.SECONDS:
            sys.setswitchinterval(self._before)


SWITCH_INTERVAL = SwitchInterval()


class DockPanel(QWidget):  # type: ignore[misc]
    """Base class of the docks: closes its connections however the dock goes away."""

    def __init__(self, viewer: Any) -> None:
        super().__init__()
        # The viewer behind the proxy that plugins get, whose layers are a new object at each access.
        self.viewer = getattr(viewer, "__wrapped__", viewer)
        self.connections = Connections()
        self.shut_down = self.connections.close
        SWITCH_INTERVAL.begin()
        self.connections.on_close(SWITCH_INTERVAL.end)
        self.destroyed.connect(self.connections.close)
        self._docking = self.connections.stop_on_close(make_timer(self, self._finish_docking))

    def event(self, event: QEvent) -> bool:
        """Shut down when the dock is closed, which takes the panel out of it without closing the panel."""
        if event.type() == QEvent.Type.ParentChange:
            if self.parent() is None:
                self.shut_down()
            elif self.connections.is_open:
                self._docking.start()  # when the window has taken the dock in
        return bool(super().event(event))

    def closeEvent(self, event: QCloseEvent) -> None:
        self.shut_down()
        super().closeEvent(event)

    def _finish_docking(self) -> None:
        """Guard the canvas of the window, and join another dock of ours on the same side as a tab."""
        main = self.window()
        while main.parentWidget() is not None:  # a floating dock is a window of its own inside it
            main = main.parentWidget().window()
        if isinstance(main, QMainWindow) and main.findChild(CanvasGuard) is None:
            CanvasGuard(main, self.viewer)
        dock, window = find_dock(self), self.window()
        if dock is None or not isinstance(window, QMainWindow):
            return
        area, tabs = window.dockWidgetArea(dock), window.tabifiedDockWidgets(dock)
        for other in map(find_dock, window.findChildren(DockPanel)):
            is_beside = other is not None and other is not dock and not other.isFloating() and other.isVisible()
            if is_beside and window.dockWidgetArea(other) == area and other not in tabs:
                window.tabifyDockWidget(other, dock)
                dock.show()
                dock.raise_()
                return


def find_dock(widget: QWidget) -> QDockWidget | None:
    """Return the dock that contains a widget, or None."""
    while widget is not None and not isinstance(widget, QDockWidget):
        widget = widget.parentWidget()
    return widget
