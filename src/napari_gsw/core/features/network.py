"""Convolutional networks, computed tile by tile with onnxruntime, and the objects that the one for microscopy sees.

The package holds two networks: ``data/network_KIND.onnx`` is the graph of operations, and ``data/network_KIND.npz``
its weights. A user's network is another file of weights for the same graph.

Each tile is computed by one thread, extended by the reach of the network, and begins at a multiple of its stride, so
the result depends neither on the threads nor, but for rounding, on the tiles.

Objects: a first pass estimates their width, and a second pass is at the scale at which the network knows such objects
best. The mean of both is taken, unless the first pass was much coarser. In each pass the network also sees the mirror
image: trained on a few hundred images, it does not see both alike.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import logging
import zipfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray
from skimage import filters

from napari_gsw.core.array_types import ChannelImage, Float32Array
from napari_gsw.core.errors import InputError
from napari_gsw.core.image.block_grid import Grid, Index, crop
from napari_gsw.core.image.focus import (
    BLACK_PERCENTILE,
    BLUR_WIDTHS,
    WHITE_PERCENTILE,
    dequantize,
    estimate_blur,
    sharpen,
)
from napari_gsw.core.image.foreground_signal import discriminant_weights
from napari_gsw.core.image.normalized_image import normalize_image
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

# Channels of the maps.
INSIDE, OUTLINE, CENTRE, CONTACT, WIDTH = range(5)
# Channel WIDTH is 0 for objects of 4 pixels and 1 for 128, on a log scale.
MIN_WIDTH, OCTAVES = 4.0, 5.0
# Width in pixels of the Gaussian under which channels are compared, since noise varies in all of them.
CHANNEL_SMOOTHING = 2.0
# Width in pixels at which the network knows objects best, and the width assumed where there is no object.
BEST_WIDTH, USUAL_WIDTH = 38.0, 28.0
MIN_ZOOM, MAX_ZOOM = 0.25, 3.0
# The first pass is coarser on more pixels than this, down to a half; the second is not enlarged beyond so many.
FIRST_PIXELS, MAX_PIXELS, MIN_FIRST_ZOOM = 2**17, 2**18, 0.5
# Zooms within this factor are the same; a first pass coarser by more than the other factor is not used.
SAME_ZOOM, COARSER = 1.1, 1.5
# From this width of blur on (pixels) the network misplaces borders; grey levels of a step between two sides.
MIN_BLUR, STEP = 1.5, 15.0
# A coarse pass for large objects has this longer side; the usual pass has to see this share of what it sees.
COARSE_SIDE, HOLLOW = 256, 0.5
# Plain shapes up to this width are seen as one object; of wider ones the network sees borders and hollows.
MAX_PLAIN_WIDTH = 64.0
# A slice of a volume is made to differ more, by this factor, from the Gaussian mean of the slices around it (width in
# units of its pixels, minimum in slices), after noise is smoothed by the speckle width; and the maximal zoom of slices.
# Chosen on the one volume of the development data.
DEPTH_WIDTH, MIN_DEPTH_WIDTH, DEPTH_CONTRAST = 6.0, 2.0, 3.0
SPECKLE_WIDTH, MAX_SLICE_ZOOM = 0.5, 2.0
# Maps of the last images are kept, since a scribble makes the problem of an image anew.
CACHED_MAPS = 2


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


def to_uint8(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Stretch an image (h, w) or (*shape, c) to (*shape, 3) uint8 between its black and white percentile.

    Images without three channels become grey by the mean. Where the mean varies much less than another weighted sum of
    the channels, that sum is taken: no stain looks so, and the network has seen stains.
    """
    image = values[..., np.newaxis] if values.ndim == 2 else values
    image = image.astype(np.float64)
    weights = None
    if image.shape[-1] > 1:
        widths = (*(CHANNEL_SMOOTHING,) * (image.ndim - 1), 0)
        weights = discriminant_weights([np.asarray(scipy.ndimage.gaussian_filter(image, widths))])
    if weights is not None or image.shape[-1] != 3:
        grey = image.mean(axis=-1) if weights is None else image @ weights
        image = np.repeat(grey[..., np.newaxis], 3, axis=-1)
    low, high = np.percentile(image, (BLACK_PERCENTILE, WHITE_PERCENTILE))
    if high <= low:
        low, high = image.min(), image.max()
    if high <= low:
        return np.zeros(image.shape, np.uint8)
    return np.asarray(np.rint(np.clip((image - low) / (high - low), 0, 1) * 255), dtype=np.uint8)


