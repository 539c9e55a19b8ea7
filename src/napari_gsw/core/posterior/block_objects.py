"""Objects of an image that does not fit into memory, block by block; those on a border are put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

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
    cluster_appearance,
    find_free_labels,
    label_clamped_objects,
    paint_clamps,
    split_at_necks,
)
from napari_gsw.core.sites.blocked_labels import BlockedLabels, CompressedArray

# Pixels around a block that are looked at: an object that reaches farther beyond a border may be cut there.
REACH = 96


class BlockObjects(NamedTuple):
    """The objects of a block.

    Attributes
    ----------
    clamps : (pieces,) the number to which each of its pieces is clamped, 0 for none.
    slopes : along the borders of its pieces, and elsewhere; None where there is no signal.
    """

    block: Block
    clamps: Int32Array
    slopes: EdgeContrast | None


def label_block_objects(
    problem: Problem,
    clusters: NDArray[np.integer],
    smallest: int,
    neck: float,
    seeds: Int32Array | None = None,
    distinction: float = 0.0,
) -> BlockedLabels:
    """As :func:`napari_gsw.core.posterior.objects.label_objects`, of a problem whose image was read in blocks."""
    context: BlockContext = problem.block_context
    assert isinstance(problem.sites, BlockedLabels)
    assert problem.graph is not None
    numbers = np.unique(clusters, return_inverse=True)[1]
    look = cluster_appearance(problem, numbers, seeds)
    background = int(np.bincount(numbers, problem.graph.pixels).argmax())
    jobs = [(context, index, problem.sites, look, seeds, background, neck) for index in context.grid]
    described = lazy.map_blocks(_find_block_objects, jobs, lambda done: None)
    blocks = [one.block for one in described]
    object_of = stitch_blocks(context, blocks)[0]
    pixels = np.concatenate([block.mass for block in blocks])
    measured = [one.slopes for one in described if one.slopes is not None]
    axes = len(context.grid.shape)
    flat = find_flat_objects(object_of, measured, distinction, axes) if distinction > 0 and measured else None
    number = number_stitched_objects(
        object_of, pixels, np.concatenate([one.clamps for one in described]), smallest, flat
    )
    first = count_pieces_before(blocks)
    tables = [np.concatenate(([0], number[first[b] : first[b + 1]])).astype(np.int32) for b in range(len(blocks))]
    return BlockedLabels(context.grid, [block.pieces for block in blocks], tables)


def find_flat_objects(
    object_of: Int32Array, measured: Sequence[EdgeContrast], distinction: float, axes: int
) -> BoolArray:
    """(objects,) which objects do not stand out, from the slopes of the pieces of all blocks."""
    k = int(object_of.max(initial=-1)) + 1
    border, light = np.zeros((k + 1, 2)), np.zeros((k + 1, 3))
    np.add.at(border, object_of + 1, np.concatenate([one.border[1:] for one in measured]))
    np.add.at(light, object_of + 1, np.concatenate([one.light[1:] for one in measured]))
    light[0] = np.sum([one.light[0] for one in measured], axis=0)
    rest = (np.sum([getattr(one, name) for one in measured], axis=0) for name in ("elsewhere", "anywhere"))
    return ~find_contrasting_objects(EdgeContrast(border, light, *rest), distinction, axes)[1:]


def number_stitched_objects(
    object_of: Int32Array, pixels: NDArray[np.integer], clamps: Int32Array, smallest: int, flat: BoolArray | None = None
) -> Int32Array:
    """(pieces,) number of each piece's object, 0 for those that are too small or too flat.

    Pieces that were stitched are one object, with the number of their clamp. Where stitching has joined two clamps each
    piece keeps its own, and the others take that of most pixels.

    Parameters
    ----------
    object_of : (pieces,) objects 0, 1, ... pixels : (pieces,). clamps : (pieces,) numbers, 0 for none.
    flat : (objects,) which of them do not stand out; None for none of them.
    """
    k = int(object_of.max(initial=-1)) + 1
    own = np.zeros(k, np.int32)
    held = clamps > 0
    pairs, index = np.unique(np.stack((object_of[held], clamps[held])), axis=1, return_inverse=True)
    mass = np.bincount(index.ravel(), pixels[held], pairs.shape[1])
    order = np.argsort(mass, kind="stable")  # that of most pixels is written last
    own[pairs[0, order]] = pairs[1, order]
    kept = (np.bincount(object_of, pixels, k) >= smallest) & (own == 0)
    if flat is not None:
        kept &= ~flat
    # Numbers without gaps for those that are large enough.
    own[kept] = find_free_labels(int(kept.sum()), clamps[held])
    return np.where(held, clamps, own[object_of])


def _find_block_objects(
    context: BlockContext,
    index: Index,
    sites: BlockedLabels,
    look: ClusterAppearance,
    seeds: Int32Array | None,
    background: int,
    neck: float,
) -> BlockObjects:
    """The objects in and around a block, as a block that can be stitched."""
    far, around, inside = (
        context.grid.around(index, REACH + SIGNAL_HALO + context.noise_reach),
        context.grid.around(index, REACH),
        context.grid.inside(index),
    )
    light = None
    if context.settings.signal == "objects":
        light = np.ascontiguousarray(context.picture_of(context.pixels(far)).channels[crop(far, around)][..., 0])
    here = sites[around]
    image = assign_pixels(here, light, look)
    mask = (image >= 0) & (image != background)
    objects = (
        split_at_necks(mask, light, neck, context.spacing)
        if neck > 0 and mask.any()
        else measure.label(mask, connectivity=1).astype(np.int32)
    )
    clamp_of = np.zeros(int(objects.max()) + 1, np.int32)
    clamps = paint_clamps(here, seeds)
    if clamps is not None:
        objects, clamp_of = _split_by_clamp(objects, label_clamped_objects(objects, image, here, clamps))
    cut = objects[crop(around, inside)]
    pieces, uncut = find_pieces(cut)
    nothing = np.zeros((len(uncut) - 1, 0))
    empty = NormalizedImage(np.zeros((*cut.shape, 0), np.float32), False)
    block = Block(
        pieces=CompressedArray.of(pieces),
        uncut=uncut,
        mass=np.bincount(pieces.ravel(), minlength=len(uncut))[1:],
        sums=nothing,
        squares=nothing,
        edges=np.zeros((0, 2), np.int32),
        length=np.zeros(0),
        steps=np.zeros(0),
        words={},
        sides=describe_borders(context, index, objects, pieces, empty, around, inside),
    )
    core = crop(around, inside)
    measured = None if light is None else measure_contrast(objects, image >= 0, light, core, pieces)
    return BlockObjects(block, clamp_of[uncut[1:]], measured)


def _split_by_clamp(objects: Int32Array, own: Int32Array) -> tuple[Int32Array, Int32Array]:
    """(\\*shape,) objects of which each has one clamp at most, and (objects + 1,) its number; 0 for none."""
    key = objects.astype(np.int64) * (int(own.max()) + 1) + own
    names, index = np.unique(np.concatenate(([0], key.ravel())), return_inverse=True)
    clamp_of: Int32Array = (names % (int(own.max()) + 1)).astype(np.int32)
    return index[1:].reshape(objects.shape).astype(np.int32), clamp_of
