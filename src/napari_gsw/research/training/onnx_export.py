"""The plan of the package's networks, its ONNX graph, and files of weights.

An encoder-decoder on four scales, the finest at half of the pixels along each axis. :func:`run_plan` applies it with
the operations of a backend: :class:`GraphWriter` writes the ONNX graph, PyTorch learns, and numpy tests both. Batch
normalisation is part of learning alone: the convolutions of the product depend only on pixels within reach, so a tile
gives what the image gives.

    pixels -> 24 -> 48 -> 96 -> 144        channels, from fine to coarse
               |     |     |     |
    fine   <- 24 <- 48 <- 96 <---
                     |
    places <---------                      at a quarter of the pixels along each axis

A network of small objects sees every pixel again at the end: the finest scale is spread over four pixels and added to
a first convolution of the pixels.

``python -m napari_gsw.research.training.onnx_export KIND FILE`` writes a graph without weights, as the package ships
it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.errors import InputError
from napari_gsw.core.features.network import EMBEDDING_STRIDE, STRIDE, hash_weights

T = TypeVar("T")

WIDTHS = (24, 48, 96, 144)
# Pairs of convolutions on each scale, on the way down and on the way up.
DOWN_BLOCKS = (1, 1, 1, 3)
UP_BLOCKS = (0, 1, 1)
# The scale of the embedding, called ``places`` in the files.
EMBEDDING_SCALE = 1
CHANNELS = 3
assert (2 ** len(WIDTHS), 2 ** (EMBEDDING_SCALE + 1)) == (STRIDE, EMBEDDING_STRIDE)


class Convolution(NamedTuple):
    """One convolution: (outputs, inputs, size, size) weights and (outputs,) biases."""

    name: str
    inputs: int
    outputs: int
    size: int
    stride: int = 1


@dataclass(frozen=True)
class NetworkPlan:
    """Outputs of a network.

    Attributes
    ----------
    fine : log odds for every pixel.
    places : coordinates of the embedding, 0 for none.
    sharp : channels at all pixels in which the finest scale and the pixels meet; 0 if the finest scale is the last.
    """

    fine: int
    places: int = 0
    sharp: int = 0

    def convolutions(self) -> Iterator[Convolution]:
        """Iterate over all convolutions in their order."""
        inputs = CHANNELS
        for scale, width in enumerate(WIDTHS):
            yield Convolution(f"down{scale}", inputs, width, 3 if scale else 5, 2)
            yield from _blocks(f"down{scale}", width, DOWN_BLOCKS[scale])
            inputs = width
        for scale in reversed(range(len(UP_BLOCKS))):
            yield Convolution(f"up{scale}", WIDTHS[scale + 1], WIDTHS[scale], 1)
            yield from _blocks(f"up{scale}", WIDTHS[scale], UP_BLOCKS[scale])
            if self.places and scale == EMBEDDING_SCALE:
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


# Boundaries of photographs: log odds that an annotator draws one, and an embedding in which pixels of one segment are
# near each other. Objects of microscopy: log odds of an object, of its border, of its centre (1 there, 0 at its
# border), of a contact of two objects, and the width of the object (0 for four pixels, 1 for 128, on a log scale).
PLANS: Mapping[str, NetworkPlan] = {"photo": NetworkPlan(fine=1, places=8), "objects": NetworkPlan(fine=5, sharp=16)}


class Backend(Protocol[T]):
    """Operations on arrays (batch, channels, height, width)."""

    def convolve(self, name: str, x: T) -> T:
        """Apply the convolution of that name, with zeros around the image."""
        ...

    def rectify(self, x: T) -> T:
        """Return max(x, 0)."""
        ...

    def add(self, x: T, y: T) -> T:
        """Return x + y."""
        ...

    def double(self, x: T) -> T:
        """Repeat every pixel twice along each axis."""
        ...

    def unfold(self, x: T) -> T:
        """Move channels to pixels, (4 c, h, w) -> (c, 2 h, 2 w): 4 c + 2 i + j is that of the pixel (i, j) of four."""
        ...


@dataclass(frozen=True)
class PlanOutputs(Generic[T]):
    """Outputs of a plan, and the features of each scale on the way up, for learning."""

    fine: T
    places: T | None
    scales: dict[int, T]


def run_plan(plan: NetworkPlan, backend: Backend[T], image: T) -> PlanOutputs[T]:
    """Apply a plan to an image (batch, 3, height, width), sides multiples of the stride."""

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
        if plan.places and scale == EMBEDDING_SCALE:
            places = backend.convolve("places", x)
    x = backend.rectify(backend.convolve("last", x))
    if not plan.sharp:
        return PlanOutputs(backend.unfold(backend.convolve("fine", x)), places, scales)
    x = backend.unfold(backend.convolve("spread", x))
    x = backend.rectify(backend.add(x, backend.convolve("pixels", image)))
    x = backend.rectify(backend.convolve("sharp", x))
    return PlanOutputs(backend.convolve("fine", x), places, scales)


def save_weights(path: str | PathLike[str], kind: str, arrays: Mapping[str, NDArray[np.float16]], **header: Any) -> str:
    """Write weights and what else there is to say of them; return their hash."""
    shapes = _shapes(PLANS[kind])
    if {name: a.shape for name, a in arrays.items()} != shapes or any(a.dtype != np.float16 for a in arrays.values()):
        raise InputError(f"a network for {kind} must have the float16 arrays {shapes}")
    sha256 = hash_weights(arrays)
    content: dict[str, Any] = {"about": np.array(json.dumps({"kind": kind, "sha256": sha256, **header})), **arrays}
    with open(path, "wb") as file:  # savez would add .npz to a name without it
        np.savez(file, **content)
    return sha256


def _shapes(plan: NetworkPlan) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for c in plan.convolutions():
        shapes |= {f"{c.name}.weight": (c.outputs, c.inputs, c.size, c.size), f"{c.name}.bias": (c.outputs,)}
    return shapes


# Versions of ONNX and of its operations, wire types of its messages, and its numbers of types.
FORMAT, OPERATIONS = 8, 13
NUMBER, BYTES = 0, 2
FLOAT32: Final = 1
INT, STRING, INTS = 2, 3, 7
EXTERNAL = 1


def onnx_graph(kind: str) -> bytes:
    """Write the graph of a network for images of any size; onnxruntime gets the weights beside it.

    Its input is ``image`` (1, 3, height, width), its outputs are ``fine`` (1, fine, height, width) and, if the plan has
    them, ``places`` (1, places, height / 4, width / 4). The messages are written by hand, since the ``onnx`` package is
    large.
    """
    plan = PLANS[kind]
    writer = GraphWriter(plan)
    outputs = run_plan(plan, writer, "image")
    names = {outputs.fine: "fine"} | ({} if outputs.places is None else {outputs.places: "places"})
    nodes = [_node("Identity", [name], [outer]) for name, outer in names.items()]
    twice = _field(1, 4) + _field(2, FLOAT32) + _field(8, b"twice")
    twice += _field(9, np.array([1, 1, 2, 2], "<f4").tobytes())
    graph = b"".join(
        [
            *(_field(1, node) for node in (*writer.nodes, *nodes)),
            _field(2, b"network"),
            *(_field(5, _external_tensor(name, shape)) for name, shape in _shapes(plan).items()),
            _field(5, twice),
            _field(11, _value("image")),
            *(_field(12, _value(outer)) for outer in names.values()),
        ]
    )
    operations = _field(1, b"") + _field(2, OPERATIONS)
    return _field(1, FORMAT) + _field(2, b"napari-gsw") + _field(7, graph) + _field(8, operations)


class GraphWriter:
    """A backend of :func:`run_plan` whose arrays are names, and which collects operations as messages."""

    def __init__(self, plan: NetworkPlan) -> None:
        self.nodes: list[bytes] = []
        self._convolutions = {c.name: c for c in plan.convolutions()}

    def convolve(self, name: str, x: str) -> str:
        """Add a convolution."""
        size, stride = self._convolutions[name].size, self._convolutions[name].stride
        shape = {"kernel_shape": [size] * 2, "strides": [stride] * 2, "pads": [size // 2] * 4}
        return self._add("Conv", [x, f"{name}.weight", f"{name}.bias"], **shape)

    def rectify(self, x: str) -> str:
        """Add a rectifier."""
        return self._add("Relu", [x])

    def add(self, x: str, y: str) -> str:
        """Add a sum."""
        return self._add("Add", [x, y])

    def double(self, x: str) -> str:
        """Add a repetition of pixels."""
        options = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        return self._add("Resize", [x, "", "twice"], **options)

    def unfold(self, x: str) -> str:
        """Add a move of channels to pixels."""
        return self._add("DepthToSpace", [x], blocksize=2, mode="CRD")

    def _add(self, operation: str, inputs: list[str], **attributes: list[int] | str | int) -> str:
        name = f"array{len(self.nodes)}"
        self.nodes.append(_node(operation, inputs, [name], **attributes))
        return name


def _node(operation: str, inputs: list[str], outputs: list[str], **attributes: list[int] | str | int) -> bytes:
    fields = [_field(1, name.encode()) for name in inputs] + [_field(2, name.encode()) for name in outputs]
    fields.append(_field(4, operation.encode()))
    for name, value in attributes.items():
        if isinstance(value, str):
            content = _field(4, value.encode()) + _field(20, STRING)
        elif isinstance(value, int):
            content = _field(3, value) + _field(20, INT)
        else:
            content = b"".join(_field(8, number) for number in value) + _field(20, INTS)
        fields.append(_field(5, _field(1, name.encode()) + content))
    return b"".join(fields)


def _external_tensor(name: str, shape: tuple[int, ...]) -> bytes:
    entry = _field(1, b"location") + _field(2, b"weights")
    lengths = b"".join(_field(1, length) for length in shape)
    return lengths + _field(2, FLOAT32) + _field(8, name.encode()) + _field(13, entry) + _field(14, EXTERNAL)


def _value(name: str) -> bytes:
    """Write an input or output of four axes of any length."""
    free = b"".join(_field(1, _field(2, f"{name}{axis}".encode())) for axis in range(4))
    return _field(1, name.encode()) + _field(2, _field(1, _field(1, FLOAT32) + _field(2, free)))


def _field(number: int, content: int | bytes) -> bytes:
    """Write a field of a message: a number, or bytes with their length before them."""
    if isinstance(content, int):
        return _varint(number << 3 | NUMBER) + _varint(content)
    return _varint(number << 3 | BYTES) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    """Write a number >= 0 in groups of seven bits, the lowest first; the eighth bit announces another group."""
    groups = bytearray()
    while value >= 128:
        groups.append(value & 127 | 128)
        value >>= 7
    groups.append(value)
    return bytes(groups)


if __name__ == "__main__":
    Path(sys.argv[2]).write_bytes(onnx_graph(sys.argv[1]))
