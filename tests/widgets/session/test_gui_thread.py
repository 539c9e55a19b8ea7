"""The GUI thread never waits for the chain, nor the chain for the GUI thread, however long either of them takes."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from gui_actions import click, wait_done, wait_for, wait_sweeps
from napari_gsw.sample_data import mosaic

pytest.importorskip("napari")
pytest.importorskip("pytestqt")
pytestmark = pytest.mark.gui


@pytest.fixture
def running(panel, qtbot):
    """A panel whose chain goes on and on."""
    panel.viewer.add_image(mosaic()[0][:120, :160], name="m")
    panel.form.controls["sweeps"].set_value(30_000_000)
    click(qtbot, panel.run_button)
    wait_sweeps(qtbot, panel, 5)
    return panel


def without_events(condition):
    """Wait on the GUI thread for something that the worker does, without looking at an event."""
    end = time.monotonic() + 100
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


class HeldWorker:
    """Keeps the worker of a run inside an order until it may go on.

    A slot that waits for the worker would wait until the worker has given up, and find it gone.
    """

    def __init__(self, panel, qtbot):
        self.inside, self.go_on, self.gone = threading.Event(), threading.Event(), threading.Event()

        def order(interactive):
            self.inside.set()
            self.go_on.wait(timeout=100)
            self.gone.set()

        panel.session.submit((), order)
        wait_for(qtbot, self.inside.is_set)


@pytest.fixture
def held(running, qtbot):
    worker = HeldWorker(running, qtbot)
    yield worker
    worker.go_on.set()


def test_no_slot_waits_for_the_worker(running, held, qtbot, tmp_path, monkeypatch):
    """Everything that a person can do during a run, while the worker is at a standstill."""
    from napari_gsw.widgets.session.run_worker import RunController

    def impatient(self):
        raise AssertionError("a slot waits for the worker, if only for a while")

    viewer, session = running.viewer, running.session
    layer = session.segmentation.layers.labels
    actions = {
        "tick": session._tick,
        "pause": running.pause,
        "step": running.step,
        "resume": running.pause,
        "paint": lambda: layer.paint((60, 60), 77),
        "undo": layer.undo,
        "redo": layer.redo,
        "lock": session.corrections.lock_painted,
        "unlock": session.corrections.unlock,
        "show the best state": lambda: session.set_show("best"),
        "look back": lambda: session.layer_view.view_sweep(2),
        "look ahead": session.layer_view.show_current,
        "pictures": lambda: session.layer_view.change_view(wanted=frozenset({"boundary", "entropy", "regions"})),
        "outlines of the superpixels": lambda: running.display.show_sites.setChecked(True),
        "point at a region": lambda: setattr(viewer.cursor, "position", (50, 50)),
        "a setting that may change": lambda: running.form.controls["regroups"].set_value(2),
        "a setting that may not": lambda: running.form.controls["alpha"].set_value(3.0),
        "another image": lambda: viewer.add_image(np.zeros((30, 30)), name="other"),
        "another name": lambda: setattr(layer, "name", "renamed"),
        "another theme": lambda: setattr(viewer, "theme", "light"),
        "save the trace": lambda: running.export.save_trace(tmp_path / "trace.csv"),
        "refresh": running._refresh,
        "stop": running.stop,
    }
    with monkeypatch.context() as patch:
        patch.setattr(RunController, "end", impatient)
        for name, action in actions.items():
            action()
            qtbot.wait(1)  # what the action has set going in the event loop
            assert not held.gone.is_set(), name
            assert session.run.worker.is_running, name
    held.go_on.set()
    wait_done(qtbot, running)


def test_preparation_is_not_waited_for(panel, qtbot, monkeypatch):
    from napari_gsw.widgets.session import run_plan

    inside, go_on, gone = threading.Event(), threading.Event(), threading.Event()
    prepare = run_plan.prepare

    def held(*given, **named):
        inside.set()
        go_on.wait(timeout=100)
        gone.set()
        return prepare(*given, **named)

    monkeypatch.setattr(run_plan, "prepare", held)
    panel.viewer.add_image(mosaic()[0][:120, :160], name="m")
    panel.form.controls["sweeps"].set_value(20)
    panel.run()
    assert not gone.is_set()
    wait_for(qtbot, inside.is_set)
    for action in (panel.pause, panel.step, panel.pause, panel.session._tick, panel._refresh, panel.stop):
        action()
        assert not gone.is_set()
    go_on.set()
    wait_for(qtbot, lambda: panel.session.run is None)


def test_frames_that_nobody_looked_at_are_dropped(running, qtbot, monkeypatch):
    """The worker leaves frame after frame while the GUI thread does something else: the newest alone is drawn."""
    from napari_gsw.widgets.layers.result_layers import ResultLayers

    session, run = running.session, running.session.run
    array_run, interactive = session.array_run, session.array_run.interactive
    # Sweeps go on, and no frame is made for nobody, while the GUI thread does not come back to its events.
    without_events(lambda: not run.frame_wanted)  # the one that was asked for before is under way
    sweep = interactive.sweep
    without_events(lambda: interactive.sweep > sweep)  # and done
    frame, sweep = array_run.frame, interactive.sweep
    without_events(lambda: interactive.sweep > sweep + 50)
    assert array_run.frame is frame

    frames, drawn = [], []
    show_labels = ResultLayers.show_labels

    def counted(self, position, labels):
        drawn.append(labels)
        show_labels(self, position, labels)

    monkeypatch.setattr(ResultLayers, "show_labels", counted)

    def twenty_frames():
        run.frame_wanted = True
        if not frames or array_run.frame is not frames[-1]:
            frames.append(array_run.frame)
        return len(frames) == 20

    without_events(twenty_frames)
    assert drawn == []
    run.pause()
    without_events(lambda: not run._stale and interactive.sweep == array_run.frame.sweep)  # what it came to rest at
    time.sleep(0.2)  # Pause may have come between two sweeps, which leave a frame each
    session.layer_view.collect()
    newest = session.frame
    assert session.layer_view.draw()
    assert [labels is newest.labels for labels in drawn] == [True]
    assert not session.layer_view.draw()  # nothing is left in a queue
    run.resume()


def test_pause_takes_effect_at_the_next_sweep(running, monkeypatch):
    """However many sweeps an advance was to make: dozens came after Pause was taken."""
    run, interactive = running.session.run, running.session.array_run.interactive
    advance, sweeps = interactive.ensemble.advance, []

    def paused_meanwhile(most):
        before = interactive.sweep
        interactive.ensemble._size = most = 50
        run.pause()
        snapshots = advance(most)
        sweeps.append(snapshots[0].sweep - before)
        return snapshots

    monkeypatch.setattr(interactive.ensemble, "advance", paused_meanwhile)
    without_events(lambda: sweeps and not run._stale)
    assert sweeps == [1]
    monkeypatch.undo()
    run.resume()
    without_events(lambda: interactive.sweep > 100)  # and it goes on as before


def test_a_large_picture_is_drawn_in_parts_and_all_of_it(panel, qtbot, monkeypatch):
    """The window answers between them: labels, regions and locks of 64 million pixels at once froze it for seconds."""
    from napari_gsw.widgets.session import layer_view

    monkeypatch.setattr(layer_view, "AT_ONCE", 10)
    left = []
    panel.session._timer.timeout.connect(lambda: left.append(len(panel.session.layer_view._parts)))
    panel.viewer.add_image(mosaic()[0][:120, :160], name="m")
    panel.form.controls["sweeps"].set_value(40)
    panel.display.layer_boxes["regions"].setChecked(True)
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    layer = panel.session.segmentation.layers.labels
    layer.paint((60, 60), 77)
    session = panel.session
    wait_for(qtbot, lambda: session.run is None and session.segmentation.layers.locks is not None)
    view = session.layer_view
    wait_for(qtbot, lambda: view.drawn[()] is session.frame and not view._parts)
    frame = session.frame
    assert max(left) >= 1  # events in which something was drawn and something was left for the next
    assert np.array_equal(layer.data, frame.labels)
    assert np.array_equal(session.segmentation.layers.regions.data, frame.regions)
    assert np.array_equal(session.segmentation.layers.locks.data, frame.locked)


def test_sweeps_go_on_until_somebody_wants_something(running):
    """No other Python runs while a window is painted: a chain that came to rest meanwhile would have to wait."""
    from napari_gsw.widgets.session.run_worker import SWEEP_FOR

    run, interactive = running.session.run, running.session.array_run.interactive
    stop = interactive.ensemble.chains[0].stop
    assert interactive.ensemble.interval == SWEEP_FOR
    run.pause()
    without_events(lambda: not run._stale)
    stop[0] = run.frame_wanted = False
    run._frame_due = time.monotonic() + 600  # the last one took long to paint
    run.want_frame()
    assert not run.frame_wanted
    run._frame_due = 0.0
    run.want_frame()
    assert run.frame_wanted
    assert stop[0]
    stop[0] = False
    run.want_frame()  # which it knows
    assert not stop[0]
    run.submit((), lambda interactive: None)
    assert stop[0]
    run.resume()


def test_a_frame_is_asked_for_after_a_picture_was_painted_and_not_before(running, monkeypatch):
    session, run, asked = running.session, running.session.run, []
    session._timer.stop()
    monkeypatch.setattr(run, "want_frame", lambda: asked.append(session._rate.painted))
    session._rate._next = session._text_due = 0.0
    session._rate._drawn_at = None
    session._tick()  # the words have their turn
    assert asked == []
    assert session._rate.painted
    session._tick()
    assert asked[0] is True
    session._timer.start()


@pytest.mark.parametrize(("chains", "steps"), [(1, 0), (3, 1)])
def test_threads_step_back_where_they_take_all_cores(running, monkeypatch, chains, steps):
    from napari_gsw.widgets.session import run_worker as module

    stepped = []
    monkeypatch.setattr(module, "count_cores", lambda: 2)
    monkeypatch.setattr(module, "lower_priority", lambda: stepped.append(None))
    run, interactive = running.session.run, running.session.array_run.interactive
    monkeypatch.setattr(interactive.ensemble, "chains", interactive.ensemble.chains * chains)
    run._begin_thread()
    monkeypatch.undo()
    assert len(stepped) == steps


def test_a_live_picture_leaves_the_list_of_layers_alone(running, qtbot):
    """napari paints a row of its list for whatever a layer tells, and Qt the whole window with it."""
    viewer, layers = running.viewer, running.session.segmentation.layers
    model = viewer.window._qt_viewer.layers.model().sourceModel()
    changed, shown = [], []
    model.dataChanged.connect(lambda *_: changed.append(None))
    layers.labels.events.set_data.connect(lambda event: shown.append(None))
    picture = np.roll(np.array(layers.labels.data), 3)
    running.pause()
    layers.show_labels((), picture)
    assert shown
    assert np.array_equal(np.asarray(layers.labels._slice.image.raw), picture)
    assert changed == []
    layers.labels.name = "renamed"
    assert changed
