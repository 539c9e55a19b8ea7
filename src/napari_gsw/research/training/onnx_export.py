"""The plan of the package's networks, its ONNX graph, and files of weights.

An encoder-decoder on four scales, the finest at half of the pixels along each axis. :func:`make_plan` lists its steps,
from which :func:`onnx_graph` writes the ONNX graph, PyTorch learns, and numpy tests both. Batch normalisation is part
of learning alone: the convolutions of the product depend only on pixels within reach, so a tile gives what the image
gives.

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
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.errors import InputError
from napari_gsw.core.features.network import EMBEDDING_STRIDE, STRIDE, hash_weights

WIDTHS = (24, 48, 96, 144)
# Pairs of convolutions on each scale, on the way down and on the way up.
DOWN_BLOCKS = (1, 1, 1, 3)
UP_BLOCKS = (0, 1, 1)
# The scale of the embedding, called ``places`` in the files.
EMBEDDING_SCALE = 1
CHANNELS = 3
assert (2 ** len(WIDTHS), 2 ** (EMBEDDING_SCALE + 1)) == (STRIDE, EMBEDDING_STRIDE)
# Boundaries of photographs: log odds that an annotator draws one, and an embedding in which pixels of one segment are
# near each other. Objects of microscopy: log odds of an object, of its border, of its centre (1 there, 0 at its
# border), of a contact of two objects, and the width of the object (0 for four pixels, 1 for 128, on a log scale).
#
# For each kind the log odds for every pixel, the coordinates of the embedding (0 for none), and the channels at all
# pixels in which the finest scale and the pixels meet (0 if the finest scale is the last).
KINDS: Mapping[str, tuple[int, int, int]] = {"photo": (1, 8, 0), "objects": (5, 0, 16)}
# The number of the image among the arrays of a plan.
IMAGE = -1


class Convolution(NamedTuple):
    """A convolution with zeros around the image: (outputs, inputs, size, size) weights and (outputs,) biases."""

    name: str
    inputs: int
    outputs: int
    size: int = 3
    stride: int = 1


class Step(NamedTuple):
    """An operation on arrays (batch, channels, height, width).

    ``Conv``, ``Relu``, ``Add``, ``Resize`` (repeats every pixel twice along each axis), or ``DepthToSpace``, which
    moves channels to pixels: 4 c + 2 i + j is that of the pixel (i, j) of four.
    """

    operation: str
    inputs: tuple[int, ...]  # numbers of earlier steps, or IMAGE
    convolution: Convolution | None = None


class NetworkPlan(NamedTuple):
    """Steps of a network, and the numbers of those with its outputs."""

    steps: list[Step]
    fine: int  # log odds for every pixel
    places: int | None  # coordinates of the embedding
    scales: dict[int, int]  # features of each scale on the way up, for learning
    n_fine: int  # number of log odds

    @property
    def convolutions(self) -> list[Convolution]:
        """All convolutions in their order."""
        return [step.convolution for step in self.steps if step.convolution]


def make_plan(kind: str) -> NetworkPlan:
    """Make the plan of a network of a kind, for images with sides that are multiples of the stride."""
    n_fine, n_places, n_sharp = KINDS[kind]
    steps: list[Step] = []

    def add(operation: str, *inputs: int, convolution: Convolution | None = None) -> int:
        steps.append(Step(operation, inputs, convolution))
        return len(steps) - 1

    def convolve(x: int, *convolution: Any) -> int:
        return add("Conv", x, convolution=Convolution(*convolution))

    def add_blocks(name: str, x: int, width: int, count: int) -> int:
        for block in range(count):
            inner = add("Relu", convolve(x, f"{name}.{block}a", width, width))
            x = add("Relu", add("Add", x, convolve(inner, f"{name}.{block}b", width, width)))
        return x

    x, width = IMAGE, CHANNELS
    fine_to_coarse, places, scales = [], None, {}
    for scale, outputs in enumerate(WIDTHS):
        x = add("Relu", convolve(x, f"down{scale}", width, outputs, 3 if scale else 5, 2))
        x, width = add_blocks(f"down{scale}", x, outputs, DOWN_BLOCKS[scale]), outputs
        fine_to_coarse.append(x)
    for scale in reversed(range(len(UP_BLOCKS))):
        x = add("Resize", convolve(x, f"up{scale}", WIDTHS[scale + 1], WIDTHS[scale], 1))
        x = add("Relu", add("Add", x, fine_to_coarse[scale]))
        x = scales[scale] = add_blocks(f"up{scale}", x, WIDTHS[scale], UP_BLOCKS[scale])
        if n_places and scale == EMBEDDING_SCALE:
            places = convolve(x, "places", WIDTHS[scale], n_places, 1)
    x = add("Relu", convolve(x, "last", WIDTHS[0], WIDTHS[0]))
    if n_sharp:
        x = add("DepthToSpace", convolve(x, "spread", WIDTHS[0], 4 * n_sharp))
        x = add("Relu", add("Add", x, convolve(IMAGE, "pixels", CHANNELS, n_sharp, 5)))
        x = add("Relu", convolve(x, "sharp", n_sharp, n_sharp))
        fine = convolve(x, "fine", n_sharp, n_fine)
    else:
        fine = add("DepthToSpace", convolve(x, "fine", WIDTHS[0], 4 * n_fine))
    return NetworkPlan(steps, fine, places, scales, n_fine)


def save_weights(path: str | PathLike[str], kind: str, arrays: Mapping[str, NDArray[np.float16]], **header: Any) -> str:
    """Write weights and what else there is to say of them; return their hash."""
    shapes = _shapes(make_plan(kind))
    if {name: a.shape for name, a in arrays.items()} != shapes or any(a.dtype != np.float16 for a in arrays.values()):
        raise InputError(f"a network for {kind} must have the float16 arrays {shapes}")
    sha256 = hash_weights(arrays)
    content: dict[str, Any] = {"about": np.array(json.dumps({"kind": kind, "sha256": sha256, **header})), **arrays}
    with open(path, "wb") as file:  # savez would add .npz to a name without it
        np.savez(file, **content)
    return sha256


def _shapes(plan: NetworkPlan) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for c in plan.convolutions:
        shapes |= {f"{c.name}.weight": (c.outputs, c.inputs, c.size, c.size), f"{c.name}.bias": (c.outputs,)}
    return shapes


# Versions of ONNX and of its operations, and its numbers of types.
FORMAT, OPERATIONS = 8, 13
FLOAT32, INT, STRING, INTS = 1, 2, 3, 7
EXTERNAL = 1
ATTRIBUTES: Mapping[str, Mapping[str, str | int]] = {
    "Resize": {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    "DepthToSpace": {"blocksize": 2, "mode": "CRD"},
}


def onnx_graph(kind: str) -> bytes:
    """Write the graph of a network for images of any size; onnxruntime gets the weights beside it.

    Its input is ``image`` (1, 3, height, width), its outputs are ``fine`` (1, fine, height, width) and, if the plan has
    them, ``places`` (1, places, height / 4, width / 4). The messages are written by hand, since the ``onnx`` package is
    large.
    """
    plan = make_plan(kind)
    nodes = []
    for number, (operation, numbers, c) in enumerate(plan.steps):
        inputs = ["image" if k == IMAGE else f"array{k}" for k in numbers]
        attributes: Mapping[str, list[int] | str | int] = {**ATTRIBUTES.get(operation, {})}
        if c:
            inputs += [f"{c.name}.weight", f"{c.name}.bias"]
            attributes = {"kernel_shape": [c.size] * 2, "strides": [c.stride] * 2, "pads": [c.size // 2] * 4}
        elif operation == "Resize":
            inputs += ["", "twice"]
        nodes.append(_node(operation, inputs, f"array{number}", attributes))
    outputs = {"fine": plan.fine} | ({} if plan.places is None else {"places": plan.places})
    nodes += [_node("Identity", [f"array{number}"], name, {}) for name, number in outputs.items()]
    where = _field(13, _field(1, b"location") + _field(2, b"weights")) + _field(14, EXTERNAL)
    weights = [
        b"".join(_field(1, length) for length in shape) + _field(2, FLOAT32) + _field(8, name.encode()) + where
        for name, shape in _shapes(plan).items()
    ]
    twice = _field(1, 4) + _field(2, FLOAT32) + _field(8, b"twice")
    twice += _field(9, np.array([1, 1, 2, 2], "<f4").tobytes())
    graph = b"".join(
        [
            *(_field(1, node) for node in nodes),
            _field(2, b"network"),
            *(_field(5, tensor) for tensor in (*weights, twice)),
            _field(11, _value("image")),
            *(_field(12, _value(name)) for name in outputs),
        ]
    )
    operations = _field(1, b"") + _field(2, OPERATIONS)
    return _field(1, FORMAT) + _field(2, b"napari-gsw") + _field(7, graph) + _field(8, operations)


def _node(operation: str, inputs: list[str], output: str, attributes: Mapping[str, list[int] | str | int]) -> bytes:
    fields = [_field(1, name.encode()) for name in inputs] + [_field(2, output.encode()), _field(4, operation.encode())]
    for name, value in attributes.items():
        if isinstance(value, str):
            content = _field(4, value.encode()) + _field(20, STRING)
        elif isinstance(value, int):
            content = _field(3, value) + _field(20, INT)
        else:
            content = b"".join(_field(8, number) for number in value) + _field(20, INTS)
        fields.append(_field(5, _field(1, name.encode()) + content))
    return b"".join(fields)


def _value(name: str) -> bytes:
    """Write an input or output of four axes of any length."""
    free = b"".join(_field(1, _field(2, f"{name}{axis}".encode())) for axis in range(4))
    return _field(1, name.encode()) + _field(2, _field(1, _field(1, FLOAT32) + _field(2, free)))


def _field(number: int, content: int | bytes) -> bytes:
    """Write a field of a message: a number (wire type 0), or bytes with their length before them (2)."""
    if isinstance(content, int):
        return _varint(number << 3) + _varint(content)
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    """Write a number >= 0 in groups of seven bits, the lowest first; the eighth bit announces another group."""
    if value < 128:
        return bytes([value])
    return bytes([value & 127 | 128]) + _varint(value >> 7)


if __name__ == "__main__":
    Path(sys.argv[2]).write_bytes(onnx_graph(sys.argv[1]))
