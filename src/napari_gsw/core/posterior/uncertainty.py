"""What a chain has learnt about boundaries, as images: how sure the model is, and where it is not."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.array_types import Float64Array
from napari_gsw.core.errors import InputError
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.sites.adjacency_kernels import raise_face_values
from napari_gsw.core.sites.blocked_labels import BlockedLabels, map_blocks_with_border


def compute_site_entropy(problem: Problem, together: Float64Array) -> Float64Array:
    """How unsure the model is of each site, in bits: 0 sure, 1 a coin toss.

    The entropy of "do these two share a cluster?", averaged over the site's neighbours (weighted by the length of the
    common boundary where it is known). Labels have no meaning from sweep to sweep; pairs have.

    Parameters
    ----------
    together : (m,) probability that the two ends of an edge share a cluster (:attr:`Snapshot.together`).

    Returns
    -------
    (n,) bits; NaN if no sweep has been counted yet.
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
    """(n,) pixels of each site; without an image each counts as one."""
    return np.ones(problem.n) if problem.graph is None else problem.graph.pixels.astype(np.float64)


class BoundaryFaces(NamedTuple):
    """Every pair of neighbouring pixels that belong to different sites.

    Attributes
    ----------
    first, second : (f,) the two pixels, as indices into the flat image.
    edge : (f,) the edge of the region graph between their sites.
    """

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    edge: NDArray[np.int32]


def find_boundary_faces(problem: Problem) -> BoundaryFaces:
    """The faces between the sites of a problem's image; collected once, they make boundary images quickly."""
    return _find_faces(problem, problem.site_image)


def _find_faces(problem: Problem, sites: NDArray[np.int32]) -> BoundaryFaces:
    """The faces in the sites of an image or of a part of it."""
    if problem.graph is None:
        raise InputError("this problem was not made from an image, so there is no boundary image")
    n = problem.n
    touching = np.flatnonzero(problem.graph.order == 1)
    ends = problem.edges[touching].astype(np.int64)
    key = ends[:, 0] * n + ends[:, 1]  # sorted, as region_graph leaves it
    numbers = np.arange(sites.size, dtype=np.int64).reshape(sites.shape)
    faces = []
    for axis in range(sites.ndim):
        s, p = np.moveaxis(sites, axis, 0), np.moveaxis(numbers, axis, 0)
        border = (s[:-1] != s[1:]) & (s[:-1] > 0) & (s[1:] > 0)
        a, b = s[:-1][border].astype(np.int64) - 1, s[1:][border].astype(np.int64) - 1
        wanted = np.minimum(a, b) * n + np.maximum(a, b)
        place = np.searchsorted(key, wanted)
        joined = np.append(key, -1)[place] == wanted  # sites of two images of a stack may have no edge between them
        edge = touching[place[joined]]
        faces.append((p[:-1][border][joined], p[1:][border][joined], edge.astype(np.int32)))
    return BoundaryFaces(*(np.concatenate(column) for column in zip(*faces, strict=True)))


def make_boundary_image(
    problem: Problem, together: Float64Array, faces: BoundaryFaces | None = None
) -> NDArray[np.float32]:
    """Image of the probability that a boundary runs through a pixel; a lazy one of a mosaic.

    A pixel beside another site has the probability that the two sites are in different clusters (the largest, if there
    are several); all others have 0. NaN beside other sites if no sweep has been counted yet.
    """
    apart = (1 - together).astype(np.float32)

    def image_of(sites: NDArray[np.int32], known: BoundaryFaces | None = None) -> NDArray[np.float32]:
        first, second, edge = _find_faces(problem, sites) if known is None else known
        image = np.zeros(sites.shape, np.float32)
        raise_face_values(first, second, edge, apart, image.reshape(-1))
        return image

    if isinstance(problem.sites, BlockedLabels):
        lazily: NDArray[np.float32] = map_blocks_with_border(problem.sites, image_of, np.float32)
        return lazily
    return image_of(problem.site_image, faces)
