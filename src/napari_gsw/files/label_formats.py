"""The formats of a label image: ImageJ, plain and OME TIFF, PNG, NumPy and OME-Zarr.

Each writer gets checked labels and puts one file (or folder) where it is told; :mod:`napari_gsw.files.labels` chooses the writer and sees to it that nothing is left half written.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import imageio.v3 as iio
import numpy as np
import tifffile
from numpy.typing import ArrayLike, NDArray

from napari_gsw.core.errors import InputError
from napari_gsw.core.image.block_grid import grid_of
from napari_gsw.core.image.lazy import group_axes, is_lazy, levels, mapped, read

AXES_OF = {2: "YX", 3: "ZYX", 4: "TZYX", 5: "TCZYX"}
IMAGEJ_ORDER, OME_ORDER = "TZCYX", "TCZYX"
CLASSIC_TIFF = 2**32 - 2**25  # bytes; more need BigTIFF, which ImageJ does not read as its own
NGFF = "0.5"
# A viewer that shows a whole level at once should find one of about this many pixels along each axis.
COARSEST = 512
# Pixels of a lazy image that are written at a time.
WRITTEN = 2**22

LENGTHS = {
    "kilometer": "km",
    "meter": "m",
    "decimeter": "dm",
    "centimeter": "cm",
    "millimeter": "mm",
    "micrometer": "µm",
    "nanometer": "nm",
    "picometer": "pm",
    "angstrom": "Å",
    "inch": "in",
    "foot": "ft",
}
TIMES = {"nanosecond": "ns", "microsecond": "µs", "millisecond": "ms", "second": "s", "minute": "min", "hour": "h"}
SECONDS = {"nanosecond": 1e-9, "microsecond": 1e-6, "millisecond": 1e-3, "second": 1.0, "minute": 60.0, "hour": 3600.0}
PIXEL = "pixel"
OTHER_NAMES = {
    **{symbol: name for name, symbol in (LENGTHS | TIMES).items()},
    **dict.fromkeys(("um", "\N{GREEK SMALL LETTER MU}m", "micron", "microns"), "micrometer"),
    **dict.fromkeys(("", "px", "css_pixel", "dimensionless"), PIXEL),  # the last two are pint's
    "us": "microsecond",
    "sec": "second",
}


class Geometry(NamedTuple):
    """Where the pixels lie. The dictionaries go by the axis' letter and lack what is not known.

    Attributes
    ----------
    axes : one letter of TCZYX for each axis of the array.
    size : distance from one pixel to the next.
    unit : of that distance, by its full name: ``micrometer``, ``second``; ``pixel`` is none at all.
    origin : position of the first pixel.
    """

    axes: str
    size: Mapping[str, float] = {}
    unit: Mapping[str, str] = {}
    origin: Mapping[str, float] = {}


Writer = Callable[[NDArray[Any], Path, Geometry, str, str | None], None]


def unit_name(unit: object) -> str:
    """Full name of a unit: of a symbol, a plural, or an object whose ``str`` is a name, such as pint's.

    Examples
    --------
    >>> unit_name("µm"), unit_name("seconds"), unit_name("furlong")
    ('micrometer', 'second', 'furlong')
    """
    text = " ".join(str(unit).split())
    if text in OTHER_NAMES:
        return OTHER_NAMES[text]
    name = text.lower().replace("metre", "meter").removesuffix("s")
    return name if name in LENGTHS or name in TIMES or name == PIXEL else text


def geometry(
    ndim: int,
    axes: str | None = None,
    scale: Sequence[float] | None = None,
    units: object = None,
    translate: Sequence[float] | None = None,
) -> Geometry:
    """Check what is said of an array's axes, and sort it by axis; the parameters are those of ``write_labels``."""
    if ndim not in AXES_OF:
        raise InputError(f"labels must have 2 to 5 dimensions, not {ndim}")
    letters = AXES_OF[ndim] if axes is None else axes.upper()
    if len(letters) != ndim or len(set(letters)) != ndim or not set("YX") <= set(letters) <= set("TCZYX"):
        raise InputError(f"axes must be {ndim} different letters of TCZYX with Y and X among them, not {axes!r}")
    size = _numbers("scale", letters, scale)
    if not all(size.values()):
        raise InputError(f"scale must not be 0 along any axis, not {tuple(size.values())}")
    return Geometry(letters, size, _units(letters, units), _numbers("translate", letters, translate))


def spatial(place: Geometry, ndim: int) -> Geometry:
    """The same without all but the last `ndim` axes."""
    kept = place.axes[-ndim:]
    told: list[Any] = [{axis: value for axis, value in entry.items() if axis in kept} for entry in place[1:]]
    return Geometry(kept, *told)


def _numbers(name: str, axes: str, values: Sequence[float] | None) -> dict[str, float]:
    if values is None:
        return {}
    try:
        numbers = [float(value) for value in values]
    except (TypeError, ValueError):
        raise InputError(f"{name} must be one number for each axis, not {values!r}") from None
    if len(numbers) != len(axes) or not np.isfinite(numbers).all():
        raise InputError(f"{name} must be one finite number for each of the axes {axes}, not {tuple(numbers)}")
    return dict(zip(axes, numbers, strict=True))