def resize_linear(image: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Resize an image (h, w, c) by linear interpolation."""
    axes = (np.linspace(0, n - 1, m) for n, m in zip(image.shape, shape, strict=False))
    points = np.meshgrid(*axes, indexing="ij")
    channels = np.moveaxis(image, -1, 0)
    resized = [scipy.ndimage.map_coordinates(channel, points, order=1, mode="nearest") for channel in channels]
    return np.stack(resized, axis=-1)


def rescale(image: NDArray[np.uint8], zoom: float, min_side: int = 16) -> NDArray[np.uint8]:
    """Rescale an image (h, w, 3); one that becomes smaller is blurred first."""
    if zoom < 1:
        image = scipy.ndimage.gaussian_filter(image, (0.4 / zoom, 0.4 / zoom, 0))
    return np.asarray(resize_linear(image, tuple(max(min_side, round(n * zoom)) for n in image.shape[:2])))


def predict_objects(values: NDArray[Any], network: Network) -> Float32Array:
    """Predict the maps (h, w, 5) of an image (h, w) or (h, w, c) of any type; see ``INSIDE`` and so on."""
    image = _to_network_rgb(values)
    return _predict_two_scales(image.tobytes(), image.shape, network)


def are_too_large(values: NDArray[Any], maps: Float32Array, network: Network) -> bool:
    """Return whether the objects of an image are larger than the network can know, given its maps.

    The width of plain shapes is measured. Others are too large if a coarse pass sees them where the maps are hollow.
    """
    image = _to_network_rgb(values)
    if measure_plain_width(image) > MAX_PLAIN_WIDTH:
        return True
    if max(maps.shape[:2]) <= 2 * COARSE_SIDE:
        return False
    coarse = _predict(image, network, COARSE_SIDE / max(image.shape[:2]))[..., INSIDE] > 0.5
    return bool(np.count_nonzero(coarse & (maps[..., INSIDE] > 0.5)) < HOLLOW * np.count_nonzero(coarse))


def measure_plain_width(image: NDArray[np.uint8]) -> float:
    """Measure the widest object in an image (h, w, 3) of plain shapes, in pixels; 0 for any other image."""
    channels = normalize_image(image, "YXS", reduce_noise=True).channels
    if estimate_blur(channels) is None:
        return 0.0
    channel = channels[..., int(np.argmax(channels.reshape(-1, channels.shape[-1]).var(axis=0)))]
    bright = channel > filters.threshold_otsu(channel)
    objects = bright if bright.mean() <= 0.5 else ~bright
    return 2 * float(scipy.ndimage.distance_transform_edt(np.pad(objects, 1)).max())


def estimate_object_width(maps: Float32Array) -> float:
    """Estimate the median width of objects in pixels, each counted once whatever its size."""
    inside = maps[..., INSIDE] > 0.5
    if not inside.any():
        return USUAL_WIDTH
    width = np.sort(MIN_WIDTH * 2 ** (OCTAVES * maps[..., WIDTH][inside].astype(np.float64)))
    n_objects = np.cumsum(1 / width**2)
    return float(width[np.searchsorted(n_objects, n_objects[-1] / 2)])


def _to_network_rgb(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Convert an image to what the network sees: 8 bits, and plain shapes out of focus with sharp borders."""
    image = to_uint8(dequantize(values))
    width = estimate_blur(normalize_image(image, "YXS", reduce_noise=True).channels)
    # The largest width stands for all that is softer: nuclei.
    if width is None or not MIN_BLUR <= width < max(BLUR_WIDTHS):
        return image
    return np.rint(sharpen(image.astype(np.float32), width, STEP)).astype(np.uint8)


@lru_cache(CACHED_MAPS)
def _predict_two_scales(content: bytes, shape: tuple[int, ...], network: Network) -> Float32Array:
    image, pixels = np.frombuffer(content, np.uint8).reshape(shape), shape[0] * shape[1]
    first = float(np.clip(np.sqrt(FIRST_PIXELS / pixels), MIN_FIRST_ZOOM, 1))
    maps = _predict(image, network, first)
    second = float(np.clip(BEST_WIDTH / estimate_object_width(maps), MIN_ZOOM, MAX_ZOOM))
    second = min(second, max(1.0, float(np.sqrt(MAX_PIXELS / pixels))))
    if max(first / second, second / first) < SAME_ZOOM:
        return maps
    finer_maps = _predict(image, network, second)
    return finer_maps if second > COARSER * first and first < 1 else (maps + finer_maps) / np.float32(2)


def predict_slices(
    values: NDArray[Any], network: Network, depth: float = 1.0, progress: Callable[[int, int], None] | None = None
) -> Float32Array:
    """Predict the probability of being inside an object, (z, y, x), slice by slice and on one scale.

    Light of one slice of the values (z, y, x, c) is seen in those above and below, where annotators see no object: each
    slice is first made to differ more from the mean of its neighbours. `depth` is the distance of the slices in pixels.
    `progress` is called with the number of slices done and their total.
    """
    volume = values.astype(np.float32)
    around = scipy.ndimage.gaussian_filter1d(volume, max(MIN_DEPTH_WIDTH, DEPTH_WIDTH / depth), axis=0)
    contrasted = volume + DEPTH_CONTRAST * (volume - around)
    slices = to_uint8(scipy.ndimage.gaussian_filter(contrasted, (*(SPECKLE_WIDTH,) * 3, 0)))
    width = estimate_object_width(_predict(slices[len(slices) // 2], network, 1.0))
    zoom = min(float(np.clip(BEST_WIDTH / width, 1, MAX_ZOOM)), MAX_SLICE_ZOOM)
    inside = []
    for number, image in enumerate(slices):
        passes = [_predict(image, network, z)[..., INSIDE] for z in sorted({1.0, zoom})]
        inside.append(np.mean(passes, axis=0, dtype=np.float32))
        if progress is not None:
            progress(number + 1, len(slices))
    return np.stack(inside)


def _predict(image: NDArray[np.uint8], network: Network, zoom: float) -> Float32Array:
    """Predict the maps of an image (h, w, 3) and its mirror image at a zoom, and resize them to the image."""
    zoomed = image if zoom == 1 else rescale(image, zoom)
    lab = normalize_image(np.ascontiguousarray(zoomed), "YXS").channels
    mirrored = network.predict(np.ascontiguousarray(lab[:, ::-1])).fine[:, ::-1]
    fine = (network.predict(lab).fine + mirrored) / np.float32(2)
    if zoom == 1:
        return fine
    maps: Float32Array = resize_linear(fine, image.shape[:2]).astype(np.float32)
    # Widths are those in pixels of the image.
    maps[..., WIDTH] = np.clip(maps[..., WIDTH] - np.float32(np.log2(zoom) / OCTAVES), 0, 1)
    return maps
