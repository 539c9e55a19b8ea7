"""Labels of clusters that stay the same from one state of a chain to the next, for the user."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.array_types import Int32Array, Int64Array
from napari_gsw.core.model.problem import Problem, log_posterior
from napari_gsw.core.partitions import canonical_labels


def match_labels(
    clusters: NDArray[np.integer], shown: NDArray[np.integer], weight: NDArray[np.floating]
) -> NDArray[np.int64]:
    """(n,) positive labels of clusters, so that as much weight (n,) as possible keeps its positive label in `shown`.

    A cluster without a counterpart takes the smallest label that is not on the screen.

    Examples
    --------
    >>> match_labels(np.array([0, 0, 1, 2]), np.array([5, 5, 5, 3]), np.ones(4)).tolist()
    [5, 5, 1, 3]
    """
    from scipy.optimize import linear_sum_assignment

    # In the order of first sites, since a saved chain may number its clusters in another way.
    new, i = _unique(canonical_labels(clusters.astype(np.int32)))
    old, j = _unique(shown)
    overlap = np.bincount(i * len(old) + j, weight, len(new) * len(old)).reshape(len(new), len(old))
    rows, columns = linear_sum_assignment(overlap, maximize=True)
    is_kept = overlap[rows, columns] > 0
    label = np.zeros(len(new), np.int64)
    label[rows[is_kept]] = old[columns[is_kept]]
    missing = np.flatnonzero(label == 0)
    label[missing] = np.setdiff1d(np.arange(1, len(new) + len(old) + 1), old)[: len(missing)]
    result: NDArray[np.int64] = label[i]
    return result


def _unique(numbers: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """np.unique with inverse by counting, for small numbers >= 0."""
    occurs = np.bincount(numbers) > 0
    return np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[numbers]


def match_painted_labels(problem: Problem, labels: Int64Array, seeds: Int32Array) -> Int64Array:
    """Give a site the painted label with the largest field, if only painted labels are allowed and it has another.

    `seeds` (n,) are the labels of locked sites, -1 for a free one.
    """
    if not problem.closed:
        return labels
    names, count = np.unique(seeds[seeds >= 0], return_counts=True)
    field = problem.field
    best = np.full(problem.n, names[count.argmax()]) if field is None else names[field.pull.argmax(axis=1)]
    return np.where(np.isin(labels, names), labels, best).astype(np.int64)


def propose_labels(problem: Problem, labels: Int64Array, seeds: Int32Array, before: Int64Array) -> Int64Array:
    """Return the labels, or others that a scribble may have meant, whichever are most probable.

    Either every site takes the label of its field, or the whole cluster under the scribbles of a label follows them:
    site by site a chain would take long to find that. `seeds` as above; `before` (n,) are the labels before.
    """
    field = problem.field
    if field is None:
        return labels
    is_pulled = (seeds < 0) & (field.pull.max(axis=1) > 0)
    names = seeds[field.anchor].astype(np.int64)
    states = [labels, np.where(is_pulled, names[field.pull.argmax(axis=1)], labels)]
    for name in names.tolist():
        under = np.bincount(before[seeds == name]).argmax()
        if under != name and under not in names:
            states.append(np.where((labels == under) & (seeds < 0), name, labels))
    return max(states, key=lambda state: log_posterior(problem, state))