def _units(axes: str, units: object) -> dict[str, str]:
    """Units by axis; a unit of time along an axis of space, or the other way round, says no more than ``pixel``."""
    if units is None:
        return {}
    if isinstance(units, str) or not isinstance(units, Sequence):
        return {axis: unit for axis, unit in _units(axes, [units] * len(axes)).items() if axis in "ZYX"}
    if len(units) != len(axes):
        raise InputError(f"units must be one for each of the axes {axes}, not {len(units)}")
    names = {axis: unit_name(unit) for axis, unit in zip(axes, units, strict=True) if axis != "C"}
    return {axis: name if (name in TIMES) == (axis == "T") else PIXEL for axis, name in names.items()}


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


def ordered(labels: NDArray[Any], axes: str, order: str) -> tuple[NDArray[Any], str]:
    """The array and its letters with the axes in the order of a format."""
    letters = "".join(letter for letter in order if letter in axes)
    if letters == axes and is_lazy(labels):
        return labels, axes
    return np.ascontiguousarray(labels.transpose([axes.index(letter) for letter in letters])), letters


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


def write_zarr(labels: NDArray[Any], path: Path, place: Geometry, name: str, made: str | None) -> None:
    """An OME-Zarr label image (NGFF 0.5): a group with the labels and, if they are large, coarser copies."""
    told: dict[str, Any] = {"image-label": {"version": NGFF}}
    _write_group(labels, path, place, name, told, {} if made is None else {"napari-gsw": json.loads(made)})


def write_values(values: NDArray[Any], path: Path, place: Geometry, name: str) -> None:
    """An OME-Zarr image of numbers such as probabilities."""
    _write_group(values, path, place, name, {}, {})


def _write_group(
    labels: NDArray[Any], path: Path, place: Geometry, name: str, ome: Mapping[str, Any], more: Mapping[str, Any]
) -> None:
    zarr = zarr_package()
    labels, axes = ordered(labels, place.axes, OME_ORDER)
    group = zarr.open_group(str(path), mode="w-", zarr_format=3)
    datasets = []
    most = 128 if "Z" in axes else 1024
    for level, (step, array) in enumerate(_levels(labels, axes)):
        chunks = tuple(min(most, n) if axis in "ZYX" else 1 for axis, n in zip(axes, array.shape, strict=True))
        stored = group.create_array(
            str(level), shape=array.shape, dtype=array.dtype, chunks=chunks, dimension_names=list(axes.lower())
        )
        _store(array, stored)
        # A pixel of a coarser level is the one at the same place of the finest: the translation is the same.
        moves: list[dict[str, Any]] = [{"type": "scale", "scale": [step[a] * place.size.get(a, 1.0) for a in axes]}]
        if place.origin:
            moves.append({"type": "translation", "translation": [place.origin[a] for a in axes]})
        datasets.append({"path": str(level), "coordinateTransformations": moves})
    image = {"name": name, "type": "nearest", "axes": [_ngff_axis(a, place) for a in axes], "datasets": datasets}
    group.attrs.update({"ome": {"version": NGFF, "multiscales": [image], **ome}, **more})


def _store(array: NDArray[Any], stored: Any) -> None:
    """Write an array into zarr's; of a lazy one a few chunks are in memory at a time."""
    if not is_lazy(array):
        stored[...] = array
        return
    grid = grid_of(array.shape, stored.chunks, WRITTEN)

    def write(part: tuple[slice, ...]) -> None:
        stored[part] = read(array, part)

    mapped(write, [(grid.inside(index),) for index in grid], lambda done: None)


def _levels(labels: NDArray[Any], axes: str) -> Iterator[tuple[dict[str, int], NDArray[Any]]]:
    """The labels, then every second pixel of them, and so on. Depth follows where it is as long as the sides are."""
    step = dict.fromkeys(axes, 1)
    while True:
        yield step, labels
        length = {axis: n for axis, n in zip(axes, labels.shape, strict=True) if axis in "ZYX"}
        if max(length.values()) <= COARSEST:
            return
        halved = {axis for axis in length if axis != "Z" or length["Z"] > COARSEST}
        labels = labels[tuple(slice(None, None, 2 if axis in halved else 1) for axis in axes)]
        step = {axis: n * (2 if axis in halved else 1) for axis, n in step.items()}


def _ngff_axis(axis: str, place: Geometry) -> dict[str, str]:
    told = {"name": axis.lower(), "type": {"T": "time", "C": "channel"}.get(axis, "space")}
    unit = place.unit.get(axis, PIXEL)
    return told if unit == PIXEL else told | {"unit": unit}  # NGFF knows no pixels: no unit says the same


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
        found = json.loads((path / "zarr.json").read_text(encoding="utf-8"))
        return found["node_type"] == "group" and "image-label" in found["attributes"]["ome"]
    except (OSError, ValueError, KeyError, TypeError):
        return False


def open_zarr(path: str | os.PathLike[str]) -> Any:
    """A zarr array, or the group of an OME-Zarr image (NGFF 0.1 to 0.5), of which nothing has been read yet."""
    return zarr_package().open(str(path), mode="r")


def read_zarr(path: Path) -> tuple[NDArray[Any], str]:
    """A zarr array, or the finest level of an OME-Zarr image, and its axes (``auto`` if unknown)."""
    node = open_zarr(path)
    try:
        finest = levels(node)[0]
    except InputError as reason:
        raise ValueError(str(reason)) from None
    letters = group_axes(node)
    return np.asarray(finest[...]), letters if letters is not None and len(letters) == finest.ndim else "auto"


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
