"""Pixels -> regions: neighbours whose mean colours are near become one, in rounds of whole-array operations.

In each round all chosen neighbours join at once, and so do their neighbours' neighbours; then the mean colours are
taken anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.array_types import BoolArray, Float64Array, Int64Array
from napari_gsw.core.special import sum_by_group


@dataclass(frozen=True, eq=False)
class Regions:
    """A partition of the pixels and which of its n parts touch.

    Attributes
    ----------
    labels : (pixels,) region 0..n-1 of each pixel.
    edges : (m, 2) regions that share a pixel face, the smaller number first, sorted.
    total : (n, C) sum of the colours of the pixels.
    size : (n,) number of pixels.
    """

    labels: Int64Array
    edges: Int64Array
    total: Float64Array
    size: Float64Array

    @cached_property
    def distance(self) -> Float64Array:
        """(m,) Euclidean distance of the mean colours along each edge."""
        mean = self.total / self.size[:, np.newaxis]
        norm: Float64Array = np.linalg.norm(mean[self.edges[:, 0]] - mean[self.edges[:, 1]], axis=1)
        return norm

    def joined(self, chosen: BoolArray) -> Regions:
        """The regions after all edges that are `chosen`, (m,), have been closed."""
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        n = len(self.size)
        ends = self.edges[chosen]
        closed = coo_array((np.ones(len(ends), np.int8), (ends[:, 0], ends[:, 1])), shape=(n, n))
        count, components = connected_components(closed, directed=False)
        part: Int64Array = components.astype(np.int64)
        edges = np.sort(part[self.edges], axis=1)
        edges = edges[edges[:, 0] < edges[:, 1]]
        key = np.unique(edges[:, 0] * count + edges[:, 1])
        return Regions(
            labels=part[self.labels],
            edges=np.stack((key // count, key % count), axis=1),
            total=sum_by_group(self.total, part, count),
            size=np.bincount(part, weights=self.size, minlength=count).astype(np.float64),
        )


def make_pixel_regions(colours: NDArray[np.generic]) -> Regions:
    """Every pixel as a region of its own.

    Parameters
    ----------
    colours : (Y, X, C) of any type.
    """
    number = np.arange(colours.shape[0] * colours.shape[1]).reshape(colours.shape[:2])
    right = np.stack((number[:, :-1].ravel(), number[:, 1:].ravel()), axis=1)
    down = np.stack((number[:-1].ravel(), number[1:].ravel()), axis=1)
    edges = np.concatenate((right, down))
    total = colours.reshape(number.size, -1).astype(np.float64)
    return Regions(number.ravel(), edges[np.lexsort((edges[:, 1], edges[:, 0]))], total, np.ones(number.size))


def merge_similar(regions: Regions, reach: float) -> Regions:
    """Neighbours closer than `reach` in mean colour join until there are none."""
    while (near := regions.distance < reach).any():
        regions = regions.joined(near)
    return regions


def merge_small(regions: Regions, smallest: int) -> Regions:
    """Regions under `smallest` pixels join the neighbour that is nearest in mean colour until there are none.

    The neighbour may be small itself. Of neighbours that are equally near, the one with the smallest number is taken.
    """
    while len(regions.edges) and (small := regions.size < smallest).any():
        left, right = regions.edges.T
        rank = np.empty(len(left), np.int64)
        rank[np.argsort(regions.distance, kind="stable")] = np.arange(len(left))
        nearest = np.full(len(small), len(left))
        np.minimum.at(nearest, left, rank)
        np.minimum.at(nearest, right, rank)
        regions = regions.joined((small[left] & (nearest[left] == rank)) | (small[right] & (nearest[right] == rank)))
    return regions
