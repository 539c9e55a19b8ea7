"""Features of the sites of images: histograms of visual words, moments of channels, positions, and network output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from napari_gsw.core.array_types import BoolArray, ChannelImage, Float64Array, Int32Array, Int64Array, Sites
from napari_gsw.core.errors import InputError
from napari_gsw.core.features import codebook as words
from napari_gsw.core.features.codebook import Codebook, load_builtin_codebook
from napari_gsw.core.features.input_maps import InputMaps
from napari_gsw.core.features.network import NetworkMaps, load_network
from napari_gsw.core.features.texture import compute_texture
from napari_gsw.core.image.normalized_image import NormalizedImage
from napari_gsw.core.image.spacing import Spacing
from napari_gsw.core.likelihood.conjugate import Gaussian
from napari_gsw.core.settings import Settings
from napari_gsw.core.sites.site_values import mean_per_site, sum_over_faces

# A channel with a smaller share of the largest variance has no information.
MIN_VARIANCE_SHARE = 1e-6


class ImageFeatures:
    """Features of the n sites of one or several images in memory, each computed on first use.

    The sites (*shape,) of each image are 1..n and 0 for none; the features have those of all images in turn. A given
    codebook of colour words replaces the one that ``settings.codebook`` names.
    """

    def __init__(
        self,
        images: Sequence[NormalizedImage],
        sites: Sequence[Sites],
        settings: Settings,
        codebook: Codebook | None = None,
    ) -> None:
        self.images, self.sites, self.settings, self._codebook = images, sites, settings, codebook
        self.rgb, self.ndim = images[0].rgb, sites[0].ndim
        self._masks: list[BoolArray] = [s > 0 for s in sites]
        self._sites_before: Int64Array = np.array([0, *accumulate(int(s.max()) for s in sites)])

    @cached_property
    def parts(self) -> list[ImageFeatures]:
        """The features of each image by itself, with the same colour words."""
        codebook = self.codebook if self.settings.likelihood == "words" else self._codebook
        return [ImageFeatures([i], [s], self.settings, codebook) for i, s in zip(self.images, self.sites, strict=True)]

    @cached_property
    def codebook(self) -> Codebook:
        """Colour words of all images."""
        return words.choose_colour_codebook(self.images, self._masks, self.settings, self._codebook)

    @cached_property
    def colour(self) -> csr_array:
        """Histograms of the colour words, or luminance bins, that the settings ask for."""
        if self.settings.likelihood == "luminance":
            return self._count([words.bin_luminance(image, self.settings.bins) for image in self.images])
        book = self.codebook
        found = [book.words(words.to_codebook_space(image, book.space)) for image in self.images]
        histograms = [words.make_histograms(w, sites) for w, sites in zip(found, self.sites, strict=True)]
        return words.stack_histograms([words.smear_counts(counts, book) for counts in histograms])

    @cached_property
    def texture(self) -> csr_array:
        """Histograms of the texture words that the settings ask for."""
        values = [compute_texture(image.luminance) for image in self.images]
        book = words.choose_texture_codebook(values, self._masks, self.settings.texture_words)
        return self._count([book.words(v) for v in values])

    @cached_property
    def photo_colour(self) -> csr_array:
        """(n, 120) histograms of the shipped Lab words; another image is taken as a grey photograph."""
        book = load_builtin_codebook("lab")
        if self.settings.likelihood == "words" and self.codebook is book:
            return self.colour
        return self._count([book.words(words.to_lab(image)) for image in self.images], len(book.centres))

    @cached_property
    def photo_texture(self) -> csr_array:
        """(n, 32) histograms of the shipped texture words."""
        book = load_builtin_codebook("texture")
        if self.settings.texture_words == len(book.centres):
            return self.texture
        return self._count([book.words(compute_texture(image.luminance)) for image in self.images], len(book.centres))

    @cached_property
    def channels(self) -> Gaussian:
        """Moments of the informative channels, and of the positions if these have a weight."""
        pixels = np.concatenate([image.channels[mask] for image, mask in zip(self.images, self._masks, strict=True)])
        pixels = pixels[:, find_informative_channels(pixels.astype(np.float64).var(axis=0))]
        if self.settings.position > 0:
            pixels = np.concatenate((pixels, self._positions()), axis=1)
        return self._make_gaussian(pixels, self.settings.evidence)

    @cached_property
    def position(self) -> Gaussian:
        """Moments of the positions."""
        return self._make_gaussian(self._positions(), self.settings.position)

    @cached_property
    def mean_squares(self) -> Float64Array:
        """(n, C) mean square of each channel."""
        return self._mean([np.square(image.channels.astype(np.float64)) for image in self.images])

    @cached_property
    def centroids(self) -> Float64Array:
        """(n, axes) mean position in the own image, from 0 to 1."""
        return self._mean([make_positions(sites.shape) for sites in self.sites])

    @property
    def has_network(self) -> bool:
        """True if the settings name a network that can be computed."""
        return load_network(self.settings.network, "photo") is not None

    @cached_property
    def network_maps(self) -> list[NetworkMaps]:
        """Output of the network for each image."""
        network = load_network(self.settings.network, "photo")
        assert network is not None
        return [network.predict(words.to_lab(image)) for image in self.images]

    @cached_property
    def embedding(self) -> Float64Array:
        """(n, 8) mean embedding by the network."""
        return self._mean([maps.embedding for maps in self.network_maps])

    def boundary_sums(self, edges: Int32Array) -> Float64Array:
        """Sum the network's boundary probability over the faces between touching sites (m, 2)."""
        image_index = np.searchsorted(self._sites_before, edges[:, 0], side="right") - 1
        sums = np.zeros(len(edges))
        for k, (maps, sites) in enumerate(zip(self.network_maps, self.sites, strict=True)):
            in_image = image_index == k
            local_edges = edges[in_image] - np.int32(self._sites_before[k])
            sums[in_image] = sum_over_faces(maps.fine[..., 0], sites, local_edges)
        return sums

    def _count(self, found: list[NDArray[np.int32]], n_words: int | None = None) -> csr_array:
        pairs = zip(found, self.sites, strict=True)
        return words.stack_histograms([words.make_histograms(w, sites, n_words) for w, sites in pairs])

    def _mean(self, values: Sequence[NDArray[Any]]) -> Float64Array:
        return np.concatenate([mean_per_site(v, s) for v, s in zip(values, self.sites, strict=True)])

    def _make_gaussian(self, values: ChannelImage, evidence: float | None) -> Gaussian:
        masked = zip(self.sites, self._masks, self._sites_before, strict=False)
        site = np.concatenate([sites[mask] + np.int32(before - 1) for sites, mask, before in masked])
        n = int(self._sites_before[-1])
        return Gaussian.from_pixels(values, site, n, *gaussian_options(self.settings, evidence))

    def _positions(self) -> ChannelImage:
        return np.concatenate([make_positions(mask.shape)[mask] for mask in self._masks])


