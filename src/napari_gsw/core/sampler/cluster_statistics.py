"""Sufficient statistics of clusters, and of a group of sites that moves; draws of a candidate."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from napari_gsw.core.array_types import Float64Array, UInt32Array
from napari_gsw.core.jit import as_index, as_int64, njit, njit_inline, njit_inner, njit_loop, zeros
from napari_gsw.core.likelihood.likelihood_tables import (
    BASE,
    FACTOR,
    KAPPA,
    LOG_FACTOR,
    LOG_UNIT,
    PIXEL_WEIGHT,
    RATE,
    SHAPE,
    SHIFT,
    SLOPE,
    UNIT,
    LikelihoodTables,
)
from napari_gsw.core.model.external_field import ExternalField
from napari_gsw.core.sampler.state import ChainState, Clusters, Target
from napari_gsw.core.special import LARGE

# exp(-44) is 2 ** -63.5.
NEGLIGIBLE_GAP = 44.0


class GroupCounts(NamedTuple):
    """Words and moments of a group of sites that has been removed from its cluster."""

    word: UInt32Array  # (D,) its distinct words
    times: UInt32Array  # (D,) their counts
    sums: UInt32Array  # (D,) counts by word; zeros between two visits
    moments: Float64Array  # (1, 2 C)


@njit_inner
def make_group(evidence: LikelihoodTables) -> GroupCounts:
    """Make arrays for the words and moments of any group of sites."""
    words = evidence.table_start.size
    return GroupCounts(
        zeros(words, np.uint32),
        zeros(words, np.uint32),
        zeros(words, np.uint32),
        zeros((as_int64(1), evidence.moments.shape[1]), np.float64),
    )


@njit_inner
def make_clusters(words: int, moments: int, slots: int) -> Clusters:
    """Make that many free slots, for D words and 2 C moments."""
    return Clusters(
        zeros(slots, np.int64),
        zeros((words, slots), np.uint32),
        zeros((moments, slots), np.float64),
        zeros(slots, np.float64),
    )


@njit_loop
def copy_slot(source: Clusters, a: int, target: Clusters, b: int) -> None:
    """Copy slot a of `source` to slot b of `target`."""
    target.size[b] = source.size[a]
    target.gauss[b] = source.gauss[a]
    for d in range(source.words.shape[0]):
        target.words[d, b] = source.words[d, a]
    for c in range(source.moments.shape[0]):
        target.moments[c, b] = source.moments[c, a]


@njit_loop
def clear_slot(clusters: Clusters, k: int) -> None:
    """Free slot k."""
    clusters.size[k] = 0
    clusters.gauss[k] = 0.0
    for d in range(clusters.words.shape[0]):
        clusters.words[d, k] = 0
    for c in range(clusters.moments.shape[0]):
        clusters.moments[c, k] = 0.0


@njit_inner
def grow_state(state: ChainState, slots: int) -> ChainState:
    """Return the same state with room for that many clusters."""
    clusters = state.clusters
    wider = make_clusters(clusters.words.shape[0], clusters.moments.shape[0], slots)
    for k in range(clusters.size.size):
        copy_slot(clusters, k, wider, k)
    return ChainState(state.labels, wider, state.scratch, state.sums)


@njit_inline
def gather_words(
    evidence: LikelihoodTables, i: int, group_word: UInt32Array, group_count: UInt32Array, length: int
) -> int:
    """Add the words of site i to a group with `length` distinct ones; returns their new number.

    ``group_word[:length]`` lists the words, ``group_count[d]`` is the count of word d; both (D,).
    """
    site_start, word, times = evidence.site_start, evidence.word, evidence.times
    for t in range(site_start[i], site_start[i + 1]):
        d = word[t]
        if group_count[d] == 0:
            group_word[length] = d
            length += 1
        group_count[d] += times[t]
    return length


@njit_loop
def log_gaussian_marginal(
    evidence: LikelihoodTables, clusters: Clusters, k: int, pixels: int, more: Float64Array, row: int
) -> float:
    """Return the part of cluster k's log marginal that depends on the moments, with a group added to it.

    Normal-inverse-gamma with prior mean 0: -a_n log(b_n / b_0), b_n = b_0 + (S_2 - S_1^2 / kappa_n) / 2. The moments of
    the group are a row of `more` (rows, 2 C), and `pixels` are its pixels; row -1 and 0 pixels stand for no group.
    """
    gauss, moments, channels = evidence.gauss, clusters.moments, evidence.gauss.shape[0]
    result = 0.0
    if channels == 0:
        return result
    pixels = as_int64(clusters.words[evidence.pixels, k]) + pixels
    for c in range(channels):
        weight = gauss[c, PIXEL_WEIGHT] * pixels
        kappa = gauss[c, KAPPA] + weight
        shape = gauss[c, SHAPE] + 0.5 * weight
        first = moments[c, k]
        second = moments[channels + c, k]
        if row >= 0:
            first += more[row, c]
            second += more[row, channels + c]
        rate = gauss[c, RATE] + 0.5 * max(second - first * first / kappa, 0.0)
        result -= shape * math.log(rate / gauss[c, RATE])
    return result


@njit_loop
def log_gamma(x: float) -> float:
    """Compute log Gamma(x) for x > 0 by Stirling's series.

    The series is cut after seven terms, with a remainder below 3e-20 for x >= 16; smaller arguments are first raised
    above that by Gamma(x + 1) = x Gamma(x). So the error is a few roundings of the terms, as in any table.
    """
    product = 1.0
    while x < 16.0:
        product *= x
        x += 1.0
    y = 1.0 / (x * x)
    series = 1.0 / 12.0 - y * (
        1.0 / 360.0
        - y * (1.0 / 1260.0 - y * (1.0 / 1680.0 - y * (1.0 / 1188.0 - y * (691.0 / 360360.0 - y * (1.0 / 156.0)))))
    )
    # log sqrt(2 pi)
    result = (x - 0.5) * math.log(x) - x + 0.9189385332046727 + series / x
    return result if product == 1.0 else result - math.log(product)


@njit_loop
def log_count_tail(tail: Float64Array, d: int, m: int) -> float:
    """Return the contribution of count m of word d to the log marginal beyond the end of the table.

    A log Gamma(b + w m) + shift + B log(1 + r m) + slope m, with A, b, w, shift, B, r, slope the row of `tail` (D, 7).
    The shift is -A log Gamma(b), which of a large b would leave little of the sum: then the terms of both series are
    subtracted one by one, as in :mod:`napari_gsw.core.special`.
    """
    base, rise = tail[d, BASE], tail[d, UNIT] * m
    if base < LARGE:
        result = tail[d, FACTOR] * log_gamma(base + rise) + tail[d, SHIFT]
    else:
        share = rise / base
        series = (base + rise - 0.5) * math.log1p(share) - rise - share / (12 * (base + rise))
        result = tail[d, FACTOR] * (rise * math.log(base) + series)
    if tail[d, LOG_FACTOR] != 0.0:
        result += tail[d, LOG_FACTOR] * math.log1p(tail[d, LOG_UNIT] * m) + tail[d, SLOPE] * m
    return float(result)


@njit_loop
def log_count_gain(evidence: LikelihoodTables, d: int, m: int, more: int) -> float:
    """Return the gain of the log marginal of a cluster with m of word d by `more` of it."""
    table, table_end, tail = evidence.table, evidence.table_end, evidence.tail
    at = evidence.table_start[d] + np.uint64(m)
    if m + more < table_end[d]:
        result = table[at + np.uint64(more)] - table[at]
    else:
        result = log_count_tail(tail, d, m + more) - (table[at] if m < table_end[d] else log_count_tail(tail, d, m))
    return float(result)


@njit_inline
def add_count_gains(
    evidence: LikelihoodTables, words: UInt32Array, word: UInt32Array, times: UInt32Array, begin: int, end: int,
    first: int, last: int, score: Float64Array,
) -> None:  # fmt: skip
    """Add log p(y_C u A_k) - log p(y_A_k) of the words to score[k], for slots first <= k < last (free: p(y_C)).

    `word` and `times` from `begin` to `end` are the distinct words of C and their counts, `words` (D, slots) those of
    the clusters.
    """
    table, table_start, tail = evidence.table, evidence.table_start, evidence.tail
    for t in range(begin, end):
        d = word[t]
        start = table_start[d]
        count = times[t]
        if tail[d, FACTOR] == 0.0:
            for k in range(first, last):
                m = start + words[d, k]
                score[k] += table[m + count] - table[m]
        else:
            for k in range(first, last):
                score[k] += log_count_gain(evidence, d, as_int64(words[d, k]), as_int64(count))


@njit_inline
def score_site(target: Target, state: ChainState, i: int, blocks: int, score: Float64Array) -> None:
    """Score the first `blocks` blocks for site i by the gain of log likelihood and couplings."""
    evidence, graph, clusters, place = target.evidence, target.graph, state.scratch.blocks, state.scratch.place
    for b in range(blocks):
        score[b] = 0.0
    for u in range(graph.start[i], graph.start[i + 1]):
        b = place[graph.neighbour[u]]
        if b >= 0:
            score[b] += graph.beta[graph.edge[u]]
    begin, end = evidence.site_start[i], evidence.site_start[i + 1]
    add_count_gains(evidence, clusters.words, evidence.word, evidence.times, begin, end, as_int64(0), blocks, score)
    if evidence.moments.size > 0:
        pixels = as_int64(0)
        for t in range(begin, end):
            if evidence.word[t] == evidence.pixels:
                pixels = as_int64(evidence.times[t])
        for b in range(blocks):
            fit = log_gaussian_marginal(evidence, clusters, b, pixels, evidence.moments, i)
            score[b] += fit - clusters.gauss[b]


@njit_inline
def fill_weights(score: Float64Array, weight: Float64Array, length: int, top: float) -> float:
    """Set weight[k] = exp(score[k] - top) for k < length; returns their sum.

    More than NEGLIGIBLE_GAP below the highest score, a weight is less than a uniform of 53 bits can distinguish from
    nothing, even a thousand times over, and becomes 0.
    """
    total = 0.0
    for k in range(length):
        weight[k] = math.exp(score[k] - top) if score[k] >= top - NEGLIGIBLE_GAP else 0.0
        total += weight[k]
    return total


@njit_loop
def draw_candidate(score: Float64Array, weight: Float64Array, length: int, uniform: float, leader: int = -1) -> int:
    """Draw an index with probability proportional to exp(score), of which one is finite. `weight` is scratch.

    A `leader` >= 0 is the index of the highest score and has the first part of the unit interval.
    """
    top = -math.inf
    if leader >= 0:
        top = score[leader]
    else:
        for k in range(length):
            top = max(top, score[k])
    target = uniform * fill_weights(score, weight, length, top)
    running = 0.0
    chosen = as_int64(leader)
    if leader >= 0:
        running = weight[leader]
        if running > target:
            return chosen
    for k in range(length):
        if weight[k] > 0.0 and k != leader:
            chosen = k
            running += weight[k]
            if running > target:
                break
    return chosen


@njit_loop
def update_gaussian(evidence: LikelihoodTables, clusters: Clusters, k: int) -> None:
    """Compute the cached part of slot k's log marginal from its moments, if there are channels."""
    clusters.gauss[k] = log_gaussian_marginal(evidence, clusters, k, as_int64(0), evidence.moments, as_int64(-1))


