"""A session that the window of version 0.2.0 has saved: 60 sweeps, a stroke by mouse that is kept, the image in it."""

from __future__ import annotations

import numpy as np
import pytest

from frozen import adapter, sessions
from frozen.record import digest, environment, read

pytest.importorskip("napari")
pytestmark = pytest.mark.gui

LAYERS = ["photo", "photo [GSW]", "photo [regions]", "photo [locked]"]
OPENED = {
    "photo [GSW]": "96f0869858f8d2d8",
    "photo [regions]": "26a360b79ae590c1",
    "photo [locked]": "5f221e0fe5c67d9b",
    "labels": "26a360b79ae590c1",
}
STEPS = {
    "opened": OPENED | {"trace": "d84818be9eacec4b", "sweep": 120},
    "continued": OPENED | {"trace": "617980faaabb4c84", "sweep": 180},
}


def seen(panel):
    run = adapter.interactive_run(panel)
    layers = {name: digest(np.asarray(panel.viewer.layers[name].data).astype(np.int64)) for name in LAYERS[1:]}
    return {**layers, "labels": digest(run.labels), "trace": digest(run.traces[0]), "sweep": run.sweep}


def press(panel, text):
    from qtpy.QtWidgets import QPushButton

    (button,) = (one for one in panel.findChildren(QPushButton) if one.text() == text)
    assert button.isEnabled()
    button.click()


def test_a_session_of_the_window_opens_and_continues(viewer, panel, qtbot):
    def wait(sweep):
        def has_converged():
            return adapter.is_at_rest(panel) and adapter.interactive_run(panel).sweep > sweep

        qtbot.waitUntil(has_converged, timeout=300_000)
        return seen(panel)

    adapter.open_in_panel(panel, sessions.path_of("window"))
    qtbot.waitUntil(lambda: LAYERS[-1] in viewer.layers, timeout=300_000)
    steps = {"opened": wait(0)}
    assert [layer.name for layer in viewer.layers] == LAYERS
    assert np.array_equal(viewer.layers[1].scale, (2.0, 2.0))
    press(panel, "Continue")
    steps["continued"] = wait(steps["opened"]["sweep"])
    if any(read()["recorded with"].get(name) != value for name, value in environment().items()):
        pytest.skip("recorded elsewhere")
    assert steps == STEPS, steps
