"""The graphs in the package: written by the plan, and computed by onnxruntime as plain numpy computes the plan."""

from __future__ import annotations

from importlib import resources

import numpy as np
import pytest

from napari_gsw.core.features.network import INPUT_MEAN, INPUT_SCALE, STRIDE, Network
from napari_gsw.research.training.onnx_export import IMAGE, make_plan, onnx_graph

RNG = np.random.default_rng(15)


def random_arrays(plan):
    arrays = {}
    for c in plan.convolutions:
        scale = np.sqrt(2 / (c.inputs * c.size**2))
        arrays[f"{c.name}.weight"] = (scale * RNG.normal(size=(c.outputs, c.inputs, c.size, c.size))).astype(np.float16)
        arrays[f"{c.name}.bias"] = (0.1 * RNG.normal(size=c.outputs)).astype(np.float16)
    return arrays


def convolve(weight, bias, stride, x):
    size = weight.shape[-1]
    around = np.pad(x, ((0, 0), (size // 2,) * 2, (size // 2,) * 2))
    windows = np.lib.stride_tricks.sliding_window_view(around, (size, size), axis=(1, 2))[:, ::stride, ::stride]
    return np.einsum("oiab,iyxab->oyx", weight, windows) + bias[:, None, None]


def unfold(x):
    c, h, w = x.shape
    return x.reshape(c // 4, 2, 2, h, w).transpose(0, 3, 1, 4, 2).reshape(c // 4, 2 * h, 2 * w)


OPERATIONS = {
    "Relu": lambda x: np.maximum(x, 0),
    "Add": np.add,
    "Resize": lambda x: x.repeat(2, axis=1).repeat(2, axis=2),
    "DepthToSpace": unfold,
}


def run_plan(plan, weights, image):
    """Fine and places of a network in plain numpy; arrays are (channels, height, width)."""
    arrays = {IMAGE: image}
    for number, (operation, inputs, c) in enumerate(plan.steps):
        values = [arrays[k] for k in inputs]
        if c:
            weight, bias = (weights[f"{c.name}.{kind}"].astype(np.float64) for kind in ("weight", "bias"))
            arrays[number] = convolve(weight, bias, c.stride, *values)
        else:
            arrays[number] = OPERATIONS[operation](*values)
    return arrays[plan.fine], arrays.get(plan.places)


@pytest.mark.parametrize("kind", ["photo", "objects"])
def test_onnxruntime_computes_the_plan(kind):
    pytest.importorskip("onnxruntime")
    assert onnx_graph(kind) == (resources.files("napari_gsw") / "data" / f"network_{kind}.onnx").read_bytes()
    plan = make_plan(kind)
    arrays = random_arrays(plan)
    network = Network(kind, {n: a.astype(np.float32) for n, a in arrays.items()})
    y, x = np.mgrid[: 2 * STRIDE, : 3 * STRIDE]
    lab = np.stack((50 + 30 * np.sin(y / 9.0 + x / 31.0), 20 * np.cos(x / 13.0), 15 * np.sin(y / 17.0)), axis=-1)
    image = lab.astype(np.float32)
    scaled = ((image - INPUT_MEAN) / INPUT_SCALE).transpose(2, 0, 1).astype(np.float64)
    fine, places = run_plan(plan, arrays, scaled)
    maps = network.predict(image)
    assert maps.fine == pytest.approx(1 / (1 + np.exp(-fine)).transpose(1, 2, 0), abs=1e-4)
    assert maps.embedding.shape[-1] == (0 if places is None else len(places))
    if places is not None:
        large = places.repeat(4, axis=1).repeat(4, axis=2).transpose(1, 2, 0)
        assert maps.embedding == pytest.approx(large, abs=1e-3)
