"""Fixtures for the widgets in a real window."""

from __future__ import annotations

import gc

import pytest

# Numba makes millions of objects that stay: looking for cycles after every 700 takes a fifteenth of its time.
gc.set_threshold(50_000)


def needs_window(request):
    return bool({"viewer", "panel", "make_napari_viewer"} & set(request.fixturenames))


@pytest.fixture(scope="session")
def compiled():
    """Every kernel is compiled before the first window opens, however long that takes."""

    import napari_gsw

    napari_gsw.warm_up()


@pytest.fixture(autouse=True)
def nothing_of_before_to_collect(request):
    """napari collects all garbage whenever a layer goes, and leaves some thousand things behind with every viewer.

    What is there before a test is there for good: it need not be looked at each time.
    """
    if needs_window(request):
        gc.collect()
        gc.freeze()


@pytest.fixture
def viewer(compiled, make_napari_viewer):
    """A viewer on the screen; after the test every worker has ended."""
    from napari.qt.threading import WorkerBase

    shown = make_napari_viewer(show=True)
    shown.window.resize(1200, 800)
    yield shown
    WorkerBase.await_workers(20_000)


@pytest.fixture
def panel(viewer):
    """The docked GSW segmentation widget."""
    _, widget = viewer.window.add_plugin_dock_widget("napari-gsw", "GSW segmentation")
    yield widget
    widget.shut_down()


@pytest.fixture(autouse=True)
def own_autosaves(request, tmp_path_factory, monkeypatch):
    """No test of the window writes into the user's folders, or finds what another one has left there."""
    if not needs_window(request):
        return None
    from napari_gsw.widgets.panel import session_section as sessions
    from napari_gsw.widgets.session import autosave

    folder = tmp_path_factory.mktemp("autosaves")
    recent = []
    monkeypatch.setattr(autosave, "autosave_folder", lambda: folder)
    monkeypatch.setattr(sessions, "recent", lambda: recent)
    monkeypatch.setattr(sessions, "remember", recent.append)
    return folder
