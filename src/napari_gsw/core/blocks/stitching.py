"""Blocks that were described one by one -> sites of the whole image.

Superpixels of two blocks are made apart, but each block has looked beyond its border. Where the superpixel of one and
the superpixel of the other that faces it are the same thing by that look (they share more than half of their pixels
near the border), their pieces are one site. What a border has cut off and is too small to stand joins the site across
the border that it touches most.
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

# Superpixels of two blocks that share more than this of their pixels near the border are one.
SAME = 0.5
# Pieces at a border with less than this share of the pixels of a site do not stand alone.
LEAST_PIECE = 0.25


class BorderContacts(NamedTuple):
    """Pieces on the two sides of borders that touch, numbered through all blocks.

    Attributes
    ----------
    pairs : (c, 2) pieces; length (c,) faces between them; steps (c,) sum of colour differences there.
    same : (c,) whether the two are one site.
    drawn : (c,) sum of the network's probability of a boundary there; 0 without a network.
    marked : (c,) sum of a map's log odds of a boundary there; 0 without a map.
    """

    pairs: Int64Array
    length: Float64Array
    steps: Float64Array
    same: NDArray[np.bool_]
    drawn: Float64Array
    marked: Float64Array


def stitch_blocks(context: BlockContext, blocks: Sequence[Block]) -> tuple[Int32Array, BorderContacts]:
    """(pieces,) the site 0, 1, ... of each piece of all blocks in a row, numbered by first piece; and all contacts."""
    mass = np.concatenate([block.mass for block in blocks])
    touching = find_contacts(context, blocks)
    site = group_connected(len(mass), touching.pairs[touching.same])
    if context.sites is None:
        least = LEAST_PIECE * context.site_size
        pixels = np.bincount(site, mass)
        ends = site[touching.pairs]
        across = np.concatenate((ends, ends[:, ::-1]))
        length = np.tile(touching.length, 2)
        small = (across[:, 0] != across[:, 1]) & (pixels[across[:, 0]] < least)
        across, length = across[small], length[small]
        # The longest contact of each comes last and stays.
        order = np.lexsort((across[:, 1], length))
        target = np.arange(len(pixels))
        target[across[order, 0]] = across[order, 1]
        site = group_connected(len(pixels), np.stack((np.arange(len(pixels)), target), axis=1))[site]
    return canonical_labels(site), touching


def find_contacts(context: BlockContext, blocks: Sequence[Block]) -> BorderContacts:
    """Everything that touches across borders."""
    first = count_pieces_before(blocks)
    areas = face_areas(context.spacing, len(context.grid.shape))
    borders = []
    for index in context.grid:
        for axis in range(len(index)):
            after = context.grid.after(index, axis)
            if after is None:
                continue
            a, b = context.grid.place(index), context.grid.place(after)
            one = _contact(blocks[a], blocks[b], axis, context.sites is not None)
            one = _with_area(one, areas[axis - len(index)])
            borders.append(one._replace(pairs=one.pairs + np.array([first[a], first[b]])))
    if not borders:
        nothing = np.zeros(0)
        return BorderContacts(np.zeros((0, 2), np.int64), nothing, nothing, np.zeros(0, bool), nothing, nothing)
    return BorderContacts(*(np.concatenate(column) for column in zip(*borders, strict=True)))


def count_pieces_before(blocks: Sequence[Block]) -> Int64Array:
    """(blocks + 1,) number of the first piece of each block."""
    return np.concatenate(([0], np.cumsum([len(block.mass) for block in blocks]))).astype(np.int64)


def _contact(a: Block, b: Block, axis: int, own_sites: bool) -> BorderContacts:
    """What touches across the border between two blocks, pieces numbered from 0 in each.

    Sites of the user's own are the same if their numbers are, superpixels if the two looks at the border agree.
    """
    here, there = a.sides[axis, HIGH], b.sides[axis, LOW]
    p, q = here.pieces.array().astype(np.int64), there.pieces.array().astype(np.int64)
    both = (p > 0) & (q > 0)
    step = np.linalg.norm((here.channels[both] - there.channels[both]).astype(np.float64), axis=-1)
    wide = len(b.uncut)
    key, index, length = np.unique(p[both] * wide + q[both], return_inverse=True, return_counts=True)
    pairs = np.stack((key // wide, key % wide), axis=1)
    left, right = a.uncut[pairs[:, 0]].astype(np.int64), b.uncut[pairs[:, 1]].astype(np.int64)
    same = left == right if own_sites else _shared(here.band.array(), there.band.array(), left, right) > SAME
    steps = np.bincount(index, step, len(key)).astype(np.float64)
    drawn = np.zeros(len(key))
    if here.drawn is not None and there.drawn is not None:
        values = (here.drawn[both].astype(np.float64) + there.drawn[both]) / 2
        drawn = np.bincount(index, values, len(key)).astype(np.float64)
    marked = np.zeros(len(key))
    if here.marked is not None and there.marked is not None:
        values = np.maximum(here.marked[both], there.marked[both]).astype(np.float64)
        marked = np.bincount(index, values, len(key)).astype(np.float64)
    return BorderContacts(pairs - 1, length.astype(np.float64), steps, same, drawn, marked)


def _with_area(one: BorderContacts, area: float) -> BorderContacts:
    """Contacts across faces of this area."""
    return one._replace(length=area * one.length, steps=area * one.steps, marked=area * one.marked)


def _shared(one: NDArray[np.integer], other: NDArray[np.integer], left: Int64Array, right: Int64Array) -> Float64Array:
    """Intersection over union of superpixels `left` of one look and `right` of the other at the same pixels."""
    x, y = one.ravel().astype(np.int64), other.ravel().astype(np.int64)
    wide = int(y.max(initial=0)) + 1
    key, count = np.unique(x * wide + y, return_counts=True)
    wanted = left * wide + right
    at = np.minimum(np.searchsorted(key, wanted), len(key) - 1)
    both = np.where(key[at] == wanted, count[at], 0)
    sizes = np.bincount(x, minlength=int(left.max(initial=0)) + 1)[left]
    sizes = sizes + np.bincount(y, minlength=int(right.max(initial=0)) + 1)[right]
    return np.asarray(both / np.maximum(sizes - both, 1))
