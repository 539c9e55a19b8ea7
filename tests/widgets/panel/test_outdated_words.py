"""What the window says is about what is chosen now, and what is chosen shows at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gui_actions import click, press_key, wait_done, wait_for, wait_sweeps
from napari_gsw.sample_data import mosaic_3d

pytest.importorskip("napari")
pytest.importorskip("pytestqt")
pytestmark = pytest.mark.gui


def small():
    """(80, 100, 3) a square of one colour before two others."""
    image = np.full((80, 100, 3), (200, 40, 40), np.uint8)
    image[:, 50:] = (40, 60, 220)
    image[20:50, 10:40] = (30, 200, 60)
    return image + np.random.default_rng(0).integers(0, 9, image.shape, np.uint8)


def finished(panel, qtbot, sweeps=40, **choices):
    """A short run on a small image; returns its layer."""
    layer = panel.viewer.add_image(small(), name="m")
    panel.form.controls["sweeps"].set_value(sweeps)
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    return layer


def test_another_image_or_preset_forgets_what_was_said(panel, qtbot):
    finished(panel, qtbot)
    sites = panel.session.array_run.interactive.problem.n
    heads = panel.form.sections
    assert heads["superpixels"].summary.text().startswith(f"{sites} sites")
    assert panel.run_button.text() == "Continue"
    click(qtbot, panel.presets.button("microscopy"))
    assert str(sites) not in heads["superpixels"].summary.text()
    click(qtbot, panel.presets.button("membranes"))
    assert heads["superpixels"].summary.text().startswith("about ")
    panel.region.show_text("Region 1: 40 pixels")
    panel._show_notice("something went wrong")
    assert "clusters" in panel.progress.status.text()
    click(qtbot, panel.presets.button("paper"))
    assert panel.reason.text() == ""
    panel._show_notice("something went wrong")
    panel.choose_image(panel.viewer.add_image(small()[:40], name="other"))
    assert panel.reason.text() == ""
    assert panel.progress.status.text().startswith("About 1,000 sites; the prior expects")
    assert panel.agreement.line.text() == ""
    wait_for(qtbot, lambda: panel.trace._traces == [])
    panel.choose_image(panel.viewer.layers["m"])
    assert "best" in panel.progress.status.text()
    assert panel.region.text().startswith("Region 1")
    click(qtbot, panel.reset_button)
    wait_for(qtbot, lambda: panel.session.state == "ready")
    assert panel.region.text().startswith("Point at a region")


def test_a_region_that_changes_under_a_mouse_at_rest_is_told_anew(panel, qtbot):
    """The size of a region of the first sweep was told until somebody moved the mouse."""
    finished(panel, qtbot)
    panel.session.segmentation.layers.regions.visible = False
    panel.viewer.cursor.position = (20, 20)
    labels, here = panel.session.segmentation.layers.labels, panel.region.text()
    assert here.startswith("Cluster ")
    frame = panel.session.frame
    position, number = panel.session.position, int(labels.data[20, 20])
    table = dict(frame.table)
    table["pixels"] = np.where(np.asarray(table["index"]) == number, 12_345, table["pixels"])
    panel.session.canvas.frames[position] = replace(frame, table=table)
    panel._refresh()
    assert "12,345 pixels" in panel.region.text()
    panel.region.show_text("sweep 3")  # of the trace: it is not about a region
    panel.session.canvas.frames[position] = frame
    panel._refresh()
    assert panel.region.text() == "sweep 3"


def test_the_axes_are_those_of_the_image_as_it_is(panel, qtbot):
    layer = panel.viewer.add_image(mosaic_3d()[0], name="m")
    assert panel.chooser.form.isRowVisible(panel.chooser.depth)
    layer.axis_labels = ("c", "y", "x")
    wait_for(qtbot, lambda: panel.chooser.channel_axis.currentData() == 0)
    layer.data = np.asarray(mosaic_3d()[0][0])
    wait_for(qtbot, lambda: panel.chooser.channel_axis.currentData() is None)
    assert not panel.chooser.form.isRowVisible(panel.chooser.depth)


def test_the_smallest_region_applies_to_a_run_that_is_over(panel, qtbot):
    finished(panel, qtbot)
    regions = panel.viewer.layers["m [regions]"]
    many = len(np.unique(regions.data))
    panel.form.controls["min_region"].set_value(1500)
    wait_for(qtbot, lambda: len(np.unique(regions.data)) < many)
    assert panel.session.state == "done"
    wait_for(qtbot, lambda: f"{len(np.unique(regions.data))} region" in panel.progress.status.text())
    panel.form.controls["min_region"].set_value(0)
    wait_for(qtbot, lambda: len(np.unique(regions.data)) >= many)
    click(qtbot, panel.display.layer_boxes["regions"])
    wait_for(qtbot, lambda: "region" not in panel.progress.status.text())


@pytest.mark.slow
def test_undo_is_no_correction(panel, qtbot):
    from qtpy.QtCore import Qt

    finished(panel, qtbot)
    labels = panel.viewer.layers["m [GSW]"]
    labels.data_setitem((np.arange(20), np.arange(20)), 9)
    wait_for(qtbot, lambda: panel.session.run is None and "1 correction," in panel.seeds.summary.text() + ",")
    press_key(qtbot, panel.viewer, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    wait_for(qtbot, lambda: panel.session.run is None and "correction" not in panel.seeds.summary.text())


@pytest.mark.slow
def test_other_pixels_or_labels_during_a_run_are_not_passed_over(panel, qtbot):
    layer = panel.viewer.add_image(small(), name="m")
    panel.form.controls["sweeps"].set_value(1_000_000)
    click(qtbot, panel.run_button)
    wait_sweeps(qtbot, panel, 5)
    labels = panel.viewer.layers["m [GSW]"]
    mine = np.array(labels.data)
    mine[:40] = 9
    labels.data = mine
    wait_for(qtbot, lambda: panel.session.frame is not None and panel.session.frame.locks.any())
    frame = panel.session.frame
    assert set(frame.numbers[frame.locks]) == {9}
    layer.data = small()[::-1]
    wait_for(qtbot, lambda: panel.session.run is None)
    assert "other pixels" in panel.reason.text()


@pytest.mark.slow
def test_a_run_that_is_stopped_early_shows_its_best_state(panel, qtbot):
    panel.viewer.add_image(small(), name="m")
    panel.form.controls["sweeps"].set_value(1_000_000)
    click(qtbot, panel.run_button)
    wait_sweeps(qtbot, panel, 5)
    click(qtbot, panel.stop_button)
    wait_done(qtbot, panel)
    lit = [b for b in panel.display.shows.buttons() if b.isChecked()]
    assert [b.text() for b in lit] == ["Best"]
    assert lit[0].isEnabled()
