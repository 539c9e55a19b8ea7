"""Scores of a bonded group in each cluster that it may join: the conditional (19) of the paper, term by term.

The external field h_i(name) is one of the terms. A name belongs to the cluster of its anchor, a clamped site, so that
its slot is always ``labels[anchor]``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from napari_gsw.core.array_types import BoolArray, Float64Array, Int64Array, UInt32Array
from napari_gsw.core.jit import as_int64, full, njit, njit_inline, njit_inner, njit_loop, zeros
from napari_gsw.core.likelihood.tables import BASE, FACTOR, LOG_FACTOR, UNIT, LikelihoodTables
from napari_gsw.core.model.external_field import ExternalField
from napari_gsw.core.sampler.moves.cluster_kernels import log_count_gain, log_gaussian_marginal
from napari_gsw.core.sampler.state import USED, ChainState, Clusters, Target

# From here on the series of `log_rising_large` is exact to the last digit.
LARGE_ARGUMENT = 1024.0
# Of the type of a count, which numba then keeps.
ONE = np.uint32(1)


class GroupCounts(NamedTuple):
    """Words and moments of a bonded group that has been removed from its cluster."""

    word: UInt32Array  # (D,) its distinct words
    times: UInt32Array  # (D,) their counts
    sums: UInt32Array  # (D,) counts by word; zeros between two visits
    moments: Float64Array  # (2 C,)
    nothing: Float64Array  # (2 C,) zeros


class Candidates(NamedTuple):
    """The clusters that a bonded group may join: all slots in a full sweep, otherwise the adjacent ones."""

    score: Float64Array  # (slots,) log weight of each candidate
    weight: Float64Array  # (slots,) scratch
    seen: Int64Array  # (slots,) the last root that was adjacent to each cluster
    adjacent: UInt32Array  # (slots + 1,) the adjacent clusters
    neighbour_weight: Float64Array  # (slots,) their sums of beta (1 - delta)
    bonded_weight: Float64Array  # (slots,) and of beta delta


class TableEnds(NamedTuple):
    """For each word, the slots near or beyond the end of its table; no rows if no table ends."""

    log_x: Float64Array  # (D, slots) log x of `log_rising_large`
    listed: BoolArray  # (D, slots) whether a slot is in the list
    length: Int64Array  # (D,) of the list
    slot: UInt32Array  # (D, slots) the list


class BondedGroup(NamedTuple):
    """The bonded group that is visited."""

    root: int  # its smallest site
    members: int  # its sites
    old: int  # the slot it was in
    left: int  # sites that stay there
    length: int  # its distinct words
    mass: int  # its pixels behind the moments
    n_adjacent: int  # adjacent clusters
    fresh: int  # the first free slot
    others: int  # clusters without it


@njit_inline
def add_word_scores(
    evidence: LikelihoodTables, ends: UInt32Array | None, words: UInt32Array, counts: GroupCounts, length: int,
    slots: int, score: Float64Array,
) -> None:  # fmt: skip
    """Add log p(y_C u A_k) - log p(y_A_k) of the words to score[k], for every slot k < slots.

    Four words at a time, since reading and writing the scores takes as long as looking a word up. Where tables may end,
    `ends` (D,) is the first count beyond each table, and a larger count is taken for the last in the table; None
    compiles the loop without that.
    """
    table, table_start = evidence.table, evidence.table_start
    group_word, group_count = counts.word, counts.times
    t = 0
    while t + 4 <= length:
        d_0, d_1, d_2, d_3 = group_word[t], group_word[t + 1], group_word[t + 2], group_word[t + 3]
        a_0, a_1, a_2, a_3 = table_start[d_0], table_start[d_1], table_start[d_2], table_start[d_3]
        c_0, c_1, c_2, c_3 = group_count[t], group_count[t + 1], group_count[t + 2], group_count[t + 3]
        if ends is not None:
            c_0, c_1 = min(c_0, ends[d_0] - ONE), min(c_1, ends[d_1] - ONE)
            c_2, c_3 = min(c_2, ends[d_2] - ONE), min(c_3, ends[d_3] - ONE)
            z_0, z_1 = ends[d_0] - ONE - c_0, ends[d_1] - ONE - c_1
            z_2, z_3 = ends[d_2] - ONE - c_2, ends[d_3] - ONE - c_3
        b_0, b_1, b_2, b_3 = a_0 + c_0, a_1 + c_1, a_2 + c_2, a_3 + c_3
        for k in range(slots):
            m_0, m_1, m_2, m_3 = words[d_0, k], words[d_1, k], words[d_2, k], words[d_3, k]
            if ends is not None:
                m_0, m_1, m_2, m_3 = min(m_0, z_0), min(m_1, z_1), min(m_2, z_2), min(m_3, z_3)
            score[k] += (
                (table[b_0 + m_0] - table[a_0 + m_0])
                + (table[b_1 + m_1] - table[a_1 + m_1])
                + (table[b_2 + m_2] - table[a_2 + m_2])
                + (table[b_3 + m_3] - table[a_3 + m_3])
            )
        t += 4
    while t < length:
        d = group_word[t]
        a = table_start[d]
        c = group_count[t]
        if ends is not None:
            c = min(c, ends[d] - ONE)
            z = ends[d] - ONE - c
        b = a + c
        for k in range(slots):
            m = words[d, k]
            if ends is not None:
                m = min(m, z)
            score[k] += table[b + m] - table[a + m]
        t += 1


@njit
def log_rising_large(x: float, step: float, log_x: float) -> float:
    """Compute log Gamma(x + step) - log Gamma(x) for x >= LARGE_ARGUMENT and abs(step) <= x / 256.

    Stirling's series for the two arguments, taken as one series in r = step / x,

        x ((1 + r) log(1 + r) - r) - log(1 + r) / 2 + r x log x - r / (12 x (1 + r)) + r (1 - 2 r) / (120 x^3)

    needs no logarithm but that of x, which is given. The remainder is below 1e-17 of the result, so that this is exact
    to the last digits of the difference, while that of two table entries is exact only to theirs.
    """
    y = 1.0 / x
    r = step * y
    curve = 0.5 - r * (1 / 6 - r * (1 / 12 - r * (1 / 20 - r * (1 / 30 - r * (1 / 42 - r * (1 / 56))))))
    slope = 1.0 - r * (1 / 2 - r * (1 / 3 - r * (1 / 4 - r * (1 / 5 - r * (1 / 6 - r * (1 / 7))))))
    inverse = 1.0 - r * (1.0 - r * (1.0 - r * (1.0 - r)))
    rest = r * (0.5 * slope + y * (inverse * (1 / 12) - y * y * (1.0 - 2.0 * r) * (1 / 120)))
    return step * (log_x + r * curve) - rest


@njit_inner
def make_group(evidence: LikelihoodTables) -> GroupCounts:
    """Make arrays for the words and moments of any group of sites."""
    words, moments = evidence.table_start.size, evidence.moments.shape[1]
    return GroupCounts(
        zeros(words, np.uint32),
        zeros(words, np.uint32),
        zeros(words, np.uint32),
        zeros(moments, np.float64),
        zeros(moments, np.float64),
    )


@njit_inner
def make_candidates(slots: int) -> Candidates:
    """Make arrays for the scores of that many slots."""
    return Candidates(
        zeros(slots, np.float64),
        zeros(slots, np.float64),
        full(slots, -1, np.int64),
        zeros(slots + 1, np.uint32),
        zeros(slots, np.float64),
        zeros(slots, np.float64),
    )


@njit_inner
def find_table_ends(evidence: LikelihoodTables, clusters: Clusters) -> TableEnds:
    """Find the counts near the ends of the tables for every slot, also the free ones."""
    tail, table_end, words = evidence.tail, evidence.table_end, clusters.words
    slots = clusters.size.size
    ends = False
    for d in range(table_end.size):
        ends = ends or tail[d, FACTOR] != 0.0
    rows = table_end.size if ends else 0
    table_ends = TableEnds(
        zeros((rows, slots), np.float64),
        zeros((rows, slots), np.bool_),
        zeros(rows, np.int64),
        zeros((rows, slots), np.uint32),
    )
    for d in range(rows):
        if tail[d, FACTOR] != 0.0:
            for k in range(slots):
                note_table_end(evidence, words, table_ends, d, k)
    return table_ends


@njit_inline
def note_table_end(evidence: LikelihoodTables, words: UInt32Array, table_ends: TableEnds, d: int, k: int) -> None:
    """Store log x of word d in slot k, and list the slot once it comes near the end of the word's table."""
    table_ends.log_x[d, k] = math.log(evidence.tail[d, BASE] + evidence.tail[d, UNIT] * words[d, k])
    if 2 * as_int64(words[d, k]) >= evidence.table_end[d] and not table_ends.listed[d, k]:
        table_ends.listed[d, k] = True
        table_ends.slot[d, table_ends.length[d]] = k
        table_ends.length[d] += 1


