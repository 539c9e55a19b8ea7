"""The distance between pixels that an image file tells: OME-TIFF, ImageJ's TIFF, OME-Zarr."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import tifffile

from napari_gsw.core.errors import InputError
from napari_gsw.core.image.lazy import group_axes, levels
from napari_gsw.core.image.spacing import relative, spacing_text
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
    # Unknown units are taken to be the same along all axes.
    size = {axis: length * MICROMETERS.get(known.unit.get(axis, ""), 1.0) for axis, length in known.size.items()}
    letters = axes.upper() if axes != "auto" else "ZYX" if "Z" in size else "YX"
    steps = [size[letter] for letter in letters if letter in "ZYX" and letter in size]
    if len(steps) != sum(letter in "ZYX" for letter in letters):
        return "auto"
    if not all(math.isfinite(step) and step > 0 for step in steps):
        text = ", ".join(f"{step:g}" for step in steps)
        raise InputError(f"{str(path)!r} says that pixels are {text} apart; say better (spacing, such as 5,1,1)")
    return "auto" if relative(steps) is None else spacing_text(steps)


def chosen_geometry(path: str | os.PathLike[str], axes: str, spacing: str) -> Geometry:
    """As :func:`file_geometry`, unless a distance between pixels was chosen that is not that of the file.

    Parameters
    ----------
    axes : a letter for each axis of the image, or ``auto``. spacing : the setting, as the image is segmented.
    """
    with suppress(InputError):  # whoever knows better has said so
        if spacing == file_spacing(path, axes):
            return _usable(file_geometry(path))
    if spacing == "auto":  # the same along all axes, whatever the file says
        return UNKNOWN
    steps = [float(step) for step in spacing.split(",")]
    letters = [axis for axis in axes.upper() if axis in "ZYX"] if axes != "auto" else AXES_OF[len(steps)]
    return Geometry("", dict(zip(letters, steps, strict=True)))


def _usable(known: Geometry) -> Geometry:
    """What a file tells if it does of both axes that each image has, which no writer goes without."""
    return known if {"Y", "X"} <= known.size.keys() else UNKNOWN


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
    if len(size) != (3 if "spacing" in metadata else 2) or "unit" not in metadata:
        return Geometry("", size) if len(size) == 3 else UNKNOWN
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
