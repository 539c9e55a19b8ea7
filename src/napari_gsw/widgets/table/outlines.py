"""The outlines of the rows that are chosen, in the picture, and the view moved to one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import napari
import numpy as np
from napari.layers import Labels
from numpy.typing import NDArray

from napari_gsw.core.posterior.label_table import Columns
from napari_gsw.widgets.layers.cursor import centre_view
from napari_gsw.widgets.layers.layer_metadata import KIND, TABLE_AXES, make_metadata
from napari_gsw.widgets.layers.lazy_labels import add_labels, make_colormap

INK = "#f28e2b"
# What puts one layer where another is.
PLACE = ("scale", "translate", "rotate", "shear", "affine", "units", "axis_labels")


def table_axes(layer: Labels) -> str:
    """A small letter for each axis of a layer with a table."""
    letters = str(layer.metadata.get(TABLE_AXES, ""))
    return letters if len(letters) == layer.ndim else "tczyx"[-layer.ndim :]


def row_index(layer: Labels, columns: Columns, row: int) -> tuple[Any, ...]:
    """Where the box of a row's label lies in the layer's array: a number or a slice for each axis."""
    index: list[Any] = []
    for axis, letter in enumerate(table_axes(layer)):
        if f"first_{letter}" in columns:
            index.append(slice(int(columns[f"first_{letter}"][row]), int(columns[f"end_{letter}"][row])))
        elif letter in columns:
            index.append(int(columns[letter][row]))
        else:
            index.append(0 if layer.data.shape[axis] == 1 else slice(None))
    return tuple(index)


def go_to_row(viewer: napari.Viewer, layer: Labels, columns: Columns, row: int) -> None:
    """Move the view to the label of a row."""
    index = row_index(layer, columns, row)
    inside = np.asarray(layer.data[index]) == columns["index"][row]
    if inside.any():
        image = np.zeros([layer.data.shape[a] for a, part in enumerate(index) if isinstance(part, slice)], np.uint8)
        image[tuple(part for part in index if isinstance(part, slice))] = inside
        centre_view(viewer, layer, tuple(slice(None) if isinstance(p, slice) else p for p in index), image, 1)


def find_row(layer: Labels, columns: Columns, position: Sequence[float]) -> int | None:
    """The row of the label at a position of the world; None if there is none."""
    number = layer.get_value(position, world=True)
    if not number or layer.multiscale:
        return None
    fits = columns["index"] == int(number)
    place = np.round(np.asarray(layer.world_to_data(np.asarray(position)[-layer.ndim :]))).astype(int)
    for axis, letter in enumerate(table_axes(layer)):
        if letter in columns:
            fits &= columns[letter] == place[axis]
    rows = np.flatnonzero(fits)
    return int(rows[0]) if len(rows) else None


def chosen_image(layer: Labels, columns: Columns, rows: NDArray[np.integer]) -> NDArray[np.uint8]:
    """1 where a label of one of the rows is, in an array of the layer's shape."""
    image = np.zeros(layer.data.shape, np.uint8)
    for row in rows:
        index = row_index(layer, columns, int(row))
        image[index] |= np.asarray(layer.data[index]) == columns["index"][row]
    return image


class ChosenOutlines:
    """The layer with the outlines; it is there as long as something is chosen, and never selected."""

    def __init__(self, viewer: napari.Viewer) -> None:
        self.viewer = viewer
        self.layer: Labels | None = None
        self._place: Mapping[str, Any] = {}

    def show(self, layer: Labels | None, columns: Columns, rows: NDArray[np.integer]) -> None:
        """Outline the labels of some rows; none of them takes the outlines away."""
        if layer is None or not len(rows) or layer.multiscale:
            self.remove()
            return
        image = chosen_image(layer, columns, rows)
        place = {name: getattr(layer, name) for name in PLACE}
        shown = self.layer if self.layer in self.viewer.layers else None
        if shown is None or shown.data.shape != image.shape or str(place) != str(self._place):
            self.remove()
            self._place = place
            active = self.viewer.layers.selection.active
            self.layer = add_labels(
                self.viewer, image, name=f"{layer.name} chosen", metadata=make_metadata("chosen"), **place
            )
            self.layer.contour = 3
            self.layer.colormap = make_colormap(INK)
            self.layer.editable = False
            if active is not None:
                self.viewer.layers.selection.active = active
        else:
            shown.data[...] = image
            shown.refresh(thumbnail=False, extent=False, highlight=False)

    def remove(self) -> None:
        """Take the outlines away."""
        layer, self.layer = self.layer, None
        if layer is not None and layer in self.viewer.layers:
            self.viewer.layers.remove(layer)


def has_table(layer: Any) -> bool:
    """Whether a layer's features are a table of its labels."""
    return isinstance(layer, Labels) and layer.metadata.get(KIND) != "chosen" and "index" in layer.features.columns
