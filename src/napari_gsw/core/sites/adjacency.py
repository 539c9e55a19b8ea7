"""Faces between the pixels of different sites: which sites touch, and what lies on their boundaries."""

from __future__ import annotations

import numpy as np

from napari_gsw.core.array_types import ChannelImage, Float32Array, Float64Array, Int32Array, Int64Array, Sites
from napari_gsw.core.image.spacing import Spacing, face_areas


def _list_borders(sites: Sites) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
    """List the faces between sites, axis by axis in scan order: flat indices of the two pixels, axis, and pair.

    The pair of sites i < j, from 0, is i * n + j.
    """
    n, flat = int(sites.max(initial=0)), sites.ravel()
    pixels = np.arange(sites.size).reshape(sites.shape)
    first, second, axes = [], [], []
    for axis in range(sites.ndim):
        before, after = (
            tuple(part if a == axis else slice(None) for a in range(sites.ndim))
            for part in (slice(None, -1), slice(1, None))
        )
        a, b = sites[before], sites[after]
        is_border = (a != b) & (a > 0) & (b > 0)
        first.append(pixels[before][is_border])
        second.append(pixels[after][is_border])
        axes.append(np.full(len(first[-1]), axis))
    left, right = np.concatenate(first), np.concatenate(second)
    i, j = flat[left].astype(np.int64) - 1, flat[right].astype(np.int64) - 1
    return left, right, np.concatenate(axes), np.minimum(i, j) * n + np.maximum(i, j)


def touching_pairs(
    sites: Sites, channels: ChannelImage | None = None, spacing: Spacing = None
) -> tuple[Int32Array, Float64Array, Float64Array]:
    """Find the pairs of sites (*shape,) 1..n, 0 for none, that share faces, and sum over these faces.

    Returns
    -------
    edges : (m, 2) int32
        Sites from 0, the smaller one first, sorted.
    length, total : (m,) float64
        Area of the faces; and sum of the Euclidean differences of channels (pixels, C) across them, times the area.
    """
    n = int(sites.max(initial=0))
    first, second, axis, pair = _list_borders(sites)
    pairs, edge = np.unique(pair, return_inverse=True)
    area = np.array(face_areas(spacing, sites.ndim))[axis]
    square = np.zeros(len(first))
    for values in () if channels is None else channels.T:
        square += np.square((values[second] - values[first]).astype(np.float64))
    edges = np.stack(np.divmod(pairs, max(n, 1)), axis=1).astype(np.int32)
    sums = (np.bincount(edge, weights, len(pairs)) for weights in (area, area * np.sqrt(square)))
    length, total = (np.asarray(values, np.float64) for values in sums)
    return edges, length, total


def list_faces(sites: Sites, edges: Int32Array) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
    """List the faces on the edges (m, 2), sorted, of sites 1..n: flat indices of two pixels, edge, and axis."""
    key = edges[:, 0].astype(np.int64) * int(sites.max(initial=0)) + edges[:, 1]
    first, second, axis, pair = _list_borders(sites)
    edge = np.searchsorted(key, pair).clip(max=len(key) - 1)
    is_wanted = key[edge] == pair if len(key) else np.zeros(len(pair), bool)
    return first[is_wanted], second[is_wanted], edge[is_wanted], axis[is_wanted]


def sum_over_faces(
    values: Float32Array, sites: Sites, edges: Int32Array, *, use_maximum: bool = False, spacing: Spacing = None
) -> Float64Array:
    """Sum values (*shape,) over the faces of each edge (m, 2), sorted, of sites 0..n-1: (m,).

    A face has the mean or the larger of the values of its two pixels, and counts by its area.
    """
    first, second, edge, axis = list_faces(sites, edges)
    order = np.argsort(first, kind="stable")  # pixel by pixel: the last digit depends on it
    flat = np.asarray(values, np.float32).ravel().astype(np.float64)
    p, q = flat[first[order]], flat[second[order]]
    area = np.array(face_areas(spacing, sites.ndim))[axis[order]]
    face = np.maximum(p, q) if use_maximum else (p + q) / 2
    return np.bincount(edge[order], area * face, len(edges)).astype(np.float64)
