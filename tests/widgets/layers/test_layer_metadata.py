"""Our own layers are known by a mark in their metadata: users rename layers, and call theirs what they like."""

from __future__ import annotations

import numpy as np
import pytest

from gui_actions import click, wait_done, wait_for
from napari_gsw.sample_data import mosaic

pytest.importorskip("napari")
pytest.importorskip("pytestqt")
pytestmark = pytest.mark.gui

OURS = {"segmentation", "regions", "boundary", "entropy", "locked", "superpixels"}


def offered(combo):
    """The layers that a list of the panel offers, without its fixed entries."""
    return [combo.itemText(i) for i in range(combo.count()) if combo.itemText(i) not in ("Whole image", "Visible part")]


def rename(layers, word):
    for place, layer in enumerate(layers):
        layer.name = f"{word} {place}"


@pytest.fixture
def everything(panel, qtbot):
    """A panel after a run that has made every layer it can make."""
    viewer = panel.viewer
    viewer.add_image(mosaic()[0][:120, :160], name="m")
    viewer.add_labels(np.ones((120, 160), int), name="mine")
    panel.form.controls["sweeps"].set_value(40)
    for name in ("boundary", "entropy"):
        click(qtbot, panel.display.layer_boxes[name])
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    panel.session.corrections.lock_label(int(panel.session.array_run.interactive.display_labels[0]))
    wait_done(qtbot, panel)
    panel.display.show_sites.setChecked(True)
    wait_for(qtbot, lambda: len(viewer.layers) == 2 + len(OURS))
    return panel


@pytest.mark.slow
def test_renamed_layers_are_known_by_their_marks(everything, qtbot, viewer):
    session = everything.session
    ours = [layer for layer in viewer.layers if layer.name not in ("m", "mine")]
    assert {layer.metadata["napari-gsw layer"] for layer in ours} == OURS
    layers = session.segmentation.layers
    labels = layers.labels
    assert "settings" in labels.metadata["napari-gsw"]
    for _ in range(2):
        assert offered(everything.chooser.image) == ["m"]
        assert offered(everything.chooser.where) == ["mine"]
        rename(ours, "anything")
    # A stroke, its undo and another run go on in them.
    session.corrections.unlock()
    wait_done(qtbot, everything)
    labels.paint((60, 80), 77)
    wait_for(qtbot, lambda: session.run is None and (session.frame.numbers == 77).any())
    labels.undo()
    wait_for(qtbot, lambda: session.run is None and not (session.frame.numbers == 77).any())
    count = len(viewer.layers)
    click(qtbot, everything.run_button)
    wait_for(qtbot, lambda: session.frame.sweep >= 80)
    wait_done(qtbot, everything)
    assert len(viewer.layers) == count
    assert layers.labels is labels
    assert np.array_equal(labels.data, session.array_run.paint(session.frame.numbers))


def test_a_layer_of_the_users_own_may_be_called_like_ours(panel, viewer):
    for name in ("a [boundary]", "b [difference]", "c"):
        viewer.add_image(np.zeros((20, 30)), name=name)
    for name in ("d [GSW]", "e [superpixels]", "f [locked]", "g [regions]"):
        viewer.add_labels(np.ones((20, 30), int), name=name)
    assert offered(panel.chooser.image) == ["c", "b [difference]", "a [boundary]"]
    assert offered(panel.chooser.where) == ["g [regions]", "f [locked]", "e [superpixels]", "d [GSW]"]


def test_superpixels_are_known_after_they_were_renamed(panel, qtbot, viewer):
    viewer.add_image(mosaic()[0][:120, :160], name="m")
    _, cutter = viewer.window.add_plugin_dock_widget("napari-gsw", "Superpixels")
    cutter.make()
    wait_for(qtbot, lambda: cutter.worker is None and cutter.layer is not None)
    layer = cutter.layer
    assert layer.metadata["napari-gsw layer"] == "superpixels"
    wait_for(qtbot, lambda: cutter.count.text().endswith("borders"))
    count = cutter.count.text()
    layer.name = "anything"
    viewer.layers["m"].name = "image"
    assert cutter.count.text() == count
    assert cutter.image.value() is viewer.layers["image"]
    assert offered(panel.chooser.where) == []
    assert panel.sites.value() is layer
    cutter.make()
    wait_for(qtbot, lambda: cutter.worker is None)
    assert cutter.layer is layer
    assert len(viewer.layers) == 2
    cutter.shut_down()
