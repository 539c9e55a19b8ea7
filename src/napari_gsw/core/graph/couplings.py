"""The couplings beta_ij: how strongly two neighbouring sites want to share a cluster, or not to."""

from __future__ import annotations

import numpy as np

from napari_gsw.core.arrays import Floats
from napari_gsw.core.errors import InputError
from napari_gsw.core.evidence.network import network_named, onnxruntime_version
from napari_gsw.core.evidence.site_features import SiteFeatures
from napari_gsw.core.graph.boundary_cues import chi2
from napari_gsw.core.graph.boundary_model import BoundaryModel, named_model
from napari_gsw.core.graph.random_walk import walk_matrix, walk_steps
from napari_gsw.core.graph.region_graph import RegionGraph
from napari_gsw.core.settings import Settings


def couplings(graph: RegionGraph, settings: Settings, features: SiteFeatures) -> Floats:
    """(m,) beta_ij of eq. 12 on every edge, as ``settings.coupling`` says.

    constant: beta. length: beta times the boundary's length over the mean length. contrast: beta times exp(-d), with d
    the sum of :func:`dissimilarity`. learnt: beta times (log odds that the two belong together - offset), which is
    negative where people draw boundaries; ``repulsion`` weighs the negative ones. boundaries: 0, for a map to add to.
    Second-order edges are multiplied by ``second_weight``.
    """
    if settings.coupling == "learnt":
        model = learnt_model(settings, features.has_network)
        beta = -settings.beta * (model.log_odds(features, graph) + settings.offset)
        return np.where(beta < 0, settings.repulsion * beta, beta)
    beta = np.full(len(graph.edges), 0.0 if settings.coupling == "boundaries" else settings.beta)
    if settings.coupling == "length" and len(beta):
        beta = settings.beta * graph.length / graph.length.mean()
    elif settings.coupling == "contrast":
        beta = settings.beta * np.exp(-dissimilarity(graph, settings, features))
    return np.where(graph.order == 2, settings.second_weight * beta, beta)


def learnt_model(settings: Settings, network: bool) -> BoundaryModel:
    """The model of human boundaries that the settings name; the shipped one with the cues of a network or without."""
    return named_model(settings.boundary_model, network)


def network_record(settings: Settings) -> dict[str, str] | None:
    """Which network learnt couplings look at, and its hash, for the provenance; None where none is asked for."""
    if settings.coupling != "learnt" or settings.network == "none":
        return None
    network = network_named(settings.network, "photo")
    if network is None:
        return {"name": settings.network, "unused": "onnxruntime is missing"}
    if not learnt_model(settings, True).network:
        return {"name": settings.network, "unused": "the boundaries were learnt without a network"}
    return {"name": settings.network, "sha256": network.weights.sha256, "onnxruntime": onnxruntime_version()}


def dissimilarity(
    graph: RegionGraph, settings: Settings, features: SiteFeatures, walked: RegionGraph | None = None
) -> Floats:
    """(m,) contrast along the boundary, difference of mean colour and of texture, each in units of its scale.

    Colour and texture are smoothed over the graph (or over another one of the same sites, `walked`) as often as the
    histograms are: what differs is then not one site from the next but one surface from another.
    """
    total = graph.contrast / settings.contrast_scale
    if settings.colour_scale is None and settings.texture_scale is None:
        return total
    i, j = graph.edges.T
    matrix = walk_matrix(walked or graph, settings.graph_scale)
    if settings.colour_scale is not None:
        colour = walk_steps(graph.means, matrix, settings.graph_passes)
        total = total + np.linalg.norm(colour[i] - colour[j], axis=1) / settings.colour_scale
    if settings.texture_scale is not None:
        if settings.texture_words == 0:
            raise InputError("texture_scale needs texture_words, such as 32; none leaves texture out of the couplings")
        counts = features.texture.toarray()
        texture = walk_steps(counts / counts.sum(axis=1, keepdims=True), matrix, settings.graph_passes)
        total = total + chi2(texture[i], texture[j]) / settings.texture_scale
    return np.asarray(total)
