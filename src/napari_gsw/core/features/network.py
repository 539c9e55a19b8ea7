"""Convolutional networks, computed tile by tile with onnxruntime.

The package holds two networks: ``data/network_KIND.onnx`` is the graph of operations, and ``data/network_KIND.npz``
its weights. A user's network is another file of weights for the same graph.

Each tile is computed by one thread, extended by the reach of the network, and begins at a multiple of its stride, so
the result depends neither on the threads nor, but for rounding, on the tiles.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import logging
import zipfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.array_types import ChannelImage, Float32Array
from napari_gsw.core.errors import InputError
from napari_gsw.core.image.block_grid import Grid, Index, crop
from napari_gsw.core.jit import PACKAGE
from napari_gsw.core.special import expit
from napari_gsw.core.threads import count_cores

# A network sees (Lab - INPUT_MEAN) / INPUT_SCALE.
INPUT_MEAN, INPUT_SCALE = np.array([50, 0, 0], np.float32), np.float32(25)
# Pixels along an axis come in multiples of STRIDE; an embedding has one value per EMBEDDING_STRIDE pixels.
STRIDE, EMBEDDING_STRIDE = 16, 4
# Largest side of a tile, and pixels beyond its border that the network reaches: multiples of the stride.
TILE, HALO = 1024, 176
# Hashes of the weights that come with the package.
BUILTIN_SHA256 = {
    "photo": "3862ab905bf9199660e5386153b4176cf2fa6e63df16940c9aebca0c55166184",
    "objects": "f3590ce0de4cf1dfab7dbbf7395f4f3d0920e9e40f00fd2443152d23ce79fa86",
}
MISSING = (
    'onnxruntime is missing; results are less accurate. Run: pip install "napari-gsw[networks]", or set network to none'
)


class NetworkMaps(NamedTuple):
    """Output of a network for an image."""

    fine: Float32Array  # (h, w, channels) probabilities
    embedding: Float32Array  # (h, w, coordinates): pixels of one segment are near; no coordinates of kind objects


class Network:
    """A network that is ready to compute.

    The graph is of a kind: ``photo`` (boundaries of photographs) or ``objects`` (nuclei and cells). Weights are float32
    by the names in the graph, with the hash of them as they are stored.
    """

    def __init__(self, kind: str, weights: Mapping[str, Float32Array], sha256: str = "") -> None:
        import onnxruntime

        self.sha256 = sha256
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in weights.values()]
        options.add_external_initializers(list(weights), values)
        graph = builtin_path(kind, "onnx").read_bytes()
        self._session: Any = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        self._n_channels = [int(output.shape[1]) for output in self._session.get_outputs()]

    @classmethod
    def load(cls, path: str | PathLike[str], kind: str) -> Network:
        """Load the weights of a network of a kind from a file."""
        return cls(kind, *load_weights(path, kind))

    def predict(self, lab: ChannelImage, n_threads: int | None = None) -> NetworkMaps:
        """Compute the maps of an image or a part of it, Lab (h, w, 3), so many tiles at a time (default: cores)."""
        shape = lab.shape[:2]
        maps = NetworkMaps(*(np.empty((*shape, n), np.float32) for n in [*self._n_channels, 0][:2]))
        tiles = Grid(tuple(cut_into_tiles(length) for length in shape))

        def compute(index: Index) -> None:
            tile, around = tiles.slices(index), tiles.slices(index, HALO)
            for whole_map, tile_map in zip(maps, self._predict_tile(lab[around]), strict=False):
                whole_map[tile] = tile_map[crop(around, tile)]

        with ThreadPoolExecutor(min(len(tiles), n_threads or count_cores())) as pool:
            list(pool.map(compute, tiles))
        return maps

    def _predict_tile(self, lab: ChannelImage) -> list[Float32Array]:
        height, width = lab.shape[:2]
        padding = [(0, -n % STRIDE) for n in (height, width)]
        # Mirrored to a multiple of the stride: a frame of one colour would look like a boundary.
        padded = np.pad((lab - INPUT_MEAN) / INPUT_SCALE, (*padding, (0, 0)), mode="symmetric")
        image = np.ascontiguousarray(padded.transpose(2, 0, 1)[np.newaxis])
        fine, *embedding = (a[0].transpose(1, 2, 0) for a in self._session.run(None, {"image": image}))
        maps = [np.asarray(expit(fine[:height, :width]), np.float32)]
        for array in embedding:
            enlarged = array.repeat(EMBEDDING_STRIDE, axis=0).repeat(EMBEDDING_STRIDE, axis=1)
            maps.append(enlarged[:height, :width])
        return maps


def cut_into_tiles(length: int) -> tuple[int, ...]:
    """Return where about equally long tiles of an axis begin, at multiples of the stride, and its length.

    >>> cut_into_tiles(2000)
    (0, 992, 2000)
    """
    count = -(-length // TILE)
    return (0, *(round(k * length / count / STRIDE) * STRIDE for k in range(1, count)), length)


def load_weights(path: str | PathLike[str], kind: str) -> tuple[dict[str, Float32Array], str]:
    """Read and check a file of weights, float16 by name, of a kind: return them as float32, and their hash."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as content:
            arrays: dict[str, NDArray[Any]] = {name: content[name] for name in content.files}
        header = json.loads(str(arrays.pop("about")))
        stored_kind, stored_hash = str(header["kind"]), str(header["sha256"])
    except OSError as reason:
        raise InputError(f"network {str(path)!r} cannot be read: {reason.strerror or 'not a file'}") from None
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile, MemoryError):
        raise InputError(f"{str(path)!r} is not a network that napari-gsw wrote") from None
    if stored_kind != kind:
        raise InputError(f"network {str(path)!r} is one for {stored_kind}; give one for {kind}")
    if arrays.keys() != (shapes := _expected_shapes(kind)).keys():
        raise InputError(f"{str(path)!r} is not a network for {kind}: its arrays have other names")
    for name, array in arrays.items():
        if array.shape != shapes[name] or array.dtype != np.float16 or not np.isfinite(array).all():
            problem = f"array {name} must be finite float16 of shape {shapes[name]}, not {array.dtype} {array.shape}"
            raise InputError(f"{str(path)!r} is not a network for {kind}: {problem}")
    if hash_weights(arrays) != stored_hash:
        raise InputError(f"network {str(path)!r} is damaged: its weights do not have the stored hash")
    return {name: a.astype(np.float32) for name, a in arrays.items()}, stored_hash


