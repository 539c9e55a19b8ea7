"""A map of boundaries -> couplings of both signs.

    beta_ij = -boundaries_weight * (mean over the faces of the log odds of a boundary - log odds of boundaries_level)

A boundary that is one pixel wide lies on one side of a face, so the larger of its two pixels counts.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from napari_gsw.core.arrays import Floats, Floats32, Sites
from napari_gsw.core.graph.region_graph import RegionGraph, with_second_order
from napari_gsw.core.image.spacing import Spacing
from napari_gsw.core.settings import Settings
from napari_gsw.core.sites.face_sums import sums_over_faces


def sums_of_map(log_odds: Floats32, sites: Sites, graph: RegionGraph, spacing: Spacing = None) -> Floats:
    """(m,) log odds summed over the faces of each edge of sites that touch, each with its area.

    Parameters
    ----------
    log_odds : (\\*shape,). sites : (\\*shape,) 1..n, 0 where there is none.
    graph : its edges of sites that touch come first, sorted.
    spacing : distance between pixels along each axis; None for the same along all.
    """
    return sums_over_faces(log_odds, sites, graph.edges[graph.order == 1], largest=True, spacing=spacing)


def map_couplings(sums: Floats, graph: RegionGraph, settings: Settings) -> Floats:
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
        mean = with_second_order(first).contrast
    beta = -settings.boundaries_weight * (mean - neutral)
    return np.where(graph.order == 2, settings.second_weight * beta, beta)
