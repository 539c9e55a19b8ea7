"""Join the superpixels of neighbouring blocks.

Superpixels of two blocks are made separately, but each block includes some pixels beyond its border. Where a superpixel
of one block and one of the other share more than half of their pixels near the border, their pieces become one site. A
piece that the border has cut off and that is too small joins the site across the border that it touches most.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.array_types import Float64Array, Int32Array, Int64Array
from napari_gsw.core.blocks.block import HIGH, LOW, Block, BlockContext
from napari_gsw.core.graph.region_graph import group_connected
from napari_gsw.core.image.spacing import face_areas
from napari_gsw.core.partitions import canonical_labels

# Superpixels of two blocks with a larger intersection over union near the border are one.
MIN_OVERLAP = 0.5
# Pieces at a border with a smaller fraction of the pixels of a site join another.
MIN_PIECE = 0.25


class BorderContacts(NamedTuple):
    """Pieces on the two sides of borders that touch, numbered through all blocks.

    Attributes
    ----------
    pairs : (c, 2) pieces.
    length, steps : (c,) faces between them, and the sum of colour differences there.
    same : (c,) whether the two are one site.
    drawn, marked : (c,) sum of the network's boundary probability, and of a map's log odds; 0 without one.
    """

    pairs: Int64Array
    length: Float64Array
    steps: Float64Array
    same: NDArray[np.bool_]
    drawn: Float64Array
    marked: Float64Array


def stitch_blocks(context: BlockContext, blocks: Sequence[Block]) -> tuple[Int32Array, BorderContacts]:
    """Return the site 0, 1, ... of each piece of all blocks, numbered by first piece, and all contacts."""
    mass = np.concatenate([block.mass for block in blocks])
    touching = find_contacts(context, blocks)
    site = group_connected(len(mass), touching.pairs[touching.same])
    if context.sites is None:
        pixels = np.bincount(site, mass)
        ends = site[touching.pairs]
        across = np.concatenate((ends, ends[:, ::-1]))
        length = np.tile(touching.length, 2)
        small = (across[:, 0] != across[:, 1]) & (pixels[across[:, 0]] < MIN_PIECE * context.site_size)
        across, length = across[small], length[small]
        # The longest contact of each is written last.
        order = np.lexsort((across[:, 1], length))
        target = np.arange(len(pixels))
        target[across[order, 0]] = across[order, 1]
        site = group_connected(len(pixels), np.stack((np.arange(len(pixels)), target), axis=1))[site]
    return canonical_labels(site), touching


def find_contacts(context: BlockContext, blocks: Sequence[Block]) -> BorderContacts:
    """Find all pieces that touch across borders."""
    first = count_pieces_before(blocks)
    areas = face_areas(context.spacing, len(context.grid.shape))
    borders = []
    for index in context.grid:
        for axis in range(len(index)):
            after = context.grid.after(index, axis)
            if after is not None:
                a, b, area = context.grid.place(index), context.grid.place(after), areas[axis]
                contacts = _find_border_contacts(blocks[a], blocks[b], axis, area, context.sites is not None)
                borders.append(contacts._replace(pairs=contacts.pairs + np.array([first[a], first[b]])))
    if not borders:
        empty = np.zeros(0)
        return BorderContacts(np.zeros((0, 2), np.int64), empty, empty, np.zeros(0, bool), empty, empty)
    return BorderContacts(*(np.concatenate(column) for column in zip(*borders, strict=True)))


def count_pieces_before(blocks: Sequence[Block]) -> Int64Array:
    """Return (blocks + 1,) the number of the first piece of each block."""
    return np.concatenate(([0], np.cumsum([len(block.mass) for block in blocks]))).astype(np.int64)


def _find_border_contacts(a: Block, b: Block, axis: int, area: float, are_given: bool) -> BorderContacts:
    """Find contacts across the border of two blocks, with pieces numbered from 0 in each.

    Sites that the user gave (`are_given`) are the same if their numbers are.
    """
    side, opposite = a.sides[axis, HIGH], b.sides[axis, LOW]
    p, q = side.pieces.array().astype(np.int64), opposite.pieces.array().astype(np.int64)
    both = (p > 0) & (q > 0)
    stride = len(b.uncut)
    key, index, length = np.unique(p[both] * stride + q[both], return_inverse=True, return_counts=True)
    pairs = np.stack((key // stride, key % stride), axis=1)
    left, right = a.uncut[pairs[:, 0]].astype(np.int64), b.uncut[pairs[:, 1]].astype(np.int64)
    if are_given:
        same = left == right
    else:
        same = _compute_overlap(side.band.array(), opposite.band.array(), left, right) > MIN_OVERLAP

    def sum_pixels(values: NDArray[np.floating]) -> Float64Array:
        return np.bincount(index, values, len(key)).astype(np.float64)

    steps = sum_pixels(np.linalg.norm((side.channels[both] - opposite.channels[both]).astype(np.float64), axis=-1))
    drawn = marked = np.zeros(len(key))
    if side.drawn is not None and opposite.drawn is not None:
        drawn = sum_pixels((side.drawn[both].astype(np.float64) + opposite.drawn[both]) / 2)
    if side.marked is not None and opposite.marked is not None:
        marked = sum_pixels(np.maximum(side.marked[both], opposite.marked[both]).astype(np.float64))
    return BorderContacts(pairs - 1, area * length.astype(np.float64), area * steps, same, drawn, area * marked)


def _compute_overlap(
    a: NDArray[np.integer], b: NDArray[np.integer], left: Int64Array, right: Int64Array
) -> Float64Array:
    """Compute the intersection over union of superpixels `left` of image `a` and `right` of image `b`."""
    x, y = a.ravel().astype(np.int64), b.ravel().astype(np.int64)
    stride = int(y.max(initial=0)) + 1
    key, count = np.unique(x * stride + y, return_counts=True)
    wanted = left * stride + right
    at = np.minimum(np.searchsorted(key, wanted), len(key) - 1)
    shared = np.where(key[at] == wanted, count[at], 0)
    sizes = np.bincount(x, minlength=int(left.max(initial=0)) + 1)[left]
    sizes = sizes + np.bincount(y, minlength=int(right.max(initial=0)) + 1)[right]
    return np.asarray(shared / np.maximum(sizes - shared, 1))
