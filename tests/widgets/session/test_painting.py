"""Correcting the chain by painting, with the mouse on the canvas, before, during and after a run."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import napari_gsw as gsw
from gui_actions import canvas_point, click, drag, press_key, wait_done, wait_for, wait_sweeps
from napari_gsw.sample_data import mosaic
from napari_gsw.scores.partitions import variation_of_information

pytest.importorskip("napari")
pytest.importorskip("pytestqt")

from napari_gsw.widgets.session.run_worker import RunWorker

pytestmark = pytest.mark.gui


@pytest.fixture
def done(panel, qtbot):
    """A panel after a short run on a small image."""
    panel.viewer.add_image(mosaic()[0][:120, :160], name="m")
    panel.form.controls["sweeps"].set_value(40)
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    return panel


@pytest.fixture
def running(panel, qtbot):
    """A panel whose chain goes on and on."""
    panel.viewer.add_image(mosaic()[0][:120, :160], name="m")
    panel.form.controls["sweeps"].set_value(30_000_000)
    click(qtbot, panel.run_button)
    wait_sweeps(qtbot, panel, 5)
    return panel


def labels_of(panel):
    return panel.viewer.layers["m [GSW]"]


def brush(panel, number, size=6, mode="paint"):
    layer = labels_of(panel)
    panel.viewer.layers.selection.active = layer
    layer.mode = mode
    layer.brush_size = size
    layer.selected_label = number
    return layer


def settled(panel):
    """Everything that was asked for has been done and drawn; while a chain runs, there are newer frames."""
    array_run, drawn = panel.session.array_run, panel.session.layer_view.drawn.get(())
    if panel.session.layer_view.is_busy or drawn is None:
        return False
    is_newest = drawn is panel.session.frame or panel.session.state == "running"
    return is_newest and array_run.n_commands_done == array_run.n_commands_sent == drawn.n_commands_done


def agrees(panel):
    """Layer and chain agree."""
    interactive = panel.session.array_run.interactive
    shown = panel.session.array_run.paint(interactive.shown(panel.session.view.show))
    assert np.array_equal(labels_of(panel).data, shown)
    first = interactive.ensemble.snapshots[0]
    assert variation_of_information(interactive.display_labels, first.labels) == pytest.approx(0, abs=1e-9)


def sites_under(panel, points):
    sites = panel.session.array_run.sites
    return np.unique([sites[tuple(p)] - 1 for p in points])


def test_a_stroke_after_a_run_moves_the_sites_under_it(done, qtbot):
    layer = brush(done, 40)
    points = [(60, x) for x in range(40, 60, 2)]
    drag(qtbot, done.viewer, layer, points)
    wait_for(qtbot, lambda: done.session.run is None and settled(done))
    interactive = done.session.array_run.interactive
    assert (interactive.display_labels[sites_under(done, points)] == 40).all()
    assert len(interactive.log.corrections) == 1
    agrees(done)
    assert "1 correction" in done.seeds.summary.text()


def test_a_stroke_is_drawn_at_once_and_what_follows_before_it_is_saved(done, qtbot, monkeypatch):
    session, layer = done.session, labels_of(done)
    wait_for(qtbot, lambda: session.run is None and settled(done))
    events = []
    publish, save = RunWorker._publish, RunWorker._save
    monkeypatch.setattr(RunWorker, "_publish", lambda run, *a, **k: events.append("frame") or publish(run, *a, **k))
    monkeypatch.setattr(
        RunWorker, "_save", lambda run, at_once: events.append("saved" if at_once else "") or save(run, at_once)
    )
    rows, columns = np.mgrid[55:65, 40:60]
    layer.data_setitem((rows.ravel(), columns.ravel()), 40)
    (brush_of_layer,) = session.layer_view.brushes
    brush_of_layer._deliver()
    assert session.layer_view.drawn[()].n_commands_done < session.array_run.n_commands_sent
    assert (layer.data[rows, columns] == 40).any()
    wait_for(qtbot, lambda: session.run is None and settled(done))
    assert [event for event in events if event][:2] == ["frame", "saved"]
    agrees(done)


def test_a_stroke_during_a_run_is_taken_over(running, qtbot):
    layer = brush(running, 41)
    running.paint_row.keep.setChecked(True)
    points = [(30, x) for x in range(20, 60, 3)]
    drag(qtbot, running.viewer, layer, points)
    wait_for(qtbot, lambda: settled(running))
    interactive, under = running.session.array_run.interactive, sites_under(running, points)
    # So are labels that a script puts there.
    scripted = np.array(layer.data)
    scripted[100:] = 42
    layer.data = scripted
    wait_for(qtbot, lambda: settled(running) and (running.session.frame.numbers[interactive.locks] == 42).any())
    before = running.session.frame.sweep
    wait_sweeps(qtbot, running, before + 20)
    assert interactive.locks[under].all()
    assert (running.session.frame.numbers[under] == 41).all()
    assert "m [locked]" in running.viewer.layers
    shown = running.viewer.layers["m [locked]"].data
    assert np.array_equal(shown > 0, np.isin(running.session.array_run.sites - 1, np.flatnonzero(interactive.locks)))
    click(qtbot, running.stop_button)
    wait_done(qtbot, running)
    agrees(running)
    running.seeds.unfold()
    assert running.seeds.locks.item(0).text().startswith("label 41:")
    click(qtbot, running.seeds.unlock)
    wait_for(qtbot, lambda: running.session.run is None and not interactive.locks.any() and settled(running))
    assert not running.viewer.layers["m [locked]"].data.any()


def test_no_edit_is_lost_to_a_live_update(running, qtbot):
    """Forty strokes while frames arrive all the time: every one of them is in the chain, in order."""
    layer = brush(running, 50)
    running.paint_row.keep.setChecked(True)
    array_run = running.session.array_run
    rng = np.random.default_rng(0)
    expected = {}
    order = rng.permutation(array_run.interactive.problem.n)[:40]
    centres = np.array([np.argwhere(array_run.sites == s + 1).mean(axis=0).round() for s in order]).astype(int)
    for i, (site, centre) in enumerate(zip(order.tolist(), centres, strict=True)):
        number = 50 + i  # each its own: where the chain shows a number already, painting it again changes nothing
        layer.brush_size = 1
        inside = np.argwhere(array_run.sites == site + 1)
        point = tuple(inside[np.abs(inside - centre).sum(axis=1).argmin()])
        layer.paint(point, number)
        expected[site] = number
        qtbot.wait(int(rng.choice([0, 0, 5, 30])))
    wait_for(qtbot, lambda: settled(running))
    click(qtbot, running.stop_button)
    wait_done(qtbot, running)
    interactive = running.session.array_run.interactive
    for site, number in expected.items():
        assert interactive.display_labels[site] == number
        assert interactive.locks[site]
    assert len(interactive.log.corrections) == 40
    agrees(running)


def test_a_stroke_in_progress_is_never_overwritten(running, qtbot):
    from qtpy.QtCore import Qt

    layer = brush(running, 60, size=8)
    native = running.viewer.window._qt_viewer.canvas.native
    qtbot.mousePress(native, Qt.MouseButton.LeftButton, pos=canvas_point(running.viewer, layer, (60, 60)))
    qtbot.mouseMove(native, canvas_point(running.viewer, layer, (60, 70)))
    qtbot.wait(50)
    painted = layer.data == 60
    assert painted.sum() > 30
    interactive = running.session.array_run.interactive
    sweep = interactive.sweep
    wait_for(qtbot, lambda: interactive.sweep > sweep + 30)  # the chain goes on behind it
    assert np.array_equal(layer.data == 60, painted)
    qtbot.mouseRelease(native, Qt.MouseButton.LeftButton, pos=canvas_point(running.viewer, layer, (60, 70)))
    wait_for(qtbot, lambda: settled(running) and len(running.session.frame.marks) == 1)


def test_a_stroke_with_the_label_that_is_there_keeps_it(done, qtbot):
    """napari says nothing of paint that changes no pixel; a person who confirms a region thinks that it is kept."""
    interactive, layer = done.session.array_run.interactive, labels_of(done)
    points = [(60, x) for x in range(78, 84, 2)]
    number = int(layer.data[60, 80])
    assert (layer.data[57:64, 75:87] == number).all()
    brush(done, number, size=2)
    done.paint_row.hint.setChecked(True)
    drag(qtbot, done.viewer, layer, points)
    qtbot.wait(100)
    assert not interactive.locks.any()
    done.paint_row.keep.setChecked(True)
    layer.cursor = "circle_frozen"  # the brush is made larger
    drag(qtbot, done.viewer, layer, points)
    layer.cursor = "circle"
    layer.selected_label = 0
    layer.data[57:64, 75:87] = 0  # where nothing is, nothing is kept
    drag(qtbot, done.viewer, layer, points)
    qtbot.wait(100)
    assert not interactive.locks.any()
    assert not interactive.log.corrections
    layer.data[57:64, 75:87] = layer.selected_label = number
    drag(qtbot, done.viewer, layer, points)
    wait_for(qtbot, lambda: settled(done) and interactive.locks.any())
    under = sites_under(done, points)
    assert interactive.locks[under].all()
    assert interactive.locks.sum() == len(np.unique(under))
    assert set(interactive.display_labels[under]) == {number}
    done.session.steps.undo()
    wait_for(qtbot, lambda: settled(done) and not interactive.locks.any())


@pytest.mark.slow
def test_undo_and_redo_with_the_keyboard(done, qtbot):
    from qtpy.QtCore import Qt

    ctrl, shift = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier
    layer = brush(done, 40)
    before = layer.data.copy()
    done.session.set_show("current")
    wait_for(qtbot, lambda: done.session.run is None and settled(done))
    before = layer.data.copy()
    drag(qtbot, done.viewer, layer, [(60, x) for x in range(40, 60, 2)])
    wait_for(qtbot, lambda: done.session.run is None and settled(done) and (layer.data == 40).any())
    after = layer.data.copy()
    press_key(qtbot, done.viewer, Qt.Key.Key_Z, ctrl)
    wait_for(qtbot, lambda: done.session.run is None and settled(done) and not (layer.data == 40).any())
    # The chain has settled again since, so that a site on the border may have changed its mind.
    assert np.mean(layer.data == before) > 0.95
    agrees(done)
    press_key(qtbot, done.viewer, Qt.Key.Key_Z, ctrl, shift)
    wait_for(qtbot, lambda: done.session.run is None and settled(done) and (layer.data == 40).any())
    assert np.mean(layer.data == after) > 0.95
    agrees(done)


def test_undo_during_a_run_brings_no_stale_pixels_back(running, qtbot):
    layer = brush(running, 70)
    running.paint_row.keep.setChecked(True)
    drag(qtbot, running.viewer, layer, [(60, x) for x in range(40, 60, 2)])
    wait_for(qtbot, lambda: settled(running) and running.session.frame.locks.any())
    wait_sweeps(qtbot, running, running.session.frame.sweep + 20)
    layer.undo()
    wait_for(qtbot, lambda: settled(running) and not running.session.frame.locks.any())
    click(qtbot, running.pause_button)
    qtbot.wait(300)  # the sweeps that are under way
    interactive = running.session.array_run.interactive
    wait_for(qtbot, lambda: settled(running) and running.session.frame.sweep == interactive.sweep)
    agrees(running)
    assert not running.session.array_run.interactive.locks.any()


@pytest.mark.slow
def test_erasing_leaves_a_site_to_the_chain(done, qtbot):
    done.paint_row.keep.setChecked(True)
    layer = brush(done, 40)
    points = [(60, x) for x in range(40, 60, 2)]
    drag(qtbot, done.viewer, layer, points)
    wait_for(
        qtbot, lambda: done.session.run is None and settled(done) and done.session.array_run.interactive.locks.any()
    )
    layer.mode = "erase"
    drag(qtbot, done.viewer, layer, points)
    wait_for(
        qtbot, lambda: done.session.run is None and settled(done) and not done.session.array_run.interactive.locks.any()
    )
    assert layer.data.min() > 0
    agrees(done)


@pytest.mark.slow
def test_fill_takes_a_region(done, qtbot):
    layer = brush(done, 44, mode="fill")
    region = int(layer.data[60, 80])
    drag(qtbot, done.viewer, layer, [(60, 80)])
    wait_for(qtbot, lambda: done.session.run is None and settled(done) and (layer.data == 44).any())
    assert layer.data[60, 80] == 44 != region
    agrees(done)


def test_lock_painted_and_lock_label(done, qtbot):
    layer = brush(done, 40)
    done.paint_row.hint.setChecked(True)
    drag(qtbot, done.viewer, layer, [(60, x) for x in range(40, 60, 2)])
    wait_for(qtbot, lambda: done.session.run is None and settled(done))
    done.seeds.unfold()
    interactive = done.session.array_run.interactive
    assert not interactive.locks.any()
    click(qtbot, done.seeds.lock_painted)
    wait_for(qtbot, lambda: done.session.run is None and settled(done) and interactive.locks.any())
    assert np.array_equal(interactive.locks, interactive.painted)
    layer.selected_label = int(interactive.display_labels[0])
    count = int(interactive.locks.sum())
    click(qtbot, done.seeds.lock_label)
    wait_for(qtbot, lambda: done.session.run is None and interactive.locks.sum() > count)
    assert interactive.locks[interactive.display_labels == interactive.display_labels[0]].all()
    held = interactive.display_labels[interactive.locks].copy()
    click(qtbot, done.run_button)
    wait_done(qtbot, done)
    assert np.array_equal(done.session.array_run.interactive.display_labels[interactive.locks], held)


def test_painting_before_the_first_run(panel, qtbot):
    image = mosaic()[0][:120, :160]
    panel.viewer.add_image(image, name="m")
    panel.form.controls["sweeps"].set_value(30)
    panel.seeds.unfold()
    panel.paint_row.keep.setChecked(True)
    panel.scroll.ensureWidgetVisible(panel.seeds.canvas)
    qtbot.wait(50)
    click(qtbot, panel.seeds.canvas)
    layer = labels_of(panel)
    assert layer.mode == "paint"
    layer.selected_label = 9
    layer.brush_size = 20
    drag(qtbot, panel.viewer, layer, [(20, 20), (20, 40)])
    assert (layer.data == 9).any()
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    interactive = panel.session.array_run.interactive
    assert interactive.locks.sum() > 3
    assert (interactive.display_labels[interactive.locks] == 9).all()
    assert layer.data[20, 30] == 9


def test_any_labels_layer_as_seeds(panel, qtbot):
    image = mosaic()[0][:120, :160]
    panel.viewer.add_image(image, name="m")
    seeds = np.zeros((120, 160), np.uint8)
    seeds[:30, :30] = 5
    seeds[-30:, -30:] = 2
    layer = panel.viewer.add_labels(seeds, name="mine")
    panel.seeds.seeds.choose(layer)
    panel.form.controls["sweeps"].set_value(40)
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    api = gsw.segment(image, seeds=seeds, sweeps=40)
    shown = labels_of(panel).data
    assert variation_of_information(shown, api.labels) == pytest.approx(0, abs=1e-9)
    assert (shown[5:20, 5:20] == 5).all()
    assert (shown[-20:-5, -20:-5] == 2).all()


@pytest.mark.slow
def test_what_the_prior_forbids_is_refused_in_a_sentence(panel, qtbot):
    panel.viewer.add_image(mosaic()[0][:120, :160], name="m")
    panel.form.controls["prior"].set_value("potts")
    panel.form.controls["K"].set_value(3)
    panel.form.controls["sweeps"].set_value(30)
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    layer = brush(panel, 40)
    before = layer.data.copy()
    panel.paint_row.hint.setChecked(True)  # a stroke that is kept may take its cluster with it
    drag(qtbot, panel.viewer, layer, [(60, x) for x in range(40, 60, 2)])
    wait_for(qtbot, lambda: panel.session.run is None and "prior forbids" in panel.reason.text())
    wait_for(qtbot, lambda: np.array_equal(layer.data, before))


@pytest.mark.slow
def test_paint_outside_the_mask_goes_away(panel, qtbot):
    viewer = panel.viewer
    viewer.add_image(mosaic()[0][:120, :160], name="m")
    viewer.add_shapes([np.array([[10, 10], [10, 80], [100, 80], [100, 10]])], name="roi")
    panel.chooser.where.choose(viewer.layers["roi"])
    panel.form.controls["sweeps"].set_value(20)
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    layer = brush(panel, 40)
    assert not layer.data[:, 100:].any()
    assert layer.data[50, 50] > 0
    drag(qtbot, viewer, layer, [(60, x) for x in range(110, 130, 2)])
    wait_for(qtbot, lambda: not (layer.data == 40).any())
    assert panel.session.array_run.interactive.log.corrections == []


@pytest.mark.slow
def test_a_stroke_as_the_run_ends_is_not_lost_to_the_next_run(done, qtbot):
    """The stroke comes too late for the errand that is just ending, and Run has been pressed meanwhile."""
    session = done.session
    interactive = session.array_run.interactive
    gate = threading.Event()
    session.submit((), lambda interactive: gate.wait())
    run = session.run
    run.worker.finished.disconnect(session._finish)  # before the errand can end: the session must not hear of it
    gate.set()
    wait_for(qtbot, lambda: not run._commands and not run.worker.is_running)
    done.run()  # queued: the errand is still there
    done.paint_row.keep.setChecked(True)
    labels_of(done).paint((60, 60), 77)
    wait_for(qtbot, lambda: len(run._commands) == 1)
    session._finish()
    wait_done(qtbot, done)
    wait_for(qtbot, lambda: settled(done))
    assert interactive.locks.any()
    assert (interactive.display_labels[interactive.locks] == 77).all()
    assert interactive.sweep >= 80
    agrees(done)


def test_a_label_is_locked_as_it_is_on_the_screen(done, qtbot):
    """The consensus is shown at rest; the newest state may be another one."""
    interactive = done.session.array_run.interactive
    consensus = interactive.shown("consensus")
    (number, *_), _ = np.unique(consensus, return_counts=True)
    other = np.where(consensus == number, consensus.max() + 5, number)
    done.session.corrections.submit(done.session.position, lambda interactive: interactive.revert_to(other))
    wait_for(qtbot, lambda: settled(done))
    wait_done(qtbot, done)
    done.session.layer_view.change_view(show="consensus")
    wait_for(qtbot, lambda: settled(done))
    interactive = done.session.array_run.interactive
    shown = interactive.shown("consensus")
    number = int(shown[0])
    done.session.corrections.lock_label(number)
    wait_for(qtbot, lambda: interactive.locks.any())
    wait_done(qtbot, done)
    np.testing.assert_array_equal(interactive.locks, shown == number)
    assert (interactive.display_labels[interactive.locks] == number).all()


def test_what_is_painted_while_the_first_run_prepares_is_taken_up(panel, qtbot, monkeypatch):
    from napari_gsw.widgets.session import run_plan

    may_go_on = threading.Event()
    made = run_plan.array_problem

    def slow(*given):
        assert may_go_on.wait(60)
        return made(*given)

    monkeypatch.setattr(run_plan, "array_problem", slow)
    panel.viewer.add_image(mosaic()[0][:120, :160], name="m")
    panel.form.controls["sweeps"].set_value(40)
    panel.seeds.canvas_wanted.emit()
    layer = labels_of(panel)
    layer.data_setitem(tuple(axis.ravel() for axis in np.mgrid[10:40, 10:40]), 5)
    click(qtbot, panel.run_button)
    wait_for(qtbot, lambda: panel.session.run is not None)
    layer.data_setitem(tuple(axis.ravel() for axis in np.mgrid[70:100, 100:140]), 6)
    may_go_on.set()
    wait_done(qtbot, panel)
    interactive = panel.session.array_run.interactive
    assert {5, 6} <= set(interactive.display_labels[interactive.painted].tolist())


@pytest.mark.slow
def test_a_setting_that_may_change_is_taken_over_although_another_waits_for_the_next_run(running, qtbot):
    interactive = running.session.array_run.interactive
    running.form.controls["beta"].set_value(2 * running.form.controls["beta"].value())
    assert "next run" in running._notice
    running.form.controls["lam"].set_value(7.5)
    wait_for(qtbot, lambda: interactive.settings.lam == 7.5)
    assert "next run" in running._notice
    assert interactive.settings.beta != running.form.controls["beta"].value()
    running.stop()
    wait_done(qtbot, running)
    provenance = labels_of(running).metadata["napari-gsw"]  # what is exported with the labels
    assert provenance["reproducible"] is False
    assert [step["what"] for step in provenance["steps"]] == ["run", "settings", "stopped"]
    assert provenance["steps"][1]["changed"]["lam"][1] == 7.5
