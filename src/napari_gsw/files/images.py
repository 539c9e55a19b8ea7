"""Images and label images from files, read at once or, from a zarr folder, when their pixels are needed."""

from __future__ import annotations

import logging
import math
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import imageio.v3 as iio
import numpy as np
import tifffile
from numpy.typing import NDArray

from napari_gsw.core.errors import InputError
from napari_gsw.core.image.lazy import levels, pyramid
from napari_gsw.files.promised_size import check_promise, stored_size
from napari_gsw.files.xml_text import refuse_entities
from napari_gsw.files.zarr_files import is_zarr, open_zarr, read_zarr

TIFF = (".tif", ".tiff")
# Formats that are read when a session names the file. Nothing in a file of these formats is executed.
IMAGE_SUFFIXES = (*TIFF, ".npy", ".png", ".jpg", ".jpeg", ".jp2", ".bmp", ".gif", ".webp", ".pgm", ".ppm", ".pnm")


def read_image(path: str | os.PathLike[str]) -> tuple[NDArray[Any], str]:
    """Read an image file.

    TIFF (also OME and ImageJ, with their axes), NumPy's .npy, a zarr folder (of an OME-Zarr the finest level), and
    whatever imageio reads: PNG, JPEG, BMP ...

    Returns
    -------
    The array as the file has it, without axes of length 1 where the file names its axes, and the order of its axes:
    a letter of ZYXCS for each, or ``auto`` if the file does not tell.
    """
    file = Path(path)
    array, axes = _read(file)
    if axes != "auto":
        return _without_single_axes(array, axes, file)
    if array.ndim == 3 and array.shape[-1] == 2 and file.suffix.lower() not in (*TIFF, ".npy") and not is_zarr(file):
        array = array[..., 0]  # grey with alpha
    return array, axes


def is_image_file(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a zarr folder or an existing file of an image format that is read here."""
    file = Path(path)
    return is_zarr(file) or (file.suffix.lower() in IMAGE_SUFFIXES and os.path.isfile(file))


def read_layer_data(path: str | os.PathLike[str]) -> Any:
    """Read the data of an image layer from a file of an image format, with all axes; zarr folders stay on disk.

    Only the readers of this module are used, whatever other plugins offer for the name.
    """
    if not is_image_file(path):
        raise InputError(f"{os.fspath(path)!r} is not an image file that can be read; open the image first")
    return pyramid(open_image(path)[0]) if is_zarr(path) else _read(Path(path))[0]


def _read(file: Path) -> tuple[NDArray[Any], str]:
    """Read an array as the file has it, and its axes where the file names them."""
    folder = is_zarr(file)
    if not folder and not os.path.isfile(file):  # unlike Path.is_file, false for a name that no file can have
        raise InputError(f"{str(file)!r} is not a file")
    try:
        if folder:
            return read_zarr(file)
        if file.suffix.lower() in TIFF:
            with silent("tifffile"), tifffile.TiffFile(file) as tiff:
                if len(tiff.pages) == 0:
                    raise ValueError("the TIFF has no page")
                if tiff.is_ome:  # before tifffile reads it
                    refuse_entities(str(tiff.pages.first.description))
                series = tiff.series[0]
                check_promise(math.prod(series.shape) * series.dtype.itemsize, stored_size(file))
                return series.asarray(), series.axes
        if file.suffix.lower() == ".npy":
            _check_npy(file)
            return np.load(file, allow_pickle=False), "auto"
        with silent("tifffile"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            array = _decoded(file.read_bytes(), file.suffix)
        if array.size == 0:
            raise ValueError("it holds no pixel")
    except InputError:
        raise
    except Exception as reason:  # decoders raise whatever they like on a broken file
        line = str(reason).strip().splitlines()[0] if str(reason).strip() else type(reason).__name__
        raise InputError(f"{str(file)!r} cannot be read as an image: {line}") from None
    return array, "auto"


def open_image(path: str | os.PathLike[str]) -> tuple[Any, str]:
    """As :func:`read_image`, but a zarr folder is opened and not read: its chunks are, when they are needed."""
    if not is_zarr(path):
        return read_image(path)
    try:
        node = open_zarr(path)
        levels(node)
    except Exception as reason:
        raise InputError(f"{str(path)!r} cannot be read as an image: {reason}") from None
    return node, "auto"


def read_labels(path: str | os.PathLike[str]) -> NDArray[Any]:
    """A label image: the array of a file of whole numbers, of a boolean or integer type."""
    array, _ = read_image(path)
    _must_be_whole_numbers(array, path)
    return array


def open_labels(path: str | os.PathLike[str]) -> Any:
    """As :func:`read_labels`, but of a zarr folder the finest level, of which nothing has been read yet."""
    if not is_zarr(path):
        return read_labels(path)
    array = levels(open_image(path)[0])[0]
    _must_be_whole_numbers(array, path)
    return array


def _must_be_whole_numbers(array: Any, path: str | os.PathLike[str]) -> None:
    if array.dtype.kind not in "bui":
        raise InputError(f"{str(path)!r} must hold whole numbers, not {array.dtype}")


def _decoded(content: bytes, suffix: str) -> NDArray[Any]:
    """A picture from the content of its file; given a name, decoders that fail leave the file open."""
    hint: dict[str, Any] = {"extension": suffix} if suffix else {}
    try:
        return np.asarray(iio.imread(content, **hint))
    except OSError as reason:
        if "backend" in str(reason):  # says nothing to who has not read imageio's manual
            raise ValueError("it is damaged, or in a format that no reader here knows") from None
        raise


def _check_npy(file: Path) -> None:
    """A header of NumPy's that promises more than follows it; NumPy would ask for the memory first."""
    with file.open("rb") as content:
        version = np.lib.format.read_magic(content)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read_header(content)
    if dtype.hasobject:
        return  # refused by NumPy itself
    if math.prod(shape) * dtype.itemsize > file.stat().st_size:
        raise ValueError("it promises more numbers than it holds")


@contextmanager
def silent(name: str) -> Iterator[None]:
    """A library's remarks on a file are for its developers; what a user can do about it is in our one line."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


def _without_single_axes(array: NDArray[Any], axes: str, file: Path) -> tuple[NDArray[Any], str]:
    """Drop axes of length 1; what is left must be space, channels or samples."""
    keep = [i for i, (a, length) in enumerate(zip(axes, array.shape, strict=True)) if length > 1 or a in "YX"]
    array, axes = array.reshape([array.shape[i] for i in keep]), "".join(axes[i] for i in keep)
    if "T" in axes:
        raise InputError(
            f"{str(file)!r} has a time axis of {array.shape[axes.index('T')]}; give one time point at a time"
        )
    if "Z" not in axes:  # a plain stack of pages says nothing about its third axis
        for unknown in "IQ":
            axes = axes.replace(unknown, "Z", 1)
    return array, axes if set(axes) <= set("ZYXCS") else "auto"
