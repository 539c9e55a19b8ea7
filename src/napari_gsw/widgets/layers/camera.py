"""Moving the view to a place in a layer."""

from __future__ import annotations

from typing import Any

import napari
import numpy as np
from napari.layers import Layer
from numpy.typing import NDArray

# How many times larger what is visible is than what is looked at; a view that is right but for this factor is kept.
ROOM, ENOUGH = 2.5, 1.5


def look_at(viewer: napari.Viewer, layer: Layer, index: tuple[Any, ...], image: NDArray[Any], value: int) -> None:
    """Show a part of a layer: the slice of it, in the middle of the canvas, at a size that it can be judged at.

    Parameters
    ----------
    index : where the image lies in the layer's array, a number or a slice for each axis.
    image : (\\*shape,) what is looked at is not 0.
    value : of the pixels that are to be in the middle.
    """
    middle = np.argwhere(image == value)
    place = middle[np.argmin(((middle - middle.mean(axis=0)) ** 2).sum(axis=1))]
    pixel = np.array(index, dtype=object)
    inner = [isinstance(entry, slice) for entry in index]
    pixel[inner] = place
    world = np.asarray(layer.data_to_world(pixel.astype(float)))
    first = viewer.dims.ndim - layer.ndim  # a layer has the last axes of the viewer
    shown = [axis for axis in viewer.dims.displayed if axis >= first]
    for axis in range(layer.ndim):
        if axis + first not in shown:
            viewer.dims.set_point(axis + first, world[axis])
    camera = viewer.scene.camera
    centre = list(camera.center)
    centre[-len(shown) :] = [world[axis - first] for axis in shown]
    if viewer.dims.ndisplay == 2:
        extent = np.argwhere(image != 0)
        size = np.zeros(layer.ndim)
        size[inner] = np.ptp(extent, axis=0) + 1
        flat = [axis - first for axis in shown]
        seen = np.ptp(layer.corner_pixels, axis=0) + 1
        if (seen[flat] >= np.array(layer.data.shape)[flat]).all():  # it may be much smaller than the canvas
            viewer.reset_view()
        factor = float(np.min(seen[flat] / (ROOM * np.maximum(size[flat], 1))))
        if factor > ENOUGH or factor < 1 / ENOUGH:
            camera.zoom *= factor
    camera.center = tuple(centre)
