"""The layer of a preview: coarse labels where the image is, until there are better ones."""

from __future__ import annotations

from typing import Any

import napari
import numpy as np
from napari.layers import Labels
from napari.utils.transforms import Affine

from napari_gsw.core.pipeline.preview import Preview
from napari_gsw.widgets.common.preferences import get_preference
from napari_gsw.widgets.layers.image_source import ImageSource, Position
from napari_gsw.widgets.layers.layer_metadata import make_metadata
from napari_gsw.widgets.layers.lazy_labels import add_labels


class PreviewLayer:
    """At most one layer, never selected.

    Attributes
    ----------
    preview : what is shown, or None.
    """

    def __init__(self, viewer: napari.Viewer) -> None:
        self.viewer = viewer
        self.preview: Preview | None = None
        self._layer: Labels | None = None

    def show(self, source: ImageSource, position: Position, preview: Preview) -> None:
        """Show labels of a coarse copy of an array of a source, instead of any others."""
        self.remove()
        index = source.index(position)
        shape = list(source.label_shape)
        for axis, length in zip(_sliced(index), preview.labels.shape, strict=True):
            shape[axis] = length
        data = np.zeros(shape, np.uint16)
        data[index] = preview.labels
        active = self.viewer.layers.selection.active
        self._layer = add_labels(
            self.viewer,
            data,
            name=f"{source.layer.name} [preview]",
            metadata=make_metadata("preview"),
            opacity=float(get_preference("opacity")),
            **make_coarse_geometry(source, _sliced(index), preview.step),
        )
        self._layer.editable = False
        if active is not None and active in self.viewer.layers:
            self.viewer.layers.selection.active = active
        self.preview = preview

    def remove(self) -> None:
        """Take it off the screen, if it is there."""
        layer, self._layer, self.preview = self._layer, None, None
        if layer is not None and layer in self.viewer.layers:
            self.viewer.layers.remove(layer)


def make_coarse_geometry(source: ImageSource, axes: list[int], step: int) -> dict[str, Any]:
    """Keywords that put a layer whose pixels are `step` of a source along some axes where the source is."""
    place = source.geometry()
    offset, scale = np.zeros(len(place["scale"])), np.array(place["scale"], dtype=float)
    offset[axes] = (step - 1) / 2  # the middle of the first block
    turn = {name: place[name] for name in ("rotate", "shear") if name in place}
    shift = np.asarray(Affine(scale=scale, **turn).linear_matrix) @ offset
    scale[axes] *= step
    return {**place, "scale": scale, "translate": np.asarray(place["translate"]) + shift}


def _sliced(index: tuple[Any, ...]) -> list[int]:
    return [axis for axis, part in enumerate(index) if isinstance(part, slice)]
