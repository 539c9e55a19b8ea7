"""Pixels -> words -> histograms of the sites: luminance, colour, texture.

A word is the number of a bin or of the nearest centre of a codebook. What may be learnt (the codebook) is apart from
what is looked up in it, because a large image learns from some of its pixels and looks up block by block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack
from skimage import color

from napari_gsw.core.array_types import ChannelImage, Sites
from napari_gsw.core.errors import InputError
from napari_gsw.core.features.codebook import Codebook, load_builtin_codebook
from napari_gsw.core.features.texture import compute_texture
from napari_gsw.core.features.word_kernels import count_words, sparse_rows
from napari_gsw.core.image.block_grid import spread_tiles
from napari_gsw.core.image.denoise import estimate_noise
from napari_gsw.core.image.normalized_image import NormalizedImage
from napari_gsw.core.settings import Settings

# Weight of value beside saturation where colours are told apart by hue.
VALUE_WEIGHT = 0.5
# A pixel whose word is softened counts so much, to be shared out in whole numbers; and so many words lie on a scale.
SOFT_COUNTS, WORDS_A_SCALE = 16, 4
# Words that are nearer than this are not made soft; and so many sites are at a time.
LEAST_SOFTNESS, SOME_SITES = 1e-6, 1 << 14
# Colours of a pale picture are stretched to a part of what channels are stretched to, and shades of one by as much; and
# values that so many roundings part are shades of one.
PALE, ROUNDED = 0.55, 2.0
# Colours that an image of few colours has, what may be left of its variance beside them, and about how many of its
# pixels say so. Of 359 photographs the least has .024, and of 65 easy pictures in colour one has more.
FEW, FEW_LEFT, SOME_PIXELS = 4, 0.022, 1 << 11
# Their noise is that of so many tiles of each part, so many pixels wide.
SOME_TILES, TILE = 4, 40
# Counts are made in a table of sites and words unless that has more entries than this for each pixel.
DENSE = 4


def make_histograms(words: NDArray[np.int32], sites: Sites, count: int | None = None) -> csr_array:
    """(n, words) int64, how many pixels of each site (\\*shape,) have each word (\\*shape,).

    Of `count` words, or as many as occur. These are the y_i of the paper.
    """
    shape = (int(sites.max()), count or int(words.max()) + 1)
    flat = np.ascontiguousarray(sites, dtype=np.int32).ravel()
    if shape[0] * shape[1] <= DENSE * flat.size:
        table = np.zeros(shape, np.int32)
        used = count_words(np.ascontiguousarray(words, dtype=np.int32).ravel(), flat, table)
        return csr_array(sparse_rows(table, used), shape=shape)
    inside = sites > 0
    return csr_array((np.ones(inside.sum(), np.int64), (sites[inside] - 1, words[inside])), shape=shape)


def stack_histograms(histograms: Sequence[csr_array]) -> csr_array:
    """Stack the histograms of several images; a word that one of them lacks counts 0 there."""
    width = max(counts.shape[1] for counts in histograms)
    wide = [csr_array((h.data, h.indices, h.indptr), shape=(h.shape[0], width)) for h in histograms]
    stacked: csr_array = vstack(wide, format="csr")
    return stacked


def bin_luminance(picture: NormalizedImage, bins: int) -> NDArray[np.int32]:
    """(\\*shape,) bin of each pixel's luminance: the histogram of Orbanz and Buhmann (2008) with 8 of them."""
    return np.asarray(np.minimum(picture.luminance * (bins / 100), bins - 1), dtype=np.int32)


def count_colour_words(picture: NormalizedImage, sites: Sites, book: Codebook) -> csr_array:
    """(n, words) int64 colour words of each site; the codebook decides in which colours."""
    return smear_counts(make_histograms(book.words(to_codebook_space(picture, book.space)), sites), book)


def smear_counts(counts: csr_array, book: Codebook) -> csr_array:
    """Histograms (n, words) in which each pixel counts for all words that are near its own, as the codebook says.

    The words of photographs lie so far apart that two of them are different colours. Those of one image may be shades
    of a grey, as may be those of a pale one that has been stretched or of one of few colours, and a ramp would have
    other words at either end as if it were two surfaces.
    """
    if book.softness < LEAST_SOFTNESS:
        return counts
    centres = book.centres[: counts.shape[1]].astype(np.float64)
    square = np.square(centres[:, np.newaxis] - centres).sum(axis=-1)
    near = np.exp(-square / (2 * book.softness**2))
    near /= near.sum(axis=1, keepdims=True)
    # Some sites at a time: in between each has a number for every word.
    parts = (counts[first : first + SOME_SITES] @ near for first in range(0, counts.shape[0], SOME_SITES))
    return vstack([csr_array(np.rint(SOFT_COUNTS * part).astype(np.int64)) for part in parts], format="csr")


