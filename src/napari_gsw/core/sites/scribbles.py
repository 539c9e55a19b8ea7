"""Scribbles: what painted pixels mean for sites."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from skimage import measure, segmentation

from napari_gsw.core.array_types import ChannelImage, Int64Array, LabelImage, PointArray, Sites


@dataclass(frozen=True, eq=False)
class Scribble:
    """Pixels that the user has painted, and the sites that they label."""

    site_image: Sites  # (*shape,) at that time
    sites: Int64Array  # (s,) labelled sites, from 0, and the label of each; 0 erases
    numbers: Int64Array
    pixels: Int64Array  # (p,) painted pixels of these sites, as indices of the flat image, and what was painted there
    labels: Int64Array

    def bounding_box(self, size: NDArray[Any] | None) -> tuple[slice, ...]:
        """Return slices that hold the labelled sites, each connected and of `size` (n,) pixels where that is known."""
        shape = self.site_image.shape
        if size is None or not self.pixels.size:
            return tuple(slice(0, length) for length in shape)
        margin = int(size[self.sites].max())
        return tuple(
            slice(max(0, int(index.min()) - margin), min(length, int(index.max()) + margin + 1))
            for index, length in zip(np.unravel_index(self.pixels, shape), shape, strict=True)
        )

    def transfer(self, site_image: Sites) -> Scribble:
        """Return the scribble for sites that were split since: it labels the parts on which it was painted."""
        site = site_image.reshape(-1)[self.pixels].astype(np.int64) - 1
        order = np.argsort(self.labels, kind="stable")  # a label comes after the eraser, and stays
        number = np.zeros(int(site_image.max()), np.int64)
        number[site[order]] = self.labels[order]
        sites = np.unique(site)
        return Scribble(site_image, sites, number[sites], self.pixels, self.labels)


def make_scribble(
    site_image: Sites,
    before: LabelImage,
    after: LabelImage,
    path: PointArray | None = None,
    size: Int64Array | None = None,
) -> Scribble:
    """Make a scribble from the labels before and after it; see :func:`find_scribbled_sites`."""
    pixels = np.flatnonzero(before != after)
    sites, numbers = find_scribbled_sites(site_image, pixels, after, path, size)
    pixels = pixels[np.isin(site_image.reshape(-1)[pixels], sites + 1)]
    return Scribble(site_image, sites, numbers, pixels, after.reshape(-1)[pixels].astype(np.int64))


def find_scribbled_sites(
    sites: Sites, pixels: Int64Array, labels: LabelImage, path: PointArray | None = None, size: Int64Array | None = None
) -> tuple[Int64Array, Int64Array]:
    """Find the sites (s,), from 0, that a scribble labels, and the label of each.

    A site takes the label of the pixels painted in it if they are at least half of it, or if the centre of the brush
    went through it. A dab that labels no site in this way labels the site with most of its pixels.

    `pixels` (p,) are painted, as indices of the flat image, and `labels` (*shape,) those after the scribble. The centre
    of the brush went along `path` (q, ndim), in pixels. Without the size (n,) of each site, the whole image is counted.
    """
    pixels = pixels[sites.reshape(-1)[pixels] > 0]
    if not pixels.size:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    index = np.unravel_index(pixels, sites.shape)
    site_of, painted = sites[index].astype(np.int64), labels[index].astype(np.int64)
    pairs, count = np.unique(np.stack((site_of, painted)), axis=1, return_counts=True)
    order = np.lexsort((count, pairs[0]))  # the most frequent label of a site comes last
    last = order[np.flatnonzero(np.diff(pairs[0][order], append=-1))]
    (site, label), count = pairs[:, last], count[last]
    n_pixels = np.bincount(sites.ravel(), minlength=int(site.max()) + 1)[site] if size is None else size[site - 1]
    is_labelled = 2 * count >= n_pixels
    if path is not None and len(path):
        is_labelled |= np.isin(site, sites[tuple(trace_path(sites.shape, path).T)])
    box = tuple(slice(int(axis.min()), int(axis.max()) + 1) for axis in index)
    paint = np.zeros(sites[box].shape, bool)
    paint[tuple(axis - part.start for axis, part in zip(index, box, strict=True))] = True
    dabs = measure.label(paint, connectivity=paint.ndim)[paint]
    for dab in np.setdiff1d(dabs, dabs[np.isin(site_of, site[is_labelled])]):
        inside, count = np.unique(site_of[dabs == dab], return_counts=True)
        is_labelled |= site == inside[np.argmax(count)]
    return site[is_labelled] - 1, label[is_labelled]


def trace_path(shape: tuple[int, ...], path: PointArray) -> Int64Array:
    """Return the pixels (q, ndim) along a path (p, ndim) whose points may lie several pixels apart."""
    points = np.asarray(path, dtype=float)
    steps = [points[:1]]
    for a, b in itertools.pairwise(points):
        count = max(1, int(np.ceil(np.abs(b - a).max())))
        steps.append(a + (b - a) * (np.arange(1, count + 1) / count)[:, np.newaxis])
    pixels: Int64Array = np.round(np.concatenate(steps)).astype(np.int64)
    return np.asarray(pixels[((pixels >= 0) & (pixels < shape)).all(axis=1)])


def apply_scribble(before: Sites, after: LabelImage, path: PointArray | None = None) -> Sites:
    """Change superpixels by a scribble on them.

    An existing label merges: every superpixel that the scribble labels (see :func:`find_scribbled_sites`) joins it. A
    new label splits: the painted pixels become a superpixel. 0 removes the painted pixels. Parts that are no longer
    connected become superpixels of their own; the largest keeps the number.
    """
    changed = before != after
    labels = np.unique(after[changed])
    result = before.copy()
    for label, exists in zip(labels.tolist(), np.isin(labels, before), strict=True):
        painted = changed & (after == label)
        if exists and label > 0:
            joined, _ = find_scribbled_sites(before, np.flatnonzero(painted), after, path)
            painted = np.isin(before, joined + 1)
        result[painted] = label
    affected = np.unique(np.concatenate((before[changed], labels)))
    affected = affected[affected > 0]
    parts = measure.label(np.where(np.isin(result, affected), result, 0), background=0, connectivity=1)
    size = np.bincount(parts.ravel())
    site_of_part = np.zeros(len(size), result.dtype)
    site_of_part[parts.ravel()] = result.ravel()
    free = int(result.max()) + 1
    for number in affected.tolist():
        mine = np.flatnonzero(site_of_part[1:] == number) + 1
        for part in mine[np.argsort(-size[mine], kind="stable")][1:]:
            result[parts == part] = free
            free += 1
    return result


def split_sites(sites: Sites, scribbles: LabelImage, channels: ChannelImage) -> tuple[Sites, Int64Array]:
    """Split the sites (*shape,) that have scribbles of several labels by a watershed of the colour gradient.

    The largest part keeps the site's number, the others take numbers after the last. Returns the sites (the same array
    if none is split), and (n',) the old site of each new one, from 0.
    """
    from scipy import ndimage

    parents = list(range(int(sites.max())))
    mixed = find_mixed_sites(sites, scribbles)
    if not len(mixed):
        return sites, np.array(parents)
    result = sites.copy()
    boxes = ndimage.find_objects(np.where(np.isin(sites, mixed), sites, 0))
    for site in mixed.tolist():
        box = boxes[site - 1]
        inside, pixels = sites[box] == site, channels[box].astype(np.float64)
        square = np.zeros(inside.shape)
        for axis in range(inside.ndim):
            if inside.shape[axis] > 1:
                square += np.square(np.gradient(pixels, axis=axis)).sum(axis=-1)
        markers = measure.label(np.where(inside, scribbles[box], 0), background=0, connectivity=1)
        parts = segmentation.watershed(np.sqrt(square), markers=markers, mask=inside)
        parts[inside & (parts == 0)] = 1  # what no scribble reaches: a site may be unconnected
        size = np.bincount(parts[inside])
        for part in np.argsort(-size, kind="stable")[1:].tolist():
            if size[part]:
                parents.append(site - 1)
                result[box][parts == part] = len(parents)
    return result, np.array(parents)


def find_mixed_sites(sites: Sites, scribbles: LabelImage) -> Int64Array:
    """Find the numbers of the sites (*shape,) that have scribbles of several labels (*shape,)."""
    painted = (scribbles != 0) & (sites > 0)
    pairs = np.unique(np.stack((sites[painted].astype(np.int64), scribbles[painted].astype(np.int64))), axis=1)
    number, n_labels = np.unique(pairs[0], return_counts=True)
    return np.asarray(number[n_labels > 1])
