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

    from napari_gsw.widgets.common.dock_panel import CanvasGuard

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

    from napari_gsw.widgets.common.dock_panel import CanvasGuard

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


def test_the_status_line_waits_for_the_mouse_when_other_axes_are_displayed(make_napari_viewer, qtbot):
    """napari aims the ray of its cursor at the next movement of the mouse only: a slider may be moved before."""
    from qtpy.QtCore import QPoint
    from qtpy.QtOpenGLWidgets import QOpenGLWidget
    from qtpy.QtTest import QTest

    from napari_gsw.widgets.common.dock_panel import CanvasGuard

    viewer = make_napari_viewer(show=True)
    viewer.window.add_plugin_dock_widget("napari-gsw", "Superpixels")
    qtbot.wait_until(lambda: viewer.window._qt_window.findChild(CanvasGuard) is not None)
    viewer.add_labels(np.ones((2, 4, 5, 6), int), features={"index": [0, 1], "size": [0, 480]})
    (canvas,) = viewer.window._qt_window.findChildren(QOpenGLWidget)
    qtbot.wait_until(lambda: canvas.isValid())
    middle = canvas.rect().center()
    for ndisplay in (2, 3, 2):
        viewer.dims.ndisplay = ndisplay
        for step in (0, 1):
            viewer.dims.set_current_step(0, step)
            viewer._calc_status_from_cursor()
        for shift in (1, 2):
            QTest.mouseMove(canvas, middle + QPoint(shift, ndisplay))
        qtbot.wait_until(lambda: viewer.mouse_over_canvas)
        status, _tooltip = viewer._calc_status_from_cursor()
        assert "size: 480" in status["value"], status
    viewer.add_labels(np.ones((3, 2, 4, 5, 6), int), features={"index": [0, 1], "size": [0, 1440]})  # one axis more
    viewer._calc_status_from_cursor()
