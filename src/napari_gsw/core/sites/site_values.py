"""Values of an image for its sites, and for the faces between them: means, labels, and which sites touch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_gsw.core.array_types import (
    ChannelImage,
    Float32Array,
    Float64Array,
    Int8Array,
    Int32Array,
    Int64Array,
    LabelImage,
    Sites,
)
from napari_gsw.core.errors import InputError, to_array
from napari_gsw.core.image.lazy import is_lazy, read
from napari_gsw.core.image.normalized_image import channels_last
from napari_gsw.core.image.spacing import Spacing, face_areas
from napari_gsw.core.jit import full, njit, njit_inner, zeros
from napari_gsw.core.sites.blocked_labels import SiteImage, count_site_values


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
    flat_axes = 3 - sites.ndim
    z, y, x = (1.0,) * flat_axes + face_areas(spacing, sites.ndim)
    volume = np.ascontiguousarray(sites, np.int32).reshape((1,) * flat_axes + sites.shape)
    values = np.empty((sites.size, 0), np.float32) if channels is None else channels
    return _sum_faces(volume, values, int(sites.max(initial=0)), (z, y, x))


@njit
def _sum_faces(
    sites: Int32Array, channels: ChannelImage, n: int, area: tuple[float, float, float]
) -> tuple[Int32Array, Float64Array, Float64Array]:
    """Do as :func:`touching_pairs` for sites (Z, Y, X).

    Faces are first sorted by the smaller site of each pair, by counting. The neighbours of a site are then inserted
    into a short sorted row, so that a face is compared with no more than these.
    """
    start = zeros(n + 1, np.int64)
    _sort_faces(sites, channels, start, np.empty(0, np.int32), np.empty(0, np.float64), np.empty(0, np.int8))
    n_faces = start[n]
    partner, step, axis = np.empty(n_faces, np.int32), np.empty(n_faces, np.float64), np.empty(n_faces, np.int8)
    _sort_faces(sites, channels, start.copy(), partner, step, axis)

    edges = np.empty((n_faces, 2), np.int32)
    length, total = zeros(n_faces, np.float64), zeros(n_faces, np.float64)
    met_by, edge_of = full(n, -1, np.int32), np.empty(n, np.int64)  # last site that each was met by; their edge
    row = np.empty(n, np.int32)
    m = 0
    for i in range(n):
        count = 0
        for f in range(start[i], start[i + 1]):
            j = partner[f]
            if met_by[j] != i:
                met_by[j] = i
                k = count
                while k > 0 and row[k - 1] > j:
                    row[k] = row[k - 1]
                    k -= 1
                row[k] = j
                count += 1
        for k in range(count):
            edge_of[row[k]] = m + k
            edges[m + k, 0], edges[m + k, 1] = i, row[k]
        for f in range(start[i], start[i + 1]):
            e = edge_of[partner[f]]
            length[e] += area[axis[f]]
            total[e] += area[axis[f]] * step[f]
        m += count
    return edges[:m].copy(), length[:m].copy(), total[:m].copy()


@njit_inner
def _sort_faces(
    sites: Int32Array,
    channels: ChannelImage,
    start: Int64Array,
    partner: Int32Array,
    step: Float64Array,
    face_axis: Int8Array,
) -> None:
    """Count the faces of each smaller site if there is no room for them, else write their larger sites and steps.

    `start` (n + 1,) begins as zeros and becomes the first face of each site; in the second call it moves on by face.
    """
    depth, height, width = sites.shape
    flat = sites.ravel()
    is_counting = partner.size == 0
    for axis in range(3):
        offset = (height * width, width, 1)[axis]
        for z in range(depth - (axis == 0)):
            for y in range(height - (axis == 1)):
                first = (z * height + y) * width
                for p in range(first, first + width - (axis == 2)):
                    a, b = flat[p], flat[p + offset]
                    if a == b or a == 0 or b == 0:
                        continue
                    i = min(a, b) - 1
                    if is_counting:
                        start[i + 1] += 1
                        continue
                    square = 0.0
                    for c in range(channels.shape[1]):
                        change = np.float64(channels[p + offset, c] - channels[p, c])
                        square += change * change
                    partner[start[i]], step[start[i]] = max(a, b) - 1, np.sqrt(square)
                    face_axis[start[i]] = axis
                    start[i] += 1
    if is_counting:
        for i in range(1, start.size):
            start[i] += start[i - 1]


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


def mean_per_site(values: NDArray[np.generic], sites: Sites) -> Float64Array:
    """Compute the mean (n, C) of each channel of `values` (*shape, C) over each site."""
    flat = values if values.dtype == np.float32 else np.asarray(values, dtype=np.float64)
    rows = np.ascontiguousarray(flat).reshape(sites.size, -1)
    return mean_and_count_per_site(rows, np.ascontiguousarray(sites, dtype=np.int32).ravel(), int(sites.max()))[0]


def mean_and_count_per_site(
    values: Float32Array | Float64Array, sites: Int32Array, n: int
) -> tuple[Float64Array, Int64Array]:
    """Compute the means (n, C) of values (pixels, C) over sites (pixels,) 1..n, and count the pixels (n,) of each."""
    total, n_pixels = sum_over_sites(values, sites, n)
    return total / np.maximum(n_pixels, 1)[:, np.newaxis], n_pixels


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


def mean_channels_per_site(image: NDArray[Any], axes: str, sites: Sites) -> Float64Array:
    """Compute the mean (n, channels) of the image's own values over each site."""
    return mean_per_site(channels_last(image, axes).astype(np.float64), sites)


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
    is_painted = False

    def read_block(slices: tuple[slice, ...]) -> LabelImage:
        nonlocal is_painted
        block = read(labels, slices)
        if block.min() < 0 or block.max() > np.iinfo(np.int32).max:
            raise InputError(f"{name} must be numbers in [0, 2147483647], not {block.min()} to {block.max()}")
        is_painted |= bool(block.any())
        return block

    site, label, count = count_site_values(sites, n, read_block)
    if not len(site) and is_painted:
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
