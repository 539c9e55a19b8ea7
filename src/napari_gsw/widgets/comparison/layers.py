"""Layers of a comparison: where segmentations differ, and which objects are missed or false."""

from __future__ import annotations

from typing import Any

import napari
import numpy as np
from numpy.typing import NDArray

from napari_gsw.widgets.comparison.scoring import Comparison
from napari_gsw.widgets.layers.layer_metadata import COMPARED, Kind, get_layer_kind, get_placement, make_metadata

# Kinds that are Labels layers, and which are not offered for a comparison.
UNMATCHED: tuple[Kind, ...] = ("missed", "false")


def show_result(
    viewer: napari.Viewer, comparison: Comparison, kind: Kind, image: NDArray[Any] | None, wanted: bool, is_new: bool
) -> None:
    """Show or hide the layer of a kind. It is made when it is first wanted, and a new result is written to it."""
    for layer in list(viewer.layers):
        if get_layer_kind(layer) != kind or layer.metadata.get(COMPARED) != comparison.ids:
            continue
        if image is None or layer.data.shape != image.shape or layer.data.dtype != image.dtype:
            viewer.layers.remove(layer)
            break
        if is_new:
            layer.data[...] = image  # in place: the layer keeps its look
            for name, value in get_placement(layer).items():
                if not np.array_equal(value, comparison.placement[name]):
                    setattr(layer, name, comparison.placement[name])
            layer.refresh()
        layer.visible = wanted
        return
    if image is None or not wanted:
        return
    active = viewer.layers.selection.active
    look: dict[str, Any] = {"name": comparison.title(kind), **comparison.placement}
    look["metadata"] = make_metadata(kind, {COMPARED: comparison.ids})
    if kind in UNMATCHED:
        viewer.add_labels(image, **look)
    else:
        viewer.add_image(image, colormap="magma", blending="additive", contrast_limits=(0, 1), **look)
    if active is not None:  # a user who paints goes on in the same layer
        viewer.layers.selection.active = active
