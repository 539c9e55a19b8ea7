"""What the maps beside an image say of its sites, of an image in memory or block by block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.arrays import Floats, Pixels, Sites
from napari_gsw.core.errors import InputError
from napari_gsw.core.evidence.given_maps import GivenMaps
from napari_gsw.core.evidence.likelihoods import Gaussian
from napari_gsw.core.evidence.site_features import gaussian_of, telling
from napari_gsw.core.graph.boundary_map import sums_of_map
from napari_gsw.core.graph.region_graph import RegionGraph
from napari_gsw.core.group_sums import group_sums
from napari_gsw.core.image.block_grid import Slices
from napari_gsw.core.image.spacing import Spacing
from napari_gsw.core.settings import Settings
from napari_gsw.core.sites.per_site import means_over


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
    edge_sums: Floats | None = None
    foreground: Floats | None = None
    notes: Mapping[str, Any] = {}


class MapBlock(NamedTuple):
    """What maps say of the p pieces of one block; empty for a map that was not given.

    Attributes
    ----------
    sums, squares : (p, k) of the channels of features.
    edge_sums : (e,) log odds of a boundary summed over the faces of the edges.
    foreground : (p,) log odds of the foreground, summed over the pixels.
    """

    sums: Floats
    squares: Floats
    edge_sums: Floats
    foreground: Floats


def maps_of_sites(maps: GivenMaps, sites: Sites, graph: RegionGraph, settings: Settings, spacing: Spacing) -> SiteMaps:
    """What maps in memory say of sites (\\*shape,), 1..n, 0 where there is none."""
    features = edge_sums = foreground = None
    if maps.features is not None:
        inside = sites > 0
        pixels = maps.features.channels()[inside]
        pixels = pixels[:, telling(pixels.astype(np.float64).var(axis=0))]
        features = gaussian_of(pixels, sites[inside], _worth(settings))
    if maps.boundaries is not None:
        edge_sums = sums_of_map(maps.boundaries.log_odds(), sites, graph, spacing)
    if maps.foreground is not None:
        foreground = means_over(maps.foreground.log_odds()[..., np.newaxis], sites)[:, 0]
    return SiteMaps(features, edge_sums, foreground, maps.notes)


def map_block(maps: GivenMaps, part: Slices, pieces: Sites, graph: RegionGraph, spacing: Spacing) -> MapBlock:
    """What maps say of the pieces (\\*part,) of sites in one block of the image, and of the graph of these."""
    p = graph.n
    channels: Pixels = np.zeros((*pieces.shape, 0), np.float32)
    if maps.features is not None:
        channels = maps.features.channels(part)
    values = channels.astype(np.float64)
    heavy = graph.pixels[:, np.newaxis]
    some = p > 0
    sums = means_over(values, pieces) * heavy if some else np.zeros((0, values.shape[-1]))
    squares = means_over(np.square(values), pieces) * heavy if some else np.zeros((0, values.shape[-1]))
    edge_sums, foreground = np.zeros(0), np.zeros(0)
    if maps.boundaries is not None:
        edge_sums = sums_of_map(maps.boundaries.log_odds(part), pieces, graph, spacing)
    if maps.foreground is not None and some:
        light = maps.foreground.log_odds(part)[..., np.newaxis]
        foreground = (means_over(light, pieces) * heavy)[:, 0]
    return MapBlock(sums, squares, edge_sums, foreground)


def joined_maps(
    maps: GivenMaps,
    blocks: Sequence[MapBlock],
    site: NDArray[np.integer],
    mass: NDArray[np.int64],
    edge_sums: Floats | None,
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
            group_sums(np.concatenate([getattr(b, name) for b in blocks]), site, len(mass))
            for name in ("sums", "squares")
        )
        features = _joined_features(mass, sums, squares, settings)
    if maps.foreground is not None:
        foreground = group_sums(np.concatenate([b.foreground for b in blocks]), site, len(mass)) / mass
    return SiteMaps(features, edge_sums, foreground, maps.notes)


def _joined_features(mass: NDArray[np.int64], sums: Floats, squares: Floats, settings: Settings) -> Gaussian:
    """The block of features of a large image, from sums over its sites: mass (n,), sums and squares (n, k)."""
    mean = sums.sum(axis=0) / mass.sum()
    variance = np.maximum(squares.sum(axis=0) / mass.sum() - mean**2, 0)
    if not variance.any():
        raise InputError("features are the same everywhere and say nothing; leave them out")
    kept, s = telling(variance), _worth(settings)
    return Gaussian.from_sums(
        mass, sums[:, kept], squares[:, kept], s.evidence, s.gauss_kappa, s.gauss_shape, s.gauss_spread
    )


def _worth(settings: Settings) -> Settings:
    """The settings with the weight of features as that of evidence."""
    return settings.replace(evidence=settings.features_evidence)
