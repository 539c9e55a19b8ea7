"""Write labels layers for napari, which passes them as arrays and dictionaries."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from napari_gsw.core.errors import InputError
from napari_gsw.files.geometry import make_geometry
from napari_gsw.files.labels import write_label_file, write_with_siblings
from napari_gsw.files.output_folder import PROVENANCE, base_name, sibling_name

# Common names of axes, in lower case.
AXIS_NAMES = {
    "T": "t time timepoint timepoints frame frames",
    "C": "c ch channel channels",
    "Z": "z depth slice slices plane planes",
    "Y": "y row rows height",
    "X": "x column columns col width",
}
LETTERS = {name: letter for letter, names in AXIS_NAMES.items() for name in names.split()}


def write_labels_layer(path: str, data: Any, meta: dict[str, Any]) -> list[str]:
    """Write one labels layer, called by npe2; returns all files that were written, the labels first.

    `path` is a .tif if it has no ending. Of `meta`, the attributes of the layer, ``metadata["napari-gsw"]`` becomes the
    provenance, and ``features`` with a column ``index`` the table ``<stem>.regions.csv``.
    """
    target = Path(path) if Path(path).suffix else Path(f"{path}.tif")
    # napari's dialog has asked whether this file may be replaced, but only if the name was complete.
    overwrite = [target.name] if target == Path(path) else []
    # napari takes a ValueError, which InputError is, for "there is no such writer" and hides its message.
    try:
        return [str(file) for file in _write(target, data, meta, overwrite)]
    except InputError as error:
        raise OSError(str(error)) from None


def _write(target: Path, data: Any, meta: Mapping[str, Any], overwrite: Sequence[str]) -> list[Path]:
    labels = np.asarray(data[0] if meta.get("multiscale") or isinstance(data, Sequence) else data)
    provenance = (meta.get("metadata") or {}).get("napari-gsw")
    provenance = provenance if isinstance(provenance, Mapping) else None
    regions: Any = meta.get("features")
    table = f"{base_name(target)}.regions.csv" if "index" in getattr(regions, "columns", ()) and len(regions) else None
    if table is not None and provenance is None:
        provenance = {"software": "napari-gsw"}  # so that the table may be replaced later
    axes, translate = layer_axes(meta.get("axis_labels"), labels.ndim), meta.get("translate")
    # A layer that was never moved has a translation of 0.
    moved = translate if translate is not None and any(translate) else None
    geometry = make_geometry(labels.ndim, axes, meta.get("scale"), meta.get("units"), moved)

    def write(scratch: Path) -> Path:
        if table is not None:
            regions.to_csv(os.fspath(scratch / table), index=False)
        return write_label_file(labels, scratch / target.name, geometry, str(meta.get("name", "labels")), provenance)

    file = write_with_siblings(target, write, overwrite)
    siblings = (None if provenance is None else sibling_name(target.name, PROVENANCE), table)
    return [file, *(target.with_name(name) for name in siblings if name is not None)]


def layer_axes(names: Sequence[str] | None, ndim: int) -> str | None:
    """Return the letters of a layer's axes, ``TYX`` for time, y and x, or None unless every name is known."""
    letters = "".join(LETTERS.get(str(name).strip().lower(), "?") for name in names or ())
    is_valid = len(set(letters)) == len(letters) == ndim and set("YX") <= set(letters) <= set("TCZYX")
    return letters if is_valid else None
