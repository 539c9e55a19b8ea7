"""Picture and sites -> what the likelihood sees of each site: histograms of words, or moments of channels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from skimage.color import lab2rgb, rgb2hsv

from napari_gsw.core.errors import InputError
from napari_gsw.core.evidence.codebook import Codebook, shipped
from napari_gsw.core.evidence.likelihoods import DirichletMultinomial, Gaussian, Likelihood
from napari_gsw.core.evidence.texture_kernels import responses
from napari_gsw.core.evidence.word_kernels import counted, sparse_rows
from napari_gsw.core.graph.random_walk import smoothed_counts, walk
from napari_gsw.core.graph.region_graph import RegionGraph, means_over
from napari_gsw.core.image.picture import Picture, Pixels
from napari_gsw.core.settings import Settings
from napari_gsw.core.sites.superpixels import Sites

Floats = NDArray[np.float64]

# Widths in pixels of the texture filters.
TEXTURE_SCALES = (1.0, 2.0, 4.0)
# Weight of value beside saturation where colours are told apart by hue.
VALUE_WEIGHT = 0.5
# Counts are made in a table of sites and words unless that has more entries than this for each pixel.
DENSE = 4
# Share of the largest channel's variance below which a channel is taken for constant.
LEAST_VARIANCE = 1e-6


class Described(Protocol):
    """What there is to know about the n sites of an image, however large: histograms of words, channels, and place."""

    @property
    def settings(self) -> Settings:
        """Which of all that is wanted."""
        ...

    @property
    def rgb(self) -> bool:
        """Whether the channels are Lab."""
        ...

    @property
    def ndim(self) -> int:
        """Axes of the image's space."""
        ...

    @property
    def colour(self) -> sparse.csr_array:
        """(n, words) of the words that the settings ask for."""
        ...

    @property
    def texture(self) -> sparse.csr_array:
        """(n, words) of texture words."""
        ...

    @property
    def photo_colour(self) -> sparse.csr_array:
        """(n, 120) of the shipped Lab words, whatever the settings ask for; a grey image is a photograph in grey."""
        ...

    @property
    def photo_texture(self) -> sparse.csr_array:
        """(n, 32) of the shipped texture words."""
        ...

    @property
    def channels(self) -> Gaussian:
        """The picture's channels, and where its pixels are if that is to count."""
        ...

    @property
    def place(self) -> Gaussian:
        """Where the pixels are, worth what ``settings.position`` says."""
        ...

    @property
    def squares(self) -> Floats:
        """(n, C) mean square of each channel."""
        ...

    @property
    def middles(self) -> Floats:
        """(n, axes) mean position, from 0 to 1."""
        ...


class SiteWords:
    """The sites of an image in memory; each property is made when it is asked for, and once.

    Attributes
    ----------
    picture, sites : the converted image, and (\\*shape,) its sites 1..n, 0 where there is none.
    codebook : colour words to use instead of those that ``settings.codebook`` names.
    """

    def __init__(self, picture: Picture, sites: Sites, settings: Settings, codebook: Codebook | None = None) -> None:
        self.picture, self.sites, self.settings, self.codebook = picture, sites, settings, codebook

    @property
    def rgb(self) -> bool:
        return self.picture.rgb

    @property
    def ndim(self) -> int:
        return self.sites.ndim

    @cached_property
    def colour(self) -> sparse.csr_array:
        if self.settings.likelihood == "luminance":
            return histogram(luminance_words(self.picture, self.settings.bins), self.sites)
        return histogram(colour_words(self.picture, self.sites, self.settings, self.codebook), self.sites)

    @cached_property
    def texture(self) -> sparse.csr_array:
        return histogram(texture_words(self.picture, self.sites, self.settings.texture_words), self.sites)

    @cached_property
    def photo_colour(self) -> sparse.csr_array:
        s = self.settings
        ours = (s.likelihood, s.colours, self.codebook) == ("words", "lab", None) and s.codebook in ("auto", "shipped")
        if ours and self.picture.rgb:
            return self.colour
        words = shipped("lab")
        if self.picture.rgb:
            return histogram(words.words(self.picture.channels), self.sites, len(words.centres))
        grey = np.zeros((*self.picture.shape, 3), np.float32)
        grey[..., 0] = self.picture.luminance
        return histogram(words.words(grey), self.sites, len(words.centres))

    @cached_property
    def photo_texture(self) -> sparse.csr_array:
        count = len(shipped("texture").centres)
        if self.settings.texture_words == count:
            return self.texture
        return histogram(texture_words(self.picture, self.sites, count), self.sites, count)

    @cached_property
    def channels(self) -> Gaussian:
        inside = self.sites > 0
        pixels = self.picture.channels[inside]
        pixels = pixels[:, telling(pixels.astype(np.float64).var(axis=0))]
        if self.settings.position > 0:
            pixels = np.concatenate((pixels, positions(self.sites.shape)[inside]), axis=1)
        return _gaussian(pixels, self.sites[inside], self.settings)

    @cached_property
    def place(self) -> Gaussian:
        inside = self.sites > 0
        worth = self.settings.replace(evidence=self.settings.position)
        return _gaussian(positions(self.sites.shape)[inside], self.sites[inside], worth)

    @cached_property
    def squares(self) -> Floats:
        return means_over(np.square(self.picture.channels.astype(np.float64)), self.sites)

    @cached_property
    def middles(self) -> Floats:
        return means_over(positions(self.sites.shape), self.sites)


