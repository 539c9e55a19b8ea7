"""Images of uncertainty: the neighbour entropy of sites and the probability of boundaries."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.array_types import Float64Array
from napari_gsw.core.errors import InputError
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.sites.blocked_labels import BlockedLabels, map_blocks_with_border


def compute_site_entropy(problem: Problem, together: Float64Array) -> Float64Array:
    """(n,) neighbour entropy of each site in bits, from 0 (certain) to 1; NaN if no sweep has been counted yet.

    This is the entropy of "do these two share a cluster?", averaged over the neighbours by boundary length. Labels have
    no meaning from sweep to sweep, but pairs have. `together` (m,) is the probability that they do.
    """
    if np.isnan(together).any():
        return np.full(problem.n, np.nan)
    p = together
    with np.errstate(divide="ignore", invalid="ignore"):
        bits = -np.nan_to_num(p * np.log2(p)) - np.nan_to_num((1 - p) * np.log2(1 - p))
    weight = np.ones(len(p)) if problem.graph is None else problem.graph.length
    ends = problem.edges.T.ravel()
    total = np.bincount(ends, np.tile(weight * bits, 2), problem.n)
    share = np.bincount(ends, np.tile(weight, 2), problem.n)
    return np.divide(total, share, out=np.zeros(problem.n), where=share > 0)


def count_site_pixels(problem: Problem) -> Float64Array:
    """(n,) pixels of each site, or 1 without an image."""
    return np.ones(problem.n) if problem.graph is None else problem.graph.pixels.astype(np.float64)


class BoundaryFaces(NamedTuple):
    """Pairs of neighbouring pixels that belong to different sites, as indices of the flat image, and their edge."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    edge: NDArray[np.int32]


def find_boundary_faces(problem: Problem, sites: NDArray[np.int32] | None = None) -> BoundaryFaces:
    """Find the faces between the sites of an image, which make boundary images quickly, or of a tile."""
    sites = problem.site_image if sites is None else sites
    if problem.graph is None:
        raise InputError("this problem was not made from an image, so there is no boundary image")
    n = problem.n
    touching = np.flatnonzero(problem.graph.order == 1)
    ends = problem.edges[touching].astype(np.int64)
    key = ends[:, 0] * n + ends[:, 1]  # sorted, as the region graph is
    pixels = np.arange(sites.size, dtype=np.int64).reshape(sites.shape)
    faces = []
    for axis in range(sites.ndim):
        s, p = np.moveaxis(sites, axis, 0), np.moveaxis(pixels, axis, 0)
        border = (s[:-1] != s[1:]) & (s[:-1] > 0) & (s[1:] > 0)
        a, b = s[:-1][border].astype(np.int64) - 1, s[1:][border].astype(np.int64) - 1
        wanted = np.minimum(a, b) * n + np.maximum(a, b)
        position = np.searchsorted(key, wanted)
        exists = np.append(key, -1)[position] == wanted  # sites of two images of a stack may have no edge between them
        edge = touching[position[exists]]
        faces.append((p[:-1][border][exists], p[1:][border][exists], edge.astype(np.int32)))
    return BoundaryFaces(*(np.concatenate(column) for column in zip(*faces, strict=True)))


def make_boundary_image(
    problem: Problem, together: Float64Array, faces: BoundaryFaces | None = None
) -> NDArray[np.float32]:
    """Make an image of the probability that a boundary runs through a pixel, lazy if the sites are.

    A pixel beside other sites has the largest probability that its site and theirs are in different clusters, NaN if no
    sweep has been counted yet; all other pixels have 0.
    """
    probability = (1 - together).astype(np.float32)

    def paint(sites: NDArray[np.int32]) -> NDArray[np.float32]:
        first, second, edge = faces or find_boundary_faces(problem, sites)
        image = np.zeros(sites.shape, np.float32)
        with np.errstate(invalid="ignore"):  # NaN where no sweep has been counted
            for pixels in (first, second):
                np.maximum.at(image.reshape(-1), pixels, probability[edge])
        return image

    if isinstance(problem.sites, BlockedLabels):
        lazy_image: NDArray[np.float32] = map_blocks_with_border(problem.sites, paint, np.float32)
        return lazy_image
    return paint(problem.site_image)
