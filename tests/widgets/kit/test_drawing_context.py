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

    viewer = make_napari_viewer(show=True)
    dock, _panel = viewer.window.add_plugin_dock_widget("napari-gsw", "Superpixels")
    dock.setFloating(floating)
    layer = viewer.add_image(np.zeros((20, 30)))
    (canvas,) = viewer.window._qt_window.findChildren(QOpenGLWidget)
    qtbot.wait_until(lambda: canvas.isValid())
    if QOpenGLContext.currentContext() is not None:  # Qt's own, after painting
        QOpenGLContext.currentContext().doneCurrent()
    contexts = []
    viewer.layers.events.removed.connect(lambda: contexts.append(QOpenGLContext.currentContext()))
    viewer.layers.remove(layer)
    assert contexts == [canvas.context()]
