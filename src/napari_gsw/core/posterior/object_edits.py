"""Edits of objects and regions by the user: fixed pixels with a label that no chain may change.

An edit is kept as pixels, not as clusters or sites: all nuclei of an image may be one cluster, and sites are coarser
than the displayed outline. `shown` (\\*shape,) are the displayed labels. `objects` says whether labels are objects on a
background; otherwise they are regions.
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
from napari_gsw.core.special import number_labels

# The rest of an object around fixed pixels is a rim, and no object, if it is nowhere deeper than this, in pixels.
RIM = 2.0
# Largest label that fits into the displayed layer.
MAX_LABEL = int(np.iinfo(np.uint16).max)
# Each piece of a split object has at least this fraction of it, and this many pixels.
MIN_FRACTION, MIN_PIXELS = 0.02, 4

Tool = Literal["paint", "merge", "cut"]


@dataclass(frozen=True, eq=False)
class FixedPixels:
    """Pixels that the user has fixed."""

    fixed: Int32Array  # (*shape,) > 0 the label of the object, -1 for the background, 0 for a free pixel
    names: LabelImage  # (*shape,) displayed labels before the last edit, which the other objects keep
    sites: NDArray[np.int8]  # (n,) 1 for a site most of which is fixed to objects, -1 to the background, else 0
    unfinished: frozenset[int] = frozenset()  # labels that have fixed pixels and may have others


class Edit(NamedTuple):
    """Pixels that one edit fixes."""

    what: str  # "accept", "merge", "cut", "delete", "draw" or "erase"
    where: Int64Array  # (p,) pixels of the flattened image
    values: Int32Array  # (p,) their label, -1 for the background
    shown: LabelImage  # (*shape,) displayed labels before the edit
    objects: bool  # whether there is a background
    unfinished: frozenset[int] = frozenset()  # labels that got pixels, and are free otherwise

    @property
    def after(self) -> LabelImage:
        """(\\*shape,) labels to display before the chain has answered."""
        image = self.shown.copy()
        image.reshape(-1)[self.where] = np.maximum(self.values, 0).astype(image.dtype)
        return image


def _make_edit(what: str, shown: LabelImage, after: NDArray[np.integer], objects: bool, *unfinished: int) -> Edit:
    """Make an edit of the pixels that are not 0 in `after` (\\*shape,)."""
    where = np.flatnonzero(after)
    return Edit(what, where, after.reshape(-1)[where].astype(np.int32), shown, objects, frozenset(unfinished))


def accept_object(shown: LabelImage, label: int, objects: bool) -> Edit:
    """Fix an object as it is displayed."""
    return _make_edit("accept", shown, np.where(_find_object(shown, label, objects), label, 0), objects)


def merge_objects(shown: LabelImage, labels: list[int], objects: bool, scribble: BoolArray | None = None) -> Edit:
    """Merge objects, and the pixels of a scribble (\\*shape,), under the first label."""
    if len(labels) < 2:
        noun = _object_noun(objects)
        raise InputError(f"the scribble covers one {noun} only: draw from one {noun} into another to merge them")
    mask = np.isin(shown, labels)
    if scribble is not None:
        mask |= scribble
    return _make_edit("merge", shown, np.where(mask, labels[0], 0), objects)


def split_objects(shown: LabelImage, line: BoolArray, objects: bool) -> Edit:
    """Split each object that a line (\\*shape,) crosses completely; the largest piece keeps the label."""
    after = np.zeros(shown.shape, np.int32)
    touched = np.unique(shown[line & (shown > 0)])
    n_new = 0
    for label in touched.tolist():
        box = _find_padded_box(shown == label)
        mask = shown[box] == label
        pieces = measure.label(mask & ~line[box], connectivity=1)
        size = np.bincount(pieces.ravel())
        is_kept = size >= max(MIN_PIXELS, MIN_FRACTION * mask.sum())
        is_kept[0] = False
        if is_kept.sum() < 2:
            continue
        pieces = _fill_nearest(np.where(is_kept[pieces], pieces, 0), mask)
        order = np.flatnonzero(is_kept)[np.argsort(-size[is_kept], kind="stable")]
        new_labels = np.zeros(len(size), np.int32)
        new_labels[order] = [label, *find_unused_labels(shown, len(order) - 1 + n_new)[n_new:]]
        n_new += len(order) - 1
        after[box][mask] = new_labels[pieces][mask]
    if not n_new:
        noun = _object_noun(objects)
        if not touched.size:
            raise InputError(f"the line crosses no {noun}: draw it across the {noun} to split")
        which = " and ".join(map(str, touched[:3].tolist()))
        raise InputError(f"the line does not split {noun} {which}: draw it from one side right through to the other")
    return _make_edit("cut", shown, after, objects)


def delete_object(shown: LabelImage, label: int, objects: bool) -> Edit:
    """Turn an object into background; each pixel of a region goes to the nearest neighbour."""
    mask = _find_object(shown, label, objects)
    if objects:
        return _make_edit("delete", shown, np.where(mask, -1, 0), objects)
    box, after = _find_padded_box(mask), np.zeros(shown.shape, np.int32)
    after[box] = np.where(mask[box], _fill_nearest(np.where(mask, 0, shown)[box], shown[box] > 0), 0)
    if not after.any():
        raise InputError(f"region {label} cannot be deleted: it has no neighbour that its pixels could join")
    return _make_edit("delete", shown, after, objects, *np.unique(after[after > 0]).tolist())


def draw_object(shown: LabelImage, scribble: BoolArray, label: int, objects: bool) -> Edit:
    """Draw a new object, or add the pixels of a scribble (\\*shape,) to an existing one."""
    if not 0 < label <= MAX_LABEL:
        raise InputError(f"label must be in [1, {MAX_LABEL}], not {label}")
    return _make_edit("draw", shown, np.where(scribble | (shown == label), label, 0), objects)


def erase_pixels(shown: LabelImage, scribble: BoolArray) -> Edit:
    """Turn the pixels of a scribble (\\*shape,) into background, and fix the rest of the objects."""
    erased = scribble & (shown > 0)
    if not erased.any():
        raise InputError("there is no object to erase here")
    after = np.where(np.isin(shown, shown[erased]), shown, 0).astype(np.int32)
    after[erased] = -1
    return _make_edit("erase", shown, after, True)


def edit_from_scribble(
    shown: LabelImage, painted: LabelImage, path: PointArray, objects: bool, mask: BoolArray, tool: Tool = "paint"
) -> Edit | None:
    """Interpret a scribble on `shown`, which gives `painted` (\\*shape,); None if it has changed nothing.

    A displayed label merges all objects along the `path` (p, ndim) of the brush, which is empty for a fill; a new label
    draws an object; the eraser splits objects that it crosses completely, or erases pixels. `mask` are pixels of sites.
    """
    scribble = (shown != painted) & mask
    pixels = tuple(trace_path(shown.shape, path).T) if len(path) else (np.zeros(0, np.int64),) * shown.ndim
    crossed, first = np.unique(shown[pixels], return_index=True)
    along = [label for label in crossed[np.argsort(first)].tolist() if label > 0]
    if tool == "merge":
        return merge_objects(shown, along, objects, scribble)
    line = np.zeros(shown.shape, bool)
    line[pixels] = True
    if shown.ndim == 3 and len(path):  # a line drawn in one slice is a wall through all
        flat_axes = np.flatnonzero(np.ptp(np.round(path), axis=0) == 0)
        if flat_axes.size:
            line |= line.any(axis=int(flat_axes[0]), keepdims=True)
    line &= mask
    if tool == "cut":
        return split_objects(shown, line, objects)
    if not scribble.any():
        return None
    label = int(np.bincount(painted[scribble].astype(np.int64)).argmax())
    if label > 0:
        if (shown == label).any() and set(along) - {label}:
            return merge_objects(shown, [label, *(k for k in along if k != label)], objects, scribble)
        return draw_object(shown, scribble, label, objects)
    try:
        return split_objects(shown, line, objects)
    except InputError:
        if not objects:
            raise
    return erase_pixels(shown, scribble)


def find_unused_labels(shown: LabelImage, count: int = 1) -> list[int]:
    """List labels that are not displayed: above the largest, or if 16 bits have none left, below.

    >>> find_unused_labels(np.array([1, 4]), 2)
    [5, 6]
    """
    largest = int(shown.max(initial=0))
    if largest + count <= MAX_LABEL:
        return list(range(largest + 1, largest + count + 1))
    return [int(label) for label in find_free_labels(count, shown[shown > 0])]


def _find_object(shown: LabelImage, label: int, objects: bool) -> BoolArray:
    mask: BoolArray = shown == label
    if label <= 0 or not mask.any():
        raise InputError(f"there is no {_object_noun(objects)} here: point at one, or pick one with the dropper")
    return mask


def _object_noun(objects: bool) -> str:
    return "object" if objects else "region"


def _fill_nearest(markers: NDArray[np.integer], mask: BoolArray) -> Int32Array:
    """Give each pixel of a mask the nearest of the labels in it."""
    flat = np.zeros(mask.shape, np.uint8)
    return np.asarray(segmentation.watershed(flat, markers.astype(np.int32), mask=mask))


def _find_padded_box(mask: BoolArray) -> tuple[slice, ...]:
    """Return the bounding box of a mask that is not empty, with one more pixel on each side that has any."""
    from scipy import ndimage

    (box,) = ndimage.find_objects(mask.astype(np.uint8))
    return tuple(slice(max(part.start - 1, 0), part.stop + 1) for part in box)


def find_fixed_sites(fixed: Int32Array, sites: Sites, n: int) -> NDArray[np.int8]:
    """(n,) int8: 1 where at least half of a site is fixed to objects, -1 where to the background, 0 elsewhere.

    >>> find_fixed_sites(np.array([[3, 3, 0, -1, -1, 0]]), np.array([[1, 1, 2, 2, 3, 3]]), 3).tolist()
    [1, -1, -1]
    """
    flat, fixed = sites.ravel(), fixed.ravel()
    size = np.bincount(flat, minlength=n + 1)[1:]
    n_object = np.bincount(flat[fixed > 0], minlength=n + 1)[1:]
    n_background = np.bincount(flat[fixed < 0], minlength=n + 1)[1:]
    conditions = [size == 0, 2 * n_object >= size, 2 * n_background >= size]
    return np.select(conditions, [0, 1, -1], 0).astype(np.int8)


def apply_edits(base: LabelImage, edits: FixedPixels, min_pixels: int, objects: bool) -> Int32Array:
    """(\\*shape,) int32 labels of the chain, `base`, with the edits of the user.

    Only fixed pixels have their label, unless it is unfinished. An object that has lost pixels falls into its connected
    pieces; rims and pieces of fewer than `min_pixels` are background, or join what they touch in regions.
    """
    fixed = edits.fixed if objects else np.maximum(edits.fixed, 0)
    parts = _find_free_objects(base, fixed, min_pixels)
    table = _match_labels(parts, edits.names, set(np.unique(fixed[fixed > 0]).tolist()) - edits.unfinished)
    result: Int32Array = np.where(fixed != 0, np.maximum(fixed, 0), table[parts]).astype(np.int32)
    lost = (base > 0) & (result == 0)
    if not objects and lost.any():
        box = _find_padded_box(lost)
        result[box] = _fill_nearest(result[box], base[box] > 0)
    return result


def _find_free_objects(base: LabelImage, fixed: Int32Array, min_pixels: int) -> Int32Array:
    """(\\*shape,) free objects 1, 2, ...: those of `base` as they are, and the pieces of those that lost pixels."""
    from scipy import ndimage

    free = np.where(fixed == 0, base, 0).astype(np.int32)
    is_broken = np.zeros(int(base.max()) + 1, bool)
    is_broken[base[fixed != 0]] = True
    is_broken[0] = False
    broken = is_broken[free]
    if broken.any():
        box = _find_padded_box(broken)
        broken = broken[box]
        pieces = measure.label(np.where(broken, free[box], 0), background=0, connectivity=1)
        depth = ndimage.distance_transform_edt(pieces > 0)
        is_kept = np.bincount(pieces.ravel()) >= min_pixels
        is_kept &= np.asarray(ndimage.maximum(depth, pieces, np.arange(len(is_kept)))) > RIM
        is_kept[0] = False
        free[box] = np.where(broken, np.where(is_kept[pieces], pieces + len(is_broken), 0), free[box])
    # With 0 before all others, the numbers of the labels leave it 0.
    return number_labels(np.append(0, free))[1][1:].reshape(free.shape).astype(np.int32)


def _match_labels(parts: LabelImage, names: LabelImage, taken: set[int]) -> Int64Array:
    """(parts + 1,) label of each part 1, 2, ...: the displayed one that it overlaps most, each once, or a free one.

    `names` (\\*shape,) are the displayed labels; those `taken` are not available.
    """
    labels = np.zeros(int(parts.max()) + 1, np.int64)
    both = (parts > 0) & (names > 0)
    n_names = int(names.max(initial=0)) + 1
    pairs, count = np.unique(parts[both].astype(np.int64) * n_names + names[both], return_counts=True)
    for k in np.argsort(-count, kind="stable").tolist():
        part, name = divmod(int(pairs[k]), n_names)
        if labels[part] == 0 and name not in taken:
            labels[part] = name
            taken.add(name)
    unmatched = np.flatnonzero(labels == 0)[1:]
    used = np.union1d(np.array(sorted(taken), np.int64), names[names > 0])
    labels[unmatched] = find_free_labels(len(unmatched), used)
    return labels