@cache
def _expected_shapes(kind: str) -> dict[str, tuple[int, ...]]:
    with np.load(builtin_path(kind, "npz")) as content:
        return {name: content[name].shape for name in content.files if name != "about"}


def hash_weights(arrays: Mapping[str, NDArray[np.float16]]) -> str:
    """Hash names, shapes and values of arrays in the order of their names (SHA-256)."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(f"{name}{arrays[name].shape}".encode())
        digest.update(np.ascontiguousarray(arrays[name], dtype="<f2").data)
    return digest.hexdigest()


def builtin_path(kind: str, ending: str) -> Path:
    """Return a file of the network of a kind that comes with the package."""
    return PACKAGE / "data" / f"network_{kind}.{ending}"


def load_network(name: str, kind: str) -> Network | None:
    """Load the network that a setting names: ``shipped``, ``none`` or a path.

    Without onnxruntime there is no shipped network, which is logged once; a path is then an InputError.
    """
    if name == "none":
        return None
    if name == "shipped":
        return load_builtin_network(kind) if has_onnxruntime() else _warn_missing()
    if not has_onnxruntime():
        raise InputError(
            f'network {name!r} needs onnxruntime, which is missing. Run: pip install "napari-gsw[networks]"'
        )
    try:
        modified = Path(name).stat().st_mtime_ns
    except OSError as reason:
        raise InputError(f"network {name!r} cannot be read: {reason.strerror}") from None
    return _load_cached(name, kind, modified)


def has_onnxruntime() -> bool:
    """Return whether networks can be computed."""
    return importlib.util.find_spec("onnxruntime") is not None


@cache
def load_builtin_network(kind: str) -> Network:
    """Load the network of a kind that comes with the package."""
    network = Network.load(builtin_path(kind, "npz"), kind)
    if network.sha256 != BUILTIN_SHA256[kind]:
        raise InputError(f"the weights of network {kind} in the package are not the original ones: install it again")
    return network


@lru_cache(maxsize=8)
def _load_cached(path: str, kind: str, modified: int) -> Network:
    return Network.load(path, kind)


@cache
def _warn_missing() -> None:
    logging.getLogger("napari_gsw").warning(MISSING)
