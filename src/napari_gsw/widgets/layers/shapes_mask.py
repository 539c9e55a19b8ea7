"""A mask of an image from shapes that the user has drawn."""

from __future__ import annotations

import numpy as np
from napari.layers import Image, Shapes
from numpy.typing import NDArray
from skimage.draw import polygon

# Corners of the polygon that stands for an ellipse.
ELLIPSE_CORNERS = 128


def make_shapes_mask(shapes: Shapes, image: Image, shape: tuple[int, int]) -> NDArray[np.bool_]:
    """Make a mask, True inside any shape, of the last two axes of an image, whose lengths are `shape`.

    Lines and paths count as the area that they enclose. The image may have another scale and origin.
    """
    mask = np.zeros(shape, bool)
    image_scale, shapes_scale = (np.asarray(layer.scale, float)[-2:] for layer in (image, shapes))
    image_origin, shapes_origin = (np.asarray(layer.translate, float)[-2:] for layer in (image, shapes))
    for corners, kind in zip(shapes.data, shapes.shape_type, strict=True):
        points = np.asarray(corners, float)[:, -2:]
        if kind == "ellipse":
            across, down = (points[1] - points[0]) / 2, (points[3] - points[0]) / 2
            angle = np.linspace(0, 2 * np.pi, ELLIPSE_CORNERS, endpoint=False)[:, np.newaxis]
            points = points.mean(axis=0) + np.cos(angle) * across + np.sin(angle) * down
        points = (points * shapes_scale + shapes_origin - image_origin) / image_scale
        mask[polygon(points[:, 0], points[:, 1], shape)] = True
    return mask
