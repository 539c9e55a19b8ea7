"""Compiled loops over pixels: superpixels by merging, painting sites and their boundaries."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.arrays import Floats32, Ints, Longs
from napari_gsw.core.jit import arange, full, njit, njit_inner


@njit_inner
def root_of(parent: Ints, i: int) -> int:
    """The root of i in a union-find forest (n,) int32, whose paths are halved on the way."""
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@njit
def grouped(n: int, first: Ints, second: Ints) -> Ints:
    """(n,) int32 the group 0, 1, ... of each of n things, in the order of their first one.

    Parameters
    ----------
    first, second : (pairs,) int32 the things of each pair, which are of one group.
    """
    parent = arange(n, np.int32)
    for e in range(first.size):
        a = root_of(parent, first[e])
        b = root_of(parent, second[e])
        parent[max(a, b)] = min(a, b)  # a root is the first of its group
    group = np.empty(n, np.int32)
    count = 0
    for i in range(n):
        root = root_of(parent, i)
        if root == i:
            group[i] = count
            count += 1
        else:
            group[i] = group[root]
    return group


@njit
def felzenszwalb_roots(left: Ints, right: Ints, weight: Floats32, pixels: int, scale: float, smallest: int) -> Ints:
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
        a = root_of(parent, left[e])
        b = root_of(parent, right[e])
        if a != b and weight[e] <= limit[a] and weight[e] <= limit[b]:
            parent[b] = a
            size[a] += size[b]
            limit[a] = weight[e] + scale / size[a]
    for e in range(left.size):
        a = root_of(parent, left[e])
        b = root_of(parent, right[e])
        if a != b and min(size[a], size[b]) < smallest:
            parent[b] = a
            size[a] += size[b]
    for i in range(pixels):
        parent[i] = root_of(parent, i)
    return parent


@njit
def paint_into(sites: Ints, values: NDArray[np.generic], image: NDArray[np.generic]) -> None:
    """image[p] = values[sites[p]] for flat arrays; values[0] is the background. Unlike numpy, without the GIL.

    Parameters
    ----------
    sites : (pixels,) int32 from 1, 0 for none.
    values : (n + 1,) of any type; image (pixels,) of the same, written.
    """
    for p in range(sites.size):
        image[p] = values[sites[p]]


@njit
def raise_faces(first: Longs, second: Longs, edge: Ints, apart: Floats32, image: Floats32) -> None:
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
