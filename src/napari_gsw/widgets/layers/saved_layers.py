"""Layers and sources as a session file keeps them, and back: where an image is, how it lies, what of it is meant."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import napari
import numpy as np
from napari.layers import Image, Labels, Layer
from napari.layers._source import layer_source

from napari_gsw.core.errors import InputError
from napari_gsw.core.interactive.saved_session import SavedImage
from napari_gsw.files.images import read_layer_data
from napari_gsw.files.session_file import find_image_files, is_in_folder
from napari_gsw.widgets.layers.image_source import ImageListSource, ImageSource
from napari_gsw.widgets.layers.layer_metadata import is_image

# An image that is nowhere on the disk is saved with the session by itself, if it has no more bytes than this.
MAX_EMBEDDED_BYTES = 2**28
# What of a layer is kept beside its pixels, as far as JSON holds it.
GEOMETRY = ("scale", "translate", "axis_labels")


def make_saved_image(layer: Image, embed: bool = False) -> SavedImage:
    """What a session keeps of an image layer; its pixels if they are wanted, or if they are in no file.

    What is lazy is never embedded, and what is large only if it is wanted.
    """
    path = layer.source.path
    pixels = layer.data if isinstance(layer.data, np.ndarray) else None
    if pixels is not None and not embed:  # kept for as long as the run goes on: a copy, which stays as it is
        pixels = np.array(pixels) if path is None and pixels.nbytes <= MAX_EMBEDDED_BYTES else None
    words = {name: np.asarray(getattr(layer, name)).tolist() for name in GEOMETRY}
    words |= {"rgb": bool(layer.rgb), "units": [str(unit) for unit in layer.units]}
    return SavedImage(
        name=layer.name,
        paths=() if path is None else (os.path.abspath(path),),
        pixels=pixels,
        layer=words,
    )


def find_image_layers(
    viewer: napari.Viewer, images: Sequence[SavedImage], session_path: Path, may_open: Callable[[Path], bool]
) -> list[Image]:
    """Find, open or make the layers of the images of a session, each another one.

    `may_open` asks the user about an image file outside the folder of the session.
    """
    layers: list[Image] = []
    for image in images:
        layers.append(_image_layer(viewer, image, session_path, layers, may_open))
    return layers


def _likeliest(image: SavedImage, layers: Iterable[Layer], taken: Sequence[Layer]) -> Image | None:
    """Of some layers the image that is likeliest to be meant: a file may be read as several, of a channel each."""
    free = [layer for layer in layers if is_image(layer) and not any(layer is one for one in taken)]
    return min(free, key=lambda layer: layer.name != image.name, default=None)


def _image_layer(
    viewer: napari.Viewer,
    image: SavedImage,
    session_path: Path,
    taken: Sequence[Image],
    may_open: Callable[[Path], bool],
) -> Image:
    """Return the layer of a saved image: an open one, or a new one from the session or from an image file.

    A session may name any file of the disk, and napari's readers execute some of them (a Python script). So a file is
    read by our own readers of image formats, and never given to ``viewer.open``.
    """
    paths = ((layer, layer.source.path) for layer in viewer.layers)
    of_file = [layer for layer, path in paths if path is not None and os.path.abspath(path) in image.paths]
    if (layer := _likeliest(image, of_file, taken)) is not None:
        return layer
    if image.pixels is not None:
        same = [layer for layer in viewer.layers if is_image(layer) and _is_same(layer, image)]
        return layer if (layer := _likeliest(image, same, taken)) is not None else _added(viewer, image, image.pixels)
    for place in find_image_files(image, session_path):
        if is_in_folder(place, Path(session_path).parent) or may_open(place):
            with layer_source(path=str(place)):
                return _added(viewer, image, read_layer_data(place))
    for layer in viewer.layers:
        if is_image(layer) and layer.name == image.name:
            return layer
    raise InputError(f"the image {image.name!r} is not where it was; open it first, and then the session again")


def _is_same(layer: Image, image: SavedImage) -> bool:
    """Whether an open image has the pixels of a saved one, and lies as it did: it is in no file that could tell."""
    data, pixels = layer.data, image.pixels
    if not isinstance(data, np.ndarray) or pixels is None or data.dtype != pixels.dtype:
        return False
    lies = bool(layer.rgb) == bool(image.layer.get("rgb")) and layer.scale.tolist() == image.layer.get("scale")
    return lies and np.array_equal(data, pixels, equal_nan=data.dtype.kind in "fc")


def _added(viewer: napari.Viewer, image: SavedImage, data: Any) -> Image:
    words = {name: image.layer[name] for name in (*GEOMETRY, "units") if name in image.layer}
    try:
        return viewer.add_image(data, name=image.name, rgb=bool(image.layer.get("rgb")), **words)
    except (ValueError, TypeError) as reason:
        raise InputError(f"the image in the session cannot be shown: {reason}") from None


def describe_source(source: ImageSource) -> dict[str, Any]:
    """What of an image is segmented, ready for JSON; the mask is kept with the runs."""
    return {
        "channel_axis": source.channel_axis,
        "depth": source.depth,
        "slices": source.slices,
        "where": source.where,
        "step": list(source.step),
        "corners": [list(row) for row in source.corners],
        "several": source.is_image_list,
    }


def restore_source(words: Mapping[str, Any], layers: list[Image], mask: Layer | None) -> ImageSource:
    """The source that :func:`source_words` described, of these layers."""
    try:
        if words.get("several"):
            members = tuple(ImageSource(layer, channel_axis=words["channel_axis"]) for layer in layers)
            together = ImageListSource(layers[0], slices="shared", members=members, channel_axis=words["channel_axis"])
            together.check()
            return together
        source = ImageSource(
            layers[0],
            channels=tuple(layers[1:]),
            channel_axis=words["channel_axis"],
            depth=int(words["depth"]),
            slices=words["slices"],
            where=words["where"],
            mask=mask,
            step=tuple(int(x) for x in words["step"]),
            corners=tuple(tuple(int(x) for x in row) for row in words["corners"]),  # type: ignore[arg-type]
        )
        source.check()
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, IndexError):
        raise InputError("what the session says of its image is damaged, or the image is another one") from None
    return source


def add_map_layer(
    viewer: napari.Viewer, source: ImageSource, name: str, parts: Mapping[tuple[int, ...], Any]
) -> Image | None:
    """An image layer of a map that was given beside the image; None if there was none, or only a part of one."""
    if set(parts) != {()} or source.where == "view":
        return None
    return viewer.add_image(np.asarray(parts[()]), name=f"{source.layer.name} {name}", visible=False, rgb=False)


def add_input_layer(
    viewer: napari.Viewer, source: ImageSource, name: str, parts: Mapping[tuple[int, ...], Any]
) -> Labels | None:
    """A Labels layer of what was given (mask, sites or seeds) at each position; None if nothing was, or if it was
    given to several images."""
    if not parts or source.is_image_list:
        return None
    data = np.zeros(source.label_shape, np.int32)
    for position, array in parts.items():
        data[source.index(position)] = np.asarray(array).astype(np.int32)
    return viewer.add_labels(data, name=f"{source.layer.name} {name}", visible=False, **source.geometry())
