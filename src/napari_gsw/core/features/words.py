"""Visual words of pixels, and their histograms per site: luminance, colour and texture.

A word is the number of a bin or of the nearest centre of a codebook. Learning a codebook is separate from looking words
up in it, because a large image learns from some of its pixels and is looked up block by block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack
from skimage import color

from napari_gsw.core.array_types import BoolArray, ChannelImage, Sites
from napari_gsw.core.errors import InputError
from napari_gsw.core.features.codebook import Codebook, load_builtin_codebook
from napari_gsw.core.image.block_grid import spread_tiles
from napari_gsw.core.image.denoise import estimate_noise
from napari_gsw.core.image.normalized_image import NormalizedImage
from napari_gsw.core.settings import Settings

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


def make_histograms(words: NDArray[np.int32], sites: Sites, n_words: int | None = None) -> csr_array:
    """Count the words (*shape,) of the pixels of each site (*shape,) 1..n, y_i of the paper: (n, words) int64.

    There are as many columns as words occur, unless their number is given.
    """
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
    stacked: csr_array = vstack(wide, format="csr")
    return stacked


def bin_luminance(image: NormalizedImage, bins: int) -> NDArray[np.int32]:
    """Assign each pixel the bin of its luminance; 8 bins give the histogram of Orbanz and Buhmann (2008)."""
    return np.asarray(np.minimum(image.luminance * (bins / 100), bins - 1), dtype=np.int32)


def smear_counts(counts: csr_array, codebook: Codebook) -> csr_array:
    """Count each pixel for all words near its own, within the softness of the codebook.

    The words of photographs are so far apart that two of them are different colours. Those learnt from one image may be
    shades of a grey, and a ramp would have different words at its ends as if it were two surfaces.
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
    if codebook is None and "codebook" in settings.file_paths():
        codebook = Codebook.load(named)
    space = "channels" if not rgb else settings.colours if codebook is None else codebook.space
    if codebook is None:
        if named == "shipped" and not rgb:
            raise InputError(
                "codebook must be image, auto or a saved codebook for an image that is not RGB, not shipped"
            )
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
    """Return whether four colours explain nearly all variance but noise; those of a photograph never do.

    The words of photographs would split a colour that changes a little across such an image.
    """
    share = -(-FEW_COLOURS_PIXELS // len(images))
    values = np.concatenate([i.channels.reshape(-1, 3)[:: 1 + i.channels.size // (3 * share)] for i in images])
    tiles = [i.channels[tile] for i in images for tile in spread_tiles(i.shape, NOISE_TILES, NOISE_TILE_SIDE)]
    noise = len(values) * float(np.square(estimate_noise(tiles)).sum())
    total = float(np.square(values - values.mean(axis=0, dtype=np.float64)).sum())
    few = Codebook.learn([values], N_FEW_COLOURS, "lab")
    left = float(np.square(values - few.centres[few.words(values)], dtype=np.float64).sum())
    return noise < total / 2 and left - noise <= FEW_COLOURS_LEFT * (total - noise)


def to_codebook_space(image: NormalizedImage, space: str) -> ChannelImage:
    """Return the channels of an image, or for ``hsv`` the cylinder (S cos H, S sin H, V / 2).

    Value counts half, because shading changes it within an object more than it changes the hue.
    """
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
