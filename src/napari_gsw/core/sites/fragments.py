"""Sites of an image in which a network has found objects: fragments of objects, and blocks of background.

A fragment is the basin of one peak of the network's map of object centres. An object is one fragment or a few.
"""

from __future__ import annotations

import numpy as np
from skimage import measure, segmentation

from napari_gsw.core.array_types import BoolArray, Float32Array, Int32Array, Sites
from napari_gsw.core.sites.superpixels import label_connected

# Pixels of higher probability belong to objects.
MIN_PROBABILITY = 0.5
# Width in pixels of the blur of the map of centres, and the height of a peak above the saddle to a higher one.
BLUR, MIN_RISE = 0.7, 0.03
# Side in pixels of a block of background.
BLOCK = 16


def find_fragments(probability: Float32Array, centre: Float32Array) -> Int32Array:
    """Find the fragments of objects.

    Parameters
    ----------
    probability, centre : (h, w) float32
        Probability of an object, and how near a pixel is to the centre of its object.

    Returns
    -------
    (h, w) int32
        Fragments 1, 2, ..., 0 for the background.
    """
    from scipy import ndimage
    from skimage.morphology import local_maxima, reconstruction

    covered = probability > MIN_PROBABILITY
    if not covered.any():
        return np.zeros(probability.shape, np.int32)
    height = np.where(covered, ndimage.gaussian_filter(centre, BLUR), -1).astype(np.float32)
    lowered = np.maximum(height - np.float32(MIN_RISE), np.float32(-1))
    peaks = measure.label(local_maxima(reconstruction(lowered, height), connectivity=2) & covered, connectivity=2)
    return np.asarray(segmentation.watershed(-height, peaks, mask=covered), dtype=np.int32)


def make_object_sites(fragments: Int32Array, mask: BoolArray) -> Sites:
    """Make sites of the fragments and the blocks of background (h, w): 1..n, 0 outside the mask."""
    rows, columns = np.indices(fragments.shape) // BLOCK
    blocks = rows * (columns.max() + 1) + columns + 1
    return label_connected(np.where(mask, np.where(fragments > 0, fragments, int(fragments.max()) + blocks), 0))


def mark_fragments(sites: Sites, fragments: Int32Array) -> BoolArray:
    """Mark the sites (n,) most of whose pixels lie in fragments."""
    n_pixels = np.bincount(sites.ravel())[1:]
    n_covered = np.bincount(sites.ravel(), (fragments > 0).ravel())[1:]
    return np.asarray(2 * n_covered > n_pixels)
