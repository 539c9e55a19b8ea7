"""Label images to files: written in a scratch folder beside their place first, and then moved there."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from napari_gsw.core.errors import InputError
from napari_gsw.core.image.lazy import is_lazy
from napari_gsw.files.geometry import Geometry, make_geometry
from napari_gsw.files.label_formats import cast_labels, check_target, sibling_name, writer
from napari_gsw.files.output_folder import PROVENANCE, check_overwrite, output_folder
from napari_gsw.files.zarr_io import write_zarr


def write_labels(
    labels: ArrayLike,
    path: str | os.PathLike[str],
    *,
    axes: str | None = None,
    scale: Sequence[float] | None = None,
    units: object = None,
    translate: Sequence[float] | None = None,
    name: str = "labels",
    provenance: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a label image in the format that the file's name asks for.

    ``.tif`` is an ImageJ hyperstack, ``.ome.tif`` an OME-TIFF, ``.zarr`` an OME-Zarr; ``.npy`` and ``.png`` hold the
    numbers alone. What PNG cannot hold (volumes, more than 16 bits) becomes a TIFF of the same name.

    Parameters
    ----------
    labels : whole numbers >= 0, 2D to 5D. uint8 and uint16 stay what they are; others are written as the smallest
        unsigned type that holds them.
    axes : a letter of TCZYX for each axis; by default ``YX``, ``ZYX``, ``TZYX`` or ``TCZYX``. Axes in an order that a
        format does not know are written in the order that it knows.
    scale : distance from one pixel to the next along each axis, in `units`.
    units : one for all axes of space, or one for each axis: words or symbols such as ``micrometer``, ``um``, ``second``
        and ``pixel``, or objects whose ``str`` is one (pint's, which napari uses).
    translate : position of the first pixel, in `units`; kept by .tif and .zarr.
    name : of the image, kept by .ome.tif and .zarr.
    provenance : what made the labels, ready for JSON: written beside them as ``<stem>.provenance.json`` (beside
        ``labels.tif`` as ``provenance.json``), and also into .tif, .ome.tif and .zarr. The file beside them also lists
        what was written, so that it can be replaced.
    overwrite : write over `path` and its provenance even if they are not as this package has written them.

    Returns
    -------
    Where the labels went: `path`, or the TIFF that they became.
    """
    target = Path(path)
    agreed = (target.name, sibling_name(target.name, PROVENANCE)) if overwrite else ()
    place = make_geometry(np.ndim(labels), axes, scale, units, translate)

    def put(scratch: Path) -> Path:
        return write_label_file(labels, scratch / target.name, place, name, provenance)

    return write_with_siblings(target, put, agreed)


def write_with_siblings(target: Path, put: Callable[[Path], Path], agreed: Collection[str]) -> Path:
    """Labels and what stands beside them, all or nothing.

    Parameters
    ----------
    target : the file of the labels.
    put : writes them, under that name, and the rest into the scratch folder that it is given; returns where the labels
        went there.
    agreed : names of files that may be written over though they are not as we have written them.

    Returns
    -------
    Where the labels went.
    """
    mark = sibling_name(target.name, PROVENANCE)
    check_target(target)
    check_overwrite(target.parent, [target.name], mark, agreed)
    with output_folder(target.parent, mark, agreed) as scratch:
        file = target.with_name(put(scratch).name)
        if file != target and os.path.lexists(file):  # nobody was asked whether that one may go
            raise InputError(f"PNG cannot hold these labels, and {str(file)!r} is there already; write another .tif")
    return file


def write_label_file(
    labels: ArrayLike,
    path: Path,
    place: Geometry | None = None,
    name: str = "labels",
    provenance: Mapping[str, Any] | None = None,
) -> Path:
    """The work of :func:`write_labels`, straight into a folder that is scratch already.

    Parameters
    ----------
    labels, name, provenance : as for :func:`write_labels`; lazy labels are written as .zarr only.
    path : of the file; a PNG that cannot hold the labels becomes a TIFF of the same name.
    place : axes of the labels, and where their pixels lie; by default what the number of axes says.

    Returns
    -------
    Where the labels went.
    """
    array = cast_labels(labels)
    if is_lazy(array) and writer(path) is not write_zarr:
        raise InputError(f"lazy labels are written chunk by chunk as .zarr, not as {path.name!r}")
    try:
        provenance_json = None if provenance is None else json.dumps(dict(provenance), indent=2)
    except (TypeError, ValueError) as reason:
        raise InputError(f"the provenance must be ready for JSON: {reason}") from None
    if path.suffix.lower() == ".png" and (array.ndim > 2 or array.dtype.itemsize > 2):
        path = path.with_suffix(".tif")
    writer(path)(array, path, place or make_geometry(array.ndim), name, provenance_json)
    if provenance_json is not None:
        beside = path.with_name(sibling_name(path.name, PROVENANCE))
        beside.write_text(provenance_json + "\n", encoding="utf-8")
    return path
