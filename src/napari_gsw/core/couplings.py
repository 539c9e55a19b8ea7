"""The couplings beta_ij: how strongly two neighbouring sites want to share a cluster, or not to."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.features import SiteWords
from napari_gsw.core.graph import RegionGraph
from napari_gsw.core.learnt import BoundaryModel, photo_model
from napari_gsw.core.settings import Settings

Floats = NDArray[np.float64]


def couplings(graph: RegionGraph, settings: Settings, words: SiteWords) -> Floats:
    """beta_ij on every edge, as ``settings.coupling`` says.

    constant: beta. length: beta times the boundary's length over the mean length. contrast: beta times
    exp(-contrast / contrast_scale). learnt: beta times (log odds that the two belong together - offset), which is
    negative where people draw boundaries; ``repulsion`` weighs the negative ones. Second-order edges are multiplied by
    ``second_weight``.
    """
    if settings.coupling == "learnt":
        shipped = settings.boundaries == "shipped"
        model = photo_model() if shipped else BoundaryModel.load(settings.boundaries)
        beta = -settings.beta * (model.log_odds(words, graph) + settings.offset)
        return np.where(beta < 0, settings.repulsion * beta, beta)
    beta = np.full(len(graph.edges), settings.beta)
    if settings.coupling == "length" and len(beta):
        beta = settings.beta * graph.length / graph.length.mean()
    elif settings.coupling == "contrast":
        beta = settings.beta * np.exp(-graph.contrast / settings.contrast_scale)
    return np.where(graph.order == 2, settings.second_weight * beta, beta)
