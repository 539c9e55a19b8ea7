"""What is under the mouse, in a sentence: size, colour, stability, neighbours of a cluster, a region or an object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import napari
import numpy as np
from napari.components import ViewerModel
from napari.layers import Image, Layer
from numpy.typing import NDArray

from napari_gsw.core.posterior.label_table import Columns

# Columns of the table of clusters that have words of their own; the others are means of channels.
KNOWN = ("index", "pixels", "area", "share", "sites", "stability", "neighbours", "locked")

# Of the table of labels: what a sentence cannot do without, what has a unit in its name, and how sure things are.
NEEDED = ("index", "pixels", "share (%)", "neighbours")
SIZES = ("area (", "volume (")
SURE = {"stability": "stability", "one_object": "one object"}


def find_label(layer: Any, position: Any) -> int:
    """The label at a position of the world, 0 where there is none."""
    value = layer.get_value(position, world=True)
    if layer.multiscale and value is not None:
        _, value = value  # (level that is shown, label)
    return int(value or 0)


def describe_cluster(table: Columns, number: int, unit: str = "") -> str:
    """A sentence about one cluster, or nothing if there is no such number."""
    rows = np.flatnonzero(table["index"] == number)
    if not rows.size:
        return ""
    row = int(rows[0])
    words = [f"Cluster {number}: {table['pixels'][row]:,} pixels ({table['share'][row]:.1f}%)"]
    if unit and table["area"][row] != table["pixels"][row]:
        words.append(f"{table['area'][row]:,.4g} {unit}")
    means = [f"{table[name][row]:,.3g}" for name in table if name not in KNOWN]
    if means:
        words.append(f"mean {' / '.join(means)}")
    if np.isfinite(table["stability"][row]):
        words.append(f"stability {table['stability'][row]:.0%}")
    if table["neighbours"][row]:
        words.append(f"next to {table['neighbours'][row].replace(' ', ', ')}")
    if table["locked"][row]:
        words.append(f"{table['locked'][row]} of {table['sites'][row]} sites locked")
    return ", ".join(words)


def describe_cluster_at(layer: Any, place: Any, table: Columns, depth: int) -> str:
    """What there is to say about the cluster under a place of the world; nothing if there is none.

    Parameters
    ----------
    table : columns of the clusters' table. depth : axes of the image's space.
    """
    number = find_label(layer, place)
    unit = f"{layer.units[-1]:~}" if str(layer.units[-1]) != "pixel" else ""
    power = "²" if depth == 2 else "³"
    return describe_cluster(table, number, f"{unit}{power}" if unit else "") if number else ""


def describe_region(row: Mapping[str, Any], kind: str) -> str:
    """A sentence about a row of the table of labels; `kind` is ``region`` or ``object``.

    >>> describe_label({"index": 3, "pixels": 1200, "share (%)": 4.2, "mean": 0.5, "neighbours": "1 2"}, "region")
    'Region 3: 1,200 pixels (4.2%), mean 0.5, next to 1, 2'
    """
    words = [f"{kind.capitalize()} {row['index']}: {row['pixels']:,} pixels ({row['share (%)']:.1f}%)"]
    words += [f"{row[name]:,.4g} {name[name.index('(') + 1 : -1]}" for name in row if name.startswith(SIZES)]
    means = [f"{row[name]:,.3g}" for name in row if name == "mean" or name.startswith("mean_")]
    words += [f"mean {' / '.join(means)}"] if means else []
    words += [f"{said} {row[name]:.0%}" for name, said in SURE.items() if name in row and np.isfinite(row[name])]
    words += [f"next to {row['neighbours'].replace(' ', ', ')}"] if row["neighbours"] else []
    return ", ".join(words)


# How many times larger what is visible is than what is looked at; a view that is right but for this factor is kept.
ROOM, ENOUGH = 2.5, 1.5


def centre_view(viewer: napari.Viewer, layer: Layer, index: tuple[Any, ...], image: NDArray[Any], value: int) -> None:
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


def get_view_position(viewer: ViewerModel, layer: Image) -> dict[str, Any]:
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
