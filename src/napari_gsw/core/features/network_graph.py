"""A network's weights -> the bytes of an ONNX model, which onnxruntime computes.

The few messages of the format that are needed are written by hand: the package that writes them in general is large,
and is not needed to run a network.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from napari_gsw.core.array_types import Float32Array
from napari_gsw.core.features.network_plan import NetworkPlan, run_plan

# Versions of the format and of its operations, old enough for any onnxruntime of the last years.
FORMAT, OPERATIONS = 8, 13
# Wire types of the format, and its numbers for the types of tensors and attributes.
NUMBER, BYTES = 0, 2
FLOAT32: Final = 1
INT, STRING, INTS = 2, 3, 7

INPUT = "image"
FINE, PLACES = "fine", "places"


def onnx_model(plan: NetworkPlan, weights: Mapping[str, Float32Array]) -> bytes:
    """The model of a network, for images of any size.

    Parameters
    ----------
    weights : of each convolution ``NAME.weight`` (outputs, inputs, size, size) and ``NAME.bias`` (outputs,) float32.

    Returns
    -------
    A model with the input ``image`` (1, 3, height, width) and the outputs ``fine`` (1, fine, height, width) and, if the
    plan has places, ``places`` (1, places, height / 4, width / 4).
    """
    writer = GraphWriter(plan)
    outputs = run_plan(plan, writer, INPUT)
    names = {outputs.fine: FINE} | ({} if outputs.places is None else {outputs.places: PLACES})
    nodes = [_node("Identity", [name], [outer]) for name, outer in names.items()]
    graph = b"".join(
        [
            *(_field(1, node) for node in (*writer.nodes, *nodes)),
            _field(2, b"network"),
            *(_field(5, _tensor(name, array)) for name, array in weights.items()),
            _field(5, _tensor("twice", np.array([1, 1, 2, 2], np.float32))),
            _field(11, _value(INPUT)),
            *(_field(12, _value(outer)) for outer in names.values()),
        ]
    )
    operations = _field(1, b"") + _field(2, OPERATIONS)
    return _field(1, FORMAT) + _field(2, b"napari-gsw") + _field(7, graph) + _field(8, operations)


class GraphWriter:
    """A backend of :func:`napari_gsw.core.features.network_plan.run_plan` whose arrays are the names of arrays.

    Attributes
    ----------
    nodes : the operations so far, as messages.
    """

    def __init__(self, plan: NetworkPlan) -> None:
        self.nodes: list[bytes] = []
        self._convolutions = {c.name: c for c in plan.convolutions()}

    def convolve(self, name: str, x: str) -> str:
        size, stride = self._convolutions[name].size, self._convolutions[name].stride
        shape = {"kernel_shape": [size] * 2, "strides": [stride] * 2, "pads": [size // 2] * 4}
        return self._add("Conv", [x, f"{name}.weight", f"{name}.bias"], **shape)

    def rectify(self, x: str) -> str:
        return self._add("Relu", [x])

    def add(self, x: str, y: str) -> str:
        return self._add("Add", [x, y])

    def double(self, x: str) -> str:
        how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        return self._add("Resize", [x, "", "twice"], **how)

    def unfold(self, x: str) -> str:
        return self._add("DepthToSpace", [x], blocksize=2, mode="CRD")

    def _add(self, operation: str, inputs: list[str], **attributes: list[int] | str | int) -> str:
        name = f"array{len(self.nodes)}"
        self.nodes.append(_node(operation, inputs, [name], **attributes))
        return name


def _node(operation: str, inputs: list[str], outputs: list[str], **attributes: list[int] | str | int) -> bytes:
    parts = [_field(1, name.encode()) for name in inputs] + [_field(2, name.encode()) for name in outputs]
    parts.append(_field(4, operation.encode()))
    for name, value in attributes.items():
        if isinstance(value, str):
            content = _field(4, value.encode()) + _field(20, STRING)
        elif isinstance(value, int):
            content = _field(3, value) + _field(20, INT)
        else:
            content = b"".join(_field(8, number) for number in value) + _field(20, INTS)
        parts.append(_field(5, _field(1, name.encode()) + content))
    return b"".join(parts)


def _tensor(name: str, array: Float32Array) -> bytes:
    data = np.ascontiguousarray(array, dtype="<f4").tobytes()
    return _dimensions(1, array.shape) + _field(2, FLOAT32) + _field(8, name.encode()) + _field(9, data)


def _value(name: str) -> bytes:
    """An input or output of four axes of any length."""
    free = b"".join(_field(1, _field(2, f"{name}{axis}".encode())) for axis in range(4))
    return _field(1, name.encode()) + _field(2, _field(1, _field(1, FLOAT32) + _field(2, free)))


def _dimensions(number: int, lengths: Iterable[int]) -> bytes:
    return b"".join(_field(number, length) for length in lengths)


def _field(number: int, content: int | bytes) -> bytes:
    """A field of a message: a number, or bytes with their length before them."""
    if isinstance(content, int):
        return _varint(number << 3 | NUMBER) + _varint(content)
    return _varint(number << 3 | BYTES) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    """A number >= 0 in groups of seven bits, the lowest first; the eighth says that more follow."""
    groups = bytearray()
    while value >= 128:
        groups.append(value & 127 | 128)
        value >>= 7
    groups.append(value)
    return bytes(groups)
