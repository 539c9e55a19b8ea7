"""The distance between pixels that an image file tells: OME-TIFF, ImageJ's TIFF, OME-Zarr."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tifffile

from napari_gsw.core.errors import InputError
from napari_gsw.core.image.lazy import group_axes, levels
from napari_gsw.core.image.spacing import SAME, Spacing, relative, spacing_named, spacing_text
from napari_gsw.files.geometry import AXES_OF, UNKNOWN, Geometry, unit_name
from napari_gsw.files.images import TIFF, silent
from napari_gsw.files.xml_text import refuse_entities
from napari_gsw.files.zarr_files import is_zarr, open_zarr

# Micrometres of the units that sizes are known in.
MICROMETERS = {
    "picometer": 1e-6, "angstrom": 1e-4, "nanometer": 1e-3, "micrometer": 1.0, "millimeter": 1e3, "centimeter": 1e4,
    "decimeter": 1e5, "meter": 1e6, "kilometer": 1e9, "inch": 25_400.0, "foot": 304_800.0,
}  # fmt: skip


def file_geometry(path: str | os.PathLike[str]) -> Geometry:
    """What a file tells of the distance between its pixels, by the letter of an axis; of no order of axes."""
    file = Path(path)
    try:
        if is_zarr(file):
            return _zarr_geometry(open_zarr(file))
        if file.suffix.lower() in TIFF and os.path.isfile(file):
            return _tiff_geometry(file)
    except InputError:
        raise
    except Exception:  # metadata of any kind of brokenness; the image itself is read, or refused, elsewhere
        return UNKNOWN
    return UNKNOWN


def file_spacing(path: str | os.PathLike[str], axes: str) -> str:
    """The setting ``spacing`` of a file's image whose axes are known; ``auto`` where it tells none, or an equal one.

    Parameters
    ----------
    axes : a letter of ZYXCS for each axis of the image, or ``auto``, for an image whose file says nothing.
    """
    known = file_geometry(path)
    letters = axes.upper() if axes != "auto" else "ZYX" if "Z" in known.size else "YX"
    space = [letter for letter in letters if letter in "ZYX"]
    if not all(letter in known.size for letter in space):
        return "auto"
    steps = _steps(known, space)
    if not all(math.isfinite(step) and step > 0 for step in steps):
        text = ", ".join(f"{step:g}" for step in steps)
        raise InputError(f"{str(path)!r} says that pixels are {text} apart; say better (spacing, such as 5,1,1)")
    return "auto" if relative(steps) is None else spacing_text(steps)


def known_geometry(path: str | os.PathLike[str]) -> Geometry:
    """The same, and nothing where it is refused: whoever knows better has said so."""
    try:
        return file_geometry(path)
    except InputError:
        return UNKNOWN


def chosen_geometry(known: Geometry, axes: str, spacing: str) -> Geometry:
    """What is known of an image, unless a distance between pixels was chosen that is in another proportion.

    Parameters
    ----------
    known : what the image itself tells. axes : a letter for each of its axes, or ``auto``. spacing : the setting, as
        the image is segmented.

    Examples
    --------
    >>> file = Geometry("", {"Z": 2.5, "Y": 0.5, "X": 0.5}, dict.fromkeys("ZYX", "micrometer"))
    >>> chosen_geometry(file, "ZYX", "5,1,1") == file
    True
    >>> chosen_geometry(file, "ZYX", "3,1,1")
    Geometry(axes='', size={'Z': 3.0, 'Y': 1.0, 'X': 1.0}, unit={}, origin={})
    """
    known = known if _is_usable(known) else UNKNOWN
    count = 3 if "Z" in known.size else 2
    letters = [axis for axis in axes.upper() if axis in "ZYX"] if axes != "auto" else list(AXES_OF[count])
    if axes == "auto" and spacing.count(",") in (1, 2):
        letters = list(AXES_OF[spacing.count(",") + 1])
    try:
        chosen = spacing_named(spacing, len(letters))
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
        proportion = relative(steps) or (1.0,) * len(steps)
    except InputError:
        return False
    return all(abs(a / b - 1) <= SAME for a, b in zip(chosen or (1.0,) * len(steps), proportion, strict=True))


def _steps(known: Geometry, letters: Sequence[str]) -> list[float]:
    """Distances along some axes; unknown units are taken to be the same along all."""
    return [known.size[axis] * MICROMETERS.get(known.unit.get(axis, ""), 1.0) for axis in letters]


def _tiff_geometry(file: Path) -> Geometry:
    """Distance between pixels and its unit."""
    with silent("tifffile"), tifffile.TiffFile(file) as tiff:
        if tiff.is_ome:
            refuse_entities(str(tiff.pages.first.description))
            pixels = _first_pixels(tifffile.xml2dict(tiff.ome_metadata))
            known = [axis for axis in "ZYX" if f"PhysicalSize{axis}" in pixels]
            return Geometry(
                "",
                {axis: float(pixels[f"PhysicalSize{axis}"]) for axis in known},
                {axis: unit_name(pixels.get(f"PhysicalSize{axis}Unit", "µm")) for axis in known},
            )
        if tiff.is_imagej:
            return _imagej_geometry(tiff)
    return UNKNOWN


def _first_pixels(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """What OME metadata say of the pixels of the first image."""
    image = metadata["OME"]["Image"]
    first = image[0] if isinstance(image, list) else image
    pixels: Mapping[str, Any] = first["Pixels"]
    return pixels


def _imagej_geometry(tiff: Any) -> Geometry:
    """ImageJ writes pixels a unit as the resolution, and the distance of planes beside it."""
    metadata, tags = tiff.imagej_metadata or {}, tiff.pages.first.tags
    size = {}
    for axis, name in (("X", "XResolution"), ("Y", "YResolution")):
        if name in tags and tags[name].value[0]:
            size[axis] = tags[name].value[1] / tags[name].value[0]
    if "spacing" in metadata:
        size["Z"] = float(metadata["spacing"])
    if len(size) != (3 if "spacing" in metadata else 2):
        return UNKNOWN
    if "unit" not in metadata:  # a resolution for printers, unless it tells of pixels that are no squares
        return UNKNOWN if len(set(size.values())) == 1 and len(size) == 2 else Geometry("", size)
    names = {"X": metadata["unit"], "Y": metadata.get("yunit", metadata["unit"])}
    names["Z"] = metadata.get("zunit", metadata["unit"])
    return Geometry("", size, {axis: unit_name(_unescaped(names[axis])) for axis in size})


def _unescaped(unit: object) -> str:
    """A unit as ImageJ writes it, whose description is ASCII."""
    return str(unit).replace("\\u00B5", "µ").replace("\\u00b5", "µ")


def _zarr_geometry(node: Any) -> Geometry:
    """The scale of the finest level of an OME-Zarr image, and its units."""
    letters = group_axes(node)
    if letters is None:
        return UNKNOWN
    attributes = dict(node.attrs)
    image = attributes.get("ome", attributes)["multiscales"][0]
    scale = [1.0] * len(letters)
    for moves in (image["datasets"][0].get("coordinateTransformations"), image.get("coordinateTransformations")):
        for move in moves or ():
            if move.get("type") == "scale":
                scale = [a * float(b) for a, b in zip(scale, move["scale"], strict=True)]
    lengths = levels(node)[0].shape  # a plane that is stored as a volume has no distance of planes
    size = {a: step for a, step, n in zip(letters, scale, lengths, strict=True) if a in "YX" or (a == "Z" and n > 1)}
    named = [axis.get("unit") if isinstance(axis, dict) else None for axis in image["axes"]]
    units = {letter: unit_name(unit) for letter, unit in zip(letters, named, strict=True) if unit}
    return Geometry("", size, {axis: units[axis] for axis in size if axis in units})
