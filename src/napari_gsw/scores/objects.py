"""Scores of objects: average precision, F1, panoptic quality, and the Dice coefficient of labels.

An object matches an object of the reference if their intersection over union is at least a threshold of 0.5 or more, so
it has one match at most except for ties. Counts of several images add up, so a score can be the mean over images or one
over all objects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from napari_gsw.core.array_types import Float64Array, Int64Array, LabelImage
from napari_gsw.core.errors import InputError
from napari_gsw.scores.partitions import compute_overlaps, contingency_table

# Thresholds of the intersection over union, and those at which F1 is reported.
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9)
F1_THRESHOLDS = (0.5, 0.7)


def _name(measure: str, threshold: float) -> str:
    return f"{measure}_{round(100 * threshold)}"


# Scores of the objects of an image: a heading for a table, and the digits worth printing.
INSTANCE_MEASURES: Mapping[str, tuple[str, int]] = {
    **{_name("ap", threshold): (f"AP at IoU {threshold}", 4) for threshold in THRESHOLDS},
    **{_name("f1", threshold): (f"F1 at IoU {threshold}", 4) for threshold in F1_THRESHOLDS},
    "panoptic_quality": ("panoptic quality", 4),
    "objects": ("objects", 1),
    "true_objects": ("true objects", 1),
}
# Counts of objects by name: matches at each threshold, objects of both images, and the sum of the intersections over
# union of the matches at 0.5.
Counts = Mapping[str, float]


class ObjectPairs(NamedTuple):
    """Objects of two label images that overlap by half or more, each in one pair at most."""

    own_labels: Int64Array  # (pairs,)
    true_labels: Int64Array  # (pairs,)
    overlap: Float64Array  # (pairs,) intersection over union
    false_labels: Int64Array  # objects without a partner
    missed_labels: Int64Array  # objects of the reference without a partner


def match_objects(labels: ArrayLike, truth: ArrayLike) -> ObjectPairs:
    """Match the objects of two label images of one shape; 0 is background in both."""
    x, y = np.asarray(labels), np.asarray(truth)
    cells = compute_overlaps(contingency_table(x, y))
    numbers, true_numbers = np.unique(x).astype(np.int64), np.unique(y).astype(np.int64)
    enough = (cells.data >= THRESHOLDS[0]) & (numbers[cells.row] != 0) & (true_numbers[cells.col] != 0)
    i, j, overlap = cells.row[enough], cells.col[enough], cells.data[enough]
    # Only ties at 0.5 compete, and they share one partner: the first of them gets it.
    order = np.lexsort((j, i, -overlap))
    order = order[np.sort(np.unique(i[order], return_index=True)[1])]
    order = order[np.sort(np.unique(j[order], return_index=True)[1])]
    own, true = numbers[i[order]], true_numbers[j[order]]
    return ObjectPairs(
        own, true, overlap[order], np.setdiff1d(numbers, [*own, 0]), np.setdiff1d(true_numbers, [*true, 0])
    )


def count_matches(labels: ArrayLike, truth: ArrayLike) -> dict[str, float]:
    """Count the objects of a label image that match those of another; 0 is background in both.

    Examples
    --------
    >>> count_matches([0, 1, 1, 2], [0, 3, 3, 3])["matches_60"]
    1.0
    """
    pairs = match_objects(labels, truth)
    return {
        **{_name("matches", threshold): float(np.sum(pairs.overlap >= threshold)) for threshold in THRESHOLDS},
        "objects": float(len(pairs.overlap) + len(pairs.false_labels)),
        "true_objects": float(len(pairs.overlap) + len(pairs.missed_labels)),
        "overlap": float(pairs.overlap.sum()),
    }


def pool_counts(counts: Sequence[Counts]) -> dict[str, float]:
    """Add up the counts of several images."""
    names = (*(_name("matches", threshold) for threshold in THRESHOLDS), "objects", "true_objects", "overlap")
    return {name: sum(count[name] for count in counts) for name in names}


def find_unmatched(labels: LabelImage, truths: Sequence[LabelImage]) -> tuple[LabelImage, LabelImage]:
    """Find the missed and the false objects, as label images with the original numbers.

    An object of any reference without a match is missed; where missed objects of several references overlap, that of
    the first is shown. An object that matches none of any reference is false.

    Examples
    --------
    >>> missed, false = find_unmatched(np.array([0, 1, 1, 2]), [np.array([5, 3, 3, 0])])
    >>> missed.tolist(), false.tolist()
    ([5, 0, 0, 0], [0, 0, 0, 2])
    """
    missed = np.zeros_like(truths[0])
    false_labels = np.unique(labels)
    for truth in truths:
        pairs = match_objects(labels, truth)
        missed = np.where((missed == 0) & np.isin(truth, pairs.missed_labels), truth, missed)
        false_labels = np.intersect1d(false_labels, pairs.false_labels)
    return missed, np.where(np.isin(labels, false_labels), labels, 0)


def compute_object_measures(counts: Counts) -> dict[str, float]:
    """Compute the scores of `INSTANCE_MEASURES` by name; 1 where there is no object in either.

    Average precision, of labels without scores, is matches by matches, false and missed objects. F1 is the harmonic
    mean of precision and recall; panoptic quality is F1 at 0.5 with each match weighted by its overlap.
    """

    def divide(part: float, total: float) -> float:
        return part / total if total else 1.0

    total = counts["objects"] + counts["true_objects"]
    matches = {threshold: counts[_name("matches", threshold)] for threshold in THRESHOLDS}
    return {
        **{_name("ap", threshold): divide(m, total - m) for threshold, m in matches.items()},
        **{_name("f1", threshold): divide(2 * matches[threshold], total) for threshold in F1_THRESHOLDS},
        "panoptic_quality": divide(2 * counts["overlap"], total),
        "objects": counts["objects"],
        "true_objects": counts["true_objects"],
    }


def mark_background(labels: LabelImage) -> LabelImage:
    """Make the largest region the background, 0, if no pixel is 0.

    Methods that partition the whole image have no background, and it should not count as a false object.
    """
    if labels.size == 0 or (labels == 0).any():
        return labels
    numbers, n_pixels = np.unique(labels, return_counts=True)
    return np.where(labels == numbers[n_pixels.argmax()], 0, labels)


def mean_dice(labels: ArrayLike, wanted: ArrayLike, where: ArrayLike | None = None) -> float:
    """Compute the mean Dice coefficient of the wanted labels, see :func:`dice_per_label`.

    Examples
    --------
    >>> mean_dice([1, 1, 1, 2], [1, 1, 2, 2])
    0.7333333333333334
    """
    return float(dice_per_label(labels, wanted, where).mean())


def dice_per_label(labels: ArrayLike, wanted: ArrayLike, where: ArrayLike | None = None) -> Float64Array:
    """Compute the Dice coefficient of each wanted label, in the order of their numbers, of the pixels in `where`.

    A number that is not wanted is wrong everywhere.
    """
    x, y = np.asarray(labels), np.asarray(wanted)
    if x.shape != y.shape:
        raise InputError(f"two segmentations must have the same shape, not {x.shape} and {y.shape}")
    if where is not None:
        mask = np.asarray(where, dtype=bool)
        x, y = x[mask], y[mask]
    if x.size == 0:
        raise InputError("there is no pixel to compare")
    return np.array([2 * np.sum((x == v) & (y == v)) / (np.sum(x == v) + np.sum(y == v)) for v in np.unique(y)])
