"""One list of what can be undone, newest first: strokes, locks, presets, Reset, superpixels."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from gui_actions import click, press_key, wait_done, wait_for
from napari_gsw.core.interactive.action_log import MAX_UNDO
from napari_gsw.sample_data import mosaic
from napari_gsw.widgets.common.undo import MAX_KEPT_CHAINS, UndoStack

pytest.importorskip("napari")
pytest.importorskip("pytestqt")


class Noted:
    """A step that notes what happens to it."""

    def __init__(self, name, notes, owner=None, keeps_chains=False, is_obsolete=False):
        self.name, self.notes, self.owner, self.keeps_chains, self.is_obsolete = (
            name,
            notes,
            owner,
            keeps_chains,
            is_obsolete,
        )

    def undo(self):
        self.notes.append(f"-{self.name}")

    def redo(self):
        self.notes.append(f"+{self.name}")


def test_newest_first_and_again():
    steps, notes = UndoStack(), []
    for name in "abc":
        steps.push(Noted(name, notes))
    steps.undo()
    steps.undo()
    steps.redo()
    assert notes == ["-c", "-b", "+b"]
    steps.push(Noted("d", notes))
    assert not steps.can_redo
    for _ in range(9):
        steps.undo()
    assert notes[3:] == ["-d", "-b", "-a"]
    assert not steps.can_undo


def test_what_is_void_is_passed_over_and_an_owner_takes_his_steps_along():
    steps, notes, owner = UndoStack(), [], object()
    steps.push(Noted("a", notes))
    steps.push(Noted("b", notes, is_obsolete=True))
    steps.push(Noted("c", notes, owner))
    steps.forget(owner)
    steps.undo()
    assert notes == ["-a"]


def test_fifty_levels_and_no_end_of_memory():
    steps, notes = UndoStack(), []
    kept = []
    for k in range(3 * MAX_UNDO):
        step = Noted(str(k), notes)
        kept.append(weakref.ref(step))
        steps.push(step)
    del step
    gc.collect()
    assert sum(ref() is not None for ref in kept) == MAX_UNDO >= 50
    keeps_chains = [Noted(f"reset {k}", notes, keeps_chains=True) for k in range(MAX_KEPT_CHAINS + 2)]
    for one in keeps_chains:
        steps.push(one)
    while steps.can_undo:
        steps.undo()
    assert notes == [f"-{one.name}" for one in reversed(keeps_chains[-MAX_KEPT_CHAINS:])]


@pytest.fixture
def done(panel, qtbot):
    panel.viewer.add_image(mosaic()[0][:80, :100], name="m")
    panel.form.controls["sweeps"].set_value(20)
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    return panel


def settled(panel):
    array_run, frame = panel.session.array_run, panel.session.frame
    return (
        panel.session.run is None
        and frame is not None
        and array_run.n_commands_done == array_run.n_commands_sent == frame.n_commands_done
    )


@pytest.mark.gui
def test_reset_preset_superpixels_and_strokes_are_one_list(done, viewer, qtbot):
    from qtpy.QtCore import Qt

    ctrl, shift = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier
    labels, interactive = viewer.layers["m [GSW]"], done.session.array_run.interactive
    _, cutter = viewer.window.add_plugin_dock_widget("napari-gsw", "Superpixels")
    click(qtbot, cutter.make_button)
    wait_for(qtbot, lambda: cutter.worker is None and cutter.layer is not None)
    labels.brush_size = 6
    labels.paint((40, 40), 60)  # first the stroke,
    wait_for(qtbot, lambda: interactive.locks.any() and settled(done))
    shown = labels.data.copy()
    done.form.controls["beta"].set_value(0.7)
    click(qtbot, done.presets.buttons["paper"])  # then a preset,
    sites = cutter.layer.data.copy()
    cutter.layer.paint((10, 10), int(sites.max()) + 1)  # superpixels,
    wait_for(qtbot, lambda: not cutter.painter._brush.is_busy)
    assert not np.array_equal(cutter.layer.data, sites)
    click(qtbot, done.reset_button)  # Reset,
    wait_for(qtbot, lambda: done.session.state == "ready" and not labels.data.any())

    viewer.layers.selection.active = viewer.layers["m"]  # an image, which has no undo of its own
    press_key(qtbot, viewer, Qt.Key.Key_Z, ctrl)
    assert done.session.state == "done"
    assert np.array_equal(labels.data, shown)
    assert viewer.layers["m [locked]"].data.any()
    assert done.session.array_run.interactive is interactive
    press_key(qtbot, viewer, Qt.Key.Key_Z, ctrl)
    assert np.array_equal(cutter.layer.data, sites)
    press_key(qtbot, viewer, Qt.Key.Key_Z, ctrl)
    assert done.form.preset == "general"
    assert done.presets.buttons["general"].isChecked()
    assert done.form.controls["beta"].value() == 0.7
    press_key(qtbot, viewer, Qt.Key.Key_Z, ctrl)
    wait_for(qtbot, lambda: not interactive.locks.any() and settled(done))
    assert not done.seeds.undo.isEnabled()
    press_key(qtbot, viewer, Qt.Key.Key_Z, ctrl, shift)
    wait_for(qtbot, lambda: interactive.locks.any() and settled(done))
    press_key(qtbot, viewer, Qt.Key.Key_Z, ctrl, shift)
    assert done.form.preset == "paper"
    press_key(qtbot, viewer, Qt.Key.Key_Z, ctrl, shift)
    assert not np.array_equal(cutter.layer.data, sites)
    press_key(qtbot, viewer, Qt.Key.Key_Z, ctrl, shift)
    wait_for(qtbot, lambda: done.session.state == "ready")
    assert not labels.data.any()
    cutter.shut_down()


@pytest.mark.gui
def test_a_reset_can_be_undone_after_another_run_and_during_it(done, viewer, qtbot):
    labels, first = viewer.layers["m [GSW]"], done.session.array_run.interactive
    shown = labels.data.copy()
    click(qtbot, done.reset_button)
    done.seed.setValue(5)
    click(qtbot, done.run_button)
    wait_done(qtbot, done)
    second, other = done.session.array_run.interactive, labels.data.copy()
    assert second is not first
    done.seeds.unfold()
    click(qtbot, done.seeds.undo)
    assert done.session.array_run.interactive is first
    assert np.array_equal(labels.data, shown)
    click(qtbot, done.seeds.redo)  # what came after it is not lost either
    assert done.session.array_run.interactive is second
    assert np.array_equal(labels.data, other)
    done.form.controls["sweeps"].set_value(1_000_000)
    click(qtbot, done.run_button)
    done.session.steps.undo()
    wait_for(qtbot, lambda: done.session.run is None and done.session.array_run.interactive is first)
    assert done.session.state == "done"
    assert np.array_equal(labels.data, shown)


@pytest.mark.gui
@pytest.mark.slow
def test_a_correction_that_does_nothing_is_no_step(done, qtbot):
    interactive = done.session.array_run.interactive
    done.session.corrections.lock_painted()  # nothing is painted
    wait_for(qtbot, lambda: settled(done))
    assert not done.session.steps.can_undo
    done.viewer.layers["m [GSW]"].paint((40, 40), 60)
    wait_for(qtbot, lambda: interactive.locks.any() and settled(done))
    done.session.corrections.unlock(77)  # nothing has this number
    wait_for(qtbot, lambda: settled(done))
    done.session.steps.undo()
    wait_for(qtbot, lambda: not interactive.locks.any() and settled(done))