@dataclass(frozen=True, eq=False)
class BlockFeatures:
    """Features of the n sites of a chunked image, as those of :class:`ImageFeatures`."""

    settings: Settings
    rgb: bool
    ndim: int
    n_pixels: NDArray[np.int64]
    sums: Float64Array  # (n, C + ndim) over pixels of each channel and of the position from 0 to 1
    squares: Float64Array
    # (n, words) histograms; None where the settings do not need them
    colour: Any = None
    texture: Any = None
    photo_colour: Any = None
    photo_texture: Any = None
    # of a network: (n, 8) mean embedding, and (m,) sums of its boundary probability along the edges of the graph
    embedding: Any = None
    edge_sums: Any = None

    @property
    def channels(self) -> Gaussian:
        """Moments of the informative channels, and of the positions if these have a weight."""
        mean = self.sums.sum(axis=0) / self.n_pixels.sum()
        variance = self.squares.sum(axis=0) / self.n_pixels.sum() - mean**2
        columns = np.full(len(mean), self.settings.position > 0)
        columns[: -self.ndim] = find_informative_channels(variance[: -self.ndim])
        return self._make_gaussian(columns, self.settings.evidence)

    @property
    def position(self) -> Gaussian:
        """Moments of the positions."""
        return self._make_gaussian(slice(-self.ndim, None), self.settings.position)

    @cached_property
    def mean_squares(self) -> Float64Array:
        """(n, C) mean square of each channel."""
        return self.squares[:, : -self.ndim] / self.n_pixels[:, np.newaxis]

    @cached_property
    def centroids(self) -> Float64Array:
        """(n, axes) mean position, from 0 to 1."""
        return self.sums[:, -self.ndim :] / self.n_pixels[:, np.newaxis]

    @property
    def has_network(self) -> bool:
        """True if there is output of a network."""
        return self.edge_sums is not None

    def boundary_sums(self, edges: Int32Array) -> Float64Array:
        """Return the network's boundary probability summed over the faces of all edges."""
        assert len(edges) == len(self.edge_sums)
        return np.asarray(self.edge_sums)

    def _make_gaussian(self, columns: Any, evidence: float | None) -> Gaussian:
        sums, squares = self.sums[:, columns], self.squares[:, columns]
        return Gaussian.from_sums(self.n_pixels, sums, squares, *gaussian_options(self.settings, evidence))


