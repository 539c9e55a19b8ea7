"""The formats of a label image: ImageJ, plain and OME TIFF, PNG, NumPy and OME-Zarr.

Each writer gets checked labels and puts one file (or folder) where it is told; :mod:`napari_gsw.files.labels` chooses
the writer and sees to it that nothing is left half written.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import imageio.v3 as iio
import numpy as np
import tifffile
from numpy.typing import ArrayLike, NDArray

from napari_gsw.core.errors import InputError
from napari_gsw.core.image.lazy import is_lazy
from napari_gsw.files.geometry import LENGTHS, PIXEL, TIMES, Geometry, reorder_axes
from napari_gsw.files.zarr_io import OME_ORDER, is_label_zarr, write_zarr

CLASSIC_TIFF = 2**32 - 2**25  # bytes; more need BigTIFF, which ImageJ does not read as its own
IMAGEJ_ORDER = "TZCYX"
# ImageJ tells the time between two frames in seconds.
SECONDS = {"nanosecond": 1e-9, "microsecond": 1e-6, "millisecond": 1e-3, "second": 1.0, "minute": 60.0, "hour": 3600.0}

# Labels as `narrowed` gives them, path, geometry, name of the image, and what made the labels as JSON.
Writer = Callable[[NDArray[Any], Path, Geometry, str, str | None], None]


def cast_labels(labels: ArrayLike) -> NDArray[Any]:
    """Labels of the type they are written in.

    Parameters
    ----------
    labels : whole numbers >= 0 of any shape but an empty one. Lazy ones must be of an unsigned type, and stay as they
        are: to know the largest would mean to compute them all.

    Returns
    -------
    An array of the same shape: uint8 or uint16 if the labels are, otherwise the smallest unsigned type that holds them.
    """
    if is_lazy(labels):
        lazy_labels: Any = labels
        if lazy_labels.dtype.kind != "u":
            raise InputError(f"lazy labels must be of an unsigned type, not {lazy_labels.dtype}")
        return cast(NDArray[Any], lazy_labels)
    array = np.asarray(labels)
    if array.dtype.kind not in "bui":
        raise InputError(f"labels must be whole numbers, not {array.dtype}")
    if array.size == 0:
        raise InputError(f"labels must not be empty: their shape is {array.shape}")
    if array.dtype.kind == "u" and array.dtype.itemsize <= 2:
        return array.astype(array.dtype.newbyteorder("="), copy=False)
    if array.min() < 0:
        raise InputError(f"labels must be numbers >= 0, not {array.min()}")
    smallest = np.min_scalar_type(int(array.max()))
    return array.astype(smallest.name, copy=False)  # by its name: numpy has two types of 64 bits, zarr knows one


def base_name(name: str | os.PathLike[str]) -> str:
    """Name of a file without what tells its format.

    Examples
    --------
    >>> stem("cells.ome.tif"), stem("cells.v2.png")
    ('cells', 'cells.v2')
    """
    return re.sub(r"(?<=.)\.ome$", "", Path(name).stem, flags=re.IGNORECASE)


def sibling_name(labels_name: str, name: str) -> str:
    """Name of a file beside the labels: ``trace.csv`` for ``labels.tif``, ``mine.trace.csv`` for ``mine.tif``."""
    prefix = base_name(labels_name)
    return name if prefix == "labels" else f"{prefix}.{name}"


def write_tiff(labels: NDArray[Any], path: Path, place: Geometry, name: str, provenance: str | None) -> None:
    """An ImageJ hyperstack, of labels or of values in single precision.

    What ImageJ cannot hold (labels of 32 bits, more than 4 GB) is a plain TIFF that tells the same.
    """
    labels, axes = reorder_axes(labels, place.axes, IMAGEJ_ORDER)
    metadata: dict[str, Any] = {"axes": axes, **_imagej_calibration(place)}
    size = {axis: abs(length) for axis, length in place.size.items()}
    resolution = (1 / size["X"], 1 / size["Y"]) if size else None
    options: dict[str, Any] = {"photometric": "minisblack", "resolution": resolution, "resolutionunit": 1}  # 1: none
    if (labels.dtype.itemsize <= 2 or labels.dtype == np.float32) and labels.nbytes <= CLASSIC_TIFF:
        if provenance is not None:
            metadata["Info"] = provenance
        tifffile.imwrite(path, labels, imagej=True, metadata=metadata, **options)
        return
    _must_fit_32_bits(labels, "TIFF")
    if provenance is not None:
        metadata["provenance"] = json.loads(provenance)
    big = labels.nbytes > CLASSIC_TIFF
    tifffile.imwrite(path, labels, metadata=metadata, compression="zlib", bigtiff=big, **options)


def _imagej_calibration(place: Geometry) -> dict[str, Any]:
    """Entries of ImageJ's description. Without a unit it would not look at the resolution."""
    entries: dict[str, Any] = {}
    if place.size or place.unit:
        for key, axis in (("unit", "X"), ("yunit", "Y"), ("zunit", "Z")):
            if axis in place.axes:
                entries[key] = _imagej_unit(place.unit.get(axis, PIXEL))
        entries = {key: unit for key, unit in entries.items() if key == "unit" or unit != entries["unit"]}
    if "Z" in place.size:
        entries["spacing"] = abs(place.size["Z"])
    if "T" in place.size and (unit := place.unit.get("T", "second")) in SECONDS:
        entries["finterval"] = abs(place.size["T"]) * SECONDS[unit]
    for axis, start in place.origin.items():
        if axis in "ZYX" and start:  # ImageJ's origin is the pixel at position 0
            entries[f"{axis.lower()}origin"] = -start / abs(place.size.get(axis, 1.0))
    return entries


