"""Codebooks: the centres of k-means in a colour or texture space, learnt from one image or many."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import resources
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_gsw.core.array_types import ChannelImage, Float32Array, Int32Array
from napari_gsw.core.errors import InputError, check_integer, check_number, check_seed, to_array, to_float_array
from napari_gsw.core.image.normalized_image import normalize_image
from napari_gsw.core.jit import full, njit, njit_merged, zeros
from napari_gsw.core.sites.adjacency_kernels import sum_over_sites

# Pixels for k-means; more of them move the centres by less than the centres' own scatter.
LEARNING_PIXELS = 20_000
N_ROUNDS = 15
# Far beyond any colour; the square of a larger one might not be finite.
MAX_SOFTNESS = 1e100
# Up to this number of channels the nearest word is looked up in a grid: at most so many cells, one per so many pixels.
FEW, CELLS, PIXELS_PER_CELL = 3, 4096, 16
# Cells are widened by this fraction, more than rounding can move a pixel beyond the border.
SLACK = np.float32(1e-3)
# Pixels of more channels that are compared together: they fill the vector unit and fit into its cache.
BLOCK = 128


@dataclass(frozen=True, eq=False)
class Codebook:
    """Visual words: points in a colour or texture space.

    Parameters
    ----------
    centres : (words, channels) array_like
        The words.
    space : {"lab", "hsv", "channels", "texture"}
        Meaning of the channels. A codebook fits only its own space.
    softness : float
        Distance within which words are shades of one colour, so that a pixel of one counts for the others too.
    """

    centres: ChannelImage
    space: str
    softness: float = 0.0

    def __post_init__(self) -> None:
        with np.errstate(over="ignore"):
            centres = np.ascontiguousarray(to_float_array("centres", self.centres), dtype=np.float32)
        if centres.ndim != 2 or centres.size == 0 or not np.isfinite(centres).all():
            raise InputError(f"centres must be rows of finite numbers of one length, not shape {centres.shape}")
        object.__setattr__(self, "centres", centres)
        object.__setattr__(self, "softness", check_number("softness", self.softness, 0, MAX_SOFTNESS))

    @classmethod
    def fit(
        cls, images: ArrayLike | Sequence[ArrayLike], words: int = 120, axes: str = "auto", seed: int = 0
    ) -> Codebook:
        """Learn colour words from an image or a list of images.

        Parameters
        ----------
        images : array_like or list of array_like
            Images as :func:`napari_gsw.segment` takes them. Each has the same weight.
        words : int
            Number of words. Images with fewer different colours give fewer words.
        axes : str
            Order of the axes of all images.
        seed : int
            The same seed gives the same words.
        """
        words, seed = check_integer("words", words, 1), check_seed(seed)
        many: Sequence[Any] = images if isinstance(images, (list, tuple)) else [images]
        normalized = [normalize_image(image, axes) for image in many]
        if len({image.rgb for image in normalized}) > 1:
            raise InputError("a codebook needs images that are all RGB or all not")
        space = "lab" if normalized and normalized[0].rgb else "channels"
        return cls.learn([image.channels for image in normalized], words, space, seed)

    @classmethod
    def learn(
        cls, arrays: Sequence[ChannelImage], words: int, space: str, seed: int = 0, pixels: int = LEARNING_PIXELS
    ) -> Codebook:
        """Learn words from `pixels` of the values in arrays (..., channels)."""
        if not arrays:
            raise InputError("a codebook needs at least one image to learn from")
        if len({a.shape[-1] for a in arrays}) > 1:
            raise InputError("a codebook needs images with the same number of channels")
        rng = np.random.default_rng(seed)
        share = -(-pixels // len(arrays))
        rows = [a.reshape(-1, a.shape[-1]) for a in arrays]
        sample = np.concatenate(
            [r if len(r) <= share else r[np.sort(rng.choice(len(r), share, replace=False))] for r in rows]
        ).astype(np.float32)
        centres = np.unique(sample, axis=0)
        if len(centres) > words:
            centres = run_kmeans(sample, centres[rng.choice(len(centres), words, replace=False)])
        return cls(centres[np.lexsort(centres.T[::-1])], space)

    def thinned(self, gap: float) -> Codebook:
        """Return a codebook without words nearer than `gap` to an earlier one."""
        if gap <= 0:
            return self
        kept: list[int] = []
        for k, centre in enumerate(self.centres):
            if not kept or np.linalg.norm(self.centres[kept] - centre, axis=1).min() >= gap:
                kept.append(k)
        return replace(self, centres=self.centres[kept])

    def words(self, values: ChannelImage) -> NDArray[np.int32]:
        """Find the word of each pixel, (..., channels) -> (...)."""
        values = to_array("values", values)
        if values.dtype.kind not in "buif":
            raise InputError(f"values must hold numbers, not {values.dtype}")
        channels, expected = values.shape[-1] if values.ndim else 0, self.centres.shape[1]
        if channels != expected:
            raise InputError(f"the codebook has words of {expected} channels, but the image has {channels}")
        with np.errstate(over="ignore"):
            flat = np.ascontiguousarray(values.reshape(-1, channels), dtype=np.float32)
        if values.dtype != np.float32 and np.isinf(flat).any():
            raise InputError(f"values must be numbers up to {np.finfo(np.float32).max:.3g}; scale them down")
        return find_nearest(flat, self.centres).reshape(values.shape[:-1])

    def save(self, path: str | PathLike[str]) -> None:
        """Write the codebook to a JSON file that :meth:`load` reads exactly."""
        rows = ",\n".join(json.dumps([float(f"{x:.9g}") for x in row]) for row in self.centres)
        soft = f'"softness": {json.dumps(self.softness)}, ' if self.softness else ""
        text = f'{{"space": {json.dumps(self.space)}, {soft}"centres": [\n{rows}\n]}}\n'
        target = Path(path)
        new = target.with_name(f".{target.name}.{os.getpid()}.part")
        try:
            new.write_text(text, encoding="utf-8")
            os.replace(new, target)  # an older file stays until the new one is complete
        except OSError as reason:
            raise InputError(f"codebook {str(path)!r} cannot be written: {reason.strerror or reason}") from None
        finally:
            with suppress(OSError):
                new.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Codebook:
        """Read a codebook that :meth:`save` wrote; anything else is an :class:`InputError`."""
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
            return cls(content["centres"], str(content["space"]), content.get("softness", 0.0))
        except OSError as reason:
            raise InputError(f"codebook {str(path)!r} cannot be read: {reason.strerror}") from None
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as reason:
            raise InputError(f"{str(path)!r} is not a codebook: {reason}") from None


@lru_cache
def load_builtin_codebook(space: str) -> Codebook:
    """Load the words that come with the package, learnt from photographs: ``lab``, ``hsv`` or ``texture``."""
    with resources.as_file(resources.files("napari_gsw") / "data" / f"codebook_{space}.json") as path:
        return Codebook.load(path)


def run_kmeans(values: ChannelImage, centres: ChannelImage) -> ChannelImage:
    """Run k-means of (pixels, channels) from given centres. A centre without pixels stays where it is."""
    previous = np.empty(0, np.int32)
    for _ in range(N_ROUNDS):
        words = find_nearest(values, centres)
        if np.array_equal(words, previous):
            break
        total, pixels = sum_over_sites(values, words + np.int32(1), len(centres))
        means = (total / np.maximum(pixels, 1)[:, np.newaxis]).astype(np.float32)
        centres, previous = np.where(pixels[:, np.newaxis] > 0, means, centres), words
    return centres


@njit
def find_nearest(values: Float32Array, centres: Float32Array) -> Int32Array:
    """Find the nearest centre (words, channels) of each pixel (pixels, channels); the first one wins a tie."""
    result = np.empty(values.shape[0], np.int32)
    if values.shape[0] == 0:
        return result
    if values.shape[1] <= FEW:
        _nearest_by_cell(values, centres, result)
    else:
        _nearest_by_block(values, centres, result)
    return result


@njit_merged
def _nearest_by_cell(values: Float32Array, centres: Float32Array, result: Int32Array) -> None:
    """Find nearest centres of few channels by a grid with the candidates of each cell.

    They are listed when the first pixel falls into the cell: of 120 colours about four remain.
    """
    pixels, channels = values.shape
    words = centres.shape[0]
    grid = max(1, int(min(CELLS, pixels // PIXELS_PER_CELL) ** (1 / channels) + 1e-9))
    axes = zeros((3, FEW), np.float32)  # of each channel the lowest value, a cell's side, cells per unit
    planes = zeros((FEW, words), np.float32)
    for c in range(channels):
        low, high = values[0, c], values[0, c]
        for p in range(pixels):
            low = min(low, values[p, c])
            high = max(high, values[p, c])
        axes[0, c], axes[1, c] = low, (high - low) / np.float32(grid)
        axes[2, c] = np.float32(1) / axes[1, c] if axes[1, c] > 0 else np.float32(0)
        for k in range(words):
            planes[c, k] = centres[k, c]
    start, end = full(grid**channels, -1, np.int32), np.empty(grid**channels, np.int32)
    pool, used = np.empty(64 * words, np.int32), 0
    bounds = np.empty((2, words), np.float32)
    two, three = channels > 1, channels > 2
    for p in range(pixels):
        x = values[p, 0]
        y = values[p, 1] if two else np.float32(0)
        z = values[p, 2] if three else np.float32(0)
        cell = min(int((x - axes[0, 0]) * axes[2, 0]), grid - 1)
        if two:
            cell = cell * grid + min(int((y - axes[0, 1]) * axes[2, 1]), grid - 1)
        if three:
            cell = cell * grid + min(int((z - axes[0, 2]) * axes[2, 2]), grid - 1)
        if start[cell] < 0:
            if used + words > pool.size:
                longer = np.empty(2 * pool.size, np.int32)
                for t in range(pool.size):
                    longer[t] = pool[t]
                pool = longer
            start[cell] = used
            used = _list_candidates(planes, channels, axes, cell, grid, bounds, pool, used)
            end[cell] = used
        best, index = np.float32(np.inf), 0
        for t in range(start[cell], end[cell]):
            k = pool[t]
            a, b, c = x - planes[0, k], y - planes[1, k], z - planes[2, k]
            distance = a * a + b * b + c * c
            if distance < best:
                best, index = distance, k
        result[p] = index


@njit_merged
def _list_candidates(
    planes: Float32Array, channels: int, axes: Float32Array, cell: int, grid: int, bounds: Float32Array,
    pool: Int32Array, used: int,
) -> int:  # fmt: skip
    """Append to the pool the centres that can be nearest to a point of a cell; return the used length of the pool.

    A centre whose minimal distance to the cell exceeds the maximal one of another is no candidate. `planes` and `axes`
    are those of :func:`_nearest_by_cell`, `bounds` (2, words) is scratch.
    """
    words = planes.shape[1]
    for k in range(words):
        bounds[0, k] = bounds[1, k] = np.float32(0)
    for c in range(channels - 1, -1, -1):
        index = np.float32(cell % grid)
        cell //= grid
        bottom = axes[0, c] + axes[1, c] * (index - SLACK)
        top = axes[0, c] + axes[1, c] * (index + np.float32(1) + SLACK)
        for k in range(words):
            below, above = bottom - planes[c, k], top - planes[c, k]
            gap = max(max(below, -above), np.float32(0))
            span = max(-below, above)
            bounds[0, k] += gap * gap
            bounds[1, k] += span * span
    reach = np.float32(np.inf)
    for k in range(words):
        reach = min(reach, bounds[1, k])
    reach *= np.float32(1) + SLACK
    for k in range(words):
        if bounds[0, k] <= reach:
            pool[used] = k
            used += 1
    return used


@njit_merged
def _nearest_by_block(values: Float32Array, centres: Float32Array, result: Int32Array) -> None:
    """Find nearest centres of many channels by all distances, a block of pixels and three channels at a time."""
    pixels, channels = values.shape
    words = centres.shape[0]
    padded = -(-channels // 3) * 3
    middle = zeros((words, padded), np.float32)
    for k in range(words):
        for c in range(channels):
            middle[k, c] = centres[k, c]
    planes = zeros((padded, BLOCK), np.float32)
    distance, best = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)
    index = np.empty(BLOCK, np.int32)
    for first in range(0, pixels, BLOCK):
        count = min(BLOCK, pixels - first)
        for p in range(count):
            for c in range(channels):
                planes[c, p] = values[first + p, c]
        for p in range(BLOCK):
            best[p], index[p] = np.float32(np.inf), 0
        for k in range(words):
            x, y, z = middle[k, 0], middle[k, 1], middle[k, 2]
            for p in range(BLOCK):
                r, s, t = planes[0, p] - x, planes[1, p] - y, planes[2, p] - z
                distance[p] = r * r + s * s + t * t
            for c in range(3, padded - 3, 3):
                x, y, z = middle[k, c], middle[k, c + 1], middle[k, c + 2]
                for p in range(BLOCK):
                    r, s, t = planes[c, p] - x, planes[c + 1, p] - y, planes[c + 2, p] - z
                    distance[p] += r * r + s * s + t * t
            x, y, z = middle[k, padded - 3], middle[k, padded - 2], middle[k, padded - 1]
            word = np.int32(k)
            for p in range(BLOCK):
                r, s, t = planes[padded - 3, p] - x, planes[padded - 2, p] - y, planes[padded - 1, p] - z
                total = distance[p] + (r * r + s * s + t * t)
                least, winner = best[p], index[p]  # read whatever comes of it, or the vector unit stays out
                nearer = total < least
                best[p] = total if nearer else least
                index[p] = word if nearer else winner
        for p in range(count):
            result[first + p] = index[p]
