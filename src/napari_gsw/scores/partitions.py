"""How well the boundaries of two segmentations agree: the F measure of boundary pixels within a tolerance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import ndimage, sparse
from scipy.sparse.csgraph import min_weight_full_bipartite_matching

from napari_gsw.core.array_types import BoolArray
from napari_gsw.core.errors import InputError

# Of the image's diagonal.
BOUNDARY_TOLERANCE = 0.0075


def boundary_f(
    segmentation: ArrayLike,
    human_labels: ArrayLike | Sequence[ArrayLike],
    tolerance: float | None = None,
    where: ArrayLike | None = None,
) -> float:
    """F measure of boundary pixels, matched within a tolerance.

    Precision: the share of the segmentation's boundary near any human's; recall: the share of a human's
    boundary near the segmentation's, averaged over humans. Nearness is a distance, not the one-to-one matching of
    the Berkeley benchmark, which makes the figure a little higher.

    Parameters
    ----------
    segmentation : label image of any number of dimensions.
    humans : one label image of the same shape, or a list of them.
    tolerance : in pixels; None takes 0.75 % of the image's diagonal.
    where : pixels to compare, bool of the same shape; a boundary to a pixel outside is none.
    """
    labels = np.asarray(segmentation)
    references = [np.asarray(h) for h in (human_labels if isinstance(human_labels, (list, tuple)) else [human_labels])]
    if not references:
        raise InputError("the boundary measure needs at least one human segmentation")
    if any(reference.shape != labels.shape for reference in references):
        raise InputError(f"all segmentations must have the shape {labels.shape}")
    boundaries = Boundaries(labels, tolerance)
    for reference in references:
        boundaries.add(reference, None if where is None else np.asarray(where, dtype=bool))
    return boundaries.f()


def default_tolerance(shape: Sequence[int]) -> float:
    """Distance in pixels within which boundaries match, if nobody says otherwise: 0.75 % of the diagonal."""
    return BOUNDARY_TOLERANCE * float(np.linalg.norm(shape))


class Boundaries:
    """Precision and recall of a segmentation's boundary, one reference at a time.

    The distance to any of several boundaries is the least of the distances, so what lies near any reference is the
    union of what lies near each, and no distance is computed twice.

    Parameters
    ----------
    labels : label image of the segmentation.
    tolerance : in pixels; None takes 0.75 % of the image's diagonal.
    """

    def __init__(self, labels: NDArray[np.generic], tolerance: float | None) -> None:
        if tolerance is not None and not tolerance >= 0:
            raise InputError(f"the boundary tolerance must be 0 pixels or more, not {tolerance}")
        self._labels = labels
        self._tolerance = default_tolerance(labels.shape) if tolerance is None else tolerance
        self._unmasked: tuple[BoolArray, BoolArray] | None = None
        self._edge = np.zeros(labels.shape, bool)
        self._near = np.zeros(labels.shape, bool)
        self._recalls: list[float] = []

    def add(self, reference: NDArray[np.generic], where: BoolArray | None) -> float:
        """Take in a reference, and return the F measure against it alone.

        Parameters
        ----------
        reference : label image of the segmentation's shape.
        where : pixels to compare, bool of the same shape; None for all.
        """
        reference_edge = find_boundaries(reference, where)
        own_edge, near_own = self._own_edge(where)
        near_reference = dilate_boundaries(reference_edge, self._tolerance)
        self._edge |= own_edge
        self._near |= near_reference
        self._recalls.append(_share(near_own, reference_edge))
        return _f(_share(near_reference, own_edge), self._recalls[-1])

    def f(self) -> float:
        """The F measure against all references so far."""
        return _f(_share(self._near, self._edge), float(np.mean(self._recalls)))

    def _own_edge(self, where: BoolArray | None) -> tuple[BoolArray, BoolArray]:
        """The segmentation's boundary, and what is near it; without a mask they are the same for every reference."""
        if where is None and self._unmasked is not None:
            return self._unmasked
        edge = find_boundaries(self._labels, where)
        edge_and_near = edge, dilate_boundaries(edge, self._tolerance)
        if where is None:
            self._unmasked = edge_and_near
        return edge_and_near


def find_boundaries(labels: NDArray[np.generic], where: BoolArray | None = None) -> BoolArray:
    """Pixels whose next neighbour along some axis has another label: boundaries one pixel wide.

    Parameters
    ----------
    labels : label image of any number of dimensions.
    where : pixels that count, bool of the same shape; None for all.

    Returns
    -------
    bool of the same shape.
    """
    edge = np.zeros(labels.shape, bool)
    for axis in range(labels.ndim):
        along = np.moveaxis(labels, axis, 0)
        change = along[:-1] != along[1:]
        if where is not None:
            inside = np.moveaxis(where, axis, 0)
            change &= inside[:-1] & inside[1:]
        np.moveaxis(edge, axis, 0)[:-1] |= change
    return edge


