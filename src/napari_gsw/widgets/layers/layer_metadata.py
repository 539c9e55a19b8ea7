"""What a layer is to us: an image to segment, a region to segment within, one of our own.

Our own layers are known by a mark in their metadata, never by their names: users rename layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import napari
from napari.layers import Image, Labels, Layer, Shapes

Kind = Literal[
    "segmentation",
    "regions",
    "boundary",
    "entropy",
    "locked",
    "superpixels",
    "difference",
    "missed",
    "false",
    "question",
    "chosen",
    "preview",
]
# The mark: metadata[KIND] is the kind of every layer that we make.
KIND = "napari-gsw layer"
# Further notes: the image's name in a segmentation and in its regions, and the axes of their array along which labels
# mean nothing, each slice being segmented by itself; what was segmented, in all layers of its result, by which the next
# run finds them, with the layer's own id, which a copy has not; the image's id in superpixels that were made for it, so
# that the GSW widget can take them; and the ids of the layers whose difference is shown.
IMAGE_NAME = "napari-gsw image"
RESULT_OF = "napari-gsw result of"
# What made a result, for whoever saves it.
MADE_BY = "napari-gsw"
SLICED_ALONG = "napari-gsw sliced along"
SUPERPIXELS_OF = "napari-gsw superpixels"
COMPARED = "napari-gsw compared"
# Of a layer whose features are a table of its labels: a letter for each axis of its array.
TABLE_AXES = "napari-gsw table axes"
# Of a picture of uncertainty: whether several chains agree on it, and what was said about them.
SETTLED, VERDICT = "napari-gsw settled", "napari-gsw verdict"


def make_metadata(kind: Kind, notes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Metadata of a new layer of ours.

    >>> mark("segmentation", {IMAGE_NAME: "cells"})
    {'napari-gsw layer': 'segmentation', 'napari-gsw image': 'cells'}
    """
    return {KIND: kind, **(notes or {})}


def get_layer_kind(layer: Layer) -> Kind | None:
    """The kind of one of our layers; None for those of anybody else."""
    kind: Kind | None = layer.metadata.get(KIND)
    return kind


def is_image(layer: Layer) -> bool:
    """Whether it is an image to segment."""
    return isinstance(layer, Image) and get_layer_kind(layer) is None


def is_region(layer: Layer) -> bool:
    """Whether it can say where to segment."""
    return isinstance(layer, Shapes) or (isinstance(layer, Labels) and get_layer_kind(layer) is None)


def is_labels(layer: Layer) -> bool:
    return isinstance(layer, Labels)


def unwrap_viewer(viewer: napari.Viewer) -> napari.Viewer:
    """The viewer itself: plugins are handed a proxy, whose layers are a new object at each look."""
    return getattr(viewer, "__wrapped__", viewer)
