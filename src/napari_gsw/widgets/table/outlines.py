"""Rows of a table and their labels in the image: outlines of the chosen rows, and the way to a label and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import napari
import numpy as np
import pandas as pd
from napari.layers import Labels
from numpy.typing import NDArray

from napari_gsw.widgets.layers.cursor import centre_view
from napari_gsw.widgets.layers.layer_metadata import KIND, TABLE_AXES, get_placement, make_metadata
from napari_gsw.widgets.layers.lazy_labels import add_labels, make_colormap

OUTLINE_COLOUR = "#f28e2b"


def has_table(layer: Any) -> bool:
    """Return whether the features of a layer are a table of its labels."""
    return isinstance(layer, Labels) and layer.metadata.get(KIND) != "chosen" and "index" in layer.features.columns


def _table_axes(layer: Labels) -> str:
    axes = str(layer.metadata.get(TABLE_AXES, ""))
    return axes if len(axes) == layer.ndim else "tczyx"[-layer.ndim :]


def _find_box(layer: Labels, table: pd.DataFrame, row: int) -> tuple[Any, ...]:
    """Return the index of the bounding box of a row's label: a number or a slice for each axis."""
    index: list[Any] = []
    for axis, letter in enumerate(_table_axes(layer)):
        if f"first_{letter}" in table:
            index.append(slice(int(table[f"first_{letter}"].iat[row]), int(table[f"end_{letter}"].iat[row])))
        elif letter in table:
            index.append(int(table[letter].iat[row]))
        else:
            index.append(0 if layer.data.shape[axis] == 1 else slice(None))
    return tuple(index)


def go_to_row(viewer: napari.Viewer, layer: Labels, table: pd.DataFrame, row: int) -> None:
    """Move the view to the label of a row."""
    index = _find_box(layer, table, row)
    mask = np.asarray(layer.data[index]) == table["index"].iat[row]
    if mask.any():
        centre_view(viewer, layer, index, mask, True)


def find_row(layer: Labels, table: pd.DataFrame, position: Sequence[float]) -> int | None:
    """Return the row of the label at a position of the world, or None."""
    number = layer.get_value(position, world=True)
    if not number or layer.multiscale:
        return None
    fits = np.asarray(table["index"]) == int(number)
    pixel = np.round(np.asarray(layer.world_to_data(np.asarray(position)[-layer.ndim :]))).astype(int)
    for axis, letter in enumerate(_table_axes(layer)):
        if letter in table:
            fits &= np.asarray(table[letter]) == pixel[axis]
    rows = np.flatnonzero(fits)
    return int(rows[0]) if len(rows) else None


class ChosenOutlines:
    """Layer with the outlines of the chosen rows, while there are any; never selected."""

    def __init__(self, viewer: napari.Viewer) -> None:
        self.viewer = viewer
        self.layer: Labels | None = None
        self._placement = ""

    def show(self, layer: Labels | None, table: pd.DataFrame, rows: NDArray[np.integer]) -> None:
        if layer is None or not len(rows) or layer.multiscale:
            self.remove()
            return
        image = np.zeros(layer.data.shape, np.uint8)
        for row in rows:
            index = _find_box(layer, table, int(row))
            image[index] |= np.asarray(layer.data[index]) == table["index"].iat[row]
        placement = get_placement(layer)
        shown = self.layer if self.layer in self.viewer.layers else None
        if shown is not None and shown.data.shape == image.shape and str(placement) == self._placement:
            shown.data[...] = image
            shown.refresh(thumbnail=False, extent=False, highlight=False)
            return
        self.remove()
        self._placement = str(placement)
        look: dict[str, Any] = {"name": f"{layer.name} chosen", "metadata": make_metadata("chosen"), "contour": 3}
        look |= {"colormap": make_colormap(OUTLINE_COLOUR), **placement}
        self.layer = add_labels(self.viewer, image, select=False, **look)
        self.layer.editable = False

    def remove(self) -> None:
        layer, self.layer = self.layer, None
        if layer is not None and layer in self.viewer.layers:
            self.viewer.layers.remove(layer)
