"""Layers that an earlier run on the same has left in the viewer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from napari.layers import Layer

from napari_gsw.widgets.layers.kinds import RESULT_OF, Kind, kind_of
from napari_gsw.widgets.layers.source import Source

# Types of the arrays that a run writes.
DTYPES: dict[Kind, Any] = {
    "segmentation": np.uint16, "regions": np.uint16, "locked": np.uint16, "superpixels": np.int32,
    "boundary": np.float32, "entropy": np.float32,
}  # fmt: skip


def origin(source: Source, layer: Layer) -> tuple[str, str]:
    """What a layer says that was made for what a source is; a copy of it says another's."""
    return repr(source.key), str(layer.unique_id)


def earlier_layers(layers: Iterable[Layer], source: Source, given: Sequence[Layer]) -> dict[Kind, Layer]:
    """By kind, the first that was made for a source and that a run can write to; none of those `given` to it."""
    earlier: dict[Kind, Layer] = {}
    for layer in layers:
        kind = kind_of(layer)
        ours = layer.metadata.get(RESULT_OF) == origin(source, layer) and not any(layer is one for one in given)
        if kind is not None and ours and kind not in earlier and _fits(layer, source, kind):
            earlier[kind] = layer
    return earlier


def _fits(layer: Layer, source: Source, kind: Kind) -> bool:
    """Whether what a run writes fits into a layer: a person may have given it other data."""
    data = layer.data[0] if layer.multiscale else layer.data
    if layer.multiscale != source.large or tuple(data.shape) != tuple(source.label_shape):
        return False
    if not layer.multiscale and not (isinstance(data, np.ndarray) and data.flags.writeable):
        return False
    return kind in DTYPES and data.dtype == DTYPES[kind]
