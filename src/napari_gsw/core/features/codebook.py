"""Visual words of pixels, and their histograms per site: luminance, colour and texture.

A word is the number of a bin or of the nearest centre of a codebook: the centres of k-means in a colour or texture
space. A large image learns a codebook from some of its pixels, and its words are looked up block by block.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, vstack
from skimage import color

from napari_gsw.core.array_types import BoolArray, ChannelImage, Float32Array, Int32Array, Sites
from napari_gsw.core.errors import InputError, check_integer, check_number, check_seed, to_array, to_float_array
from napari_gsw.core.image.block_grid import spread_tiles
from napari_gsw.core.image.denoise import estimate_noise
from napari_gsw.core.image.normalized_image import NormalizedImage, normalize_image
from napari_gsw.core.jit import PACKAGE, njit, zeros
from napari_gsw.core.settings import Settings
from napari_gsw.core.settings.declaration import file_paths
from napari_gsw.core.special import sum_by_group

# Pixels for k-means; more of them move the centres by less than the centres' own scatter.
LEARNING_PIXELS = 20_000
N_ROUNDS = 15
# Far beyond any colour; the square of a larger one might not be finite.
MAX_SOFTNESS = 1e100
# Pixels that are compared together: they fill the vector unit and fit into its cache.
BLOCK = 128
# Weight of value beside saturation in hsv.
VALUE_WEIGHT = 0.5
# Counts that a pixel is worth when it is shared out to similar words in whole numbers; words within one word_scale.
SOFT_COUNTS, WORDS_PER_SCALE = 16, 4
# Smaller softness has no effect; sites are smeared this many at a time.
MIN_SOFTNESS, SMEARED_SITES = 1e-6, 1 << 14
# Colours of a low-contrast image are stretched to this part of the range of channels, and values within so many
# rounding errors are shades of one.
LOW_CONTRAST_RANGE, ROUNDINGS = 0.55, 2.0
# An image has few colours if the nearest of four leaves at most this share of the variance, in about so many pixels. Of
# 359 photographs the least has 0.024, and of 65 easy images in colour one has more.
N_FEW_COLOURS, FEW_COLOURS_LEFT, FEW_COLOURS_PIXELS = 4, 0.022, 1 << 11
# Their noise is estimated from so many tiles of each image, so many pixels wide.
NOISE_TILES, NOISE_TILE_SIDE = 4, 40


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
        many: Any = images if isinstance(images, (list, tuple)) else [images]
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
        kept: list[int] = []
        for k, centre in enumerate(self.centres):
            if gap <= 0 or not kept or np.linalg.norm(self.centres[kept] - centre, axis=1).min() >= gap:
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
            content = read_json(path)
            return cls(content["centres"], str(content["space"]), content.get("softness", 0.0))
        except OSError as reason:
            raise InputError(f"codebook {str(path)!r} cannot be read: {reason.strerror}") from None
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as reason:
            raise InputError(f"{str(path)!r} is not a codebook: {reason}") from None


def read_json(path: str | PathLike[str]) -> Any:
    """Read a file of JSON; OSError for a device or a pipe, which may have no end."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(errno.EINVAL, "not a file")
    return json.loads(Path(path).read_text(encoding="utf-8"))


@lru_cache
def load_builtin_codebook(space: str) -> Codebook:
    """Load the words that come with the package, learnt from photographs: ``lab``, ``hsv`` or ``texture``."""
    return Codebook.load(PACKAGE / "data" / f"codebook_{space}.json")


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
    """Find the nearest centre (words, channels) of each pixel (pixels, channels); the first one wins a tie."""
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


def make_histograms(words: NDArray[np.int32], sites: Sites, n_words: int | None = None) -> csr_array:
    """Count the words (*shape,) of each site (*shape,) 1..n, y_i of the paper: (n, `n_words` or those that occur)."""
    n_words = n_words or int(words.max()) + 1
    mask = sites > 0
    cells, counts = np.unique((sites[mask] - 1).astype(np.int64) * n_words + words[mask], return_counts=True)
    starts = np.searchsorted(cells, n_words * np.arange(int(sites.max()) + 1))
    columns = (cells % n_words).astype(np.int32)
    return csr_array((counts, columns, starts.astype(np.int32)), shape=(len(starts) - 1, n_words))


def stack_histograms(histograms: Sequence[csr_array]) -> csr_array:
    """Stack the histograms of several images; a word that one of them lacks counts 0 there."""
    width = max(counts.shape[1] for counts in histograms)
    wide = [csr_array((h.data, h.indices, h.indptr), shape=(h.shape[0], width)) for h in histograms]
    return csr_array(vstack(wide, format="csr"))


def bin_luminance(image: NormalizedImage, bins: int) -> NDArray[np.int32]:
    """Assign each pixel the bin of its luminance; 8 bins give the histogram of Orbanz and Buhmann (2008)."""
    return np.asarray(np.minimum(image.luminance * (bins / 100), bins - 1), dtype=np.int32)


