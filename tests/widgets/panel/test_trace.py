"""The trace under the mouse, without a viewer around it."""

from __future__ import annotations

import numpy as np
import pytest

from napari_gsw.core.sampler.state import N_TRACED

pytest.importorskip("napari")
pytest.importorskip("pytestqt")
pytestmark = pytest.mark.gui


@pytest.fixture
def plot(qtbot):
    """A plot of 100 sweeps on the screen."""
    from napari_gsw.widgets.panel.trace import TracePlot

    shown = TracePlot()
    qtbot.addWidget(shown)
    with qtbot.waitExposed(shown, timeout=600_000):
        shown.show()
    rows = np.linspace(-50, -10, 100)[:, None] * np.ones(N_TRACED)
    rows[:, 1] = 7
    shown.show_traces([rows], (100, -10.0))
    shown.draw_now()
    qtbot.wait(20)
    return shown


def middle(plot):
    """The middle of the upper plot, in pixels of the viewport and of the scene."""
    box = plot.upper.getViewBox()
    point = box.mapViewToScene(box.viewRect().center())
    return plot.mapFromScene(point), point


def turn_wheel(plot, *modifiers):
    """Turn the wheel; returns whether the plot has taken it, or else leaves it to the panel around it."""
    from qtpy.QtCore import QPoint, QPointF, Qt
    from qtpy.QtGui import QWheelEvent
    from qtpy.QtWidgets import QApplication

    held = Qt.KeyboardModifier.NoModifier
    for modifier in modifiers:
        held |= modifier
    place = QPointF(middle(plot)[0])
    button, phase = Qt.MouseButton.NoButton, Qt.ScrollPhase.NoScrollPhase
    where = QPointF(plot.viewport().mapToGlobal(place.toPoint()))
    event = QWheelEvent(place, where, QPoint(), QPoint(0, -120), button, held, phase, False)
    QApplication.sendEvent(plot.viewport(), event)
    return event.isAccepted()


def test_the_mouse_reads_a_sweep(plot):
    texts = []
    plot.hovered.connect(texts.append)
    plot._hover(middle(plot)[1])
    assert len(texts) == 1
    assert texts[0].startswith("sweep 5")
    assert texts[0].endswith(", 7 clusters")


def test_a_click_means_a_sweep_and_a_double_click_does_not(plot, qtbot):
    from qtpy.QtCore import Qt
    from qtpy.QtWidgets import QApplication

    sweeps = []
    plot.sweep_clicked.connect(sweeps.append)
    place, left = middle(plot)[0], Qt.MouseButton.LeftButton
    plot.follows = False
    qtbot.mouseClick(plot.viewport(), left, pos=place)
    qtbot.mouseDClick(plot.viewport(), left, pos=place)
    qtbot.mouseRelease(plot.viewport(), left, pos=place)
    qtbot.waitUntil(lambda: plot.follows, timeout=600_000)
    qtbot.wait(QApplication.doubleClickInterval() + 100)
    assert sweeps == []
    qtbot.mouseClick(plot.viewport(), left, pos=place)
    qtbot.waitUntil(lambda: len(sweeps) == 1, timeout=600_000)
    assert sweeps[0] == pytest.approx(50, abs=2)


def test_the_wheel_is_the_panels_and_zooms_with_ctrl(plot):
    from qtpy.QtCore import Qt

    low, high = plot.upper.viewRange()[0]
    assert turn_wheel(plot, Qt.KeyboardModifier.ControlModifier)
    zoomed = plot.upper.viewRange()[0]
    assert zoomed[1] - zoomed[0] > high - low
    assert not turn_wheel(plot)
    assert plot.upper.viewRange()[0] == zoomed
