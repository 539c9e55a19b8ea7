"""Couplings beta_ij of neighbouring sites, eq. (12) of the paper: constant, by length, by contrast, or learnt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version

import numpy as np

from napari_gsw.core.array_types import Float64Array
from napari_gsw.core.errors import InputError
from napari_gsw.core.features.network import load_network
from napari_gsw.core.features.site_features import ImageFeatures, SiteFeatures
from napari_gsw.core.graph.boundary_cues import chi_squared_distance
from napari_gsw.core.graph.boundary_model import load_boundary_model
from napari_gsw.core.graph.random_walk import apply_transitions, make_transition_matrix
from napari_gsw.core.graph.region_graph import RegionGraph, add_second_order
from napari_gsw.core.settings import Settings


def compute_couplings(
    graph: RegionGraph, settings: Settings, features: SiteFeatures, graphs: Sequence[RegionGraph] | None = None
) -> Float64Array:
    """Compute the coupling of each edge as ``settings.coupling`` says.

    constant: beta. length: beta times the boundary's length over the mean length. contrast: beta times exp(-d), with d
    of :func:`compute_dissimilarity`. learnt: beta times (log odds of one segment - offset), which is negative where
    annotators draw boundaries; ``repulsion`` weights the negative ones. They are predicted image by image for a joined
    graph of several, with the graph of each, since they compare with what is usual in an image. boundaries: 0, for a
    map to add to. Edges of second order are multiplied by ``second_weight``.
    """
    if settings.coupling == "learnt":
        model = load_boundary_model(settings.boundary_model, features.has_network)
        if graphs is None or not isinstance(features, ImageFeatures):
            log_odds = model.log_odds(features, graph)
        else:
            pairs = zip(features.parts, graphs, strict=True)
            log_odds = np.concatenate([model.log_odds(part, image_graph) for part, image_graph in pairs])
        beta = -settings.beta * (log_odds + settings.offset)
        return np.where(beta < 0, settings.repulsion * beta, beta)
    beta = np.full(len(graph.edges), 0.0 if settings.coupling == "boundaries" else settings.beta)
    if settings.coupling == "length" and len(beta):
        beta = settings.beta * graph.length / graph.length.mean()
    elif settings.coupling == "contrast":
        beta = settings.beta * np.exp(-compute_dissimilarity(graph, settings, features))
    return np.where(graph.order == 2, settings.second_weight * beta, beta)


def describe_network(settings: Settings) -> dict[str, str] | None:
    """Describe the network of learnt couplings for the provenance; None if the settings ask for none."""
    if settings.coupling != "learnt" or settings.network == "none":
        return None
    network = load_network(settings.network, "photo")
    if network is None:
        return {"name": settings.network, "unused": "onnxruntime is missing"}
    if not load_boundary_model(settings.boundary_model, True).network:
        return {"name": settings.network, "unused": "the boundaries were learnt without a network"}
    return {"name": settings.network, "sha256": network.sha256, "onnxruntime": version("onnxruntime")}


def compute_dissimilarity(
    graph: RegionGraph, settings: Settings, features: SiteFeatures, smoothing_graph: RegionGraph | None = None
) -> Float64Array:
    """Sum the contrast along each boundary and the differences of mean colour and texture, in units of their scales.

    Colour and texture are smoothed over the graph (or another one of the same sites) as often as the histograms are:
    not single sites differ then, but surfaces.
    """
    total = graph.contrast / settings.contrast_scale
    if settings.colour_scale is None and settings.texture_scale is None:
        return total
    i, j = graph.edges.T
    matrix = make_transition_matrix(smoothing_graph or graph, settings.graph_scale)
    if settings.colour_scale is not None:
        colour = apply_transitions(graph.means, matrix, settings.graph_passes)
        total = total + np.linalg.norm(colour[i] - colour[j], axis=1) / settings.colour_scale
    if settings.texture_scale is not None:
        if settings.texture_words == 0:
            raise InputError("texture_scale needs texture_words, such as 32; none leaves texture out of the couplings")
        counts = features.texture.toarray()
        texture = apply_transitions(counts / counts.sum(axis=1, keepdims=True), matrix, settings.graph_passes)
        total = total + chi_squared_distance(texture[i], texture[j]) / settings.texture_scale
    return np.asarray(total)


def compute_map_couplings(sums: Float64Array, graph: RegionGraph, settings: Settings) -> Float64Array:
    """Compute what a map of boundaries adds to the coupling of each edge, from the `sums` of its log odds over faces.

    It is -boundaries_weight * (mean over the faces of the log odds of a boundary - log odds of boundaries_level). Edges
    of touching sites (touching,) come first in the graph; neighbours of neighbours take the weakest boundary on the
    way, times ``second_weight``.
    """
    touching = len(sums)
    neutral = float(np.log(settings.boundaries_level / (1 - settings.boundaries_level)))
    mean = sums / np.maximum(graph.length[:touching], 1e-300)
    if len(graph.edges) > touching:
        edges, length, order = graph.edges[:touching], graph.length[:touching], graph.order[:touching]
        mean = add_second_order(replace(graph, edges=edges, length=length, contrast=mean, order=order)).contrast
    beta = -settings.boundaries_weight * (mean - neutral)
    return np.where(graph.order == 2, settings.second_weight * beta, beta)


def compute_link_couplings(
    links: RegionGraph, graph: RegionGraph, settings: Settings, features: ImageFeatures
) -> Float64Array:
    """Compute the coupling of each link: that of an ordinary boundary within an image times the share of the overlap.

    So two sites that cover each other are coupled like two that touch. Where couplings fall with the contrast or are
    learnt, they fall here as those of ``contrast``; colour and texture are smoothed within each image.
    """
    beta = settings.beta * links.length
    if settings.coupling in ("constant", "length"):
        return beta
    return beta * np.exp(-compute_dissimilarity(links, settings, features, graph))
