"""Read input maps: TIFF, NumPy's .npy, zarr, HDF5, and other image formats."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from napari_gsw.core.errors import InputError
from napari_gsw.core.image.lazy import list_levels
from napari_gsw.files.images import open_image

HDF5 = (".h5", ".hdf5", ".hdf", ".ilp")
# Names that programs give the map in their files, the most likely first: ilastik, PanSeg and relatives, others.
USUAL_NAMES = ("exported_data", "predictions", "probabilities", "boundaries", "features", "data", "volume")


def open_map_file(path: str | os.PathLike[str], lazily: bool = False) -> Any:
    """Read the array of a file, a zarr folder, or a data set in HDF5 (``file.h5/dataset``).

    With `lazily`, what is stored in chunks is opened and not read.
    """
    file = find_map_file(Path(path))
    if file.suffix.lower() in HDF5 and os.path.isfile(file):
        return _open_hdf5(file, Path(path).relative_to(file).as_posix().removeprefix("."), lazily)
    array = open_image(path)[0]
    if isinstance(array, np.ndarray):
        return array
    finest = list_levels(array)[0]
    return finest if lazily else np.asarray(finest[...])


def find_map_file(path: Path) -> Path:
    """Return the file or folder of a path that may continue inside an HDF5 file."""
    return next((parent for parent in (path, *path.parents) if parent.suffix.lower() in HDF5), path)


def _open_hdf5(file: Path, dataset: str, lazily: bool) -> Any:
    """Open the named data set, the only one, or one with a usual name."""
    try:
        import h5py
    except ImportError:
        raise InputError('HDF5 files need a package that is missing; try: pip install "napari-gsw[hdf5]"') from None
    try:
        opened = h5py.File(file, "r")
    except OSError as error:
        raise InputError(f"{str(file)!r} cannot be read as HDF5: {str(error).splitlines()[0]}") from None
    names: list[str] = []
    opened.visititems(lambda name, node: names.append(name) if isinstance(node, h5py.Dataset) else None)
    usual = (name for usual in USUAL_NAMES for name in names if name.split("/")[-1] == usual)
    chosen = dataset or (names[0] if len(names) == 1 else next(usual, ""))
    if chosen not in names:
        problem = f"has no data set {dataset!r}" if dataset else "has several data sets"
        raise InputError(f"{str(file)!r} {problem}: name one, as in {file.name}/NAME ({', '.join(names) or 'none'})")
    array = opened[chosen]
    if lazily:
        return array
    values = np.asarray(array[...])
    opened.close()
    return values
