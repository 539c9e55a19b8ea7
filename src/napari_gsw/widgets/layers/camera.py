"""Where the viewer is in a layer, and moving the view to a place in it."""

from __future__ import annotations

from typing import Any

import napari
import numpy as np
from napari.components import ViewerModel
from napari.layers import Image, Layer
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


def place_of(viewer: ViewerModel, layer: Image) -> dict[str, Any]:
    """Where the viewer is in a layer: the `step` and `corners` of a source."""
    point = np.asarray(viewer.dims.point)[-layer.ndim :]
    step = np.round(np.asarray(layer.world_to_data(point))).astype(int)
    # A layer knows the visible corners of the axes that are shown; along the others everything is visible.
    corners = np.array([np.zeros(layer.ndim), np.array(layer.data.shape[: layer.ndim]) - 1], dtype=int)
    shown = [a - viewer.dims.ndim + layer.ndim for a in viewer.dims.displayed]
    if viewer.dims.ndisplay == 2:
        # Of a pyramid they are pixels of the level on the screen.
        coarse = np.asarray(layer.downsample_factors)[layer.data_level] if layer.multiscale else np.ones(layer.ndim)
        corners[:, shown] = (np.asarray(layer.corner_pixels) * coarse[: layer.ndim]).astype(int)[:, shown]
    return {"step": tuple(step.tolist()), "corners": tuple(tuple(row) for row in corners.tolist())}
