"""Numbers for clusters that stay the same from one state to the next, for a person who watches."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.array_types import Int32Array, Int64Array
from napari_gsw.core.model.problem import Problem, log_posterior
from napari_gsw.core.partitions import canonical_labels


def match_labels(
    labels: NDArray[np.integer], shown: NDArray[np.integer], weight: NDArray[np.floating]
) -> NDArray[np.int64]:
    """Number the clusters of `labels` so that as much as possible keeps the number it has in `shown`.

    Parameters
    ----------
    labels : (n,) clusters of the new state, any numbers.
    shown : (n,) positive numbers on the screen now.
    weight : (n,) how much a site counts, for example its pixels.

    Returns
    -------
    (n,) positive numbers; a cluster that has no counterpart takes the smallest number that is not on the screen.

    Examples
    --------
    >>> matched_numbers(np.array([0, 0, 1, 2]), np.array([5, 5, 5, 3]), np.ones(4)).tolist()
    [5, 5, 1, 3]
    """
    from scipy.optimize import linear_sum_assignment

    # In the order of their first sites, whatever a chain calls them: one that was saved may call them otherwise.
    new, i = _ranked(canonical_labels(labels.astype(np.int32)))
    old, j = _ranked(shown)
    overlap = np.bincount(i * len(old) + j, weight, len(new) * len(old)).reshape(len(new), len(old))
    rows, columns = linear_sum_assignment(overlap, maximize=True)
    kept = overlap[rows, columns] > 0
    number = np.zeros(len(new), np.int64)
    number[rows[kept]] = old[columns[kept]]
    missing = np.flatnonzero(number == 0)
    free = np.setdiff1d(np.arange(1, len(new) + len(old) + 1), old)
    number[missing] = free[: len(missing)]
    result: NDArray[np.int64] = number[i]
    return result


def _ranked(numbers: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The numbers that occur, and the place of each entry among them: np.unique by counting, for small numbers >= 0."""
    here = np.bincount(numbers) > 0
    place = np.cumsum(here) - 1
    return np.flatnonzero(here), place[numbers]


def match_painted_labels(problem: Problem, numbers: Int64Array, seeds: Int32Array) -> Int64Array:
    """(n,) the numbers; where all labels are to be painted ones, a site with another takes the one that pulls it most.

    Parameters
    ----------
    seeds : (n,) number of a locked site, -1 for a free one.
    """
    if not problem.closed:
        return numbers
    names, count = np.unique(seeds[seeds >= 0], return_counts=True)
    field = problem.field
    best = np.full(problem.n, names[count.argmax()]) if field is None else names[field.pull.argmax(axis=1)]
    return np.where(np.isin(numbers, names), numbers, best).astype(np.int64)


def propose_labels(problem: Problem, numbers: Int64Array, seeds: Int32Array, before: Int64Array) -> Int64Array:
    """(n,) the numbers, or others that a stroke may have meant, whichever the posterior likes best.

    Either every site goes where the field pulls it, or the cluster under the strokes of a name follows them. Site by
    site a chain would take long to find that all of a region is to follow a stroke.

    Parameters
    ----------
    seeds : (n,) number of a locked site, -1 for a free one. before : (n,) the numbers before the stroke.
    """
    field = problem.field
    if field is None:
        return numbers
    free = (seeds < 0) & (field.pull.max(axis=1) > 0)
    names = seeds[field.anchor].astype(np.int64)
    states = [numbers, np.where(free, names[field.pull.argmax(axis=1)], numbers)]
    for name in names.tolist():
        under = np.bincount(before[seeds == name]).argmax()
        if under != name and under not in names:
            states.append(np.where((numbers == under) & (seeds < 0), name, numbers))
    return max(states, key=lambda state: log_posterior(problem, state))
