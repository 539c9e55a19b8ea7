"""Image layers that are segmented together, in the window: labels mean the same, and paint in one teaches all."""

from __future__ import annotations

import json

import numpy as np
import pytest

import napari_gsw as gsw
from gui_actions import click, drag, wait_done, wait_for

pytest.importorskip("napari")
pytest.importorskip("pytestqt")
pytestmark = pytest.mark.gui


def plane(shape, border, seed):
    """Two noisy grey levels."""
    rng = np.random.default_rng(seed)
    return (np.where(np.arange(shape[1]) < border, 60.0, 160.0) + rng.normal(0, 8, shape)).clip(0, 255).astype(np.uint8)


IMAGES = {"a": plane((60, 80), 40, 0), "b": plane((84, 60), 32, 1), "c": plane((50, 96), 48, 2)}


def together(panel, *names):
    for action in panel.chooser.together.menu().actions():
        action.setChecked(action.text() in names)


def open_images(panel, **more):
    for k, (name, image) in enumerate(IMAGES.items()):
        panel.viewer.add_image(image, name=name, translate=(0, 100 * k), **more)
    panel.chooser.image.choose(panel.viewer.layers["a"])
    together(panel, "b", "c")


def run(panel, qtbot, sweeps=40):
    panel.form.controls["sweeps"].set_value(sweeps)
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)


def settled(panel):
    array_run, frame = panel.session.array_run, panel.session.frame
    done = array_run.n_commands_done == array_run.n_commands_sent == frame.n_commands_done
    return done and panel.session.run is None and panel.session.layer_view.drawn.get(()) is frame


@pytest.mark.slow
def test_images_of_different_sizes_are_what_segment_makes_of_a_list(panel, qtbot, viewer, tmp_path):
    open_images(panel)
    assert panel.chooser.together.text() == "With b, c"
    run(panel, qtbot)
    settings = gsw.preset("general", axes="YX", sweeps=40, regroups=1, hot=4.0)
    expected = gsw.segment(list(IMAGES.values()), settings)
    assert np.array_equal(panel.session.array_run.interactive.summary.clusters, expected.clusters)
    for name, image in IMAGES.items():
        labels = viewer.layers[f"{name} [GSW]"]
        assert labels.data.shape == image.shape
        assert labels.data.all()
        assert np.array_equal(labels.translate, viewer.layers[name].translate)
        place = viewer.layers.index(viewer.layers[name])
        assert viewer.layers[place + 1] is labels  # right above its image
    left = {int(viewer.layers[f"{name} [GSW]"].data[15, 3]) for name in IMAGES}
    right = {int(viewer.layers[f"{name} [GSW]"].data[15, -3]) for name in IMAGES}
    assert len(left) == len(right) == 1
    assert left != right
    panel.export.export(tmp_path)
    wait_for(qtbot, lambda: (tmp_path / "003.labels.provenance.json").exists())
    record = json.loads((tmp_path / "002.labels.provenance.json").read_text())
    assert [one["shape"] for one in record["images"]] == [list(image.shape) for image in IMAGES.values()]
    assert record["images"] == expected.provenance["images"]
    assert (tmp_path / "002.overlay.png").exists()


@pytest.mark.slow
def test_a_stroke_on_any_of_them_teaches_all(panel, qtbot, viewer):
    open_images(panel)
    run(panel, qtbot)
    interactive = panel.session.array_run.interactive
    for name, column, number in (("b", 46, 42), ("c", 20, 41)):
        layer = viewer.layers[f"{name} [GSW]"]
        viewer.layers.selection.active = layer
        layer.mode, layer.brush_size, layer.selected_label = "paint", 4, number
        marks = len(interactive.log.corrections)
        drag(qtbot, viewer, layer, [(y, column) for y in range(8, 24, 2)])
        wait_for(qtbot, lambda: len(interactive.log.corrections) > marks and settled(panel))  # noqa: B023
        assert viewer.layers.selection.active is layer  # the layers of locks have not taken it
        assert (viewer.layers[f"{name} [GSW]"].data[8:23, column] == number).all()
        assert viewer.layers[f"{name} [locked]"].data[8:23, column].all()
    for name, image in IMAGES.items():
        found = viewer.layers[f"{name} [GSW]"].data
        assert np.mean(found == np.where(image < 110, 41, 42)) > 0.9, name
    viewer.layers["c [GSW]"].undo()
    wait_for(qtbot, lambda: settled(panel) and not (viewer.layers["c [GSW]"].data == 41).any())
    assert (viewer.layers["b [GSW]"].data == 42).any()


@pytest.mark.slow
def test_paint_before_the_first_run_counts_in_all(panel, qtbot, viewer):
    open_images(panel)
    panel.seeds.unfold()
    click(qtbot, panel.seeds.canvas)
    viewer.layers["b [GSW]"].data[5:20, 3:6] = 7
    viewer.layers["c [GSW]"].data[5:20, 80:83] = 9
    run(panel, qtbot)
    for name, image in IMAGES.items():
        assert np.mean(viewer.layers[f"{name} [GSW]"].data == np.where(image < 110, 7, 9)) > 0.9, name


def test_what_cannot_go_together_is_said(panel, qtbot, viewer):
    open_images(panel)
    viewer.add_image(np.zeros((20, 20), np.float32), name="float")
    viewer.add_image(np.zeros((20, 20, 3), np.uint8), name="rgb")
    offered = [action.text() for action in panel.chooser.together.menu().actions()]
    assert offered == ["b", "c", "float"]
    together(panel, "float")
    assert "type" in panel.reason.text()
    assert not panel.run_button.isEnabled()
    together(panel, "b")
    assert panel.run_button.isEnabled()
    panel.presets.choose("microscopy")
    assert "Objects of several images" in panel.reason.text()
    panel.presets.choose("general")
    panel.chooser.where.choose("view")
    assert "as a whole" in panel.reason.text()
    panel.chooser.where.choose("image")
    assert panel.run_button.isEnabled()
    viewer.add_image(np.zeros((5, 20, 20), np.uint8), name="stack")
    panel.chooser.image.choose(viewer.layers["stack"])
    assert not panel.chooser.form.isRowVisible(panel.chooser.together)


@pytest.mark.slow
def test_without_one_of_its_images_a_segmentation_ends_and_another_choice_is_another(panel, qtbot, viewer):
    open_images(panel)
    run(panel, qtbot, 3)
    first = panel.session.array_run.interactive
    together(panel, "b")
    assert not panel.session.can_continue(panel.chooser.source())
    run(panel, qtbot, 3)
    assert panel.session.array_run.interactive is not first
    assert panel.session.array_run.interactive.problem.site_image.shape == (2, 84, 80)
    viewer.layers.remove("b")
    assert panel.session.segmentation is None
    assert panel.chooser.together.text() == "By itself"
