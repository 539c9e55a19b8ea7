"""Objects edited on their layer with the mouse and the keys: accept, merge, cut, delete, draw, undo and export."""

from __future__ import annotations

import numpy as np
import pytest

from gui_actions import click, drag, press_key, wait_done, wait_for, wait_sweeps
from napari_gsw.widgets.session.corrections import EDIT_KEYS
from pictures import CENTRES, cells

pytest.importorskip("napari")
pytest.importorskip("pytestqt")
pytestmark = pytest.mark.gui


@pytest.fixture
def done(panel, qtbot):
    """A panel after a short run on a few nuclei, with the layer of objects selected."""
    panel.viewer.add_image(cells()[0], name="n")
    panel.presets.choose("microscopy")
    panel.form.controls["sweeps"].set_value(20)
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    wait_for(qtbot, lambda: settled(panel))
    panel.viewer.layers.selection.active = layer_of(panel)
    return panel


def layer_of(panel):
    return panel.viewer.layers["n [regions]"]


def settled(panel):
    """Everything that was asked for has been done and drawn."""
    session = panel.session
    array_run, frame = session.array_run, session.frame
    if session.layer_view.is_busy or session.run is not None:
        return False
    return frame.n_commands_done == array_run.n_commands_sent and session.layer_view.drawn.get(()) is frame


def at(panel, centre):
    return int(layer_of(panel).data[CENTRES[centre]])


def point(qtbot, panel, place):
    """Move the mouse to a pixel."""
    from gui_actions import canvas_point

    native = panel.viewer.window._qt_viewer.canvas.native
    for nudge in (3, 0):
        qtbot.mouseMove(native, canvas_point(panel.viewer, layer_of(panel), (place[0] + nudge, place[1])))
        qtbot.wait(30)
    # Windows of other tests may be on the same screen, and there is one pointer for all of them.
    panel.viewer.cursor.position = layer_of(panel).data_to_world(place)


def key(qtbot, panel, action):
    from qtpy.QtCore import Qt

    press_key(qtbot, panel.viewer, getattr(Qt.Key, f"Key_{EDIT_KEYS[action]}"))


def undo(qtbot, panel):
    from qtpy.QtCore import Qt

    press_key(qtbot, panel.viewer, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)


def corrected(qtbot, panel, count):
    """Wait until so many corrections are in the chain and on the screen."""
    wait_for(qtbot, lambda: settled(panel) and len(panel.session.frame.marks) == count)


def exported(panel, folder, qtbot):
    panel.export.format.setCurrentIndex(panel.export.format.findData(".npy"))
    panel.export.export(folder)
    wait_for(qtbot, lambda: settled(panel) and (folder / "labels.npy").exists())
    return np.load(folder / "labels.npy")


def test_an_accepted_object_is_outlined_and_later_runs_leave_it_alone(done, qtbot):
    mine = layer_of(done).data == at(done, 1)
    number = at(done, 1)
    point(qtbot, done, CENTRES[1])
    key(qtbot, done, "accept")
    corrected(qtbot, done, 1)
    assert np.array_equal(layer_of(done).data == number, mine)
    assert np.array_equal(done.viewer.layers["n [locked]"].data > 0, mine)
    click(qtbot, done.run_button)
    wait_done(qtbot, done)
    wait_for(qtbot, lambda: settled(done))
    assert np.array_equal(layer_of(done).data == number, mine)


@pytest.mark.slow
def test_objects_are_merged_by_a_tool_and_by_a_label_that_is_there(done, qtbot):
    first, second, third = (at(done, k) for k in (3, 4, 0))
    click(qtbot, done.edit_row.buttons["merge"])
    assert done.edit_row.buttons["merge"].isChecked()
    drag(qtbot, done.viewer, layer_of(done), [(80, c) for c in range(26, 50, 2)])
    corrected(qtbot, done, 1)
    assert at(done, 3) == at(done, 4) == first != second
    layer = layer_of(done)
    layer.selected_label = third  # which lays the tool down
    assert layer.mode == "paint"
    assert not done.edit_row.buttons["merge"].isChecked()
    layer.brush_size = 3
    drag(qtbot, done.viewer, layer, [(25, c) for c in range(25, 84, 4)])
    corrected(qtbot, done, 2)
    assert at(done, 0) == at(done, 1) == third == layer.data[25, 52]


def test_a_line_cuts_an_object_and_one_that_ends_inside_says_so(done, qtbot):
    number, layer = at(done, 5), layer_of(done)
    before = layer.data.copy()
    point(qtbot, done, CENTRES[5])
    key(qtbot, done, "cut")
    assert done.session.editor.tool == "cut"
    drag(qtbot, done.viewer, layer, [(r, 100) for r in range(76, 92, 2)])
    wait_for(qtbot, lambda: f"does not split object {number}" in done.reason.text())
    assert np.array_equal(layer.data, before)
    drag(qtbot, done.viewer, layer, [(r, 100) for r in range(76, 106, 2)])
    corrected(qtbot, done, 1)
    left, right = int(layer.data[90, 95]), int(layer.data[90, 105])
    assert number in (left, right)
    assert left != right
    assert np.array_equal(layer.data == before, ~np.isin(layer.data, sorted({left, right} - {number})))


