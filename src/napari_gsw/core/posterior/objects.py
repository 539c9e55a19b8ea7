"""Objects on a background, pixel by pixel: outlines finer than sites, splits at necks, labels of clamped sites.

An object that holds clamped sites has their label, clamped sites of the background are shown, and no object has two
labels. Of the sites, `clusters` (n,) and `seeds` (n,) are the clusters and the labels of clamped ones, -1 for free
ones; `clamps` (\\*shape,) have the label of each clamped pixel, and 0 elsewhere.

The border of an object that stands out is a border of the image, too. A threshold cuts objects out of noise, a ramp or
blur as well, but there a border is about as steep as the rest: in a stationary Gaussian field the mean slope along a
level is 2 / sqrt(pi) = 1.13 times the root mean square of all slopes, and the means above and below the level are 2.65
standard deviations apart (3.46 in a ramp). The product of steepness and separation is the distinction of objects: about
3 in a Gaussian field, 4 to 6 in noise and ramps, more than 8 in images of nuclei. A border is also narrow: the height
of an object over the slope of its border measures the blur.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from skimage import measure, segmentation

from napari_gsw.core.array_types import BoolArray, Float64Array, Int32Array
from napari_gsw.core.blocks.assembly import (
    SIGNAL_HALO,
    Block,
    BlockContext,
    describe_borders,
    find_pieces,
    label_pieces,
    stitch_blocks,
)
from napari_gsw.core.graph.boundary_model import COLOURS
from napari_gsw.core.graph.region_graph import group_connected
from napari_gsw.core.image import lazy
from napari_gsw.core.image.block_grid import Index, crop
from napari_gsw.core.image.foreground_signal import OBJECT_SIGNAL
from napari_gsw.core.image.spacing import Spacing, pixel_widths
from napari_gsw.core.model.problem import Problem, site_pixels
from napari_gsw.core.partitions import canonical_labels
from napari_gsw.core.sites.blocked_labels import BlockedLabels, CompressedArray
from napari_gsw.core.special import expit, number_labels, sum_by_group

# Two fragments are shown as one object above this probability. It is more than one half, since of two objects taken for
# one both are lost, while the larger part of a split one often remains.
MERGE_PROBABILITY = 0.55
# Fitted by research/training/couplings.py to touching fragments of 173 images of nuclei, with networks and forests that
# had not seen the image; probabilities are clipped to [MIN_PROBABILITY, 1 - MIN_PROBABILITY].
CALIBRATION_SLOPES, CALIBRATION_SHIFT = (1.15, 0.27), 0.64
MIN_PROBABILITY = 0.002
# The landscape that is split at necks: widths of the blurs in pixels, weight of the intensity, smallest values.
DEPTH_BLUR, INTENSITY_BLUR, INTENSITY_WEIGHT = 0.5, 2.0, 0.5
MIN_DEPTH, MIN_INTENSITY = 0.5, 0.1
# Width in pixels of the Gaussian under which slopes are measured, and pixels on either side that a border takes up.
SLOPE_WIDTH, BORDER_REACH = 1.5, 3
# In an image with a smaller fraction of pixels far from borders, all pixels count as far.
MIN_ELSEWHERE = 0.02
# The limit of 2D images applies to volumes with this factor. A surface averages over more than a line does, so that
# noise, ramps and haze reach 4.4 there and not 6, while crowded nuclei that blur into each other's slices have 5.9.
VOLUME_FACTOR = 0.8
# The border of one object is at least this many times as steep as the rest.
MIN_STEEPNESS = 1.5
# A border is in focus up to this width in pixels, or for a large object, up to this fraction of its radius and at most
# the third value. All borders together have a lower limit.
SHARP, SOFT, SOFTEST = 6.0, 0.25, 8.0
ALL_SHARP, ALL_SOFT = 4.5, 0.08
# The height of a step over its slope, in units of the width of the Gaussian that has blurred it.
STEP = np.sqrt(2 * np.pi)
# Pixels read around a block: an object that reaches farther beyond a border may be cut there.
BLOCK_REACH = 96


def find_objects(
    problem: Problem,
    clusters: NDArray[np.integer],
    min_pixels: int = 0,
    neck: float = 0.0,
    seeds: Int32Array | None = None,
    background: int | None = None,
    distinction: float = 0.0,
) -> Int32Array:
    """(\\*shape,) int32 objects of an image in memory, 1, 2, ... by first pixel; clamped ones have their label.

    Other objects of fewer than `min_pixels` or less `distinction` become background, which is a cluster, by default the
    one with most pixels. Objects are split where they are thinner than the fraction `neck` of their smaller part.
    """
    sites, signal = problem.site_image, problem.signal
    clamps = paint_clamps(sites, seeds)
    names, numbers = np.unique(clusters, return_inverse=True)
    if problem.has_fragments:
        # Sites follow the borders of objects here: touching sites of one colour are one object, and what is background
        # to the network, on average over its pixels, is background whatever its colour.
        assert signal is not None
        image = np.concatenate(([-1], numbers))[sites]
        parts = measure.label(image + 1, background=0, connectivity=1).astype(np.int32)
        mean = np.bincount(parts.ravel(), signal.ravel()) / np.maximum(np.bincount(parts.ravel()), 1)
        parts = keep_objects(parts, mean >= OBJECT_SIGNAL / 2)
        parts = keep_objects(parts, np.bincount(parts.ravel()) >= min_pixels, clamps)
    else:
        image = assign_pixels(sites, signal, measure_appearance(problem, numbers, seeds))
        mask = image >= 0
        outside = np.bincount(image[mask]).argmax() if background is None else np.searchsorted(names, background)
        parts = measure.label(mask & (image != outside), connectivity=1).astype(np.int32)
        parts = keep_objects(parts, np.bincount(parts.ravel()) >= min_pixels, clamps)
        if neck > 0 and parts.any():
            parts = split_at_necks(parts > 0, signal, neck, problem.spacing)
        if distinction > 0 and signal is not None:
            contrast = measure_contrast(parts, mask, signal)
            parts = keep_objects(parts, find_contrasting_objects(contrast, distinction, parts.ndim), clamps)
    if clamps is None:
        return _number_by_first_pixel(parts)
    clamped = label_clamped_objects(parts, image, sites, clamps)
    free = _number_by_first_pixel(np.where(clamped > 0, 0, parts))
    table = np.concatenate(([0], find_free_labels(int(free.max()), clamped[clamped > 0]))).astype(np.int32)
    return np.where(clamped > 0, clamped, table[free])


def keep_objects(parts: Int32Array, is_kept: BoolArray, clamps: Int32Array | None = None) -> Int32Array:
    """Set the parts that are not kept (parts + 1,) and hold no clamp to 0."""
    if clamps is not None:
        is_kept[parts[clamps > 0]] = True
    return np.where(is_kept[parts], parts, 0)


def _number_by_first_pixel(parts: Int32Array) -> Int32Array:
    """Renumber the parts > 0 as 1, 2, ... in the order of their first pixel."""
    return canonical_labels(np.concatenate(([0], parts.ravel())).astype(np.int32))[1:].reshape(parts.shape)


def paint_clamps(sites: Int32Array, seeds: Int32Array | None) -> Int32Array | None:
    """(\\*shape,) int32 label to which each pixel is clamped, 0 for a free one; None if no seed is > 0."""
    if seeds is None or not (seeds > 0).any():
        return None
    return np.asarray(np.concatenate(([0], np.maximum(seeds, 0))).astype(np.int32)[sites])


def label_clamped_objects(
    parts: Int32Array, clusters: NDArray[np.integer], sites: Int32Array, clamps: Int32Array
) -> Int32Array:
    """Label the objects that hold a clamp by it; by pixel, `parts` are objects from 1, and `clusters` -1 for none.

    A clamped site belongs to the part that has most of its pixels, since a neck may cut through it. In a part with
    several clamps each begins with the connected pixels of its cluster, and the rest goes to the nearest of these.
    """
    is_clamped = clamps > 0
    triples, count = np.unique(
        np.stack((sites[is_clamped], clamps[is_clamped], parts[is_clamped])), axis=1, return_counts=True
    )
    order = np.lexsort((-count, triples[0]))
    largest = order[np.unique(triples[0, order], return_index=True)[1]]
    pairs = np.unique(triples[:0:-1, largest], axis=1)  # the part of each site, and its clamp
    pairs = pairs[:, pairs[0] > 0]
    label = np.zeros(int(parts.max()) + 1, np.int32)
    label[pairs[0]] = pairs[1]
    contested = (np.bincount(pairs[0], minlength=len(label)) > 1)[parts]
    result = np.where(contested, 0, label[parts])
    if contested.any():
        cores = measure.label(np.where(contested, clusters + 1, 0), background=0, connectivity=1)
        label = np.zeros(int(cores.max()) + 1, np.int32)
        label[cores[is_clamped & contested]] = clamps[is_clamped & contested]
        markers = np.where(contested, np.where(is_clamped, clamps, label[cores]), 0)
        result[contested] = segmentation.watershed(np.zeros(parts.shape, np.uint8), markers, mask=contested)[contested]
    return np.where(is_clamped, clamps, result).astype(np.int32)


def find_free_labels(count: int, used: NDArray[np.integer]) -> Int32Array:
    """(count,) int32 smallest labels >= 1 that are not used.

    >>> find_free_labels(3, np.array([2, 7])).tolist()
    [1, 3, 4]
    """
    used = np.unique(used)
    return np.setdiff1d(np.arange(1, count + len(used) + 1), used)[:count].astype(np.int32)


def find_background_sites(problem: Problem, clusters: NDArray[np.integer]) -> BoolArray:
    """(n,) sites of the largest cluster, or where a network has found fragments, those that it takes for background."""
    if not problem.has_fragments:
        return np.asarray(clusters == np.bincount(clusters, site_pixels(problem)).argmax())
    assert problem.signal is not None
    sites = problem.site_image.ravel()
    total = np.bincount(sites, problem.signal.ravel(), problem.n + 1)[1:]
    return np.asarray(2 * total < OBJECT_SIGNAL * np.bincount(sites, minlength=problem.n + 1)[1:])


class ClusterAppearance(NamedTuple):
    """Mean signal of the clusters, and the clusters that the pixels of a site may belong to."""

    clusters: NDArray[np.integer]  # (n,) from 0
    is_near: NDArray[np.bool_]  # (n, clusters) a site is in a cluster or touches it
    mean: Float64Array  # (clusters,)


def measure_appearance(
    problem: Problem, clusters: NDArray[np.integer], seeds: Int32Array | None = None
) -> ClusterAppearance:
    """Measure the mean signal of clusters 0, 1, ...; a clamped site counts as if it touched no other cluster."""
    k, n = int(clusters.max()) + 1, problem.n
    is_near = np.zeros((n, k), bool)
    is_near[np.arange(n), clusters] = True
    i, j = problem.edges.T
    is_near[i, clusters[j]] = is_near[j, clusters[i]] = True
    if seeds is not None:
        is_near[seeds > 0] = clusters[seeds > 0, np.newaxis] == np.arange(k)
    means = np.zeros(n) if problem.graph is None else problem.graph.means[:, 0]
    total = np.bincount(clusters, means * site_pixels(problem), k)
    return ClusterAppearance(clusters, is_near, np.asarray(total / np.bincount(clusters, site_pixels(problem), k)))


def assign_pixels(
    sites: Int32Array, signal: NDArray[np.float32] | None, appearance: ClusterAppearance
) -> NDArray[np.int64]:
    """(\\*shape,) cluster of each pixel of an image or a tile, -1 where there is no site.

    Sites are coarser than the borders of objects: a pixel of a site that touches other clusters goes to the one of
    these whose mean signal is nearest.
    """
    image = np.concatenate(([-1], appearance.clusters))[sites]
    if signal is not None:
        border = np.concatenate(([False], appearance.is_near.sum(axis=1) > 1))[sites]
        difference = np.abs(signal[border][:, np.newaxis] - appearance.mean)
        difference[~appearance.is_near[sites[border] - 1]] = np.inf
        image[border] = difference.argmin(axis=1)
    return image


def split_at_necks(
    mask: NDArray[np.bool_], signal: NDArray[np.float32] | None, neck: float, spacing: Spacing = None
) -> Int32Array:
    """(\\*shape,) int32 parts of a mask from 1, divided at necks, whatever their size.

    In a landscape of log depth inside the mask plus log intensity, a ridge between two peaks divides them if it is
    lower than the smaller one by the factor `neck`.
    """
    from scipy import ndimage
    from skimage.morphology import local_maxima, reconstruction

    centre = (slice(1, -1),) * mask.ndim
    depth = ndimage.distance_transform_edt(np.pad(mask, 1, mode="edge"), sampling=spacing)[centre]
    widths = pixel_widths(DEPTH_BLUR, mask.ndim, spacing)
    height = np.log(np.maximum(ndimage.gaussian_filter(depth, widths), MIN_DEPTH))
    if signal is not None:
        intensity = ndimage.gaussian_filter(signal / OBJECT_SIGNAL, pixel_widths(INTENSITY_BLUR, mask.ndim, spacing))
        height += INTENSITY_WEIGHT * np.log(np.maximum(intensity, MIN_INTENSITY))
    floor = height.min() - 1
    land = np.where(mask, height, floor).astype(np.float32)
    lower = np.maximum(land + np.log(neck), floor).astype(np.float32)
    peaks = local_maxima(reconstruction(lower, land), connectivity=mask.ndim) & mask
    markers = measure.label(peaks, connectivity=mask.ndim)
    return np.asarray(segmentation.watershed(-land, markers, mask=mask), dtype=np.int32)


def same_object_probability(problem: Problem, draws: Int32Array) -> Float64Array:
    """(m,) probability that the ends of an edge have one colour, from states (d, n) of the chains.

    Averages over the states the conditional probability of either end given all other sites. For two fragments that
    touch nothing else one state gives the exact value, where frequencies would need hundreds.
    """
    i, j = problem.edges.T
    total = np.zeros(len(problem.edges))
    for state in draws:
        n_colours = max(COLOURS, int(state.max()) + 1)
        log_weight = np.bincount(i * n_colours + state[j], problem.beta, problem.n * n_colours)
        log_weight += np.bincount(j * n_colours + state[i], problem.beta, problem.n * n_colours)
        log_weight = log_weight.reshape(problem.n, n_colours)
        weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
        weight /= weight.sum(axis=1, keepdims=True)
        total += (weight[i, state[j]] + weight[j, state[i]]) / 2
    return total / max(len(draws), 1)


def calibrate(probability: Float64Array) -> Float64Array:
    """Calibrate the posterior probability (k,) that fragments are one object; NaN stays.

    The posterior is overconfident where it joins fragments: of three that touch each other every pair supports the
    third. The calibrated log odds are ``SLOPES[0] log p - SLOPES[1] log(1 - p) + SHIFT``.
    """
    p = np.clip(probability, MIN_PROBABILITY, 1 - MIN_PROBABILITY)
    return np.asarray(
        expit(CALIBRATION_SLOPES[0] * np.log(p) - CALIBRATION_SLOPES[1] * np.log1p(-p) + CALIBRATION_SHIFT)
    )


def decode_objects(problem: Problem, same_object: Float64Array, seeds: Int32Array) -> Int32Array | None:
    """(n,) canonical colouring in which touching sites have one colour if they are probably one object.

    Clamped sites of one label have a colour of their own. Returns None if there is no such colouring: probable pairs
    (`same_object` (m,)) would join sites with different seeds, or the colours do not suffice.
    """
    i, j = problem.edges.T
    is_joined = (same_object > MERGE_PROBABILITY) & ((seeds[i] == seeds[j]) | (seeds[i] < 0) | (seeds[j] < 0))
    part = group_connected(problem.n, problem.edges[is_joined])
    count = int(part.max()) + 1
    colour = np.full(count, -1)
    seed_labels = np.unique(seeds[seeds >= 0])
    clamped = np.unique(np.stack((part, seeds))[:, seeds >= 0], axis=1)
    if len(np.unique(clamped[0])) < clamped.shape[1]:
        return None
    colour[clamped[0]] = np.searchsorted(seed_labels, clamped[1])
    pairs = np.unique(np.sort(np.stack((part[i], part[j])), axis=0)[:, part[i] != part[j]], axis=1)
    ends, others = np.hstack((pairs, pairs[::-1]))
    degree = np.bincount(ends, minlength=count)
    neighbours = np.split(others[np.argsort(ends, kind="stable")], np.cumsum(degree)[:-1])
    colours = np.arange(len(seed_labels), max(COLOURS, len(seed_labels) + 1))
    for k in np.argsort(-degree, kind="stable"):
        if colour[k] < 0:
            free = np.setdiff1d(colours, colour[neighbours[k]])
            if not len(free):
                return None
            colour[k] = free[0]
    return canonical_labels(colour[part].astype(np.int32))


# ---- objects that stand out from the background


class EdgeContrast(NamedTuple):
    """Sums over the pixels of an image, which can be added up over its tiles."""

    border: Float64Array  # (objects + 1, 2) slopes along the border of each object with the background, and pixels
    signal: Float64Array  # (objects + 1, 3) signal in each object (the first is the background), its square, and pixels
    elsewhere: Float64Array  # (2,) slopes far from borders, and pixels
    anywhere: Float64Array  # (2,) squares of all slopes, and pixels

    @property
    def distinction(self) -> float:
        """Steepness of the borders of all objects times separation of their signal."""
        steepness = float(_mean(self.border.sum(axis=0))) / max(float(np.sqrt(_mean(self.anywhere))), 1e-12)
        classes = np.stack((self.signal[0], self.signal[1:].sum(axis=0)))
        mean = _mean(classes[:, ::2])
        within = (classes[:, 1] - classes[:, 2] * mean**2).sum() / max(classes[:, 2].sum(), 1)
        return steepness * float(np.abs(mean[1] - mean[0])) / max(float(np.sqrt(max(within, 0.0))), 1e-12)


def measure_contrast(
    objects: Int32Array,
    mask: BoolArray,
    signal: NDArray[np.float32],
    core: tuple[slice, ...] | None = None,
    pieces: Int32Array | None = None,
) -> EdgeContrast:
    """Sum the slopes of a signal along the borders of objects, and elsewhere; `mask` are the pixels with a site.

    Only the pixels of `core` are summed, by the labels `pieces` (\\*core,) in place of the objects.
    """
    from scipy import ndimage

    inner = (...,) if core is None else core
    labels = objects[inner] if pieces is None else pieces
    values = signal.astype(np.float64)
    slope = ndimage.gaussian_gradient_magnitude(values, SLOPE_WIDTH)[inner]
    edge = (objects > 0) & ndimage.binary_dilation(mask & (objects == 0))
    far = (mask & ~ndimage.binary_dilation(edge, iterations=BORDER_REACH))[inner]
    edge, mask, values = edge[inner], mask[inner], values[inner]
    k = int(labels.max(initial=0)) + 1
    return EdgeContrast(
        border=_sum_by_label(labels[edge], k, slope[edge]),
        signal=_sum_by_label(labels[mask], k, values[mask], values[mask] ** 2),
        elsewhere=np.array([slope[far].sum(), far.sum()]),
        anywhere=np.array([np.square(slope[mask]).sum(), mask.sum()]),
    )


def has_contrast(contrast: EdgeContrast, min_distinction: float, ndim: int) -> bool:
    """Return whether all objects of an image together are distinct; the limit is that of 2D images."""
    return contrast.distinction >= (min_distinction if ndim == 2 else VOLUME_FACTOR * min_distinction)


def find_contrasting_objects(contrast: EdgeContrast, min_distinction: float, ndim: int) -> BoolArray:
    """(objects + 1,) objects that stand out: all of them together, and each with a steep and narrow border, if any.

    If they are not distinct together, none is: the steepest of many are so by chance.
    """
    border, signal, elsewhere, anywhere = contrast
    length = border[:, 1]
    slope, mean = _mean(border), _mean(signal[:, ::2])
    height = np.abs(mean - mean[0]) / STEP
    radius = np.sqrt(signal[:, 2] / np.pi) if ndim == 2 else np.cbrt(signal[:, 2] * 0.75 / np.pi)
    width_of_all = (height @ length) / max(slope @ length, 1e-12)
    max_width = max(ALL_SHARP, ALL_SOFT * (radius @ length) / max(length.sum(), 1))
    if not has_contrast(contrast, min_distinction, ndim) or width_of_all > max_width:
        return np.zeros(len(length), bool)
    is_rare = elsewhere[1] < MIN_ELSEWHERE * anywhere[1]
    typical_slope = float(np.sqrt(_mean(anywhere)) if is_rare else _mean(elsewhere))
    is_wide = height > slope * np.clip(SOFT * radius, SHARP, SOFTEST)
    return np.asarray((length == 0) | ((slope >= MIN_STEEPNESS * typical_slope) & ~is_wide))


def _sum_by_label(labels: Int32Array, k: int, *values: Float64Array) -> Float64Array:
    """(k, values + 1) sums of the values of each label, and its pixels."""
    return np.stack([*(np.bincount(labels, v, k) for v in values), np.bincount(labels, minlength=k)], axis=1)


def _mean(sums: Float64Array) -> Float64Array:
    """Divide sums [..., 0] by their counts [..., 1]; 0 for none."""
    return np.asarray(sums[..., 0] / np.maximum(sums[..., 1], 1))


# ---- objects of an image that was read in blocks


def label_block_objects(
    problem: Problem, clusters: NDArray[np.integer], min_pixels: int, neck: float, seeds: Int32Array, distinction: float
) -> BlockedLabels:
    """Label the objects of an image that was read in blocks, like `find_objects` of an image in memory."""
    context: BlockContext = problem.block_context
    assert problem.graph is not None
    numbers = np.unique(clusters, return_inverse=True)[1]
    appearance = measure_appearance(problem, numbers, seeds)
    background = int(np.bincount(numbers, problem.graph.pixels).argmax())
    jobs = [(context, index, problem.sites, appearance, seeds, background, neck) for index in context.grid]
    found = lazy.map_blocks(_find_block_objects, jobs, lambda done: None)
    blocks = [block for block, _, _ in found]
    object_of_piece = stitch_blocks(context, blocks)[0]
    contrasts = [contrast for _, _, contrast in found if contrast is not None]
    is_flat = None
    if distinction > 0 and contrasts:
        is_flat = find_flat_objects(object_of_piece, contrasts, distinction, len(context.grid.shape))
    pixels, clamps = np.concatenate([block.mass for block in blocks]), np.concatenate([c for _, c, _ in found])
    labels = label_stitched_objects(object_of_piece, pixels, clamps, min_pixels, is_flat)
    return label_pieces(context, blocks, labels)


def find_flat_objects(
    object_of_piece: Int32Array, contrasts: Sequence[EdgeContrast], distinction: float, ndim: int
) -> BoolArray:
    """(objects,) objects that do not stand out, from the contrast of the pieces of all blocks."""
    rows, k = object_of_piece + 1, int(object_of_piece.max(initial=-1)) + 2
    border, signal, elsewhere, anywhere = zip(*contrasts, strict=True)
    border_sums = sum_by_group(np.concatenate([sums[1:] for sums in border]), rows, k)
    signal_sums = sum_by_group(np.concatenate([sums[1:] for sums in signal]), rows, k)
    signal_sums[0] = np.sum([sums[0] for sums in signal], axis=0)
    total = EdgeContrast(border_sums, signal_sums, np.sum(elsewhere, axis=0), np.sum(anywhere, axis=0))
    return ~find_contrasting_objects(total, distinction, ndim)[1:]


def label_stitched_objects(
    object_of_piece: Int32Array,
    pixels: NDArray[np.integer],
    clamps: Int32Array,
    min_pixels: int,
    is_flat: BoolArray | None = None,
) -> Int32Array:
    """(pieces,) label of the object of each piece, 0 where the object is too small or flat and has no clamp.

    Where stitching has joined several clamps (0 for none), each clamped piece keeps its own, and others take that of
    most pixels.
    """
    k = int(object_of_piece.max(initial=-1)) + 1
    labels = np.zeros(k, np.int32)
    is_clamped = clamps > 0
    pairs, index = np.unique(np.stack((object_of_piece[is_clamped], clamps[is_clamped])), axis=1, return_inverse=True)
    # The clamp of most pixels is written last.
    order = np.argsort(np.bincount(index.ravel(), pixels[is_clamped], pairs.shape[1]), kind="stable")
    labels[pairs[0, order]] = pairs[1, order]
    is_kept = (np.bincount(object_of_piece, pixels, k) >= min_pixels) & (labels == 0)
    if is_flat is not None:
        is_kept &= ~is_flat
    labels[is_kept] = find_free_labels(int(is_kept.sum()), clamps[is_clamped])
    return np.where(is_clamped, clamps, labels[object_of_piece])


def _find_block_objects(
    context: BlockContext,
    index: Index,
    sites: BlockedLabels,
    appearance: ClusterAppearance,
    seeds: Int32Array,
    background: int,
    neck: float,
) -> tuple[Block, Int32Array, EdgeContrast | None]:
    """Find the objects in and around a block: a block of pieces, the clamp of each piece, and their contrast."""
    around, inside = context.grid.slices(index, BLOCK_REACH), context.grid.slices(index)
    core = crop(around, inside)
    signal = None
    if context.settings.signal == "objects":
        wide = context.grid.slices(index, BLOCK_REACH + SIGNAL_HALO + context.noise_reach)
        signal = np.ascontiguousarray(context.picture_of(context.pixels(wide)).channels[crop(wide, around)][..., 0])
    near_sites = sites[around]
    image = assign_pixels(near_sites, signal, appearance)
    mask = (image >= 0) & (image != background)
    if neck > 0 and mask.any():
        objects = split_at_necks(mask, signal, neck, context.spacing)
    else:
        objects = measure.label(mask, connectivity=1).astype(np.int32)
    clamp_of = np.zeros(int(objects.max()) + 1, np.int32)
    clamps = paint_clamps(near_sites, seeds)
    if clamps is not None:
        # Split the objects, so that each has one clamp at most.
        clamped = label_clamped_objects(objects, image, near_sites, clamps)
        n_labels = int(clamped.max()) + 1
        keys, number = number_labels(np.append(0, objects.astype(np.int64) * n_labels + clamped))
        clamp_of, objects = (keys % n_labels).astype(np.int32), number[1:].reshape(objects.shape).astype(np.int32)
    pieces, uncut = find_pieces(objects[core])
    block = Block(
        pieces=CompressedArray.of(pieces),
        uncut=uncut,
        mass=np.bincount(pieces.ravel(), minlength=len(uncut))[1:],
        sides=describe_borders(context, index, objects, pieces, halo=BLOCK_REACH),
    )
    contrast = None if signal is None else measure_contrast(objects, image >= 0, signal, core, pieces)
    return block, clamp_of[uncut[1:]], contrast
