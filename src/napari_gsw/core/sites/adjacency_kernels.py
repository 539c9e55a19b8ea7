"""Compiled loops over the pixels of sites: faces between sites, sums over sites, and merging by union-find."""

from __future__ import annotations

import numpy as np

from napari_gsw.core.array_types import (
    ChannelImage,
    Float32Array,
    Float64Array,
    Int8Array,
    Int32Array,
    Int64Array,
    Sites,
)
from napari_gsw.core.image.spacing import Spacing, face_areas
from napari_gsw.core.jit import arange, full, njit, njit_inner, zeros

FaceAreas = tuple[float, float, float]  # of a face across each axis


@njit_inner
def find_root(parent: Int32Array, i: int) -> int:
    """Find the root of i in a union-find forest (n,) int32, and halve the path to it."""
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@njit
def merge_felzenszwalb(
    left: Int32Array, right: Int32Array, weight: Float32Array, n_pixels: int, scale: float, min_size: int
) -> Int32Array:
    """Merge pixels along edges by the method of Felzenszwalb and Huttenlocher (2004).

    Two components merge across an edge that is no heavier than scale / size plus the heaviest edge inside either of
    them. Afterwards, components of fewer than `min_size` pixels merge across their lightest edge.

    Parameters
    ----------
    left, right : (m,) int32
        Pixels of each edge.
    weight : (m,) float32
        In ascending order.

    Returns
    -------
    (n_pixels,) int32
        Root of the component of each pixel.
    """
    parent = arange(n_pixels, np.int32)
    size = full(n_pixels, 1, np.int32)
    limit = full(n_pixels, scale, np.float32)
    for e in range(left.size):
        a = find_root(parent, left[e])
        b = find_root(parent, right[e])
        if a != b and weight[e] <= limit[a] and weight[e] <= limit[b]:
            parent[b] = a
            size[a] += size[b]
            limit[a] = weight[e] + scale / size[a]
    for e in range(left.size):
        a = find_root(parent, left[e])
        b = find_root(parent, right[e])
        if a != b and min(size[a], size[b]) < min_size:
            parent[b] = a
            size[a] += size[b]
    for i in range(n_pixels):
        parent[i] = find_root(parent, i)
    return parent


