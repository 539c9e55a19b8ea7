"""Fixtures for the widgets in a real window."""

from __future__ import annotations

import pytest


@pytest.fixture
def viewer(make_napari_viewer):
    """A viewer on the screen; after the test every worker has ended."""
    from napari.qt.threading import WorkerBase

    made = make_napari_viewer(show=True)
    made.window.resize(1200, 800)
    yield made
    WorkerBase.await_workers(20_000)


@pytest.fixture
def panel(viewer):
    """The docked GSW segmentation widget."""
    _, widget = viewer.window.add_plugin_dock_widget("napari-gsw", "GSW segmentation")
    yield widget
    widget.shut_down()
