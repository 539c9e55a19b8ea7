"""Segmentations of every fineness, from a few regions to every site: which boundary is the stronger, and what merges.

After some hundred sweeps the posterior says 0 or 1 of most edges, and nothing of which boundary among the certain ones
is the stronger. There the couplings speak: learnt ones are the log odds that people draw a boundary, others fall with
the contrast along it. Of two boundaries of one strength the one around the smaller region goes first, so that no level
is one large region with specks in it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.arrays import Floats, Ints
from napari_gsw.core.graph.merge_tree import MergeTree, strength_tree
from napari_gsw.core.model.partition_kernels import canonical
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.odds import logit
from napari_gsw.core.settings import Settings

# A share of some hundred sweeps is not known better than this.
SUREST = 0.99
# Log odds that people draw the boundary of two regions: of learnt couplings, of the posterior and of the size of the
# smaller one. Chosen and fitted on half of the Berkeley training images, see docs/quality.md.
INTERCEPT, LEARNT, POSTERIOR, GROWTH = -0.05, 0.5, 0.15, 0.15
# Of a usual difference, the least that counts.
LEAST_DIFFERENCE = 0.01
# The same where nothing was learnt from people: contrast counts by its logarithm, and a height is no more than a place
# on a scale. Chosen on 25 of these images.
PLAIN_INTERCEPT, PLAIN_POSTERIOR, PLAIN_GROWTH = -0.8, 0.3, 0.45


def boundary_tree(problem: Problem, together: Floats) -> MergeTree:
    """Sites merged in the order in which boundaries become stronger: a segmentation for every fineness.

    Parameters
    ----------
    together : (m,) probability that the two ends of an edge share a cluster; without NaN.
    """
    strength = _strengths(problem, together)
    return strength_tree(problem.n, strength.edges, strength.odds, strength.pixels, strength.growth, strength.length)


def joined_regions(
    problem: Problem, together: Floats, regions: Ints, weakest: float, held: NDArray[np.bool_] | None = None
) -> Ints:
    """(n,) int32 regions, by first site, after those have joined whose boundary is weaker than a probability.

    Where a surface grows lighter from one side to the other the evidence that its ends differ adds up, in a large image
    until the surface falls into two, along a line that nobody would draw.

    Parameters
    ----------
    together : (m,) probability that the two ends of an edge share a cluster; with NaN nothing is joined.
    regions : (n,) region of each site, 0, 1, ...
    weakest : probability up to which a boundary goes, as the heights of :func:`boundary_tree` are; 0 leaves all.
    held : (n,) sites that a person has labelled: their regions join with none.
    """
    if weakest <= 0 or np.isnan(together).any():
        return regions
    strength = _strengths(problem, together)
    ends = regions[strength.edges]
    between = ends[:, 0] != ends[:, 1]
    if held is not None and held.any():
        between &= ~np.isin(ends, regions[held]).any(axis=1)
    if not between.any():
        return regions
    size = np.bincount(regions, strength.pixels)
    length = None if strength.length is None else strength.length[between]
    tree = strength_tree(len(size), ends[between], strength.odds[between], size, strength.growth, length)
    return canonical(tree.labels(weakest)[regions])


class _Strengths(NamedTuple):
    """How strong boundaries are: edges (m, 2) of sites that touch, their log odds and length, sites' pixels, growth."""

    edges: Ints
    odds: Floats
    length: Floats | None
    pixels: Floats
    growth: float


def _strengths(problem: Problem, together: Floats) -> _Strengths:
    """What the tree of merges of a problem's sites is made of."""
    graph = problem.graph
    touching = np.ones(len(together), bool) if graph is None else graph.order == 1
    pixels = np.ones(problem.n) if graph is None else graph.pixels.astype(np.float64)
    learnt = _learnt_odds(problem)
    known = posterior_odds(together)
    if learnt is not None:
        odds, growth = INTERCEPT + LEARNT * learnt + POSTERIOR * known, GROWTH
    else:
        odds, growth = PLAIN_INTERCEPT + _plain_odds(problem) + PLAIN_POSTERIOR * known, PLAIN_GROWTH
    length = None if graph is None else graph.length[touching]
    return _Strengths(problem.edges[touching], odds[touching], length, pixels, growth)


def posterior_odds(together: Floats) -> Floats:
    """(m,) log odds of the posterior that the two ends of an edge are apart."""
    return np.asarray(logit(np.clip(1 - together, 1 - SUREST, SUREST)))


def _learnt_odds(problem: Problem) -> Floats | None:
    """(m,) log odds of a boundary that learnt couplings stand for; None of other couplings."""
    settings = problem.settings or Settings()
    if settings.coupling != "learnt" or settings.beta == 0:
        return None
    repulsion = settings.repulsion or 1.0
    beta = np.where(problem.beta < 0, problem.beta / repulsion, problem.beta)
    return np.asarray(-beta / settings.beta - settings.offset)


def _plain_odds(problem: Problem) -> Floats:
    """(m,) how strong a boundary is without anything learnt: 0 for a common one, 1 for one e times as strong."""
    settings, graph = problem.settings or Settings(), problem.graph
    if (problem.beta < 0).any():
        return np.asarray(-problem.beta)  # of both signs: log odds already
    if graph is None:
        return np.zeros(len(problem.edges))
    difference = graph.contrast
    if settings.coupling == "contrast" and settings.beta > 0 and (problem.beta > 0).all():
        difference = -np.log(np.minimum(problem.beta / settings.beta, 1.0))
    usual = float(np.median(difference)) if len(difference) else 0.0
    return np.log(np.maximum(difference / usual, LEAST_DIFFERENCE)) if usual > 0 else np.zeros(len(difference))
