"""What a layer is to us: an image to segment, a region to segment within, one of our own."""

from __future__ import annotations

import napari
from napari.layers import Image, Labels, Layer, Shapes


def bare(viewer: napari.Viewer) -> napari.Viewer:
    """The viewer itself: plugins are handed a proxy, whose layers are a new object at each look."""
    return getattr(viewer, "__wrapped__", viewer)


# Ends of the names of our own layers, which nobody wants to segment or to segment within.
OURS = ("[boundary]", "[entropy]", "[difference]")


OUR_LABELS = ("[GSW]", "[superpixels]", "[locked]", "[seeds]")


def is_image(layer: Layer) -> bool:
    return isinstance(layer, Image) and not layer.name.endswith(OURS)


def is_region(layer: Layer) -> bool:
    return isinstance(layer, Shapes) or (isinstance(layer, Labels) and not layer.name.endswith(OUR_LABELS))


def is_labels(layer: Layer) -> bool:
    return isinstance(layer, Labels)


# Marks a layer as superpixels of ours, so that the GSW widget can take it.
MARK = "napari-gsw superpixels"
