"""Objects that a person has numbered: which pixels of the view of objects belong to which clamp.

A clamp is more than what the view makes of the clusters: an object that holds clamped sites has their number, a clamped
patch of the background is shown, and no object has two numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from skimage import measure, segmentation

from napari_gsw.core.array_types import BoolArray, Float64Array, Int32Array
from napari_gsw.core.graph.object_model import COLOURS
from napari_gsw.core.graph.region_graph import group_connected
from napari_gsw.core.image.foreground_signal import OBJECT_SIGNAL
from napari_gsw.core.image.spacing import Spacing, pixel_widths
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.partitions import canonical_labels
from napari_gsw.core.posterior.object_contrast import find_contrasting_objects, measure_contrast
from napari_gsw.core.special import expit


def paint_clamps(sites: Int32Array, seeds: Int32Array | None) -> Int32Array | None:
    """(\\*shape,) number to which each pixel is clamped, 0 for the free ones; None if there is no clamp.

    Parameters
    ----------
    sites : (\\*shape,) sites from 1, 0 for none. seeds : (n,) numbers > 0 of clamped sites; others are free.
    """
    if seeds is None or not (seeds > 0).any():
        return None
    clamps: Int32Array = np.concatenate(([0], np.maximum(seeds, 0))).astype(np.int32)[sites]
    return clamps


def remove_small_objects(parts: Int32Array, smallest: int, clamps: Int32Array | None) -> Int32Array:
    """(\\*shape,) the parts that have `smallest` pixels or a clamp; 0 for the others."""
    small = np.bincount(parts.ravel()) < smallest
    if clamps is not None:
        small[np.unique(parts[clamps > 0])] = False
    return np.where(small[parts], 0, parts)


def label_clamped_objects(
    parts: Int32Array, clusters: NDArray[np.integer], sites: Int32Array, clamps: Int32Array
) -> Int32Array:
    """(\\*shape,) number of the clamp that each pixel's object holds, 0 for the objects and the background without one.

    A clamped site is held by the part in which most of its pixels are: a neck may cut through it. A part with one clamp
    has its number. In a part with several, each begins with the connected pixels of the cluster
    that holds it, and what is left goes to the nearest within the part. Clamped pixels that are in no part, being in
    the background, are shown by themselves.

    Parameters
    ----------
    parts : (\\*shape,) objects from 1, 0 for the background. clusters : (\\*shape,) cluster of each pixel, -1 for none.
    sites : (\\*shape,) sites from 1. clamps : (\\*shape,) as :func:`clamped_pixels` gives them.
    """
    held = clamps > 0
    shares, count = np.unique(np.stack((sites[held], clamps[held], parts[held])), axis=1, return_counts=True)
    order = np.lexsort((-count, shares[0]))
    most = order[np.unique(shares[0, order], return_index=True)[1]]
    pairs = np.unique(shares[:0:-1, most], axis=1)  # the part of each site, and its clamp
    pairs = pairs[:, pairs[0] > 0]
    several = np.bincount(pairs[0], minlength=int(parts.max()) + 1) > 1
    number = np.zeros(len(several), np.int32)
    number[pairs[0]] = pairs[1]
    result = np.where(several[parts], 0, number[parts])
    contested = several[parts]
    if contested.any():
        cores = measure.label(np.where(contested, clusters + 1, 0), background=0, connectivity=1)
        name = np.zeros(int(cores.max()) + 1, np.int32)
        name[cores[held & contested]] = clamps[held & contested]
        begin = np.where(contested, np.where(held, clamps, name[cores]), 0)
        result[contested] = segmentation.watershed(np.zeros(parts.shape, np.uint8), begin, mask=contested)[contested]
    result[held] = clamps[held]
    numbers: Int32Array = result.astype(np.int32)
    return numbers


def find_free_labels(count: int, clamps: NDArray[np.integer]) -> Int32Array:
    """(count,) numbers 1, 2, ... without those of the clamps.

    >>> free_numbers(3, np.array([2, 7])).tolist()
    [1, 3, 4]
    """
    taken = np.unique(clamps)
    return np.setdiff1d(np.arange(1, count + len(taken) + 1), taken)[:count].astype(np.int32)


# Two fragments are shown as one object if they are so with a probability above this: more than one half, since two
# objects taken for one are both lost, and of one that is cut the larger part often remains.
MERGE_PROBABILITY = 0.55
# Fitted by research/training/objects.py to touching fragments of 173 pictures of nuclei, with networks and forests that had
# not seen the picture; and what is never sure.
CALIBRATION_SLOPES, CALIBRATION_SHIFT = (1.15, 0.27), 0.64
MIN_PROBABILITY = 0.002


def same_object_probability(problem: Problem, draws: Int32Array) -> Float64Array:
    """(m,) probability that the ends of an edge have one colour, from states (d, n) of the chains.

    Of each end its probabilities given all the others in a state, averaged over the states: of two fragments that touch
    nothing else they are right with one state already, where shares of states would need hundreds.
    """
    i, j = problem.edges.T
    total = np.zeros(len(problem.edges))
    rows = np.arange(problem.n)
    for state in draws:
        colours = max(COLOURS, int(state.max()) + 1)
        pull = np.bincount(i * colours + state[j], problem.beta, problem.n * colours)
        pull += np.bincount(j * colours + state[i], problem.beta, problem.n * colours)
        weight = np.exp(pull.reshape(problem.n, colours) - pull.reshape(problem.n, colours).max(axis=1)[rows, None])
        weight /= weight.sum(axis=1, keepdims=True)
        total += (weight[i, state[j]] + weight[j, state[i]]) / 2
    return total / max(len(draws), 1)


def calibrate(probability: Float64Array) -> Float64Array:
    """(k,) probabilities that fragments are one object, as often right as they say.

    The log odds of the calibrated probability are ``SLOPES[0] log p - SLOPES[1] log(1 - p) + SHIFT``.

    Parameters
    ----------
    probability : (k,) of the posterior, which is too sure where it says that fragments are one: of three that touch
        each other every pair vouches for the third.
    """
    p = np.clip(probability, MIN_PROBABILITY, 1 - MIN_PROBABILITY)
    calibrated = expit(CALIBRATION_SLOPES[0] * np.log(p) - CALIBRATION_SLOPES[1] * np.log1p(-p) + CALIBRATION_SHIFT)
    return np.asarray(np.where(np.isnan(probability), np.nan, calibrated))


def decode_objects(problem: Problem, together: Float64Array, seeds: Int32Array) -> Int32Array | None:
    """(n,) a colouring in which two touching sites have one colour if that is likely; None if there is none.

    Parameters
    ----------
    together : (m,) probability that the ends of an edge have one colour.
    seeds : (n,) the numbers of clamped sites, -1 for free ones: those of one number have a colour of their own.
    """
    i, j = problem.edges.T
    kept = (together > MERGE_PROBABILITY) & ((seeds[i] == seeds[j]) | (seeds[i] < 0) | (seeds[j] < 0))
    part = group_connected(problem.n, problem.edges[kept])
    count = int(part.max()) + 1
    colour = np.full(count, -1)
    numbers = np.unique(seeds[seeds >= 0])
    held = np.unique(np.stack((part, seeds))[:, seeds >= 0], axis=1)
    if len(np.unique(held[0])) < held.shape[1]:
        return None  # likely pairs would join what a person holds apart
    colour[held[0]] = np.searchsorted(numbers, held[1])
    between = np.unique(np.sort(np.stack((part[i], part[j])), axis=0)[:, part[i] != part[j]], axis=1)
    ends, others = np.hstack((between, between[::-1]))
    near = csr_array((np.ones(len(ends)), (ends, others)), shape=(count, count))
    for one in np.argsort(-np.diff(near.indptr), kind="stable"):
        if colour[one] < 0:
            taken = colour[near.indices[near.indptr[one] : near.indptr[one + 1]]]
            free = np.setdiff1d(np.arange(len(numbers), max(COLOURS, len(numbers) + 1)), taken)
            if not len(free):
                return None
            colour[one] = free[0]
    return canonical_labels(colour[part].astype(np.int32))


DEPTH_BLUR, INTENSITY_BLUR, INTENSITY_WEIGHT = 0.5, 2.0, 0.5
MIN_DEPTH, MIN_INTENSITY = 0.5, 0.1


def find_objects(
    problem: Problem,
    clusters: NDArray[np.integer],
    smallest: int,
    neck: float,
    seeds: Int32Array | None,
    background: int | None = None,
    distinction: float = 0.0,
) -> Int32Array:
    """(\\*shape,) the objects of an image in memory, however its sites were made; as :func:`object_labels`."""
    if problem.has_fragments:
        return label_coloured_objects(problem, clusters, smallest, seeds)
    return label_objects(problem, clusters, smallest, neck, seeds, background, distinction)


def label_objects(
    problem: Problem,
    clusters: NDArray[np.integer],
    smallest: int = 0,
    neck: float = 0.0,
    seeds: Int32Array | None = None,
    background: int | None = None,
    distinction: float = 0.0,
) -> Int32Array:
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
    clamps = paint_clamps(problem.site_image, seeds)
    look = cluster_appearance(problem, numbers, None if clamps is None else seeds)
    image = assign_pixels(problem.site_image, problem.signal, look)
    inside = image >= 0
    common = np.bincount(image[inside]).argmax() if background is None else np.searchsorted(names, background)
    parts = remove_small_objects(measure.label(inside & (image != common), connectivity=1), smallest, clamps)
    if neck > 0 and parts.any():
        parts = split_at_necks(parts > 0, problem.signal, neck, problem.spacing)
    if distinction > 0 and problem.signal is not None:
        parts = keep_distinct_objects(parts, inside, problem.signal, distinction, clamps)
    return _number_objects(parts, image, problem.site_image, clamps)


def label_coloured_objects(
    problem: Problem, clusters: NDArray[np.integer], smallest: int = 0, seeds: Int32Array | None = None
) -> Int32Array:
    """(\\*shape,) label image of objects that a network has seen: what touches and has one colour is one.

    Sites are as fine as the borders of objects here. What the network takes for background, in the mean over all of its
    pixels, is background whatever its colour.

    Parameters
    ----------
    clusters : (n,) the colour of each site. smallest, seeds : as for :func:`object_labels`.
    """
    assert problem.signal is not None
    sites = problem.site_image
    clamps = paint_clamps(sites, seeds)
    image = np.concatenate(([-1], np.unique(clusters, return_inverse=True)[1]))[sites]
    parts: Int32Array = measure.label(image + 1, background=0, connectivity=1).astype(np.int32)
    light = np.bincount(parts.ravel(), problem.signal.ravel()) / np.maximum(np.bincount(parts.ravel()), 1)
    parts = remove_small_objects(np.where(light[parts] >= OBJECT_SIGNAL / 2, parts, 0), smallest, clamps)
    return _number_objects(parts, image, sites, clamps)


def find_background_sites(problem: Problem, clusters: NDArray[np.integer]) -> BoolArray:
    """(n,) which sites are background: the largest cluster, or what a network that has seen objects takes for it.

    Parameters
    ----------
    clusters : (n,) whole numbers; sites with equal numbers share a cluster.
    """
    if not problem.has_fragments:
        return np.asarray(clusters == find_largest_cluster(problem, clusters))
    assert problem.signal is not None
    sites = problem.site_image
    light = np.bincount(sites.ravel(), problem.signal.ravel(), problem.n + 1)[1:]
    return np.asarray(2 * light < OBJECT_SIGNAL * np.bincount(sites.ravel(), minlength=problem.n + 1)[1:])


def _number_objects(
    parts: Int32Array, image: NDArray[np.integer], sites: Int32Array, clamps: Int32Array | None
) -> Int32Array:
    """(\\*shape,) parts with the numbers of the clamps that they hold, the others with those that are left."""
    if clamps is None:
        return number_by_first_pixel(parts)
    own = label_clamped_objects(parts, image, sites, clamps)
    free = number_by_first_pixel(np.where(own > 0, 0, parts))
    table = np.concatenate(([0], find_free_labels(int(free.max()), own[own > 0]))).astype(np.int32)
    return np.where(own > 0, own, table[free])


def keep_distinct_objects(
    parts: Int32Array,
    inside: BoolArray,
    light: NDArray[np.float32],
    distinction: float,
    clamps: Int32Array | None = None,
) -> Int32Array:
    """(\\*shape,) the parts that stand out, and those that hold a clamp (\\*shape,); the others become 0."""
    kept = find_contrasting_objects(measure_contrast(parts, inside, light), distinction, parts.ndim)
    if clamps is not None:
        kept[parts[clamps > 0]] = True
    kept[0] = False
    return np.where(kept[parts], parts, 0)


def number_by_first_pixel(parts: Int32Array) -> Int32Array:
    """(\\*shape,) parts numbered 1, 2, ... in the order of their first pixel, whatever they were called; 0 stays 0."""
    names, first, index = np.unique(parts, return_index=True, return_inverse=True)
    number = np.zeros(len(names), np.int32)
    objects = np.flatnonzero(names > 0)
    number[objects[np.argsort(first[objects])]] = np.arange(len(objects)) + 1
    return number[index].reshape(parts.shape)


def find_largest_cluster(problem: Problem, clusters: NDArray[np.integer]) -> int:
    """The cluster (n,) with most pixels, in all images of a problem: what is background in one is so in the others."""
    names, numbers = np.unique(clusters, return_inverse=True)
    pixels = np.ones(problem.n) if problem.graph is None else problem.graph.pixels
    return int(names[np.bincount(numbers, pixels).argmax()])


class ClusterAppearance(NamedTuple):
    """What a pixel is compared with to find its cluster.

    Attributes
    ----------
    clusters : (n,) cluster of each site, from 0.
    near : (n, clusters) whether a site is in a cluster or touches it.
    mean : (clusters,) signal.
    """

    clusters: NDArray[np.integer]
    near: NDArray[np.bool_]
    mean: Float64Array


def cluster_appearance(
    problem: Problem, clusters: NDArray[np.integer], seeds: Int32Array | None = None
) -> ClusterAppearance:
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
        return ClusterAppearance(clusters, near, np.zeros(k))
    pixels = problem.graph.pixels
    light = np.bincount(clusters, problem.graph.means[:, 0] * pixels, k)
    return ClusterAppearance(clusters, near, np.asarray(light / np.bincount(clusters, pixels, k)))


def assign_pixels(sites: Int32Array, light: NDArray[np.float32] | None, look: ClusterAppearance) -> NDArray[np.int64]:
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


def split_at_necks(
    inside: NDArray[np.bool_], light: NDArray[np.float32] | None, neck: float, spacing: Spacing = None
) -> Int32Array:
    """(\\*shape,) the parts of a mask, divided at necks.

    A landscape whose height is the logarithm of the depth inside the mask plus that of the brightness: a ridge between
    two peaks that is lower than the smaller one by the factor `neck` divides them, whatever their size.
    """
    from scipy import ndimage
    from skimage.morphology import local_maxima, reconstruction

    middle = (slice(1, -1),) * inside.ndim
    depth = ndimage.distance_transform_edt(np.pad(inside, 1, mode="edge"), sampling=spacing)[middle]
    widths = pixel_widths(DEPTH_BLUR, inside.ndim, spacing)
    height = np.log(np.maximum(ndimage.gaussian_filter(depth, widths), MIN_DEPTH))
    if light is not None:
        bright = ndimage.gaussian_filter(light / OBJECT_SIGNAL, pixel_widths(INTENSITY_BLUR, inside.ndim, spacing))
        height += INTENSITY_WEIGHT * np.log(np.maximum(bright, MIN_INTENSITY))
    floor = height.min() - 1
    land = np.where(inside, height, floor).astype(np.float32)
    lower = np.maximum(land + np.log(neck), floor).astype(np.float32)
    peaks = local_maxima(reconstruction(lower, land), connectivity=inside.ndim) & inside
    return np.asarray(
        segmentation.watershed(-land, measure.label(peaks, connectivity=inside.ndim), mask=inside), dtype=np.int32
    )