def test_delete_draw_undo_redo_and_export(done, qtbot, tmp_path):
    from qtpy.QtCore import Qt

    layer = layer_of(done)
    before, gone = layer.data.copy(), at(done, 2)
    point(qtbot, done, CENTRES[2])
    key(qtbot, done, "delete")
    corrected(qtbot, done, 1)
    assert not (layer.data == gone).any()
    assert np.array_equal(layer.data > 0, (before > 0) & (before != gone))
    key(qtbot, done, "draw")
    assert layer.mode == "paint"
    number = layer.selected_label
    assert number not in before
    layer.brush_size = 7
    drag(qtbot, done.viewer, layer, [(60, c) for c in range(70, 90, 3)])
    corrected(qtbot, done, 2)
    drawn = layer.data == number
    assert drawn[60, 80]
    assert 80 < drawn.sum() < 300
    after = layer.data.copy()
    assert np.array_equal(exported(done, tmp_path / "both", qtbot), after)
    undo(qtbot, done)
    corrected(qtbot, done, 3)
    assert not (layer.data == number).any()
    undo(qtbot, done)
    corrected(qtbot, done, 4)
    assert at(done, 2) == gone
    assert done.session.array_run.interactive.edits is None
    press_key(qtbot, done.viewer, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier)
    corrected(qtbot, done, 5)
    assert not (layer.data == gone).any()
    assert np.array_equal(exported(done, tmp_path / "one", qtbot), layer.data)


@pytest.mark.slow
def test_edits_during_a_run_stay_and_go_over_to_the_next_chain(panel, qtbot):
    panel.viewer.add_image(cells()[0], name="n")
    panel.presets.choose("microscopy")
    panel.form.controls["sweeps"].set_value(1_000_000)
    click(qtbot, panel.run_button)
    wait_sweeps(qtbot, panel, 30)
    wait_for(qtbot, lambda: "n [regions]" in panel.viewer.layers)
    layer = layer_of(panel)
    panel.viewer.layers.selection.active = layer
    number = at(panel, 5)
    layer.mode = "erase"
    layer.brush_size = 1
    drag(qtbot, panel.viewer, layer, [(r, 100) for r in range(76, 106, 2)])
    wait_for(qtbot, lambda: panel.session.frame.edits is not None)
    wait_sweeps(qtbot, panel, panel.session.frame.sweep + 20)
    click(qtbot, panel.stop_button)
    wait_done(qtbot, panel)
    wait_for(qtbot, lambda: settled(panel))
    fixed = panel.session.array_run.interactive.edits.fixed
    assert len(np.unique(fixed)) == 3
    assert number in fixed
    panel.form.controls["sweeps"].set_value(20)
    panel.form.controls["beta"].set_value(1.5)  # another problem, and so another chain
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    wait_for(qtbot, lambda: settled(panel))
    assert panel.session.array_run.interactive.settings.beta == 1.5
    for one in np.unique(fixed[fixed > 0]):
        assert np.array_equal(layer.data == one, fixed == one)


@pytest.mark.slow
def test_the_row_can_be_used_as_long_as_its_layer_is_there(done, qtbot):
    row = done.edit_row
    assert row.isVisible()
    assert row.isEnabled()
    for action, button in row.buttons.items():
        assert f"key {EDIT_KEYS[action]}" in button.toolTip()
    layer = layer_of(done)
    layer.selected_label = 60
    click(qtbot, row.buttons["accept"])
    wait_for(qtbot, lambda: "no object here" in done.reason.text())
    layer.selected_label = at(done, 1)
    click(qtbot, row.buttons["delete"])
    corrected(qtbot, done, 1)
    assert at(done, 1) == 0
    done.viewer.layers.remove(layer)
    wait_for(qtbot, lambda: not row.isEnabled())


@pytest.mark.slow
def test_regions_are_edited_too(panel, qtbot):
    from napari_gsw.sample_data import mosaic

    panel.viewer.add_image(mosaic()[0][:120, :160], name="n")
    panel.form.controls["sweeps"].set_value(40)
    panel.form.controls["min_region"].set_value(50)
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    wait_for(qtbot, lambda: settled(panel))
    layer = layer_of(panel)
    panel.viewer.layers.selection.active = layer
    assert panel.edit_row.heading.text() == "Regions"
    key(qtbot, panel, "draw")
    layer.brush_size = 20
    number = layer.selected_label
    drag(qtbot, panel.viewer, layer, [(60, c) for c in range(60, 100, 4)])
    corrected(qtbot, panel, 1)
    assert layer.data[60, 80] == number
    point(qtbot, panel, (60, 80))
    key(qtbot, panel, "delete")
    corrected(qtbot, panel, 2)
    assert not (layer.data == number).any()
    assert (layer.data > 0).all()
