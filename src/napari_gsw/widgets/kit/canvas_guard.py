"""Layers are removed in the drawing context of their own window's canvas.

napari ends the removal of a layer by carrying out what its canvas has queued, the deletion of textures and buffers
included, in whatever drawing context happens to be current. In that of Qt's own painting, or of the canvas of another
viewer, this deletes things of theirs, and the process ends at a later drawing.
"""

from __future__ import annotations

from typing import Any

from qtpy.QtCore import QObject, QTimer
from qtpy.QtOpenGLWidgets import QOpenGLWidget
from qtpy.QtWidgets import QMainWindow

from napari_gsw.widgets.kit.link import is_deleted


class CanvasGuard(QObject):  # type: ignore[misc]
    """Enters the canvas of a window before a layer goes, and leaves it when everything is done.

    It stays with the window when our last dock is closed: another viewer may still have one.
    """

    def __init__(self, window: QMainWindow, viewer: Any) -> None:
        super().__init__(window)
        self._canvases: list[QOpenGLWidget] = []
        self._leaving = QTimer(self)
        self._leaving.setSingleShot(True)
        self._leaving.timeout.connect(self._leave)
        viewer.layers.events.removing.connect(self._enter)

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


def guard(window: QMainWindow, viewer: Any) -> None:
    """See to it that a window has its guard."""
    if window.findChild(CanvasGuard) is None:
        CanvasGuard(window, viewer)
