"""A map that is given beside an image -> its values at any part of the image, channels last.

Maps come from networks and other programs: with channels first or last or none, in any type, in memory or lazy, some of
them several times coarser than the image.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.errors import InputError
from napari_gsw.core.image.block_grid import Slices
from napari_gsw.core.image.lazy import is_lazy, levels, read
from napari_gsw.core.inputs import plain_array

# Channels of a map at most: a matrix of their covariances is to be small.
MOST_CHANNELS = 4096
# Squares of larger values might not be finite.
MOST_VALUE = 1e100


@dataclass(frozen=True, eq=False)
class EvidenceMap:
    """A map whose axes are known.

    Attributes
    ----------
    name : what it is to the user: features, boundaries or foreground.
    array : in memory or lazy.
    axis : of its channels; None if it has one channel and no axis for it.
    space : its axes of space, in the order of the image's; axes that are named nowhere have length 1.
    shape : of the image's space.
    steps : along each of these, how many pixels of the image one of the map covers.
    """

    name: str
    array: Any
    axis: int | None
    space: tuple[int, ...]
    shape: tuple[int, ...]
    steps: tuple[int, ...]

    @property
    def channels(self) -> int:
        """Number of channels."""
        return 1 if self.axis is None else int(self.array.shape[self.axis])

    def read(self, part: Slices | None = None) -> NDArray[Any]:
        """(\\*part, C) the values at a part of the image, or at all of it; an InputError if some are not finite."""
        where = part or tuple(slice(0, n) for n in self.shape)
        index: list[Any] = [0] * self.array.ndim
        for axis, s, step in zip(self.space, where, self.steps, strict=True):
            last = self.array.shape[axis] - 1
            index[axis] = slice(min(s.start // step, last), min((s.stop - 1) // step, last) + 1)
        if self.axis is not None:
            index[self.axis] = slice(None)
        values = read(self.array, tuple(index))
        kept = [axis for axis in range(self.array.ndim) if axis in self.space or axis == self.axis]
        order = [kept.index(axis) for axis in self.space]
        values = values.transpose(order if self.axis is None else [*order, kept.index(self.axis)])
        if self.axis is None:
            values = values[..., np.newaxis]
        for a, (axis, s, step) in enumerate(zip(self.space, where, self.steps, strict=True)):
            if step > 1:
                rows = np.minimum(np.arange(s.start, s.stop) // step, self.array.shape[axis] - 1) - index[axis].start
                values = values.take(rows, axis=a)
        return self._checked(values)

    def _checked(self, values: NDArray[Any]) -> NDArray[Any]:
        if values.dtype.kind == "f":
            if not np.isfinite(values).all():
                raise InputError(f"{self.name} must be finite, not NaN or infinite: fill them before")
            if values.dtype.itemsize > 4 and np.abs(values).max(initial=0.0) > MOST_VALUE:
                raise InputError(f"{self.name} must have values in [{-MOST_VALUE:g}, {MOST_VALUE:g}]; scale them down")
        return values

    @property
    def recognised(self) -> dict[str, Any]:
        """What was recognised of its shape, ready for JSON."""
        axis = "none" if self.axis is None else "first" if self.axis < min(self.space) else "last"
        coarse = {} if max(self.steps) == 1 else {"coarser": list(self.steps)}
        return {"channels": self.channels, "channel_axis": axis, **coarse}


def open_map(name: str, given: Any, shape: tuple[int, ...], channel_axis: str = "auto") -> EvidenceMap:
    """A map beside an image of this shape of space, or an InputError that says what is wrong with it.

    Parameters
    ----------
    given : array in memory or lazy, (\\*shape,), (C, \\*shape) or (\\*shape, C); coarser by a whole factor if need be.
        Axes of length 1 beside these are left out.
    channel_axis : first or last, where the shape leaves it open; auto guesses.
    """
    array: Any = levels(given)[0] if is_lazy(given) else plain_array(name, given)
    if array.dtype.kind not in "buif":
        raise InputError(f"{name} must hold numbers, not {array.dtype}")
    sizes = tuple(int(n) for n in array.shape)
    long = [a for a, n in enumerate(sizes) if n > 1]
    ways: list[EvidenceMap] = []
    for axes in ([*range(len(sizes))], long):
        ways = ways or [way for way in _ways(name, array, axes, shape, channel_axis) if max(way.steps) == 1]
    for axes in ([*range(len(sizes))], long):
        ways = ways or _ways(name, array, axes, shape, channel_axis)
    if not ways:
        where = {"auto": "or one axis more", "first": "after the channels", "last": "before the channels"}[channel_axis]
        raise InputError(f"{name} must have the image's shape {shape} {where}, or a whole fraction of it, not {sizes}")
    if len(ways) > 1:
        raise InputError(
            f"{name} of shape {sizes} may have its channels first or last beside an image of {shape}; say which "
            "(channel_axis first or last)"
        )
    if ways[0].channels > MOST_CHANNELS:
        raise InputError(
            f"{name} must have at most {MOST_CHANNELS:,} channels, not {ways[0].channels:,}; is {channel_axis} the "
            "right axis for them?"
        )
    return ways[0]


def single(one: EvidenceMap) -> EvidenceMap:
    """The map, which must have one channel."""
    if one.channels != 1:
        raise InputError(f"{one.name} must be one map, not {one.channels} channels: give the channel that holds it")
    return one


def _ways(name: str, array: Any, axes: list[int], shape: tuple[int, ...], channel_axis: str) -> list[EvidenceMap]:
    """How some axes of an array can be the image's space, with channels first, last or none."""
    splits: list[tuple[int | None, tuple[int, ...]]] = []
    if len(axes) == len(shape):
        splits.append((None, tuple(axes)))
    elif len(axes) == len(shape) + 1:
        splits += [(axes[0], tuple(axes[1:]))] if channel_axis != "last" else []
        splits += [(axes[-1], tuple(axes[:-1]))] if channel_axis != "first" else []
    ways = []
    for axis, space in splits:
        steps = [_step(n, int(array.shape[a])) for n, a in zip(shape, space, strict=True)]
        # A coarser map is as coarse along one axis of a plane as along the other.
        if None not in steps and steps[-1] == steps[-2] and steps[0] in (1, steps[-1]):
            ways.append(EvidenceMap(name, array, axis, space, shape, tuple(steps)))  # type: ignore[arg-type]
    return ways


def _step(fine: int, coarse: int) -> int | None:
    """How many of `fine` pixels one of `coarse` pixels covers; None if no whole number explains it.

    >>> _step(100, 100), _step(100, 34), _step(100, 33), _step(100, 60), _step(100, 200)
    (1, 3, 3, None, None)
    """
    if not 0 < coarse <= fine:
        return None
    step = round(fine / coarse)
    return step if coarse in (fine // step, -(-fine // step)) else None
