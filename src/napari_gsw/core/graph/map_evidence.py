"""Maps beside the image as couplings, a likelihood block and foreground log odds per site.

    beta_ij = -boundaries_weight * (mean over the faces of the log odds of a boundary - log odds of boundaries_level)

A boundary of one pixel lies on one side of a face, so the larger of its two pixels counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.array_types import Float32Array, Float64Array, Sites
from napari_gsw.core.errors import InputError
from napari_gsw.core.features.input_maps import InputMaps
from napari_gsw.core.features.site_features import find_informative_channels, gaussian_options
from napari_gsw.core.graph.region_graph import RegionGraph, add_second_order
from napari_gsw.core.image.spacing import Spacing
from napari_gsw.core.likelihood.conjugate import Gaussian
from napari_gsw.core.settings import Settings
from napari_gsw.core.sites.site_values import mean_per_site, sum_over_faces


class SiteMaps(NamedTuple):
    """Values of maps for n sites; None for a map that is not given."""

    features: Gaussian | None = None
    edge_sums: Float64Array | None = None  # (touching,) boundary log odds summed over the faces of each edge
    foreground: Float64Array | None = None  # (n,) mean log odds
    notes: Mapping[str, Any] = {}  # what was recognised of each map, for JSON


def sum_map_over_edges(
    log_odds: Float32Array, sites: Sites, graph: RegionGraph, spacing: Spacing = None
) -> Float64Array:
    """Sum log odds over the faces of each edge of touching sites, each face weighted by its area."""
    return sum_over_faces(log_odds, sites, graph.edges[graph.order == 1], use_maximum=True, spacing=spacing)


def compute_map_couplings(sums: Float64Array, graph: RegionGraph, settings: Settings) -> Float64Array:
    """Compute what a map of boundaries adds to the coupling of each edge.

    Edges of touching sites, with `sums` (touching,) of :func:`sum_map_over_edges`, come first in the graph; neighbours
    of neighbours take the weakest boundary on the way, times ``second_weight``.
    """
    touching = len(sums)
    neutral = float(np.log(settings.boundaries_level / (1 - settings.boundaries_level)))
    mean = sums / np.maximum(graph.length[:touching], 1e-300)
    if len(graph.edges) > touching:
        edges, length, order = graph.edges[:touching], graph.length[:touching], graph.order[:touching]
        mean = add_second_order(replace(graph, edges=edges, length=length, contrast=mean, order=order)).contrast
    beta = -settings.boundaries_weight * (mean - neutral)
    return np.where(graph.order == 2, settings.second_weight * beta, beta)


def summarize_maps(maps: InputMaps, sites: Sites, graph: RegionGraph, settings: Settings, spacing: Spacing) -> SiteMaps:
    """Summarize maps in memory for sites (*shape,) 1..n, 0 for none."""
    features = edge_sums = foreground = None
    if "features" in maps:
        mask = sites > 0
        pixels = maps["features"].convert()[mask]
        pixels = pixels[:, find_informative_channels(pixels.astype(np.float64).var(axis=0))]
        options = gaussian_options(settings, settings.features_evidence)
        features = Gaussian.from_pixels(pixels, sites[mask] - 1, graph.n, *options)
    if "boundaries" in maps:
        edge_sums = sum_map_over_edges(maps["boundaries"].convert(), sites, graph, spacing)
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
