"""An image -> one value for each of its sites: means of channels, the commonest label."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_gsw.core.array_types import Float32Array, Float64Array, Int32Array, Int64Array, LabelImage, Sites
from napari_gsw.core.errors import InputError, to_array
from napari_gsw.core.image.lazy import is_lazy, read
from napari_gsw.core.image.normalized_image import channels_last
from napari_gsw.core.sites.adjacency_kernels import sum_over_sites
from napari_gsw.core.sites.blocked_labels import SiteImage, count_site_values


def mean_per_site(values: NDArray[np.generic], sites: Sites) -> Float64Array:
    """Mean of each channel of `values`, (\\*shape, C), over each site: (n, C)."""
    flat = values if values.dtype == np.float32 else np.asarray(values, dtype=np.float64)
    rows = np.ascontiguousarray(flat).reshape(sites.size, -1)
    return mean_and_count_per_site(rows, np.ascontiguousarray(sites, dtype=np.int32).ravel(), int(sites.max()))[0]


def mean_and_count_per_site(
    values: Float32Array | Float64Array, sites: Int32Array, n: int
) -> tuple[Float64Array, Int64Array]:
    """(n, C) means of values (pixels, C) over sites (pixels,) numbered 1..n, and (n,) how many pixels each has."""
    total, pixels = sum_over_sites(values, sites, n)
    return total / np.maximum(pixels, 1)[:, np.newaxis], pixels


def mean_channels_per_site(image: NDArray[Any], axes: str, sites: Sites) -> Float64Array:
    """Mean of the image's own values over each site, (n, channels)."""
    return mean_per_site(channels_last(image, axes).astype(np.float64), sites)


def check_label_image(image: ArrayLike, shape: tuple[int, ...], name: str) -> Any:
    """A label image, in memory or lazy, or an InputError if it has not the image's shape or no whole numbers."""
    labels: Any = image if is_lazy(image) else to_array(name, image)
    if tuple(labels.shape) != shape or labels.dtype.kind not in "bui":
        raise InputError(
            f"{name} must be whole numbers of the image's shape: {shape}, not {labels.shape} ({labels.dtype})"
        )
    return labels


def find_site_labels(sites: SiteImage, n: int, image: ArrayLike, name: str) -> Int32Array:
    """Label image -> (n,) the commonest non-zero label under each site, -1 where there is none.

    Parameters
    ----------
    sites : (\\*shape,) of n sites, in memory or as a mosaic.
    image : (\\*shape,) whole numbers >= 0, in memory or lazy.
    name : what the image is to the user, for the sentence that refuses it.
    """
    labels = check_label_image(image, sites.shape, name)
    any_painted = False

    def part(where: tuple[slice, ...]) -> LabelImage:
        nonlocal any_painted
        here = read(labels, where)
        if here.min() < 0 or here.max() > np.iinfo(np.int32).max:
            raise InputError(f"{name} must be numbers in [0, 2147483647], not {here.min()} to {here.max()}")
        any_painted |= bool(here.any())
        return here

    site, label, count = count_site_values(sites, n, part)
    if not len(site) and any_painted:
        raise InputError(f"{name} touch no site: every labelled pixel lies outside the mask or the given sites")
    return pick_majority(n, site, label, count).astype(np.int32)


def find_site_majority(sites: SiteImage, n: int, image: LabelImage) -> Int64Array:
    """(n,) the commonest number of a label image under each site; 0, the background, is as good as any."""
    site, number, count = count_site_values(sites, n, lambda where: np.asarray(image[where]) + 1)
    return np.maximum(pick_majority(n, site, number, count) - 1, 0)


def pick_majority(n: int, site: Int64Array, label: Int64Array, count: Int64Array) -> Int64Array:
    """(n,) of each site the label that was counted most often with it, -1 for a site without any.

    Parameters
    ----------
    site, label, count : (pairs,) how often a label lies on a site; of equal counts the last pair wins.
    """
    winner = np.full(n, -1, np.int64)
    order = np.argsort(count, kind="stable")  # the commonest comes last and stays
    winner[site[order]] = label[order]
    return winner