@njit_inline
def score_all(
    target: Target, state: ChainState, group: BondedGroup, counts: GroupCounts, candidates: Candidates,
    has_table_ends: bool,
) -> int:  # fmt: skip
    """Score every cluster and a new one; returns the number of slots."""
    log_v, log_w = target.prior.log_v, target.prior.log_w
    size, score, adjacent, neighbour_weight = (
        state.clusters.size,
        candidates.score,
        candidates.adjacent,
        candidates.neighbour_weight,
    )
    choices = as_int64(state.scratch.slots[USED]) + 1
    for k in range(choices):
        m = size[k]
        score[k] = log_v[group.others] + log_w[m + group.members] - log_w[m] if m > 0 else -math.inf
    score[group.fresh] = log_v[group.others + 1] + log_w[group.members]
    for t in range(group.n_adjacent):
        score[adjacent[t]] += neighbour_weight[adjacent[t]]
    evidence, words = target.evidence, state.clusters.words
    if has_table_ends:
        add_word_scores(evidence, evidence.table_end, words, counts, group.length, choices, score)
    else:
        add_word_scores(evidence, None, words, counts, group.length, choices, score)
    return choices


@njit_inline
def score_adjacent(
    target: Target, state: ChainState, group: BondedGroup, counts: GroupCounts, candidates: Candidates
) -> int:
    """Score the adjacent clusters and a new one, in the order of ``candidates.adjacent``; returns their number."""
    log_v, log_w = target.prior.log_v, target.prior.log_w
    table, table_start, table_end = target.evidence.table, target.evidence.table_start, target.evidence.table_end
    size, words = state.clusters.size, state.clusters.words
    score, adjacent, neighbour_weight = candidates.score, candidates.adjacent, candidates.neighbour_weight
    choices = group.n_adjacent + 1
    for c in range(group.n_adjacent):
        m = size[adjacent[c]]
        score[c] = log_v[group.others] + log_w[m + group.members] - log_w[m] + neighbour_weight[adjacent[c]]
    adjacent[group.n_adjacent] = group.fresh
    score[group.n_adjacent] = log_v[group.others + 1] + log_w[group.members]
    for t in range(group.length):
        d = counts.word[t]
        a = table_start[d]
        more = min(counts.times[t], table_end[d] - ONE)
        last = table_end[d] - ONE - more
        b = a + more
        for c in range(choices):
            m_c = min(words[d, adjacent[c]], last)
            score[c] += table[b + m_c] - table[a + m_c]
    return choices


