"""Layers and sources in session files: how they are saved, found again and restored."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import napari
import numpy as np
from napari.layers import Image, Layer
from napari.layers._source import layer_source

from napari_gsw.core.errors import InputError
from napari_gsw.core.features.input_maps import MAP_NAMES
from napari_gsw.core.interactive.saved_session import SavedImage
from napari_gsw.files.images import read_layer_data
from napari_gsw.files.session_file import find_image_files, is_in_folder
from napari_gsw.widgets.layers.image_source import ImageListSource, ImageSource
from napari_gsw.widgets.layers.layer_metadata import is_image

# An image that is in no file is saved with the session, up to this size.
MAX_EMBEDDED_BYTES = 2**28
# Attributes of a layer that are saved as JSON.
GEOMETRY = ("scale", "translate", "axis_labels")


def make_saved_image(layer: Image, embed: bool = False) -> SavedImage:
    """Return what a session saves of an image layer.

    Pixels are included if `embed` is set, or if they are in no file and not too many; those of a lazy image never.
    """
    path = layer.source.path
    pixels = layer.data if isinstance(layer.data, np.ndarray) else None
    if pixels is not None and not embed:  # kept for as long as the run goes on: a copy, which stays as it is
        pixels = np.array(pixels) if path is None and pixels.nbytes <= MAX_EMBEDDED_BYTES else None
    attributes = {name: np.asarray(getattr(layer, name)).tolist() for name in GEOMETRY}
    attributes |= {"rgb": bool(layer.rgb), "units": [str(unit) for unit in layer.units]}
    paths = () if path is None else (os.path.abspath(path),)
    return SavedImage(name=layer.name, paths=paths, pixels=pixels, layer=attributes)


def find_image_layers(
    viewer: napari.Viewer, images: Sequence[SavedImage], session_path: Path, may_open: Callable[[Path], bool]
) -> list[Image]:
    """Find, open or make the layers of the images of a session, each another one.

    `may_open` asks the user about an image file outside the folder of the session.
    """
    layers: list[Image] = []
    for image in images:
        layers.append(_find_layer(viewer, image, layers) or _open_layer(viewer, image, session_path, may_open))
    return layers


def _find_layer(viewer: napari.Viewer, image: SavedImage, taken: list[Image]) -> Image | None:
    """Return an open layer of a file or of the pixels of a saved image, preferably of the same name."""
    free = [layer for layer in viewer.layers if is_image(layer) and layer not in taken]
    found = [x for x in free if x.source.path is not None and os.path.abspath(x.source.path) in image.paths]
    if not found and image.pixels is not None:
        found = [layer for layer in free if _is_same(layer, image)]
    return min(found, key=lambda layer: layer.name != image.name, default=None)


def _open_layer(
    viewer: napari.Viewer, image: SavedImage, session_path: Path, may_open: Callable[[Path], bool]
) -> Image:
    """Return a new layer from the session or from an image file, or an open layer of the same name.

    A session may name any file of the disk, and napari's readers execute some of them (a Python script). So a file is
    read by our own readers of image formats, and never given to ``viewer.open``.
    """
    if image.pixels is not None:
        return _add_image(viewer, image, image.pixels)
    for path in find_image_files(image, session_path):
        if is_in_folder(path, Path(session_path).parent) or may_open(path):
            with layer_source(path=str(path)):
                return _add_image(viewer, image, read_layer_data(path))
    for layer in viewer.layers:
        if is_image(layer) and layer.name == image.name:
            return layer
    raise InputError(f"the image {image.name!r} is not where it was; open it first, and then the session again")


def _is_same(layer: Image, image: SavedImage) -> bool:
    """Return whether an open image, which is in no file, has the pixels and the scale of a saved one."""
    data, pixels = layer.data, image.pixels
    if not isinstance(data, np.ndarray) or pixels is None or data.dtype != pixels.dtype:
        return False
    if bool(layer.rgb) != bool(image.layer.get("rgb")) or layer.scale.tolist() != image.layer.get("scale"):
        return False
    return np.array_equal(data, pixels, equal_nan=data.dtype.kind in "fc")


def _add_image(viewer: napari.Viewer, image: SavedImage, data: Any) -> Image:
    attributes = {name: image.layer[name] for name in (*GEOMETRY, "units") if name in image.layer}
    try:
        return viewer.add_image(data, name=image.name, rgb=bool(image.layer.get("rgb")), **attributes)
    except (ValueError, TypeError) as reason:
        raise InputError(f"the image in the session cannot be shown: {reason}") from None


def describe_source(source: ImageSource) -> dict[str, Any]:
    """Return a source as JSON, without its layers; the mask is saved with the runs."""
    saved = {name: getattr(source, name) for name in ("channel_axis", "depth", "slices", "where")}
    corners = [list(row) for row in source.corners]
    return {**saved, "step": list(source.step), "corners": corners, "several": source.is_image_list}


def restore_source(saved: Mapping[str, Any], layers: list[Image], mask: Layer | None) -> ImageSource:
    """Restore a source from :func:`describe_source` and its layers."""
    try:
        axis = saved["channel_axis"]
        if saved.get("several"):
            members = tuple(ImageSource(layer, channel_axis=axis) for layer in layers)
            source: ImageSource = ImageListSource(layers[0], slices="shared", members=members, channel_axis=axis)
        else:
            source = ImageSource(
                layers[0],
                channels=tuple(layers[1:]),
                channel_axis=axis,
                depth=int(saved["depth"]),
                slices=saved.get("slices", "volume"),
                where=saved.get("where", "image"),
                mask=mask,
                step=tuple(int(x) for x in saved.get("step", ())),
                corners=tuple(tuple(int(x) for x in row) for row in saved.get("corners", ((), ()))),  # type: ignore[arg-type]
            )
        source.check()
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, IndexError):
        raise InputError("what the session says of its image is damaged, or the image is another one") from None
    return source


def add_input_layer(
    viewer: napari.Viewer, source: ImageSource, name: str, parts: Mapping[tuple[int, ...], Any]
) -> Layer | None:
    """Add a layer of an input map, the mask, superpixels or scribbles that a run began with; None if there are none.

    Inputs of several images, and maps of a part of an image, have no layer.
    """
    if not parts or source.is_image_list:
        return None
    style = {"name": f"{source.layer.name} {name}", "visible": False}
    if name in MAP_NAMES:
        is_whole = set(parts) == {()} and source.where != "view"
        return viewer.add_image(np.asarray(parts[()]), rgb=False, **style) if is_whole else None
    data = np.zeros(source.label_shape, np.int32)
    for position, array in parts.items():
        data[source.index(position)] = np.asarray(array).astype(np.int32)
    return viewer.add_labels(data, **style, **source.geometry())
