"""The Superpixels widget in a real window."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import napari_gsw as gsw
from gui_actions import click, drag, press_key, wait_done, wait_for
from napari_gsw.core.image.normalized_image import normalize_image
from napari_gsw.core.sites.superpixels import make_superpixels
from napari_gsw.sample_data import mosaic

pytest.importorskip("napari")
pytest.importorskip("pytestqt")
pytestmark = pytest.mark.gui


@pytest.fixture
def cutter(viewer):
    _, widget = viewer.window.add_plugin_dock_widget("napari-gsw", "Superpixels")
    yield widget
    widget.shut_down()


@pytest.fixture
def after_cut(cutter, viewer, qtbot):
    viewer.add_image(mosaic()[0], name="m", scale=(0.5, 0.5), translate=(3, 4), units=("um", "um"))
    cutter.controls["site_size"].set_value(300)
    click(qtbot, cutter.make_button)
    wait_for(qtbot, lambda: cutter.worker is None and cutter.layer is not None)
    return cutter


def settled(cutter, sites):
    return cutter.count.text().startswith(f"{sites:,} superpixels")


def test_a_layer_where_the_image_is(after_cut, viewer, qtbot):
    layer, image = after_cut.layer, viewer.layers["m"]
    assert layer.name == "m [superpixels]"
    assert layer.contour == 1
    for what in ("scale", "translate"):
        assert np.array_equal(getattr(layer, what), getattr(image, what))
    assert layer.units == image.units
    assert layer.axis_labels == image.axis_labels
    expected = make_superpixels(normalize_image(image.data), gsw.Settings(site_size=300))
    assert np.array_equal(layer.data, expected)
    wait_for(qtbot, lambda: settled(after_cut, int(expected.max())))
    assert "borders" in after_cut.count.text()


def test_the_number_is_told_before(cutter, viewer, qtbot):
    assert "Open an image" in cutter.count.text()
    assert not cutter.make_button.isEnabled()
    viewer.add_image(mosaic()[0], name="m")
    assert cutter.make_button.isEnabled()
    cutter.controls["site_size"].set_value(100)
    assert cutter.count.text() == "about 768"
    cutter.controls["site_size"].set_value(200)
    assert cutter.count.text() == "about 384"
    cutter.controls["superpixels"].set_value("grid")
    assert not cutter.controls["compactness"].isEnabled()


def test_live_preview_follows(cutter, viewer, qtbot):
    viewer.add_image(mosaic()[0], name="m")
    cutter.controls["superpixels"].set_value("grid")
    click(qtbot, cutter.preview)
    for size in (400, 300, 100):
        cutter.controls["site_size"].set_value(size)
    wait_for(qtbot, lambda: cutter.layer is not None and settled(cutter, int(cutter.layer.data.max())))
    first = int(cutter.layer.data.max())
    cutter.controls["site_size"].set_value(900)
    wait_for(qtbot, lambda: cutter.layer.data.max() < first)
    assert len(viewer.layers) == 2


def test_painting_merges_and_splits(after_cut, viewer, qtbot):
    from qtpy.QtCore import Qt

    layer = after_cut.layer
    before = layer.data.copy()
    count = len(np.unique(before))
    y, x = 120, 160
    right = x
    while before[y, right] == before[y, x]:
        right += 1
    viewer.layers.selection.active = layer
    layer.mode, layer.brush_size, layer.selected_label = "paint", 4, int(before[y, x])
    drag(qtbot, viewer, layer, [(y, c) for c in range(x, right + 6)])
    wait_for(qtbot, lambda: len(np.unique(layer.data)) < count)
    joined = int(before[y, right + 2])
    assert (layer.data[before == joined] == before[y, x]).all()
    wait_for(qtbot, lambda: settled(after_cut, len(np.unique(layer.data))))
    press_key(qtbot, viewer, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    wait_for(qtbot, lambda: np.array_equal(layer.data, before))
    press_key(qtbot, viewer, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier)
    wait_for(qtbot, lambda: len(np.unique(layer.data)) < count)
    press_key(qtbot, viewer, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    wait_for(qtbot, lambda: np.array_equal(layer.data, before))

    press_key(qtbot, viewer, Qt.Key.Key_M)  # a new label
    new = layer.selected_label
    assert new > before.max()
    drag(qtbot, viewer, layer, [(60, 60), (60, 62)])
    wait_for(qtbot, lambda: (layer.data == new).any() and len(np.unique(layer.data)) > count)
    wait_for(qtbot, lambda: settled(after_cut, len(np.unique(layer.data))))
    for number in np.unique(layer.data):
        from skimage.measure import label

        assert label(layer.data == number, connectivity=1).max() == 1


def test_gsw_takes_the_mended_superpixels(after_cut, viewer, qtbot):
    _, panel = viewer.window.add_plugin_dock_widget("napari-gsw", "GSW segmentation", tabify=False)
    panel.form.controls["sweeps"].set_value(20)
    panel.sites.choose(after_cut.layer)
    after_cut.layer.paint((60, 60), int(after_cut.layer.data.max()) + 1)
    wait_for(qtbot, lambda: not after_cut.painter.is_busy)
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    assert panel.session.array_run.interactive.problem.n == len(np.unique(after_cut.layer.data))
    # What is changed behind the panel's back counts in the next run, too.
    sites, first = after_cut.layer.data, after_cut.layer.data[60, 100]
    sites[sites == sites[60, 100 + np.argmax(sites[60, 100:] != first)]] = first
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    assert panel.session.array_run.interactive.problem.n == len(np.unique(sites))
    panel.shut_down()


def test_inside_a_shape(cutter, viewer, qtbot):
    viewer.add_image(mosaic()[0], name="m")
    shapes = viewer.add_shapes([np.array([[20, 20], [20, 200], [150, 200], [150, 20]])], name="roi")
    cutter.region.choose(shapes)
    click(qtbot, cutter.make_button)
    wait_for(qtbot, lambda: cutter.worker is None and cutter.layer is not None)
    assert not cutter.layer.data[160:].any()
    assert (cutter.layer.data[30:140, 30:190] > 0).all()


@pytest.mark.parametrize("kind", [RuntimeError, ValueError])
def test_an_error_is_told_and_the_button_comes_back(cutter, viewer, qtbot, monkeypatch, kind):
    def broken(*_):
        raise kind("out of ink")

    monkeypatch.setattr("napari_gsw.widgets.superpixels.panel.make_superpixels", broken)
    viewer.add_image(mosaic()[0], name="m")
    click(qtbot, cutter.make_button)
    wait_for(qtbot, lambda: cutter.worker is None)
    assert cutter.count.text() == "Out of ink."
    assert cutter.make_button.text() == "Make superpixels"
    assert cutter.make_button.isEnabled()


def test_cancel_or_removing_the_image_leaves_no_layer(cutter, viewer, qtbot, monkeypatch):
    from napari_gsw.widgets.superpixels import panel

    began, may_go_on = threading.Event(), threading.Event()

    def held(*given):
        began.set()
        assert may_go_on.wait(60)
        return make_superpixels(*given)

    monkeypatch.setattr(panel, "make_superpixels", held)
    viewer.add_image(mosaic()[0], name="m")
    for ending in ("cancel", "remove"):
        began.clear()
        may_go_on.clear()
        cutter.preview.setChecked(ending == "cancel")  # which does not make them again
        cutter.make()
        wait_for(qtbot, began.is_set)
        if ending == "cancel":
            click(qtbot, cutter.make_button)
        else:
            viewer.layers.remove("m")
        may_go_on.set()
        wait_for(qtbot, lambda: cutter.worker is None)
        qtbot.wait(2 * cutter._timer.interval() + 100)
        assert cutter.worker is None
        assert cutter.layer is None
        assert len(viewer.layers) == (ending == "cancel")
        assert cutter.make_button.isEnabled() == (ending == "cancel")


@pytest.mark.slow
def test_a_stack_of_slices(cutter, viewer, qtbot):
    stack = np.stack([mosaic()[0][..., 0]] * 3)
    viewer.add_image(stack, name="t", axis_labels=("t", "y", "x"))
    assert "in each of 3 slices" in cutter.count.text()
    click(qtbot, cutter.make_button)
    wait_for(qtbot, lambda: cutter.worker is None and cutter.layer is not None)
    slices = [set(np.unique(cutter.layer.data[t])) for t in range(3)]
    assert not slices[0] & slices[1]