def dilate_boundaries(edge: BoolArray, tolerance: float) -> BoolArray:
    """Pixels within a distance of the pixels of an edge; bool of the same shape."""
    if not edge.any():
        return np.zeros(edge.shape, bool)
    within: BoolArray = ndimage.distance_transform_edt(~edge) <= tolerance
    return within


def _share(matched: BoolArray, edge: BoolArray) -> float:
    """Share of an edge's pixels that are matched; 1 if there are none to match."""
    return float(matched[edge].mean()) if edge.any() else 1.0


def _f(precision: float, recall: float) -> float:
    return 0.0 if precision + recall == 0 else 2 * precision * recall / (precision + recall)


__all__ = [
    "Scores",
    "adjusted_rand",
    "best_overlap",
    "boundary_f",
    "compute_disagreement",
    "compute_scores",
    "contingency_table",
    "covering",
    "default_tolerance",
    "probabilistic_rand",
    "rand_index",
    "table_scores",
    "variation_of_information",
]

# Called with the name of each step before it.
StepReport = Callable[[str], None]

# Labels are looked up in a table as long as this or as there are pixels, whichever is more; others are sorted.
LOOKUP = 2**16


class Scores(NamedTuple):
    """How well a segmentation agrees with a reference, or with several on average.

    Attributes
    ----------
    rand, adjusted_rand, variation_of_information, covering, boundary_f : as the functions of these names tell.
    regions, reference_regions : how many labels the segmentation and the reference have where they are compared.
    """

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
    report: StepReport | None = None,
) -> list[Scores]:
    """All measures of this module, for each reference and for all of them together.

    Parameters
    ----------
    segmentation : label image of any number of dimensions.
    references : label images of the same shape.
    tolerance : in pixels; None takes 0.75 % of the image's diagonal.
    ignore_background : leave out of each comparison the pixels that have the label 0 in its reference.
    report : called with the name of each step before it; an exception that it raises ends the work.

    Returns
    -------
    One row for each reference. If there are several, one more for all: the means of the others (that of the Rand
    index is the probabilistic Rand index), and the boundary measure against all references together.

    Examples
    --------
    >>> [row.covering for row in scores([0, 0, 1, 1], [[5, 5, 3, 3], [1, 1, 1, 1]])]
    [1.0, 0.5, 0.75]
    """
    labels, reference_labels = _checked(segmentation, references)
    count = len(reference_labels)
    boundaries = Boundaries(labels, tolerance)
    rows = []
    for k, reference in enumerate(reference_labels):
        title = f"reference {k + 1} of {count}" if count > 1 else "the reference"
        where = reference != 0 if ignore_background else None
        _report_step(report, f"regions of {title}")
        table = contingency_table(labels, reference, where)
        figures = (_rand(table), _adjusted_rand(table), _information(table), _covering(table.T.tocsr()))
        _report_step(report, f"boundaries of {title}")
        rows.append(Scores(*figures, boundaries.add(reference, where), *map(float, table.shape)))
    if len(rows) > 1:
        rows.append(Scores(*np.mean(rows, axis=0).tolist())._replace(boundary_f=boundaries.f()))
    return rows


def compute_disagreement(
    segmentation: ArrayLike,
    references: Sequence[ArrayLike],
    *,
    ignore_background: bool = False,
    report: StepReport | None = None,
) -> NDArray[np.float32]:
    """Share of the references that see another region at a pixel.

    The regions of the segmentation are paired with those of each reference such that the pairs share as many pixels
    as they can; each has at most one partner, and a pixel that does not lie in both regions of a pair differs.

    Parameters
    ----------
    segmentation, references : as for :func:`scores`.
    ignore_background : count at each pixel only the references that have a label other than 0 there; where there
        are none, the disagreement is 0.
    report : as for :func:`scores`.

    Returns
    -------
    float32 of the segmentation's shape, 0 to 1.

    Examples
    --------
    >>> disagreement([0, 0, 0, 1], [[7, 7, 4, 4]]).tolist()
    [0.0, 0.0, 1.0, 0.0]
    """
    labels, reference_labels = _checked(segmentation, references)
    count = len(reference_labels)
    differing = np.zeros(labels.shape, np.float32)
    counted = np.zeros(labels.shape, np.float32)
    for k, reference in enumerate(reference_labels):
        _report_step(report, f"differences from reference {k + 1} of {count}" if count > 1 else "differences")
        where = reference != 0 if ignore_background else np.ones(labels.shape, bool)
        differing[where] += _differs(labels[where], reference[where])
        counted += where
    return np.divide(differing, counted, out=differing, where=counted > 0)


