"""A network on a processor: what it says of every pixel of an image, tile by tile through onnxruntime.

A tile is computed by one thread, and tiles side by side: the numbers do not depend on how many threads there are. Each
tile looks beyond its border as far as the network reaches, and begins at a multiple of its coarsest pixels: but for
rounding, the numbers do not depend on the tiles either.
"""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache
from importlib import resources
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from napari_gsw.core.array_types import ChannelImage, Float32Array
from napari_gsw.core.errors import InputError
from napari_gsw.core.features.network_graph import FINE, INPUT, PLACES, onnx_model
from napari_gsw.core.features.network_plan import PLACE_STRIDE, STRIDE
from napari_gsw.core.features.network_weights import NetworkWeights, load_weights
from napari_gsw.core.special import expit
from napari_gsw.core.threads import count_cores

# What is subtracted from lightness, and by what Lab is divided, before a network sees it.
INPUT_MEAN, INPUT_SCALE = np.array([50, 0, 0], np.float32), np.float32(25)
# Pixels of a tile along an axis, at most, and those beyond its border that a network reaches: multiples of the stride.
TILE, HALO = 1024, 176
# Hashes of the networks that come with the package.
BUILTIN_SHA256 = {
    "photo": "3862ab905bf9199660e5386153b4176cf2fa6e63df16940c9aebca0c55166184",
    "objects": "f3590ce0de4cf1dfab7dbbf7395f4f3d0920e9e40f00fd2443152d23ce79fa86",
}
MISSING = 'a network needs onnxruntime, and goes unused: pip install "napari-gsw[networks]", or set network to none'


class NetworkMaps(NamedTuple):
    """What a network says of an image.

    Attributes
    ----------
    fine : (h, w, channels) float32 probabilities.
    places : (h, w, coordinates) float32, the same for four by four pixels; (h, w, 0) of a network without.
    """

    fine: Float32Array
    places: Float32Array


class Network:
    """A network that is ready to look at images.

    Attributes
    ----------
    weights : its numbers.
    """

    def __init__(self, weights: NetworkWeights) -> None:
        import onnxruntime

        self.weights = weights
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        model = onnx_model(weights.plan, weights.arrays)
        self._session: Any = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def maps(self, colours: ChannelImage, threads: int | None = None) -> NetworkMaps:
        """What the network says of an image, or of a part of one.

        Parameters
        ----------
        colours : (h, w, 3) float32 Lab.
        threads : how many tiles are computed at a time; None for one on each core.
        """
        height, width = colours.shape[:2]
        plan = self.weights.plan
        fine = np.empty((height, width, plan.fine), np.float32)
        places = np.empty((height, width, plan.places), np.float32)
        tiles = [(rows, columns) for rows in split_into_tiles(height) for columns in split_into_tiles(width)]

        def compute(tile: tuple[TileRange, TileRange]) -> None:
            inside = tuple(slice(s.first, s.end) for s in tile)
            around = tuple(slice(s.around, s.around_end) for s in tile)
            own = tuple(slice(s.first - s.around, s.end - s.around) for s in tile)
            here = self._computed(colours[around])
            fine[inside], places[inside] = here.fine[own], here.places[own]

        most = min(len(tiles), threads or count_cores())
        if most == 1:
            for tile in tiles:
                compute(tile)
        else:
            with ThreadPoolExecutor(most) as pool:
                list(pool.map(compute, tiles))
        return NetworkMaps(fine, places)

    def _computed(self, colours: ChannelImage) -> NetworkMaps:
        """The maps of one tile with its surroundings."""
        height, width = colours.shape[:2]
        more = [(0, -n % STRIDE) for n in (height, width)]
        # Mirrored to a multiple of the stride: a frame of one colour would look like a boundary.
        wide = np.pad((colours - INPUT_MEAN) / INPUT_SCALE, (*more, (0, 0)), mode="symmetric")
        image = np.ascontiguousarray(wide.transpose(2, 0, 1)[np.newaxis])
        names = [FINE, *([PLACES] if self.weights.plan.places else [])]
        outputs = [a[0].transpose(1, 2, 0) for a in self._session.run(names, {INPUT: image})]
        fine = np.asarray(expit(outputs[0][:height, :width]), np.float32)
        if len(outputs) == 1:
            return NetworkMaps(fine, np.zeros((height, width, 0), np.float32))
        large = outputs[1].repeat(PLACE_STRIDE, axis=0).repeat(PLACE_STRIDE, axis=1)
        return NetworkMaps(fine, large[:height, :width])


class TileRange(NamedTuple):
    """A tile along one axis: its pixels first..end - 1, and with its surroundings around..around_end - 1."""

    first: int
    end: int
    around: int
    around_end: int


def split_into_tiles(length: int) -> Sequence[TileRange]:
    """The tiles of an axis: about equally long, each beginning at a multiple of the stride.

    >>> [s.first for s in stretches(2000)]
    [0, 992]
    """
    count = -(-length // TILE)
    ends = [0, *(round(k * length / count / STRIDE) * STRIDE for k in range(1, count)), length]
    return [TileRange(first, end, max(0, first - HALO), min(length, end + HALO)) for first, end in pairwise(ends)]


def load_network(name: str, kind: str) -> Network | None:
    """The network that a setting names: ``shipped``, ``none`` or a path; None for none.

    Where onnxruntime is missing the shipped one is none too, and that is said once; a file that a user names is then an
    InputError.
    """
    if name == "none":
        return None
    if not has_onnxruntime():
        if name != "shipped":
            raise InputError('network needs a package that is missing; try: pip install "napari-gsw[networks]"')
        _say_missing()
        return None
    if name == "shipped":
        return load_builtin_network(kind)
    try:
        changed = Path(name).stat().st_mtime_ns
    except OSError as reason:
        raise InputError(f"network {name!r} cannot be read: {reason.strerror}") from None
    return _loaded(name, kind, changed)


def has_onnxruntime() -> bool:
    """Whether networks can be computed."""
    return importlib.util.find_spec("onnxruntime") is not None


def onnxruntime_version() -> str:
    """The version of what computes networks, which is installed."""
    return version("onnxruntime")


@cache
def load_builtin_network(kind: str) -> Network:
    """A network that comes with the package."""
    with resources.as_file(resources.files("napari_gsw") / "data" / f"network_{kind}.npz") as path:
        weights = load_weights(path, kind)
    if weights.sha256 != BUILTIN_SHA256[kind]:
        raise InputError("the network that comes with the package is not the one that it was built with; install again")
    return Network(weights)


@lru_cache(maxsize=8)
def _loaded(path: str, kind: str, changed: int) -> Network:
    return Network(load_weights(path, kind))


@cache
def _say_missing() -> None:
    logging.getLogger("napari_gsw").warning(MISSING)
