"""How sure a posterior is of each label of an image: is its outline as shown, and is it one thing?"""

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
    """How many pixels each site and each label have in common.

    Attributes
    ----------
    site, row, pixels : (pairs,) of every pair that has any: the site and the label's row in the table, from 0.
    of_site : (n,) row of the label that has most of a site; -1 if that is none.
    """

    site: Int64Array
    row: Int64Array
    pixels: Int64Array
    of_site: Int64Array


def count_overlap(problem: Problem, sites: SiteImage, labels: Any, index: Int64Array) -> Overlap:
    """Overlap of the sites with a label image (\\*shape,), in memory or lazy, whose labels are `index` (k,).

    `sites` are those of the label image: all of the problem's, or those of one of its planes.
    """
    site, label, count = count_site_values(sites, problem.n, lambda where: read(labels, where))
    row = np.searchsorted(index, label)
    inside = np.bincount(site, count, problem.n)
    outside = np.full(problem.n, 0.0) if problem.graph is None else problem.graph.pixels - inside
    most = np.zeros(problem.n)
    np.maximum.at(most, site, count)
    of_site = np.full(problem.n, -1)
    order = np.argsort(count, kind="stable")  # the commonest comes last and stays
    of_site[site[order]] = row[order]
    of_site[outside > most] = -1
    return Overlap(site, row, count, of_site)


def measure_stability(
    problem: Problem, together: Float64Array, clusters: Int64Array, common: Overlap, k: int
) -> Float64Array:
    """(k,) probability that a boundary in or around a label is as shown, averaged by length; NaN if it is not known.

    Inside, the two sites of an edge should be together; at the border, apart. Two labels of one cluster were parted by
    their shape, of which the chain knows nothing: what lies between them does not count.

    Parameters
    ----------
    together : (m,) probability that the ends of an edge share a cluster.
    clusters : (n,) cluster of each site, as shown.
    """
    ends = common.of_site[problem.edges]
    length = np.ones(len(ends)) if problem.graph is None else problem.graph.length
    inside = ends[:, 0] == ends[:, 1]
    apart = clusters[problem.edges[:, 0]] != clusters[problem.edges[:, 1]]
    as_shown = np.where(inside, together, 1 - together)
    total, weight = np.zeros(k), np.zeros(k)
    for end in ends.T:
        counted = (inside | apart) & (end >= 0)
        weight += np.bincount(end[counted], length[counted], k)
        total += np.bincount(end[counted], (length * as_shown)[counted], k)
    shares: Float64Array = np.divide(total, weight, out=np.full(k, np.nan), where=weight > 0)
    return shares


def object_probability(draws: Int32Array, common: Overlap, k: int) -> Float64Array:
    """(k,) share of the draws (d, n) in which one cluster holds nearly all pixels of a label; NaN without draws."""
    size = np.bincount(common.row, common.pixels, k)
    times = np.zeros(k)
    for draw in draws:
        width = int(draw.max()) + 1
        key, index = np.unique(common.row * width + draw[common.site], return_inverse=True)
        largest = np.zeros(k)
        np.maximum.at(largest, key // width, np.bincount(index, common.pixels, len(key)))
        times += largest >= OBJECT_SHARE * size
    known = (size > 0) & (len(draws) > 0)
    return np.where(known, times / max(len(draws), 1), np.nan)


def find_likeliest_partner(
    problem: Problem, together: Float64Array, common: Overlap, k: int
) -> tuple[Int64Array, Float64Array]:
    """With which other label each is most probably one object, where touching sites of one colour are one.

    Parameters
    ----------
    together : (m,) probability that the ends of an edge have one colour.

    Returns
    -------
    (k,) row of the other label, -1 for none that touches it; and (k,) how probable it is that they are one, 0 for none.
    """
    ends = common.of_site[problem.edges]
    between = (ends >= 0).all(axis=1) & (ends[:, 0] != ends[:, 1])
    pairs, share = np.concatenate((ends[between], ends[between, ::-1])), np.tile(together[between], 2)
    order = np.argsort(share, kind="stable")  # the most probable is written last
    other, most = np.full(k, -1), np.zeros(k)
    other[pairs[order, 0]], most[pairs[order, 0]] = pairs[order, 1], share[order]
    return other, most


def find_commonest(values: Int64Array, common: Overlap, k: int) -> Int64Array:
    """(k,) of one whole number >= 0 for each site (n,), the one that most pixels of a label have; 0 if none has any."""
    width = int(values.max(initial=0)) + 1
    key, index = np.unique(common.row * width + values[common.site], return_inverse=True)
    mass = np.bincount(index, common.pixels, len(key))
    result = np.zeros(k, np.int64)
    order = np.argsort(mass, kind="stable")
    result[key[order] // width] = key[order] % width
    return result
