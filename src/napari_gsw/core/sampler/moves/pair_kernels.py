"""The two anchor sites of a split or a merge, and the sites of their clusters in a row."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from napari_gsw.core.array_types import Float64Array, Int32Array
from napari_gsw.core.jit import as_int64, full, njit, njit_inner, zeros
from napari_gsw.core.likelihood.tables import FACTOR
from napari_gsw.core.sampler.moves.cluster_kernels import (
    clear_slot,
    copy_slot,
    draw_candidate,
    log_count_gain,
    log_gaussian_marginal,
)
from napari_gsw.core.sampler.moves.field_kernels import add_merged_field
from napari_gsw.core.sampler.state import USED, ChainState, Moves, Target


class SitePair(NamedTuple):
    """The two anchor sites of a move."""

    first: int  # -1: there is no move to make
    second: int
    informed: bool  # the second was drawn given the first
    log_merge: float  # log probability that a merge would draw it, if informed


NO_PAIR = SitePair(-1, -1, False, 0.0)


@njit_inner
def score_merges(target: Target, state: ChainState, excluded: int, power: float, score: Float64Array) -> float:
    """Score every cluster for a merge with block 0, the sites whose ``place`` is 0; returns the log sum of weights.

    ``score[k]`` becomes b (log p(y_0 u A_k) - log p(y_A_k) + log W(m_0 + m_k) - log W(m_k) + sum beta + sum h), minus
    infinity for free slots, for `excluded` and for other seeds; ``score[-1]`` is that of block 1 unless it is empty.
    """
    evidence, graph, log_w, seeds = target.evidence, target.graph, target.prior.log_w, target.seeds
    labels, clusters, place, blocks = state.labels, state.clusters, state.scratch.place, state.scratch.blocks
    table, table_start, tail = evidence.table, evidence.table_start, evidence.tail
    gauss, pixels = evidence.gauss, evidence.pixels
    start, neighbour, edge, beta = graph.start, graph.neighbour, graph.edge, graph.beta
    slots = score.size - 1
    group_word = zeros(table_start.size, np.uint32)
    group_count = zeros(table_start.size, np.uint32)
    length = as_int64(0)
    for d in range(table_start.size):
        if blocks.words[d, 0] > 0:
            group_word[length] = d
            group_count[d] = blocks.words[d, 0]
            length += 1
    cluster_seed = full(slots + 1, -1, np.int64)
    pull = zeros(slots + 1, np.float64)
    seed = as_int64(-1)
    for i in range(labels.size):
        if place[i] == 0:
            seed = max(seed, as_int64(seeds[i]))
            for t in range(start[i], start[i + 1]):
                j = neighbour[t]
                if place[j] != 0:
                    pull[slots if place[j] == 1 else labels[j]] += beta[edge[t]]
        elif seeds[i] >= 0:
            cluster_seed[slots if place[i] == 1 else labels[i]] = seeds[i]
    add_merged_field(target, state, seed, cluster_seed, pull)
    words = clusters.words
    for k in range(slots + 1):
        score[k] = 0.0
    for t in range(length):
        d = group_word[t]
        count = group_count[d]
        if tail[d, FACTOR] == 0.0:
            for k in range(slots):
                if k != excluded:  # the tables end where all sites are counted once
                    m_k = table_start[d] + words[d, k]
                    score[k] += table[m_k + count] - table[m_k]
            m_1 = table_start[d] + blocks.words[d, 1]
            score[slots] += table[m_1 + count] - table[m_1]
        else:
            for k in range(slots):
                if k != excluded:
                    score[k] += log_count_gain(evidence, d, as_int64(words[d, k]), as_int64(count))
            score[slots] += log_count_gain(evidence, d, as_int64(blocks.words[d, 1]), as_int64(count))
    moments = blocks.moments[:, 0].copy()
    members = blocks.size[0]
    top = -math.inf
    for k in range(slots + 1):
        last = k == slots
        m = blocks.size[1] if last else clusters.size[k]
        if m == 0 or k == excluded or (seed >= 0 and cluster_seed[k] >= 0):
            score[k] = -math.inf
            continue
        if moments.size > 0:
            if last:
                total = as_int64(blocks.words[pixels, 1] + group_count[pixels])
                score[k] += log_gaussian_marginal(gauss, blocks.moments, as_int64(1), total, moments) - blocks.gauss[1]
            else:
                total = as_int64(clusters.words[pixels, k] + group_count[pixels])
                score[k] += log_gaussian_marginal(gauss, clusters.moments, k, total, moments) - clusters.gauss[k]
        score[k] = power * (score[k] + log_w[m + members] - log_w[m] + pull[k])
        top = max(top, score[k])
    if top == -math.inf:
        return top
    mass = 0.0
    for k in range(slots + 1):
        mass += math.exp(score[k] - top)
    return float(top + math.log(mass))


@njit
def find_member(labels: Int32Array, k: int, which: int, excluded: int) -> int:
    """Return member number `which` of cluster k, not counting `excluded`."""
    for i in range(labels.size):
        if labels[i] == k and i != excluded:
            if which == 0:
                return i
            which -= 1
    return -1


@njit_inner
def draw_site_pair(target: Target, state: ChainState, moves: Moves, power: float, rng: np.random.Generator) -> SitePair:
    """Draw two sites, in one of the three ways."""
    labels, clusters, scratch, graph = state.labels, state.clusters, state.scratch, target.graph
    n = as_int64(labels.size)
    informed = rng.random() < moves.informed
    if not informed:
        if graph.left.size > 0 and rng.random() < moves.near:
            e = as_int64(rng.random() * graph.left.size)
            return SitePair(as_int64(graph.left[e]), as_int64(graph.right[e]), False, 0.0)
        i = as_int64(rng.random() * n)
        j = as_int64(rng.random() * (n - 1))
        return SitePair(i, j + 1 if j >= i else j, False, 0.0)
    i = as_int64(rng.random() * n)
    a = as_int64(labels[i])
    if rng.random() < 0.5:
        if clusters.size[a] < 2:
            return NO_PAIR
        return SitePair(i, find_member(labels, a, as_int64(rng.random() * (clusters.size[a] - 1)), i), True, 0.0)
    copy_slot(clusters, a, scratch.blocks, as_int64(0))
    for s in range(n):
        if labels[s] == a:
            scratch.place[s] = 0
    score = zeros(scratch.slots[USED] + 1, np.float64)
    log_all = score_merges(target, state, a, power, score)
    if log_all == -math.inf:
        return NO_PAIR
    b = draw_candidate(score, zeros(score.size, np.float64), score.size, rng.random())
    log_merge = score[b] - log_all - math.log(clusters.size[b])
    j = find_member(labels, b, as_int64(rng.random() * clusters.size[b]), as_int64(-1))
    for s in range(n):
        scratch.place[s] = -1
    clear_slot(scratch.blocks, as_int64(0))
    return SitePair(i, j, True, log_merge)


@njit_inner
def order_sites(target: Target, state: ChainState, i: int, j: int, rng: np.random.Generator) -> tuple[int, int, int]:
    """Write all sites of the anchors' clusters to ``order``: anchors, those with a seed, the rest at random.

    Returns the number of sites before the rest, their number in all (-1 if two seeds would merge), and the slot with
    the seed, or that of anchor i if there is none.
    """
    labels, seeds, order = state.labels, target.seeds, state.scratch.order
    a, b = as_int64(labels[i]), as_int64(labels[j])
    order[0] = i
    order[1] = j
    first = as_int64(2)
    seed = as_int64(-1)
    holder = a
    for s in range(labels.size):
        if (labels[s] == a or labels[s] == b) and seeds[s] >= 0:
            if seed >= 0 and seeds[s] != seed:
                return first, as_int64(-1), holder
            seed = as_int64(seeds[s])
            holder = as_int64(labels[s])
            if s != i and s != j:
                order[first] = s
                first += 1
    length = first
    for s in range(labels.size):
        if (labels[s] == a or labels[s] == b) and seeds[s] < 0 and s != i and s != j:
            order[length] = s
            length += 1
    for t in range(length - 1, first, -1):
        u = first + as_int64(rng.random() * (t - first + 1))
        order[t], order[u] = order[u], order[t]
    return first, length, holder
