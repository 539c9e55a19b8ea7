"""Image layers as maps beside an image: which part of them belongs to what is segmented."""

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

# Values that the range of a map is guessed from while the form is filled; a run looks at all of them.
SOME_VALUES = 1 << 18


def open_maps(source: ImageSource, maps: Mapping[str, Image], position: Position, settings: Settings) -> list[InputMap]:
    """The maps at a position, as they lie beside all of the image there; an InputError says what does not fit."""
    if maps and source.shares_labels:
        raise InputError("maps are for one image at a time, not for slices or images that share their labels")
    return [_opened(source, name, layer, position, settings) for name, layer in maps.items()]


def read_maps(source: ImageSource, maps: Mapping[str, Image], position: Position, settings: Settings) -> dict[str, Any]:
    """The arrays of the maps for a position, as :func:`napari_gsw.prepare` takes them; large ones stay lazy."""
    arrays: dict[str, Any] = {}
    for one in open_maps(source, maps, position, settings):
        if source.where == "view":
            part = one.read(source.crop)
            arrays[one.name] = part[..., 0] if one.channel_axis is None else part
        else:
            arrays[one.name] = one.array if source.is_chunked else np.asarray(one.array)
    return arrays


def describe_maps(source: ImageSource, maps: Mapping[str, Image], settings: Settings) -> str:
    """What is recognised of the maps, in a line for a person."""
    notes: dict[str, Any] = {}
    for one in open_maps(source, maps, source.positions[0], settings):
        notes[one.name] = one.notes
        if one.name == "features":
            if one.channels > settings.components:
                notes[one.name] = {**one.notes, "reduced": settings.components}
        else:
            declared = parse_value_range(f"{one.name}_range", getattr(settings, f"{one.name}_range"))
            known = declared or (None if is_lazy(one.array) else guess_value_range([_some(one.array)]))
            notes[one.name] = {**one.notes, **({} if known is None else {"range": known.text})}
    elsewhere = [name for name, layer in maps.items() if not _lies_there(source, layer)]
    lines = [
        f"{line}; the layer lies elsewhere" if line.split(":")[0] in elsewhere else line
        for line in format_map_notes(notes)
    ]
    return "\n".join(lines)


def _opened(source: ImageSource, name: str, layer: Image, position: Position, settings: Settings) -> InputMap:
    try:
        return open_input_map(name, _array_at(source, layer, position), source.full_shape, settings.channel_axis)
    except InputError as reason:
        raise InputError(f"{layer.name!r}: {reason}") from None


def _array_at(source: ImageSource, layer: Image, position: Position) -> Any:
    """The array of a layer without the axes along which everything is segmented on its own, if it has them."""
    array, axes = finest_level(layer), len(position)
    if axes and tuple(array.shape[:axes]) == source.stack_shape:
        return array[position]
    if axes and tuple(array.shape[1 : 1 + axes]) == source.stack_shape:
        return array[(slice(None), *position)]
    return array


def _some(array: Any) -> Any:
    """Some values of an array in memory, spread over it."""
    return np.ravel(array)[:: max(1, array.size // SOME_VALUES)]


def _lies_there(source: ImageSource, layer: Image) -> bool:
    """Whether a layer covers what the image covers, along the last two axes, but for a pixel of the coarser one."""
    here, there = (np.asarray(one.extent.world)[:, -2:] for one in (source.layer, layer))
    pixel = np.maximum(np.abs(source.layer.scale[-2:]), np.abs(layer.scale[-2:]))
    return bool((np.abs(here - there) <= pixel).all())
