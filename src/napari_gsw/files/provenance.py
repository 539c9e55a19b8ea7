"""Read the provenance of a result from any file that holds it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import tifffile

from napari_gsw.core.errors import InputError
from napari_gsw.files.images import TIFF_SUFFIXES, parse_xml, silence_logger
from napari_gsw.files.session_file import is_session, open_session
from napari_gsw.files.zarr_io import is_zarr

MAX_BYTES = 2**26  # of a JSON file; a provenance with thousands of steps has a few million


def read_provenance(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the provenance in a JSON file, in our labels as TIFF, OME-TIFF or OME-Zarr, or in a session.

    It is any JSON object, which the caller has to check.
    """
    file = Path(path)
    try:
        if is_session(file):
            first, *others = open_session(file).runs.values()  # axes and spacing belong to an image
            if any(run.settings != first.settings or run.seed != first.seed for run in others):
                raise InputError(f"{str(file)!r} has runs with different settings; none of them is that of all")
            settings = {n: v for n, v in first.settings.to_dict().items() if n not in ("axes", "spacing")}
            content: Any = {"software": "napari-gsw", "settings": settings, "seed": first.seed}
        elif is_zarr(file):
            content = _read_json(file / "zarr.json")["attributes"]["napari-gsw"]
        elif not os.path.isfile(file):
            raise InputError(f"{str(path)!r} is not a file")
        elif file.suffix.lower() in TIFF_SUFFIXES:
            content = json.loads(_read_tiff_text(file))
            content = content.get("provenance", content)  # in a plain TIFF it stands beside the shape
        else:
            content = _read_json(file)
    except InputError:
        raise
    except Exception:  # decoders raise whatever they like, and JSON may be nested without end
        raise InputError(
            f"{str(path)!r} carries no settings; give a provenance.json, or labels as .tif or .zarr"
        ) from None
    if not isinstance(content, dict):
        raise InputError(f"{str(path)!r} carries no settings: it is JSON, but no object with names")
    return content


def _read_json(file: Path) -> Any:
    if file.stat().st_size > MAX_BYTES:
        raise InputError(f"{str(file)!r} is too large for a file of settings")
    return json.loads(file.read_text(encoding="utf-8"))


def _read_tiff_text(file: Path) -> str:
    """Read ImageJ's info, the description of the first OME image, or that of a plain TIFF."""
    with silence_logger("tifffile"), tifffile.TiffFile(file) as tiff:
        if tiff.imagej_metadata is not None:
            return str(tiff.imagej_metadata["Info"])
        description = str(tiff.pages.first.description)
        if not tiff.is_ome:
            return description
        element = parse_xml(description).find("{*}Image/{*}Description")
        return "" if element is None else str(element.text)
