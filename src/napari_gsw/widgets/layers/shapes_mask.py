"""Shapes that a person has drawn -> a mask of an image."""

from __future__ import annotations

import numpy as np
from napari.layers import Image, Shapes
from numpy.typing import NDArray
from skimage.draw import polygon

# Corners of the polygon that stands for an ellipse.
ELLIPSE_CORNERS = 128


def make_shapes_mask(shapes: Shapes, image: Image, shape: tuple[int, int]) -> NDArray[np.bool_]:
    """True inside any shape, in the last two axes of an image; a shape drawn on one slice holds for all of them.

    Parameters
    ----------
    shapes : the drawn shapes; lines and paths count as the area they enclose.
    image : the layer whose pixels are asked for; the two may have different scales and origins.
    shape : of its last two axes.
    """
    mask = np.zeros(shape, bool)
    here, there = (np.asarray(layer.scale, float)[-2:] for layer in (image, shapes))
    origin, start = (np.asarray(layer.translate, float)[-2:] for layer in (image, shapes))
    for corners, kind in zip(shapes.data, shapes.shape_type, strict=True):
        points = np.asarray(corners, float)[:, -2:]
        if kind == "ellipse":
            centre = points.mean(axis=0)
            across, down = (points[1] - points[0]) / 2, (points[3] - points[0]) / 2
            angle = np.linspace(0, 2 * np.pi, ELLIPSE_CORNERS, endpoint=False)[:, np.newaxis]
            points = centre + np.cos(angle) * across + np.sin(angle) * down
        points = (points * there + start - origin) / here
        mask[polygon(points[:, 0], points[:, 1], shape)] = True
    return mask
