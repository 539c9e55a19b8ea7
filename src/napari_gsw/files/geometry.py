"""Where the pixels of a label image lie: axes, scale, units, origin."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.errors import InputError
from napari_gsw.core.image.lazy import is_lazy
from napari_gsw.core.image.spacing import SAME_SPACING, Spacing, normalize_spacing, parse_spacing

# The axes of an array that nobody has named, by their number.
DEFAULT_AXES = {2: "YX", 3: "ZYX", 4: "TZYX", 5: "TCZYX"}
# Units by their full names, with their symbols; `PIXEL` is no unit at all.
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


# Of an image of which nothing is known.
UNKNOWN = Geometry("")


def make_geometry(
    ndim: int,
    axes: str | None = None,
    scale: Sequence[float] | None = None,
    units: object = None,
    translate: Sequence[float] | None = None,
) -> Geometry:
    """Check what is said of an array's axes, and sort it by axis.

    Parameters
    ----------
    ndim : number of the array's axes, 2 to 5.
    axes, scale, units, translate : as for :func:`napari_gsw.files.labels.write_labels`.
    """
    if ndim not in DEFAULT_AXES:
        raise InputError(f"labels must have 2 to 5 dimensions, not {ndim}")
    letters = DEFAULT_AXES[ndim] if axes is None else axes.upper()
    if len(letters) != ndim or len(set(letters)) != ndim or not set("YX") <= set(letters) <= set("TCZYX"):
        raise InputError(f"axes must be {ndim} different letters of TCZYX with Y and X among them, not {axes!r}")
    size = _numbers("scale", letters, scale)
    if not all(size.values()):
        raise InputError(f"scale must not be 0 along any axis, not {tuple(size.values())}")
    return Geometry(letters, size, _units(letters, units), _numbers("translate", letters, translate))


def select_last_axes(place: Geometry, ndim: int) -> Geometry:
    """The same geometry with the last `ndim` of its axes alone."""
    return select_axes(place, place.axes[-ndim:])


def select_axes(place: Geometry, axes: str) -> Geometry:
    """What is known of other axes, a letter each."""
    entries: list[Any] = [{axis: value for axis, value in entry.items() if axis in axes} for entry in place[1:]]
    return Geometry(axes, *entries)


def geometry_from_layer(words: Mapping[str, Any], axes: str) -> Geometry:
    """What is known of an image whose layer lay so; nothing if its axes are not known.

    Parameters
    ----------
    words : `scale` and `units` of the layer, a number and a name for each of its axes; colours are none of them.
    axes : a letter for each axis of the image, or ``auto``.

    Examples
    --------
    >>> geometry_from_layer({"scale": [0.5, 0.5], "units": ["micrometer", "micrometer"]}, "YXC")
    Geometry(axes='', size={'Y': 0.5, 'X': 0.5}, unit={'Y': 'micrometer', 'X': 'micrometer'}, origin={})
    """
    try:
        scale, units = list(map(float, words["scale"])), list(map(normalize_unit, words["units"]))
    except (KeyError, TypeError, ValueError):  # a session comes from anywhere
        return UNKNOWN
    if len(axes) - len(scale) not in (0, 1) or len(units) != len(scale) or axes == "auto":
        return UNKNOWN
    letters = axes.upper()[: len(scale)]
    size = {letter: step for letter, step in zip(letters, scale, strict=True) if letter in "ZYX"}
    names = dict(zip(letters, units, strict=True))
    return Geometry("", size, {letter: names[letter] for letter in size})


def label_geometry(image: Geometry, axes: str, ndim: int) -> Geometry:
    """Where the labels of an image lie: along its axes of space.

    Of axes in an order that no format has nothing is told: a writer would sort them, and labels are to be read again as
    they are, beside their image.

    Parameters
    ----------
    image : what is known of the image. axes : a letter for each of its axes, or ``auto``. ndim : axes of the labels.

    Examples
    --------
    >>> label_geometry(Geometry("", {"Y": 0.5, "X": 0.5, "Z": 2.0}), "YXC", 2)
    Geometry(axes='YX', size={'Y': 0.5, 'X': 0.5}, unit={}, origin={})
    """
    letters = "".join(axis for axis in axes.upper() if axis in "ZYX")
    return select_axes(UNKNOWN if len(letters) == ndim and letters != DEFAULT_AXES[ndim] else image, DEFAULT_AXES[ndim])


def scale_and_unit(place: Geometry) -> dict[str, Any]:
    """`scale`, the distance from one pixel to the next along each axis, and the symbol of its `unit`.

    Without distances along all axes, or in units that no area could be told in, there is no scale, and no unit.
    """
    units = {place.unit.get(axis, PIXEL) for axis in place.axes}
    if len(units) > 1 or set(place.axes) - place.size.keys():
        return {"scale": None, "unit": ""}
    return {"scale": [place.size[axis] for axis in place.axes], "unit": LENGTHS.get(units.pop(), "")}


def normalize_unit(unit: object) -> str:
    """Full name of a unit: of a symbol, a plural, or an object whose ``str`` is a name, such as pint's.

    Examples
    --------
    >>> normalize_unit("µm"), normalize_unit("seconds"), normalize_unit("furlong")
    ('micrometer', 'second', 'furlong')
    """
    text = " ".join(str(unit).split())
    if text in OTHER_NAMES:
        return OTHER_NAMES[text]
    name = text.lower().replace("metre", "meter").removesuffix("s")
    return name if name in LENGTHS or name in TIMES or name == PIXEL else text


def reorder_axes(labels: NDArray[Any], axes: str, order: str) -> tuple[NDArray[Any], str]:
    """An array with its axes in the order of a format.

    Parameters
    ----------
    labels : array of any type; a lazy one stays lazy where its axes are in order already.
    axes : a letter for each of its axes.
    order : the letters that the format knows, in its order.

    Returns
    -------
    The array, contiguous unless it is lazy, and a letter for each of its axes.
    """
    letters = "".join(letter for letter in order if letter in axes)
    if letters == axes and is_lazy(labels):
        return labels, axes
    return np.ascontiguousarray(labels.transpose([axes.index(letter) for letter in letters])), letters


def _numbers(name: str, axes: str, values: Sequence[float] | None) -> dict[str, float]:
    """Numbers by axis; `name` is for the sentence that refuses them."""
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
    names = {axis: normalize_unit(unit) for axis, unit in zip(axes, units, strict=True) if axis != "C"}
    return {axis: name if (name in TIMES) == (axis == "T") else PIXEL for axis, name in names.items()}


# Micrometres of the units that sizes are known in.
MICROMETERS = {
    "picometer": 1e-6, "angstrom": 1e-4, "nanometer": 1e-3, "micrometer": 1.0, "millimeter": 1e3, "centimeter": 1e4,
    "decimeter": 1e5, "meter": 1e6, "kilometer": 1e9, "inch": 25_400.0, "foot": 304_800.0,
}  # fmt: skip


def resolve_geometry(known: Geometry, axes: str, spacing: str) -> Geometry:
    """What is known of an image, unless a distance between pixels was chosen that is in another proportion.

    Parameters
    ----------
    known : what the image itself tells. axes : a letter for each of its axes, or ``auto``. spacing : the setting, as
        the image is segmented.

    Examples
    --------
    >>> file = Geometry("", {"Z": 2.5, "Y": 0.5, "X": 0.5}, dict.fromkeys("ZYX", "micrometer"))
    >>> resolve_geometry(file, "ZYX", "5,1,1") == file
    True
    >>> resolve_geometry(file, "ZYX", "3,1,1")
    Geometry(axes='', size={'Z': 3.0, 'Y': 1.0, 'X': 1.0}, unit={}, origin={})
    """
    known = known if _is_usable(known) else UNKNOWN
    count = 3 if "Z" in known.size else 2
    letters = [axis for axis in axes.upper() if axis in "ZYX"] if axes != "auto" else list(DEFAULT_AXES[count])
    if axes == "auto" and spacing.count(",") in (1, 2):
        letters = list(DEFAULT_AXES[spacing.count(",") + 1])
    try:
        chosen = parse_spacing(spacing, len(letters))
    except InputError:  # which nobody has looked at: photographs have squares
        return known
    if all(axis in known.size for axis in letters) and not _is_like(chosen, _steps(known, letters)):
        known = UNKNOWN
    if known.size or chosen is None:
        return known
    return Geometry("", dict(zip(letters, map(float, spacing.split(",")), strict=True)))


def _is_usable(known: Geometry) -> bool:
    """Whether it is of both axes that each image has, which no writer goes without, and no nonsense."""
    sizes = known.size.values()
    return {"Y", "X"} <= known.size.keys() and all(math.isfinite(size) and size > 0 for size in sizes)


def _is_like(chosen: Spacing, steps: Sequence[float]) -> bool:
    """Whether distances are in a proportion that was chosen."""
    try:
        proportion = normalize_spacing(steps) or (1.0,) * len(steps)
    except InputError:
        return False
    return all(abs(a / b - 1) <= SAME_SPACING for a, b in zip(chosen or (1.0,) * len(steps), proportion, strict=True))


def _steps(known: Geometry, letters: Sequence[str]) -> list[float]:
    """Distances along some axes; unknown units are taken to be the same along all."""
    return [known.size[axis] * MICROMETERS.get(known.unit.get(axis, ""), 1.0) for axis in letters]
