"""Picture and sites -> what the likelihood sees of each site: histograms of words, or moments of channels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from napari_gsw.core.array_types import ChannelImage, Float64Array, Int32Array, Int64Array, Sites
from napari_gsw.core.features.codebook import Codebook, load_builtin_codebook
from napari_gsw.core.features.network import NetworkMaps, load_network
from napari_gsw.core.features.texture import compute_texture
from napari_gsw.core.features.words import (
    assign_texture_words,
    bin_luminance,
    choose_colour_codebook,
    choose_texture_codebook,
    count_colour_words,
    make_histograms,
    needs_own_codebook,
    stack_histograms,
    to_lab,
)
from napari_gsw.core.image.normalized_image import NormalizedImage
from napari_gsw.core.likelihood.conjugate import Gaussian
from napari_gsw.core.settings import Settings
from napari_gsw.core.sites.adjacency_kernels import sum_over_faces
from napari_gsw.core.sites.site_values import mean_per_site

# A channel with a smaller share of the largest variance says nothing.
LEAST_VARIANCE = 1e-6


class SiteFeatures(Protocol):
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
    def colour(self) -> csr_array:
        """(n, words) of the words that the settings ask for."""
        ...

    @property
    def texture(self) -> csr_array:
        """(n, words) of texture words."""
        ...

    @property
    def photo_colour(self) -> csr_array:
        """(n, 120) of the shipped Lab words, whatever the settings ask for; a grey image is a photograph in grey."""
        ...

    @property
    def photo_texture(self) -> csr_array:
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
    def squares(self) -> Float64Array:
        """(n, C) mean square of each channel."""
        ...

    @property
    def middles(self) -> Float64Array:
        """(n, axes) mean position, from 0 to 1."""
        ...

    @property
    def has_network(self) -> bool:
        """Whether there is a network to look at the image."""
        ...

    @property
    def places(self) -> Float64Array:
        """(n, 8) mean places of the sites, by the network."""
        ...

    def boundary_sums(self, edges: Int32Array) -> Float64Array:
        """(m,) probability of a boundary, by the network, summed over the faces between touching sites (m, 2)."""
        ...


class ImageFeatures:
    """The sites of an image in memory; each property is made when it is asked for, and once.

    Attributes
    ----------
    picture, sites : the converted image, and (\\*shape,) its sites 1..n, 0 where there is none.
    codebook : colour words to use instead of those that ``settings.codebook`` names.
    texture_book : texture words to use instead of those that ``settings.texture_words`` asks for.
    """

    def __init__(
        self,
        picture: NormalizedImage,
        sites: Sites,
        settings: Settings,
        codebook: Codebook | None = None,
        texture_book: Codebook | None = None,
    ) -> None:
        self.picture, self.sites, self.settings = picture, sites, settings
        self.codebook, self.texture_book = codebook, texture_book

    @property
    def rgb(self) -> bool:
        return self.picture.rgb

    @property
    def ndim(self) -> int:
        return self.sites.ndim

    @cached_property
    def colour(self) -> csr_array:
        if self.settings.likelihood == "luminance":
            return make_histograms(bin_luminance(self.picture, self.settings.bins), self.sites)
        return count_colour_words(self.picture, self.sites, self.book)

    @cached_property
    def book(self) -> Codebook:
        """The colour words."""
        return choose_colour_codebook([self.picture], [self.sites > 0], self.settings, self.codebook)

    @cached_property
    def texture(self) -> csr_array:
        words = assign_texture_words(self.picture, self.sites, self.settings.texture_words, self.texture_book)
        return make_histograms(words, self.sites)

    @cached_property
    def photo_colour(self) -> csr_array:
        book = load_builtin_codebook("lab")
        if self.settings.likelihood == "words" and self.book is book:
            return self.colour
        return make_histograms(book.words(to_lab(self.picture)), self.sites, len(book.centres))

    @cached_property
    def photo_texture(self) -> csr_array:
        count = len(load_builtin_codebook("texture").centres)
        if self.settings.texture_words == count:
            return self.texture
        return make_histograms(assign_texture_words(self.picture, self.sites, count), self.sites, count)

    @cached_property
    def channels(self) -> Gaussian:
        inside = self.sites > 0
        pixels = self.picture.channels[inside]
        pixels = pixels[:, find_informative_channels(pixels.astype(np.float64).var(axis=0))]
        if self.settings.position > 0:
            pixels = np.concatenate((pixels, make_positions(self.sites.shape)[inside]), axis=1)
        return make_gaussian(pixels, self.sites[inside], self.settings)

    @cached_property
    def place(self) -> Gaussian:
        inside = self.sites > 0
        worth = self.settings.replace(evidence=self.settings.position)
        return make_gaussian(make_positions(self.sites.shape)[inside], self.sites[inside], worth)

    @cached_property
    def squares(self) -> Float64Array:
        return mean_per_site(np.square(self.picture.channels.astype(np.float64)), self.sites)

    @cached_property
    def middles(self) -> Float64Array:
        return mean_per_site(make_positions(self.sites.shape), self.sites)

    @property
    def has_network(self) -> bool:
        return load_network(self.settings.network, "photo") is not None

    @cached_property
    def network_maps(self) -> NetworkMaps:
        """What the network of the settings says of every pixel."""
        network = load_network(self.settings.network, "photo")
        assert network is not None
        return network.predict(to_lab(self.picture))

    @cached_property
    def places(self) -> Float64Array:
        return mean_per_site(self.network_maps.embedding, self.sites)

    def boundary_sums(self, edges: Int32Array) -> Float64Array:
        return sum_over_faces(self.network_maps.fine[..., 0], self.sites, edges)


def find_informative_channels(variance: Float64Array) -> NDArray[np.bool_]:
    """(channels,) which channels tell something, by their variance (channels,).

    A grey picture stored as RGB has two of rounding errors, which would count as much as the others.
    """
    return np.asarray(variance >= LEAST_VARIANCE * variance.max())


def make_gaussian(values: ChannelImage, sites: NDArray[np.int32], settings: Settings) -> Gaussian:
    """Values (pixels, channels) of pixels that lie in sites (pixels,) 1..n, with the prior of the settings."""
    return Gaussian.from_pixels(
        values,
        sites - 1,
        int(sites.max()),
        evidence=settings.evidence,
        kappa=settings.gauss_kappa,
        shape=settings.gauss_shape,
        spread=settings.gauss_spread,
    )


def make_positions(shape: tuple[int, ...]) -> ChannelImage:
    """(\\*shape, axes) where a pixel is, from 0 to 1 along each axis."""
    axes = [np.linspace(0, 1, length, dtype=np.float32) for length in shape]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)


class SharedFeatures:
    """The sites of several images as those of one: all sites of the first image, then those of the second, and so on.

    See :class:`napari_gsw.core.features.site_features.SiteFeatures` for what it offers.

    Attributes
    ----------
    parts : the features of each image by itself, in common words.
    first : (images + 1,) number of sites before each image, and of all.
    """

    def __init__(
        self,
        pictures: Sequence[NormalizedImage],
        sites: Sequence[Sites],
        settings: Settings,
        codebook: Codebook | None = None,
    ) -> None:
        colours, textures = choose_shared_codebooks(pictures, sites, settings, codebook)
        self.settings = settings
        self.parts = [ImageFeatures(p, s, settings, colours, textures) for p, s in zip(pictures, sites, strict=True)]
        self.first: Int64Array = np.array([0, *accumulate(int(s.max()) for s in sites)])

    @property
    def rgb(self) -> bool:
        return self.parts[0].rgb

    @property
    def ndim(self) -> int:
        return self.parts[0].ndim

    @cached_property
    def colour(self) -> csr_array:
        return stack_histograms([part.colour for part in self.parts])

    @cached_property
    def texture(self) -> csr_array:
        return stack_histograms([part.texture for part in self.parts])

    @property
    def photo_colour(self) -> csr_array:
        return stack_histograms([part.photo_colour for part in self.parts])

    @property
    def photo_texture(self) -> csr_array:
        return stack_histograms([part.photo_texture for part in self.parts])

    @cached_property
    def channels(self) -> Gaussian:
        pixels = np.concatenate([part.picture.channels[part.sites > 0] for part in self.parts])
        pixels = pixels[:, find_informative_channels(pixels.astype(np.float64).var(axis=0))]
        if self.settings.position > 0:
            pixels = np.concatenate((pixels, self._places()), axis=1)
        return make_gaussian(pixels, self._numbers(), self.settings)

    @cached_property
    def place(self) -> Gaussian:
        return make_gaussian(self._places(), self._numbers(), self.settings.replace(evidence=self.settings.position))

    @cached_property
    def squares(self) -> Float64Array:
        return np.concatenate([part.squares for part in self.parts])

    @cached_property
    def middles(self) -> Float64Array:
        return np.concatenate([part.middles for part in self.parts])

    @property
    def has_network(self) -> bool:
        return self.parts[0].has_network

    @cached_property
    def places(self) -> Float64Array:
        return np.concatenate([part.places for part in self.parts])

    def boundary_sums(self, edges: Int32Array) -> Float64Array:
        image = np.searchsorted(self.first, edges[:, 0], side="right") - 1
        sums = np.zeros(len(edges))
        for number, part in enumerate(self.parts):
            own = image == number
            sums[own] = part.boundary_sums(edges[own] - np.int32(self.first[number]))
        return sums

    def _numbers(self) -> Sites:
        """(pixels,) the site of every pixel that has one, 1..n."""
        return np.concatenate(
            [p.sites[p.sites > 0] + np.int32(f) for p, f in zip(self.parts, self.first, strict=False)]
        )

    def _places(self) -> ChannelImage:
        """(pixels, axes) where in its own image every pixel of a site is, from 0 to 1 along each axis."""
        return np.concatenate([make_positions(part.sites.shape)[part.sites > 0] for part in self.parts])


def choose_shared_codebooks(
    pictures: Sequence[NormalizedImage], sites: Sequence[Sites], settings: Settings, codebook: Codebook | None
) -> tuple[Codebook | None, Codebook | None]:
    """Colour and texture words for all images, learnt from the pixels of all of them; None where none are learnt.

    Words that were given or that come with the package are the same for every image anyway.
    """
    inside = [s > 0 for s in sites]
    learns = settings.codebook == "image" or (settings.codebook == "auto" and needs_own_codebook(pictures, settings))
    textures = None
    if codebook is None and learns and settings.likelihood == "words":
        codebook = choose_colour_codebook(pictures, inside, settings, None)
    if settings.texture_words > 0:
        textures = choose_texture_codebook(
            [compute_texture(p.luminance) for p in pictures], inside, settings.texture_words
        )
    return codebook, textures
