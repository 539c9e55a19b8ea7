"""Objects of an image that does not fit into memory: found block by block, then stitched across the borders."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from skimage import measure

from napari_gsw.core.array_types import BoolArray, Int32Array
from napari_gsw.core.blocks.assembly import SIGNAL_HALO
from napari_gsw.core.blocks.block import Block, BlockContext, describe_borders, find_pieces
from napari_gsw.core.blocks.stitching import count_pieces_before, stitch_blocks
from napari_gsw.core.image import lazy
from napari_gsw.core.image.block_grid import Index, crop
from napari_gsw.core.image.normalized_image import NormalizedImage
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.posterior.object_contrast import EdgeContrast, find_contrasting_objects, measure_contrast
from napari_gsw.core.posterior.objects import (
    ClusterAppearance,
    assign_pixels,
    find_free_labels,
    label_clamped_objects,
    measure_appearance,
    paint_clamps,
    split_at_necks,
)
from napari_gsw.core.sites.blocked_labels import BlockedLabels, CompressedArray

# Pixels read around a block: an object that reaches farther beyond a border may be cut there.
REACH = 96


def label_block_objects(
    problem: Problem,
    clusters: NDArray[np.integer],
    min_pixels: int,
    neck: float,
    seeds: Int32Array,
    distinction: float,
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
    pixels, clamps = (
        np.concatenate([block.mass for block in blocks]),
        np.concatenate([clamps for _, clamps, _ in found]),
    )
    labels = label_stitched_objects(object_of_piece, pixels, clamps, min_pixels, is_flat)
    first = count_pieces_before(blocks)
    tables = [np.concatenate(([0], labels[first[b] : first[b + 1]])).astype(np.int32) for b in range(len(blocks))]
    return BlockedLabels(context.grid, [block.pieces for block in blocks], tables)


def find_flat_objects(
    object_of_piece: Int32Array, contrasts: Sequence[EdgeContrast], distinction: float, ndim: int
) -> BoolArray:
    """(objects,) objects that do not stand out, from the contrast of the pieces of all blocks."""
    k = int(object_of_piece.max(initial=-1)) + 1
    border, signal = np.zeros((k + 1, 2)), np.zeros((k + 1, 3))
    np.add.at(border, object_of_piece + 1, np.concatenate([contrast.border[1:] for contrast in contrasts]))
    np.add.at(signal, object_of_piece + 1, np.concatenate([contrast.signal[1:] for contrast in contrasts]))
    signal[0] = np.sum([contrast.signal[0] for contrast in contrasts], axis=0)
    elsewhere = np.sum([contrast.elsewhere for contrast in contrasts], axis=0)
    anywhere = np.sum([contrast.anywhere for contrast in contrasts], axis=0)
    return ~find_contrasting_objects(EdgeContrast(border, signal, elsewhere, anywhere), distinction, ndim)[1:]


def label_stitched_objects(
    object_of_piece: Int32Array,
    pixels: NDArray[np.integer],
    clamps: Int32Array,
    min_pixels: int,
    is_flat: BoolArray | None = None,
) -> Int32Array:
    """(pieces,) label of the object of each piece, 0 where the object is too small or flat.

    An object has the label of its clamp. Where stitching has joined several, each clamped piece keeps its own and the
    other pieces take that of most pixels. `clamps` (pieces,) are 0 for none, `is_flat` is by object.
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
    """Find the objects in and around a block: a block whose pieces they are, the clamp of each piece, their contrast."""
    around, inside = context.grid.around(index, REACH), context.grid.inside(index)
    core = crop(around, inside)
    signal = None
    if context.settings.signal == "objects":
        wide = context.grid.around(index, REACH + SIGNAL_HALO + context.noise_reach)
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
        key = objects.astype(np.int64) * n_labels + clamped
        keys, number = np.unique(np.concatenate(([0], key.ravel())), return_inverse=True)
        clamp_of = (keys % n_labels).astype(np.int32)
        objects = number[1:].reshape(objects.shape).astype(np.int32)
    pieces, uncut = find_pieces(objects[core])
    empty, n_pieces = NormalizedImage(np.zeros((*pieces.shape, 0), np.float32), False), len(uncut) - 1
    block = Block(
        pieces=CompressedArray.of(pieces),
        uncut=uncut,
        mass=np.bincount(pieces.ravel(), minlength=len(uncut))[1:],
        sums=np.zeros((n_pieces, 0)),
        squares=np.zeros((n_pieces, 0)),
        edges=np.zeros((0, 2), np.int32),
        length=np.zeros(0),
        steps=np.zeros(0),
        words={},
        sides=describe_borders(context, index, objects, pieces, empty, around, inside),
    )
    contrast = None if signal is None else measure_contrast(objects, image >= 0, signal, core, pieces)
    return block, clamp_of[uncut[1:]], contrast
