"""Compiled loops over pixels: superpixels by merging, painting sites and their boundaries."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

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


@njit_inner
def find_root(parent: Int32Array, i: int) -> int:
    """The root of i in a union-find forest (n,) int32, whose paths are halved on the way."""
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@njit
def group_pairs(n: int, first: Int32Array, second: Int32Array) -> Int32Array:
    """(n,) int32 the group 0, 1, ... of each of n things, in the order of their first one.

    Parameters
    ----------
    first, second : (pairs,) int32 the things of each pair, which are of one group.
    """
    parent = arange(n, np.int32)
    for e in range(first.size):
        a = find_root(parent, first[e])
        b = find_root(parent, second[e])
        parent[max(a, b)] = min(a, b)  # a root is the first of its group
    group = np.empty(n, np.int32)
    count = 0
    for i in range(n):
        root = find_root(parent, i)
        if root == i:
            group[i] = count
            count += 1
        else:
            group[i] = group[root]
    return group


@njit
def felzenszwalb_roots(
    left: Int32Array, right: Int32Array, weight: Float32Array, pixels: int, scale: float, smallest: int
) -> Int32Array:
    """Felzenszwalb and Huttenlocher's merging along edges: (pixels,) int32, the root of the component of each pixel.

    Two components merge across an edge that is no heavier than scale / size plus the heaviest edge inside either of
    them; afterwards, components under `smallest` pixels merge across their lightest edge.

    Parameters
    ----------
    left, right : (m,) int32 the two pixels of each edge.
    weight : (m,) float32 in ascending order.
    """
    parent = arange(pixels, np.int32)
    size = full(pixels, 1, np.int32)
    limit = full(pixels, scale, np.float32)
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
        if a != b and min(size[a], size[b]) < smallest:
            parent[b] = a
            size[a] += size[b]
    for i in range(pixels):
        parent[i] = find_root(parent, i)
    return parent


@njit
def paint_into(sites: Int32Array, values: NDArray[np.generic], image: NDArray[np.generic]) -> None:
    """image[p] = values[sites[p]] for flat arrays; values[0] is the background. Unlike numpy, without the GIL.

    Parameters
    ----------
    sites : (pixels,) int32 from 1, 0 for none.
    values : (n + 1,) of any type; image (pixels,) of the same, written.
    """
    for p in range(sites.size):
        image[p] = values[sites[p]]


@njit
def raise_face_values(
    first: Int64Array, second: Int64Array, edge: Int32Array, apart: Float32Array, image: Float32Array
) -> None:
    """Give the two pixels of every face between sites at least the value of the sites' edge.

    Parameters
    ----------
    first, second : (faces,) int64 the two pixels of each face.
    edge : (faces,) int32 the edge between their sites.
    apart : (m,) float32 value of each edge; NaN counts as the highest.
    image : (pixels,) float32, changed.
    """
    for f in range(first.size):
        value = apart[edge[f]]
        if not image[first[f]] >= value:
            image[first[f]] = value
        if not image[second[f]] >= value:
            image[second[f]] = value


@njit
def touching_pairs(
    sites: Int32Array, channels: ChannelImage, n: int, area: tuple[float, float, float]
) -> tuple[Int32Array, Float64Array, Float64Array]:
    """Pairs of sites that share faces, and what is at the faces.

    Faces are first sorted into the smaller site of each pair, by counting. The sites of the others are then gathered in
    a row as long as a site has neighbours, so that no face is compared with more than these.

    Parameters
    ----------
    sites : (Z, Y, X) int32 numbered 1..n, 0 for none.
    channels : (Z * Y * X, C) float32; the difference of two pixels is the Euclidean distance.
    area : of a face across each axis.

    Returns
    -------
    edges : (m, 2) int32 sites from 0, the smaller one first, sorted.
    length : (m,) float64 area of the faces, or their number where the area of each is 1.
    total : (m,) float64 sum of the differences across them, each times its area.
    """
    start = zeros(n + 1, np.int64)
    nothing = np.empty(0, np.int8)
    _faces(sites, channels, start, np.empty(0, np.int32), np.empty(0, np.float64), nothing)
    partner, step = np.empty(start[n], np.int32), np.empty(start[n], np.float64)
    # Across which axis a face lies, where that matters.
    equal = area[0] == 1.0 and area[1] == 1.0 and area[2] == 1.0
    across = nothing if equal else np.empty(start[n], np.int8)
    begin = start.copy()
    _faces(sites, channels, begin, partner, step, across)

    most = 0
    for i in range(n):
        most = max(most, start[i + 1] - start[i])
    edges = np.empty((start[n], 2), np.int32)
    length, total = zeros(start[n], np.float64), zeros(start[n], np.float64)
    met, slot = full(n, -1, np.int32), np.empty(n, np.int64)  # the last site that each was met at; its edge there
    row = np.empty(most, np.int32)
    m = 0
    for i in range(n):
        count = 0
        for f in range(start[i], start[i + 1]):
            j = partner[f]
            if met[j] != i:
                met[j] = i
                at = count
                while at > 0 and row[at - 1] > j:
                    row[at] = row[at - 1]
                    at -= 1
                row[at] = j
                count += 1
        for k in range(count):
            slot[row[k]] = m + k
            edges[m + k, 0], edges[m + k, 1] = i, row[k]
        for f in range(start[i], start[i + 1]):
            e = slot[partner[f]]
            size = 1.0 if equal else area[across[f]]
            length[e] += size
            total[e] += size * step[f]
        m += count
    return edges[:m].copy(), length[:m].copy(), total[:m].copy()


@njit_inner
def _faces(
    sites: Int32Array,
    channels: ChannelImage,
    start: Int64Array,
    partner: Int32Array,
    step: Float64Array,
    across: Int8Array,
) -> None:
    """Without room for partners, where the faces of each smaller site begin; with it, their larger sites and steps.

    Parameters
    ----------
    start : (n + 1,) int64; zeros become the first face of each site, or these move on face by face.
    partner, step : (0,) or (faces,) int32 and float64, written.
    across : (0,) or (faces,) int8 axis of each face, written if there is room.
    """
    depth, height, width = sites.shape
    flat = sites.ravel()
    counting = partner.size == 0
    for axis in range(3):
        ahead = (height * width, width, 1)[axis]
        for z in range(depth - (axis == 0)):
            for y in range(height - (axis == 1)):
                first = (z * height + y) * width
                for p in range(first, first + width - (axis == 2)):
                    here, there = flat[p], flat[p + ahead]
                    if here == there or here == 0 or there == 0:
                        continue
                    i = min(here, there) - 1
                    if counting:
                        start[i + 1] += 1
                        continue
                    square = 0.0
                    for c in range(channels.shape[1]):
                        change = np.float64(channels[p + ahead, c] - channels[p, c])
                        square += change * change
                    partner[start[i]], step[start[i]] = max(here, there) - 1, np.sqrt(square)
                    if across.size > 0:
                        across[start[i]] = axis
                    start[i] += 1
    if counting:
        for i in range(1, start.size):
            start[i] += start[i - 1]


@njit
def sum_edge_faces(
    sites: Int32Array,
    values: Float32Array,
    start: Int64Array,
    right: Int32Array,
    area: tuple[float, float, float],
    largest: bool,
) -> Float64Array:
    """(m,) float64 sum over the faces of each edge of what its two pixels say, times the face's area.

    Parameters
    ----------
    sites : (Z, Y, X) int32 from 1, 0 for none.
    values : (Z, Y, X) float32.
    start, right : (n + 1,) int64 where the edges of each smaller site begin, and (m,) int32 their larger sites in
        ascending order; sites from 0. Two sites without an edge count for nothing.
    area : of a face across each axis.
    largest : whether two pixels say the larger of their values, or their mean.
    """
    depth, height, width = sites.shape
    total = zeros(right.size, np.float64)
    for z in range(depth):
        for y in range(height):
            for x in range(width):
                here = sites[z, y, x]
                if here == 0:
                    continue
                for axis in range(3):
                    w, v, u = z + (axis == 0), y + (axis == 1), x + (axis == 2)
                    if w == depth or v == height or u == width:
                        continue
                    there = sites[w, v, u]
                    if there == here or there == 0:
                        continue
                    i, j = min(here, there) - 1, max(here, there) - 1
                    low, high = start[i], start[i + 1]
                    while low < high:
                        middle = (low + high) // 2
                        if right[middle] < j:
                            low = middle + 1
                        else:
                            high = middle
                    if low < start[i + 1] and right[low] == j:
                        one, other = np.float64(values[z, y, x]), np.float64(values[w, v, u])
                        total[low] += area[axis] * (max(one, other) if largest else (one + other) / 2)
    return total


@njit
def label_components(labels: Int32Array) -> tuple[Int32Array, int]:
    """Face-connected parts of equal labels (Z, Y, X) int32, and how many there are.

    The parts have the same shape and are numbered 1.. by their first pixel; 0 stays 0 and is no part. A pixel's parent
    is always one before it, so that the root of a part is its first pixel.
    """
    depth, height, width = labels.shape
    flat = labels.ravel()
    parent = np.empty(flat.size, np.int32)
    plane = height * width
    for z in range(depth):
        for y in range(height):
            first = z * plane + y * width
            for p in range(first, first + width):
                label = flat[p]
                parent[p] = p
                left = p > first and flat[p - 1] == label
                if left:
                    parent[p] = parent[p - 1]
                # Where left, up and the pixel between them are of one label, they have been joined already.
                if y > 0 and flat[p - width] == label and not (left and flat[p - width - 1] == label):
                    _join(parent, p, p - width)
                if z > 0 and flat[p - plane] == label and not (left and flat[p - plane - 1] == label):
                    _join(parent, p, p - plane)
    # Numbers take the place of parents; as a number is never asked for its parent, they can share the memory.
    count = 0
    for p in range(flat.size):
        if flat[p] == 0:
            parent[p] = 0
        elif parent[p] == p:
            count += 1
            parent[p] = count
        else:
            parent[p] = parent[parent[p]]
    return parent.reshape(labels.shape), count


@njit_inner
def _join(parent: Int32Array, p: int, q: int) -> None:
    """Make one tree of the two that pixels p and q are in, in a union-find forest (pixels,)."""
    a, b = find_root(parent, p), find_root(parent, q)
    if a < b:
        parent[b] = a
    else:
        parent[a] = b


@njit
def sum_over_sites(values: ChannelImage | Float64Array, sites: Int32Array, n: int) -> tuple[Float64Array, Int64Array]:
    """Sum of each channel over the pixels of each site, (n, C) float64, and the number of pixels, (n,) int64.

    Parameters
    ----------
    values : (pixels, C) float32 or float64.
    sites : (pixels,) int32 from 1, 0 for none.
    """
    total, pixels = zeros((n, values.shape[1]), np.float64), zeros(n, np.int64)
    for p in range(sites.size):
        i = sites[p] - 1
        if i >= 0:
            pixels[i] += 1
            for c in range(values.shape[1]):
                total[i, c] += values[p, c]
    return total, pixels


@njit
def merge_small_regions(
    edges: Int32Array, total: Float64Array, pixels: Int64Array, order: Int64Array, smallest: int
) -> Int32Array:
    """Parts of fewer pixels than `smallest` join the neighbour of nearest mean colour, one after the other.

    Parameters
    ----------
    edges : (m, 2) int32 parts that touch.
    total : (n, C) float64 sums of channels; changed.
    pixels : (n,) int64 of each part; changed.
    order : (n,) int64 the parts from small to large.

    Returns
    -------
    (n,) int32 number of what each part has become, from 1 in the order of the first parts.
    """
    n = pixels.size
    parent = arange(n, np.int32)
    nearest, least = np.empty(n, np.int32), np.empty(n, np.float64)
    changed = True
    while changed:
        changed = False
        for i in range(n):
            nearest[i], least[i] = -1, np.inf
        for e in range(edges.shape[0]):
            a, b = find_root(parent, edges[e, 0]), find_root(parent, edges[e, 1])
            if a == b or min(pixels[a], pixels[b]) >= smallest:
                continue
            distance = 0.0
            for c in range(total.shape[1]):
                step = total[a, c] / pixels[a] - total[b, c] / pixels[b]
                distance += step * step
            if distance < least[a]:
                nearest[a], least[a] = b, distance
            if distance < least[b]:
                nearest[b], least[b] = a, distance
        for i in order:
            if parent[i] != i or nearest[i] < 0 or pixels[i] >= smallest:
                continue
            a = find_root(parent, nearest[i])
            if a == i:
                continue
            parent[i] = a
            pixels[a] += pixels[i]
            for c in range(total.shape[1]):
                total[a, c] += total[i, c]
            changed = True
    number, count = zeros(n, np.int32), 0
    for i in range(n):
        root = find_root(parent, i)
        if number[root] == 0:
            count += 1
            number[root] = count
        nearest[i] = number[root]
    return nearest


def sum_over_faces(
    values: Float32Array, sites: Sites, edges: Int32Array, *, largest: bool = False, spacing: Spacing = None
) -> Float64Array:
    """(m,) values summed over the faces between sites, of each face the mean or the larger one of its two pixels.

    Parameters
    ----------
    values : (\\*shape,). sites : (\\*shape,) 1..n, 0 where there is none.
    edges : (m, 2) sites 0..n-1 that touch, the smaller one first, sorted.
    largest : whether the larger of two pixels counts, or their mean.
    spacing : distance between pixels along each axis, so that each face counts by its area; None for the same along
        all.
    """
    deep = (1,) * (3 - sites.ndim) + sites.shape
    count = int(sites.max()) if sites.size else 0
    start = np.searchsorted(edges[:, 0], np.arange(count + 1)).astype(np.int64)
    right = np.ascontiguousarray(edges[:, 1], dtype=np.int32)
    numbers = np.ascontiguousarray(sites, dtype=np.int32).reshape(deep)
    plain = np.ascontiguousarray(values, dtype=np.float32).reshape(deep)
    return sum_edge_faces(numbers, plain, start, right, face_areas(spacing, sites.ndim), largest)