def choose_colour_codebook(
    pictures: Sequence[NormalizedImage],
    inside: Sequence[NDArray[np.bool_]],
    settings: Settings,
    codebook: Codebook | None,
) -> Codebook:
    """The words for an image, of which these pictures are parts: given, shipped, or learnt from the pixels `inside`.

    Those of channels are soft, whoever chose them, and by `word_scale` unless they say otherwise; those of colours, if
    they are this image's own because these are pale or few.
    """
    rgb, named = pictures[0].rgb, settings.codebook
    if codebook is None and named not in ("auto", "shipped", "image"):
        codebook = Codebook.load(named)
    space = "channels" if not rgb else settings.colours if codebook is None else codebook.space
    if codebook is None:
        if named == "shipped" and not rgb:
            raise InputError(
                "codebook must be image, auto or a saved codebook for an image that is not RGB, not shipped"
            )
        if named == "shipped" or (named == "auto" and not needs_own_codebook(pictures, settings)):
            codebook = load_builtin_codebook(space)
    if codebook is None:
        values = [to_codebook_space(part, space)[where] for part, where in zip(pictures, inside, strict=True)]
        codebook = Codebook.learn(_one_array(values), settings.words, space)
        softness = settings.word_scale
        if rgb:
            reach = float(np.linalg.norm(np.ptp(codebook.centres, axis=0)))  # as far as 100 from dark to bright
            least = ROUNDED * max(part.rounding for part in pictures)
            softness = max(softness * max(PALE, reach / 100), least) if named == "auto" else 0.0
        codebook = replace(codebook.thinned(softness / WORDS_A_SCALE), softness=softness)
    if codebook.space != space:
        raise InputError(f"the codebook has words in {codebook.space!r}, but the image is in {space!r}")
    return codebook if rgb or codebook.softness > 0 else replace(codebook, softness=settings.word_scale)


def needs_own_codebook(pictures: Sequence[NormalizedImage], settings: Settings) -> bool:
    """Whether an image has words of its own where nobody has chosen any: of channels, of pale or of few colours."""
    first = pictures[0]
    if not first.rgb:
        return True
    if settings.colours != "lab" or settings.word_scale == 0:
        return False
    return first.pale or has_few_colours(pictures)


def has_few_colours(pictures: Sequence[NormalizedImage]) -> bool:
    """Whether next to nothing is left of how colours vary when each is the nearest of four: no photograph is so plain.

    The words of photographs would part a colour that changes a little across such an image. Noise does not count.
    """
    share = -(-SOME_PIXELS // len(pictures))
    rows = [picture.channels.reshape(-1, 3)[:: 1 + picture.channels.size // (3 * share)] for picture in pictures]
    values = np.concatenate(rows)
    parts = [picture.channels[part] for picture in pictures for part in spread_tiles(picture.shape, SOME_TILES, TILE)]
    noise = len(values) * float(np.square(estimate_noise(parts)).sum())
    total = float(np.square(values - values.mean(axis=0, dtype=np.float64)).sum())
    few = Codebook.learn([values], FEW, "lab")
    left = float(np.square(values - few.centres[few.words(values)], dtype=np.float64).sum())
    return noise < total / 2 and left - noise <= FEW_LEFT * (total - noise)


def to_codebook_space(picture: NormalizedImage, space: str) -> ChannelImage:
    """(\\*shape, C) float32: the picture's own channels, or for ``hsv`` the cylinder (S cos H, S sin H, V / 2).

    Value counts half, because shading changes it within an object more than it changes the hue.
    """
    if space != "hsv":
        if picture.rgb and space != "lab":
            raise InputError(f"the codebook has words in {space!r}, but the image is in 'lab'")
        return picture.channels
    hue, saturation, value = np.moveaxis(color.rgb2hsv(color.lab2rgb(picture.channels)), -1, 0)
    angle = 2 * np.pi * hue
    return np.stack((saturation * np.cos(angle), saturation * np.sin(angle), VALUE_WEIGHT * value), axis=-1).astype(
        np.float32
    )


def to_lab(picture: NormalizedImage) -> ChannelImage:
    """(\\*shape, 3) float32 Lab of any picture, for the words of photographs; one that is not RGB is grey."""
    if picture.rgb:
        return picture.channels
    grey = np.zeros((*picture.shape, 3), np.float32)
    grey[..., 0] = picture.luminance
    return grey


def assign_texture_words(
    picture: NormalizedImage, sites: Sites, count: int, codebook: Codebook | None = None
) -> NDArray[np.int32]:
    """(\\*shape,) texture word of each pixel: given words; shipped ones if 32 are asked for in 2D; or learnt here."""
    values = compute_texture(picture.luminance)
    book = choose_texture_codebook([values], [sites > 0], count) if codebook is None else codebook
    return book.words(values)


def choose_texture_codebook(
    values: Sequence[ChannelImage], inside: Sequence[NDArray[np.bool_]], count: int
) -> Codebook:
    """The texture words for an image, of which these filter responses are parts."""
    words = load_builtin_codebook("texture")
    if count == len(words.centres) and values[0].ndim == 3:
        return words
    pixels = [part[where] for part, where in zip(values, inside, strict=True)]
    return Codebook.learn(_one_array(pixels), count, "texture")


def _one_array(parts: Sequence[ChannelImage]) -> list[ChannelImage]:
    """Parts of one image as one array, so that each pixel counts the same."""
    return [parts[0] if len(parts) == 1 else np.concatenate(parts)]