def contingency_table(a: ArrayLike, b: ArrayLike, where: ArrayLike | None = None) -> sparse.csr_array:
    """How many pixels two segmentations' regions share.

    Parameters
    ----------
    a, b : label images of one shape.
    where : pixels to compare, bool of the same shape; None for all.

    Returns
    -------
    (regions of a, regions of b) int64, sparse: pixels with the i-th label of a and the j-th label of b.
    """
    x, y = np.asarray(a), np.asarray(b)
    _must_have_one_shape(x, y)
    if where is not None:
        keep = np.asarray(where, dtype=bool)
        x, y = x[keep], y[keep]
    if x.size == 0:
        raise InputError("there is no pixel to compare")
    return _table(*_numbered(x), *_numbered(y))


def table_scores(table: sparse.csr_array) -> tuple[float, float, float]:
    """Rand index, variation of information and covering of the columns, from a table as of :func:`contingency`."""
    return _rand(table), _information(table), _covering(table.T.tocsr())


def rand_index(a: ArrayLike, b: ArrayLike, where: ArrayLike | None = None) -> float:
    """Share of the pairs of pixels on which two segmentations agree: together in both, or apart in both.

    Parameters
    ----------
    a, b, where : as for :func:`contingency`.

    Examples
    --------
    >>> round(rand_index([0, 0, 1, 1], [0, 0, 1, 2]), 4)
    0.8333
    """
    return _rand(contingency_table(a, b, where))


def adjusted_rand(a: ArrayLike, b: ArrayLike, where: ArrayLike | None = None) -> float:
    """Rand index corrected for chance: 0 for unrelated segmentations with these sizes, 1 for equal ones.

    Parameters
    ----------
    a, b, where : as for :func:`contingency`.
    """
    return _adjusted_rand(contingency_table(a, b, where))


def probabilistic_rand(
    segmentation: ArrayLike, human_labels: Sequence[ArrayLike], where: ArrayLike | None = None
) -> float:
    """Rand index averaged over several people's segmentations of the image.

    Parameters
    ----------
    segmentation, where : as for :func:`contingency`.
    humans : label images of the same shape, at least one.
    """
    if not len(human_labels):
        raise InputError("the probabilistic Rand index needs at least one human segmentation")
    return float(np.mean([rand_index(segmentation, human, where) for human in human_labels]))


def variation_of_information(a: ArrayLike, b: ArrayLike, where: ArrayLike | None = None) -> float:
    """H(a | b) + H(b | a) in bits: 0 for equal segmentations.

    Parameters
    ----------
    a, b, where : as for :func:`contingency`.

    Examples
    --------
    >>> variation_of_information([0, 0, 1, 1], [0, 1, 0, 1])
    2.0
    """
    return _information(contingency_table(a, b, where))


def covering(segmentation: ArrayLike, human: ArrayLike, where: ArrayLike | None = None) -> float:
    """How well the human's regions are covered: their best intersection over union, averaged by their size.

    Parameters
    ----------
    segmentation, human, where : as `a`, `b` and `where` for :func:`contingency`.
    """
    return _covering(contingency_table(human, segmentation, where))


def best_overlap(segmentation: ArrayLike, human: ArrayLike) -> float:
    """For each object of the reference (0 is background) the best intersection over union of any region, averaged.

    1 if the reference has no object.

    Parameters
    ----------
    segmentation, human : label images of one shape.

    Examples
    --------
    >>> best_overlap([0, 1, 1, 2], [0, 1, 1, 1])
    0.6666666666666666
    """
    objects = np.unique(np.asarray(human)) > 0
    best = _overlaps(contingency_table(human, segmentation))[1]
    return float(best[objects].mean()) if objects.any() else 1.0


def _checked(
    segmentation: ArrayLike, references: Sequence[ArrayLike]
) -> tuple[NDArray[np.generic], list[NDArray[np.generic]]]:
    """The segmentation and its references as arrays, of one shape."""
    labels, reference_labels = np.asarray(segmentation), [np.asarray(r) for r in references]
    if not reference_labels:
        raise InputError("choose at least one reference to compare with")
    for reference in reference_labels:
        _must_have_one_shape(labels, reference)
    return labels, reference_labels


