"""The distance between pixels that an image file tells: OME-TIFF, ImageJ's TIFF, OME-Zarr."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tifffile

from napari_gsw.core.errors import InputError
from napari_gsw.core.image.lazy import group_axes, levels
from napari_gsw.core.image.spacing import relative, spacing_text
from napari_gsw.files.images import TIFF, silent
from napari_gsw.files.xml_text import refuse_entities
from napari_gsw.files.zarr_files import is_zarr, open_zarr

UNITS = {"nm": 1e-3, "µm": 1.0, "um": 1.0, "micron": 1.0, "mm": 1e3, "cm": 1e4, "m": 1e6, "å": 1e-4, "pm": 1e-6}


def file_spacing(path: str | os.PathLike[str], axes: str) -> str:
    """The setting ``spacing`` of a file's image whose axes are known; ``auto`` where it tells none, or an equal one.

    Parameters
    ----------
    axes : a letter of ZYXCS for each axis of the image, or ``auto``, for an image whose file says nothing.
    """
    file = Path(path)
    try:
        if is_zarr(file):
            size = _zarr_size(open_zarr(file))
        elif file.suffix.lower() in TIFF and os.path.isfile(file):
            size = _tiff_size(file)
        else:
            return "auto"
    except InputError:
        raise
    except Exception:  # metadata of any kind of brokenness; the image itself is read, or refused, elsewhere
        return "auto"
    letters = axes.upper() if axes != "auto" else "ZYX" if "Z" in size else "YX"
    steps = [size[letter] for letter in letters if letter in "ZYX" and letter in size]
    if len(steps) != sum(letter in "ZYX" for letter in letters):
        return "auto"
    if not all(math.isfinite(step) and step > 0 for step in steps):
        text = ", ".join(f"{step:g}" for step in steps)
        raise InputError(f"{str(path)!r} says that pixels are {text} apart; say better (spacing, such as 5,1,1)")
    return "auto" if relative(steps) is None else spacing_text(steps)


def _tiff_size(file: Path) -> Mapping[str, float]:
    """Distance between pixels by the axis' letter, in micrometres where a unit is named; empty if nothing is said."""
    with silent("tifffile"), tifffile.TiffFile(file) as tiff:
        if tiff.is_ome:
            refuse_entities(str(tiff.pages.first.description))
            pixels = _first_pixels(tifffile.xml2dict(tiff.ome_metadata))
            return {
                axis: float(pixels[f"PhysicalSize{axis}"]) * _unit(pixels.get(f"PhysicalSize{axis}Unit", "µm"))
                for axis in "ZYX"
                if f"PhysicalSize{axis}" in pixels
            }
        if tiff.is_imagej:
            return _imagej_size(tiff)
    return {}


def _first_pixels(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """What OME metadata say of the pixels of the first image."""
    image = metadata["OME"]["Image"]
    first = image[0] if isinstance(image, list) else image
    pixels: Mapping[str, Any] = first["Pixels"]
    return pixels


def _unit(name: str) -> float:
    """Micrometres of a unit; unknown ones are taken to be the same along all axes."""
    return UNITS.get(str(name).lower(), 1.0)


def _imagej_size(tiff: Any) -> Mapping[str, float]:
    """ImageJ writes pixels a unit as the resolution, and the distance of planes beside it."""
    metadata, tags = tiff.imagej_metadata or {}, tiff.pages.first.tags
    size = {}
    for axis, name in (("X", "XResolution"), ("Y", "YResolution")):
        if name in tags and tags[name].value[0]:
            size[axis] = tags[name].value[1] / tags[name].value[0]
    if "spacing" in metadata:
        size["Z"] = float(metadata["spacing"])
    return size if len(size) == (3 if "spacing" in metadata else 2) else {}


def _zarr_size(node: Any) -> Mapping[str, float]:
    """The scale of the finest level of an OME-Zarr image."""
    letters = group_axes(node)
    if letters is None:
        return {}
    attributes = dict(node.attrs)
    image = attributes.get("ome", attributes)["multiscales"][0]
    scale = [1.0] * len(letters)
    for moves in (image["datasets"][0].get("coordinateTransformations"), image.get("coordinateTransformations")):
        for move in moves or ():
            if move.get("type") == "scale":
                scale = [a * float(b) for a, b in zip(scale, move["scale"], strict=True)]
    lengths = levels(node)[0].shape  # a plane that is stored as a volume has no distance of planes
    return {a: step for a, step, n in zip(letters, scale, lengths, strict=True) if a in "YX" or (a == "Z" and n > 1)}
