"""Images, label images and maps from files: their pixels, axes and pixel size. Zarr folders can stay on disk.

A file need not be trusted: it may promise more than it holds, or grow while it is read.
"""

from __future__ import annotations

import logging
import math
import os
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn
from xml.parsers import expat

import imageio.v3 as iio
import numpy as np
import psutil
import tifffile
from numpy.typing import NDArray

from napari_gsw.core.errors import InputError
from napari_gsw.core.image.lazy import list_levels, read_group_axes, to_dask_pyramid
from napari_gsw.core.image.spacing import format_spacing, normalize_spacing
from napari_gsw.files.geometry import UNKNOWN, Geometry, normalize_unit, pixel_sizes

TIFF_SUFFIXES = (".tif", ".tiff")
# Formats that are read when a session names the file. Nothing in a file of these formats is executed.
IMAGE_SUFFIXES = (
    *TIFF_SUFFIXES, ".npy", ".png", ".jpg", ".jpeg", ".jp2", ".bmp", ".gif", ".webp", ".pgm", ".ppm", ".pnm",
)  # fmt: skip
HDF5 = (".h5", ".hdf5", ".hdf", ".ilp")
# Names that programs give the map in their files, the most likely first: ilastik, PanSeg and relatives, others.
USUAL_NAMES = ("exported_data", "predictions", "probabilities", "boundaries", "features", "data", "volume")
# Bytes that any file may unpack to.
ALWAYS = 2**29
# Deflate packs at most 1032 bytes into one; no image is compressed further.
MAX_COMPRESSION = 1100


def is_zarr(path: str | os.PathLike[str]) -> bool:
    """Return whether a folder is a zarr group or array, of format 2 or 3."""
    return any(os.path.isfile(os.path.join(path, name)) for name in ("zarr.json", ".zgroup", ".zarray"))


