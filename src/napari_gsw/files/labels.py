"""Files: images and labels in, results out. Everything is written beside its place first and then moved there."""

from __future__ import annotations

import csv
import json
import logging
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import imageio.v3 as iio
import numpy as np
import tifffile
from numpy.typing import ArrayLike, NDArray

from napari_gsw.core.errors import InputError
from napari_gsw.core.image.lazy import is_lazy, levels
from napari_gsw.core.posterior.result import Result, Trace
from napari_gsw.files import label_formats as label_files

TIFF = (".tif", ".tiff")
PNG_MOST = np.iinfo(np.uint16).max


def read_image(path: str | os.PathLike[str]) -> tuple[NDArray[Any], str]:
    """An image file, and the order of its axes (``auto`` if the file does not tell).

    TIFF (also OME and ImageJ, with their axes), NumPy's .npy, a zarr folder (of an OME-Zarr the finest level), and
    whatever imageio reads: PNG, JPEG, BMP ...
    """
    file = Path(path)
    folder = label_files.is_zarr(file)
    if not folder and not os.path.isfile(file):  # unlike Path.is_file, false for a name that no file can have
        raise InputError(f"{str(path)!r} is not a file")
    try:
        if folder:
            array, axes = label_files.read_zarr(file)
            return (array, axes) if axes == "auto" else _without_single_axes(array, axes, file)
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
            array = _decoded(file.read_bytes(), file.suffix)
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


def _decoded(content: bytes, suffix: str) -> NDArray[Any]:
    """A picture from the content of its file; given a name, decoders that fail leave the file open."""
    hint: dict[str, Any] = {"extension": suffix} if suffix else {}
    try:
        return np.asarray(iio.imread(content, **hint))
    except OSError as reason:
        if "backend" in str(reason):  # says nothing to who has not read imageio's manual
            raise ValueError("it is damaged, or in a format that no reader here knows") from None
        raise


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


def open_image(path: str | os.PathLike[str]) -> tuple[Any, str]:
    """As :func:`read_image`, but a zarr folder is opened and not read: its chunks are, when they are needed."""
    if not label_files.is_zarr(path):
        return read_image(path)
    try:
        node = label_files.open_zarr(path)
        levels(node)
    except Exception as reason:
        raise InputError(f"{str(path)!r} cannot be read as an image: {reason}") from None
    return node, "auto"


def read_labels(path: str | os.PathLike[str]) -> NDArray[Any]:
    """A label image: a file of whole numbers."""
    array, _ = read_image(path)
    if array.dtype.kind not in "bui":
        raise InputError(f"{str(path)!r} must hold whole numbers, not {array.dtype}")
    return array


def open_labels(path: str | os.PathLike[str]) -> Any:
    """As :func:`read_labels`, but of a zarr folder the finest level, of which nothing has been read yet."""
    if not label_files.is_zarr(path):
        return read_labels(path)
    array = levels(open_image(path)[0])[0]
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
        raise InputError(f"the output folder {str(folder)!r} cannot be written: {reason.strerror or reason}") from None
    try:
        yield scratch
        files = sorted(scratch.iterdir())
        for file in files:
            _move(file, target / file.name)
        for name in set(ours) - {file.name for file in files}:
            if (target / name).is_dir() and not (target / name).is_symlink():
                shutil.rmtree(target / name)
            else:
                (target / name).unlink(missing_ok=True)
    except BaseException as reason:
        shutil.rmtree(scratch, ignore_errors=True)
        _remove(made)
        if isinstance(reason, OSError):
            why = reason.strerror or reason
            raise InputError(f"the output folder {str(folder)!r} cannot be written: {why}") from None
        raise
    shutil.rmtree(scratch)


def _move(made: Path, place: Path) -> None:
    """Put a file or folder in its place. A folder cannot be moved onto another: the old one steps aside first."""
    if not made.is_dir() or not os.path.lexists(place):
        os.replace(made, place)
        return
    _check_target(place)
    aside = made.with_name(f".replaced-{made.name}")
    os.replace(place, aside)
    try:
        os.replace(made, place)
    except BaseException:
        os.replace(aside, place)
        raise


def _remove(folders: list[Path]) -> None:
    for folder in reversed(folders):
        try:
            folder.rmdir()
        except OSError:
            return


def write_found(
    labels: NDArray[Any], provenance: Mapping[str, Any], folder: Path, labels_name: str = "labels.tif"
) -> list[str]:
    """Write labels and what made them into a folder; returns remarks for the user.

    Parameters
    ----------
    labels_name : ends in .tif or .png; PNG holds two dimensions of at most 16 bits. Unless its stem is ``labels``, the
        other files' names begin with it, so that several results can share a folder.
    """
    remarks = []
    if labels.dtype == np.uint32 and not is_lazy(labels):
        remarks.append(f"labels go up to {labels.max()}, more than uint16 holds: written as uint32")
    written = put_labels(labels, folder / labels_name, provenance=provenance)
    if written.name != labels_name:
        what = "a volume" if labels.ndim > 2 else "32-bit labels"
        remarks.append(f"PNG cannot hold {what}: written as {written.name}")
    return remarks


