"""What the odd axis of an image probably means that nobody has named: channels, time, or depth."""

from __future__ import annotations

from typing import Literal, NamedTuple

from napari.layers import Image

Meaning = Literal["channels", "time", "depth"]
# Up to so many planes are channels, probably, and up to so many times; up to so many there is a question at all: more
# are a volume.
MOST_CHANNELS, MOST_TIMES, MOST_PLANES = 4, 8, 16
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
    """The question that an image raises that has no names of axes, and no spacing. None if it raises none.

    Of three axes one is short; of four, one of the first two is as short as channels are.

    >>> import numpy as np
    >>> axis_guess(Image(np.zeros((3, 40, 50)), rgb=False))
    AxisGuess(axis=0, planes=3, guess='channels')
    >>> axis_guess(Image(np.zeros((8, 40, 50))))
    AxisGuess(axis=0, planes=8, guess='time')
    >>> axis_guess(Image(np.zeros((5, 3, 40, 50))))
    AxisGuess(axis=1, planes=3, guess='channels')
    >>> axis_guess(Image(np.zeros((30, 40, 50)))) is None
    True
    """
    named = any(not name.lstrip("-").isdigit() for name in layer.axis_labels)
    shape = layer.data.shape
    if layer.rgb or named or len(set(layer.scale)) > 1:
        return None  # who has given a spacing of planes has a volume
    if layer.ndim == 4:
        few = [a for a in (1, 0) if 1 < shape[a] <= MOST_CHANNELS and min(shape[2:]) >= LONGER * shape[a]]
        return AxisGuess(few[0], shape[few[0]], "channels") if few else None
    if layer.ndim != 3:
        return None
    axis = 2 if shape[2] < shape[0] else 0
    planes, others = shape[axis], [size for a, size in enumerate(shape) if a != axis]
    if not 1 < planes <= MOST_PLANES or min(others) < LONGER * planes:
        return None
    if planes <= MOST_CHANNELS or axis == 2:
        return AxisGuess(axis, planes, "channels")
    return AxisGuess(axis, planes, "time" if planes <= MOST_TIMES else "depth")
