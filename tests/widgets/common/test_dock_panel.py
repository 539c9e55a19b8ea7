"""Docks release the viewer and end their work silently, in whatever order Qt deletes them.

An error in a slot that Qt calls fails a test by itself, as does one that Python can only print.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import pytest

from gui_actions import click, slow, wait_for, wait_sweeps
from napari_gsw.sample_data import mosaic

pytest.importorskip("napari")
pytest.importorskip("pytestqt")
pytestmark = pytest.mark.gui

WIDGETS = ("GSW segmentation", "Superpixels", "Compare segmentations")


def delete(widget):
    """Delete what is behind a Python object, as Qt does with its children."""
    import qtpy

    if qtpy.API_NAME.startswith("PyQt"):
        from qtpy import sip

        sip.delete(widget)
    else:
        import shiboken6

        shiboken6.delete(widget)


def delete_later(qtbot, widget):
    from qtpy.QtCore import QCoreApplication, QEvent

    widget.deleteLater()
    QCoreApplication.sendPostedEvents(widget, QEvent.Type.DeferredDelete)
    qtbot.wait(10)


def end(order, viewer, qtbot, dock, panel):
    """End a panel in one of the orders that happen."""
    if order == "panel deleted":
        delete(panel)
    elif order == "panel deleted later":
        delete_later(qtbot, panel)
    elif order == "dock closed":
        dock.destroyOnClose()  # what the x of the dock does
    elif order == "viewer closed":
        viewer.close()
        qtbot.wait(10)
    elif order == "panel deleted behind our back":
        panel.destroyed.disconnect(panel.connections.close)
        delete(panel)
        # napari goes on, and nobody is there to listen
        viewer.add_image(np.zeros((20, 30)), name="late")
        viewer.layers["late"].name = "later"
        viewer.cursor.position = (3, 4)
        viewer.theme = "light"
        viewer.layers.remove("later")
    elif order == "its parts deleted first":
        for child in panel.children():
            delete(child)
        delete(panel)
    panel.connections.close()
    panel.shut_down()


ORDERS = (
    "panel deleted",
    "panel deleted later",
    "dock closed",
    "viewer closed",
    "panel deleted behind our back",
    "its parts deleted first",
)


def callbacks_of_package(viewer):
    """Slots and keys of this package that a viewer calls, but for the guard of its canvas, which stays."""
    from napari_gsw.widgets.common.dock_panel import CanvasGuard

    groups = [viewer.events, viewer.layers.events, viewer.dims.events, viewer.cursor.events]
    groups += [layer.events for layer in viewer.layers]
    signals = [signal for group in groups for signal in (group, *(group[name] for name in group))]
    callbacks = [callback for signal in signals for callback in signal.callbacks]
    owners = [callback[0]() if isinstance(callback, tuple) else callback for callback in callbacks]
    owners = [owner for owner in owners if not isinstance(owner, CanvasGuard)] + list(viewer.keymap.values())
    ours = [owner for owner in owners if str(getattr(owner, "__module__", "")).startswith("napari_gsw")]
    return ours + [layer for layer in viewer.layers if {"undo", "redo"} & set(vars(layer))]


def busy_panel(viewer, qtbot, monkeypatch, name):
    """A panel in the middle of its work, with the worker that does it."""
    dock, panel = viewer.window.add_plugin_dock_widget("napari-gsw", name)
    if name == "GSW segmentation":
        panel.form.controls["sweeps"].set_value(1_000_000)
        panel.sites.choose(viewer.layers["squares"])
        click(qtbot, panel.run_button)
        wait_sweeps(qtbot, panel)
        return dock, panel, panel.session.run.worker
    if name == "Superpixels":
        panel.make()
        wait_for(qtbot, lambda: panel.worker is None and panel.layer is not None)
        panel.make()
        return dock, panel, panel.worker

    def endless(*_, report, **__):
        while True:
            report("counting sheep")
            time.sleep(0.01)

    monkeypatch.setattr("napari_gsw.widgets.comparison.scoring.compute_scores", endless)
    panel.start()
    wait_for(qtbot, lambda: panel.comparison.step == "counting sheep")
    return dock, panel, panel.comparison.worker


@pytest.fixture
def stocked(viewer):
    """A viewer with an image and two label layers."""
    y, x = np.mgrid[:120, :160] // 8
    viewer.add_image(mosaic()[0][:120, :160], name="m")
    viewer.add_labels(20 * y + x + 1, name="squares")
    viewer.add_labels(y + 1, name="rows")
    return viewer


# The two ends that happen and the hardest for the panel that runs chains; the others end by the same link.
OFTEN = ("dock closed", "viewer closed", ORDERS[-1])
ENDS = [
    (name, order) if order == ORDERS[-1] or (name == WIDGETS[0] and order in OFTEN) else slow(name, order)
    for name in WIDGETS
    for order in ORDERS
]


@pytest.mark.parametrize(("name", "order"), ENDS)
def test_closing_is_silent(stocked, qtbot, monkeypatch, name, order):
    assert callbacks_of_package(stocked) == []
    dock, panel, worker = busy_panel(stocked, qtbot, monkeypatch, name)
    assert callbacks_of_package(stocked) != []
    connections = panel.connections
    end(order, stocked, qtbot, dock, panel)
    assert not connections.is_open
    wait_for(qtbot, lambda: not worker.is_running)
    qtbot.wait(50)  # what is still on its way
    assert callbacks_of_package(stocked) == []


def test_all_endings_run_if_one_fails():
    from napari_gsw.widgets.common.dock_panel import Connections

    ended = []

    def broken():
        raise ValueError("the disk is on fire")

    connections = Connections()
    for ending in (lambda: ended.append("first"), broken, lambda: ended.append("last")):
        connections.on_close(ending)
    with pytest.raises(ValueError, match="on fire"):
        connections.close()
    assert ended == ["last", "first"]
    connections.close()
    assert len(ended) == 2


def test_slot_is_called_once_for_a_batch_of_removed_layers():
    from napari.components import LayerList
    from napari.layers import Points

    from napari_gsw.widgets.common.dock_panel import Connections

    layers, heard, connections = LayerList(), [], Connections()
    connections.connect_layers(layers.events, lambda event: heard.append((event.type, len(layers))))
    layers.extend(Points() for _ in range(6))
    assert [kind for kind, _ in heard if kind != "renamed"] == 6 * ["inserted"]
    heard.clear()
    layers.remove(layers[0])
    assert heard == [("removed", 5)]
    layers.selection = set(layers[:2])
    layers.remove_selected()
    assert heard == [("removed", 5), ("removed", 3)]
    with layers.batched_update():
        layers.clear()
        assert len(heard) == 2, "the inner batch does not end the outer one"
    assert heard[2:] == [("removed", 0)]
    with layers.batched_update():
        layers.append(Points())
        assert heard[3][0] == "inserted"
    connections.close()
    before = len(heard)
    layers.clear()
    assert len(heard) == before
    callbacks = [c for name in ("begin_batch", "end_batch", "removed") for c in layers.events[name].callbacks]
    assert not [c for c in callbacks if str(getattr(c, "__module__", "")).startswith("napari_gsw")]


@pytest.fixture
def interval():
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.005)
    yield 0.005
    sys.setswitchinterval(before)


def test_switch_interval_is_short_until_the_last_dock_closes(interval):
    from napari_gsw.widgets.common.dock_panel import SwitchInterval

    intervals = SwitchInterval()
    for change, expected in (
        (intervals.begin, intervals.SECONDS),
        (intervals.begin, intervals.SECONDS),
        (intervals.end, intervals.SECONDS),
        (intervals.end, interval),
    ):
        change()
        assert sys.getswitchinterval() == pytest.approx(expected)
    intervals.begin()
    sys.setswitchinterval(0.02)  # other code
    intervals.end()
    assert sys.getswitchinterval() == pytest.approx(0.02)


def test_dock_shortens_switch_interval(viewer, interval):
    from napari_gsw.widgets.common.dock_panel import SwitchInterval

    dock, _ = viewer.window.add_plugin_dock_widget("napari-gsw", "Table of regions")
    assert sys.getswitchinterval() == pytest.approx(SwitchInterval.SECONDS)
    dock.destroyOnClose()
    assert sys.getswitchinterval() == pytest.approx(interval)
