"""A worker that begins before the event loop comes round, and leaves all others as they are."""

from __future__ import annotations

import threading

import pytest

pytest.importorskip("napari")
pytest.importorskip("pytestqt")
from napari.qt.threading import WorkerBase, create_worker

from napari_gsw.widgets.kit.prompt_worker import start_at_once

pytestmark = pytest.mark.gui


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
    qtbot.waitUntil(lambda: bool(ended), timeout=20_000)
    qtbot.waitUntil(lambda: worker not in WorkerBase._worker_set, timeout=20_000)


def test_workers_after_it_begin_too(qtbot):
    """One that was started from another thread kept the timers of later ones from firing."""
    for _ in range(5):
        first, second = [], []
        one, other = (create_worker(done.append, 1, _start_thread=False) for done in (first, second))
        start_at_once(one)
        qtbot.waitUntil(lambda first=first: bool(first), timeout=20_000)
        other.start()
        qtbot.waitUntil(lambda second=second: bool(second), timeout=20_000)


def test_where_names_have_changed_the_worker_starts_itself():
    started = []

    class Other:
        def start(self):
            started.append(True)

    start_at_once(Other())
    assert started == [True]
