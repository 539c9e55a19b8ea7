"""The layers of a comparison: where segmentations differ, and which objects are missed or false."""

from __future__ import annotations

from typing import Any

import napari
from napari.layers import Layer
from numpy.typing import NDArray

from napari_gsw.widgets.comparison.scoring import Comparison, ComparisonResult, place
from napari_gsw.widgets.layers.layer_metadata import COMPARED, Kind, get_layer_kind, make_metadata

# The pictures of a comparison that are Labels layers; nobody wants to compare these again.
UNMATCHED: tuple[Kind, ...] = ("missed", "false")


class ComparisonLayers:
    """One layer for each picture of a comparison, made when it is first wanted and then written anew.

    Attributes
    ----------
    viewer : whose layers these are.
    """

    def __init__(self, viewer: napari.Viewer) -> None:
        self.viewer = viewer
        self._drawn: dict[Kind, Layer] = {}
        self._result: ComparisonResult | None = None
        self._comparison: Comparison | None = None

    def take(self, result: ComparisonResult, comparison: Comparison) -> None:
        """Draw this comparison from now on."""
        self._result, self._comparison = result, comparison
        self._drawn.clear()

    def show(self, kind: Kind, wanted: bool) -> None:
        """Show a picture, in the layer that already does so if there is one, or hide it."""
        if self._result is None or self._comparison is None:
            return
        picture: NDArray[Any] | None = getattr(self._result, kind)
        if self._drawn.get(kind) not in self.viewer.layers:
            self._drawn.pop(kind, None)
            layer = self._updated(kind, picture, self._comparison)
            if layer is None and wanted and picture is not None:
                layer = self._added(kind, picture, self._comparison)
            if layer is not None:
                self._drawn[kind] = layer
        if kind in self._drawn:
            self._drawn[kind].visible = wanted

    def _updated(self, kind: Kind, picture: NDArray[Any] | None, comparison: Comparison) -> Layer | None:
        """The layer that showed this of these layers before, now with the new picture, or None."""
        for layer in list(self.viewer.layers):
            if get_layer_kind(layer) != kind or layer.metadata.get(COMPARED) != comparison.ids:
                continue
            if picture is None or layer.data.shape != picture.shape or layer.data.dtype != picture.dtype:
                self.viewer.layers.remove(layer)
                return None
            # In place: the layer keeps its look.
            layer.data[...] = picture
            place(layer, comparison.space)
            layer.refresh()
            return layer
        return None

    def _added(self, kind: Kind, picture: NDArray[Any], comparison: Comparison) -> Layer:
        active = self.viewer.layers.selection.active
        where: dict[str, Any] = {
            "name": comparison.title(kind), "metadata": make_metadata(kind, {COMPARED: comparison.ids}), **comparison.space,
        }  # fmt: skip
        if kind in UNMATCHED:
            layer = self.viewer.add_labels(picture, **where)
        else:
            layer = self.viewer.add_image(
                picture, colormap="magma", blending="additive", contrast_limits=(0, 1), **where
            )
        if active is not None:
            # Whoever paints goes on in the layer in hand.
            self.viewer.layers.selection.active = active
        return layer
