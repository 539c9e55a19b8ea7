"""Image layers as input maps: the part of them that belongs to a source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from napari.layers import Image

from napari_gsw.core.errors import InputError
from napari_gsw.core.features.input_maps import (
    InputMap,
    format_map_notes,
    guess_value_range,
    open_input_map,
    parse_value_range,
)
from napari_gsw.core.image.lazy import is_lazy
from napari_gsw.core.settings import Settings
from napari_gsw.widgets.layers.image_source import ImageSource, Position, finest_level

# Number of values by which the range of a map is guessed for the form; a run reads all of them.
N_GUESSED = 1 << 18


def read_maps(source: ImageSource, maps: Mapping[str, Image], position: Position, settings: Settings) -> dict[str, Any]:
    """Read the maps at a position, as :func:`napari_gsw.prepare` takes them; those of a chunked image stay lazy."""
    arrays: dict[str, Any] = {}
    for input_map in _open_maps(source, maps, position, settings):
        if source.where == "view":
            array = input_map.read(source.crop)
            arrays[input_map.name] = array[..., 0] if input_map.channel_axis is None else array
        else:
            arrays[input_map.name] = input_map.array if source.is_chunked else np.asarray(input_map.array)
    return arrays


def describe_maps(source: ImageSource, maps: Mapping[str, Image], settings: Settings) -> str:
    """Describe what is recognized of the maps, one line for each."""
    notes: dict[str, Any] = {}
    for input_map in _open_maps(source, maps, source.positions[0], settings):
        note = dict(input_map.notes)
        if input_map.name == "features":
            if input_map.channels > settings.components:
                note["reduced"] = settings.components
        else:
            name, array = f"{input_map.name}_range", input_map.array
            value_range = parse_value_range(name, getattr(settings, name))
            if value_range is None and not is_lazy(array):
                value_range = guess_value_range([np.ravel(array)[:: max(1, array.size // N_GUESSED)]])
            if value_range is not None:
                note["range"] = value_range.text
        notes[input_map.name] = note
    lines = []
    for line in format_map_notes(notes):
        layer = maps.get(line.split(":")[0])
        lines.append(line if layer is None or _lies_on(source.layer, layer) else f"{line}; the layer lies elsewhere")
    return "\n".join(lines)


def _open_maps(
    source: ImageSource, maps: Mapping[str, Image], position: Position, settings: Settings
) -> list[InputMap]:
    """Open the maps at a position; an InputError says what does not fit."""
    if maps and source.shares_labels:
        raise InputError("maps are for one image at a time, not for slices or images that share their labels")
    opened = []
    for name, layer in maps.items():
        array, n_axes = finest_level(layer), len(position)
        if n_axes and tuple(array.shape[:n_axes]) == source.stack_shape:
            array = array[position]
        elif n_axes and tuple(array.shape[1 : 1 + n_axes]) == source.stack_shape:
            array = array[(slice(None), *position)]
        try:
            opened.append(open_input_map(name, array, source.full_shape, settings.channel_axis))
        except InputError as reason:
            raise InputError(f"{layer.name!r}: {reason}") from None
    return opened


def _lies_on(image: Image, layer: Image) -> bool:
    """Return whether a layer covers an image along the last two axes, but for a pixel of the coarser one."""
    extents = [np.asarray(x.extent.world)[:, -2:] for x in (image, layer)]
    pixel = np.maximum(np.abs(image.scale[-2:]), np.abs(layer.scale[-2:]))
    return bool((np.abs(extents[0] - extents[1]) <= pixel).all())
