"""OME-Zarr in and out: label images and images of numbers, with coarser levels; and what others have stored."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.errors import InputError
from napari_gsw.core.image.block_grid import make_grid
from napari_gsw.core.image.lazy import is_lazy, list_levels, map_blocks, read, read_group_axes
from napari_gsw.files.geometry import PIXEL, Geometry, reorder_axes
from napari_gsw.files.untrusted import check_promise, stored_size

NGFF = "0.5"
OME_ORDER = "TCZYX"
# A viewer that shows a whole level at once should find one of about this many pixels along each axis.
COARSEST = 512
# Pixels of a lazy image that are written at a time.
WRITTEN_PIXELS = 2**22


def write_zarr(labels: NDArray[Any], path: Path, place: Geometry, name: str, provenance: str | None) -> None:
    """An OME-Zarr label image (NGFF 0.5): a group with the labels and, if they are large, coarser copies.

    Parameters
    ----------
    labels : 2D to 5D of an unsigned type; may be lazy.
    path : a folder that is not there yet.
    place : axes of the labels, and where their pixels lie.
    name : of the image.
    provenance : what made the labels, as JSON.
    """
    attributes = {} if provenance is None else {"napari-gsw": json.loads(provenance)}
    _write_group(labels, path, place, name, {"image-label": {"version": NGFF}}, attributes)


def write_values(values: NDArray[Any], path: Path, place: Geometry, name: str) -> None:
    """An OME-Zarr image of numbers such as probabilities; the parameters are those of :func:`write_zarr`."""
    _write_group(values, path, place, name, {}, {})


def zarr_package() -> Any:
    """The zarr package, which only these files need."""
    try:
        import zarr
    except ImportError:
        raise InputError('zarr files need a package that is missing; try: pip install "napari-gsw[batch]"') from None
    return zarr


def is_zarr(path: str | os.PathLike[str]) -> bool:
    """Whether a folder is a zarr group or array, of format 2 or 3."""
    return any(os.path.isfile(os.path.join(path, name)) for name in ("zarr.json", ".zgroup", ".zarray"))


def is_label_zarr(path: Path) -> bool:
    """Whether a folder is an OME-Zarr label image such as :func:`write_zarr` makes."""
    try:
        node = json.loads((path / "zarr.json").read_text(encoding="utf-8"))
        return node["node_type"] == "group" and "image-label" in node["attributes"]["ome"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


def open_zarr(path: str | os.PathLike[str]) -> Any:
    """A zarr array, or the group of an OME-Zarr image (NGFF 0.1 to 0.5), of which nothing has been read yet."""
    return zarr_package().open(str(path), mode="r")


def read_zarr(path: Path) -> tuple[NDArray[Any], str]:
    """A zarr array, or the finest level of an OME-Zarr image, all of it, and its axes (``auto`` if unknown)."""
    node = open_zarr(path)
    try:
        finest = list_levels(node)[0]
    except InputError as reason:
        raise ValueError(str(reason)) from None
    check_promise(math.prod(finest.shape) * finest.dtype.itemsize, stored_size(path))
    letters = read_group_axes(node)
    return np.asarray(finest[...]), letters if letters is not None and len(letters) == finest.ndim else "auto"


def _write_group(
    values: NDArray[Any], path: Path, place: Geometry, name: str, ome: Mapping[str, Any], attributes: Mapping[str, Any]
) -> None:
    """A group with all levels; `ome` are further entries of its OME attributes, `attributes` stand beside them."""
    zarr = zarr_package()
    values, axes = reorder_axes(values, place.axes, OME_ORDER)
    group = zarr.open_group(str(path), mode="w-", zarr_format=3)
    datasets = []
    most = 128 if "Z" in axes else 1024
    for level, (step, array) in enumerate(_pyramid(values, axes)):
        chunks = tuple(min(most, n) if axis in "ZYX" else 1 for axis, n in zip(axes, array.shape, strict=True))
        zarr_array = group.create_array(
            str(level), shape=array.shape, dtype=array.dtype, chunks=chunks, dimension_names=list(axes.lower())
        )
        _store(array, zarr_array)
        # A pixel of a coarser level is the one at the same place of the finest: the translation is the same.
        moves: list[dict[str, Any]] = [{"type": "scale", "scale": [step[a] * place.size.get(a, 1.0) for a in axes]}]
        if place.origin:
            moves.append({"type": "translation", "translation": [place.origin[a] for a in axes]})
        datasets.append({"path": str(level), "coordinateTransformations": moves})
    image = {"name": name, "type": "nearest", "axes": [_ngff_axis(a, place) for a in axes], "datasets": datasets}
    group.attrs.update({"ome": {"version": NGFF, "multiscales": [image], **ome}, **attributes})


def _store(array: NDArray[Any], zarr_array: Any) -> None:
    """Write an array into zarr's; of a lazy one a few chunks are in memory at a time."""
    if not is_lazy(array):
        zarr_array[...] = array
        return
    grid = make_grid(array.shape, zarr_array.chunks, WRITTEN_PIXELS)

    def write(part: tuple[slice, ...]) -> None:
        zarr_array[part] = read(array, part)

    map_blocks(write, [(grid.inside(index),) for index in grid], lambda done: None)


def _pyramid(values: NDArray[Any], axes: str) -> Iterator[tuple[dict[str, int], NDArray[Any]]]:
    """The values, then every second pixel of them, and so on. Depth follows where it is as long as the sides are."""
    step = dict.fromkeys(axes, 1)
    while True:
        yield step, values
        length = {axis: n for axis, n in zip(axes, values.shape, strict=True) if axis in "ZYX"}
        if max(length.values()) <= COARSEST:
            return
        halved = {axis for axis in length if axis != "Z" or length["Z"] > COARSEST}
        values = values[tuple(slice(None, None, 2 if axis in halved else 1) for axis in axes)]
        step = {axis: n * (2 if axis in halved else 1) for axis, n in step.items()}


def _ngff_axis(axis: str, place: Geometry) -> dict[str, str]:
    entry = {"name": axis.lower(), "type": {"T": "time", "C": "channel"}.get(axis, "space")}
    unit = place.unit.get(axis, PIXEL)
    return entry if unit == PIXEL else entry | {"unit": unit}  # NGFF knows no pixels: no unit says the same
