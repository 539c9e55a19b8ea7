"""Maps beside an image from files: TIFF, NumPy's .npy, zarr, HDF5, and whatever else an image may be."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from napari_gsw.core.errors import InputError
from napari_gsw.core.image.lazy import list_levels
from napari_gsw.files.images import open_image

HDF5 = (".h5", ".hdf5", ".hdf", ".ilp")
# What programs call the map in their files, the likeliest first: ilastik, PanSeg and its relatives, others.
USUAL_NAMES = ("exported_data", "predictions", "probabilities", "boundaries", "features", "data", "volume")


def open_map_file(path: str | os.PathLike[str], lazily: bool = False) -> Any:
    """The array of a map's file.

    Parameters
    ----------
    path : of a file or a zarr folder; of HDF5 also ``file.h5/dataset``.
    lazily : whether what is stored in chunks is opened and not read.
    """
    file, dataset = _hdf5_parts(path)
    if file is not None:
        return _hdf5_array(file, dataset, lazily)
    array = open_image(path)[0]
    if not isinstance(array, np.ndarray):
        array = list_levels(array)[0]
        return array if lazily else np.asarray(array[...])
    return array


def find_map_file(path: Path) -> Path:
    """The file or folder of a path that may go on into an HDF5 file."""
    return next((place for place in (path, *path.parents) if place.suffix.lower() in HDF5), path)


def _hdf5_parts(path: str | os.PathLike[str]) -> tuple[Path | None, str]:
    """The HDF5 file in a path and the data set in it; no file if the path is that of something else."""
    full = Path(path)
    for place in (full, *full.parents):
        if place.suffix.lower() in HDF5 and os.path.isfile(place):
            return place, full.relative_to(place).as_posix().removeprefix(".")
    if full.suffix.lower() in HDF5:
        raise InputError(f"{str(path)!r} is not a file")
    return None, ""


def _hdf5_array(file: Path, dataset: str, lazily: bool) -> Any:
    """The data set of an HDF5 file that is named, or the one that can be meant."""
    try:
        import h5py
    except ImportError:
        raise InputError('HDF5 files need a package that is missing; try: pip install "napari-gsw[hdf5]"') from None
    try:
        opened = h5py.File(file, "r")
    except OSError as reason:
        raise InputError(f"{str(file)!r} cannot be read as HDF5: {str(reason).splitlines()[0]}") from None
    names: list[str] = []
    opened.visititems(lambda name, node: names.append(name) if isinstance(node, h5py.Dataset) else None)
    chosen = dataset or _usual(names)
    if chosen not in names:
        known = ", ".join(names) or "none"
        asked = f"has no data set {dataset!r}" if dataset else "has several data sets"
        raise InputError(f"{str(file)!r} {asked}: name one, as in {file.name}/NAME ({known})")
    array = opened[chosen]
    if lazily:
        return array
    values = np.asarray(array[...])
    opened.close()
    return values


def _usual(names: list[str]) -> str:
    """The data set that is meant where none is named: the only one, or one of the usual names; nothing if unclear.

    >>> _usual(["raw", "predictions"]), _usual(["map"]), _usual(["a", "b"])
    ('predictions', 'map', '')
    """
    if len(names) == 1:
        return names[0]
    return next((name for usual in USUAL_NAMES for name in names if name.split("/")[-1] == usual), "")
