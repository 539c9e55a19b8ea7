"""A worker that lets go of what it had."""

from __future__ import annotations

import gc
import weakref

import pytest

pytest.importorskip("napari")
pytest.importorskip("pytestqt")
from napari_gsw.widgets.common import worker as worker_module
from napari_gsw.widgets.common.worker import make_worker

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
