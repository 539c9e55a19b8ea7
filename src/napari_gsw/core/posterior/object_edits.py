"""What a person does to objects or regions on the screen: accept, merge, cut, delete, draw.

Each is a pure function of the label image that the person sees; what cannot be done is said in a sentence. The pixels
of an edit are then fixed: :mod:`napari_gsw.core.posterior.held_pixels`.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from skimage import measure, segmentation

from napari_gsw.core.arrays import Ints, LabelImage, Longs, Mask, Points
from napari_gsw.core.errors import InputError
from napari_gsw.core.posterior.held_pixels import box_around
from napari_gsw.core.posterior.object_clamps import free_numbers
from napari_gsw.core.sites.strokes import path_pixels

# Numbers that fit on the screen.
MOST = int(np.iinfo(np.uint16).max)
# A piece of a cut object has this share of it, and so many pixels, at least; crumbs beside the line are none.
LEAST_SHARE, LEAST_PIXELS = 0.02, 4

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
    where: Longs
    values: Ints
    shown: LabelImage
    objects: bool
    unfinished: frozenset[int] = frozenset()

    @property
    def after(self) -> LabelImage:
        """(\\*shape,) what is on the screen with the edit, before the chain has answered."""
        image = self.shown.copy()
        image.reshape(-1)[self.where] = np.maximum(self.values, 0).astype(image.dtype)
        return image


def _edit(what: str, shown: LabelImage, after: NDArray[np.int32], objects: bool, *unfinished: int) -> Edit:
    """An edit of the pixels that are not 0 in `after` (\\*shape,)."""
    where = np.flatnonzero(after)
    return Edit(what, where, after.reshape(-1)[where], shown, objects, frozenset(unfinished))


def accepted(shown: LabelImage, number: int, objects: bool) -> Edit:
    """The object stays as it is on the screen."""
    return _edit("accept", shown, np.where(_mask(shown, number, objects), number, 0).astype(np.int32), objects)


def merged(shown: LabelImage, numbers: list[int], objects: bool, stroke: Mask | None = None) -> Edit:
    """The objects become one, with the number of the first; pixels of the stroke (\\*shape,) go with them."""
    if len(numbers) < 2:
        raise InputError(f"the stroke goes through one {_word(objects)} only: draw from one into another to merge them")
    inside = np.isin(shown, numbers)
    if stroke is not None:
        inside |= stroke
    return _edit("merge", shown, np.where(inside, numbers[0], 0).astype(np.int32), objects)


def cut(shown: LabelImage, line: Mask, objects: bool) -> Edit:
    """Every object that a line (\\*shape,) goes right through falls into pieces; the largest keeps the number."""
    after = np.zeros(shown.shape, np.int32)
    touched = np.unique(shown[line & (shown > 0)])
    count = 0
    for number in touched.tolist():
        box = box_around(shown == number)
        inside = shown[box] == number
        pieces = measure.label(inside & ~line[box], connectivity=1)
        size = np.bincount(pieces.ravel())
        stands = size >= max(LEAST_PIXELS, LEAST_SHARE * inside.sum())
        stands[0] = False
        if stands.sum() < 2:
            continue
        seeds = np.where(stands[pieces], pieces, 0)
        pieces = segmentation.watershed(np.zeros(inside.shape, np.uint8), seeds, mask=inside)
        order = np.flatnonzero(stands)[np.argsort(-size[stands], kind="stable")]
        names = np.zeros(len(size), np.int32)
        names[order] = [number, *new_numbers(shown, len(order) - 1 + count)[count:]]
        count += len(order) - 1
        after[box][inside] = names[pieces][inside]
    if not count:
        word = _word(objects)
        if not touched.size:
            raise InputError(f"the line goes through no {word}: draw it across the one that is to be cut")
        which = " and ".join(map(str, touched[:3].tolist()))
        raise InputError(f"the line does not part {word} {which}: draw it from one side right through to the other")
    return _edit("cut", shown, after, objects)


def deleted(shown: LabelImage, number: int, objects: bool) -> Edit:
    """The object becomes background; a region goes to its neighbours, each pixel to the nearest."""
    inside = _mask(shown, number, objects)
    if objects:
        return _edit("delete", shown, np.where(inside, -1, 0).astype(np.int32), objects)
    box, heirs = box_around(inside), np.zeros(shown.shape, np.int32)
    seeds = np.where(inside, 0, shown)[box].astype(np.int32)
    nearest = segmentation.watershed(np.zeros(seeds.shape, np.uint8), seeds, mask=shown[box] > 0)
    heirs[box] = np.where(inside[box], nearest, 0)
    if not heirs.any():
        raise InputError(f"region {number} has no neighbour that it could go to")
    return _edit("delete", shown, heirs, objects, *np.unique(heirs[heirs > 0]).tolist())


def drawn(shown: LabelImage, stroke: Mask, number: int, objects: bool) -> Edit:
    """The pixels of a stroke (\\*shape,) have a number: a new object, or one that is there and grows by them."""
    if not 0 < number <= MOST:
        raise InputError(f"labels must be numbers in [1, {MOST}], not {number}")
    inside = stroke | (shown == number)
    return _edit("draw", shown, np.where(inside, number, 0).astype(np.int32), objects)


def trimmed(shown: LabelImage, stroke: Mask) -> Edit:
    """The pixels of a stroke (\\*shape,) are background, and what is left of the objects stays as it is."""
    touched = np.unique(shown[stroke & (shown > 0)])
    if not touched.size:
        raise InputError("there is no object to erase here")
    after = np.where(np.isin(shown, touched), shown, 0).astype(np.int32)
    after[stroke & (shown > 0)] = -1
    return _edit("erase", shown, after, True)


def stroke_edit(
    shown: LabelImage, painted: LabelImage, path: Points, objects: bool, inside: Mask, tool: Tool = "paint"
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
    line = _line(shown.shape, path) & inside
    hit = shown[tuple(path_pixels(shown.shape, path).T)] if len(path) else np.zeros(0, shown.dtype)
    order = np.unique(hit[hit > 0], return_index=True)
    along = [int(order[0][k]) for k in np.argsort(order[1])]
    if tool == "merge":
        return merged(shown, along, objects, stroke)
    if tool == "cut":
        return cut(shown, line, objects)
    if not stroke.any():
        return None
    number = int(np.bincount(painted[stroke].astype(np.int64)).argmax())
    if number > 0:
        if (shown == number).any() and set(along) - {number}:
            return merged(shown, [number, *(k for k in along if k != number)], objects, stroke)
        return drawn(shown, stroke, number, objects)
    try:
        return cut(shown, line, objects)
    except InputError:
        if not objects:
            raise
    return trimmed(shown, stroke)


def new_numbers(shown: LabelImage, count: int = 1) -> list[int]:
    """Numbers that are not on the screen: larger ones, or where 16 bits have none left, those between.

    >>> new_numbers(np.array([1, 4]), 2)
    [5, 6]
    """
    largest = int(shown.max(initial=0))
    if largest + count <= MOST:
        return list(range(largest + 1, largest + count + 1))
    return [int(k) for k in free_numbers(count, shown[shown > 0])]


def _mask(shown: LabelImage, number: int, objects: bool) -> Mask:
    inside: Mask = shown == number
    if number <= 0 or not inside.any():
        raise InputError(f"there is no {_word(objects)} here: point at one, or pick one with the dropper")
    return inside


def _line(shape: tuple[int, ...], path: Points) -> Mask:
    """(\\*shape,) the pixels of a path; in a volume, of the wall that stands on a path in one slice."""
    line = np.zeros(shape, bool)
    if not len(path):
        return line
    line[tuple(path_pixels(shape, path).T)] = True
    if len(shape) == 3:
        level = np.flatnonzero(np.ptp(np.round(path), axis=0) == 0)
        if level.size:
            line |= line.any(axis=int(level[0]), keepdims=True)
    return line


def _word(objects: bool) -> str:
    return "object" if objects else "region"
