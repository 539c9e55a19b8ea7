"""Objects and regions that a person has fixed: pixels with a number that no chain may change.

Clusters are a level below: all nuclei of a picture may be one cluster. A person who accepts, joins, cuts, deletes or
draws an object says something about pixels, so it is kept as pixels: sites are coarser than the outline on the screen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from skimage import measure, segmentation

from napari_gsw.core.array_types import BoolArray, Int32Array, Int64Array, LabelImage, PointArray, Sites
from napari_gsw.core.errors import InputError
from napari_gsw.core.posterior.objects import find_free_labels
from napari_gsw.core.sites.scribbles import trace_path

# What is left of a part around fixed pixels is a rim, and no object, if it is nowhere deeper than this, in pixels.
RIM = 2.0


@dataclass(frozen=True, eq=False)
class FixedPixels:
    """What a person has fixed.

    Attributes
    ----------
    fixed : (\\*shape,) int32, 0 for a free pixel, > 0 the number of its object, -1 for the background.
    names : (\\*shape,) what was on the screen before the last edit: other objects keep these numbers.
    sites : (n,) int8, 1 for a site most of which is fixed to objects, -1 to the background, 0 for the others.
    unfinished : numbers that have fixed pixels, but go on where the chain says so.
    """

    fixed: Int32Array
    names: LabelImage
    sites: NDArray[np.int8]
    unfinished: frozenset[int] = frozenset()


def find_fixed_sites(fixed: Int32Array, sites: Sites, n: int) -> NDArray[np.int8]:
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


def apply_edits(base: LabelImage, held: FixedPixels, smallest: int, objects: bool) -> Int32Array:
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
    parts = _find_free_objects(base, fixed, smallest)
    taken = np.setdiff1d(fixed[fixed > 0], np.array(sorted(held.unfinished), np.int64))
    table = match_object_labels(parts, held.names, taken)
    result: Int32Array = np.where(fixed != 0, np.maximum(fixed, 0), table[parts]).astype(np.int32)
    lost = (base > 0) & (result == 0)
    if not objects and lost.any():
        box = find_padded_box(lost)
        result[box] = segmentation.watershed(np.zeros(lost[box].shape, np.uint8), result[box], mask=base[box] > 0)
    return result


def find_padded_box(mask: BoolArray) -> tuple[slice, ...]:
    """The smallest box with all pixels of a mask (\\*shape,) that is not empty, and their neighbours.

    >>> box_around(np.array([[0, 0, 0, 0], [0, 0, 0, 1]], bool))
    (slice(0, 2, None), slice(2, 4, None))
    """
    axes = range(mask.ndim)
    ends = [np.flatnonzero(mask.any(axis=tuple(a for a in axes if a != axis)))[[0, -1]].tolist() for axis in axes]
    return tuple(slice(max(a - 1, 0), min(b + 2, n)) for (a, b), n in zip(ends, mask.shape, strict=True))


def _find_free_objects(base: LabelImage, fixed: Int32Array, smallest: int) -> Int32Array:
    """(\\*shape,) free parts 1, 2, ...: those of `base` as they are, of broken ones the pieces that stand."""
    from scipy import ndimage

    free = np.where(fixed == 0, base, 0).astype(np.int32)
    broken = np.zeros(int(base.max()) + 1, bool)
    broken[np.unique(base[fixed != 0])] = True
    broken[0] = False
    torn = broken[free]
    if torn.any():
        box = find_padded_box(torn)
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
    rank: Int32Array = np.where(there, np.cumsum(there), 0).astype(np.int32)
    return rank[free]


def match_object_labels(parts: LabelImage, names: LabelImage, taken: NDArray[np.integer]) -> Int64Array:
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
    number[nameless] = find_free_labels(len(nameless), known)
    return number


def find_majority_labels(labels: LabelImage, sites: Sites, mask: BoolArray) -> tuple[Int64Array, Int64Array]:
    """Sites (from 0) that have pixels under a mask (\\*shape,), and the commonest label of these pixels in each."""
    inside = mask & (sites > 0)
    least, most = int(labels.min()), int(labels.max()) - int(labels.min()) + 1
    keys, count = np.unique(sites[inside].astype(np.int64) * most + (labels[inside] - least), return_counts=True)
    site, value = keys // most, keys % most + least
    order = np.lexsort((count, site))
    last = np.flatnonzero(np.diff(site[order], append=-1))
    return site[order][last] - 1, value[order][last]


# Numbers that fit on the screen.
MAX_LABEL = int(np.iinfo(np.uint16).max)
# A piece of a cut object has this share of it, and so many pixels, at least; crumbs beside the line are none.
MIN_SHARE, MIN_PIXELS = 0.02, 4

Tool = Literal["paint", "merge", "cut"]


class Edit(NamedTuple):
    """Pixels that a person has fixed.

    Attributes
    ----------
    what : "accept", "merge", "cut", "delete" or "draw".
    where : (p,) pixels, as places in the flattened image. values : (p,) int32 number of each, -1 for the background.
    shown : (\\*shape,) what was on the screen before.
    objects : whether there is a background; otherwise they are regions.
    unfinished : numbers that were given pixels, and are free otherwise.
    """

    what: str
    where: Int64Array
    values: Int32Array
    shown: LabelImage
    objects: bool
    unfinished: frozenset[int] = frozenset()

    @property
    def after(self) -> LabelImage:
        """(\\*shape,) what is on the screen with the edit, before the chain has answered."""
        image = self.shown.copy()
        image.reshape(-1)[self.where] = np.maximum(self.values, 0).astype(image.dtype)
        return image


def _make_edit(what: str, shown: LabelImage, after: NDArray[np.int32], objects: bool, *unfinished: int) -> Edit:
    """An edit of the pixels that are not 0 in `after` (\\*shape,)."""
    where = np.flatnonzero(after)
    return Edit(what, where, after.reshape(-1)[where], shown, objects, frozenset(unfinished))


def accept_object(shown: LabelImage, number: int, objects: bool) -> Edit:
    """The object stays as it is on the screen."""
    return _make_edit(
        "accept", shown, np.where(_find_object(shown, number, objects), number, 0).astype(np.int32), objects
    )


def merge_objects(shown: LabelImage, numbers: list[int], objects: bool, stroke: BoolArray | None = None) -> Edit:
    """The objects become one, with the number of the first; pixels of the stroke (\\*shape,) go with them."""
    if len(numbers) < 2:
        raise InputError(
            f"the stroke goes through one {_object_noun(objects)} only: draw from one into another to merge them"
        )
    inside = np.isin(shown, numbers)
    if stroke is not None:
        inside |= stroke
    return _make_edit("merge", shown, np.where(inside, numbers[0], 0).astype(np.int32), objects)


def split_objects(shown: LabelImage, line: BoolArray, objects: bool) -> Edit:
    """Every object that a line (\\*shape,) goes right through falls into pieces; the largest keeps the number."""
    after = np.zeros(shown.shape, np.int32)
    touched = np.unique(shown[line & (shown > 0)])
    count = 0
    for number in touched.tolist():
        box = find_padded_box(shown == number)
        inside = shown[box] == number
        pieces = measure.label(inside & ~line[box], connectivity=1)
        size = np.bincount(pieces.ravel())
        stands = size >= max(MIN_PIXELS, MIN_SHARE * inside.sum())
        stands[0] = False
        if stands.sum() < 2:
            continue
        seeds = np.where(stands[pieces], pieces, 0)
        pieces = segmentation.watershed(np.zeros(inside.shape, np.uint8), seeds, mask=inside)
        order = np.flatnonzero(stands)[np.argsort(-size[stands], kind="stable")]
        names = np.zeros(len(size), np.int32)
        names[order] = [number, *find_unused_labels(shown, len(order) - 1 + count)[count:]]
        count += len(order) - 1
        after[box][inside] = names[pieces][inside]
    if not count:
        word = _object_noun(objects)
        if not touched.size:
            raise InputError(f"the line goes through no {word}: draw it across the one that is to be cut")
        which = " and ".join(map(str, touched[:3].tolist()))
        raise InputError(f"the line does not part {word} {which}: draw it from one side right through to the other")
    return _make_edit("cut", shown, after, objects)


def delete_object(shown: LabelImage, number: int, objects: bool) -> Edit:
    """The object becomes background; a region goes to its neighbours, each pixel to the nearest."""
    inside = _find_object(shown, number, objects)
    if objects:
        return _make_edit("delete", shown, np.where(inside, -1, 0).astype(np.int32), objects)
    box, heirs = find_padded_box(inside), np.zeros(shown.shape, np.int32)
    seeds = np.where(inside, 0, shown)[box].astype(np.int32)
    nearest = segmentation.watershed(np.zeros(seeds.shape, np.uint8), seeds, mask=shown[box] > 0)
    heirs[box] = np.where(inside[box], nearest, 0)
    if not heirs.any():
        raise InputError(f"region {number} has no neighbour that it could go to")
    return _make_edit("delete", shown, heirs, objects, *np.unique(heirs[heirs > 0]).tolist())


def draw_object(shown: LabelImage, stroke: BoolArray, number: int, objects: bool) -> Edit:
    """The pixels of a stroke (\\*shape,) have a number: a new object, or one that is there and grows by them."""
    if not 0 < number <= MAX_LABEL:
        raise InputError(f"labels must be numbers in [1, {MAX_LABEL}], not {number}")
    inside = stroke | (shown == number)
    return _make_edit("draw", shown, np.where(inside, number, 0).astype(np.int32), objects)


def erase_pixels(shown: LabelImage, stroke: BoolArray) -> Edit:
    """The pixels of a stroke (\\*shape,) are background, and what is left of the objects stays as it is."""
    touched = np.unique(shown[stroke & (shown > 0)])
    if not touched.size:
        raise InputError("there is no object to erase here")
    after = np.where(np.isin(shown, touched), shown, 0).astype(np.int32)
    after[stroke & (shown > 0)] = -1
    return _make_edit("erase", shown, after, True)


def edit_from_scribble(
    shown: LabelImage, painted: LabelImage, path: PointArray, objects: bool, inside: BoolArray, tool: Tool = "paint"
) -> Edit | None:
    """What a stroke of the brush means; None if it has changed nothing.

    A number that is on the screen makes one object of all that the centre of the brush went over; a new number draws a
    new object; the eraser cuts what it goes right through, and otherwise takes pixels away.

    Parameters
    ----------
    shown, painted : (\\*shape,) the label image without and with the stroke.
    path : (p, ndim) where the centre of the brush went, in pixels; empty for a fill or a polygon.
    inside : (\\*shape,) where there are sites. tool : what the stroke is for, whatever its number.
    """
    stroke = (shown != painted) & inside
    line = _rasterize_path(shown.shape, path) & inside
    hit = shown[tuple(trace_path(shown.shape, path).T)] if len(path) else np.zeros(0, shown.dtype)
    order = np.unique(hit[hit > 0], return_index=True)
    along = [int(order[0][k]) for k in np.argsort(order[1])]
    if tool == "merge":
        return merge_objects(shown, along, objects, stroke)
    if tool == "cut":
        return split_objects(shown, line, objects)
    if not stroke.any():
        return None
    number = int(np.bincount(painted[stroke].astype(np.int64)).argmax())
    if number > 0:
        if (shown == number).any() and set(along) - {number}:
            return merge_objects(shown, [number, *(k for k in along if k != number)], objects, stroke)
        return draw_object(shown, stroke, number, objects)
    try:
        return split_objects(shown, line, objects)
    except InputError:
        if not objects:
            raise
    return erase_pixels(shown, stroke)


def find_unused_labels(shown: LabelImage, count: int = 1) -> list[int]:
    """Numbers that are not on the screen: larger ones, or where 16 bits have none left, those between.

    >>> new_numbers(np.array([1, 4]), 2)
    [5, 6]
    """
    largest = int(shown.max(initial=0))
    if largest + count <= MAX_LABEL:
        return list(range(largest + 1, largest + count + 1))
    return [int(k) for k in find_free_labels(count, shown[shown > 0])]


def _find_object(shown: LabelImage, number: int, objects: bool) -> BoolArray:
    inside: BoolArray = shown == number
    if number <= 0 or not inside.any():
        raise InputError(f"there is no {_object_noun(objects)} here: point at one, or pick one with the dropper")
    return inside


def _rasterize_path(shape: tuple[int, ...], path: PointArray) -> BoolArray:
    """(\\*shape,) the pixels of a path; in a volume, of the wall that stands on a path in one slice."""
    line = np.zeros(shape, bool)
    if not len(path):
        return line
    line[tuple(trace_path(shape, path).T)] = True
    if len(shape) == 3:
        level = np.flatnonzero(np.ptp(np.round(path), axis=0) == 0)
        if level.size:
            line |= line.any(axis=int(level[0]), keepdims=True)
    return line


def _object_noun(objects: bool) -> str:
    return "object" if objects else "region"
