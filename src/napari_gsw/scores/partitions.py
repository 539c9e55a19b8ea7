"""Scores of a segmentation against reference segmentations: regions, boundaries, and the pixels that differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import ndimage, sparse
from scipy.sparse.csgraph import min_weight_full_bipartite_matching

from napari_gsw.core.array_types import BoolArray, Float64Array
from napari_gsw.core.errors import InputError
from napari_gsw.core.special import number_labels

# Default tolerance of boundaries, as a fraction of the image's diagonal.
BOUNDARY_TOLERANCE = 0.0075
# A table with more cells than this, and than there are pixels, is not filled densely.
MAX_CELLS = 2**16
# Called with the name of each step before the step.
StepReport = Callable[[str], object]


class Scores(NamedTuple):
    """Scores of a segmentation against a reference, or means over several references."""

    rand: float
    adjusted_rand: float
    variation_of_information: float
    covering: float
    boundary_f: float
    regions: float
    reference_regions: float


def compute_scores(
    segmentation: ArrayLike,
    references: Sequence[ArrayLike],
    *,
    tolerance: float | None = None,
    ignore_background: bool = False,
    report: StepReport = lambda step: None,
) -> list[Scores]:
    """Compute all scores, for each reference and, if there are several, for all references together.

    The latter are means (the mean Rand index is the probabilistic Rand index), and the boundary score against all.
    The tolerance of boundaries is in pixels; None is 0.75 % of the image's diagonal. With `ignore_background`, pixels
    that have the label 0 in a reference are left out of the comparison with it. An exception of `report` ends the work.

    Examples
    --------
    >>> [row.covering for row in compute_scores([0, 0, 1, 1], [[5, 5, 3, 3], [1, 1, 1, 1]])]
    [1.0, 0.5, 0.75]
    """
    labels, reference_labels = _check_shapes(segmentation, references)
    masks = [reference != 0 if ignore_background else None for reference in reference_labels]
    tables = []
    for title, reference, mask in zip(_name_references(reference_labels), reference_labels, masks, strict=True):
        report(f"regions of {title}")
        tables.append(contingency_table(labels, reference, mask))
    *boundaries, boundary = _score_boundaries(labels, reference_labels, masks, tolerance, report)
    rows = [Scores(*score_table(t), f, *map(float, t.shape)) for t, f in zip(tables, boundaries, strict=True)]
    if len(rows) > 1:
        rows.append(Scores(*np.mean(rows, axis=0).tolist())._replace(boundary_f=boundary))
    return rows


def compute_disagreement(
    segmentation: ArrayLike,
    references: Sequence[ArrayLike],
    *,
    ignore_background: bool = False,
    report: StepReport = lambda step: None,
) -> NDArray[np.float32]:
    """Compute at each pixel the fraction of the references that have another region there.

    The regions of the segmentation are paired with those of each reference so that the pairs share as many pixels as
    possible; each has at most one partner, and a pixel that does not lie in both regions of a pair differs. With
    `ignore_background` a reference does not count where its label is 0.
    """
    labels, reference_labels = _check_shapes(segmentation, references)
    n_differing, n_counted = np.zeros(labels.shape, np.float32), np.zeros(labels.shape, np.float32)
    for title, reference in zip(_name_references(reference_labels), reference_labels, strict=True):
        report(f"differences from {title}")
        mask = reference != 0 if ignore_background else np.ones(labels.shape, bool)
        n_counted += mask
        if not mask.any():
            continue
        i, j = number_labels(labels[mask])[1], number_labels(reference[mask])[1]
        overlap = _count_pairs(i, j).astype(np.float64)
        # The matching must be full, so each region also has a dummy partner that shares nothing. One is added to all
        # weights because a weight of 0 is no edge; each region takes one edge, so it changes no comparison.
        overlap.data += 1
        dummies = sparse.eye_array(overlap.shape[0])
        regions, pairs = min_weight_full_bipartite_matching(
            sparse.hstack([overlap, dummies], format="csr"), maximize=True
        )
        partner = np.empty(overlap.shape[0], np.intp)
        partner[regions] = pairs
        n_differing[mask] += partner[i] != j
    return np.divide(n_differing, n_counted, out=n_differing, where=n_counted > 0)


def contingency_table(a: ArrayLike, b: ArrayLike, where: ArrayLike | None = None) -> sparse.csr_array:
    """Count the pixels that the regions of two segmentations share, of all or only of those in `where`.

    Returns (regions of a, regions of b) the pixels with the i-th label of a and the j-th of b, by their numbers.
    """
    x, (y,) = _check_shapes(a, [b])
    if where is not None:
        mask = np.asarray(where, dtype=bool)
        x, y = x[mask], y[mask]
    if x.size == 0:
        raise InputError("there is no pixel to compare")
    return _count_pairs(number_labels(x)[1], number_labels(y)[1])


def _count_pairs(i: NDArray[np.intp], j: NDArray[np.intp]) -> sparse.csr_array:
    """Count how often the numbers i and j occur together; each begins with 0 and has no gaps."""
    n, m = int(i.max()) + 1, int(j.max()) + 1
    if n * m <= max(i.size, MAX_CELLS):
        return sparse.csr_array(np.bincount(i * m + j, minlength=n * m).reshape(n, m))
    return sparse.coo_array((np.ones(i.size, np.int64), (i, j)), shape=(n, m)).tocsr()


def score_table(table: sparse.csr_array) -> tuple[float, float, float, float]:
    """Compute Rand index, adjusted Rand index, variation of information and covering of the columns from a table."""
    in_a, in_b = np.asarray(table.sum(axis=1)).ravel(), np.asarray(table.sum(axis=0)).ravel()
    # Pairs of pixels together in both, in a, in b, and all pairs; as floats, since 64-bit integers may overflow.
    sizes = [np.asarray(x, dtype=np.float64) for x in (table.data, in_a, in_b, [in_a.sum()])]
    same, same_a, same_b, n_pairs = (float(np.sum(x * (x - 1)) / 2) for x in sizes)
    rand = 1.0 if n_pairs == 0 else (n_pairs + 2 * same - same_a - same_b) / n_pairs
    expected, maximum = same_a * same_b / n_pairs if n_pairs else 0.0, (same_a + same_b) / 2
    adjusted = 1.0 if maximum == expected else (same - expected) / (maximum - expected)
    information = max(2 * _entropy(sizes[0]) - _entropy(sizes[2]) - _entropy(sizes[1]), 0.0)
    return rand, adjusted, information, float(in_b @ compute_overlaps(table).max(axis=0).toarray().ravel() / in_b.sum())


def rand_index(a: ArrayLike, b: ArrayLike, where: ArrayLike | None = None) -> float:
    """Compute the fraction of pairs of pixels that are together in both segmentations, or apart in both."""
    return score_table(contingency_table(a, b, where))[0]


def adjusted_rand(a: ArrayLike, b: ArrayLike, where: ArrayLike | None = None) -> float:
    """Compute the Rand index corrected for chance: 0 for unrelated segmentations, 1 for equal ones."""
    return score_table(contingency_table(a, b, where))[1]


def probabilistic_rand(
    segmentation: ArrayLike, human_labels: Sequence[ArrayLike], where: ArrayLike | None = None
) -> float:
    """Compute the mean Rand index over the segmentations of several annotators."""
    if not len(human_labels):
        raise InputError("the probabilistic Rand index needs at least one human segmentation")
    return float(np.mean([rand_index(segmentation, human, where) for human in human_labels]))


def variation_of_information(a: ArrayLike, b: ArrayLike, where: ArrayLike | None = None) -> float:
    """Compute H(a | b) + H(b | a) in bits: 0 for equal segmentations."""
    return score_table(contingency_table(a, b, where))[2]


def covering(segmentation: ArrayLike, human: ArrayLike, where: ArrayLike | None = None) -> float:
    """Compute the best intersection over union of each region of the annotator, averaged by their sizes."""
    return score_table(contingency_table(segmentation, human, where))[3]


def best_overlap(segmentation: ArrayLike, human: ArrayLike) -> float:
    """Compute the best intersection over union of each object of the reference, averaged over the objects.

    The label 0 of the reference is background. The score is 1 if the reference has no object.
    """
    is_object = np.unique(np.asarray(human)) > 0
    best = compute_overlaps(contingency_table(human, segmentation)).max(axis=1).toarray().ravel()
    return float(best[is_object].mean()) if is_object.any() else 1.0


def boundary_f(
    segmentation: ArrayLike,
    human_labels: ArrayLike | Sequence[ArrayLike],
    tolerance: float | None = None,
    where: ArrayLike | None = None,
) -> float:
    """Compute the F measure of boundary pixels, matched within a tolerance in pixels; None is 0.75 % of the diagonal.

    Precision is the fraction of the segmentation's boundary near that of any annotator; recall is the fraction of an
    annotator's boundary near that of the segmentation, averaged over annotators. The match is by distance, not one to
    one as in the Berkeley benchmark, so the score is slightly higher. A boundary to a pixel outside of `where` does
    not count. `human_labels` is one label image, or a list of several.
    """
    several: Any = list(human_labels) if isinstance(human_labels, (list, tuple)) else [human_labels]
    labels, references = _check_shapes(segmentation, several)
    mask = None if where is None else np.asarray(where, dtype=bool)
    return _score_boundaries(labels, references, [mask] * len(references), tolerance)[-1]


def _score_boundaries(
    labels: NDArray[np.generic],
    references: Sequence[NDArray[np.generic]],
    masks: Sequence[BoolArray | None],
    tolerance: float | None,
    report: StepReport = lambda step: None,
) -> list[float]:
    """Compute the F measure against each reference, and that against all of them together."""
    if tolerance is None:
        tolerance = default_tolerance(labels.shape)
    if not tolerance >= 0:
        raise InputError(f"the boundary tolerance must be 0 pixels or more, not {tolerance}")

    def matched(edge: BoolArray, near: BoolArray) -> float:
        return float(near[edge].mean()) if edge.any() else 1.0

    def f_measure(precision: float, recall: float) -> float:
        return 0.0 if precision + recall == 0 else 2 * precision * recall / (precision + recall)

    scores, recalls = [], []
    any_edge, any_near = np.zeros((2, *labels.shape), bool)
    for k, (title, reference, mask) in enumerate(zip(_name_references(references), references, masks, strict=True)):
        report(f"boundaries of {title}")
        if k == 0 or mask is not None:  # without a mask, the same for every reference
            edge = find_boundaries(labels, mask)
            near_edge = dilate_boundaries(edge, tolerance)
        reference_edge = find_boundaries(reference, mask)
        near_reference = dilate_boundaries(reference_edge, tolerance)
        any_edge |= edge
        any_near |= near_reference
        recalls.append(matched(reference_edge, near_edge))
        scores.append(f_measure(matched(edge, near_reference), recalls[-1]))
    return [*scores, f_measure(matched(any_edge, any_near), float(np.mean(recalls)))]


def default_tolerance(shape: Sequence[int]) -> float:
    """Return the default distance in pixels within which boundaries match: 0.75 % of the diagonal."""
    return BOUNDARY_TOLERANCE * float(np.linalg.norm(shape))


def find_boundaries(labels: NDArray[np.generic], mask: BoolArray | None = None) -> BoolArray:
    """Find the pixels, within the mask, whose next neighbour along some axis has another label."""
    edge = np.zeros(labels.shape, bool)
    for axis in range(labels.ndim):
        values = np.moveaxis(labels, axis, 0)
        change = values[:-1] != values[1:]
        if mask is not None:
            inside = np.moveaxis(mask, axis, 0)
            change &= inside[:-1] & inside[1:]
        np.moveaxis(edge, axis, 0)[:-1] |= change
    return edge


def dilate_boundaries(edge: BoolArray, tolerance: float) -> BoolArray:
    """Find the pixels within a distance of the pixels of an edge."""
    if not edge.any():
        return np.zeros(edge.shape, bool)
    return np.asarray(ndimage.distance_transform_edt(~edge) <= tolerance)


def _check_shapes(
    segmentation: ArrayLike, references: Sequence[ArrayLike]
) -> tuple[NDArray[np.generic], list[NDArray[np.generic]]]:
    labels, reference_labels = np.asarray(segmentation), [np.asarray(reference) for reference in references]
    if not reference_labels:
        raise InputError("choose at least one reference to compare with")
    for reference in reference_labels:
        if labels.shape != reference.shape:
            raise InputError(f"two segmentations must have the same shape, not {labels.shape} and {reference.shape}")
    return labels, reference_labels


def _name_references(references: Sequence[Any]) -> list[str]:
    count = len(references)
    return [f"reference {k + 1} of {count}" for k in range(count)] if count > 1 else ["the reference"]


def compute_overlaps(table: sparse.csr_array) -> sparse.coo_array:
    """Compute the intersection over union of all regions that share a pixel from a contingency table."""
    cells = table.tocoo().astype(np.float64)
    rows, columns = (np.asarray(table.sum(axis=axis)).ravel() for axis in (1, 0))
    cells.data /= rows[cells.row] + columns[cells.col] - cells.data
    return cells


def _entropy(counts: Float64Array) -> float:
    p = counts[counts > 0] / counts.sum()
    return float(-np.sum(p * np.log2(p)))
