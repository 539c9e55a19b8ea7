"""Split one cluster in two, or merge two: Metropolis-Hastings moves informed by the marginal likelihood.

Strategy
--------
After Jain and Neal, "A split-merge Markov chain Monte Carlo procedure for the Dirichlet process mixture model" (2004).
Two anchor sites are drawn. If they share a cluster it is to be split, otherwise their two clusters are to be merged. In
both cases the sites of the one or two clusters are first allocated to two *blocks*, one for each anchor, in a way that
depends on which sites there are but never on how they are divided now: one after the other, then in a few scans, each
site drawn given all the others, with the couplings and the prior. From this *launch state* one last scan leads to the
split that is proposed; or, for a merge, it is forced to end at the present split, to compute its proposal probability.

The anchors are drawn in one of three ways at random:

- any two sites;
- the two ends of an edge, so that clusters that touch are merged and clusters are split along edges;
- *informed*: one site at random, and then, at random, either another site of its cluster (a split) or a site of another
  one (a merge), which is drawn with the weight that a sweep would give it if all of the first cluster moved at once.
  This depends on the labels, and so enters the acceptance.

Seeds: two clusters with different seeds are never merged, and all sites of a seed go to one block: that of an anchor
with the seed, or else either with probability 1/2.
"""

from __future__ import annotations

import math

import numpy as np

from napari_gsw.core.array_types import Float64Array, Int32Array
from napari_gsw.core.jit import as_int64, full, njit_inner, njit_loop, zeros
from napari_gsw.core.sampler.cluster_statistics import (
    add_count_gains,
    add_site,
    clear_slot,
    copy_slot,
    draw_candidate,
    field_value,
    log_count_gain,
    log_gaussian_marginal,
    log_marginal,
    merge_slots,
    remove_site,
    score_site,
)
from napari_gsw.core.sampler.state import CLUSTERS, USED, ChainState, Clusters, Moves, Target


@njit_inner
def score_merges(target: Target, state: ChainState, excluded: int, power: float, score: Float64Array) -> float:
    """Score every cluster for a merge with block 0, the sites whose ``place`` is 0; returns the log sum of weights.

    ``score[k]`` becomes b (log p(y_0 u A_k) - log p(y_A_k) + log W(m_0 + m_k) - log W(m_k) + sum beta + sum h), minus
    infinity for free slots, for `excluded` and for other seeds; ``score[-1]`` is that of block 1 unless it is empty.
    """
    evidence, graph, field = target.evidence, target.graph, target.field
    seeds, log_w = target.seeds, target.prior.log_w
    labels, clusters, place, blocks = state.labels, state.clusters, state.scratch.place, state.scratch.blocks
    slots = score.size - 1
    cluster_seed = full(slots + 1, -1, np.int64)
    pull = zeros(slots + 1, np.float64)
    seed = as_int64(-1)
    for i in range(labels.size):
        if place[i] == 0:
            seed = max(seed, as_int64(seeds[i]))
            for t in range(graph.start[i], graph.start[i + 1]):
                j = graph.neighbour[t]
                if place[j] != 0:
                    pull[slots if place[j] == 1 else labels[j]] += graph.beta[graph.edge[t]]
        elif seeds[i] >= 0:
            cluster_seed[slots if place[i] == 1 else labels[i]] = seeds[i]
    for i in range(labels.size if field.anchor.size else 0):  # of two clusters that may merge at most one has a name
        if place[i] != 0:
            pull[slots if place[i] == 1 else labels[i]] += field_value(field, i, seed)
        elif seed < 0:
            for k in range(slots + 1):
                pull[k] += field_value(field, i, as_int64(cluster_seed[k]))

    word = zeros(evidence.table_start.size, np.uint32)
    times = zeros(evidence.table_start.size, np.uint32)
    length = as_int64(0)
    for d in range(evidence.table_start.size):
        if blocks.words[d, 0] > 0:
            word[length] = d
            times[length] = blocks.words[d, 0]
            length += 1
    for k in range(slots + 1):
        score[k] = 0.0
    first = as_int64(0)
    add_count_gains(evidence, clusters.words, word, times, first, length, first, excluded, score)
    # The tables end where all sites are counted once.
    add_count_gains(evidence, clusters.words, word, times, first, length, excluded + 1, slots, score)
    pixels = as_int64(0)
    for t in range(length):
        score[slots] += log_count_gain(evidence, word[t], as_int64(blocks.words[word[t], 1]), as_int64(times[t]))
        if word[t] == evidence.pixels:
            pixels = as_int64(times[t])
    moments = zeros((as_int64(1), blocks.moments.shape[0]), np.float64)
    for c in range(moments.size):
        moments[0, c] = blocks.moments[c, 0]
    members = blocks.size[0]
    top = -math.inf
    for k in range(slots + 1):
        last = k == slots
        m = blocks.size[1] if last else clusters.size[k]
        if m == 0 or k == excluded or (seed >= 0 and cluster_seed[k] >= 0):
            score[k] = -math.inf
            continue
        if last:
            score[k] += log_gaussian_marginal(evidence, blocks, as_int64(1), pixels, moments, first) - blocks.gauss[1]
        else:
            score[k] += log_gaussian_marginal(evidence, clusters, k, pixels, moments, first) - clusters.gauss[k]
        score[k] = power * (score[k] + log_w[m + members] - log_w[m] + pull[k])
        top = max(top, score[k])
    if top == -math.inf:
        return top
    mass = 0.0
    for k in range(slots + 1):
        mass += math.exp(score[k] - top)
    return float(top + math.log(mass))