@njit
def update_all_gaussians(evidence: LikelihoodTables, clusters: Clusters) -> None:
    """Compute the cached parts of all clusters."""
    for k in range(clusters.size.size):
        if clusters.size[k] > 0:
            update_gaussian(evidence, clusters, k)


@njit_inline
def field_value(field: ExternalField, i: int, name: int) -> float:
    """Return h_i(name) of a site and a name; 0 without a name (-1) or with one that has no field."""
    return float(field.pull[i, name]) if 0 <= name < field.anchor.size else 0.0


@njit_loop
def add_site(evidence: LikelihoodTables, clusters: Clusters, i: int, k: int) -> None:
    """Add site i to slot k."""
    clusters.size[k] += 1
    for t in range(evidence.site_start[i], evidence.site_start[i + 1]):
        clusters.words[evidence.word[t], k] += evidence.times[t]
    for c in range(clusters.moments.shape[0]):
        clusters.moments[c, k] += evidence.moments[i, c]
    update_gaussian(evidence, clusters, k)


@njit_loop
def remove_site(evidence: LikelihoodTables, clusters: Clusters, i: int, k: int) -> None:
    """Remove site i from slot k."""
    clusters.size[k] -= 1
    for t in range(evidence.site_start[i], evidence.site_start[i + 1]):
        clusters.words[evidence.word[t], k] -= evidence.times[t]
    for c in range(clusters.moments.shape[0]):
        clusters.moments[c, k] -= evidence.moments[i, c]
    update_gaussian(evidence, clusters, k)


@njit_loop
def merge_slots(evidence: LikelihoodTables, clusters: Clusters, source: int, target: int) -> None:
    """Add one slot to another, and free it."""
    clusters.size[target] += clusters.size[source]
    for d in range(clusters.words.shape[0]):
        clusters.words[d, target] += clusters.words[d, source]
    for c in range(clusters.moments.shape[0]):
        clusters.moments[c, target] += clusters.moments[c, source]
    update_gaussian(evidence, clusters, target)
    clear_slot(clusters, source)


@njit_loop
def log_marginal(evidence: LikelihoodTables, clusters: Clusters, k: int) -> float:
    """Return log p(y_A_k), up to a constant of the problem."""
    table, table_start, words = evidence.table, evidence.table_start, clusters.words
    table_end, tail = evidence.table_end, evidence.tail
    result = clusters.gauss[k]
    for d in range(words.shape[0]):
        if words[d, k] < table_end[d]:
            result += table[table_start[d] + words[d, k]] - table[table_start[d]]
        else:
            result += log_count_tail(tail, as_index(d), as_int64(words[d, k])) - table[table_start[d]]
    return float(result)
