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
from napari_gsw.core.jit import njit, zeros
from napari_gsw.core.special import sum_by_group

# Pixels for k-means; more of them move the centres by less than the centres' own scatter.
LEARNING_PIXELS = 20_000
N_ROUNDS = 15
# Far beyond any colour; the square of a larger one might not be finite.
MAX_SOFTNESS = 1e100
# Pixels that are compared together: they fill the vector unit and fit into its cache.
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
        total, pixels = sum_by_group(values, words, len(centres)), np.bincount(words, minlength=len(centres))
        means = (total / np.maximum(pixels, 1)[:, np.newaxis]).astype(np.float32)
        centres, previous = np.where(pixels[:, np.newaxis] > 0, means, centres), words
    return centres


@njit
def find_nearest(values: Float32Array, centres: Float32Array) -> Int32Array:
    """Find the nearest centre (words, channels) of each pixel (pixels, channels); the first one wins a tie.

    All distances are computed, a block of pixels and three channels at a time.
    """
    pixels, channels = values.shape
    words, padded = centres.shape[0], -(-channels // 3) * 3
    middle = zeros((words, padded), np.float32)
    for k in range(words):
        for c in range(channels):
            middle[k, c] = centres[k, c]
    planes = zeros((padded, BLOCK), np.float32)
    distance, best = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)
    index, result = np.empty(BLOCK, np.int32), np.empty(pixels, np.int32)
    for first in range(0, pixels, BLOCK):
        count = min(BLOCK, pixels - first)
        for p in range(count):
            for c in range(channels):
                planes[c, p] = values[first + p, c]
        for p in range(BLOCK):
            best[p], index[p] = np.float32(np.inf), 0
        for k in range(words):
            for p in range(BLOCK):
                distance[p] = np.float32(0)
            for c in range(0, padded, 3):
                x, y, z = middle[k, c], middle[k, c + 1], middle[k, c + 2]
                for p in range(BLOCK):
                    r, s, t = planes[c, p] - x, planes[c + 1, p] - y, planes[c + 2, p] - z
                    distance[p] += r * r + s * s + t * t
            word = np.int32(k)
            for p in range(BLOCK):
                new, least, winner = distance[p], best[p], index[p]  # read always, or the vector unit stays out
                best[p] = new if new < least else least
                index[p] = word if new < least else winner
        for p in range(count):
            result[first + p] = index[p]
    return result
