"""Preparation of a dock that is open before Run is pressed."""

from __future__ import annotations

import threading

import pytest

pytest.importorskip("napari")
pytest.importorskip("pytestqt")
pytestmark = pytest.mark.gui


@pytest.fixture
def background(monkeypatch):
    """A warming up that is over when it is told to."""
    from napari_gsw.widgets.session import session

    class Slow:
        is_running, calls = True, []

        def begin(self):
            self.calls.append("begin")

        def end(self):
            self.calls.append("end")

    monkeypatch.setattr(session, "BACKGROUND", Slow())
    return session.BACKGROUND


def test_what_the_first_autosave_needs_is_imported_after_compiling_and_beside_the_window(
    background, monkeypatch, qtbot
):
    from napari_gsw.widgets.common.dock_panel import Connections
    from napari_gsw.widgets.session import session

    imported, connections = [], Connections()
    monkeypatch.setattr(session, "_import_for_autosaves", lambda: imported.append(threading.current_thread()))
    warmth = session.KernelWarmUp(connections)
    qtbot.wait(2 * session.POLL_MS)
    assert imported == []
    background.is_running = False
    qtbot.waitUntil(lambda: bool(imported), timeout=5000)
    assert imported[0] is not threading.main_thread()
    qtbot.wait(2 * session.POLL_MS)
    assert len(imported) == 1
    connections.close()
    assert background.calls == ["begin", "end"]
    assert not warmth._timer.isActive()
