"""Pixels that a person has painted -> what that means for sites."""

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
    """What a person has painted, and which sites that means.

    Attributes
    ----------
    site_image : (\\*shape,) the sites that were there.
    sites, numbers : (s,) sites that are meant, from 0, and the label of each; 0 erases.
    pixels, labels : (p,) painted pixels of these sites, as places in the flattened image, and what was painted there.
    """

    site_image: Sites
    sites: Int64Array
    numbers: Int64Array
    pixels: Int64Array
    labels: Int64Array

    def reach(self, size: NDArray[Any] | None) -> tuple[slice, ...]:
        """Where the sites that are meant lie: none reaches further from its paint than its `size` (n,) in pixels.

        Where that is not known, anywhere.

        >>> stroke = stroke_of(np.arange(1, 10)[np.newaxis], np.zeros((1, 9)), np.arange(9)[np.newaxis] == 4)
        >>> stroke.reach(np.ones(9, int)), stroke.reach(None)
        ((slice(0, 1, None), slice(3, 6, None)), (slice(0, 1, None), slice(0, 9, None)))
        """
        shape = self.site_image.shape
        if size is None or not self.pixels.size:
            return tuple(slice(0, length) for length in shape)
        far = int(size[self.sites].max())
        place = np.unravel_index(self.pixels, shape)
        return tuple(
            slice(max(0, int(axis.min()) - far), min(length, int(axis.max()) + far + 1))
            for axis, length in zip(place, shape, strict=True)
        )

    def on(self, site_image: Sites) -> Scribble:
        """The same stroke after sites were cut into those of another image: it means the pieces that it has painted."""
        here = site_image.reshape(-1)[self.pixels].astype(np.int64) - 1
        order = np.argsort(self.labels, kind="stable")  # a label comes after the eraser, and stays
        number = np.zeros(int(site_image.max()), np.int64)
        number[here[order]] = self.labels[order]
        sites = np.unique(here)
        return Scribble(site_image, sites, number[sites], self.pixels, self.labels)


def make_scribble(
    site_image: Sites,
    before: LabelImage,
    after: LabelImage,
    path: PointArray | None = None,
    size: Int64Array | None = None,
) -> Scribble:
    """A stroke from what was there without it and with it; the arguments are those of :func:`touched_sites`.

    >>> stroke = stroke_of(np.array([[1, 1, 2, 2]]), np.array([[0, 0, 0, 0]]), np.array([[0, 4, 4, 4]]))
    >>> stroke.sites.tolist(), stroke.numbers.tolist(), stroke.pixels.tolist()
    ([0, 1], [4, 4], [1, 2, 3])
    """
    pixels = np.flatnonzero(before != after)
    sites, numbers = _find_scribbled(site_image, pixels, after, path, size)
    pixels = pixels[np.isin(site_image.reshape(-1)[pixels], sites + 1)]
    return Scribble(site_image, sites, numbers, pixels, after.reshape(-1)[pixels].astype(np.int64))


