"""Text about the label under the mouse, and the place of the viewer in a layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import napari
import numpy as np
from napari.components import ViewerModel
from napari.layers import Image, Layer
from numpy.typing import NDArray

from napari_gsw.core.posterior.region_table import Columns

# Columns of the table of clusters; the others are means of channels.
KNOWN = ("index", "pixels", "area", "share", "sites", "stability", "neighbours", "locked")
# Columns of the table of labels that its text needs, and the beginnings of those with a unit in their names.
NEEDED = ("index", "pixels", "share (%)", "neighbours")
SIZES = ("area (", "volume (")
# Ratio of the view to the object in it, and the ratio of views that are as good as each other.
VIEW_RATIO, ZOOM_TOLERANCE = 2.5, 1.5


def find_label(layer: Any, position: Any) -> int:
    """Return the label at a position of the world, 0 where there is none."""
    value = layer.get_value(position, world=True)
    if layer.multiscale and value is not None:
        _, value = value  # (displayed level, label)
    return int(value or 0)


def describe_cluster_at(layer: Any, position: Any, table: Columns, depth: int) -> str:
    """Describe the cluster at a position of the world by the table of clusters, of images with `depth` axes."""
    number = find_label(layer, position)
    rows = np.flatnonzero(table["index"] == number)
    if not number or not rows.size:
        return ""
    cluster = {name: column[rows[0]] for name, column in table.items()}
    row = {"share (%)": cluster["share"]}
    row |= {name: cluster[name] for name in ("index", "pixels", "stability", "neighbours")}
    if str(layer.units[-1]) != "pixel" and cluster["area"] != cluster["pixels"]:
        row[f"area ({layer.units[-1]:~}{'²' if depth == 2 else '³'})"] = cluster["area"]
    row |= {f"mean_{name}": value for name, value in cluster.items() if name not in KNOWN}
    locked = f", {cluster['locked']} of {cluster['sites']} sites locked" if cluster["locked"] else ""
    return describe_region(row, "cluster") + locked


def describe_region(row: Mapping[str, Any], kind: str) -> str:
    """Describe a row of the table of labels; `kind` is ``region``, ``object`` or ``cluster``.

    >>> describe_region({"index": 3, "pixels": 1200, "share (%)": 4.2, "mean": 0.5, "neighbours": "1 2"}, "region")
    'Region 3: 1,200 pixels (4.2%), mean 0.5, next to 1, 2'
    """
    facts = [f"{kind.capitalize()} {row['index']}: {row['pixels']:,} pixels ({row['share (%)']:.1f}%)"]
    facts += [f"{row[name]:,.4g} {name[name.index('(') + 1 : -1]}" for name in row if name.startswith(SIZES)]
    if means := [f"{row[name]:,.3g}" for name in row if name == "mean" or name.startswith("mean_")]:
        facts.append(f"mean {' / '.join(means)}")
    for name, text in (("stability", "stability"), ("one_object", "one object")):
        if name in row and np.isfinite(row[name]):
            facts.append(f"{text} {row[name]:.0%}")
    if row["neighbours"]:
        facts.append(f"next to {row['neighbours'].replace(' ', ', ')}")
    return ", ".join(facts)


def centre_view(viewer: napari.Viewer, layer: Layer, index: tuple[Any, ...], image: NDArray[Any], value: int) -> None:
    """Display a part of a layer in the middle of the canvas, at a size that can be judged.

    The part is where an image is not 0, which lies at an index of the layer's array; pixels of `value` are its middle.
    """
    pixels = np.argwhere(image == value)
    centre = pixels[np.argmin(((pixels - pixels.mean(axis=0)) ** 2).sum(axis=1))]
    pixel = np.array(index, dtype=object)
    sliced = [isinstance(entry, slice) for entry in index]
    pixel[sliced] = centre + [part.start or 0 for part in index if isinstance(part, slice)]
    world = np.asarray(layer.data_to_world(pixel.astype(float)))
    first = viewer.dims.ndim - layer.ndim  # a layer has the last axes of the viewer
    displayed = [axis - first for axis in viewer.dims.displayed if axis >= first]
    for axis in range(layer.ndim):
        if axis not in displayed:
            viewer.dims.set_point(axis + first, world[axis])
    camera = viewer.scene.camera
    camera_centre = list(camera.center)
    camera_centre[-len(displayed) :] = world[displayed]
    if viewer.dims.ndisplay == 2:
        size = np.zeros(layer.ndim)
        size[sliced] = np.ptp(np.argwhere(image != 0), axis=0) + 1
        visible = np.ptp(layer.corner_pixels, axis=0) + 1
        if (visible[displayed] >= np.array(layer.data.shape)[displayed]).all():  # may be much smaller than the canvas
            viewer.reset_view()
        factor = float(np.min(visible[displayed] / (VIEW_RATIO * np.maximum(size[displayed], 1))))
        if factor > ZOOM_TOLERANCE or factor < 1 / ZOOM_TOLERANCE:
            camera.zoom *= factor
    camera.center = tuple(camera_centre)


def get_view_position(viewer: ViewerModel, layer: Image) -> dict[str, Any]:
    """Return where the viewer is in a layer: `step` and `corners` of an image source."""
    point = np.asarray(viewer.dims.point)[-layer.ndim :]
    step = np.round(np.asarray(layer.world_to_data(point))).astype(int)
    # A layer knows the visible corners along the displayed axes; along the others everything is visible.
    corners = np.array([np.zeros(layer.ndim), np.array(layer.data.shape[: layer.ndim]) - 1], dtype=int)
    displayed = [a - viewer.dims.ndim + layer.ndim for a in viewer.dims.displayed]
    if viewer.dims.ndisplay == 2:
        # Those of a pyramid are pixels of the displayed level.
        factors = np.asarray(layer.downsample_factors)[layer.data_level] if layer.multiscale else np.ones(layer.ndim)
        corners[:, displayed] = (np.asarray(layer.corner_pixels) * factors[: layer.ndim]).astype(int)[:, displayed]
    return {"step": tuple(step.tolist()), "corners": tuple(tuple(row) for row in corners.tolist())}
