"""Mouse input and waiting, for the scripts that use the viewer as a person would."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from qtpy.QtCore import QPoint, Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QScrollArea

MAX_SECONDS = 300.0  # that any step may take
LEFT = Qt.MouseButton.LeftButton


def wait_for(what: Callable[[], Any], why: str) -> None:
    """Let the window work until something is true."""
    end = time.monotonic() + MAX_SECONDS
    while not what():
        if time.monotonic() > end:
            raise SystemExit(f"waited in vain for {why}")
        QTest.qWait(20)


def wait_at_rest(panel: Any) -> None:
    """Wait for the end of a run and for its last frame."""
    session = panel.session
    wait_for(
        lambda: session.run is None and session.state == "done" and not session.layer_view.is_busy, "the end of a run"
    )


def count_corrections(panel: Any) -> int:
    """Count the corrections of the run on the screen."""
    return len(panel.session.array_run.interactive.log.corrections)


def click(button: Any) -> None:
    """Click a button after scrolling to it; click a check box on its box."""
    area = button.parentWidget()
    while area is not None and not isinstance(area, QScrollArea):
        area = area.parentWidget()
    if area is not None:
        area.ensureWidgetVisible(button)
    wait_for(lambda: button.isVisible() and button.isEnabled(), f"the button {button.text()!r}")
    QTest.mouseClick(button, LEFT, pos=QPoint(min(10, button.width() // 2), button.height() // 2))


def drag(viewer: Any, layer: Any, points: list[tuple[int, int]]) -> None:
    """Press the mouse at the first pixel of a layer, move it over the others, release it at the last."""
    canvas = viewer.window._qt_viewer.canvas
    to_canvas = canvas.view.transform * canvas.view.scene.transform
    places = []
    for point in points:
        world = np.asarray(layer.data_to_world(point))
        x, y = to_canvas.map([world[1], world[0]])[:2]
        places.append(QPoint(round(float(x)), round(float(y))))
    QTest.mouseMove(canvas.native, places[0])
    QTest.mousePress(canvas.native, LEFT, pos=places[0])
    for place in places[1:]:
        QTest.mouseMove(canvas.native, place)
        QTest.qWait(15)
    QTest.mouseRelease(canvas.native, LEFT, pos=places[-1])
