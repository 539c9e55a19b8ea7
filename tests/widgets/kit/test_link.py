"""Ties to napari's list of layers."""

from __future__ import annotations

import pytest

pytest.importorskip("napari")


def test_of_layers_that_go_together_a_slot_hears_once():
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
        assert len(heard) == 2, "a batch in a batch ends with it"
    assert heard[2:] == [("removed", 0)]
    with layers.batched_update():
        layers.append(Points())
        assert heard[3][0] == "inserted", "what comes is heard of at once"
    connections.close()
    before = len(heard)
    layers.clear()
    assert len(heard) == before
    events = layers.events
    assert not any(
        "Removals" in repr(callback) for e in (events.begin_batch, events.end_batch) for callback in e.callbacks
    )