def smear_counts(counts: csr_array, codebook: Codebook) -> csr_array:
    """Count each pixel for all words near its own, within the softness of the codebook.

    Words learnt from one image may be shades of a grey: a ramp would have other words at its ends, like two surfaces.
    """
    if codebook.softness < MIN_SOFTNESS:
        return counts
    centres = codebook.centres[: counts.shape[1]].astype(np.float64)
    square = np.square(centres[:, np.newaxis] - centres).sum(axis=-1)
    weights = np.exp(-square / (2 * codebook.softness**2))
    weights /= weights.sum(axis=1, keepdims=True)
    # Some sites at a time, since the product is dense.
    parts = (counts[first : first + SMEARED_SITES] @ weights for first in range(0, counts.shape[0], SMEARED_SITES))
    return vstack([csr_array(np.rint(SOFT_COUNTS * part).astype(np.int64)) for part in parts], format="csr")


def choose_colour_codebook(
    images: Sequence[NormalizedImage], masks: Sequence[BoolArray], settings: Settings, codebook: Codebook | None
) -> Codebook:
    """Choose the colour words of images: given, shipped, or learnt from their pixels in masks.

    Words of channels are soft by `word_scale` unless their codebook says otherwise. Words of colours are soft if they
    are learnt from an image because it has low contrast or few colours.
    """
    rgb, named = images[0].rgb, settings.codebook
    if codebook is None and "codebook" in file_paths(settings):
        codebook = Codebook.load(named)
    space = "channels" if not rgb else settings.colours if codebook is None else codebook.space
    if codebook is None:
        if named == "shipped" and not rgb:
            raise InputError("codebook must be image, auto or a file for an image that is not RGB, not shipped")
        # By default words are learnt from images that are not RGB, or have low contrast or few colours.
        is_usual = named == "shipped" or (named == "auto" and rgb)
        if named == "auto" and settings.colours == "lab" and settings.word_scale > 0:
            is_usual = is_usual and not images[0].pale and not has_few_colours(images)
        if is_usual:
            codebook = load_builtin_codebook(space)
    if codebook is None:
        values = [to_codebook_space(image, space)[mask] for image, mask in zip(images, masks, strict=True)]
        codebook = Codebook.learn([np.concatenate(values)], settings.words, space)
        softness = settings.word_scale
        if rgb:
            extent = float(np.linalg.norm(np.ptp(codebook.centres, axis=0)))  # 100 from dark to bright
            min_softness = ROUNDINGS * max(image.rounding for image in images)
            softness = max(softness * max(LOW_CONTRAST_RANGE, extent / 100), min_softness) if named == "auto" else 0.0
        codebook = replace(codebook.thinned(softness / WORDS_PER_SCALE), softness=softness)
    if codebook.space != space:
        raise InputError(f"the codebook has words in {codebook.space!r}, but the image is in {space!r}")
    return codebook if rgb or codebook.softness > 0 else replace(codebook, softness=settings.word_scale)


def has_few_colours(images: Sequence[NormalizedImage]) -> bool:
    """Return whether four colours explain nearly all variance but noise, which the words of photographs would split."""
    share = -(-FEW_COLOURS_PIXELS // len(images))
    values = np.concatenate([i.channels.reshape(-1, 3)[:: 1 + i.channels.size // (3 * share)] for i in images])
    tiles = [i.channels[tile] for i in images for tile in spread_tiles(i.shape, NOISE_TILES, NOISE_TILE_SIDE)]
    noise = len(values) * float(np.square(estimate_noise(tiles)).sum())
    total = float(np.square(values - values.mean(axis=0, dtype=np.float64)).sum())
    few = Codebook.learn([values], N_FEW_COLOURS, "lab")
    left = float(np.square(values - few.centres[few.words(values)], dtype=np.float64).sum())
    return noise < total / 2 and left - noise <= FEW_COLOURS_LEFT * (total - noise)


def to_codebook_space(image: NormalizedImage, space: str) -> ChannelImage:
    """Return the channels of an image, or for ``hsv`` (S cos H, S sin H, V / 2): shading changes V most."""
    if space != "hsv":
        if image.rgb and space != "lab":
            raise InputError(f"the codebook has words in {space!r}, but the image is in 'lab'")
        return image.channels
    hue, saturation, value = np.moveaxis(color.rgb2hsv(color.lab2rgb(image.channels)), -1, 0)
    angle = 2 * np.pi * hue
    cylinder = (saturation * np.cos(angle), saturation * np.sin(angle), VALUE_WEIGHT * value)
    return np.stack(cylinder, axis=-1).astype(np.float32)


def to_lab(image: NormalizedImage) -> ChannelImage:
    """Return the Lab channels of any image, for the words of photographs; one that is not RGB is grey."""
    if image.rgb:
        return image.channels
    grey = np.zeros((*image.shape, 3), np.float32)
    grey[..., 0] = image.luminance
    return grey


def choose_texture_codebook(values: Sequence[ChannelImage], masks: Sequence[BoolArray], n_words: int) -> Codebook:
    """Choose the texture words for filter responses: shipped ones for 32 words in 2D, otherwise learnt in masks."""
    shipped = load_builtin_codebook("texture")
    if n_words == len(shipped.centres) and values[0].ndim == 3:
        return shipped
    return Codebook.learn([np.concatenate([v[m] for v, m in zip(values, masks, strict=True)])], n_words, "texture")