@njit
def touching_pairs(
    sites: Int32Array, channels: ChannelImage, n: int, area: FaceAreas
) -> tuple[Int32Array, Float64Array, Float64Array]:
    """Find the pairs of sites that share faces, and sum over these faces.

    Faces are first sorted by the smaller site of each pair, by counting. The neighbours of a site are then inserted
    into a short sorted row, so that a face is compared with no more than these.

    Parameters
    ----------
    sites : (Z, Y, X) int32
        Numbered 1..n, 0 for none.
    channels : (Z * Y * X, C) float32
        The difference of two pixels is their Euclidean distance.

    Returns
    -------
    edges : (m, 2) int32
        Sites from 0, the smaller one first, sorted.
    length : (m,) float64
        Total area of the faces.
    total : (m,) float64
        Sum over the faces of the difference across them, times the area.
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


def sum_over_faces(
    values: Float32Array, sites: Sites, edges: Int32Array, *, use_maximum: bool = False, spacing: Spacing = None
) -> Float64Array:
    """Sum values over the faces between sites; a face has the mean of its two pixels.

    Parameters
    ----------
    values, sites : (*shape,)
        Sites 1..n, 0 where there is none.
    edges : (m, 2)
        Sites 0..n-1 that touch, the smaller one first, sorted. Faces of other sites do not count.
    use_maximum : bool
        A face has the larger of the values of its two pixels.
    spacing : tuple of float, optional
        Distance between pixels along each axis: faces count by their area.

    Returns
    -------
    (m,) float64
    """
    shape = (1,) * (3 - sites.ndim) + sites.shape
    return _sum_edge_faces(
        np.ascontiguousarray(values, dtype=np.float32).reshape(shape),
        np.ascontiguousarray(sites, dtype=np.int32).reshape(shape),
        np.searchsorted(edges[:, 0], np.arange(sites.max(initial=0) + 1)),
        np.ascontiguousarray(edges[:, 1], dtype=np.int32),
        face_areas(spacing, sites.ndim),
        use_maximum,
    )


@njit
def _sum_edge_faces(
    values: Float32Array, sites: Int32Array, start: Int64Array, right: Int32Array, area: FaceAreas, use_maximum: bool
) -> Float64Array:
    """Sum over faces; edges of each smaller site begin at `start` (n + 1,), `right` (m,) are their larger sites."""
    depth, height, width = sites.shape
    total = zeros(right.size, np.float64)
    for z, y, x in np.ndindex(sites.shape):
        a = sites[z, y, x]
        if a == 0:
            continue
        for axis in range(3):
            w, v, u = z + (axis == 0), y + (axis == 1), x + (axis == 2)
            if w == depth or v == height or u == width:
                continue
            b = sites[w, v, u]
            if b == a or b == 0:
                continue
            i, j = min(a, b) - 1, max(a, b) - 1
            e, end = start[i], start[i + 1]
            while e < end:
                middle = (e + end) // 2
                e, end = (middle + 1, end) if right[middle] < j else (e, middle)
            if e < start[i + 1] and right[e] == j:
                p, q = np.float64(values[z, y, x]), np.float64(values[w, v, u])
                total[e] += area[axis] * (max(p, q) if use_maximum else (p + q) / 2)
    return total


@njit
def sum_over_sites(values: ChannelImage | Float64Array, sites: Int32Array, n: int) -> tuple[Float64Array, Int64Array]:
    """Sum channels over the pixels of each site, and count the pixels.

    Parameters
    ----------
    values : (pixels, C) float32 or float64
    sites : (pixels,) int32
        From 1, 0 for none.

    Returns
    -------
    total, n_pixels : (n, C) float64 and (n,) int64
    """
    total, n_pixels = zeros((n, values.shape[1]), np.float64), zeros(n, np.int64)
    for p in range(sites.size):
        i = sites[p] - 1
        if i >= 0:
            n_pixels[i] += 1
            for c in range(values.shape[1]):
                total[i, c] += values[p, c]
    return total, n_pixels


@njit
def merge_small_regions(
    edges: Int32Array, total: Float64Array, n_pixels: Int64Array, order: Int64Array, min_size: int
) -> Int32Array:
    """Merge regions of fewer than `min_size` pixels into the neighbour of nearest mean colour, one after the other.

    Parameters
    ----------
    edges : (m, 2) int32
        Regions that touch.
    total, n_pixels : (n, C) float64 and (n,) int64
        Sums of channels and number of pixels of each region; changed.
    order : (n,) int64
        Regions from small to large.

    Returns
    -------
    (n,) int32
        Number of what each region has become, from 1 in the order of the first regions.
    """
    n = n_pixels.size
    parent = arange(n, np.int32)
    nearest, min_distance = np.empty(n, np.int32), np.empty(n, np.float64)
    has_changed = True
    while has_changed:
        has_changed = False
        nearest[:], min_distance[:] = -1, np.inf
        for e in range(edges.shape[0]):
            a, b = find_root(parent, edges[e, 0]), find_root(parent, edges[e, 1])
            if a == b or min(n_pixels[a], n_pixels[b]) >= min_size:
                continue
            distance = 0.0
            for c in range(total.shape[1]):
                step = total[a, c] / n_pixels[a] - total[b, c] / n_pixels[b]
                distance += step * step
            if distance < min_distance[a]:
                nearest[a], min_distance[a] = b, distance
            if distance < min_distance[b]:
                nearest[b], min_distance[b] = a, distance
        for i in order:
            if parent[i] != i or nearest[i] < 0 or n_pixels[i] >= min_size:
                continue
            a = find_root(parent, nearest[i])
            if a == i:
                continue
            parent[i] = a
            n_pixels[a] += n_pixels[i]
            for c in range(total.shape[1]):
                total[a, c] += total[i, c]
            has_changed = True
    number, result, count = zeros(n, np.int32), np.empty(n, np.int32), 0
    for i in range(n):
        root = find_root(parent, i)
        if number[root] == 0:
            count += 1
            number[root] = count
        result[i] = number[root]
    return result
