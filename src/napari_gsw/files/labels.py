"""Label image files: ImageJ, plain and OME TIFF, PNG, NumPy and OME-Zarr with coarser levels."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import imageio.v3 as iio
import numpy as np
import tifffile
from numpy.typing import ArrayLike, NDArray

from napari_gsw.core.errors import InputError
from napari_gsw.core.image.block_grid import make_grid
from napari_gsw.core.image.lazy import is_lazy, map_blocks, read
from napari_gsw.files.geometry import LENGTHS, PIXEL, TIMES, Geometry, make_geometry, reorder_axes
from napari_gsw.files.output_folder import PROVENANCE, base_name, check_overwrite, output_folder, sibling_name

CLASSIC_TIFF = 2**32 - 2**25  # bytes; more need BigTIFF, which ImageJ does not read
IMAGEJ_ORDER, OME_ORDER = "TZCYX", "TCZYX"
# ImageJ gives the time between two frames in seconds.
SECONDS = {"nanosecond": 1e-9, "microsecond": 1e-6, "millisecond": 1e-3, "second": 1.0, "minute": 60.0, "hour": 3600.0}
NGFF = "0.5"
# The coarsest level of an OME-Zarr has about this many pixels along each axis, for viewers that show a whole level.
COARSEST = 512
# Pixels of a lazy image that are written at a time.
WRITTEN_PIXELS = 2**22

# Common names of axes, in lower case.
AXIS_NAMES = {
    "T": "t time timepoint timepoints frame frames",
    "C": "c ch channel channels",
    "Z": "z depth slice slices plane planes",
    "Y": "y row rows height",
    "X": "x column columns col width",
}
LETTERS = {name: letter for letter, names in AXIS_NAMES.items() for name in names.split()}
# Labels from `cast_labels`, path, geometry, name of the image, provenance as JSON.
Writer = Callable[[NDArray[Any], Path, Geometry, str, str | None], None]


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
    """Write a label image in the format of the file name's ending.

    ``.tif`` is an ImageJ hyperstack, ``.ome.tif`` an OME-TIFF, ``.zarr`` an OME-Zarr. ``.npy`` and ``.png`` hold the
    numbers alone. What PNG cannot hold (volumes, more than 16 bits) becomes a TIFF of the same name.

    Parameters
    ----------
    labels : array-like of int >= 0
        Label image, 2D to 5D. uint8 and uint16 are kept; others become the smallest unsigned type that holds them.
    path : path-like
        File to write.
    axes : str, optional
        A letter of TCZYX for each axis; by default ``YX``, ``ZYX``, ``TZYX`` or ``TCZYX``.
    scale, translate : sequence of float, optional
        Pixel size along each axis and position of the first pixel, in `units`. The position is kept by .tif and .zarr.
    units : str or sequence, optional
        One unit for all axes of space, or one for each axis: names, symbols, or objects whose ``str`` is a name.
    name : str
        Name of the image, kept by .ome.tif and .zarr.
    provenance : mapping, optional
        What made the labels, ready for JSON: written into .tif, .ome.tif and .zarr, and into ``provenance.json`` beside
        the labels, which also lists what was written, so that a later call may replace it.
    overwrite : bool
        Replace `path` and its provenance even if napari-gsw has not written them.

    Returns
    -------
    Path
        `path`, or the TIFF that was written instead of a PNG.
    """
    target = Path(path)
    foreign = (target.name, sibling_name(target.name, PROVENANCE)) if overwrite else ()
    geometry = make_geometry(np.ndim(labels), axes, scale, units, translate)
    return _write_atomically(labels, target, geometry, name, provenance, foreign)


def _write_atomically(
    labels: ArrayLike,
    target: Path,
    geometry: Geometry,
    name: str,
    provenance: Mapping[str, Any] | None,
    overwrite: Collection[str],
    tables: Mapping[str, str] | None = None,
) -> Path:
    """Write labels and texts beside them by name, all or none; `overwrite` names foreign files to replace."""
    manifest = sibling_name(target.name, PROVENANCE)
    find_writer(target.name)
    check_overwrite(target.parent, [target.name], manifest, overwrite)
    with output_folder(target.parent, manifest, overwrite) as scratch:
        for table, text in (tables or {}).items():
            (scratch / table).write_text(text, encoding="utf-8")
        file = target.with_name(write_label_file(labels, scratch / target.name, geometry, name, provenance).name)
        if file != target and os.path.lexists(file):  # nobody was asked about this name
            raise InputError(f"PNG cannot hold these labels, and {str(file)!r} is there already; write another .tif")
    return file


def write_label_file(
    labels: ArrayLike,
    path: Path,
    geometry: Geometry | None = None,
    name: str = "labels",
    provenance: Mapping[str, Any] | None = None,
) -> Path:
    """Write a label image and its provenance straight into a scratch folder; see :func:`write_labels`."""
    array = cast_labels(labels)
    if is_lazy(array) and find_writer(path.name) is not write_zarr:
        raise InputError(f"lazy labels are written chunk by chunk as .zarr, not as {path.name!r}")
    try:
        text = None if provenance is None else json.dumps(dict(provenance), indent=2)
    except (TypeError, ValueError) as error:
        raise InputError(f"the provenance must be ready for JSON: {error}") from None
    if path.suffix.lower() == ".png" and (array.ndim > 2 or array.dtype.itemsize > 2):
        path = path.with_suffix(".tif")
    find_writer(path.name)(array, path, geometry or make_geometry(array.ndim), name, text)
    if text is not None:
        path.with_name(sibling_name(path.name, PROVENANCE)).write_text(text + "\n", encoding="utf-8")
    return path


def cast_labels(labels: ArrayLike) -> NDArray[Any]:
    """Cast labels to the type in which they are written; lazy ones must be unsigned and are returned unchanged."""
    array: Any = labels if is_lazy(labels) else np.asarray(labels)
    if array.dtype.kind not in ("u" if is_lazy(labels) else "bui"):
        kind = "lazy labels must be of an unsigned type" if is_lazy(labels) else "labels must be whole numbers"
        raise InputError(f"{kind}, not {array.dtype}")
    if is_lazy(labels):
        return cast(NDArray[Any], array)
    if array.size == 0:
        raise InputError(f"labels must not be empty: their shape is {array.shape}")
    if array.dtype.kind == "u" and array.dtype.itemsize <= 2:
        return cast(NDArray[Any], array.astype(array.dtype.newbyteorder("="), copy=False))
    if array.min() < 0:
        raise InputError(f"labels must be numbers >= 0, not {array.min()}")
    smallest = np.min_scalar_type(int(array.max()))
    return cast(NDArray[Any], array.astype(smallest.name, copy=False))  # numpy has two types of 64 bits, zarr knows one


def write_tiff(labels: NDArray[Any], path: Path, geometry: Geometry, name: str, provenance: str | None) -> None:
    """Write labels or float32 values as an ImageJ hyperstack; labels of 32 bits or over 4 GB as a plain TIFF."""
    labels, axes = reorder_axes(labels, geometry.axes, IMAGEJ_ORDER)
    size = {axis: abs(length) for axis, length in geometry.size.items()}
    metadata: dict[str, Any] = {"axes": axes}
    if size or geometry.unit:  # without a unit ImageJ ignores the resolution
        for key, axis in (("unit", "X"), ("yunit", "Y"), ("zunit", "Z")):
            if axis in axes:
                unit = geometry.unit.get(axis, PIXEL)
                symbol = {"micrometer": "um"}.get(unit, LENGTHS.get(unit, unit))
                # The description is ASCII.
                symbol = symbol if symbol.isascii() else unit.encode("ascii", "replace").decode()
                if key == "unit" or symbol != metadata["unit"]:
                    metadata[key] = symbol
    if "Z" in size:
        metadata["spacing"] = size["Z"]
    if "T" in size and (unit := geometry.unit.get("T", "second")) in SECONDS:
        metadata["finterval"] = size["T"] * SECONDS[unit]
    for axis, start in geometry.origin.items():
        if axis in "ZYX" and start:  # ImageJ's origin is the pixel at position 0
            metadata[f"{axis.lower()}origin"] = -start / size.get(axis, 1.0)
    resolution = (1 / size["X"], 1 / size["Y"]) if size else None
    options: dict[str, Any] = {"photometric": "minisblack", "resolution": resolution, "resolutionunit": 1}  # 1: none
    is_big = labels.nbytes > CLASSIC_TIFF
    if (labels.dtype.itemsize <= 2 or labels.dtype == np.float32) and not is_big:
        if provenance is not None:
            metadata["Info"] = provenance
        tifffile.imwrite(path, labels, imagej=True, metadata=metadata, **options)
        return
    _check_32_bits(labels, "TIFF")
    if provenance is not None:
        metadata["provenance"] = json.loads(provenance)
    tifffile.imwrite(path, labels, metadata=metadata, compression="zlib", bigtiff=is_big, **options)


def write_ome_tiff(labels: NDArray[Any], path: Path, geometry: Geometry, name: str, provenance: str | None) -> None:
    """Write an OME-TIFF with pixel size and name, and the provenance as the description of the image."""
    _check_32_bits(labels, "OME-TIFF")
    labels, axes = reorder_axes(labels, geometry.axes, OME_ORDER)
    metadata: dict[str, Any] = {"axes": axes, "Name": "".join(c for c in name if c.isprintable())}
    for axis in "XYZ":
        if axis in geometry.size:
            unit = geometry.unit.get(axis, PIXEL)
            metadata[f"PhysicalSize{axis}"] = abs(geometry.size[axis])
            metadata[f"PhysicalSize{axis}Unit"] = LENGTHS.get(unit, PIXEL if unit == PIXEL else "reference frame")
    if "T" in geometry.size and (unit := geometry.unit.get("T", "second")) in TIMES:
        metadata |= {"TimeIncrement": abs(geometry.size["T"]), "TimeIncrementUnit": TIMES[unit]}
    if provenance is not None:
        metadata["Description"] = provenance
    tifffile.imwrite(
        path, labels, ome=True, metadata=metadata, photometric="minisblack", compression="zlib",
        bigtiff=labels.nbytes > CLASSIC_TIFF,
    )  # fmt: skip


def _check_32_bits(labels: NDArray[Any], format: str) -> None:
    if labels.dtype.itemsize > 4:
        raise InputError(f"{format} holds labels up to 4294967295, not {labels.max()}; write .npy or .zarr")


def write_png(labels: NDArray[Any], path: Path, geometry: Geometry, name: str, provenance: str | None) -> None:
    """Write a 2D image of at most 16 bits as PNG."""
    # By way of memory: image libraries do not report a full disk as such.
    path.write_bytes(iio.imwrite("<bytes>", reorder_axes(labels, geometry.axes, "YX")[0], extension=".png"))


def write_npy(labels: NDArray[Any], path: Path, geometry: Geometry, name: str, provenance: str | None) -> None:
    """Write the numbers with the axes as they are."""
    with path.open("wb") as file:  # given a name, np.save would add .npy to one that ends in .NPY
        np.save(file, labels, allow_pickle=False)


def write_zarr(labels: NDArray[Any], path: Path, geometry: Geometry, name: str, provenance: str | None) -> None:
    """Write unsigned labels, which may be lazy, as an OME-Zarr label image (NGFF 0.5)."""
    attributes = {} if provenance is None else {"napari-gsw": json.loads(provenance)}
    write_values(labels, path, geometry, name, {"image-label": {"version": NGFF}}, attributes)


def write_values(
    values: NDArray[Any],
    path: Path,
    geometry: Geometry,
    name: str,
    ome: Mapping[str, Any] | None = None,
    attributes: Mapping[str, Any] | None = None,
) -> None:
    """Write numbers such as probabilities, which may be lazy, as an OME-Zarr image with more attributes.

    Coarser levels have every second pixel; depth is halved only where it exceeds `COARSEST`.
    """
    import zarr

    values, axes = reorder_axes(values, geometry.axes, OME_ORDER)
    group = zarr.open_group(str(path), mode="w-", zarr_format=3)
    datasets: list[dict[str, Any]] = []
    max_chunk = 128 if "Z" in axes else 1024
    step = dict.fromkeys(axes, 1)
    while True:
        length = dict(zip(axes, values.shape, strict=True))
        chunks = tuple(min(max_chunk, n) if axis in "ZYX" else 1 for axis, n in length.items())
        stored = group.create_array(
            str(len(datasets)), shape=values.shape, dtype=values.dtype, chunks=chunks, dimension_names=[*axes.lower()]
        )
        if is_lazy(values):

            def write(part: tuple[slice, ...], level: Any = values, stored: Any = stored) -> None:
                stored[part] = read(level, part)

            grid = make_grid(values.shape, stored.chunks, WRITTEN_PIXELS)
            map_blocks(write, [(grid.slices(index),) for index in grid], lambda done: None)
        else:
            stored[...] = values
        # A pixel of a coarser level is a pixel of the finest one: the translation is the same.
        scale = [step[axis] * geometry.size.get(axis, 1.0) for axis in axes]
        transforms: list[dict[str, Any]] = [{"type": "scale", "scale": scale}]
        if geometry.origin:
            transforms.append({"type": "translation", "translation": [geometry.origin[axis] for axis in axes]})
        datasets.append({"path": str(len(datasets)), "coordinateTransformations": transforms})
        if max(n for axis, n in length.items() if axis in "ZYX") <= COARSEST:
            break
        factor = {a: 2 if a in "YX" or (a == "Z" and length["Z"] > COARSEST) else 1 for a in axes}
        values = values[tuple(slice(None, None, factor[axis]) for axis in axes)]
        step = {axis: n * factor[axis] for axis, n in step.items()}
    described = [{"name": axis.lower(), "type": {"T": "time", "C": "channel"}.get(axis, "space")} for axis in axes]
    for axis, entry in zip(axes, described, strict=True):
        if (unit := geometry.unit.get(axis, PIXEL)) != PIXEL:  # NGFF has no pixels: no unit means the same
            entry["unit"] = unit
    image = {"name": name, "type": "nearest", "axes": described, "datasets": datasets}
    group.attrs.update({"ome": {"version": NGFF, "multiscales": [image], **(ome or {})}, **(attributes or {})})


# By the ending of a file's name; of two endings that match, the longer one comes first. ".zarr" is also ".ome.zarr".
WRITERS: Mapping[str, Writer] = {
    ".ome.tif": write_ome_tiff, ".ome.tiff": write_ome_tiff, ".tif": write_tiff, ".tiff": write_tiff,
    ".png": write_png, ".npy": write_npy, ".zarr": write_zarr,
}  # fmt: skip


def find_writer(name: str) -> Writer:
    """Return the writer for the ending of a file's name."""
    for ending, writer in WRITERS.items():
        if name.lower().endswith(ending) and len(name) > len(ending):
            return writer
    raise InputError(f"labels are written as {', '.join(WRITERS)}, not as {name!r}; choose one of these endings")