def find_scribbled_sites(
    sites: Sites, before: LabelImage, after: LabelImage, path: PointArray | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The sites that a stroke has given a label.

    A site takes the label of the pixels painted in it if they are at least half of it, or if the centre of the brush
    went over it: a fine brush drawn through a site means that site. A dab that names none this way means the site with
    most of its paint.

    Parameters
    ----------
    sites : (\\*shape,) 1..n, 0 where there is no site.
    before, after : (\\*shape,) labels without and with the stroke.
    path : (p, ndim) where the centre of the brush went, in pixels.

    Returns
    -------
    sites (numbered from 0) and their labels.
    """
    return _find_scribbled(sites, np.flatnonzero(before != after), after, path)


def _find_scribbled(
    sites: Sites, pixels: Int64Array, after: LabelImage, path: PointArray | None, size: Int64Array | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """As :func:`touched_sites`, from the places (p,) that the stroke has changed in the flattened image.

    Large images are looked at nowhere else, if the `size` (n,) of each site in pixels is known.
    """
    pixels = pixels[sites.reshape(-1)[pixels] > 0]
    if not pixels.size:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    place = np.unravel_index(pixels, sites.shape)
    here, painted = sites[place].astype(np.int64), after[place].astype(np.int64)
    pairs, count = np.unique(np.stack((here, painted)), axis=1, return_counts=True)
    order = np.lexsort((count, pairs[0]))  # of several labels in a site the commonest comes last
    last = np.flatnonzero(np.diff(pairs[0][order], append=-1))
    site, wanted, times = pairs[0][order][last], pairs[1][order][last], count[order][last]
    box = tuple(slice(int(axis.min()), int(axis.max()) + 1) for axis in place)
    own = np.bincount(sites.ravel(), minlength=int(site.max()) + 1)[site] if size is None else size[site - 1]
    taken = 2 * times >= own
    if path is not None and len(path):
        taken |= np.isin(site, sites[tuple(trace_path(sites.shape, path).T)])
    paint = np.zeros(sites[box].shape, bool)
    paint[tuple(axis - part.start for axis, part in zip(place, box, strict=True))] = True
    dabs = measure.label(paint, connectivity=paint.ndim)[paint]
    named = np.unique(dabs[np.isin(here, site[taken])])
    for dab in np.setdiff1d(dabs, named):
        inside, most = np.unique(here[dabs == dab], return_counts=True)
        taken |= site == inside[np.argmax(most)]
    return site[taken] - 1, wanted[taken]


def trace_path(shape: tuple[int, ...], path: PointArray) -> NDArray[np.int64]:
    """(q, ndim) the pixels along a path (p, ndim), in order, whose points may lie several pixels apart.

    >>> path_pixels((3, 4), np.array([[0.0, 0.0], [2.0, 1.0], [2.0, 9.0]])).tolist()
    [[0, 0], [1, 0], [2, 1], [2, 2], [2, 3]]
    """
    points = np.asarray(path, dtype=float)
    steps = [points[:1]]
    for a, b in itertools.pairwise(points):
        count = max(1, int(np.ceil(np.abs(b - a).max())))
        steps.append(a + (b - a) * (np.arange(1, count + 1) / count)[:, np.newaxis])
    where = np.round(np.concatenate(steps)).astype(np.int64)
    inside = ((where >= 0) & (where < shape)).all(axis=1)
    pixels: NDArray[np.int64] = where[inside]
    return pixels


def apply_scribble(before: Sites, after: LabelImage, path: PointArray | None = None) -> Sites:
    """Superpixels after a stroke on them.

    A label that was there merges: every site that the stroke touches (as :func:`touched_sites` says) joins it. A new
    label splits: the painted pixels become a site. 0 takes the painted pixels out. Parts that no longer touch become
    sites of their own; the largest keeps the number.

    Examples
    --------
    >>> before = np.array([[1, 1, 2, 2, 3, 3]])
    >>> repainted(before, np.array([[1, 1, 1, 2, 3, 3]])).tolist()  # paint 1 over half of 2
    [[1, 1, 1, 1, 3, 3]]
    >>> repainted(before, np.array([[1, 1, 2, 9, 3, 3]])).tolist()  # paint a new label
    [[1, 1, 2, 9, 3, 3]]
    """
    changed = before != after
    wanted = np.unique(after[changed])
    known = np.isin(wanted, before)
    result = before.copy()
    for number, merge in zip(wanted.tolist(), known, strict=True):
        stroke = changed & (after == number)
        if merge and number > 0:
            joined, _ = find_scribbled_sites(before, before, np.where(stroke, number, before), path)
            result[np.isin(before, joined + 1)] = number
        else:
            result[stroke] = number
    affected = np.unique(np.concatenate((before[changed], wanted)))
    return _connected(result, affected[affected > 0])


def _connected(sites: Sites, numbers: NDArray[np.integer]) -> Sites:
    """Number the parts of some sites that have fallen apart; the largest keeps the site's number."""
    parts = measure.label(np.where(np.isin(sites, numbers), sites, 0), background=0, connectivity=1)
    flat = sites.ravel()
    size = np.bincount(parts.ravel())
    first = np.zeros(len(size), np.int64)
    first[parts.ravel()] = np.arange(flat.size)  # any pixel of a part tells its number
    owner = flat[first]
    free = int(sites.max()) + 1
    result = sites.copy()
    for number in numbers.tolist():
        mine = np.flatnonzero(owner[1:] == number) + 1
        for part in mine[np.argsort(-size[mine], kind="stable")][1:]:
            result[parts == part] = free
            free += 1
    return result


def split_sites(sites: Sites, strokes: LabelImage, channels: ChannelImage) -> tuple[Sites, Int64Array]:
    """Sites of which each has strokes of one label at most.

    A site that has more is cut by a watershed of the steps of colour in it, from its strokes. The largest piece keeps
    the site's number, the others take numbers after the last.

    Parameters
    ----------
    sites : (\\*shape,) 1..n, 0 where there is none.
    strokes : (\\*shape,) labels that were painted, 0 where nothing was.
    channels : (\\*shape, C) of the picture.

    Returns
    -------
    the sites (the same array if none has to be cut), and (n',) the old site of each new one, numbered from 0.

    Examples
    --------
    >>> sites, strokes = np.array([[1, 1, 1, 1, 2, 2]]), np.array([[3, 0, 0, 5, 5, 0]])
    >>> grey = np.array([[0.0, 0.0, 9.0, 9.0, 9.0, 9.0]])[..., np.newaxis]
    >>> divided_sites(sites, strokes, grey)[0].tolist()
    [[1, 1, 3, 3, 2, 2]]
    """
    from scipy import ndimage

    n = int(sites.max())
    mixed = find_mixed_sites(sites, strokes)
    parents = [np.arange(n)]
    if not len(mixed):
        return sites, parents[0]
    result, free = sites.copy(), n + 1
    boxes = ndimage.find_objects(np.where(np.isin(sites, mixed), sites, 0))
    for site in mixed.tolist():
        box = boxes[site - 1]
        inside = sites[box] == site
        pieces = cut_by_watershed(inside, np.where(inside, strokes[box], 0), channels[box])
        sizes = np.bincount(pieces[inside])
        for piece in np.argsort(-sizes, kind="stable")[1:].tolist():
            if sizes[piece]:
                result[box][pieces == piece] = free
                parents.append(np.array([site - 1]))
                free += 1
    return result, np.concatenate(parents)


def find_mixed_sites(sites: Sites, strokes: LabelImage) -> Int64Array:
    """Numbers of the sites (\\*shape,) in which strokes of several labels (\\*shape,) meet; 0 is no stroke.

    >>> mixed_sites(np.array([1, 1, 2, 2]), np.array([3, 5, 5, 5])).tolist()
    [1]
    """
    painted = (strokes != 0) & (sites > 0)
    pairs = np.unique(np.stack((sites[painted].astype(np.int64), strokes[painted].astype(np.int64))), axis=1)
    number, labels_in = np.unique(pairs[0], return_counts=True)
    return np.asarray(number[labels_in > 1])


def cut_by_watershed(inside: LabelImage, strokes: LabelImage, channels: ChannelImage) -> LabelImage:
    """Pieces 1, 2, ... of a part of an image, one around each stroke; 0 outside."""
    steps = np.zeros(inside.shape)
    for axis in range(inside.ndim):
        if inside.shape[axis] > 1:
            steps += np.square(np.gradient(channels.astype(np.float64), axis=axis)).sum(axis=-1)
    markers = measure.label(strokes, background=0, connectivity=1)
    pieces = segmentation.watershed(np.sqrt(steps), markers=markers, mask=inside)
    # What no stroke reaches (a site may have fallen apart) stays with the first piece.
    return np.asarray(np.where(inside & (pieces == 0), 1, pieces))
