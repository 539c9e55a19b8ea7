"""The image of a file as a method wants it: whole, or a zarr that is opened and worked on in blocks."""

from __future__ import annotations

import os
from typing import Any

from napari_gsw.core.image.lazy import is_lazy
from napari_gsw.core.model.block_assembly import opened
from napari_gsw.files.labels import open_image, read_image
from napari_gsw.methods.registry import Choice


def image_of(path: str | os.PathLike[str], choice: Choice) -> tuple[Any, str]:
    """An image and the order of its axes; lazy only where it is to be worked on in blocks."""
    image, axes = open_image(path)
    if not is_lazy(image):
        return image, axes
    grid = opened(image, choice.settings.axes).grid(choice.settings.block_pixels)
    return (image, axes) if choice.method == "gsw" and len(grid) > 1 else read_image(path)
