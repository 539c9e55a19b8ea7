"""What goes wrong around napari's canvas when our layers are in it, and how it is prevented.

Layers are removed in the drawing context of their own window's canvas: napari ends the removal of a layer by carrying
out what its canvas has queued, the deletion of textures and buffers included, in whatever drawing context happens to be
current. In that of Qt's own painting, or of the canvas of another viewer, this deletes things of theirs, and the
process ends at a later drawing.

The status line waits for the mouse when other axes are displayed: napari reads a layer with features along a ray
through the cursor, which it aims at the next movement only, and fails when a slider is moved before.
"""

from __future__ import annotations

from typing import Any

from qtpy.QtCore import QObject, QTimer
from qtpy.QtOpenGLWidgets import QOpenGLWidget
from qtpy.QtWidgets import QMainWindow

from napari_gsw.widgets.kit.link import is_deleted


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


def guard(window: QMainWindow, viewer: Any) -> None:
    """See to it that a window has its guard."""
    if window.findChild(CanvasGuard) is None:
        CanvasGuard(window, viewer)
