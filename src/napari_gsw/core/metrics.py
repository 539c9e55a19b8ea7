"""How well two segmentations agree.

All functions take label images (or any arrays) of one shape; equal numbers mean the same region, and the numbers
themselves mean nothing. `where` leaves pixels out, such as those that nobody labelled.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import ndimage, sparse

from napari_gsw.core.errors import InputError

Floats = NDArray[np.float64]

# Share of the image's diagonal within which two boundary pixels match: the convention of the Berkeley benchmark.
BOUNDARY_TOLERANCE = 0.0075


def contingency(a: ArrayLike, b: ArrayLike, where: ArrayLike | None = None) -> sparse.csr_array:
    """Number of pixels with the i-th label of a and the j-th label of b, shape (regions of a, regions of b)."""
    x, y = np.asarray(a), np.asarray(b)
    if x.shape != y.shape:
        raise InputError(f"two segmentations must have the same shape, not {x.shape} and {y.shape}")
    if where is not None:
        keep = np.asarray(where, dtype=bool)
        x, y = x[keep], y[keep]
    if x.size == 0:
        raise InputError("there is no pixel to compare")
    i = np.unique(x, return_inverse=True)[1].ravel()
    j = np.unique(y, return_inverse=True)[1].ravel()
    return sparse.coo_array((np.ones(x.size, np.int64), (i, j))).tocsr()


def rand_index(a: ArrayLike, b: ArrayLike, where: ArrayLike | None = None) -> float:
    """Share of the pairs of pixels on which two segmentations agree: together in both, or apart in both.

    >>> round(rand_index([0, 0, 1, 1], [0, 0, 1, 2]), 4)
    0.8333
    """
    same, in_a, in_b, pairs = _pairs(contingency(a, b, where))
    return 1.0 if pairs == 0 else (pairs + 2 * same - in_a - in_b) / pairs


def adjusted_rand(a: ArrayLike, b: ArrayLike, where: ArrayLike | None = None) -> float:
    """Rand index corrected for chance: 0 for unrelated segmentations with these sizes, 1 for equal ones."""
    same, in_a, in_b, pairs = _pairs(contingency(a, b, where))
    expected = in_a * in_b / pairs if pairs else 0.0
    most = (in_a + in_b) / 2
    return 1.0 if most == expected else (same - expected) / (most - expected)


def probabilistic_rand(segmentation: ArrayLike, humans: Sequence[ArrayLike], where: ArrayLike | None = None) -> float:
    """Rand index averaged over several people's segmentations of the image."""
    if not len(humans):
        raise InputError("the probabilistic Rand index needs at least one human segmentation")
    return float(np.mean([rand_index(segmentation, human, where) for human in humans]))


def variation_of_information(a: ArrayLike, b: ArrayLike, where: ArrayLike | None = None) -> float:
    """H(a | b) + H(b | a) in bits: 0 for equal segmentations.

    >>> variation_of_information([0, 0, 1, 1], [0, 1, 0, 1])
    2.0
    """
    table = contingency(a, b, where)
    joint = _entropy(table.data)
    return max(2 * joint - _entropy(table.sum(axis=0)) - _entropy(table.sum(axis=1)), 0.0)


def covering(segmentation: ArrayLike, human: ArrayLike, where: ArrayLike | None = None) -> float:
    """How well the human's regions are covered: their best intersection over union, averaged by their size."""
    table = contingency(human, segmentation, where).tocoo()
    rows = np.asarray(table.sum(axis=1)).ravel()
    columns = np.asarray(table.sum(axis=0)).ravel()
    overlap = table.data / (rows[table.row] + columns[table.col] - table.data)
    best = np.zeros(len(rows))
    np.maximum.at(best, table.row, overlap)
    return float(rows @ best / rows.sum())


def boundary_f(
    segmentation: ArrayLike, humans: ArrayLike | Sequence[ArrayLike], tolerance: float | None = None
) -> float:
    """F measure of boundary pixels, matched within a tolerance.

    Precision: the share of the segmentation's boundary near any human's; recall: the share of a human's
    boundary near the segmentation's, averaged over humans. Nearness is a distance, not the one-to-one matching of
    the Berkeley benchmark, which makes the figure a little higher.

    Parameters
    ----------
    humans : one label image, or a list of them.
    tolerance : in pixels; None takes 0.75 % of the image's diagonal.
    """
    found = _boundary(np.asarray(segmentation))
    many = [_boundary(np.asarray(h)) for h in (humans if isinstance(humans, (list, tuple)) else [humans])]
    if not many:
        raise InputError("the boundary measure needs at least one human segmentation")
    if any(h.shape != found.shape for h in many):
        raise InputError(f"all segmentations must have the shape {found.shape}")
    reach = BOUNDARY_TOLERANCE * float(np.linalg.norm(found.shape)) if tolerance is None else tolerance
    precision = _near(found, np.logical_or.reduce(many), reach)
    recall = float(np.mean([_near(human, found, reach) for human in many]))
    return 0.0 if precision + recall == 0 else 2 * precision * recall / (precision + recall)


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


def _boundary(labels: NDArray[np.generic]) -> NDArray[np.bool_]:
    """Pixels whose next neighbour along some axis has another label: boundaries one pixel wide."""
    edge = np.zeros(labels.shape, bool)
    for axis in range(labels.ndim):
        here = np.moveaxis(labels, axis, 0)
        np.moveaxis(edge, axis, 0)[:-1] |= here[:-1] != here[1:]
    return edge


def _near(these: NDArray[np.bool_], those: NDArray[np.bool_], reach: float) -> float:
    """Share of the pixels of `these` within reach of `those`; 1 if there are none to match."""
    if not these.any():
        return 1.0
    if not those.any():
        return 0.0
    return float((ndimage.distance_transform_edt(~those)[these] <= reach).mean())
