"""Where to paint next: the place whose label would teach most about the labels of all others.

A question is worth what it decides. Let p_i(s) be how probable the label s is at site i, u_i the entropy of p_i in
units of its largest value, and f_ij how probably site j would go with i, were i painted now. Then

    gain(i) = u_i sum_j pixels_j u_j f_ij + sum_j pixels_j I(x_i; x_j)

The first sum is over what a stroke on i would pull at: f_ij is the probability that a walk from j meets i before all
strokes (:mod:`napari_gsw.core.graph.random_walk`), times the likeness of their colours, as in the field of a stroke
(:mod:`napari_gsw.core.model.scribble_field`). The second is the mutual information of the labels in the draws: what the
posterior itself holds to hang together.

Draws under a field are surer than they should be: a field says what strokes make of a site, not how often that is
right. Where all labels are painted, p is therefore a mixture of the shares of the draws and of what the field says by
itself, with a doubt that leaves a site open which is far from all strokes, or unlike them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from napari_gsw.core.array_types import BoolArray, Float64Array, Int32Array, Int64Array
from napari_gsw.core.model.scribble_field import DOUBT, ScribbleField
from napari_gsw.core.posterior.summary import Summary
from napari_gsw.core.posterior.uncertainty import count_site_pixels

# Share of the draws in the mixture, and the q c of the field below which a label is no likelier than any other.
DRAWS_SHARE, FIELD_DOUBT = 0.5, 0.002
# How different in Lab two sites may look of which one follows the other.
FOLLOW_WIDTH = 10.0
# Places that are compared, and how many entries of joint tables may be filled for it: a person waits.
SHORTLIST, MAX_ENTRIES = 64, 1_000_000
# Draws that are looked at, fewer of many sites; labels of a site beyond the likeliest few count as one.
MIN_DRAWS, MAX_DRAWS, MAX_DRAWN_LABELS, MAX_CODES = 32, 128, 1_000_000, 4
# No more candidates than there are digits; a label that is less likely than this is none.
MAX_CANDIDATES, MIN_PROBABILITY = 9, 0.02
# An entropy below this is rounding.
MIN_ENTROPY = 1e-9


class Query(NamedTuple):
    """Which label is at a site?

    Attributes
    ----------
    site : numbered from 0.
    follow : (n,) how probably each site goes with it; 1 at the site itself, 0 where somebody painted.
    gain : how many pixels' worth of doubt the answer is expected to take away.
    numbers : (k,) labels that it may have, the likeliest first.
    probabilities : (k,) how likely they are.
    """

    site: int
    propagation: Float64Array
    gain: float
    numbers: Int64Array
    probabilities: Float64Array


def next_query(summary: Summary, asked: BoolArray | None = None, numbers: Int64Array | None = None) -> Query | None:
    """The site to ask a person about; None if there is no doubt left, or nothing is known yet.

    Parameters
    ----------
    summary : of a posterior, after the burn-in.
    asked : (n,) sites that are not to be asked about, because a person could not say.
    numbers : (n,) positive number of each site in a partition whose labels are the candidates where not all labels are
        painted; None for ``summary.clusters``.

    Examples
    --------
    >>> from napari_gsw import segment
    >>> image = np.kron([[0.0, 0.5, 1.0]], np.ones((20, 20)))
    >>> strokes = np.zeros((20, 60), int)
    >>> strokes[10, [10, 50]] = 1, 2
    >>> question = next_question(segment(image, seeds=strokes, sweeps=60, site_size=25).summary)
    >>> sorted(question.numbers.tolist())
    [1, 2]
    """
    free = summary.seeds < 0 if asked is None else (summary.seeds < 0) & ~asked
    draws = summary.draws
    if not len(draws) or not free.any():
        return None
    count = min(len(draws), max(MIN_DRAWS, min(MAX_DRAWS, MAX_DRAWN_LABELS // summary.problem.n)))
    draws = draws[np.linspace(0, len(draws) - 1, count).astype(np.int64)]
    known, names = label_draws(summary, draws, numbers)
    likely = estimate_label_probabilities(summary, names, len(known))
    doubt = entropy(likely) / np.log(max(len(known), 2))
    if doubt[free].max() < MIN_ENTROPY:
        return None
    places = find_candidates(summary, doubt, free)
    propagation = propagation_probability(summary, places)
    weight = count_site_pixels(summary.problem)
    gain = doubt[places] * (propagation @ (weight * doubt))
    some = np.argsort(-gain, kind="stable")[: max(1, MAX_ENTRIES // (MAX_CODES**2 * summary.problem.n))]
    gain[some] += measure_label_information(names, places[some], weight) / np.log(max(len(known), 2))
    best = int(np.argmax(gain))
    site = int(places[best])
    order = np.argsort(-likely[site], kind="stable")[:MAX_CANDIDATES]
    order = order[(likely[site, order] >= MIN_PROBABILITY) | (order == order[0])]
    return Query(site, propagation[best], float(gain[best]), known[order], likely[site, order])


def label_draws(
    summary: Summary, draws: Int32Array, numbers: Int64Array | None = None
) -> tuple[Int64Array, Int64Array]:
    """The labels that there are, (k,), and which of them each site has in each draw, (d, n) in [0, k).

    If all labels are painted a cluster has that of the seed in it. Otherwise it has the number that most of its pixels
    have in a partition, `numbers` (n,).
    """
    seeds = summary.seeds
    if summary.problem.closed:
        known, anchors = np.unique(seeds, return_index=True)
        painted = known >= 0
        names = np.zeros(draws.shape, np.int64)
        for k, site in enumerate(anchors[painted]):
            names[draws == draws[:, [site]]] = k
        return known[painted].astype(np.int64), names
    known, index = np.unique(summary.clusters if numbers is None else numbers, return_inverse=True)
    weight = count_site_pixels(summary.problem)
    names = np.empty(draws.shape, np.int64)
    for row, draw in zip(names, draws, strict=True):
        table = np.bincount(draw * len(known) + index, weight, (int(draw.max()) + 1) * len(known))
        row[:] = table.reshape(-1, len(known)).argmax(axis=1)[draw]
    return known.astype(np.int64), names


def estimate_label_probabilities(summary: Summary, names: Int64Array, count: int) -> Float64Array:
    """(n, count) how probable each label is at each site, from the draws (d, n) and from what the field says."""
    d, n = names.shape
    shares: Float64Array = (
        np.bincount((np.arange(n) * count + names).ravel(), minlength=n * count).reshape(n, count) / d
    )
    field = summary.problem.field
    if field is None or not summary.problem.closed or field.anchor.size != count:
        return shares
    # The columns of a field are in the order of the numbers, as the labels are.
    alone = DOUBT * np.exp(field.pull / summary.settings.steering) + FIELD_DOUBT
    alone /= alone.sum(axis=1, keepdims=True)
    painted = summary.seeds >= 0
    alone[painted] = shares[painted]
    return np.asarray(DRAWS_SHARE * shares + (1.0 - DRAWS_SHARE) * alone)


def find_candidates(summary: Summary, doubt: Float64Array, free: BoolArray) -> Int64Array:
    """(s,) places worth a closer look: free sites (n,) in the midst of much doubt (n,), no two of them neighbours."""
    problem = summary.problem
    i, j = problem.edges.T
    mass = count_site_pixels(problem) * doubt
    around = mass + np.bincount(i, mass[j], problem.n) + np.bincount(j, mass[i], problem.n)
    order = np.argsort(-np.where(free, doubt * around, -1.0), kind="stable")[: int(free.sum())]
    begin, neighbour, *_ = problem.adjacency
    left = doubt >= MIN_ENTROPY
    places: list[int] = []
    for site in order.tolist():
        if left[site]:
            places.append(site)
            left[neighbour[begin[site] : begin[site + 1]]] = False
            if len(places) == SHORTLIST:
                break
    return np.array(places, np.int64)


def propagation_probability(summary: Summary, places: Int64Array) -> Float64Array:
    """(s, n) how probably each site would follow a stroke at each place (s,)."""
    problem = summary.problem
    propagation = (
        ScribbleField(problem, summary.settings, problem.closed).walk().hitting_probability(summary.seeds >= 0, places)
    )
    if problem.graph is not None:
        means = np.asarray(problem.graph.means, np.float64)
        for row, site in zip(propagation, places, strict=True):
            row *= np.exp(-((means - means[site]) ** 2).sum(axis=1) / (2 * FOLLOW_WIDTH**2))
    return propagation


def measure_label_information(names: Int64Array, places: Int64Array, weight: Float64Array) -> Float64Array:
    """(s,) mutual information of the label at each place (s,) with that of every other site, in nats times weight (n,).

    Estimated from draws (d, n) of labels. Tables that are filled from few draws seem to depend on each other; what they
    would if they did not (Miller and Madow's correction) is taken off.
    """
    codes = encode_labels(names)
    d = len(codes)
    unsure = np.flatnonzero((codes != 0).any(axis=0))
    at = (codes[:, unsure, np.newaxis] == np.arange(MAX_CODES)).astype(np.float32)
    share, values = at.mean(axis=0), at.any(axis=0).sum(axis=1)
    total = np.zeros(len(places))
    for k, site in enumerate(places.tolist()):
        here = (codes[:, [site]] == np.arange(MAX_CODES)).astype(np.float32)
        both = (here.T @ at.reshape(d, -1)).reshape(MAX_CODES, len(unsure), MAX_CODES) / d
        apart = here.mean(axis=0)[:, np.newaxis, np.newaxis] * share
        with np.errstate(divide="ignore", invalid="ignore"):
            nats = np.where(both > 0, both * np.log(both / apart), 0.0).sum(axis=(0, 2))
        by_chance = (here.any(axis=0).sum() - 1) * (values - 1) / (2 * d)
        gain = weight[unsure] * np.maximum(nats - by_chance, 0.0)
        total[k] = gain[unsure != site].sum()
    return total


def encode_labels(names: Int64Array) -> Int64Array:
    """(d, n) the labels of each site by how often it has them: 0 the commonest; the last code is all that are left."""
    n = names.shape[1]
    count = int(names.max()) + 1
    times = np.bincount((np.arange(n) * count + names).ravel(), minlength=n * count).reshape(n, count)
    rank = np.argsort(np.argsort(-times, axis=1, kind="stable"), axis=1, kind="stable")
    return np.minimum(rank[np.arange(n), names], MAX_CODES - 1)


def entropy(probabilities: Float64Array) -> Float64Array:
    """(n,) nats of distributions (n, k)."""
    return np.asarray(-(probabilities * np.log(np.maximum(probabilities, 1e-300))).sum(axis=1))
