"""Values of an image for its sites, and for the faces between them: means, labels, and which sites touch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_gsw.core.array_types import (
    ChannelImage,
    Float32Array,
    Float64Array,
    Int32Array,
    Int64Array,
    LabelImage,
    Sites,
)
from napari_gsw.core.errors import InputError, to_array
from napari_gsw.core.image.lazy import is_lazy, read
from napari_gsw.core.image.spacing import Spacing, face_areas
from napari_gsw.core.jit import njit, zeros
from napari_gsw.core.sites.blocked_labels import SiteImage, count_site_values, iter_tiles


def list_borders(sites: Sites, n: int | None = None) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
    """List the faces between sites, axis by axis in scan order: flat indices of the two pixels, axis, and pair.

    The pair of sites i < j, from 0, is i * n + j; `n` is needed for a tile, which may not have the last site.
    """
    n, flat = int(sites.max(initial=0)) if n is None else n, sites.ravel()
    pixels = np.arange(sites.size).reshape(sites.shape)
    first, second, axes = [], [], []
    for axis in range(sites.ndim):
        before, after = (
            tuple(part if a == axis else slice(None) for a in range(sites.ndim))
            for part in (slice(None, -1), slice(1, None))
        )
        left = pixels[before][sites[before] != sites[after]]
        right = left + math.prod(sites.shape[axis + 1 :])
        keep = (flat[left] > 0) & (flat[right] > 0)
        first.append(left[keep])
        second.append(right[keep])
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
    first, second, axis, pair = list_borders(sites)
    area, square = np.array(face_areas(spacing, sites.ndim))[axis], np.zeros(len(first))
    for channel in () if channels is None else channels.T:
        square += np.square((channel[second] - channel[first]).astype(np.float64))
    key, edge = np.unique(pair, return_inverse=True)
    n = max(int(sites.max(initial=0)), 1)
    edges = np.stack((key // n, key % n), axis=1).astype(np.int32)
    length, total = (np.bincount(edge, weight, len(key)) for weight in (area, area * np.sqrt(square)))
    return edges, length.astype(np.float64), total.astype(np.float64)


def list_faces(
    sites: Sites, edges: Int32Array, n: int | None = None
) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
    """List the faces on the edges (m, 2), sorted, of sites 1..n: flat indices of two pixels, edge, and axis."""
    n = int(sites.max(initial=0)) if n is None else n
    key = edges[:, 0].astype(np.int64) * n + edges[:, 1]
    first, second, axis, pair = list_borders(sites, n)
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


def mean_per_site(values: NDArray[np.generic], sites: Sites) -> Float64Array:
    """Compute the mean (n, C) of each channel of `values` (*shape, C) over each site."""
    flat = values if values.dtype == np.float32 else np.asarray(values, dtype=np.float64)
    rows = np.ascontiguousarray(flat).reshape(sites.size, -1)
    total, n_pixels = sum_over_sites(rows, np.ascontiguousarray(sites, np.int32).ravel(), int(sites.max(initial=0)))
    return total / np.maximum(n_pixels, 1)[:, np.newaxis]


@njit
def sum_over_sites(values: ChannelImage | Float64Array, sites: Int32Array, n: int) -> tuple[Float64Array, Int64Array]:
    """Sum channels (pixels, C) over the pixels of each site (pixels,) from 1, 0 for none: (n, C); and count them."""
    total, n_pixels = zeros((n, values.shape[1]), np.float64), zeros(n, np.int64)
    for p in range(sites.size):
        i = sites[p] - 1
        if i >= 0:
            n_pixels[i] += 1
            for c in range(values.shape[1]):
                total[i, c] += values[p, c]
    return total, n_pixels


def check_label_image(image: ArrayLike, shape: tuple[int, ...], name: str) -> Any:
    """Return a label image, in memory or lazy, that has the image's shape and holds whole numbers."""
    labels: Any = image if is_lazy(image) else to_array(name, image)
    if tuple(labels.shape) != shape or labels.dtype.kind not in "bui":
        raise InputError(
            f"{name} must be whole numbers of the image's shape: {shape}, not {labels.shape} ({labels.dtype})"
        )
    return labels


def find_site_labels(sites: SiteImage, n: int, image: ArrayLike, name: str) -> Int32Array:
    """Find the most frequent non-zero label (n,) under each site, -1 where there is none.

    The image (*shape,), in memory or lazy, holds whole numbers >= 0; `name` is its name for errors.
    """
    labels = check_label_image(image, sites.shape, name)

    def read_block(slices: tuple[slice, ...]) -> LabelImage:
        block = read(labels, slices)
        if block.min() < 0 or block.max() > np.iinfo(np.int32).max:
            raise InputError(f"{name} must be numbers in [0, 2147483647], not {block.min()} to {block.max()}")
        return block

    site, label, count = count_site_values(sites, n, read_block)
    if not len(site) and any(read_block(slices).any() for slices, _ in iter_tiles(sites)):
        raise InputError(f"{name} touch no site: every labelled pixel lies outside the mask or the given sites")
    return _pick_majority(n, site, label, count).astype(np.int32)


def find_site_majority(sites: SiteImage, n: int, image: LabelImage) -> Int64Array:
    """Find the most frequent label (n,) under each site; 0, the background, counts like any other."""
    site, label, count = count_site_values(sites, n, lambda slices: np.asarray(image[slices]) + 1)
    return np.maximum(_pick_majority(n, site, label, count) - 1, 0)


def _pick_majority(n: int, site: Int64Array, label: Int64Array, count: Int64Array) -> Int64Array:
    """Pick the label counted most often with each site, of equal counts the last; -1 for a site without any."""
    majority = np.full(n, -1, np.int64)
    order = np.argsort(count, kind="stable")  # what is written last stays
    majority[site[order]] = label[order]
    return majority
