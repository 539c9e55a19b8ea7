"""Objects of an image that does not fit into memory, block by block; those on a border are put together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from skimage.measure import label

from napari_gsw.core.image import lazy
from napari_gsw.core.image.block_grid import Index, crop
from napari_gsw.core.image.picture import Picture
from napari_gsw.core.model.block import Block, BlockContext, pieces_of, sides_of
from napari_gsw.core.model.block_assembly import SIGNAL_HALO
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.model.stitching import offsets, stitched
from napari_gsw.core.posterior.objects import ClusterLook, cluster_looks, outlined, parted
from napari_gsw.core.sites.mosaic import Mosaic, PackedArray

# Pixels around a block that are looked at: an object that reaches farther beyond a border may be cut there.
REACH = 96


def object_mosaic(problem: Problem, clusters: NDArray[np.integer], smallest: int, neck: float) -> Mosaic:
    """As :func:`napari_gsw.core.posterior.objects.object_labels`, of a problem whose image was read in blocks."""
    context: BlockContext = problem.block_context
    assert isinstance(problem.sites, Mosaic)
    assert problem.graph is not None
    numbers = np.unique(clusters, return_inverse=True)[1]
    look = cluster_looks(problem, numbers)
    background = int(np.bincount(numbers, problem.graph.pixels).argmax())
    jobs = [(context, index, problem.sites, look, background, neck) for index in context.grid]
    blocks = lazy.mapped(_objects, jobs, lambda done: None)
    object_of = stitched(context, blocks)[0]
    pixels = np.bincount(object_of, np.concatenate([block.mass for block in blocks]))
    # Numbers without gaps for those that are large enough.
    kept = pixels >= smallest
    number = np.where(kept, np.cumsum(kept), 0).astype(np.int32)[object_of]
    first = offsets(blocks)
    tables = [np.concatenate(([0], number[first[b] : first[b + 1]])).astype(np.int32) for b in range(len(blocks))]
    return Mosaic(context.grid, [block.pieces for block in blocks], tables)


def _objects(
    context: BlockContext, index: Index, sites: Mosaic, look: ClusterLook, background: int, neck: float
) -> Block:
    """The objects in and around a block, as a block that can be stitched."""
    far, around, inside = (
        context.grid.around(index, REACH + SIGNAL_HALO),
        context.grid.around(index, REACH),
        context.grid.inside(index),
    )
    light = None
    if context.settings.signal == "objects":
        light = np.ascontiguousarray(context.picture_of(context.pixels(far)).channels[crop(far, around)][..., 0])
    image = outlined(sites[around], light, look)
    mask = (image >= 0) & (image != background)
    objects = parted(mask, light, neck) if neck > 0 and mask.any() else label(mask, connectivity=1).astype(np.int32)
    cut = objects[crop(around, inside)]
    pieces, uncut = pieces_of(cut)
    nothing = np.zeros((len(uncut) - 1, 0))
    empty = Picture(np.zeros((*cut.shape, 0), np.float32), False)
    return Block(
        pieces=PackedArray.of(pieces),
        uncut=uncut,
        mass=np.bincount(pieces.ravel(), minlength=len(uncut))[1:],
        sums=nothing,
        squares=nothing,
        edges=np.zeros((0, 2), np.int32),
        length=np.zeros(0),
        steps=np.zeros(0),
        words={},
        sides=sides_of(context, index, objects, pieces, empty, around, inside),
    )
