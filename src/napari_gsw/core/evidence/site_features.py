"""Picture and sites -> what the likelihood sees of each site: histograms of words, or moments of channels."""

from __future__ import annotations

from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.arrays import Floats, Ints, Pixels, Sites
from napari_gsw.core.evidence.codebook import Codebook, shipped
from napari_gsw.core.evidence.likelihoods import Gaussian
from napari_gsw.core.evidence.network import NetworkMaps, network_named
from napari_gsw.core.evidence.words import (
    colour_codebook,
    colour_histogram,
    histogram,
    lab_colours,
    luminance_words,
    texture_words,
)
from napari_gsw.core.image.picture import Picture
from napari_gsw.core.settings import Settings
from napari_gsw.core.sites.face_sums import sums_over_faces
from napari_gsw.core.sites.per_site import means_over
from napari_gsw.core.sparse_rows import SparseRows

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
    def colour(self) -> SparseRows:
        """(n, words) of the words that the settings ask for."""
        ...

    @property
    def texture(self) -> SparseRows:
        """(n, words) of texture words."""
        ...

    @property
    def photo_colour(self) -> SparseRows:
        """(n, 120) of the shipped Lab words, whatever the settings ask for; a grey image is a photograph in grey."""
        ...

    @property
    def photo_texture(self) -> SparseRows:
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

    @property
    def has_network(self) -> bool:
        """Whether there is a network to look at the image."""
        ...

    @property
    def places(self) -> Floats:
        """(n, 8) mean places of the sites, by the network."""
        ...

    def drawn_sums(self, edges: Ints) -> Floats:
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
        picture: Picture,
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
    def colour(self) -> SparseRows:
        if self.settings.likelihood == "luminance":
            return histogram(luminance_words(self.picture, self.settings.bins), self.sites)
        return colour_histogram(self.picture, self.sites, self.book)

    @cached_property
    def book(self) -> Codebook:
        """The colour words."""
        return colour_codebook([self.picture], [self.sites > 0], self.settings, self.codebook)

    @cached_property
    def texture(self) -> SparseRows:
        words = texture_words(self.picture, self.sites, self.settings.texture_words, self.texture_book)
        return histogram(words, self.sites)

    @cached_property
    def photo_colour(self) -> SparseRows:
        book = shipped("lab")
        if self.settings.likelihood == "words" and self.book is book:
            return self.colour
        return histogram(book.words(lab_colours(self.picture)), self.sites, len(book.centres))

    @cached_property
    def photo_texture(self) -> SparseRows:
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
        return gaussian_of(pixels, self.sites[inside], self.settings)

    @cached_property
    def place(self) -> Gaussian:
        inside = self.sites > 0
        worth = self.settings.replace(evidence=self.settings.position)
        return gaussian_of(positions(self.sites.shape)[inside], self.sites[inside], worth)

    @cached_property
    def squares(self) -> Floats:
        return means_over(np.square(self.picture.channels.astype(np.float64)), self.sites)

    @cached_property
    def middles(self) -> Floats:
        return means_over(positions(self.sites.shape), self.sites)

    @property
    def has_network(self) -> bool:
        return network_named(self.settings.network, "photo") is not None

    @cached_property
    def network_maps(self) -> NetworkMaps:
        """What the network of the settings says of every pixel."""
        network = network_named(self.settings.network, "photo")
        assert network is not None
        return network.maps(lab_colours(self.picture))

    @cached_property
    def places(self) -> Floats:
        return means_over(self.network_maps.places, self.sites)

    def drawn_sums(self, edges: Ints) -> Floats:
        return sums_over_faces(self.network_maps.fine[..., 0], self.sites, edges)


def telling(variance: Floats) -> NDArray[np.bool_]:
    """(channels,) which channels tell something, by their variance (channels,).

    A grey picture stored as RGB has two of rounding errors, which would count as much as the others.
    """
    return np.asarray(variance >= LEAST_VARIANCE * variance.max())


def gaussian_of(values: Pixels, sites: NDArray[np.int32], settings: Settings) -> Gaussian:
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


def positions(shape: tuple[int, ...]) -> Pixels:
    """(\\*shape, axes) where a pixel is, from 0 to 1 along each axis."""
    axes = [np.linspace(0, 1, length, dtype=np.float32) for length in shape]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
