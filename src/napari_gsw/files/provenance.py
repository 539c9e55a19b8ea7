"""What made a result, read back from any file that carries it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import tifffile

from napari_gsw.core.errors import InputError
from napari_gsw.files.images import TIFF_SUFFIXES, silence_logger
from napari_gsw.files.session_file import is_session, open_session
from napari_gsw.files.untrusted import parse_xml
from napari_gsw.files.zarr_io import is_zarr

MAX_BYTES = 2**26  # of a JSON file; a provenance with thousands of steps has a few million


def read_provenance(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The provenance in a file: a JSON file, labels of ours as TIFF, OME-TIFF or OME-Zarr, or a session.

    Returns
    -------
    The entries of a JSON object; what they mean is for the caller to check.
    """
    file = Path(path)
    try:
        if is_session(file):
            content = _session_record(file)
        elif is_zarr(file):
            content = _json(file / "zarr.json")["attributes"]["napari-gsw"]
        elif not os.path.isfile(file):
            raise InputError(f"{str(path)!r} is not a file")
        elif file.suffix.lower() in TIFF_SUFFIXES:
            content = json.loads(_tiff_text(file))
            content = content.get("provenance", content)  # as a plain TIFF has it, beside its shape
        else:
            content = _json(file)
    except InputError:
        raise
    except Exception:  # decoders raise whatever they like, and JSON may be nested without end
        raise InputError(
            f"{str(path)!r} carries no settings; give a provenance.json, or labels as .tif or .zarr"
        ) from None
    if not isinstance(content, dict):
        raise InputError(f"{str(path)!r} carries no settings: it is JSON, but no object with names")
    return content


def _session_record(file: Path) -> dict[str, Any]:
    """The settings and the seed of a session whose runs all have the same; axes and spacing are each image's own."""
    first, *others = open_session(file).runs.values()
    if any(run.settings != first.settings or run.seed != first.seed for run in others):
        raise InputError(f"{str(file)!r} has runs with different settings; none of them is that of all")
    settings = {name: value for name, value in first.settings.to_dict().items() if name not in ("axes", "spacing")}
    return {"software": "napari-gsw", "settings": settings, "seed": first.seed}


def _json(file: Path) -> Any:
    if file.stat().st_size > MAX_BYTES:
        raise InputError(f"{str(file)!r} is too large for a file of settings")
    return json.loads(file.read_text(encoding="utf-8"))


def _tiff_text(file: Path) -> str:
    """What a TIFF says of its making, as JSON: ImageJ's info, the description of OME, or that of a plain one."""
    with silence_logger("tifffile"), tifffile.TiffFile(file) as tiff:
        if tiff.imagej_metadata is not None:
            return str(tiff.imagej_metadata["Info"])
        description = str(tiff.pages.first.description)
        return _ome_description(description) if tiff.is_ome else description


def _ome_description(xml: str) -> str:
    """The description of the first image of OME metadata."""
    description = parse_xml(xml).find("{*}Image/{*}Description")
    return "" if description is None else str(description.text)