@njit_loop
def fix_table_ends(
    evidence: LikelihoodTables, words: UInt32Array, group: BondedGroup, counts: GroupCounts, candidates: Candidates,
    table_ends: TableEnds, choices: int, full: bool
) -> None:  # fmt: skip
    """Correct the scores of counts beyond the tables, for which the last entry was taken."""
    table, table_start, table_end, tail = evidence.table, evidence.table_start, evidence.table_end, evidence.tail
    score, adjacent, old = candidates.score, candidates.adjacent, group.old
    for t in range(group.length):
        d = counts.word[t]
        sign, base, unit, end = tail[d, FACTOR], tail[d, BASE], tail[d, UNIT], as_int64(table_end[d])
        if sign == 0.0:
            continue
        more = as_int64(counts.times[t])
        kept = min(more, end - 1)
        at = table_start[d] + np.uint64(end - 1)
        taken = table[at] - table[at - np.uint64(kept)]
        smooth = 2 * more < end and tail[d, LOG_FACTOR] == 0.0
        for q in range(table_ends.length[d] if full and smooth else choices):
            c = as_int64(table_ends.slot[d, q]) if full and smooth else q
            k = c if full else as_int64(adjacent[c])
            m = as_int64(words[d, k])
            if m + more < end:
                continue
            # log x of the old cluster is from before the group was removed
            argument = base + unit * (m + more if k == old else m)
            step = -unit * more if k == old else unit * more
            if tail[d, LOG_FACTOR] == 0.0 and argument >= LARGE_ARGUMENT and abs(step) <= argument * (1 / 256):
                rise = sign * log_rising_large(argument, step, table_ends.log_x[d, k])
                score[c] += -rise if k == old else rise
            else:
                score[c] += log_count_gain(evidence, d, m, more)
            if m + kept < end:
                at = table_start[d] + np.uint64(m)
                score[c] -= table[at + np.uint64(kept)] - table[at]
            else:
                score[c] -= taken


