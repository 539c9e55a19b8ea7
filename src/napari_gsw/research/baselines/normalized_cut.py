"""Normalized cuts after Shi and Malik (2000) on the graph of superpixels.

Superpixels and colours are the package's own. Two that touch are tied by exp(-(d / colour)^2), d the distance of their
mean colours, as in scikit-image's region graphs. The cuts are the package's own too, because scikit-image's need a
hundred eigenvectors for each of them and fail on pictures of a few flat colours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_gsw.core.graph.region_graph import build_region_graph
from napari_gsw.core.image.normalized_image import normalize_image
from napari_gsw.core.settings import Settings
from napari_gsw.core.settings.setting import Options, setting
from napari_gsw.core.sites.superpixels import make_superpixels
from napari_gsw.research.baselines.cuts import partition_graph
from napari_gsw.research.baselines.photographs import number_regions


@dataclass(frozen=True)
class NormalizedCut(Options):
    """Settings of the normalized cut."""

    site_size: int = setting(
        200,
        "normalized-cut",
        "Mean number of pixels in a superpixel.",
        low=1,
        title="Site size",
    )
    colour: float = setting(
        10.0,
        "normalized-cut",
        "Colour difference (in units of Lab) at which two superpixels are tied to 37 %.",
        low=0.0,
        exclusive_min=True,
        title="Colour width",
    )
    threshold: float = setting(
        0.03,
        "normalized-cut",
        "Largest cost of a cut: larger values make more regions.",
        low=0.0,
        high=2.0,
    )


DEFAULT = NormalizedCut()


def normalized_cut(
    image: ArrayLike, options: NormalizedCut = DEFAULT, axes: str = "auto", seed: int = 0
) -> NDArray[np.int32]:
    """Segment an image of any kind that the package takes, in two or three dimensions.

    Parameters
    ----------
    image : array, as for :func:`napari_gsw.core.image.normalized_image.normalize_image`.
    options : size of the superpixels, ties and threshold.
    axes : as for ``picture``.
    seed : of the vectors from which the eigenvectors of large graphs are sought.

    Returns
    -------
    (\\*shape,) int32, regions 1..k in the order of their first pixel. A region need not be connected.
    """
    checked_picture = normalize_image(image, axes)
    sites = make_superpixels(checked_picture, Settings(site_size=options.site_size))
    graph = build_region_graph(checked_picture, sites)
    tie = np.exp(-np.square(graph.difference / options.colour))
    part = partition_graph(graph.n, graph.edges, tie, options.threshold, np.random.default_rng(seed))
    return number_regions(part[sites - 1])