SiteFeatures = ImageFeatures | BlockFeatures


def find_informative_channels(variance: Float64Array) -> BoolArray:
    """Find the channels that have information; two of a grey image stored as RGB are rounding errors."""
    return np.asarray(variance >= MIN_VARIANCE_SHARE * variance.max())


def gaussian_options(settings: Settings, evidence: float | None) -> tuple[float | None, float, float | None, float]:
    """Return data weight, kappa, shape and spread of a likelihood of channels."""
    return evidence, settings.gauss_kappa, settings.gauss_shape, settings.gauss_spread


def make_positions(shape: tuple[int, ...]) -> ChannelImage:
    """Return the position of each pixel, (*shape, axes) from 0 to 1."""
    axes = [np.linspace(0, 1, length, dtype=np.float32) for length in shape]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)


class SiteMaps(NamedTuple):
    """Values of the maps beside an image for n sites; None for a map that is not given."""

    features: Gaussian | None = None
    edge_sums: Float64Array | None = None  # (touching,) boundary log odds summed over the faces of each edge
    foreground: Float64Array | None = None  # (n,) mean log odds
    notes: Mapping[str, Any] = {}  # what was recognised of each map, for JSON


def summarize_maps(maps: InputMaps, sites: Sites, edges: Int32Array, settings: Settings, spacing: Spacing) -> SiteMaps:
    """Summarize maps in memory for sites (*shape,) 1..n, 0 for none, and edges (touching, 2) of those that touch.

    A boundary of one pixel lies on one side of a face, so the larger of its two pixels counts.
    """
    features = edge_sums = foreground = None
    if "features" in maps:
        mask = sites > 0
        pixels = maps["features"].convert()[mask]
        pixels = pixels[:, find_informative_channels(pixels.astype(np.float64).var(axis=0))]
        options = gaussian_options(settings, settings.features_evidence)
        features = Gaussian.from_pixels(pixels, sites[mask] - 1, int(sites.max()), *options)
    if "boundaries" in maps:
        edge_sums = sum_over_faces(maps["boundaries"].convert(), sites, edges, use_maximum=True, spacing=spacing)
    if "foreground" in maps:
        foreground = mean_per_site(maps["foreground"].convert()[..., np.newaxis], sites)[:, 0]
    return SiteMaps(features, edge_sums, foreground, maps.notes)


def summarize_sums_of_maps(
    maps: InputMaps,
    sums: Mapping[str, Float64Array],
    n_pixels: NDArray[np.int64],
    edge_sums: Float64Array | None,
    settings: Settings,
) -> SiteMaps:
    """Summarize maps by sums (n, k) over the pixels (n,) of each site, and `edge_sums` (touching,)."""
    features = foreground = None
    if "features" in maps:
        mean = sums["features"].sum(axis=0) / n_pixels.sum()
        variance = np.maximum(sums["feature squares"].sum(axis=0) / n_pixels.sum() - mean**2, 0)
        if not variance.any():
            raise InputError("features are the same everywhere, so they have no effect; leave them out")
        kept = find_informative_channels(variance)
        options = gaussian_options(settings, settings.features_evidence)
        features = Gaussian.from_sums(n_pixels, sums["features"][:, kept], sums["feature squares"][:, kept], *options)
    if "foreground" in maps:
        foreground = sums["foreground"][:, 0] / n_pixels
    return SiteMaps(features, edge_sums, foreground, maps.notes)