@njit_inline
def add_moment_scores(
    evidence: LikelihoodTables, clusters: Clusters, group: BondedGroup, counts: GroupCounts, candidates: Candidates,
    choices: int, full: bool,
) -> None:  # fmt: skip
    """Add the likelihood of the moments to the score of each candidate."""
    gauss, pixels = evidence.gauss, evidence.pixels
    words, moments, cached = clusters.words, clusters.moments, clusters.gauss
    score, adjacent = candidates.score, candidates.adjacent
    for c in range(choices):
        k = c if full else as_int64(adjacent[c])
        total = as_int64(words[pixels, k]) + group.mass
        score[c] += log_gaussian_marginal(gauss, moments, k, total, counts.moments) - cached[k]


@njit_inline
def add_field(field: ExternalField, state: ChainState, candidates: Candidates, root: int, n_adjacent: int) -> int:
    """Add the field to the weight of each named cluster for a bonded group; returns the number of listed clusters.

    A named cluster is listed even if it is not adjacent: which ones these are does not depend on where the group is,
    and scribbles far away have an influence, too.
    """
    labels, next_member, pull = state.labels, state.scratch.next_member, field.pull
    for s in range(field.anchor.size):
        k = as_int64(labels[field.anchor[s]])
        total = 0.0
        i = as_int64(root)
        while i >= 0:
            total += pull[i, s]
            i = as_int64(next_member[i])
        if candidates.seen[k] != root:
            candidates.seen[k] = root
            candidates.adjacent[n_adjacent] = k
            n_adjacent += 1
            candidates.neighbour_weight[k] = 0.0
            candidates.bonded_weight[k] = 0.0
        candidates.neighbour_weight[k] += total
    return n_adjacent


@njit_inline
def field_value(field: ExternalField, i: int, name: int) -> float:
    """Return h_i(name) of a site and a name; 0 without a name (-1) or with one that has no field."""
    return float(field.pull[i, name]) if 0 <= name < field.anchor.size else 0.0


@njit_inner
def add_merged_field(target: Target, state: ChainState, name: int, names: Int64Array, weight: Float64Array) -> None:
    """Add to weight[k] the gain of the field if block 0, the sites whose ``place`` is 0, joins cluster k.

    `name` is that of block 0, -1 for none; `names` and `weight` (slots + 1,) are those of the clusters, the last ones
    of block 1. Of two clusters that may merge at most one has a name.
    """
    field, labels, place = target.field, state.labels, state.scratch.place
    if field.anchor.size == 0:
        return
    last = weight.size - 1
    for i in range(labels.size):
        if place[i] != 0:
            weight[last if place[i] == 1 else labels[i]] += field_value(field, i, name)
        elif name < 0:
            for k in range(last + 1):
                weight[k] += field_value(field, i, as_int64(names[k]))
