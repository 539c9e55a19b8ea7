"""Features of the sites of several images, in words and scales that mean the same in all of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate

import numpy as np

from napari_gsw.core.arrays import Floats, Ints, Longs, Pixels, Sites
from napari_gsw.core.evidence.codebook import Codebook
from napari_gsw.core.evidence.likelihoods import Gaussian
from napari_gsw.core.evidence.site_features import ImageFeatures, gaussian_of, positions, telling
from napari_gsw.core.evidence.words import colour_codebook, has_own_words, texture, texture_codebook
from napari_gsw.core.image.picture import Picture
from napari_gsw.core.settings import Settings
from napari_gsw.core.sparse_rows import SparseRows, below


class SharedFeatures:
    """The sites of several images as those of one: all sites of the first image, then those of the second, and so on.

    See :class:`napari_gsw.core.evidence.site_features.SiteFeatures` for what it offers.

    Attributes
    ----------
    parts : the features of each image by itself, in common words.
    first : (images + 1,) number of sites before each image, and of all.
    """

    def __init__(
        self, pictures: Sequence[Picture], sites: Sequence[Sites], settings: Settings, codebook: Codebook | None = None
    ) -> None:
        colours, textures = common_books(pictures, sites, settings, codebook)
        self.settings = settings
        self.parts = [ImageFeatures(p, s, settings, colours, textures) for p, s in zip(pictures, sites, strict=True)]
        self.first: Longs = np.array([0, *accumulate(int(s.max()) for s in sites)])

    @property
    def rgb(self) -> bool:
        return self.parts[0].rgb

    @property
    def ndim(self) -> int:
        return self.parts[0].ndim

    @cached_property
    def colour(self) -> SparseRows:
        return below([part.colour for part in self.parts])

    @cached_property
    def texture(self) -> SparseRows:
        return below([part.texture for part in self.parts])

    @property
    def photo_colour(self) -> SparseRows:
        return below([part.photo_colour for part in self.parts])

    @property
    def photo_texture(self) -> SparseRows:
        return below([part.photo_texture for part in self.parts])

    @cached_property
    def channels(self) -> Gaussian:
        pixels = np.concatenate([part.picture.channels[part.sites > 0] for part in self.parts])
        pixels = pixels[:, telling(pixels.astype(np.float64).var(axis=0))]
        if self.settings.position > 0:
            pixels = np.concatenate((pixels, self._places()), axis=1)
        return gaussian_of(pixels, self._numbers(), self.settings)

    @cached_property
    def place(self) -> Gaussian:
        return gaussian_of(self._places(), self._numbers(), self.settings.replace(evidence=self.settings.position))

    @cached_property
    def squares(self) -> Floats:
        return np.concatenate([part.squares for part in self.parts])

    @cached_property
    def middles(self) -> Floats:
        return np.concatenate([part.middles for part in self.parts])

    @property
    def has_network(self) -> bool:
        return self.parts[0].has_network

    @cached_property
    def places(self) -> Floats:
        return np.concatenate([part.places for part in self.parts])

    def drawn_sums(self, edges: Ints) -> Floats:
        image = np.searchsorted(self.first, edges[:, 0], side="right") - 1
        sums = np.zeros(len(edges))
        for number, part in enumerate(self.parts):
            own = image == number
            sums[own] = part.drawn_sums(edges[own] - np.int32(self.first[number]))
        return sums

    def _numbers(self) -> Sites:
        """(pixels,) the site of every pixel that has one, 1..n."""
        return np.concatenate(
            [p.sites[p.sites > 0] + np.int32(f) for p, f in zip(self.parts, self.first, strict=False)]
        )

    def _places(self) -> Pixels:
        """(pixels, axes) where in its own image every pixel of a site is, from 0 to 1 along each axis."""
        return np.concatenate([positions(part.sites.shape)[part.sites > 0] for part in self.parts])


def common_books(
    pictures: Sequence[Picture], sites: Sequence[Sites], settings: Settings, codebook: Codebook | None
) -> tuple[Codebook | None, Codebook | None]:
    """Colour and texture words for all images, learnt from the pixels of all of them; None where none are learnt.

    Words that were given or that come with the package are the same for every image anyway.
    """
    inside = [s > 0 for s in sites]
    learns = settings.codebook == "image" or (settings.codebook == "auto" and has_own_words(pictures, settings))
    textures = None
    if codebook is None and learns and settings.likelihood == "words":
        codebook = colour_codebook(pictures, inside, settings, None)
    if settings.texture_words > 0:
        textures = texture_codebook([texture(p.luminance) for p in pictures], inside, settings.texture_words)
    return codebook, textures
