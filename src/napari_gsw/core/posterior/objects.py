"""Objects on a background: the view of a microscopist.

The largest cluster is the background and stays one, whatever lies between its parts. Objects are the connected parts of
all the rest, outlined pixel by pixel and parted where they are joined by a neck. What a person has numbered keeps its
number: :mod:`napari_gsw.core.posterior.object_clamps`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from skimage import measure, segmentation

from napari_gsw.core.arrays import Floats, Ints, Mask
from napari_gsw.core.image.object_signal import OBJECT
from napari_gsw.core.image.spacing import Spacing, pixel_widths
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.posterior.object_borders import slopes, standing_out
from napari_gsw.core.posterior.object_clamps import clamped_numbers, clamped_pixels, free_numbers, without_small

DEPTH_BLUR, LIGHT_BLUR, LIGHT_WEIGHT = 0.5, 2.0, 0.5
LEAST_DEPTH, LEAST_LIGHT = 0.5, 0.1


def objects_of(
    problem: Problem,
    clusters: NDArray[np.integer],
    smallest: int,
    neck: float,
    seeds: Ints | None,
    background: int | None = None,
    distinction: float = 0.0,
) -> Ints:
    """(\\*shape,) the objects of an image in memory, however its sites were made; as :func:`object_labels`."""
    if problem.coloured:
        return coloured_objects(problem, clusters, smallest, seeds)
    return object_labels(problem, clusters, smallest, neck, seeds, background, distinction)


def object_labels(
    problem: Problem,
    clusters: NDArray[np.integer],
    smallest: int = 0,
    neck: float = 0.0,
    seeds: Ints | None = None,
    background: int | None = None,
    distinction: float = 0.0,
) -> Ints:
    """(\\*shape,) label image: 0 for the background, objects 1, 2, ... in the order of their first pixel.

    Parameters
    ----------
    clusters : (n,) whole numbers; sites with equal numbers share a cluster.
    smallest : objects of fewer pixels are background.
    neck : an object is parted where it is thinner (and darker) than this share of the smaller of the two parts; 0
        leaves what touches together.
    seeds : (n,) numbers > 0 of sites that a person has clamped. What holds them has their number, however small it is;
        clamped sites of the background are shown too. The other objects take the numbers that are left.
    background : the cluster that is the background; None takes the one with most pixels of this image.
    distinction : objects that are not so distinct, all together, are background; 0 keeps all.
    """
    names, numbers = np.unique(clusters, return_inverse=True)
    clamps = clamped_pixels(problem.site_image, seeds)
    look = cluster_looks(problem, numbers, None if clamps is None else seeds)
    image = outlined(problem.site_image, problem.signal, look)
    inside = image >= 0
    common = np.bincount(image[inside]).argmax() if background is None else np.searchsorted(names, background)
    parts = without_small(measure.label(inside & (image != common), connectivity=1), smallest, clamps)
    if neck > 0 and parts.any():
        parts = parted(parts > 0, problem.signal, neck, problem.spacing)
    if distinction > 0 and problem.signal is not None:
        parts = distinct_parts(parts, inside, problem.signal, distinction, clamps)
    return _numbered_parts(parts, image, problem.site_image, clamps)


def coloured_objects(
    problem: Problem, clusters: NDArray[np.integer], smallest: int = 0, seeds: Ints | None = None
) -> Ints:
    """(\\*shape,) label image of objects that a network has seen: what touches and has one colour is one.

    Sites are as fine as the borders of objects here. What the network takes for background, in the mean over all of its
    pixels, is background whatever its colour.

    Parameters
    ----------
    clusters : (n,) the colour of each site. smallest, seeds : as for :func:`object_labels`.
    """
    assert problem.signal is not None
    sites = problem.site_image
    clamps = clamped_pixels(sites, seeds)
    image = np.concatenate(([-1], np.unique(clusters, return_inverse=True)[1]))[sites]
    parts: Ints = measure.label(image + 1, background=0, connectivity=1).astype(np.int32)
    light = np.bincount(parts.ravel(), problem.signal.ravel()) / np.maximum(np.bincount(parts.ravel()), 1)
    parts = without_small(np.where(light[parts] >= OBJECT / 2, parts, 0), smallest, clamps)
    return _numbered_parts(parts, image, sites, clamps)


def background_sites(problem: Problem, clusters: NDArray[np.integer]) -> Mask:
    """(n,) which sites are background: the largest cluster, or what a network that has seen objects takes for it.

    Parameters
    ----------
    clusters : (n,) whole numbers; sites with equal numbers share a cluster.
    """
    if not problem.coloured:
        return np.asarray(clusters == largest_cluster(problem, clusters))
    assert problem.signal is not None
    sites = problem.site_image
    light = np.bincount(sites.ravel(), problem.signal.ravel(), problem.n + 1)[1:]
    return np.asarray(2 * light < OBJECT * np.bincount(sites.ravel(), minlength=problem.n + 1)[1:])


def _numbered_parts(parts: Ints, image: NDArray[np.integer], sites: Ints, clamps: Ints | None) -> Ints:
    """(\\*shape,) parts with the numbers of the clamps that they hold, the others with those that are left."""
    if clamps is None:
        return by_first_pixel(parts)
    own = clamped_numbers(parts, image, sites, clamps)
    free = by_first_pixel(np.where(own > 0, 0, parts))
    table = np.concatenate(([0], free_numbers(int(free.max()), own[own > 0]))).astype(np.int32)
    return np.where(own > 0, own, table[free])


def distinct_parts(
    parts: Ints, inside: Mask, light: NDArray[np.float32], distinction: float, clamps: Ints | None = None
) -> Ints:
    """(\\*shape,) the parts that stand out, and those that hold a clamp (\\*shape,); the others become 0."""
    kept = standing_out(slopes(parts, inside, light), distinction, parts.ndim)
    if clamps is not None:
        kept[parts[clamps > 0]] = True
    kept[0] = False
    return np.where(kept[parts], parts, 0)


def by_first_pixel(parts: Ints) -> Ints:
    """(\\*shape,) parts numbered 1, 2, ... in the order of their first pixel, whatever they were called; 0 stays 0."""
    names, first, index = np.unique(parts, return_index=True, return_inverse=True)
    number = np.zeros(len(names), np.int32)
    objects = np.flatnonzero(names > 0)
    number[objects[np.argsort(first[objects])]] = np.arange(len(objects)) + 1
    return number[index].reshape(parts.shape)


def largest_cluster(problem: Problem, clusters: NDArray[np.integer]) -> int:
    """The cluster (n,) with most pixels, in all images of a problem: what is background in one is so in the others."""
    names, numbers = np.unique(clusters, return_inverse=True)
    pixels = np.ones(problem.n) if problem.graph is None else problem.graph.pixels
    return int(names[np.bincount(numbers, pixels).argmax()])


class ClusterLook(NamedTuple):
    """What a pixel is compared with to find its cluster.

    Attributes
    ----------
    clusters : (n,) cluster of each site, from 0.
    near : (n, clusters) whether a site is in a cluster or touches it.
    mean : (clusters,) signal.
    """

    clusters: NDArray[np.integer]
    near: NDArray[np.bool_]
    mean: Floats


def cluster_looks(problem: Problem, clusters: NDArray[np.integer], seeds: Ints | None = None) -> ClusterLook:
    """What the clusters, numbered from 0 without gaps, look like.

    A site that is clamped (`seeds` (n,) > 0) is as if it touched no other cluster: its pixels are the person's.
    """
    k, n = int(clusters.max()) + 1, problem.n
    near = np.zeros((n, k), bool)
    near[np.arange(n), clusters] = True
    i, j = problem.edges.T
    near[i, clusters[j]] = near[j, clusters[i]] = True
    if seeds is not None:
        near[seeds > 0] = clusters[seeds > 0, np.newaxis] == np.arange(k)
    if problem.graph is None:
        return ClusterLook(clusters, near, np.zeros(k))
    pixels = problem.graph.pixels
    light = np.bincount(clusters, problem.graph.means[:, 0] * pixels, k)
    return ClusterLook(clusters, near, np.asarray(light / np.bincount(clusters, pixels, k)))


def outlined(sites: Ints, light: NDArray[np.float32] | None, look: ClusterLook) -> NDArray[np.int64]:
    """(\\*shape,) cluster of each pixel of an image or of a part of it, -1 where there is no site.

    A pixel of a site that touches another cluster goes to the one of these clusters whose mean signal is nearest: sites
    are coarser than the borders of objects.
    """
    image = np.concatenate(([-1], look.clusters))[sites]
    if light is None:
        return image
    border = np.concatenate(([False], look.near.sum(axis=1) > 1))[sites]
    gap = np.abs(light[border][:, np.newaxis] - look.mean)
    gap[~look.near[sites[border] - 1]] = np.inf
    image[border] = gap.argmin(axis=1)
    return image


def parted(inside: NDArray[np.bool_], light: NDArray[np.float32] | None, neck: float, spacing: Spacing = None) -> Ints:
    """(\\*shape,) the parts of a mask, divided at necks.

    A landscape whose height is the logarithm of the depth inside the mask plus that of the brightness: a ridge between
    two peaks that is lower than the smaller one by the factor `neck` divides them, whatever their size.
    """
    from scipy import ndimage
    from skimage.morphology import local_maxima, reconstruction

    middle = (slice(1, -1),) * inside.ndim
    depth = ndimage.distance_transform_edt(np.pad(inside, 1, mode="edge"), sampling=spacing)[middle]
    widths = pixel_widths(DEPTH_BLUR, inside.ndim, spacing)
    height = np.log(np.maximum(ndimage.gaussian_filter(depth, widths), LEAST_DEPTH))
    if light is not None:
        bright = ndimage.gaussian_filter(light / OBJECT, pixel_widths(LIGHT_BLUR, inside.ndim, spacing))
        height += LIGHT_WEIGHT * np.log(np.maximum(bright, LEAST_LIGHT))
    floor = height.min() - 1
    land = np.where(inside, height, floor).astype(np.float32)
    lower = np.maximum(land + np.log(neck), floor).astype(np.float32)
    peaks = local_maxima(reconstruction(lower, land), connectivity=inside.ndim) & inside
    return np.asarray(
        segmentation.watershed(-land, measure.label(peaks, connectivity=inside.ndim), mask=inside), dtype=np.int32
    )
