"""The graphs in the package: onnxruntime computes what plain numpy computes."""

from __future__ import annotations

import numpy as np
import pytest

from napari_gsw.core.features import network as networks
from napari_gsw.core.features.network import INPUT_MEAN, INPUT_SCALE, STRIDE, Network

RNG = np.random.default_rng(15)


def random_weights(kind):
    weights = {}
    for name, shape in networks._expected_shapes(kind).items():
        scale = np.sqrt(2 / np.prod(shape[1:])) if len(shape) > 1 else 0.1
        weights[name] = (scale * RNG.normal(size=shape)).astype(np.float16).astype(np.float32)
    return weights


def compute_maps(weights, image):
    """Fine and places of a network in plain numpy; arrays are (channels, height, width)."""

    def convolve(name, x, stride=1):
        weight, bias = (weights[f"{name}.{kind}"].astype(np.float64) for kind in ("weight", "bias"))
        size = weight.shape[-1]
        around = np.pad(x, ((0, 0), (size // 2,) * 2, (size // 2,) * 2))
        windows = np.lib.stride_tricks.sliding_window_view(around, (size, size), axis=(1, 2))[:, ::stride, ::stride]
        return np.einsum("oiab,iyxab->oyx", weight, windows) + bias[:, None, None]

    def relu(x):
        return np.maximum(x, 0)

    def add_blocks(stage, x):
        for k in range(sum(name.startswith(f"{stage}.") and name.endswith("a.weight") for name in weights)):
            x = relu(x + convolve(f"{stage}.{k}b", relu(convolve(f"{stage}.{k}a", x))))
        return x

    def spread(x):
        c, h, w = x.shape
        return x.reshape(c // 4, 2, 2, h, w).transpose(0, 3, 1, 4, 2).reshape(c // 4, 2 * h, 2 * w)

    x, scales, places = image, [], None
    for scale in range(4):
        x = add_blocks(f"down{scale}", relu(convolve(f"down{scale}", x, 2)))
        scales.append(x)
    for scale in (2, 1, 0):
        large = convolve(f"up{scale}", x).repeat(2, axis=1).repeat(2, axis=2)
        x = add_blocks(f"up{scale}", relu(large + scales[scale]))
        if scale == 1 and "places.weight" in weights:
            places = convolve("places", x)
    x = relu(convolve("last", x))
    if "sharp.weight" not in weights:
        return spread(convolve("fine", x)), places
    x = relu(spread(convolve("spread", x)) + convolve("pixels", image))
    return convolve("fine", relu(convolve("sharp", x))), places


@pytest.mark.parametrize("kind", ["photo", "objects"])
def test_onnxruntime_computes_the_network(kind):
    pytest.importorskip("onnxruntime")
    weights = random_weights(kind)
    y, x = np.mgrid[: 2 * STRIDE, : 3 * STRIDE]
    lab = np.stack((50 + 30 * np.sin(y / 9.0 + x / 31.0), 20 * np.cos(x / 13.0), 15 * np.sin(y / 17.0)), axis=-1)
    image = lab.astype(np.float32)
    scaled = ((image - INPUT_MEAN) / INPUT_SCALE).transpose(2, 0, 1).astype(np.float64)
    fine, places = compute_maps(weights, scaled)
    maps = Network(kind, weights).predict(image)
    assert maps.fine == pytest.approx(1 / (1 + np.exp(-fine)).transpose(1, 2, 0), abs=1e-4)
    assert maps.embedding.shape[-1] == (0 if places is None else len(places))
    if places is not None:
        large = places.repeat(4, axis=1).repeat(4, axis=2).transpose(1, 2, 0)
        assert maps.embedding == pytest.approx(large, abs=1e-3)