@njit_loop
def find_member(labels: Int32Array, k: int, which: int, excluded: int) -> int:
    """Return member number `which` of cluster k, not counting `excluded`."""
    for i in range(labels.size):
        if labels[i] == k and i != excluded:
            if which == 0:
                return i
            which -= 1
    return -1


@njit_inner
def draw_site_pair(
    target: Target, state: ChainState, moves: Moves, power: float, rng: np.random.Generator
) -> tuple[int, int, bool, float]:
    """Draw two sites, in one of the three ways; -1 for the first is no move.

    Returns the sites, whether the second was drawn given the first, and if so, the log probability that a merge would
    draw it.
    """
    labels, clusters, scratch, graph = state.labels, state.clusters, state.scratch, target.graph
    n = as_int64(labels.size)
    informed = rng.random() < moves.informed
    if not informed:
        if graph.left.size > 0 and rng.random() < moves.near:
            e = as_int64(rng.random() * graph.left.size)
            return as_int64(graph.left[e]), as_int64(graph.right[e]), False, 0.0
        i = as_int64(rng.random() * n)
        j = as_int64(rng.random() * (n - 1))
        return i, j + 1 if j >= i else j, False, 0.0
    i = as_int64(rng.random() * n)
    a = as_int64(labels[i])
    if rng.random() < 0.5:
        if clusters.size[a] < 2:
            return as_int64(-1), i, False, 0.0
        return i, find_member(labels, a, as_int64(rng.random() * (clusters.size[a] - 1)), i), True, 0.0
    copy_slot(clusters, a, scratch.blocks, as_int64(0))
    for s in range(n):
        if labels[s] == a:
            scratch.place[s] = 0
    score = zeros(scratch.slots[USED] + 1, np.float64)
    log_all = score_merges(target, state, a, power, score)
    if log_all == -math.inf:
        return as_int64(-1), i, False, 0.0
    b = draw_candidate(score, zeros(score.size, np.float64), score.size, rng.random(), as_int64(-1))
    log_merge = score[b] - log_all - math.log(clusters.size[b])
    j = find_member(labels, b, as_int64(rng.random() * clusters.size[b]), as_int64(-1))
    for s in range(n):
        scratch.place[s] = -1
    clear_slot(scratch.blocks, as_int64(0))
    return i, j, True, log_merge


