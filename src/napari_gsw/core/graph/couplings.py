"""The couplings beta_ij: how strongly two neighbouring sites want to share a cluster, or not to."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from napari_gsw.core.array_types import Float64Array
from napari_gsw.core.errors import InputError
from napari_gsw.core.features.network import load_network, onnxruntime_version
from napari_gsw.core.features.site_features import ImageFeatures, SiteFeatures
from napari_gsw.core.graph.boundary_cues import chi_squared_distance
from napari_gsw.core.graph.boundary_model import BoundaryModel, load_boundary_model
from napari_gsw.core.graph.random_walk import apply_transitions, make_transition_matrix
from napari_gsw.core.graph.region_graph import Links, RegionGraph, make_link_graph
from napari_gsw.core.settings import Settings


def compute_couplings(graph: RegionGraph, settings: Settings, features: SiteFeatures) -> Float64Array:
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
        beta = settings.beta * np.exp(-compute_dissimilarity(graph, settings, features))
    return np.where(graph.order == 2, settings.second_weight * beta, beta)


def learnt_model(settings: Settings, network: bool) -> BoundaryModel:
    """The model of human boundaries that the settings name; the shipped one with the cues of a network or without."""
    return load_boundary_model(settings.boundary_model, network)


def describe_network(settings: Settings) -> dict[str, str] | None:
    """Which network learnt couplings look at, and its hash, for the provenance; None where none is asked for."""
    if settings.coupling != "learnt" or settings.network == "none":
        return None
    network = load_network(settings.network, "photo")
    if network is None:
        return {"name": settings.network, "unused": "onnxruntime is missing"}
    if not learnt_model(settings, True).network:
        return {"name": settings.network, "unused": "the boundaries were learnt without a network"}
    return {"name": settings.network, "sha256": network.sha256, "onnxruntime": onnxruntime_version()}


def compute_dissimilarity(
    graph: RegionGraph, settings: Settings, features: SiteFeatures, walked: RegionGraph | None = None
) -> Float64Array:
    """(m,) contrast along the boundary, difference of mean colour and of texture, each in units of its scale.

    Colour and texture are smoothed over the graph (or over another one of the same sites, `walked`) as often as the
    histograms are: what differs is then not one site from the next but one surface from another.
    """
    total = graph.contrast / settings.contrast_scale
    if settings.colour_scale is None and settings.texture_scale is None:
        return total
    i, j = graph.edges.T
    matrix = make_transition_matrix(walked or graph, settings.graph_scale)
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


def compute_joint_couplings(
    graphs: Sequence[RegionGraph], graph: RegionGraph, settings: Settings, features: ImageFeatures
) -> Float64Array:
    """(m,) beta of every edge of the joined graph, in the same units in all images.

    Learnt couplings are looked up image by image: they go by what is usual in a picture, as they were learnt.
    """
    if settings.coupling != "learnt":
        return compute_couplings(graph, settings, features)
    pairs = zip(graphs, features.parts, strict=True)
    return np.concatenate([compute_couplings(one, settings, part) for one, part in pairs])


def compute_link_couplings(
    links: Links, graph: RegionGraph, settings: Settings, features: ImageFeatures
) -> Float64Array:
    """(links,) beta of every link: that of an ordinary boundary within an image, times the share of the overlap.

    So two sites that cover each other are coupled like two that touch, and what a site has with the next image is about
    what it has with one neighbour. Where couplings fall with the contrast, or are learnt, they fall here as
    ``contrast`` does; colours and texture are smoothed within each image.
    """
    if settings.coupling in ("constant", "length"):
        return settings.beta * links.share
    across = make_link_graph(graph, links)
    return settings.beta * links.share * np.exp(-compute_dissimilarity(across, settings, features, walked=graph))
