"""A map of boundaries -> couplings of both signs.

    beta_ij = -boundaries_weight * (mean over the faces of the log odds of a boundary - log odds of boundaries_level)

A boundary that is one pixel wide lies on one side of a face, so the larger of its two pixels counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.array_types import ChannelImage, Float32Array, Float64Array, Sites
from napari_gsw.core.errors import InputError
from napari_gsw.core.features.input_maps import InputMaps
from napari_gsw.core.features.site_features import find_informative_channels, make_gaussian
from napari_gsw.core.graph.region_graph import RegionGraph, add_second_order
from napari_gsw.core.image.block_grid import Slices
from napari_gsw.core.image.spacing import Spacing
from napari_gsw.core.likelihood.conjugate import Gaussian
from napari_gsw.core.settings import Settings
from napari_gsw.core.sites.adjacency_kernels import sum_over_faces
from napari_gsw.core.sites.site_values import mean_per_site
from napari_gsw.core.special import sum_by_group


def sum_map_over_edges(
    log_odds: Float32Array, sites: Sites, graph: RegionGraph, spacing: Spacing = None
) -> Float64Array:
    """(m,) log odds summed over the faces of each edge of sites that touch, each with its area.

    Parameters
    ----------
    log_odds : (\\*shape,). sites : (\\*shape,) 1..n, 0 where there is none.
    graph : its edges of sites that touch come first, sorted.
    spacing : distance between pixels along each axis; None for the same along all.
    """
    return sum_over_faces(log_odds, sites, graph.edges[graph.order == 1], largest=True, spacing=spacing)


def compute_map_couplings(sums: Float64Array, graph: RegionGraph, settings: Settings) -> Float64Array:
    """(m,) what a map adds to the coupling of each edge.

    Parameters
    ----------
    sums : (touching,) log odds summed over the faces of the edges of sites that touch, which come first.
    graph : its other edges, of neighbours of neighbours, take the weakest boundary on the way and ``second_weight``.
    """
    touching = len(sums)
    neutral = float(np.log(settings.boundaries_level / (1 - settings.boundaries_level)))
    mean = sums / np.maximum(graph.length[:touching], 1e-300)
    if len(graph.edges) > touching:
        first = replace(
            graph, edges=graph.edges[:touching], length=graph.length[:touching], contrast=mean,
            order=graph.order[:touching],
        )  # fmt: skip
        mean = add_second_order(first).contrast
    beta = -settings.boundaries_weight * (mean - neutral)
    return np.where(graph.order == 2, settings.second_weight * beta, beta)


class SiteMaps(NamedTuple):
    """What maps say of n sites; None for a map that was not given.

    Attributes
    ----------
    features : the block of channels.
    edge_sums : (m,) log odds of a boundary summed over the faces of the edges of sites that touch.
    foreground : (n,) mean log odds of the foreground.
    notes : what was recognised of each map, by name, ready for JSON.
    """

    features: Gaussian | None = None
    edge_sums: Float64Array | None = None
    foreground: Float64Array | None = None
    notes: Mapping[str, Any] = {}


class BlockMaps(NamedTuple):
    """What maps say of the p pieces of one block; empty for a map that was not given.

    Attributes
    ----------
    sums, squares : (p, k) of the channels of features.
    edge_sums : (e,) log odds of a boundary summed over the faces of the edges.
    foreground : (p,) log odds of the foreground, summed over the pixels.
    """

    sums: Float64Array
    squares: Float64Array
    edge_sums: Float64Array
    foreground: Float64Array


def summarize_maps(maps: InputMaps, sites: Sites, graph: RegionGraph, settings: Settings, spacing: Spacing) -> SiteMaps:
    """What maps in memory say of sites (\\*shape,), 1..n, 0 where there is none."""
    features = edge_sums = foreground = None
    if maps.features is not None:
        inside = sites > 0
        pixels = maps.features.channels()[inside]
        pixels = pixels[:, find_informative_channels(pixels.astype(np.float64).var(axis=0))]
        features = make_gaussian(pixels, sites[inside], _worth(settings))
    if maps.boundaries is not None:
        edge_sums = sum_map_over_edges(maps.boundaries.log_odds(), sites, graph, spacing)
    if maps.foreground is not None:
        foreground = mean_per_site(maps.foreground.log_odds()[..., np.newaxis], sites)[:, 0]
    return SiteMaps(features, edge_sums, foreground, maps.notes)


def summarize_block_maps(
    maps: InputMaps, part: Slices, pieces: Sites, graph: RegionGraph, spacing: Spacing
) -> BlockMaps:
    """What maps say of the pieces (\\*part,) of sites in one block of the image, and of the graph of these."""
    p = graph.n
    channels: ChannelImage = np.zeros((*pieces.shape, 0), np.float32)
    if maps.features is not None:
        channels = maps.features.channels(part)
    values = channels.astype(np.float64)
    heavy = graph.pixels[:, np.newaxis]
    some = p > 0
    sums = mean_per_site(values, pieces) * heavy if some else np.zeros((0, values.shape[-1]))
    squares = mean_per_site(np.square(values), pieces) * heavy if some else np.zeros((0, values.shape[-1]))
    edge_sums, foreground = np.zeros(0), np.zeros(0)
    if maps.boundaries is not None:
        edge_sums = sum_map_over_edges(maps.boundaries.log_odds(part), pieces, graph, spacing)
    if maps.foreground is not None and some:
        light = maps.foreground.log_odds(part)[..., np.newaxis]
        foreground = (mean_per_site(light, pieces) * heavy)[:, 0]
    return BlockMaps(sums, squares, edge_sums, foreground)


def merge_block_maps(
    maps: InputMaps,
    blocks: Sequence[BlockMaps],
    site: NDArray[np.integer],
    mass: NDArray[np.int64],
    edge_sums: Float64Array | None,
    settings: Settings,
) -> SiteMaps:
    """What maps say of the n sites of a large image, from what they say of the pieces in its blocks.

    Parameters
    ----------
    site : (pieces,) the site 0..n-1 of each piece. mass : (n,) pixels of each site.
    edge_sums : (m,) as in :class:`SiteMaps`.
    """
    features = foreground = None
    if maps.features is not None:
        sums, squares = (
            sum_by_group(np.concatenate([getattr(b, name) for b in blocks]), site, len(mass))
            for name in ("sums", "squares")
        )
        features = _joined_features(mass, sums, squares, settings)
    if maps.foreground is not None:
        foreground = sum_by_group(np.concatenate([b.foreground for b in blocks]), site, len(mass)) / mass
    return SiteMaps(features, edge_sums, foreground, maps.notes)


def _joined_features(
    mass: NDArray[np.int64], sums: Float64Array, squares: Float64Array, settings: Settings
) -> Gaussian:
    """The block of features of a large image, from sums over its sites: mass (n,), sums and squares (n, k)."""
    mean = sums.sum(axis=0) / mass.sum()
    variance = np.maximum(squares.sum(axis=0) / mass.sum() - mean**2, 0)
    if not variance.any():
        raise InputError("features are the same everywhere and say nothing; leave them out")
    kept, s = find_informative_channels(variance), _worth(settings)
    return Gaussian.from_sums(
        mass, sums[:, kept], squares[:, kept], s.evidence, s.gauss_kappa, s.gauss_shape, s.gauss_spread
    )


def _worth(settings: Settings) -> Settings:
    """The settings with the weight of features as that of evidence."""
    return settings.replace(evidence=settings.features_evidence)
