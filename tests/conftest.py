"""Fixtures for the widgets in a real window."""

from __future__ import annotations

import gc

import pytest


@pytest.fixture(scope="session")
def compiled():
    """Every kernel is compiled before the first window opens, however long that takes.

    napari collects all garbage whenever a layer goes. What stays for good it need not look at each time.
    """

    import napari_gsw
    import napari_gsw.widgets.panel.panel

    napari_gsw.warm_up()
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
    if not {"viewer", "panel", "make_napari_viewer"} & set(request.fixturenames):
        return None
    from napari_gsw.widgets.panel import session_section
    from napari_gsw.widgets.session import autosaves

    folder = tmp_path_factory.mktemp("autosaves")
    recent = []
    monkeypatch.setattr(autosaves, "autosave_folder", lambda: folder)
    monkeypatch.setattr(session_section, "recent", lambda: recent)
    monkeypatch.setattr(session_section, "remember", recent.append)
    return folder
