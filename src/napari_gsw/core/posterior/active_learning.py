"""Active learning: the site whose label is expected to reduce the uncertainty about all others most.

Let p_i(s) be the probability of label s at site i, u_i the entropy of p_i in units of its largest value, and f_ij the
probability that site j would follow site i, were i scribbled on now. Then

    gain(i) = u_i sum_j pixels_j u_j f_ij + sum_j pixels_j I(x_i; x_j)

The first sum is what a scribble on i would influence: f_ij is the probability that a walk from j meets i before all
scribbles (:mod:`napari_gsw.core.graph.random_walk`), times the similarity of their colours, as in the field of a
scribble (:mod:`napari_gsw.core.model.scribble_field`). The second is the mutual information of the labels in the draws:
the dependence in the posterior itself.

Draws under a field are overconfident. In a closed problem, p is therefore a mixture of the frequencies in the draws and
of what the field says by itself, with a doubt that leaves a site uncertain which is far from all scribbles, or unlike
them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from napari_gsw.core.array_types import BoolArray, Float64Array, Int32Array, Int64Array
from napari_gsw.core.model.problem import site_pixels
from napari_gsw.core.model.scribble_field import DOUBT, ScribbleField
from napari_gsw.core.posterior.summary import Summary

# Weight of the draws in the mixture, and the q c of the field below which a label is no likelier than any other.
DRAWS_SHARE, FIELD_DOUBT = 0.5, 0.002
# Difference in Lab up to which one site follows another (width of a Gaussian).
FOLLOW_WIDTH = 10.0
# Sites that are compared, and entries of their joint tables: the user waits.
SHORTLIST, MAX_ENTRIES = 64, 1_000_000
# Draws that are used, fewer for many sites; all but the commonest few labels of a site count as one.
MIN_DRAWS, MAX_DRAWS, MAX_DRAWN_LABELS, MAX_CODES = 32, 128, 1_000_000, 4
# Candidate labels, one for each digit key, and their least probability.
MAX_CANDIDATES, MIN_PROBABILITY = 9, 0.02
# An entropy below this is rounding.
MIN_ENTROPY = 1e-9


class Query(NamedTuple):
    """The question which label a site has."""

    site: int  # from 0
    propagation: Float64Array  # (n,) probability that each site follows it; 1 at the site, 0 under scribbles
    gain: float  # expected reduction of the uncertainty, in pixels
    numbers: Int64Array  # (k,) candidate labels, the likeliest first
    probabilities: Float64Array  # (k,)


def next_query(summary: Summary, asked: BoolArray | None = None, labels: Int64Array | None = None) -> Query | None:
    """Choose the site to ask the user about; None if there are no draws yet or no uncertainty is left.

    `asked` (n,) are not asked about. `labels` (n,) > 0 are the candidates unless the problem is closed, by default the
    clusters of the summary.
    """
    problem = summary.problem
    free = summary.seeds < 0 if asked is None else (summary.seeds < 0) & ~asked
    draws = summary.draws
    if not len(draws) or not free.any():
        return None
    count = min(len(draws), max(MIN_DRAWS, min(MAX_DRAWS, MAX_DRAWN_LABELS // problem.n)))
    draws = draws[np.linspace(0, len(draws) - 1, count).astype(np.int64)]
    names, drawn = label_draws(summary, draws, labels)
    probability = estimate_label_probabilities(summary, drawn, len(names))
    nats = -(probability * np.log(np.maximum(probability, 1e-300))).sum(axis=1)
    doubt = nats / np.log(max(len(names), 2))
    if doubt[free].max() < MIN_ENTROPY:
        return None
    # Free sites in the midst of much doubt, no two of them neighbours.
    weight = site_pixels(problem)
    i, j = problem.edges.T
    mass = weight * doubt
    nearby = mass + np.bincount(i, mass[j], problem.n) + np.bincount(j, mass[i], problem.n)
    begin, neighbour, *_ = problem.adjacency
    is_open = (doubt >= MIN_ENTROPY) & free
    candidates: list[int] = []
    for site in np.argsort(-np.where(free, doubt * nearby, -1.0), kind="stable").tolist():
        if is_open[site] and len(candidates) < SHORTLIST:
            candidates.append(site)
            is_open[neighbour[begin[site] : begin[site + 1]]] = False
    sites = np.array(candidates, np.int64)
    # The probability that each site would follow a scribble on each of these.
    walk = ScribbleField(problem, summary.settings, problem.closed).walk()
    propagation = walk.hitting_probability(summary.seeds >= 0, sites)
    if problem.graph is not None:
        means = np.asarray(problem.graph.means, np.float64)
        for row, site in zip(propagation, candidates, strict=True):
            row *= np.exp(-((means - means[site]) ** 2).sum(axis=1) / (2 * FOLLOW_WIDTH**2))
    gain = doubt[sites] * (propagation @ (weight * doubt))
    shortlist = np.argsort(-gain, kind="stable")[: max(1, MAX_ENTRIES // (MAX_CODES**2 * problem.n))]
    gain[shortlist] += measure_label_information(drawn, sites[shortlist], weight) / np.log(max(len(names), 2))
    best = int(np.argmax(gain))
    site = int(sites[best])
    order = np.argsort(-probability[site], kind="stable")[:MAX_CANDIDATES]
    order = order[(probability[site, order] >= MIN_PROBABILITY) | (order == order[0])]
    return Query(site, propagation[best], float(gain[best]), names[order], probability[site, order])


def label_draws(summary: Summary, draws: Int32Array, labels: Int64Array | None = None) -> tuple[Int64Array, Int64Array]:
    """Return the label names (k,), and which of them each site has in each draw (d, n).

    In a closed problem a cluster has the label of its seed, otherwise that of most of its pixels in a partition (n,).
    """
    if summary.problem.closed:
        names, anchors = np.unique(summary.seeds, return_index=True)
        is_seed = names >= 0
        drawn = np.zeros(draws.shape, np.int64)
        for k, site in enumerate(anchors[is_seed]):
            drawn[draws == draws[:, [site]]] = k
        return names[is_seed].astype(np.int64), drawn
    names, index = np.unique(summary.clusters if labels is None else labels, return_inverse=True)
    weight = site_pixels(summary.problem)
    drawn = np.empty(draws.shape, np.int64)
    for row, draw in zip(drawn, draws, strict=True):
        table = np.bincount(draw * len(names) + index, weight, (int(draw.max()) + 1) * len(names))
        row[:] = table.reshape(-1, len(names)).argmax(axis=1)[draw]
    return names.astype(np.int64), drawn


def estimate_label_probabilities(summary: Summary, drawn: Int64Array, count: int) -> Float64Array:
    """(n, count) probability of each label at each site, from the labels of the draws (d, n) and from the field."""
    shares: Float64Array = _count_labels(drawn, count) / len(drawn)
    field = summary.problem.field
    if field is None or not summary.problem.closed or field.anchor.size != count:
        return shares
    # The columns of a field are in ascending order, as the labels are.
    field_shares = DOUBT * np.exp(field.pull / summary.settings.steering) + FIELD_DOUBT
    field_shares /= field_shares.sum(axis=1, keepdims=True)
    is_seed = summary.seeds >= 0
    field_shares[is_seed] = shares[is_seed]
    return np.asarray(DRAWS_SHARE * shares + (1.0 - DRAWS_SHARE) * field_shares)


def _count_labels(drawn: Int64Array, count: int) -> Int64Array:
    """(n, count) number of draws (d, n) in which a site has each label."""
    n = drawn.shape[1]
    return np.bincount((np.arange(n) * count + drawn).ravel(), minlength=n * count).reshape(n, count)


def measure_label_information(drawn: Int64Array, sites: Int64Array, weight: Float64Array) -> Float64Array:
    """(s,) mutual information of the label of each of the sites (s,) with all others, in nats times weight (n,).

    Estimated from draws (d, n) of labels, less the bias of tables with few entries (correction of Miller and Madow).
    """
    codes = encode_labels(drawn)
    d = len(codes)
    uncertain = np.flatnonzero((codes != 0).any(axis=0))
    indicator = (codes[:, uncertain, np.newaxis] == np.arange(MAX_CODES)).astype(np.float32)
    share, n_values = indicator.mean(axis=0), indicator.any(axis=0).sum(axis=1)
    total = np.zeros(len(sites))
    for k, site in enumerate(sites.tolist()):
        at_site = (codes[:, [site]] == np.arange(MAX_CODES)).astype(np.float32)
        joint = (at_site.T @ indicator.reshape(d, -1)).reshape(MAX_CODES, len(uncertain), MAX_CODES) / d
        independent = at_site.mean(axis=0)[:, np.newaxis, np.newaxis] * share
        with np.errstate(divide="ignore", invalid="ignore"):
            nats = np.where(joint > 0, joint * np.log(joint / independent), 0.0).sum(axis=(0, 2))
        bias = (at_site.any(axis=0).sum() - 1) * (n_values - 1) / (2 * d)
        gain = weight[uncertain] * np.maximum(nats - bias, 0.0)
        total[k] = gain[uncertain != site].sum()
    return total


def encode_labels(drawn: Int64Array) -> Int64Array:
    """(d, n) rank of the labels of each site by frequency, 0 for the commonest; the last code is all rarer ones."""
    frequency = _count_labels(drawn, int(drawn.max()) + 1)
    rank = np.argsort(np.argsort(-frequency, axis=1, kind="stable"), axis=1, kind="stable")
    return np.minimum(rank[np.arange(drawn.shape[1]), drawn], MAX_CODES - 1)
