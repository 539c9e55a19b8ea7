"""Kinds of layers, and the notes by which our own layers are known.

Our layers are known by a mark in their metadata, never by their names: users rename layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from napari.layers import Image, Labels, Layer, Shapes

Kind = Literal[
    "segmentation", "regions", "boundary", "entropy", "locked", "superpixels", "difference", "missed", "false",
    "question", "chosen", "preview",
]  # fmt: skip
# metadata[KIND] is the kind of every layer that we make.
KIND = "napari-gsw layer"
# Name of the image, in a segmentation and in its regions.
IMAGE_NAME = "napari-gsw image"
# What was segmented, in all layers of its result: the next run finds them by it. With the layer's own id, which a copy
# does not have.
RESULT_OF = "napari-gsw result of"
# Provenance of a result, for files of it.
MADE_BY = "napari-gsw"
# Axes of the array along which labels mean nothing, each slice being segmented by itself.
SLICED_ALONG = "napari-gsw sliced along"
# Id of the image, in superpixels that were made for it.
SUPERPIXELS_OF = "napari-gsw superpixels"
# Ids of the layers whose difference is displayed.
COMPARED = "napari-gsw compared"
# A letter for each axis of a layer whose features are a table of its labels.
TABLE_AXES = "napari-gsw table axes"
# In an image of uncertainty: whether the chains agree on it, and the summary of their diagnostics.
SETTLED, VERDICT = "napari-gsw settled", "napari-gsw verdict"


def make_metadata(kind: Kind, notes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Make the metadata of a new layer."""
    return {KIND: kind, **(notes or {})}


def get_layer_kind(layer: Layer) -> Kind | None:
    """Return the kind of one of our layers, None for any other."""
    return layer.metadata.get(KIND)  # type: ignore[no-any-return]


def get_placement(layer: Layer) -> dict[str, Any]:
    """Return the keywords that place another layer where a layer is."""
    names = ("scale", "translate", "rotate", "shear", "units", "axis_labels")
    return {"affine": layer.affine.affine_matrix, **{name: getattr(layer, name) for name in names}}


def is_image(layer: Layer) -> bool:
    """Return whether a layer is an image to segment."""
    return isinstance(layer, Image) and get_layer_kind(layer) is None


def is_region(layer: Layer) -> bool:
    """Return whether a layer can say where to segment."""
    return isinstance(layer, Shapes) or (isinstance(layer, Labels) and get_layer_kind(layer) is None)


def is_labels(layer: Layer) -> bool:
    """Return whether a layer is a Labels layer."""
    return isinstance(layer, Labels)
