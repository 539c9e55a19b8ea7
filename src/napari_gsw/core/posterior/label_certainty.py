"""Certainty of each label of an image: of its outline, and that it is one object."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from napari_gsw.core.array_types import Float64Array, Int32Array, Int64Array
from napari_gsw.core.image.lazy import read
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.sites.blocked_labels import SiteImage, count_site_values

# A label is one object in a draw if one cluster holds this share of its pixels.
OBJECT_SHARE = 0.9


class Overlap(NamedTuple):
    """Number of pixels that sites and labels have in common, for every pair that has any."""

    site: Int64Array  # (pairs,) from 0
    row: Int64Array  # (pairs,) table row of the label, from 0
    pixels: Int64Array  # (pairs,)
    row_of_site: Int64Array  # (n,) row of the label that has most of a site, -1 for none


def count_overlap(problem: Problem, sites: SiteImage, labels: Any, index: Int64Array) -> Overlap:
    """Count the pixels that sites share with a label image, in memory or lazy, whose labels are `index` (k,).

    `sites` are those of the label image: all of the problem's, or those of one of its slices.
    """
    site, label, count = count_site_values(sites, problem.n, lambda where: read(labels, where))
    row = np.searchsorted(index, label)
    inside = np.bincount(site, count, problem.n)
    outside = np.zeros(problem.n) if problem.graph is None else problem.graph.pixels - inside
    largest = np.zeros(problem.n)
    np.maximum.at(largest, site, count)
    row_of_site = np.full(problem.n, -1)
    order = np.argsort(count, kind="stable")  # the label of most pixels is written last
    row_of_site[site[order]] = row[order]
    row_of_site[outside > largest] = -1
    return Overlap(site, row, count, row_of_site)


def measure_stability(
    problem: Problem, together: Float64Array, clusters: Int64Array, row_of_site: Int64Array, k: int
) -> Float64Array:
    """(k,) probability that a boundary in or around a label is as shown, averaged by length; NaN if unknown.

    Inside, the two sites of an edge should be together; at the border, apart. The chain knows nothing of a border
    between two labels of one cluster, which were split by their shape: these edges do not count.
    """
    ends = row_of_site[problem.edges]
    length = np.ones(len(ends)) if problem.graph is None else problem.graph.length
    inside = ends[:, 0] == ends[:, 1]
    apart = clusters[problem.edges[:, 0]] != clusters[problem.edges[:, 1]]
    as_shown = np.where(inside, together, 1 - together)
    total, weight = np.zeros(k), np.zeros(k)
    for end in ends.T:
        counted = (inside | apart) & (end >= 0)
        weight += np.bincount(end[counted], length[counted], k)
        total += np.bincount(end[counted], (length * as_shown)[counted], k)
    return np.asarray(np.divide(total, weight, out=np.full(k, np.nan), where=weight > 0))


def object_probability(draws: Int32Array, overlap: Overlap, k: int) -> Float64Array:
    """(k,) share of the draws (d, n) in which one cluster holds nearly all pixels of a label; NaN without draws."""
    size = np.bincount(overlap.row, overlap.pixels, k)
    count = np.zeros(k)
    for draw in draws:
        n_clusters = int(draw.max()) + 1
        key, index = np.unique(overlap.row * n_clusters + draw[overlap.site], return_inverse=True)
        largest = np.zeros(k)
        np.maximum.at(largest, key // n_clusters, np.bincount(index, overlap.pixels, len(key)))
        count += largest >= OBJECT_SHARE * size
    return np.where((size > 0) & (len(draws) > 0), count / max(len(draws), 1), np.nan)


def find_likeliest_partner(
    problem: Problem, same_object: Float64Array, overlap: Overlap, k: int
) -> tuple[Int64Array, Float64Array]:
    """Find with which touching label each label is most probably one object.

    Returns the table row (k,) of that label, -1 for none, and the probability (k,), 0 for none. `same_object` (m,) is
    the probability that the two ends of an edge belong to one object.
    """
    ends = overlap.row_of_site[problem.edges]
    between = (ends >= 0).all(axis=1) & (ends[:, 0] != ends[:, 1])
    pairs, probability = np.concatenate((ends[between], ends[between, ::-1])), np.tile(same_object[between], 2)
    order = np.argsort(probability, kind="stable")  # the most probable is written last
    partner, largest = np.full(k, -1), np.zeros(k)
    partner[pairs[order, 0]], largest[pairs[order, 0]] = pairs[order, 1], probability[order]
    return partner, largest


def find_commonest(values: Int64Array, overlap: Overlap, k: int) -> Int64Array:
    """(k,) value that most pixels of a label have, of values (n,) >= 0 of the sites; 0 for a label without sites."""
    n_values = int(values.max(initial=0)) + 1
    key, index = np.unique(overlap.row * n_values + values[overlap.site], return_inverse=True)
    order = np.argsort(np.bincount(index, overlap.pixels, len(key)), kind="stable")
    result = np.zeros(k, np.int64)
    result[key[order] // n_values] = key[order] % n_values
    return result
