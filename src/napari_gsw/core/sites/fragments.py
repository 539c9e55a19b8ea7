"""Sites of an image in which a network has seen objects: fragments of objects, and blocks of background.

A fragment is what flows to one peak of the middle of objects, so that it lies in one object, and an object is one
fragment or a few.
"""

from __future__ import annotations

import numpy as np
from skimage import measure, segmentation

from napari_gsw.core.array_types import BoolArray, Float32Array, Int32Array, Sites
from napari_gsw.core.sites.superpixels import label_connected

# Pixels are of an object where that is more probable than this.
LEAST_INSIDE = 0.5
# Width in pixels of the Gaussian over the middles of objects, and how far a peak has to rise above the way to a higher
# one.
BLUR, RISE = 0.7, 0.03
# Pixels of a block of background along each axis.
BLOCK = 16


def find_fragments(inside: Float32Array, middle: Float32Array) -> Int32Array:
    """(h, w) int32 fragments of objects 1, 2, ..., 0 for the background.

    Parameters
    ----------
    inside, middle : (h, w) probability of an object, and how near a pixel is to the middle of its own.
    """
    from scipy import ndimage
    from skimage.morphology import local_maxima, reconstruction

    covered = inside > LEAST_INSIDE
    if not covered.any():
        return np.zeros(inside.shape, np.int32)
    land = np.where(covered, ndimage.gaussian_filter(middle, BLUR), -1).astype(np.float32)
    lower = np.maximum(land - np.float32(RISE), np.float32(-1))
    peaks = local_maxima(reconstruction(lower, land), connectivity=2) & covered
    return np.asarray(segmentation.watershed(-land, measure.label(peaks, connectivity=2), mask=covered), dtype=np.int32)


def make_object_sites(pieces: Int32Array, mask: BoolArray | None) -> Sites:
    """(h, w) int32 sites 1..n: the fragments, and the background in blocks; 0 outside of the mask."""
    rows, columns = np.indices(pieces.shape) // BLOCK
    blocks = rows * (columns.max() + 1) + columns + 1
    return label_connected(np.where(pieces > 0, pieces, int(pieces.max()) + blocks), mask)


def mark_fragments(sites: Sites, pieces: Int32Array) -> BoolArray:
    """(n,) which sites lie in objects, by most of their pixels."""
    n = int(sites.max())
    pixels = np.bincount(sites.ravel(), minlength=n + 1)[1:]
    covered = np.bincount(sites.ravel(), (pieces > 0).ravel(), n + 1)[1:]
    return np.asarray(2 * covered > pixels)
