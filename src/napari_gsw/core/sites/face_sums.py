"""A map of pixels -> what it says along the boundary of every two sites that touch."""

from __future__ import annotations

import numpy as np

from napari_gsw.core.arrays import Floats, Floats32, Ints, Sites
from napari_gsw.core.image.spacing import Spacing, face_areas
from napari_gsw.core.sites.face_kernels import face_sums


def sums_over_faces(
    values: Floats32, sites: Sites, edges: Ints, *, largest: bool = False, spacing: Spacing = None
) -> Floats:
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
    return face_sums(numbers, plain, start, right, face_areas(spacing, sites.ndim), largest)
