"""Actions with mouse and keyboard, for the tests of the widgets."""

from __future__ import annotations

import numpy as np
import pytest


def slow(*values):
    """Parameters of a test in a window that are left to `make slow`: what they show, others show as well."""
    return pytest.param(*values, marks=pytest.mark.slow)


def click(qtbot, button):
    """Click a button that can be clicked; a check box on its box."""
    from qtpy.QtCore import QPoint, Qt
    from qtpy.QtWidgets import QCheckBox

    qtbot.waitUntil(button.isVisible, timeout=600_000)
    assert button.isEnabled(), button.text()
    place = QPoint(10, button.height() // 2) if isinstance(button, QCheckBox) else button.rect().center()
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton, pos=place)


def canvas_point(viewer, layer, position):
    """Return the position of a pixel of a layer on the canvas."""
    from qtpy.QtCore import QPoint

    world = np.asarray(layer.data_to_world(position))[list(viewer.dims.displayed)]
    canvas = viewer.window._qt_viewer.canvas
    x, y = (canvas.view.transform * canvas.view.scene.transform).map([world[1], world[0]])[:2]
    return QPoint(round(float(x)), round(float(y)))


def drag(qtbot, viewer, layer, points):
    """Press at the first pixel, move over the others, release at the last."""
    from qtpy.QtCore import Qt

    native = viewer.window._qt_viewer.canvas.native
    places = [canvas_point(viewer, layer, p) for p in points]
    left = Qt.MouseButton.LeftButton
    qtbot.mouseMove(native, places[0])
    qtbot.mousePress(native, left, pos=places[0])
    for place in places[1:]:
        qtbot.mouseMove(native, place)
        qtbot.wait(5)
    qtbot.mouseRelease(native, left, pos=places[-1])


def press_key(qtbot, viewer, key, *modifiers):
    """Press a key while the canvas has the focus."""
    from qtpy.QtCore import Qt

    native = viewer.window._qt_viewer.canvas.native
    native.setFocus()
    held = Qt.KeyboardModifier.NoModifier
    for modifier in modifiers:
        held |= modifier
    qtbot.keyClick(native, key, held)


def wait_for(qtbot, what, seconds=600):
    qtbot.waitUntil(what, timeout=seconds * 1000)


def run(panel, qtbot, image=None, **settings):
    """Run to the end with these settings, on an image layer "m" if an image is given; returns its layer."""
    layer = None if image is None else panel.viewer.add_image(image, name="m")
    start(panel, qtbot, **settings)
    wait_done(qtbot, panel)
    return layer


def start(panel, qtbot, **settings):
    """Press Run with these settings."""
    for name, value in settings.items():
        panel.form.controls[name].set_value(value)
    click(qtbot, panel.run_button)


def wait_done(qtbot, panel, seconds=600):
    """Wait for the end of a run, and for the picture of its best state."""
    wait_for(qtbot, lambda: panel.session.state == "done" and panel.session.run is None, seconds)


def wait_sweeps(qtbot, panel, sweeps=1, seconds=600):
    """Wait until the chain has made some sweeps and they are on the screen."""

    def there():
        # Newer frames than the one on the screen are always there while a quick chain runs.
        session = panel.session
        drawn = session.layer_view.drawn.get(session.position)
        return drawn is not None and drawn.array_run is session.array_run and drawn.sweep >= sweeps

    wait_for(qtbot, there, seconds)
