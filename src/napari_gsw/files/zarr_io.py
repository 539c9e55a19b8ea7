"""Label images and images as OME-Zarr with coarser levels."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from napari_gsw.core.image.block_grid import make_grid
from napari_gsw.core.image.lazy import is_lazy, map_blocks, read
from napari_gsw.files.geometry import PIXEL, Geometry, reorder_axes

NGFF = "0.5"
OME_ORDER = "TCZYX"
# The coarsest level has about this many pixels along each axis, for viewers that show a whole level.
COARSEST = 512
# Pixels of a lazy image that are written at a time.
WRITTEN_PIXELS = 2**22


def is_zarr(path: str | os.PathLike[str]) -> bool:
    """Return whether a folder is a zarr group or array, of format 2 or 3."""
    return any(os.path.isfile(os.path.join(path, name)) for name in ("zarr.json", ".zgroup", ".zarray"))


def is_label_zarr(path: Path) -> bool:
    """Return whether a folder is a label image such as :func:`write_zarr` makes."""
    try:
        node = json.loads((path / "zarr.json").read_text(encoding="utf-8"))
        return node["node_type"] == "group" and "image-label" in node["attributes"]["ome"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


def write_zarr(labels: NDArray[Any], path: Path, geometry: Geometry, name: str, provenance: str | None) -> None:
    """Write unsigned labels, which may be lazy, as an OME-Zarr label image (NGFF 0.5)."""
    attributes = {} if provenance is None else {"napari-gsw": json.loads(provenance)}
    write_values(labels, path, geometry, name, {"image-label": {"version": NGFF}}, attributes)


def write_values(
    values: NDArray[Any],
    path: Path,
    geometry: Geometry,
    name: str,
    ome: Mapping[str, Any] | None = None,
    attributes: Mapping[str, Any] | None = None,
) -> None:
    """Write numbers such as probabilities, which may be lazy, as an OME-Zarr image with more attributes."""
    import zarr

    values, axes = reorder_axes(values, geometry.axes, OME_ORDER)
    group = zarr.open_group(str(path), mode="w-", zarr_format=3)
    datasets = []
    max_chunk = 128 if "Z" in axes else 1024
    for level, (step, array) in enumerate(_iter_levels(values, axes)):
        chunks = tuple(min(max_chunk, n) if axis in "ZYX" else 1 for axis, n in zip(axes, array.shape, strict=True))
        stored = group.create_array(
            str(level), shape=array.shape, dtype=array.dtype, chunks=chunks, dimension_names=list(axes.lower())
        )
        _store(array, stored)
        # A pixel of a coarser level is a pixel of the finest one: the translation is the same.
        scale = [step[axis] * geometry.size.get(axis, 1.0) for axis in axes]
        transforms: list[dict[str, Any]] = [{"type": "scale", "scale": scale}]
        if geometry.origin:
            transforms.append({"type": "translation", "translation": [geometry.origin[axis] for axis in axes]})
        datasets.append({"path": str(level), "coordinateTransformations": transforms})
    described = [{"name": axis.lower(), "type": {"T": "time", "C": "channel"}.get(axis, "space")} for axis in axes]
    for axis, entry in zip(axes, described, strict=True):
        if (unit := geometry.unit.get(axis, PIXEL)) != PIXEL:  # NGFF has no pixels: no unit means the same
            entry["unit"] = unit
    image = {"name": name, "type": "nearest", "axes": described, "datasets": datasets}
    group.attrs.update({"ome": {"version": NGFF, "multiscales": [image], **(ome or {})}, **(attributes or {})})


def _store(array: NDArray[Any], stored: Any) -> None:
    if not is_lazy(array):
        stored[...] = array
        return

    def write(part: tuple[slice, ...]) -> None:
        stored[part] = read(array, part)

    grid = make_grid(array.shape, stored.chunks, WRITTEN_PIXELS)
    map_blocks(write, [(grid.inside(index),) for index in grid], lambda done: None)


def _iter_levels(values: NDArray[Any], axes: str) -> Iterator[tuple[dict[str, int], NDArray[Any]]]:
    """Yield the values, every second pixel of them, and so on; depth is halved only where it exceeds `COARSEST`."""
    step = dict.fromkeys(axes, 1)
    while True:
        yield step, values
        length = {axis: n for axis, n in zip(axes, values.shape, strict=True) if axis in "ZYX"}
        if max(length.values()) <= COARSEST:
            return
        factor = {axis: 2 if axis in length and (axis != "Z" or length["Z"] > COARSEST) else 1 for axis in axes}
        values = values[tuple(slice(None, None, factor[axis]) for axis in axes)]
        step = {axis: n * factor[axis] for axis, n in step.items()}
