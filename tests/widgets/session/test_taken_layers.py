"""A run writes to the layers that an earlier one of the same image has left, instead of putting others beside them."""

from __future__ import annotations

import numpy as np
import pytest

from gui_actions import click, wait_done, wait_for
from napari_gsw.core.errors import InputError
from napari_gsw.sample_data import mosaic

pytest.importorskip("napari")
pytest.importorskip("pytestqt")
pytestmark = pytest.mark.gui

PICTURE = np.ascontiguousarray(mosaic()[0][:60, :80])


def run(qtbot, panel):
    panel.form.controls["sweeps"].set_value(12)
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    wait_for(qtbot, lambda: panel.session.run is None, 60)


def names(viewer):
    return sorted(layer.name for layer in viewer.layers)


def agrees(panel):
    """The layer has what the chain says."""
    seg = panel.session.segmentation
    return np.array_equal(seg.layers.labels.data, panel.session.frame.labels)


def test_another_image_in_between_and_another_dock_find_the_layers_again(viewer, panel, qtbot):
    viewer.add_image(PICTURE, name="a")
    run(qtbot, panel)
    viewer.layers["a [regions]"].name = "mine"
    viewer.add_image(PICTURE[::-1].copy(), name="b")
    run(qtbot, panel)
    there = ["a", "a [GSW]", "b", "b [GSW]", "b [regions]", "mine"]
    assert names(viewer) == there
    viewer.layers["a"].scale = (3, 3)
    panel.chooser.image.choose(viewer.layers["a"])
    run(qtbot, panel)
    assert names(viewer) == there
    assert agrees(panel)
    assert tuple(viewer.layers["mine"].scale) == (3, 3)
    viewer.window.remove_dock_widget(panel.parent())
    _, again = viewer.window.add_plugin_dock_widget("napari-gsw", "GSW segmentation")
    again.chooser.image.choose(viewer.layers["a"])
    run(qtbot, again)
    assert names(viewer) == there
    assert agrees(again)
    # The brush, the eyes and the buttons of objects work as on layers of its own.
    assert again.session.layer_view.brushes[0].layer is viewer.layers["a [GSW]"]
    assert again.session.editor.layer is viewer.layers["mine"]
    viewer.layers["mine"].visible = False
    assert not again.display.layer_boxes["regions"].isChecked()
    # After a Reset nothing is said about what was.
    layers = [viewer.layers["a [GSW]"], viewer.layers["mine"]]
    layers[1].visible = True
    wait_for(qtbot, lambda: len(layers[1].features), 60)
    again.session.set_show("consensus")
    click(qtbot, again.reset_button)
    wait_for(qtbot, lambda: again.session.array_run is None, 60)
    assert not any("index" in layer.features for layer in layers)
    assert not again.edit_row.isEnabled()
    assert [b.property("show") for b in again.display.state_buttons.buttons() if b.isChecked()] == ["current"]
    again.shut_down()


@pytest.mark.slow
def test_what_is_given_to_a_run_and_what_does_not_fit_is_left_alone(viewer, panel, qtbot):
    image = viewer.add_image(PICTURE, name="a")
    run(qtbot, panel)
    strokes = viewer.layers["a [GSW]"]
    painted = strokes.data.copy()
    viewer.add_image(PICTURE[::-1].copy(), name="b")  # whose run lets go of the layers of the first
    run(qtbot, panel)
    panel.chooser.image.choose(image)
    panel.seeds.seeds.choose(strokes)
    run(qtbot, panel)
    assert np.array_equal(strokes.data, painted)
    assert "a [GSW] [1]" in names(viewer)
    assert names(viewer).count("a [regions]") == 1
    panel.seeds.seeds.choose(None)
    image.data = PICTURE[:40]
    qtbot.wait(50)
    run(qtbot, panel)
    assert viewer.layers["a [regions]"].data.shape == PICTURE.shape[:2]
    assert viewer.layers["a [regions] [1]"].data.shape == (40, 80)


def test_a_copy_is_left_alone_and_a_run_that_comes_to_nothing_has_taken_nothing(viewer, panel, qtbot, monkeypatch):
    """A copy of another type has the notes of its layer; a result is written over by the first frame of another."""
    viewer.add_image(PICTURE, name="a")
    run(qtbot, panel)
    copy = viewer.add_image(viewer.layers["a [GSW]"].data, metadata=dict(viewer.layers["a [GSW]"].metadata))
    viewer.layers.remove("a [GSW]")
    before = copy.data.copy()
    viewer.add_image(PICTURE[::-1].copy(), name="b")
    run(qtbot, panel)
    panel.chooser.image.choose(viewer.layers["a"])
    run(qtbot, panel)
    assert np.array_equal(copy.data, before)
    assert agrees(panel)

    kept = viewer.layers["b [GSW]"]
    before = kept.data.copy()
    panel.chooser.image.choose(viewer.layers["b"])

    def broken(*given, **more):
        raise InputError("there is nothing in it")

    monkeypatch.setattr("napari_gsw.widgets.session.run_plan.prepare", broken)
    click(qtbot, panel.run_button)
    wait_for(qtbot, lambda: panel.session.run is None and "nothing in it" in panel.reason.text(), 60)
    assert np.array_equal(kept.data, before)
    assert "b [GSW] [1]" not in names(viewer)


def test_what_another_part_of_the_image_has_given_stays(viewer, panel, qtbot):
    """So do strokes that were painted before a run, which may be given to it as seeds."""
    image = viewer.add_image(PICTURE, name="a")
    run(qtbot, panel)
    whole, outlines = viewer.layers["a [GSW]"], viewer.layers["a [regions]"]
    before = whole.data.copy(), outlines.data.copy()
    assert before[0].all()
    viewer.add_shapes([[[10, 10], [10, 50], [40, 50], [40, 10]]], name="part")
    panel.chooser.image.choose(image)
    panel.chooser.where.choose(viewer.layers["part"])
    run(qtbot, panel)
    assert np.array_equal(whole.data, before[0])
    assert np.array_equal(outlines.data, before[1])
    part = viewer.layers["a [GSW] [1]"]
    assert not part.data[:5].any()
    panel.chooser.where.choose("image")
    run(qtbot, panel)  # of the whole again: its own layers
    assert sorted(n for n in names(viewer) if "GSW" in n) == ["a [GSW]", "a [GSW] [1]"]
    assert panel.session.segmentation.layers.labels is whole
