"""Image layers as maps beside an image: which part of them belongs to what is segmented."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from napari.layers import Image

from napari_gsw.core.errors import InputError
from napari_gsw.core.evidence.given_maps import note_lines
from napari_gsw.core.image.evidence_map import EvidenceMap, open_map, single
from napari_gsw.core.image.lazy import is_lazy
from napari_gsw.core.image.value_range import guessed_range, range_named
from napari_gsw.core.settings import Settings
from napari_gsw.widgets.layers.source import Position, Source, finest

# Values that the range of a map is guessed from while the form is filled; a run looks at all of them.
SOME_VALUES = 1 << 18


def opened_maps(source: Source, maps: Mapping[str, Image], position: Position, settings: Settings) -> list[EvidenceMap]:
    """The maps at a position, as they lie beside all of the image there; an InputError says what does not fit."""
    if maps and source.shared:
        raise InputError("maps are for one image at a time, not for slices or images that share their labels")
    return [_opened(source, name, layer, position, settings) for name, layer in maps.items()]


def maps_at(source: Source, maps: Mapping[str, Image], position: Position, settings: Settings) -> dict[str, Any]:
    """The arrays of the maps for a position, as :func:`napari_gsw.prepare` takes them; large ones stay lazy."""
    arrays: dict[str, Any] = {}
    for one in opened_maps(source, maps, position, settings):
        if source.where == "view":
            part = one.read(source.crop)
            arrays[one.name] = part[..., 0] if one.axis is None else part
        else:
            arrays[one.name] = one.array if source.large else np.asarray(one.array)
    return arrays


def recognised(source: Source, maps: Mapping[str, Image], settings: Settings) -> str:
    """What is recognised of the maps, in a line for a person."""
    notes: dict[str, Any] = {}
    for one in opened_maps(source, maps, source.positions[0], settings):
        notes[one.name] = one.recognised
        if one.name == "features":
            if one.channels > settings.components:
                notes[one.name] = {**one.recognised, "reduced": settings.components}
        else:
            declared = range_named(f"{one.name}_range", getattr(settings, f"{one.name}_range"))
            known = declared or (None if is_lazy(one.array) else guessed_range([_some(one.array)]))
            notes[one.name] = {**one.recognised, **({} if known is None else {"range": known.words})}
    elsewhere = [name for name, layer in maps.items() if not _lies_there(source, layer)]
    lines = [
        f"{line}; the layer lies elsewhere" if line.split(":")[0] in elsewhere else line for line in note_lines(notes)
    ]
    return "\n".join(lines)


def _opened(source: Source, name: str, layer: Image, position: Position, settings: Settings) -> EvidenceMap:
    try:
        one = open_map(name, _array_at(source, layer, position), source.full_space, settings.channel_axis)
        return one if name == "features" else single(one)
    except InputError as reason:
        raise InputError(f"{layer.name!r}: {reason}") from None


def _array_at(source: Source, layer: Image, position: Position) -> Any:
    """The array of a layer without the axes along which everything is segmented on its own, if it has them."""
    array, axes = finest(layer), len(position)
    if axes and tuple(array.shape[:axes]) == source.loop:
        return array[position]
    if axes and tuple(array.shape[1 : 1 + axes]) == source.loop:
        return array[(slice(None), *position)]
    return array


def _some(array: Any) -> Any:
    """Some values of an array in memory, spread over it."""
    return np.ravel(array)[:: max(1, array.size // SOME_VALUES)]


def _lies_there(source: Source, layer: Image) -> bool:
    """Whether a layer covers what the image covers, along the last two axes, but for a pixel of the coarser one."""
    here, there = (np.asarray(one.extent.world)[:, -2:] for one in (source.layer, layer))
    pixel = np.maximum(np.abs(source.layer.scale[-2:]), np.abs(layer.scale[-2:]))
    return bool((np.abs(here - there) <= pixel).all())
