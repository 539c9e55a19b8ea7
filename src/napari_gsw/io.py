"""Files: images and labels in, results out. Everything is written beside its place first and then moved there."""

from __future__ import annotations

import csv
import json
import logging
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import imageio.v3 as iio
import numpy as np
import tifffile
from numpy.typing import NDArray

from napari_gsw.core.errors import InputError
from napari_gsw.core.pipeline import Result, Trace

TIFF = (".tif", ".tiff")
PNG_MOST = np.iinfo(np.uint16).max


def read_image(path: str | os.PathLike[str]) -> tuple[NDArray[Any], str]:
    """An image file, and the order of its axes (``auto`` if the file does not tell).

    TIFF (also OME and ImageJ, with their axes), NumPy's .npy, and whatever imageio reads: PNG, JPEG, BMP ...
    """
    file = Path(path)
    if not os.path.isfile(file):  # unlike Path.is_file, false for a name that no file can have
        raise InputError(f"{str(path)!r} is not a file")
    try:
        if file.suffix.lower() in TIFF:
            with _silent("tifffile"), tifffile.TiffFile(file) as tiff:
                if len(tiff.pages) == 0:
                    raise ValueError("the TIFF has no page")
                series = tiff.series[0]
                return _without_single_axes(series.asarray(), series.axes, file)
        if file.suffix.lower() == ".npy":
            return np.load(file, allow_pickle=False), "auto"
        with _silent("tifffile"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            array = np.asarray(iio.imread(file))
        if array.size == 0:
            raise ValueError("it holds no pixel")
    except InputError:
        raise
    except Exception as reason:  # decoders raise whatever they like on a broken file
        line = str(reason).strip().splitlines()[0] if str(reason).strip() else type(reason).__name__
        raise InputError(f"{str(path)!r} cannot be read as an image: {line}") from None
    if array.ndim == 3 and array.shape[-1] == 2:
        array = array[..., 0]  # grey with alpha
    return array, "auto"


@contextmanager
def _silent(name: str) -> Iterator[None]:
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


def read_labels(path: str | os.PathLike[str]) -> NDArray[Any]:
    """A label image: a file of whole numbers."""
    array, _ = read_image(path)
    if array.dtype.kind not in "bui":
        raise InputError(f"{str(path)!r} must hold whole numbers, not {array.dtype}")
    return array


@contextmanager
def output_folder(folder: str | os.PathLike[str], ours: Sequence[str] = ()) -> Iterator[Path]:
    """A scratch folder inside `folder` whose files move into it when all went well, and vanish otherwise.

    Files named in `ours` that an earlier run left and this one did not write go: they would belong to other labels.
    """
    target = Path(folder)
    made: list[Path] = []
    missing = [p for p in (target, *target.parents) if not os.path.exists(p)]
    try:
        for parent in reversed(missing):
            parent.mkdir()
            made.append(parent)
        scratch = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=target))
    except OSError as reason:
        _remove(made)
        raise InputError(f"the output folder {str(folder)!r} cannot be written: {reason.strerror}") from None
    try:
        yield scratch
        files = sorted(scratch.iterdir())
        for file in files:
            os.replace(file, target / file.name)
        for name in set(ours) - {file.name for file in files}:
            (target / name).unlink(missing_ok=True)
    except BaseException as reason:
        shutil.rmtree(scratch, ignore_errors=True)
        _remove(made)
        if isinstance(reason, OSError):
            raise InputError(f"the output folder {str(folder)!r} cannot be written: {reason.strerror}") from None
        raise
    shutil.rmtree(scratch)


def _remove(folders: list[Path]) -> None:
    for folder in reversed(folders):
        try:
            folder.rmdir()
        except OSError:
            return


def write_result(result: Result, folder: Path, labels_name: str = "labels.tif", sites: bool = False) -> list[str]:
    """Write labels, provenance and trace into a folder; returns remarks for the user.

    Parameters
    ----------
    labels_name : ends in .tif or .png; PNG holds two dimensions of at most 16 bits. Unless its stem is ``labels``, the
        other files' names begin with it, so that several results can share a folder.
    sites : also write the superpixels.
    """
    remarks = []
    if result.labels.dtype == np.uint32:
        remarks.append(f"labels go up to {result.labels.max()}, more than uint16 holds: written as uint32")
    written = write_labels(result.labels, folder / labels_name)
    if written.name != labels_name:
        what = "a volume" if result.labels.ndim > 2 else "32-bit labels"
        remarks.append(f"PNG cannot hold {what}: written as {written.name}")
    if sites and result.problem.sites is not None:
        wide = result.problem.n > PNG_MOST
        if wide:
            remarks.append(f"{result.problem.n} sites are more than uint16 holds: the sites are written as uint32")
        image = result.problem.sites.astype(np.uint32 if wide else np.uint16)
        write_labels(image, folder / companion(labels_name, "sites.tif"))
    text = json.dumps(result.provenance, indent=2) + "\n"
    (folder / companion(labels_name, "provenance.json")).write_text(text, encoding="utf-8")
    write_trace(result.trace, folder / companion(labels_name, "trace.csv"))
    if np.isnan(result.uncertainty).any():
        remarks.append("the chain ended before its burn-in was over: there is no uncertainty")
    return remarks


# What stands beside the labels, some of it on demand.
COMPANIONS = ("sites.tif", "provenance.json", "trace.csv", "overlay.png", "trace.png", "uncertainty.png")


def companion(labels_name: str, name: str) -> str:
    """Name of a file beside the labels: ``trace.csv`` for ``labels.tif``, ``mine.trace.csv`` for ``mine.tif``."""
    stem = Path(labels_name).stem
    return name if stem == "labels" else f"{stem}.{name}"


def write_labels(labels: NDArray[Any], path: Path) -> Path:
    """Write a label image as TIFF, or as PNG where that can hold it; returns where it went."""
    if path.suffix.lower() == ".png":
        if labels.ndim == 2 and labels.dtype.itemsize <= 2:
            iio.imwrite(path, labels)
            return path
        path = path.with_suffix(".tif")
    tifffile.imwrite(path, labels, metadata={"axes": "ZYX"[-labels.ndim :]})
    return path


def write_trace(trace: Trace, path: Path) -> None:
    """Write a trace as CSV, one row a sweep, with every digit."""
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(Trace._fields)
        table.writerows(zip(*(column.tolist() for column in trace), strict=True))
