"""Axes, pixel size, units and position of images and label images."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.errors import InputError
from napari_gsw.core.image.lazy import is_lazy
from napari_gsw.core.image.spacing import SAME_SPACING, normalize_spacing, parse_spacing

# Axes of an array whose axes have no names.
DEFAULT_AXES = {2: "YX", 3: "ZYX", 4: "TZYX", 5: "TCZYX"}
# Symbols of units by name; `PIXEL` is no unit.
LENGTHS = {
    "kilometer": "km", "meter": "m", "decimeter": "dm", "centimeter": "cm", "millimeter": "mm", "micrometer": "µm",
    "nanometer": "nm", "picometer": "pm", "angstrom": "Å", "inch": "in", "foot": "ft",
}  # fmt: skip
TIMES = {"nanosecond": "ns", "microsecond": "µs", "millisecond": "ms", "second": "s", "minute": "min", "hour": "h"}
PIXEL = "pixel"
UNIT_NAMES = {
    **{symbol: name for name, symbol in (LENGTHS | TIMES).items()},
    **dict.fromkeys(("um", "\N{GREEK SMALL LETTER MU}m", "micron", "microns"), "micrometer"),
    **dict.fromkeys(("", "px", "css_pixel", "dimensionless"), PIXEL),  # the last two are pint's
    "us": "microsecond",
    "sec": "second",
}
MICROMETERS = {
    "picometer": 1e-6, "angstrom": 1e-4, "nanometer": 1e-3, "micrometer": 1.0, "millimeter": 1e3, "centimeter": 1e4,
    "decimeter": 1e5, "meter": 1e6, "kilometer": 1e9, "inch": 25_400.0, "foot": 304_800.0,
}  # fmt: skip


class Geometry(NamedTuple):
    """Axes of an array, and by axis the pixel size, its unit by name, and the position of the first pixel.

    What is unknown is missing from the mappings.
    """

    axes: str
    size: Mapping[str, float] = {}
    unit: Mapping[str, str] = {}
    origin: Mapping[str, float] = {}


UNKNOWN = Geometry("")


def make_geometry(
    ndim: int,
    axes: str | None = None,
    scale: Sequence[float] | None = None,
    units: object = None,
    translate: Sequence[float] | None = None,
) -> Geometry:
    """Check the arguments of :func:`napari_gsw.files.labels.write_labels` and sort them by axis."""
    if ndim not in DEFAULT_AXES:
        raise InputError(f"labels must have 2 to 5 dimensions, not {ndim}")
    letters = DEFAULT_AXES[ndim] if axes is None else axes.upper()
    if len(letters) != ndim or len(set(letters)) != ndim or not set("YX") <= set(letters) <= set("TCZYX"):
        raise InputError(f"axes must be {ndim} different letters of TCZYX with Y and X among them, not {axes!r}")

    def by_axis(name: str, values: Sequence[float]) -> dict[str, float]:
        try:
            numbers = [float(value) for value in values]
        except (TypeError, ValueError):
            raise InputError(f"{name} must be one number for each axis, not {values!r}") from None
        if len(numbers) != ndim or not np.isfinite(numbers).all():
            raise InputError(f"{name} must be one finite number for each of the axes {letters}, not {tuple(numbers)}")
        return dict(zip(letters, numbers, strict=True))

    size = {} if scale is None else by_axis("scale", scale)
    if not all(size.values()):
        raise InputError(f"scale must not be 0 along any axis, not {tuple(size.values())}")
    origin = {} if translate is None else by_axis("translate", translate)
    if isinstance(units, str) or not isinstance(units, Sequence):
        units = [units if axis in "ZYX" else None for axis in letters]
    if len(units) != ndim:
        raise InputError(f"units must be one for each of the axes {letters}, not {len(units)}")
    names = {a: normalize_unit(unit) for a, unit in zip(letters, units, strict=True) if a != "C" and unit is not None}
    # A unit of time along an axis of space, or the reverse, means nothing.
    names = {axis: name if (name in TIMES) == (axis == "T") else PIXEL for axis, name in names.items()}
    return Geometry(letters, size, names, origin)


def normalize_unit(unit: object) -> str:
    """Return the name of a unit from a symbol, a plural, or an object whose ``str`` is a name.

    >>> normalize_unit("µm"), normalize_unit("seconds"), normalize_unit("furlong")
    ('micrometer', 'second', 'furlong')
    """
    text = " ".join(str(unit).split())
    if text in UNIT_NAMES:
        return UNIT_NAMES[text]
    name = text.lower().replace("metre", "meter").removesuffix("s")
    return name if name in LENGTHS or name in TIMES or name == PIXEL else text


def select_axes(geometry: Geometry, axes: str) -> Geometry:
    """Return the geometry of other axes."""
    entries: list[Any] = [{axis: value for axis, value in entry.items() if axis in axes} for entry in geometry[1:]]
    return Geometry(axes, *entries)


def label_geometry(image: Geometry, axes: str, ndim: int) -> Geometry:
    """Return the geometry of labels: that of the image along its axes of space.

    It is unknown if the axes are in an order that no format has: a writer would reorder them, and the labels would not
    have the shape of the image any more.
    """
    letters = "".join(axis for axis in axes.upper() if axis in "ZYX")
    return select_axes(UNKNOWN if len(letters) == ndim and letters != DEFAULT_AXES[ndim] else image, DEFAULT_AXES[ndim])


def geometry_from_layer(layer: Mapping[str, Any], axes: str) -> Geometry:
    """Return the geometry of an image from `scale` and `units` of its layer in a session, which may be invalid."""
    try:
        scale, units = list(map(float, layer["scale"])), list(map(normalize_unit, layer["units"]))
    except (KeyError, TypeError, ValueError):
        return UNKNOWN
    if len(axes) - len(scale) not in (0, 1) or len(units) != len(scale) or axes == "auto":
        return UNKNOWN
    letters = axes.upper()[: len(scale)]
    known = Geometry("", dict(zip(letters, scale, strict=True)), dict(zip(letters, units, strict=True)))
    return select_axes(known, "ZYX")._replace(axes="")


def scale_and_unit(geometry: Geometry) -> dict[str, Any]:
    """Return `scale`, the pixel size along each axis, and the symbol of its `unit`; None and "" if there is no area."""
    units = {geometry.unit.get(axis, PIXEL) for axis in geometry.axes}
    if len(units) > 1 or set(geometry.axes) - geometry.size.keys():
        return {"scale": None, "unit": ""}
    return {"scale": [geometry.size[axis] for axis in geometry.axes], "unit": LENGTHS.get(units.pop(), "")}


def reorder_axes(labels: NDArray[Any], axes: str, order: str) -> tuple[NDArray[Any], str]:
    """Transpose an array to the order of axes of a format; returns a contiguous array and its axes.

    A lazy array whose axes are in order already is returned as it is.
    """
    letters = "".join(letter for letter in order if letter in axes)
    if letters == axes and is_lazy(labels):
        return labels, axes
    return np.ascontiguousarray(labels.transpose([axes.index(letter) for letter in letters])), letters


def resolve_geometry(known: Geometry, axes: str, spacing: str) -> Geometry:
    """Return the geometry of a file, or that of the setting `spacing` if its proportions differ.

    >>> file = Geometry("", {"Z": 2.5, "Y": 0.5, "X": 0.5}, dict.fromkeys("ZYX", "micrometer"))
    >>> resolve_geometry(file, "ZYX", "5,1,1") == file
    True
    >>> resolve_geometry(file, "ZYX", "3,1,1")
    Geometry(axes='', size={'Z': 3.0, 'Y': 1.0, 'X': 1.0}, unit={}, origin={})
    """
    sizes = known.size.values()
    if not {"Y", "X"} <= known.size.keys() or not all(math.isfinite(size) and size > 0 for size in sizes):
        known = UNKNOWN
    letters = [axis for axis in axes.upper() if axis in "ZYX"]
    if axes == "auto":
        count = spacing.count(",") + 1 if spacing.count(",") in (1, 2) else 3 if "Z" in known.size else 2
        letters = list(DEFAULT_AXES[count])
    square = (1.0,) * len(letters)
    try:
        chosen = parse_spacing(spacing, len(letters))
    except InputError:  # photographs have square pixels, whatever the setting says
        return known
    if all(axis in known.size for axis in letters):
        try:
            file_spacing = normalize_spacing(pixel_sizes(known, letters)) or square
        except InputError:
            known = UNKNOWN
        else:
            if any(abs(a / b - 1) > SAME_SPACING for a, b in zip(chosen or square, file_spacing, strict=True)):
                known = UNKNOWN
    if known.size or chosen is None:
        return known
    return Geometry("", dict(zip(letters, map(float, spacing.split(",")), strict=True)))


def pixel_sizes(known: Geometry, letters: Sequence[str]) -> list[float]:
    """Return the pixel sizes along some axes in one unit; unknown units are taken to be equal."""
    return [known.size[axis] * MICROMETERS.get(known.unit.get(axis, ""), 1.0) for axis in letters]