def _imagej_unit(name: str) -> str:
    symbol = {"micrometer": "um"}.get(name, LENGTHS.get(name, name))
    return symbol if symbol.isascii() else name.encode("ascii", "replace").decode()  # the description is ASCII


def write_ome_tiff(labels: NDArray[Any], path: Path, place: Geometry, name: str, provenance: str | None) -> None:
    """OME-TIFF with the physical size of a pixel, the name, and the provenance as the image's description."""
    _must_fit_32_bits(labels, "OME-TIFF")
    labels, axes = reorder_axes(labels, place.axes, OME_ORDER)
    metadata: dict[str, Any] = {"axes": axes, "Name": "".join(c for c in name if c.isprintable())}
    for axis in "XYZ":
        if axis in place.size:
            unit = place.unit.get(axis, PIXEL)
            metadata[f"PhysicalSize{axis}"] = abs(place.size[axis])
            metadata[f"PhysicalSize{axis}Unit"] = LENGTHS.get(unit, PIXEL if unit == PIXEL else "reference frame")
    if "T" in place.size and (unit := place.unit.get("T", "second")) in TIMES:
        metadata |= {"TimeIncrement": abs(place.size["T"]), "TimeIncrementUnit": TIMES[unit]}
    if provenance is not None:
        metadata["Description"] = provenance
    tifffile.imwrite(
        path, labels, ome=True, metadata=metadata, photometric="minisblack", compression="zlib",
        bigtiff=labels.nbytes > CLASSIC_TIFF,
    )  # fmt: skip


def _must_fit_32_bits(labels: NDArray[Any], format: str) -> None:
    if labels.dtype.itemsize > 4:
        raise InputError(f"{format} holds labels up to 4294967295, not {labels.max()}; write .npy or .zarr")


def write_png(labels: NDArray[Any], path: Path, place: Geometry, name: str, provenance: str | None) -> None:
    """The numbers alone, two dimensions of at most 16 bits."""
    # As bytes first: a picture library that meets a full disk says something else.
    path.write_bytes(iio.imwrite("<bytes>", reorder_axes(labels, place.axes, "YX")[0], extension=".png"))


def write_npy(labels: NDArray[Any], path: Path, place: Geometry, name: str, provenance: str | None) -> None:
    """The numbers alone, with the axes as they are."""
    with path.open("wb") as file:  # given a name, np.save would add .npy to one that ends in .NPY
        np.save(file, labels, allow_pickle=False)


# By the ending of a file's name; the longer ending of two comes first.
WRITERS: Mapping[str, Writer] = {
    ".ome.tif": write_ome_tiff,
    ".ome.tiff": write_ome_tiff,
    ".tif": write_tiff,
    ".tiff": write_tiff,
    ".png": write_png,
    ".npy": write_npy,
    ".zarr": write_zarr,  # also .ome.zarr
}


def writer(path: Path) -> Writer:
    """The writer that a file's name asks for."""
    for ending, format_writer in WRITERS.items():
        if path.name.lower().endswith(ending) and len(path.name) > len(ending):
            return format_writer
    raise InputError(f"labels are written as {', '.join(WRITERS)}, not as {path.name!r}; choose one of these endings")


def check_target(path: Path) -> None:
    """Refuse a name of no known format, and a folder that holds something else than a label image."""
    if writer(path) is not write_zarr:
        if os.path.isdir(path):
            raise InputError(f"{str(path)!r} is a folder; name a file for the labels")
    elif os.path.lexists(path) and not is_label_zarr(path):
        raise InputError(f"{str(path)!r} is there already and is no label image of OME-Zarr; choose another name")
