"""What napari calls to save a labels layer. It imports no napari: the layer comes as an array and a dictionary."""

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

# What people call their axes, in lower case.
AXIS_NAMES = {
    "T": ("t", "time", "timepoint", "timepoints", "frame", "frames"),
    "C": ("c", "ch", "channel", "channels"),
    "Z": ("z", "depth", "slice", "slices", "plane", "planes"),
    "Y": ("y", "row", "rows", "height"),
    "X": ("x", "column", "columns", "col", "width"),
}
LETTERS = {name: letter for letter, names in AXIS_NAMES.items() for name in names}


def write_labels_layer(path: str, data: Any, meta: dict[str, Any]) -> list[str]:
    """Save one labels layer with its scale, units and provenance; npe2 calls this.

    Parameters
    ----------
    path : its ending is the format, see :func:`napari_gsw.files.labels.write_labels`; .tif if it has none.
    data : the layer's array, 2D to 5D; of the levels of a multiscale layer the first, which is the finest.
    meta : attributes of the layer. Of these, ``name``, ``scale``, ``translate``, ``units`` and ``axis_labels`` are
        written as far as the format holds them, ``metadata["napari-gsw"]`` as the provenance, and ``features``, if they
        have a column ``index``, as the table ``<stem>.regions.csv``.

    Returns
    -------
    paths : all that was written, the labels first.
    """
    target = Path(path) if Path(path).suffix else Path(f"{path}.tif")
    # The dialog in which the file was named has asked whether it may go, but only about that very name.
    agreed = [target.name] if target == Path(path) else []
    # As OSError: napari takes a ValueError, which InputError is, for "there is no such writer" and hides what it says.
    try:
        return [str(file) for file in _write(target, data, meta, agreed)]
    except InputError as reason:
        raise OSError(str(reason)) from None


def _write(target: Path, data: Any, meta: Mapping[str, Any], agreed: Sequence[str]) -> list[Path]:
    """Write the labels, and their provenance and table where the layer has them; the paths of what was written."""
    labels = np.asarray(data[0] if meta.get("multiscale") or isinstance(data, Sequence) else data)
    provenance = (meta.get("metadata") or {}).get("napari-gsw")
    provenance = provenance if isinstance(provenance, Mapping) else None
    regions: Any = meta.get("features")
    table = f"{base_name(target)}.regions.csv" if "index" in getattr(regions, "columns", ()) and len(regions) else None
    if table is not None and provenance is None:
        provenance = {"software": "napari-gsw"}  # by which a table is known as ours when it is written again
    axes = layer_axes(meta.get("axis_labels"), labels.ndim)
    place = make_geometry(labels.ndim, axes, meta.get("scale"), meta.get("units"), _unless_zero(meta.get("translate")))

    def put(scratch: Path) -> Path:
        if table is not None:
            regions.to_csv(os.fspath(scratch / table), index=False)
        return write_label_file(labels, scratch / target.name, place, str(meta.get("name", "labels")), provenance)

    file = write_with_siblings(target, put, agreed)
    beside = (None if provenance is None else sibling_name(target.name, PROVENANCE), table)
    return [file, *(target.with_name(name) for name in beside if name is not None)]


def layer_axes(names: Sequence[str] | None, ndim: int) -> str | None:
    """Letters of a layer's axes; None, which leaves them to the number of axes, unless every name is known.

    Examples
    --------
    >>> layer_axes(("Time", "y", "x"), 3)
    'TYX'
    >>> layer_axes(("-2", "-1"), 2) is None
    True
    """
    letters = "".join(LETTERS.get(str(name).strip().lower(), "?") for name in names or ())
    usable = len(set(letters)) == len(letters) == ndim and set("YX") <= set(letters) <= set("TCZYX")
    return letters if usable else None


def _unless_zero(numbers: Sequence[float] | None) -> Sequence[float] | None:
    """A layer that was never moved says that it was moved by 0."""
    return numbers if numbers is not None and any(numbers) else None
