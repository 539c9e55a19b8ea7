"""Layers of a comparison: where segmentations differ, and which objects are missed or false."""

from __future__ import annotations

from typing import Any

import napari
import numpy as np
from napari.layers import Layer
from numpy.typing import NDArray

from napari_gsw.widgets.comparison.scoring import Comparison, ComparisonResult
from napari_gsw.widgets.layers.layer_metadata import COMPARED, Kind, get_layer_kind, get_placement, make_metadata

# Kinds that are Labels layers, and which are not offered for a comparison.
UNMATCHED: tuple[Kind, ...] = ("missed", "false")


class ComparisonLayers:
    """One layer of each kind, which later comparisons of the same layers write to again."""

    def __init__(self, viewer: napari.Viewer) -> None:
        self.viewer = viewer
        self._written: dict[Kind, Layer] = {}
        self._result: ComparisonResult | None = None
        self._comparison: Comparison | None = None

    def set_result(self, result: ComparisonResult, comparison: Comparison) -> None:
        """Show this comparison from now on."""
        self._result, self._comparison = result, comparison
        self._written.clear()

    def show(self, kind: Kind, wanted: bool) -> None:
        """Show or hide the layer of a kind, which is made when it is first wanted."""
        if self._result is None or self._comparison is None:
            return
        image: NDArray[Any] | None = getattr(self._result, kind)
        if self._written.get(kind) not in self.viewer.layers:
            self._written.pop(kind, None)
            layer = self._update(kind, image, self._comparison)
            if layer is None and wanted and image is not None:
                layer = self._add(kind, image, self._comparison)
            if layer is not None:
                self._written[kind] = layer
        if kind in self._written:
            self._written[kind].visible = wanted

    def _update(self, kind: Kind, image: NDArray[Any] | None, comparison: Comparison) -> Layer | None:
        """Write to the layer of an earlier comparison of the same layers, or remove it if the image does not fit."""
        for layer in list(self.viewer.layers):
            if get_layer_kind(layer) != kind or layer.metadata.get(COMPARED) != comparison.ids:
                continue
            if image is None or layer.data.shape != image.shape or layer.data.dtype != image.dtype:
                self.viewer.layers.remove(layer)
                return None
            layer.data[...] = image  # in place: the layer keeps its look
            for name, value in get_placement(layer).items():
                if not np.array_equal(value, comparison.placement[name]):
                    setattr(layer, name, comparison.placement[name])
            layer.refresh()
            return layer
        return None

    def _add(self, kind: Kind, image: NDArray[Any], comparison: Comparison) -> Layer:
        active = self.viewer.layers.selection.active
        look: dict[str, Any] = {"name": comparison.title(kind), **comparison.placement}
        look["metadata"] = make_metadata(kind, {COMPARED: comparison.ids})
        if kind in UNMATCHED:
            layer = self.viewer.add_labels(image, **look)
        else:
            look |= {"colormap": "magma", "blending": "additive", "contrast_limits": (0, 1)}
            layer = self.viewer.add_image(image, **look)
        if active is not None:  # a user who paints goes on in the same layer
            self.viewer.layers.selection.active = active
        return layer
