"""What the odd axis of an image probably means that nobody has named: channels, time, or depth."""

from __future__ import annotations

from typing import Literal, NamedTuple

from napari.layers import Image

Meaning = Literal["channels", "time", "depth"]
# Up to so many planes are channels, probably; up to so many there is a question at all: more are a volume.
MOST_CHANNELS, MOST_PLANES = 4, 8
# How many times longer the other axes are at least.
LONGER = 4


class AxisGuess(NamedTuple):
    """A question about an image.

    Attributes
    ----------
    axis : the axis that it is about. planes : how many there are along it. guess : the likeliest answer.
    """

    axis: int
    planes: int
    guess: Meaning


def axis_guess(layer: Image) -> AxisGuess | None:
    """The question that an image raises: of three axes without names or spacing, one is short. None if it raises none.

    >>> import numpy as np
    >>> axis_guess(Image(np.zeros((3, 40, 50)), rgb=False))
    AxisGuess(axis=0, planes=3, guess='channels')
    >>> axis_guess(Image(np.zeros((8, 40, 50))))
    AxisGuess(axis=0, planes=8, guess='time')
    >>> axis_guess(Image(np.zeros((30, 40, 50)))) is None
    True
    """
    named = any(not name.lstrip("-").isdigit() for name in layer.axis_labels)
    if layer.rgb or layer.ndim != 3 or named:
        return None
    shape = layer.data.shape
    axis = 2 if shape[2] < shape[0] else 0
    planes, others = shape[axis], [size for a, size in enumerate(shape) if a != axis]
    if not 1 < planes <= MOST_PLANES or min(others) < LONGER * planes or len(set(layer.scale)) > 1:
        return None  # who has given a spacing of planes has a volume
    return AxisGuess(axis, planes, "channels" if planes <= MOST_CHANNELS or axis == 2 else "time")
