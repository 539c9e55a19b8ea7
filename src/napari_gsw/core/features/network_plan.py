"""What the package's convolutional networks look like: one plan, for whoever computes it.

An encoder-decoder on four scales, the finest at half of the pixels along each axis and every other half as fine as the
one before. :func:`run_plan` walks through it with the operations of a backend: those of ONNX write a graph, those of
PyTorch learn, those of numpy say in a plain way what the others compute. Normalisation is part of learning alone: what
ships are convolutions, so that a value depends on nothing but the pixels within reach, and a tile of an image says what
the image says there.

    pixels -> 24 -> 48 -> 96 -> 144        channels, from fine to coarse
               |     |     |     |
    fine   <- 24 <- 48 <- 96 <---
                     |
    places <---------                      at a quarter of the pixels along each axis

A network of small things looks at every pixel once more in the end: what the finest scale says is spread over four
pixels and added to what a first convolution of the pixels themselves gives.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

T = TypeVar("T")

WIDTHS = (24, 48, 96, 144)
# Pairs of convolutions on each scale, on the way down and on the way up.
DOWN_BLOCKS = (1, 1, 1, 3)
UP_BLOCKS = (0, 1, 1)
# Along each axis an image has to be a multiple of this.
STRIDE = 2 ** len(WIDTHS)
# The scale of the places, and their stride.
PLACE_SCALE = 1
PLACE_STRIDE = 2 ** (PLACE_SCALE + 1)
CHANNELS = 3


class Convolution(NamedTuple):
    """One convolution: (outputs, inputs, size, size) weights and (outputs,) biases."""

    name: str
    inputs: int
    outputs: int
    size: int
    stride: int = 1


@dataclass(frozen=True)
class NetworkPlan:
    """What a network gives for each pixel.

    Attributes
    ----------
    fine : channels for every pixel, log odds.
    places : coordinates for every fourth pixel along each axis: where they are near, pixels belong together. 0 for
        none.
    sharp : channels at all pixels in which the finest scale and the pixels meet; 0 if the finest scale has the last
        word.
    """

    fine: int
    places: int = 0
    sharp: int = 0

    def convolutions(self) -> Iterator[Convolution]:
        """All convolutions in the order in which they are met."""
        inputs = CHANNELS
        for scale, width in enumerate(WIDTHS):
            yield Convolution(f"down{scale}", inputs, width, 3 if scale else 5, 2)
            yield from _blocks(f"down{scale}", width, DOWN_BLOCKS[scale])
            inputs = width
        for scale in reversed(range(len(UP_BLOCKS))):
            yield Convolution(f"up{scale}", WIDTHS[scale + 1], WIDTHS[scale], 1)
            yield from _blocks(f"up{scale}", WIDTHS[scale], UP_BLOCKS[scale])
            if self.places and scale == PLACE_SCALE:
                yield Convolution("places", WIDTHS[scale], self.places, 1)
        yield Convolution("last", WIDTHS[0], WIDTHS[0], 3)
        if self.sharp:
            yield Convolution("spread", WIDTHS[0], 4 * self.sharp, 3)
            yield Convolution("pixels", CHANNELS, self.sharp, 5)
            yield Convolution("sharp", self.sharp, self.sharp, 3)
            yield Convolution("fine", self.sharp, self.fine, 3)
        else:
            yield Convolution("fine", WIDTHS[0], 4 * self.fine, 3)


def _blocks(name: str, width: int, count: int) -> Iterator[Convolution]:
    for block in range(count):
        yield Convolution(f"{name}.{block}a", width, width, 3)
        yield Convolution(f"{name}.{block}b", width, width, 3)


# Networks that the package knows. Boundaries of photographs: log odds that a person draws one here, and places in which
# pixels of one segment are near each other.
PHOTO = NetworkPlan(fine=1, places=8)
# Objects of microscopy: log odds of an object, of its border, of its middle (1 there, 0 at its border), of a place
# where two objects touch, and how wide the object is (0 for four pixels, 1 for 128, in equal steps of the logarithm).
OBJECTS = NetworkPlan(fine=5, sharp=16)


class Backend(Protocol[T]):
    """Operations on arrays (batch, channels, height, width) of some kind."""

    def convolve(self, name: str, x: T) -> T:
        """The convolution of that name, with zeros around the image."""
        ...

    def rectify(self, x: T) -> T:
        """max(x, 0)."""
        ...

    def add(self, x: T, y: T) -> T:
        """x + y."""
        ...

    def double(self, x: T) -> T:
        """Every pixel four times: twice as many along each axis."""
        ...

    def unfold(self, x: T) -> T:
        """(batch, 4 c, h, w) -> (batch, c, 2 h, 2 w): channel 4 c + 2 i + j is that of the pixel (i, j) of four."""
        ...


@dataclass(frozen=True)
class PlanOutputs(Generic[T]):
    """What a network gives: see :class:`NetworkPlan`; and the features of each scale on the way up, for learning."""

    fine: T
    places: T | None
    scales: dict[int, T]


def run_plan(plan: NetworkPlan, backend: Backend[T], image: T) -> PlanOutputs[T]:
    """Walk through a network.

    Parameters
    ----------
    image : (batch, 3, height, width), height and width multiples of :data:`STRIDE`.
    """

    def blocks(name: str, x: T, count: int) -> T:
        for block in range(count):
            inner = backend.rectify(backend.convolve(f"{name}.{block}a", x))
            x = backend.rectify(backend.add(x, backend.convolve(f"{name}.{block}b", inner)))
        return x

    x, fine_to_coarse = image, []
    for scale, count in enumerate(DOWN_BLOCKS):
        x = backend.rectify(backend.convolve(f"down{scale}", x))
        x = blocks(f"down{scale}", x, count)
        fine_to_coarse.append(x)
    places, scales = None, {}
    for scale in reversed(range(len(UP_BLOCKS))):
        x = backend.double(backend.convolve(f"up{scale}", x))
        x = backend.rectify(backend.add(x, fine_to_coarse[scale]))
        x = blocks(f"up{scale}", x, UP_BLOCKS[scale])
        scales[scale] = x
        if plan.places and scale == PLACE_SCALE:
            places = backend.convolve("places", x)
    x = backend.rectify(backend.convolve("last", x))
    if not plan.sharp:
        return PlanOutputs(backend.unfold(backend.convolve("fine", x)), places, scales)
    x = backend.unfold(backend.convolve("spread", x))
    x = backend.rectify(backend.add(x, backend.convolve("pixels", image)))
    x = backend.rectify(backend.convolve("sharp", x))
    return PlanOutputs(backend.convolve("fine", x), places, scales)
