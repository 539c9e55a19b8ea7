"""Values of an image for each of its sites: means of channels, the most frequent label."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_gsw.core.array_types import Float32Array, Float64Array, Int32Array, Int64Array, LabelImage, Sites
from napari_gsw.core.errors import InputError, to_array
from napari_gsw.core.image.lazy import is_lazy, read
from napari_gsw.core.image.normalized_image import channels_last
from napari_gsw.core.sites.blocked_labels import SiteImage, count_site_values
from napari_gsw.core.special import sum_by_group


def mean_per_site(values: NDArray[np.generic], sites: Sites) -> Float64Array:
    """Compute the mean (n, C) of each channel of `values` (*shape, C) over each site."""
    flat = values if values.dtype == np.float32 else np.asarray(values, dtype=np.float64)
    rows = np.ascontiguousarray(flat).reshape(sites.size, -1)
    return mean_and_count_per_site(rows, np.ascontiguousarray(sites, dtype=np.int32).ravel(), int(sites.max()))[0]


def mean_and_count_per_site(
    values: Float32Array | Float64Array, sites: Int32Array, n: int
) -> tuple[Float64Array, Int64Array]:
    """Compute the means (n, C) of values (pixels, C) over sites (pixels,) 1..n, and count the pixels (n,) of each."""
    n_pixels = np.bincount(sites, minlength=n + 1)[1:]
    return sum_by_group(values, sites, n + 1)[1:] / np.maximum(n_pixels, 1)[:, np.newaxis], n_pixels


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

    Parameters
    ----------
    sites, image : (*shape,)
        The image, in memory or lazy, holds whole numbers >= 0.
    name : str
        Name of the image for errors.
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
