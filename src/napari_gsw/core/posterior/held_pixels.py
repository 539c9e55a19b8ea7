"""Objects and regions that a person has fixed: pixels with a number that no chain may change.

Clusters are a level below: all nuclei of a picture may be one cluster. A person who accepts, joins, cuts, deletes or
draws an object says something about pixels, so it is kept as pixels: sites are coarser than the outline on the screen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from skimage import measure, segmentation

from napari_gsw.core.arrays import Ints, LabelImage, Longs, Mask, Sites
from napari_gsw.core.posterior.object_clamps import free_numbers

# What is left of a part around fixed pixels is a rim, and no object, if it is nowhere deeper than this, in pixels.
RIM = 2.0


@dataclass(frozen=True, eq=False)
class HeldPixels:
    """What a person has fixed.

    Attributes
    ----------
    fixed : (\\*shape,) int32, 0 for a free pixel, > 0 the number of its object, -1 for the background.
    names : (\\*shape,) what was on the screen before the last edit: other objects keep these numbers.
    sites : (n,) int8, 1 for a site most of which is fixed to objects, -1 to the background, 0 for the others.
    unfinished : numbers that have fixed pixels, but go on where the chain says so.
    """

    fixed: Ints
    names: LabelImage
    sites: NDArray[np.int8]
    unfinished: frozenset[int] = frozenset()


def held_sites(fixed: Ints, sites: Sites, n: int) -> NDArray[np.int8]:
    """(n,) int8: 1 where at least half of a site is fixed to objects, -1 where to the background, 0 elsewhere.

    >>> held_sites(np.array([[3, 3, 0, -1, -1, 0]], np.int32), np.array([[1, 1, 2, 2, 3, 3]], np.int32), 3).tolist()
    [1, -1, -1]
    """
    flat = sites.ravel()
    size = np.bincount(flat, minlength=n + 1)[1:]
    objects = np.bincount(flat[fixed.ravel() > 0], minlength=n + 1)[1:]
    nothing = np.bincount(flat[fixed.ravel() < 0], minlength=n + 1)[1:]
    there = size > 0
    held = np.where(2 * nothing >= size, -1, 0)
    held[2 * objects >= size] = 1
    return np.where(there, held, 0).astype(np.int8)


def edited_labels(base: LabelImage, held: HeldPixels, smallest: int, objects: bool) -> Ints:
    """(\\*shape,) int32 label image: what the chain says, where a person has not said something else.

    Fixed pixels have their number, and nothing else has it (unless it is unfinished). What is left of a part that has
    lost pixels falls into its connected pieces; rims and pieces that are too small are background, or, of regions, go
    to what they touch. The free parts keep their numbers on the screen, by overlap.

    Parameters
    ----------
    base : (\\*shape,) objects or regions from 1, 0 for the background. smallest : pieces of fewer pixels do not stand.
    objects : whether there is a background.
    """
    fixed = held.fixed if objects else np.maximum(held.fixed, 0)
    parts = _pieces(base, fixed, smallest)
    taken = np.setdiff1d(fixed[fixed > 0], np.array(sorted(held.unfinished), np.int64))
    table = named_parts(parts, held.names, taken)
    result: Ints = np.where(fixed != 0, np.maximum(fixed, 0), table[parts]).astype(np.int32)
    lost = (base > 0) & (result == 0)
    if not objects and lost.any():
        box = box_around(lost)
        result[box] = segmentation.watershed(np.zeros(lost[box].shape, np.uint8), result[box], mask=base[box] > 0)
    return result


def box_around(mask: Mask) -> tuple[slice, ...]:
    """The smallest box with all pixels of a mask (\\*shape,) that is not empty, and their neighbours.

    >>> box_around(np.array([[0, 0, 0, 0], [0, 0, 0, 1]], bool))
    (slice(0, 2, None), slice(2, 4, None))
    """
    axes = range(mask.ndim)
    ends = [np.flatnonzero(mask.any(axis=tuple(a for a in axes if a != axis)))[[0, -1]].tolist() for axis in axes]
    return tuple(slice(max(a - 1, 0), min(b + 2, n)) for (a, b), n in zip(ends, mask.shape, strict=True))


def _pieces(base: LabelImage, fixed: Ints, smallest: int) -> Ints:
    """(\\*shape,) free parts 1, 2, ...: those of `base` as they are, of broken ones the pieces that stand."""
    from scipy import ndimage

    free = np.where(fixed == 0, base, 0).astype(np.int32)
    broken = np.zeros(int(base.max()) + 1, bool)
    broken[np.unique(base[fixed != 0])] = True
    broken[0] = False
    torn = broken[free]
    if torn.any():
        box = box_around(torn)
        torn = torn[box]
        pieces = measure.label(np.where(torn, free[box], 0), background=0, connectivity=1)
        depth = ndimage.distance_transform_edt(pieces > 0)
        index = np.arange(int(pieces.max()) + 1)
        stands = np.bincount(pieces.ravel()) >= smallest
        stands &= np.asarray(ndimage.maximum(depth, pieces, index)) > RIM
        stands[0] = False
        free[box] = np.where(torn, np.where(stands[pieces], pieces + len(broken), 0), free[box])
    there = np.bincount(free.ravel()) > 0
    there[0] = False
    rank: Ints = np.where(there, np.cumsum(there), 0).astype(np.int32)
    return rank[free]


def named_parts(parts: LabelImage, names: LabelImage, taken: NDArray[np.integer]) -> Longs:
    """(parts + 1,) number of each part: the name that it overlaps most, each name once; 0 for part 0.

    Parameters
    ----------
    parts : (\\*shape,) 1, 2, ..., 0 for none. names : (\\*shape,) numbers on the screen. taken : numbers of others.

    >>> named_parts(np.array([1, 1, 2, 2, 3]), np.array([7, 7, 7, 4, 9]), np.array([9])).tolist()
    [0, 7, 4, 1]
    """
    number = np.zeros(int(parts.max()) + 1, np.int64)
    both = (parts > 0) & (names > 0)
    most = int(names.max(initial=0)) + 1
    pairs, count = np.unique(parts[both].astype(np.int64) * most + names[both], return_counts=True)
    used = set(taken.tolist())
    for k in np.argsort(-count, kind="stable").tolist():
        part, name = divmod(int(pairs[k]), most)
        if number[part] == 0 and name not in used:
            number[part] = name
            used.add(name)
    nameless = np.flatnonzero(number == 0)[1:] if len(number) else np.zeros(0, np.int64)
    known = np.union1d(np.array(sorted(used), np.int64), names[names > 0])
    number[nameless] = free_numbers(len(nameless), known)
    return number


def site_votes(labels: LabelImage, sites: Sites, mask: Mask) -> tuple[Longs, Longs]:
    """Sites (from 0) that have pixels under a mask (\\*shape,), and the commonest label of these pixels in each."""
    inside = mask & (sites > 0)
    least, most = int(labels.min()), int(labels.max()) - int(labels.min()) + 1
    keys, count = np.unique(sites[inside].astype(np.int64) * most + (labels[inside] - least), return_counts=True)
    site, value = keys // most, keys % most + least
    order = np.lexsort((count, site))
    last = np.flatnonzero(np.diff(site[order], append=-1))
    return site[order][last] - 1, value[order][last]
