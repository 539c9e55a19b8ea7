"""How well objects are found one by one: average precision, F1 and panoptic quality.

An object that came out and one that was wanted are a match if they share enough: their intersection over union is at
least a threshold. From one half on an object has one match at most, but for ties. What counts is how many objects
match, are missed, or are false. Counts of several images add up (:meth:`ObjectCounts.plus`), so that a figure can be
the mean over images, or one over all objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_gsw.core.array_types import Float64Array, LabelImage
from napari_gsw.core.errors import InputError
from napari_gsw.scores.partitions import contingency_table

# The least intersection over union of a match.
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9)
# Those at which F1 is given.
F1_THRESHOLDS = (0.5, 0.7)


def _name(measure: str, threshold: float) -> str:
    """Of a measure at a threshold, as in a table.

    >>> _name("ap", 0.5)
    'ap_50'
    """
    return f"{measure}_{round(100 * threshold)}"


# What is measured of the objects of an image: a heading for a table, and the digits worth printing.
INSTANCE_MEASURES: Mapping[str, tuple[str, int]] = {
    **{_name("ap", threshold): (f"AP at IoU {threshold}", 4) for threshold in THRESHOLDS},
    **{_name("f1", threshold): (f"F1 at IoU {threshold}", 4) for threshold in F1_THRESHOLDS},
    "panoptic_quality": ("panoptic quality", 4),
    "objects": ("objects", 1),
    "true_objects": ("true objects", 1),
}


class ObjectPairs(NamedTuple):
    """Objects of two label images that overlap by half or more, each in one pair at most.

    Attributes
    ----------
    own_labels, true_labels : (pairs,) int64, numbers of the objects of a pair.
    overlap : (pairs,) float64, their intersection over union.
    false_labels, missed_labels : int64, numbers of the objects that have no partner.
    """

    own_labels: NDArray[np.int64]
    true_labels: NDArray[np.int64]
    overlap: Float64Array
    false_labels: NDArray[np.int64]
    missed_labels: NDArray[np.int64]


class ObjectCounts(NamedTuple):
    """What there is to count in one image, or in several.

    Attributes
    ----------
    matches : (thresholds,) float64, how many objects match at each of `THRESHOLDS`.
    objects, true_objects : how many came out, and how many were wanted.
    overlap : sum of the intersections over union of the matches at one half.
    """

    matches: Float64Array
    objects: float
    true_objects: float
    overlap: float

    def plus(self, other: ObjectCounts) -> ObjectCounts:
        """The counts of both."""
        return ObjectCounts(
            self.matches + other.matches,
            self.objects + other.objects,
            self.true_objects + other.true_objects,
            self.overlap + other.overlap,
        )

    def precision(self, threshold: float) -> float:
        """Matches over matches, false and missed objects: the average precision of labels without scores."""
        matches = self._matches(threshold)
        return _share(matches, self.objects + self.true_objects - matches)

    def f1(self, threshold: float) -> float:
        """Twice the matches over the objects of both: the harmonic mean of precision and recall."""
        return _share(2 * self._matches(threshold), self.objects + self.true_objects)

    @property
    def panoptic_quality(self) -> float:
        """F1 at one half, in which a match counts by how well it overlaps."""
        return _share(2 * self.overlap, self.objects + self.true_objects)

    def _matches(self, threshold: float) -> float:
        if threshold not in THRESHOLDS:
            raise InputError(f"the threshold must be one of {', '.join(map(str, THRESHOLDS))}, not {threshold}")
        return float(self.matches[THRESHOLDS.index(threshold)])


def count_matches(labels: ArrayLike, truth: ArrayLike) -> ObjectCounts:
    """Count the objects of a label image that match those of another; 0 is background in both.

    Parameters
    ----------
    labels, truth : label images of one shape.

    Examples
    --------
    >>> object_counts([0, 1, 1, 2], [0, 3, 3, 3]).f1(0.5)
    0.6666666666666666
    """
    pairs = match_objects(labels, truth)
    matches = np.array([float(np.sum(pairs.overlap >= threshold)) for threshold in THRESHOLDS])
    count = len(pairs.overlap)
    return ObjectCounts(
        matches,
        float(count + len(pairs.false_labels)),
        float(count + len(pairs.missed_labels)),
        float(pairs.overlap.sum()),
    )


def match_objects(labels: ArrayLike, truth: ArrayLike) -> ObjectPairs:
    """Which objects of a label image are which of another, and which are false or missed.

    Parameters
    ----------
    labels, truth : label images of one shape, whole numbers; 0 is background.
    """
    x, y = np.asarray(labels), np.asarray(truth)
    table = contingency_table(x, y).tocoo()
    names, true_names = np.unique(x).astype(np.int64), np.unique(y).astype(np.int64)
    rows = np.bincount(table.row, table.data, len(names))
    columns = np.bincount(table.col, table.data, len(true_names))
    overlap = table.data / (rows[table.row] + columns[table.col] - table.data)
    enough = (overlap >= THRESHOLDS[0]) & (names[table.row] != 0) & (true_names[table.col] != 0)
    i, j, overlap = table.row[enough], table.col[enough], overlap[enough]
    # Only ties at one half compete, and those who tie share one partner: the first of them has it.
    order = np.lexsort((j, i, -overlap))
    order = order[np.sort(np.unique(i[order], return_index=True)[1])]
    order = order[np.sort(np.unique(j[order], return_index=True)[1])]
    i, j = i[order], j[order]
    free, missed = np.setdiff1d(np.arange(len(names)), i), np.setdiff1d(np.arange(len(true_names)), j)
    return ObjectPairs(
        names[i],
        true_names[j],
        overlap[order],
        np.setdiff1d(names[free], [0]),
        np.setdiff1d(true_names[missed], [0]),
    )


def find_unmatched(labels: LabelImage, truths: Sequence[LabelImage]) -> tuple[LabelImage, LabelImage]:
    """The missed and the false objects, as label images of the shape of `labels`.

    Missed is an object of any truth that has no match; where two of different truths lie on each other, the one of the
    earlier truth is seen. False is an object that matches none of any truth. All keep their numbers.

    Parameters
    ----------
    labels : label image, whole numbers; 0 is background.
    truths : one label image of the same shape, or several.

    Examples
    --------
    >>> missed, false = unmatched(np.array([0, 1, 1, 2]), [np.array([5, 3, 3, 0])])
    >>> missed.tolist(), false.tolist()
    ([5, 0, 0, 0], [0, 0, 0, 2])
    """
    missed = np.zeros_like(truths[0])
    false_labels = np.unique(labels)
    for truth in truths:
        pairs = match_objects(labels, truth)
        here = np.where(np.isin(truth, pairs.missed_labels), truth, 0)
        missed = np.where(missed == 0, here, missed)
        false_labels = np.intersect1d(false_labels, pairs.false_labels)
    return missed, np.where(np.isin(labels, false_labels), labels, 0)


def compute_object_measures(counts: ObjectCounts) -> dict[str, float]:
    """The figures of `INSTANCE_MEASURES` by name."""
    return {
        **{_name("ap", threshold): counts.precision(threshold) for threshold in THRESHOLDS},
        **{_name("f1", threshold): counts.f1(threshold) for threshold in F1_THRESHOLDS},
        "panoptic_quality": counts.panoptic_quality,
        "objects": counts.objects,
        "true_objects": counts.true_objects,
    }


def counts_to_record(counts: ObjectCounts) -> dict[str, float]:
    """The counts as numbers by name, from which :func:`pooled_counts` has them again."""
    matches = {_name("matches", t): float(m) for t, m in zip(THRESHOLDS, counts.matches, strict=True)}
    return {**matches, "objects": counts.objects, "true_objects": counts.true_objects, "overlap": counts.overlap}


def pool_counts(rows: Iterable[Mapping[str, float]]) -> ObjectCounts:
    """The counts of all rows of :func:`counts_as_row` together."""
    total = ObjectCounts(np.zeros(len(THRESHOLDS)), 0.0, 0.0, 0.0)
    for row in rows:
        matches = np.array([row[_name("matches", threshold)] for threshold in THRESHOLDS])
        total = total.plus(ObjectCounts(matches, row["objects"], row["true_objects"], row["overlap"]))
    return total


def mark_background(labels: LabelImage) -> LabelImage:
    """A label image that has a background: where no pixel is 0, the largest region is taken for it.

    Methods that divide all of an image have no 0, and the background is not an object that they ought to be blamed for.
    """
    if labels.size == 0 or (labels == 0).any():
        return labels
    names, pixels = np.unique(labels, return_counts=True)
    return np.where(labels == names[pixels.argmax()], 0, labels)


def _share(part: float, total: float) -> float:
    """A share; of nothing at all it is 1, since nothing was to be found and nothing was."""
    return part / total if total else 1.0


def mean_dice(labels: ArrayLike, wanted: ArrayLike, where: ArrayLike | None = None) -> float:
    """Dice coefficient of each wanted label, averaged over the labels: small regions count as much as large ones.

    Parameters
    ----------
    labels, wanted, where : as for :func:`dice_of_labels`.

    Examples
    --------
    >>> mean_dice([1, 1, 1, 2], [1, 1, 2, 2])
    0.7333333333333334
    """
    return float(dice_per_label(labels, wanted, where).mean())


def dice_per_label(labels: ArrayLike, wanted: ArrayLike, where: ArrayLike | None = None) -> Float64Array:
    """Twice the pixels that have a label in both, over the pixels that have it in either, counted in each.

    Parameters
    ----------
    labels : label image of what came out; a number that is not wanted anywhere is wrong wherever it stands.
    wanted : label image of the same shape.
    where : pixels to compare, bool of the same shape; None for all.

    Returns
    -------
    (k,) float64, for the wanted labels in the order of their numbers: 1 where a label came out as wanted.
    """
    x, y = np.asarray(labels), np.asarray(wanted)
    if x.shape != y.shape:
        raise InputError(f"two segmentations must have the same shape, not {x.shape} and {y.shape}")
    if where is not None:
        keep = np.asarray(where, dtype=bool)
        x, y = x[keep], y[keep]
    if x.size == 0:
        raise InputError("there is no pixel to compare")
    return np.array([2 * np.sum((x == v) & (y == v)) / (np.sum(x == v) + np.sum(y == v)) for v in np.unique(y)])