def likelihoods(words: Described, graph: RegionGraph) -> tuple[Likelihood, ...]:
    """The blocks of the likelihood that the settings ask for, with one row for each site."""
    settings = words.settings
    histograms, blocks = [], []
    if settings.likelihood == "gaussian":
        blocks.append(words.channels)
    else:
        histograms.append((words.colour, settings.phi, settings.evidence))
        if settings.position > 0:
            blocks.append(words.place)
    if settings.texture_words > 0:
        histograms.append((words.texture, settings.texture_phi, settings.texture_evidence))
    if settings.graph_passes > 0:
        steps = walk(graph, settings.graph_scale)
        histograms = [(smoothed_counts(h, steps, settings.graph_passes), phi, s) for h, phi, s in histograms]
    return (*(DirichletMultinomial(h, phi, s) for h, phi, s in histograms), *blocks)


def telling(variance: Floats) -> NDArray[np.bool_]:
    """Which channels tell something; a grey picture stored as RGB has two of rounding errors, which would count too."""
    return np.asarray(variance >= LEAST_VARIANCE * variance.max())


def _gaussian(values: Pixels, sites: NDArray[np.int32], settings: Settings) -> Gaussian:
    return Gaussian.from_pixels(
        values,
        sites - 1,
        int(sites.max()),
        evidence=settings.evidence,
        kappa=settings.gauss_kappa,
        shape=settings.gauss_shape,
        spread=settings.gauss_spread,
    )


def positions(shape: tuple[int, ...]) -> Pixels:
    """(\\*shape, axes) where a pixel is, from 0 to 1 along each axis."""
    axes = [np.linspace(0, 1, length, dtype=np.float32) for length in shape]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)


def histogram(words: NDArray[np.int32], sites: Sites, count: int | None = None) -> sparse.csr_array:
    """Pixels of each word in each site: (n_sites, n_words) counts; of `count` words, or as many as occur."""
    shape = (int(sites.max()), count or int(words.max()) + 1)
    flat = np.ascontiguousarray(sites, dtype=np.int32).ravel()
    if shape[0] * shape[1] <= DENSE * flat.size:
        table = np.zeros(shape, np.int32)
        used = counted(np.ascontiguousarray(words, dtype=np.int32).ravel(), flat, table)
        return sparse.csr_array(sparse_rows(table, used), shape=shape)
    inside = sites > 0
    place = (sites[inside] - 1, words[inside])
    return sparse.coo_array((np.ones(len(place[0]), np.int64), place), shape=shape).tocsr()


def luminance_words(picture: Picture, bins: int) -> NDArray[np.int32]:
    """Bin of each pixel's luminance: the histogram of Orbanz and Buhmann (2008) with 8 of them."""
    return np.asarray(np.minimum(picture.luminance * (bins / 100), bins - 1), dtype=np.int32)


def colour_words(picture: Picture, sites: Sites, settings: Settings, codebook: Codebook | None) -> NDArray[np.int32]:
    """Colour word of each pixel; a codebook of the user's own decides in which colours."""
    book = colour_codebook([picture], [sites > 0], settings, codebook)
    return book.words(colours(picture, book.space))


