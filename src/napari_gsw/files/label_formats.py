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
from napari_gsw.files.geometry import IMAGEJ_ORDER, LENGTHS, OME_ORDER, PIXEL, SECONDS, TIMES, Geometry, ordered
from napari_gsw.files.zarr_files import write_zarr

CLASSIC_TIFF = 2**32 - 2**25  # bytes; more need BigTIFF, which ImageJ does not read as its own


Writer = Callable[[NDArray[Any], Path, Geometry, str, str | None], None]


def narrowed(labels: ArrayLike) -> NDArray[Any]:
    """The labels as uint8 or uint16 if they are, otherwise as the smallest unsigned type that holds them.

    Lazy ones stay as they are: to know the largest would mean to compute them all.
    """
    if is_lazy(labels):
        lazily: Any = labels
        if lazily.dtype.kind != "u":
            raise InputError(f"lazy labels must be of an unsigned type, not {lazily.dtype}")
        return cast(NDArray[Any], lazily)
    array = np.asarray(labels)
    if array.dtype.kind not in "bui":
        raise InputError(f"labels must be whole numbers, not {array.dtype}")
    if array.size == 0:
        raise InputError(f"labels must not be empty: their shape is {array.shape}")
    if array.dtype.kind == "u" and array.dtype.itemsize <= 2:
        return array.astype(array.dtype.newbyteorder("="), copy=False)
    if array.min() < 0:
        raise InputError(f"labels must be numbers >= 0, not {array.min()}")
    wanted = np.min_scalar_type(int(array.max()))
    return array.astype(wanted.name, copy=False)  # by its name: numpy has two types of 64 bits, zarr knows one


def stem(name: str | os.PathLike[str]) -> str:
    """Name of a file without what tells its format.

    Examples
    --------
    >>> stem("cells.ome.tif"), stem("cells.v2.png")
    ('cells', 'cells.v2')
    """
    return re.sub(r"(?<=.)\.ome$", "", Path(name).stem, flags=re.IGNORECASE)


def write_tiff(labels: NDArray[Any], path: Path, place: Geometry, name: str, made: str | None) -> None:
    """An ImageJ hyperstack; what ImageJ cannot hold (32 bits, more than 4 GB) as a plain TIFF that tells the same."""
    labels, axes = ordered(labels, place.axes, IMAGEJ_ORDER)
    told: dict[str, Any] = {"axes": axes, **_imagej_calibration(place)}
    size = {axis: abs(length) for axis, length in place.size.items()}
    resolution = (1 / size["X"], 1 / size["Y"]) if size else None
    options: dict[str, Any] = {"photometric": "minisblack", "resolution": resolution, "resolutionunit": 1}  # 1: none
    if labels.dtype.itemsize <= 2 and labels.nbytes <= CLASSIC_TIFF:
        if made is not None:
            told["Info"] = made
        tifffile.imwrite(path, labels, imagej=True, metadata=told, **options)
        return
    _must_fit_32_bits(labels, "TIFF")
    if made is not None:
        told["provenance"] = json.loads(made)
    big = labels.nbytes > CLASSIC_TIFF
    tifffile.imwrite(path, labels, metadata=told, compression="zlib", bigtiff=big, **options)


def _imagej_calibration(place: Geometry) -> dict[str, Any]:
    """Entries of ImageJ's description. Without a unit it would not look at the resolution."""
    told: dict[str, Any] = {}
    if place.size or place.unit:
        for key, axis in (("unit", "X"), ("yunit", "Y"), ("zunit", "Z")):
            if axis in place.axes:
                told[key] = _imagej_unit(place.unit.get(axis, PIXEL))
        told = {key: unit for key, unit in told.items() if key == "unit" or unit != told["unit"]}
    if "Z" in place.size:
        told["spacing"] = abs(place.size["Z"])
    if "T" in place.size and (unit := place.unit.get("T", "second")) in SECONDS:
        told["finterval"] = abs(place.size["T"]) * SECONDS[unit]
    for axis, start in place.origin.items():
        if axis in "ZYX" and start:  # ImageJ's origin is the pixel at position 0
            told[f"{axis.lower()}origin"] = -start / abs(place.size.get(axis, 1.0))
    return told


def _imagej_unit(name: str) -> str:
    symbol = {"micrometer": "um"}.get(name, LENGTHS.get(name, name))
    return symbol if symbol.isascii() else name.encode("ascii", "replace").decode()  # the description is ASCII


def write_ome_tiff(labels: NDArray[Any], path: Path, place: Geometry, name: str, made: str | None) -> None:
    """OME-TIFF with the physical size of a pixel, the name, and the provenance as the image's description."""
    _must_fit_32_bits(labels, "OME-TIFF")
    labels, axes = ordered(labels, place.axes, OME_ORDER)
    told: dict[str, Any] = {"axes": axes, "Name": "".join(c for c in name if c.isprintable())}
    for axis in "XYZ":
        if axis in place.size:
            unit = place.unit.get(axis, PIXEL)
            told[f"PhysicalSize{axis}"] = abs(place.size[axis])
            told[f"PhysicalSize{axis}Unit"] = LENGTHS.get(unit, PIXEL if unit == PIXEL else "reference frame")
    if "T" in place.size and (unit := place.unit.get("T", "second")) in TIMES:
        told |= {"TimeIncrement": abs(place.size["T"]), "TimeIncrementUnit": TIMES[unit]}
    if made is not None:
        told["Description"] = made
    big = labels.nbytes > CLASSIC_TIFF
    tifffile.imwrite(path, labels, ome=True, metadata=told, photometric="minisblack", compression="zlib", bigtiff=big)


def _must_fit_32_bits(labels: NDArray[Any], format: str) -> None:
    if labels.dtype.itemsize > 4:
        raise InputError(f"{format} holds labels up to 4294967295, not {labels.max()}; write .npy or .zarr")


def write_png(labels: NDArray[Any], path: Path, place: Geometry, name: str, made: str | None) -> None:
    iio.imwrite(path, ordered(labels, place.axes, "YX")[0], extension=".png")


def write_npy(labels: NDArray[Any], path: Path, place: Geometry, name: str, made: str | None) -> None:
    with path.open("wb") as file:  # given a name, np.save would add .npy to one that ends in .NPY
        np.save(file, labels, allow_pickle=False)


# The longer ending of two comes first.
FORMATS: Mapping[str, Writer] = {
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
    for ending, chosen in FORMATS.items():
        if path.name.lower().endswith(ending) and len(path.name) > len(ending):
            return chosen
    raise InputError(f"labels are written as {', '.join(FORMATS)}, not as {path.name!r}; choose one of these endings")