def is_image_file(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a zarr folder or an existing file of an image format that is read here."""
    return is_zarr(path) or (Path(path).suffix.lower() in IMAGE_SUFFIXES and os.path.isfile(path))


def read_image(path: str | os.PathLike[str]) -> tuple[NDArray[Any], str]:
    """Read a TIFF (also OME and ImageJ), .npy, zarr folder (its finest level), or what imageio reads.

    Returns the pixels and a letter of ZYXCS for each axis, without axes of length 1; or all axes and ``auto`` if the
    file does not name them.
    """
    array, axes = _read(path)
    if axes == "auto":
        may_have_alpha = Path(path).suffix.lower() not in (*TIFF_SUFFIXES, ".npy") and not is_zarr(path)
        return (array[..., 0] if may_have_alpha and array.ndim == 3 and array.shape[-1] == 2 else array), axes
    keep = [i for i, (a, length) in enumerate(zip(axes, array.shape, strict=True)) if length > 1 or a in "YX"]
    array, axes = array.reshape([array.shape[i] for i in keep]), "".join(axes[i] for i in keep)
    if "T" in axes:
        n_times = array.shape[axes.index("T")]
        raise InputError(f"{str(path)!r} has a time axis of {n_times}; give one time point at a time")
    if "Z" not in axes:  # a plain stack of pages says nothing about its third axis
        for unknown in "IQ":
            axes = axes.replace(unknown, "Z", 1)
    return array, axes if set(axes) <= set("ZYXCS") else "auto"


def open_image(path: str | os.PathLike[str]) -> tuple[Any, str]:
    """Read an image file, but open a zarr folder without reading its pixels; see :func:`read_image`."""
    if not is_zarr(path):
        return read_image(path)
    import zarr

    try:
        node = zarr.open(str(path), mode="r")
        list_levels(node)
    except Exception as error:
        raise InputError(f"{str(path)!r} cannot be read as an image: {error}") from None
    return node, "auto"


def read_layer_data(path: str | os.PathLike[str]) -> Any:
    """Read the data of an image layer from a file of an image format, with all axes; zarr folders stay on disk.

    Only the readers of this module are used, whatever other plugins offer for the name.
    """
    if not is_image_file(path):
        raise InputError(f"{os.fspath(path)!r} is not an image file that can be read; open the image first")
    return to_dask_pyramid(open_image(path)[0]) if is_zarr(path) else _read(path)[0]


def read_labels(path: str | os.PathLike[str], lazily: bool = False) -> Any:
    """Read a label image, of a boolean or integer type; with `lazily`, a zarr folder is opened and not read."""
    array = list_levels(open_image(path)[0])[0] if lazily and is_zarr(path) else read_image(path)[0]
    if array.dtype.kind not in "bui":
        raise InputError(f"{str(path)!r} must hold whole numbers, not {array.dtype}")
    return array


def _read(path: str | os.PathLike[str]) -> tuple[NDArray[Any], str]:
    """Read an array as the file has it, and its axes where the file names them."""
    file = Path(path)
    is_folder, suffix = is_zarr(file), file.suffix.lower()
    if not is_folder and not os.path.isfile(file):  # unlike Path.is_file, false for a name that no file can have
        raise InputError(f"{str(file)!r} is not a file")
    try:
        stored = sum(part.stat().st_size for part in (file, *file.rglob("*")) if part.is_file())
        if is_folder:
            node, _ = open_image(file)
            finest = list_levels(node)[0]
            check_promise(math.prod(finest.shape) * finest.dtype.itemsize, stored)
            letters = read_group_axes(node)
            return np.asarray(finest[...]), letters if letters and len(letters) == finest.ndim else "auto"
        if suffix in TIFF_SUFFIXES:
            with open_tiff(file) as tiff:
                if len(tiff.pages) == 0:
                    raise ValueError("the TIFF has no page")
                series = tiff.series[0]
                check_promise(math.prod(series.shape) * series.dtype.itemsize, stored)
                return series.asarray(), series.axes
        if suffix == ".npy":
            with file.open("rb") as content:  # NumPy would ask for the memory before it sees that the file is too short
                version = np.lib.format.read_magic(content)
                formats = np.lib.format
                read = formats.read_array_header_1_0 if version == (1, 0) else formats.read_array_header_2_0
                shape, _, dtype = read(content)
            if not dtype.hasobject and math.prod(shape) * dtype.itemsize > stored:  # NumPy itself refuses objects
                raise ValueError("it promises more numbers than it holds")
            return np.load(file, allow_pickle=False), "auto"
        with silence_logger("tifffile"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            hint: dict[str, Any] = {"extension": file.suffix} if suffix else {}
            try:  # in memory: given a name, decoders that fail leave the file open
                array = np.asarray(iio.imread(file.read_bytes(), **hint))
            except OSError as error:
                if "backend" in str(error):  # a message for readers of imageio's manual
                    raise ValueError("it is damaged, or in a format that no reader here knows") from None
                raise
        if array.size == 0:
            raise ValueError("it holds no pixel")
    except InputError:
        raise
    except Exception as error:  # decoders raise whatever they like on a broken file
        line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputError(f"{str(file)!r} cannot be read as an image: {line}") from None
    return array, "auto"


@contextmanager
def open_tiff(file: Path) -> Iterator[tifffile.TiffFile]:
    """Open a TIFF, whose OME-XML must not define entities, before tifffile parses it."""
    with silence_logger("tifffile"), tifffile.TiffFile(file) as tiff:
        if len(tiff.pages) and tiff.is_ome:
            refuse_entities(str(tiff.pages.first.description))
        yield tiff


@contextmanager
def silence_logger(name: str) -> Iterator[None]:
    """Silence a library's remarks on a file, which are for its developers."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


def read_geometry(path: str | os.PathLike[str]) -> Geometry:
    """Read the pixel size and its unit from a file, by axis; the axes of the geometry stay empty."""
    file = Path(path)
    try:
        if is_zarr(file):
            return _zarr_geometry(open_image(file)[0])
        if file.suffix.lower() in TIFF_SUFFIXES and os.path.isfile(file):
            with open_tiff(file) as tiff:
                return _ome_geometry(tiff) if tiff.is_ome else _imagej_geometry(tiff) if tiff.is_imagej else UNKNOWN
    except Exception:  # broken metadata; the image itself is read, or refused, elsewhere
        return UNKNOWN
    return UNKNOWN


def read_spacing(path: str | os.PathLike[str], axes: str) -> str:
    """Read the setting ``spacing`` from a file with these axes; ``auto`` if there is none, or if pixels are square."""
    known = read_geometry(path)
    letters = axes.upper() if axes != "auto" else "ZYX" if "Z" in known.size else "YX"
    space = [letter for letter in letters if letter in "ZYX"]
    if not all(letter in known.size for letter in space):
        return "auto"
    sizes = pixel_sizes(known, space)
    if not all(math.isfinite(size) and size > 0 for size in sizes):
        text = ", ".join(f"{size:g}" for size in sizes)
        raise InputError(f"{str(path)!r} says that pixels are {text} apart; set the spacing, such as 5,1,1")
    return "auto" if normalize_spacing(sizes) is None else format_spacing(sizes)


def _ome_geometry(tiff: Any) -> Geometry:
    image = tifffile.xml2dict(tiff.ome_metadata)["OME"]["Image"]
    pixels = (image[0] if isinstance(image, list) else image)["Pixels"]
    known = [axis for axis in "ZYX" if f"PhysicalSize{axis}" in pixels]
    units = {axis: normalize_unit(pixels.get(f"PhysicalSize{axis}Unit", "µm")) for axis in known}
    return Geometry("", {axis: float(pixels[f"PhysicalSize{axis}"]) for axis in known}, units)


def _imagej_geometry(tiff: Any) -> Geometry:
    """Read ImageJ's resolution in pixels per unit, and the distance of z-slices in its description."""
    metadata, tags = tiff.imagej_metadata or {}, tiff.pages.first.tags
    size = {}
    for axis, name in (("X", "XResolution"), ("Y", "YResolution")):
        if name in tags and tags[name].value[0]:
            size[axis] = tags[name].value[1] / tags[name].value[0]
    if "spacing" in metadata:
        size["Z"] = float(metadata["spacing"])
    if len(size) != (3 if "spacing" in metadata else 2):
        return UNKNOWN
    if "unit" not in metadata:  # a resolution for printers, unless pixels are not square
        return UNKNOWN if len(set(size.values())) == 1 and len(size) == 2 else Geometry("", size)
    names = {"X": metadata["unit"], "Y": metadata.get("yunit"), "Z": metadata.get("zunit")}
    # The description is ASCII: a Greek letter is escaped.
    units = {axis: str(names[axis] or names["X"]).replace("\\u00B5", "µ").replace("\\u00b5", "µ") for axis in size}
    return Geometry("", size, {axis: normalize_unit(unit) for axis, unit in units.items()})


def _zarr_geometry(node: Any) -> Geometry:
    """Read scale and units of the finest level of an OME-Zarr image."""
    letters = read_group_axes(node)
    if letters is None:
        return UNKNOWN
    attributes = dict(node.attrs)
    image = attributes.get("ome", attributes)["multiscales"][0]
    scale = np.ones(len(letters))
    for transforms in (image["datasets"][0].get("coordinateTransformations"), image.get("coordinateTransformations")):
        for transform in transforms or ():
            if transform.get("type") == "scale":
                scale *= np.array(transform["scale"], float)
    shape = list_levels(node)[0].shape  # a 2D image that is stored as a volume has no distance of z-slices
    steps = zip(letters, scale.tolist(), shape, strict=True)
    size = {axis: step for axis, step, n in steps if axis in "YX" or (axis == "Z" and n > 1)}
    named = [axis.get("unit") if isinstance(axis, dict) else None for axis in image["axes"]]
    units = {letter: normalize_unit(unit) for letter, unit in zip(letters, named, strict=True) if unit}
    return Geometry("", size, {axis: units[axis] for axis in size if axis in units})


def open_map_file(path: str | os.PathLike[str], lazily: bool = False) -> Any:
    """Read the array of a file, a zarr folder, or a data set in HDF5 (``file.h5/dataset``).

    With `lazily`, what is stored in chunks is opened and not read. Without a name, the data set is the only one, or one
    with a usual name.
    """
    file = find_map_file(Path(path))
    if file.suffix.lower() not in HDF5 or not os.path.isfile(file):
        array = open_image(path)[0]
        array = array if isinstance(array, np.ndarray) else list_levels(array)[0]
        return array if lazily else np.asarray(array[...])
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
    dataset = Path(path).relative_to(file).as_posix().removeprefix(".")
    chosen = dataset or (names[0] if len(names) == 1 else next(usual, ""))
    if chosen not in names:
        problem = f"has no data set {dataset!r}" if dataset else "has several data sets"
        raise InputError(f"{str(file)!r} {problem}: name one, as in {file.name}/NAME ({', '.join(names) or 'none'})")
    if lazily:
        return opened[chosen]
    with opened:
        return np.asarray(opened[chosen][...])


def find_map_file(path: Path) -> Path:
    """Return the file or folder of a path that may continue inside an HDF5 file."""
    return next((parent for parent in (path, *path.parents) if parent.suffix.lower() in HDF5), path)


def check_promise(
    size: int,
    stored: int,
    subject: str = "an image",
    max_compression: int = MAX_COMPRESSION,
    advice: str = "as zarr it is read in blocks",
) -> None:
    """Raise ValueError if an array of `size` bytes cannot come from `stored` bytes of a file, or exceeds the memory."""

    def format_bytes(count: int) -> str:
        for size, unit in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
            if count >= size:
                return f"{count / size:.0f} {unit}"
        return f"{count} bytes"

    if size > ALWAYS and size > max_compression * stored:
        raise ValueError(f"it promises {subject} of {format_bytes(size)} in a file of {format_bytes(stored)}")
    if size > psutil.virtual_memory().total:
        raise ValueError(f"{subject} of {format_bytes(size)} does not fit into memory; {advice}")


def parse_xml(content: str | bytes) -> ET.Element:
    """Parse XML; ValueError if it defines entities, :class:`ET.ParseError` if it is not XML."""
    refuse_entities(content)
    return ET.fromstring(content)


def refuse_entities(content: str | bytes) -> None:
    """Raise ValueError if XML defines entities; text that is not well formed passes."""

    def refuse(*_: object) -> NoReturn:
        raise ValueError("it defines XML entities, which may grow without end")

    parser = expat.ParserCreate()
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(content, True)
    except expat.ExpatError:
        return