def _must_have_one_shape(a: NDArray[np.generic], b: NDArray[np.generic]) -> None:
    if a.shape != b.shape:
        raise InputError(f"two segmentations must have the same shape, not {a.shape} and {b.shape}")


def _report_step(report: StepReport | None, step: str) -> None:
    if report is not None:
        report(step)


def _numbered(labels: NDArray[np.generic]) -> tuple[NDArray[np.intp], int]:
    """Labels as numbers 0 to n - 1, shape (pixels,), and n."""
    x = labels.ravel()
    if x.dtype.kind in "biu":
        low, high = int(x.min()), int(x.max())
        # A lookup is an order of magnitude faster than the sort of np.unique.
        if high - low < max(x.size, LOOKUP) and high < 2**63:
            place = x.astype(np.int64) - low
            used = np.zeros(high - low + 1, bool)
            used[place] = True
            return (np.cumsum(used, dtype=np.intp) - 1)[place], int(used.sum())
    values, codes = np.unique(x, return_inverse=True)
    return codes.ravel(), len(values)


def _table(i: NDArray[np.intp], n: int, j: NDArray[np.intp], m: int) -> sparse.csr_array:
    """How often the numbers i (below n) and j (below m) come together, shape (n, m)."""
    if n * m <= max(i.size, LOOKUP):
        return sparse.csr_array(np.bincount(i * m + j, minlength=n * m).reshape(n, m))
    return sparse.coo_array((np.ones(i.size, np.int64), (i, j)), shape=(n, m)).tocsr()


def _differs(a: NDArray[np.generic], b: NDArray[np.generic]) -> BoolArray:
    """Pixels whose label in a is not the partner of their label in b, shape (pixels,)."""
    if a.size == 0:
        return np.zeros(0, bool)
    (i, n), (j, m) = _numbered(a), _numbered(b)
    overlap = _table(i, n, j, m).astype(np.float64)
    # The matching must be full, so each label of a also has a dummy partner that shares nothing. One is added to
    # all weights because a weight of 0 is no edge; each label takes one edge, so it changes no comparison.
    overlap.data += 1
    rows, columns = min_weight_full_bipartite_matching(
        sparse.hstack([overlap, sparse.eye_array(n)], format="csr"), maximize=True
    )
    partner = np.empty(n, np.intp)
    partner[rows] = columns
    differs: BoolArray = partner[i] != j
    return differs


def _rand(table: sparse.csr_array) -> float:
    same, in_a, in_b, pairs = _pairs(table)
    return 1.0 if pairs == 0 else (pairs + 2 * same - in_a - in_b) / pairs


def _adjusted_rand(table: sparse.csr_array) -> float:
    same, in_a, in_b, pairs = _pairs(table)
    expected = in_a * in_b / pairs if pairs else 0.0
    most = (in_a + in_b) / 2
    return 1.0 if most == expected else (same - expected) / (most - expected)


def _information(table: sparse.csr_array) -> float:
    joint = _entropy(table.data)
    return max(2 * joint - _entropy(table.sum(axis=0)) - _entropy(table.sum(axis=1)), 0.0)


def _covering(table: sparse.csr_array) -> float:
    """Covering of the regions of the rows by those of the columns."""
    pixels, best = _overlaps(table)
    return float(pixels @ best / pixels.sum())


def _overlaps(table: sparse.csr_array) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Pixels of the regions of the rows, and the best intersection over union of each with one of the columns."""
    cells = table.tocoo()
    rows = np.asarray(table.sum(axis=1)).ravel()
    columns = np.asarray(table.sum(axis=0)).ravel()
    overlap = cells.data / (rows[cells.row] + columns[cells.col] - cells.data)
    best = np.zeros(len(rows))
    np.maximum.at(best, cells.row, overlap)
    return rows, best


def _pairs(table: sparse.csr_array) -> tuple[float, float, float, float]:
    """Pairs together in both, in a, in b, and all pairs; as floats, since they may exceed 64-bit integers."""

    def choose(counts: ArrayLike) -> float:
        c = np.asarray(counts, dtype=np.float64)
        return float(np.sum(c * (c - 1)) / 2)

    return choose(table.data), choose(table.sum(axis=1)), choose(table.sum(axis=0)), choose(table.sum())


def _entropy(counts: NDArray[np.int64]) -> float:
    p = np.asarray(counts, dtype=np.float64).ravel()
    p = p[p > 0] / p.sum()
    return float(-np.sum(p * np.log2(p)))
