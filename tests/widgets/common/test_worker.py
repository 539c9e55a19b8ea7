"""A worker that lets go of what it had, or that begins before the event loop comes round."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest

pytest.importorskip("napari")
pytest.importorskip("pytestqt")
from napari.qt.threading import WorkerBase, create_worker

from napari_gsw.widgets.common import worker as worker_module
from napari_gsw.widgets.common.worker import make_worker, start_at_once

pytestmark = pytest.mark.gui


class Thing:
    """Something large that work is done with."""

    def plain(self) -> int:
        return 7

    def generator(self):
        yield 3
        return 7


@pytest.mark.parametrize("way", ["plain", "generator"])
def test_napari_which_lists_every_worker_holds_nothing_of_ours_when_it_is_done(qtbot, viewer, monkeypatch, way):
    monkeypatch.setattr(worker_module, "RELEASE_DELAY", 0)
    thing, ear, heard = Thing(), Thing(), []
    gone = [weakref.ref(thing), weakref.ref(ear)]
    worker = make_worker(getattr(thing, way))
    if way == "generator":
        worker.yielded.connect(heard.append)
    worker.returned.connect(lambda result, ear=ear: heard.append(result))
    worker.finished.connect(lambda ear=ear: heard.append("finished"))
    assert any(item._cancel_callback == worker.quit for item in viewer.window._task_status_manager._tasks.values())
    worker.start()
    del worker, thing, ear
    qtbot.waitUntil(lambda: "finished" in heard, timeout=600_000)
    assert heard == ([3] if way == "generator" else []) + [7, "finished"]

    def are_gone() -> bool:
        gc.collect()
        return all(one() is None for one in gone)

    qtbot.waitUntil(are_gone, timeout=600_000)
    assert not viewer.window._task_status_manager.is_busy()


def test_it_begins_while_the_window_is_busy(qtbot):
    began, ended = threading.Event(), []
    worker = create_worker(began.set, _start_thread=False)
    worker.finished.connect(lambda: ended.append(True))

    def busy():
        start_at_once(worker)
        assert began.wait(20)  # nothing is painted, and no timer of Qt's fires, until it has
        assert not ended

    from qtpy.QtCore import QTimer

    QTimer.singleShot(0, busy)
    qtbot.waitUntil(lambda: bool(ended), timeout=600_000)
    qtbot.waitUntil(lambda: worker not in WorkerBase._worker_set, timeout=600_000)


def test_workers_after_it_begin_too(qtbot):
    """One that was started from another thread kept the timers of later ones from firing."""
    for _ in range(5):
        first, second = [], []
        one, other = (create_worker(done.append, 1, _start_thread=False) for done in (first, second))
        start_at_once(one)
        qtbot.waitUntil(lambda first=first: bool(first), timeout=600_000)
        other.start()
        qtbot.waitUntil(lambda second=second: bool(second), timeout=600_000)


def test_where_names_have_changed_the_worker_starts_itself():
    started = []

    class Other:
        def start(self):
            started.append(True)

    start_at_once(Other())
    assert started == [True]
