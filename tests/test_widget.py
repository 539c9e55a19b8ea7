"""The widget in a real window, used as a person uses it."""

from __future__ import annotations

import numpy as np
import pytest

import napari_gsw as gsw
from napari_gsw.core import metrics
from napari_gsw.core.matching import matched
from napari_gsw.sample_data import mosaic

pytest.importorskip("napari")
pytest.importorskip("pytestqt")
pytestmark = pytest.mark.gui


@pytest.fixture
def panel(make_napari_viewer, qtbot):
    from napari.qt.threading import WorkerBase

    viewer = make_napari_viewer(show=True)
    viewer.window.resize(1200, 800)
    _, widget = viewer.window.add_plugin_dock_widget("napari-gsw", "GSW segmentation")
    yield widget
    widget.shut_down()
    WorkerBase.await_workers(10_000)


def click(qtbot, button):
    from qtpy.QtCore import Qt

    qtbot.waitUntil(button.isVisible)
    assert button.isEnabled()
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)


def test_three_clicks_to_a_segmentation(panel, qtbot):
    """Open a sample, open the widget, press Run; the labels are those of the API."""
    assert not panel.run_button.isEnabled()
    assert "Open an image" in panel.status.text()
    image = mosaic()[0]
    layer = panel.viewer.add_image(image, name="mosaic", scale=(0.5, 0.25), translate=(3, 4))
    assert "the prior expects" in panel.status.text()
    click(qtbot, panel.run_button)
    qtbot.waitUntil(lambda: panel.state == "done", timeout=120_000)
    labels = panel.viewer.layers["mosaic [GSW]"]
    assert labels.data.dtype == np.uint16
    assert np.array_equal(labels.scale, layer.scale)
    assert np.array_equal(labels.translate, layer.translate)
    api = gsw.segment(image, seed=0)
    assert metrics.variation_of_information(labels.data, api.labels) == pytest.approx(0, abs=1e-9)
    assert panel.bar.value() == panel.bar.maximum() == 300
    assert f"{api.snapshot.best.log_posterior:,.1f}" in panel.status.text()
    assert panel.status.text().startswith(f"{api.n_clusters} clusters")
    assert panel.run_button.isEnabled()
    click(qtbot, panel.run_button)  # again: the layer is used again
    qtbot.waitUntil(lambda: panel.state == "done", timeout=120_000)
    assert len(panel.viewer.layers) == 2


def test_pause_resume_and_stop(panel, qtbot):
    panel.viewer.add_image(mosaic()[0])
    panel.sweeps.setValue(1_000_000)
    click(qtbot, panel.run_button)
    qtbot.waitUntil(lambda: panel.bar.value() > 0, timeout=120_000)
    click(qtbot, panel.pause_button)
    assert panel.pause_button.text() == "Resume"
    qtbot.wait(300)
    held = panel.bar.value()
    qtbot.wait(300)
    assert panel.bar.value() == held
    click(qtbot, panel.pause_button)
    qtbot.waitUntil(lambda: panel.bar.value() > held, timeout=60_000)
    click(qtbot, panel.stop_button)
    qtbot.waitUntil(lambda: panel.state == "done", timeout=60_000)
    assert panel.viewer.layers[-1].name.endswith("[GSW]")


@pytest.mark.parametrize("which", ["image", "labels"])
def test_removing_a_layer_ends_the_run(panel, qtbot, which):
    panel.viewer.add_image(mosaic()[0], name="m")
    panel.sweeps.setValue(1_000_000)
    click(qtbot, panel.run_button)
    qtbot.waitUntil(lambda: panel.bar.value() > 0, timeout=120_000)
    del panel.viewer.layers["m" if which == "image" else "m [GSW]"]
    qtbot.waitUntil(lambda: panel.run is None, timeout=60_000)
    assert panel.state in ("no image", "ready", "done")


def test_closing_the_dock_ends_the_run(make_napari_viewer, qtbot):
    viewer = make_napari_viewer(show=True)
    dock, panel = viewer.window.add_plugin_dock_widget("napari-gsw", "GSW segmentation")
    viewer.add_image(mosaic()[0], name="m")
    panel.sweeps.setValue(1_000_000)
    click(qtbot, panel.run_button)
    qtbot.waitUntil(lambda: panel.bar.value() > 0, timeout=120_000)
    worker = panel.run.worker
    dock.destroyOnClose()  # what the x of the dock does
    qtbot.waitUntil(lambda: not worker.is_running, timeout=60_000)
    viewer.add_image(mosaic()[0])  # nobody listens any more


@pytest.mark.parametrize("kind", [RuntimeError, ValueError])
def test_an_error_in_the_worker_is_shown_and_the_buttons_come_back(panel, qtbot, monkeypatch, kind):
    from napari.utils.notifications import notification_manager

    def broken(*_, **__):
        raise kind("the disk is on fire")

    monkeypatch.setattr("napari_gsw.widgets.worker.prepare", broken)
    panel.viewer.add_image(mosaic()[0])
    with qtbot.captureExceptions():
        click(qtbot, panel.run_button)
        qtbot.waitUntil(lambda: panel.run is None, timeout=60_000)
    assert panel.run_button.isEnabled()
    assert any("the disk is on fire" in str(n.message) for n in notification_manager.records)


def test_images_that_cannot_be_segmented_say_why(panel):
    panel.viewer.add_image(np.zeros((2, 3, 4, 5)), name="five")
    assert "has 4 dimensions" in panel.status.text()
    assert not panel.run_button.isEnabled()


def test_the_trace_follows_the_theme(panel):
    colours = set()
    for theme in ("dark", "light"):
        panel.viewer.theme = theme
        colours.add(panel.trace.backgroundBrush().color().name())
    assert len(colours) == 2


def test_regions_keep_their_numbers():
    shown = np.array([4, 4, 4, 2, 2, 7])
    weight = np.ones(6)
    assert matched(np.array([1, 1, 1, 0, 0, 2]), shown, weight).tolist() == shown.tolist()
    split = matched(np.array([0, 0, 1, 2, 2, 3]), shown, weight)
    assert split.tolist() == [4, 4, 1, 2, 2, 7]
    joined = matched(np.array([0, 0, 0, 0, 0, 1]), shown, weight)
    assert joined.tolist() == [4, 4, 4, 4, 4, 7]
