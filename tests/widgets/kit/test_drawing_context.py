"""napari deletes what a removed layer drew with in whatever drawing context is current: with us it is the canvas's."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("napari")
pytest.importorskip("pytestqt")
pytestmark = pytest.mark.gui


@pytest.mark.parametrize("floating", [False, True], ids=["docked", "floating"])
def test_a_layer_is_removed_in_the_context_of_its_canvas(make_napari_viewer, qtbot, floating):
    from qtpy.QtGui import QOpenGLContext
    from qtpy.QtOpenGLWidgets import QOpenGLWidget

    from napari_gsw.widgets.kit.canvas_guard import CanvasGuard

    viewer = make_napari_viewer(show=True)
    dock, _panel = viewer.window.add_plugin_dock_widget("napari-gsw", "Superpixels")
    dock.setFloating(floating)
    qtbot.wait_until(lambda: viewer.window._qt_window.findChild(CanvasGuard) is not None)
    layer = viewer.add_image(np.zeros((20, 30)))
    (canvas,) = viewer.window._qt_window.findChildren(QOpenGLWidget)
    qtbot.wait_until(lambda: canvas.isValid())
    if QOpenGLContext.currentContext() is not None:  # Qt's own, after painting
        QOpenGLContext.currentContext().doneCurrent()
    contexts = []
    viewer.layers.events.removed.connect(lambda: contexts.append(QOpenGLContext.currentContext()))
    viewer.layers.remove(layer)
    assert contexts == [canvas.context()]


def test_it_stays_so_when_the_last_dock_is_closed_and_nothing_stays_current(make_napari_viewer, qtbot):
    """Another viewer's canvas must not be the current one when this one's layer goes, nor the other way round."""
    from qtpy.QtGui import QOpenGLContext
    from qtpy.QtOpenGLWidgets import QOpenGLWidget

    from napari_gsw.widgets.kit.canvas_guard import CanvasGuard

    viewers = [make_napari_viewer(show=True) for _ in range(2)]
    contexts, expected = [], []
    for viewer in viewers:
        window = viewer.window._qt_window
        for _ in range(2):
            dock, _panel = viewer.window.add_plugin_dock_widget("napari-gsw", "Superpixels")
            qtbot.wait_until(lambda window=window: window.findChild(CanvasGuard) is not None)
            dock.destroyOnClose()
        assert len(window.findChildren(CanvasGuard)) == 1
        (canvas,) = window.findChildren(QOpenGLWidget)
        qtbot.wait_until(lambda canvas=canvas: canvas.isValid())
        viewer.layers.events.removed.connect(lambda: contexts.append(QOpenGLContext.currentContext()))
        layer = viewer.add_image(np.zeros((20, 30)))
        qtbot.wait(50)
        viewer.layers.remove(layer)
        expected.append(canvas.context())
        qtbot.wait_until(lambda canvas=canvas: QOpenGLContext.currentContext() is not canvas.context())
    assert contexts == expected