def write_labels_layer(path: str, data: Any, meta: dict[str, Any]) -> list[str]:
    """Write one labels layer, called by npe2; returns all files that were written, the labels first.

    `path` is a .tif if it has no ending. Of `meta`, the attributes of the layer, ``metadata["napari-gsw"]`` becomes the
    provenance, and ``features`` with a column ``index`` the table ``<stem>.regions.csv``.
    """
    target = Path(path) if Path(path).suffix else Path(f"{path}.tif")
    # napari's dialog has asked whether this file may be replaced, but only if the name was complete.
    overwrite = [target.name] if target == Path(path) else []
    labels = np.asarray(data[0] if meta.get("multiscale") or isinstance(data, Sequence) else data)
    provenance = (meta.get("metadata") or {}).get("napari-gsw")
    provenance = provenance if isinstance(provenance, Mapping) else None
    regions: Any = meta.get("features")
    tables = {}
    if "index" in getattr(regions, "columns", ()) and len(regions):
        tables[f"{base_name(target)}.regions.csv"] = regions.to_csv(index=False)
        provenance = provenance or {"software": "napari-gsw"}  # so that the table may be replaced later
    translate = meta.get("translate")
    moved = translate if translate is not None and any(translate) else None  # a layer that was never moved has 0
    axes, scale, units = layer_axes(meta.get("axis_labels"), labels.ndim), meta.get("scale"), meta.get("units")
    try:
        geometry = make_geometry(labels.ndim, axes, scale, units, moved)
        name = str(meta.get("name", "labels"))
        file = _write_atomically(labels, target, geometry, name, provenance, overwrite, tables)
    except InputError as error:  # napari takes a ValueError for "there is no such writer" and hides its message
        raise OSError(str(error)) from None
    siblings = [*([] if provenance is None else [sibling_name(target.name, PROVENANCE)]), *tables]
    return [str(path) for path in (file, *map(target.with_name, siblings))]


def layer_axes(names: Sequence[str] | None, ndim: int) -> str | None:
    """Return the letters of a layer's axes, ``TYX`` for time, y and x, or None unless every name is known."""
    letters = "".join(LETTERS.get(str(name).strip().lower(), "?") for name in names or ())
    is_valid = len(set(letters)) == len(letters) == ndim and set("YX") <= set(letters) <= set("TCZYX")
    return letters if is_valid else None