def write_chain(result: Result, folder: Path, labels_name: str = "labels.tif", sites: bool = False) -> list[str]:
    """Write what stands beside the labels of a chain: its trace and, if asked for, its superpixels; returns remarks."""
    remarks = []
    if sites and result.problem.sites is not None:
        wide = result.problem.n > PNG_MOST
        if wide:
            remarks.append(f"{result.problem.n} sites are more than uint16 holds: the sites are written as uint32")
        numbers = np.arange(1, result.problem.n + 1, dtype=np.uint32 if wide else np.uint16)
        image = result.problem.paint(numbers)
        put_labels(
            image, folder / companion(labels_name, "sites.zarr" if is_lazy(image) else "sites.tif"), name="sites"
        )
    write_trace(result.traces, folder / companion(labels_name, "trace.csv"))
    if np.isnan(result.snapshot.together).any():
        remarks.append("the chain ended before its burn-in was over: there is no uncertainty")
    return remarks


# What stands beside the labels, some of it on demand.
COMPANIONS = ("sites.tif", "sites.zarr", "provenance.json", "trace.csv", "overlay.png", "trace.png", "uncertainty.png")


def companion(labels_name: str, name: str) -> str:
    """Name of a file beside the labels: ``trace.csv`` for ``labels.tif``, ``mine.trace.csv`` for ``mine.tif``."""
    stem = label_files.stem(labels_name)
    return name if stem == "labels" else f"{stem}.{name}"


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
) -> Path:
    """Write a label image in the format that the file's name asks for; returns where it went.

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
        ``labels.tif`` as ``provenance.json``), and also into .tif, .ome.tif and .zarr.
    """
    target = Path(path)
    _check_target(target)
    place = label_files.geometry(np.ndim(labels), axes, scale, units, translate)
    beside = companion(target.name, "provenance.json")
    stale = os.path.lexists(target) and _is_ours(target.with_name(beside))
    with output_folder(target.parent, [beside] if stale else []) as scratch:
        written = target.with_name(put_labels(labels, scratch / target.name, place, name, provenance).name)
        if written != target and os.path.lexists(written):  # nobody was asked whether that one may go
            raise InputError(f"PNG cannot hold these labels, and {str(written)!r} is there already; write another .tif")
    return written


def put_labels(
    labels: ArrayLike,
    path: Path,
    place: label_files.Geometry | None = None,
    name: str = "labels",
    provenance: Mapping[str, Any] | None = None,
) -> Path:
    """The work of :func:`write_labels`, straight into a folder that is scratch already."""
    array = label_files.narrowed(labels)
    if is_lazy(array) and label_files.writer(path) is not label_files.write_zarr:
        raise InputError(f"lazy labels are written chunk by chunk as .zarr, not as {path.name!r}")
    try:
        made = None if provenance is None else json.dumps(dict(provenance), indent=2)
    except (TypeError, ValueError) as reason:
        raise InputError(f"the provenance must be ready for JSON: {reason}") from None
    if path.suffix.lower() == ".png" and (array.ndim > 2 or array.dtype.itemsize > 2):
        path = path.with_suffix(".tif")
    label_files.writer(path)(array, path, place or label_files.geometry(array.ndim), name, made)
    if made is not None:
        path.with_name(companion(path.name, "provenance.json")).write_text(made + "\n", encoding="utf-8")
    return path


def _check_target(path: Path) -> None:
    """Refuse a name of no known format, and a folder that holds something else."""
    if label_files.writer(path) is not label_files.write_zarr:
        if os.path.isdir(path):
            raise InputError(f"{str(path)!r} is a folder; name a file for the labels")
    elif os.path.lexists(path) and not label_files.is_label_zarr(path):
        raise InputError(f"{str(path)!r} is there already and is no label image of OME-Zarr; choose another name")


def _is_ours(provenance: Path) -> bool:
    """Whether a file tells what napari-gsw made; of labels that are written over it would tell a lie."""
    try:
        return bool(json.loads(provenance.read_text(encoding="utf-8"))["software"] == "napari-gsw")
    except (OSError, ValueError, KeyError, TypeError):
        return False


def write_trace(traces: Sequence[Trace], path: Path) -> None:
    """Write traces as CSV, one row a sweep, with every digit; of several chains with the chain's number first."""
    many = len(traces) > 1
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow((*(["chain"] if many else []), *Trace._fields))
        for chain, trace in enumerate(traces):
            rows = zip(*(column.tolist() for column in trace), strict=True)
            table.writerows(([chain, *row] if many else row) for row in rows)