def colour_codebook(
    pictures: Sequence[Picture], inside: Sequence[NDArray[np.bool_]], settings: Settings, codebook: Codebook | None
) -> Codebook:
    """The words for an image, of which these pictures are parts: given, shipped, or learnt from the pixels `inside`."""
    rgb, named = pictures[0].rgb, settings.codebook
    if codebook is None and named not in ("auto", "shipped", "image"):
        codebook = Codebook.load(named)
    space = "channels" if not rgb else settings.colours if codebook is None else codebook.space
    if codebook is None:
        if named == "shipped" and not rgb:
            raise InputError(
                "codebook must be image, auto or a saved codebook for an image that is not RGB, not shipped"
            )
        if rgb and named != "image":
            codebook = shipped(space)
        else:
            values = [colours(part, space)[where] for part, where in zip(pictures, inside, strict=True)]
            codebook = Codebook.learn(_joined(values), settings.words, space)
    if codebook.space != space:
        raise InputError(f"the codebook has words in {codebook.space!r}, but the image is in {space!r}")
    return codebook


def colours(picture: Picture, space: str) -> Pixels:
    """(\\*shape, C) float32: the picture's own channels, or for ``hsv`` the cylinder (S cos H, S sin H, V / 2).

    Value counts half, because shading changes it within an object more than it changes the hue.
    """
    if space != "hsv":
        if picture.rgb and space != "lab":
            raise InputError(f"the codebook has words in {space!r}, but the image is in 'lab'")
        return picture.channels
    hue, saturation, value = np.moveaxis(rgb2hsv(lab2rgb(picture.channels)), -1, 0)
    angle = 2 * np.pi * hue
    return np.stack((saturation * np.cos(angle), saturation * np.sin(angle), VALUE_WEIGHT * value), axis=-1).astype(
        np.float32
    )


def texture_words(picture: Picture, sites: Sites, count: int) -> NDArray[np.int32]:
    """Texture word of each pixel: shipped words when 32 are asked for in 2D, otherwise learnt from the image."""
    values = texture(picture.luminance)
    return texture_codebook([values], [sites > 0], count).words(values)


def texture_codebook(values: Sequence[Pixels], inside: Sequence[NDArray[np.bool_]], count: int) -> Codebook:
    """The texture words for an image, of which these filter responses are parts."""
    words = shipped("texture")
    if count == len(words.centres) and values[0].ndim == 3:
        return words
    return Codebook.learn(_joined([part[where] for part, where in zip(values, inside, strict=True)]), count, "texture")


def _joined(parts: Sequence[Pixels]) -> list[Pixels]:
    """Parts of one image as one array, so that each pixel counts the same."""
    return [parts[0] if len(parts) == 1 else np.concatenate(parts)]


def texture(light: Pixels) -> Pixels:
    """Responses of a rotation-invariant filter bank: (\\*shape,) -> (\\*shape, 2 * scales).

    At each scale the gradient magnitude and the Laplacian of the luminance, normalised for scale and compressed by a
    logarithm, so that a strong edge does not outweigh every weak texture.
    """
    space = np.ascontiguousarray(light, dtype=np.float32).reshape((1,) * (3 - light.ndim) + light.shape)
    out = np.empty((*space.shape, 2 * len(TEXTURE_SCALES)), np.float32)
    for number, scale in enumerate(TEXTURE_SCALES):
        responses(space, light.ndim == 3, derivatives(scale), scale, out, 2 * number)
    return out.reshape(*light.shape, out.shape[-1])


@cache
def derivatives(scale: float) -> Pixels:
    """(3, radius + 1) a Gaussian of unit sum and its first and second derivative, at 0, 1, ... pixels.

    It ends at four times its width, and then at an even number of pixels.
    """
    radius = int(4 * scale + 0.5)
    x = np.arange(radius + 1 + radius % 2)
    bell = np.where(x <= radius, np.exp(-0.5 * (x / scale) ** 2), 0)
    bell /= 2 * bell.sum() - 1
    return np.stack((bell, x / scale**2 * bell, (x**2 / scale**4 - 1 / scale**2) * bell)).astype(np.float32)