@njit_inner
def order_sites(
    target: Target, state: ChainState, i: int, j: int, rng: np.random.Generator
) -> tuple[int, int, int, int]:
    """Write all sites of the anchors' clusters to ``order``: anchors, those with a seed, the rest at random.

    Returns the number of sites before the rest, their number in all (-1 if two seeds would merge), the seed (-1 for
    none), and its slot, or that of anchor i if there is none.
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
                return first, as_int64(-1), seed, holder
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
    return first, length, seed, holder


@njit_loop
def log_size_ratio(log_w: Float64Array, m: int) -> float:
    """Return log W(m + 1) - log W(m), or 0 where the prior forbids a size: a small block may still grow."""
    if log_w[m] == -math.inf or log_w[m + 1] == -math.inf:
        return 0.0
    return float(log_w[m + 1] - log_w[m])


@njit_loop
def allocate_pair(
    target: Target, state: ChainState, first: int, length: int, scans: int, follow: bool, power: float,
    seed: int, side: int, score: Float64Array, rng: np.random.Generator,
) -> float:  # fmt: skip
    """Allocate the sites ``order[first:length]`` to two blocks, which have those before `first` already.

    Once without the sites still to come, `scans` times given all others, and once more for the proposal. With `follow`
    this last scan gives the sites of order[0]'s cluster to block 0 and all others to block 1. Returns the log
    probability of the last scan; ``place`` and ``blocks`` are the result. `side` is the block of the `seed`, if it is
    not -1, and `score` (2,) is scratch.
    """
    evidence, log_w, labels = target.evidence, target.prior.log_w, state.labels
    blocks, place, order = state.scratch.blocks, state.scratch.place, state.scratch.order
    log_q = 0.0
    for scan in range(scans + 2):
        for t in range(first, length):
            i = as_int64(order[t])
            if scan > 0:
                remove_site(evidence, blocks, i, as_int64(place[i]))
            score_site(target, state, i, as_int64(2), score)
            score[side] += field_value(target.field, i, seed)
            sizes = log_size_ratio(log_w, blocks.size[1]) - log_size_ratio(log_w, blocks.size[0])
            log_odds = power * (score[1] - score[0] + sizes)
            shared = -math.log1p(math.exp(-abs(log_odds)))
            log_1 = min(log_odds, 0.0) + shared
            log_0 = min(-log_odds, 0.0) + shared
            if follow and scan == scans + 1:
                new = as_int64(labels[i] != labels[order[0]])
            else:
                new = as_int64(rng.random() < math.exp(log_1))
            if scan == scans + 1:
                log_q += log_1 if new == 1 else log_0
            place[i] = new
            add_site(evidence, blocks, i, new)
    return log_q


@njit_inner
def log_split_ratio(target: Target, state: ChainState, length: int, seed: int, side: int) -> float:
    """Return the log posterior of the two blocks less that of their union, but for the number of clusters."""
    evidence, graph, log_w = target.evidence, target.graph, target.prior.log_w
    start, neighbour, edge, beta = graph.start, graph.neighbour, graph.edge, graph.beta
    blocks, place, order = state.scratch.blocks, state.scratch.place, state.scratch.order
    between = 0.0
    for t in range(length):
        i = as_int64(order[t])
        if place[i] != side:
            between += field_value(target.field, i, seed)
        if place[i] == 0:
            for u in range(start[i], start[i + 1]):
                if place[neighbour[u]] == 1:
                    between += beta[edge[u]]
    apart_marginal = log_marginal(evidence, blocks, as_int64(0)) + log_marginal(evidence, blocks, as_int64(1))
    union = Clusters(
        blocks.size[:2].copy(), blocks.words[:, :2].copy(), blocks.moments[:, :2].copy(), blocks.gauss[:2].copy()
    )
    merge_slots(evidence, union, as_int64(1), as_int64(0))
    prior = log_w[blocks.size[0]] + log_w[blocks.size[1]] - log_w[union.size[0]]
    return float(apart_marginal - log_marginal(evidence, union, as_int64(0)) + prior - between)


@njit_inner
def split_or_merge(target: Target, state: ChainState, moves: Moves, power: float, rng: np.random.Generator) -> float:
    """Make one move; returns the change of the log posterior. There must be a free slot."""
    labels, seeds, scratch, log_v = state.labels, target.seeds, state.scratch, target.prior.log_v
    place, order, used, blocks = scratch.place, scratch.order, scratch.slots, scratch.blocks
    n = as_int64(labels.size)
    if n < 2:
        return 0.0
    for s in range(n):
        place[s] = -1
    clear_slot(blocks, as_int64(0))
    clear_slot(blocks, as_int64(1))
    i, j, informed, log_merge = draw_site_pair(target, state, moves, power, rng)
    if i < 0:
        return 0.0
    a, b = as_int64(labels[i]), as_int64(labels[j])
    together = a == b
    first, length, seed, holder = order_sites(target, state, i, j, rng)
    if length < 0:
        return 0.0  # two seeds are never merged
    log_split = 0.0
    side = 0 if holder == a else 1
    if seed >= 0:
        if seeds[i] >= 0 and seeds[j] >= 0:
            return 0.0  # one seed is never split
        if seeds[i] >= 0 or seeds[j] >= 0:
            side = 0 if seeds[i] >= 0 else 1
        else:
            log_split -= math.log(2.0)
            if together:
                side = 0 if rng.random() < 0.5 else 1
    for t in range(first):
        s = as_int64(order[t])
        place[s] = t if t < 2 else side
        add_site(target.evidence, blocks, s, as_int64(place[s]))

    score = zeros(used[USED] + 1, np.float64)
    log_split += allocate_pair(target, state, first, length, moves.scans, not together, power, seed, side, score, rng)
    apart = used[CLUSTERS] + 1 if together else used[CLUSTERS]
    gap = log_split_ratio(target, state, length, seed, side) + log_v[apart] - log_v[apart - 1]
    if informed:
        log_split -= math.log(length - 1)
        if together:
            if gap == -math.inf:
                return 0.0
            log_all = score_merges(target, state, a, power, score)
            log_merge = score[used[USED]] - log_all - math.log(blocks.size[1])
    change = gap if together else -gap
    log_forward = log_split if together else log_merge
    log_backward = log_merge if together else log_split
    if not math.log(1.0 - rng.random()) < power * change + log_backward - log_forward:
        return 0.0
    if together:  # block 1 moves to a free slot
        b = as_int64(0)
        while state.clusters.size[b] > 0:
            b += 1
        copy_slot(blocks, as_int64(0), state.clusters, a)
        copy_slot(blocks, as_int64(1), state.clusters, b)
        used[USED] = max(used[USED], b + 1)
        used[CLUSTERS] += 1
        for t in range(length):
            if place[order[t]] == 1:
                labels[order[t]] = b
    else:
        merge_slots(target.evidence, state.clusters, b, a)
        used[CLUSTERS] -= 1
        for t in range(length):
            labels[order[t]] = a
    return float(change)
