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

from napari_gsw.core.array_types import Float64Array
from napari_gsw.core.jit import as_int64, njit, njit_inner, zeros
from napari_gsw.core.likelihood.tables import FACTOR
from napari_gsw.core.sampler.moves.cluster_kernels import (
    add_site,
    clear_slot,
    copy_slot,
    log_count_gain,
    log_gaussian_marginal,
    log_marginal,
    merge_slots,
)
from napari_gsw.core.sampler.moves.field_kernels import field_value
from napari_gsw.core.sampler.moves.pair_kernels import draw_site_pair, order_sites, score_merges
from napari_gsw.core.sampler.state import CLUSTERS, USED, ChainState, Clusters, Moves, Target


@njit
def log_size_ratio(log_w: Float64Array, m: int) -> float:
    """Return log W(m + 1) - log W(m), or 0 where the prior forbids a size: a small block may still grow."""
    if log_w[m] == -math.inf or log_w[m + 1] == -math.inf:
        return 0.0
    return float(log_w[m + 1] - log_w[m])


@njit_inner
def find_seed_block(target: Target, state: ChainState, length: int) -> tuple[int, int]:
    """Return the seed among the sites ``order[:length]`` and its block; -1 and 0 if there is none."""
    for t in range(length):
        i = as_int64(state.scratch.order[t])
        if target.seeds[i] >= 0:
            return as_int64(target.seeds[i]), as_int64(state.scratch.place[i])
    return as_int64(-1), as_int64(0)


@njit_inner
def allocate_pair(
    target: Target, state: ChainState, first: int, length: int, scans: int, follow: bool, power: float,
    rng: np.random.Generator,
) -> float:  # fmt: skip
    """Allocate the sites ``order[first:length]`` to two blocks, which have those before `first` already.

    Once without the sites still to come, `scans` times given all others, and once more for the proposal. With `follow`
    this last scan gives the sites of order[0]'s cluster to block 0 and all others to block 1. Returns the log
    probability of the last scan; ``place`` and ``blocks`` are the result.
    """
    evidence, graph, log_w, labels = target.evidence, target.graph, target.prior.log_w, state.labels
    site_start, word, count = evidence.site_start, evidence.word, evidence.times
    table, table_start, tail = evidence.table, evidence.table_start, evidence.tail
    site_moments, gauss, pixels = evidence.moments, evidence.gauss, evidence.pixels
    start, neighbour, edge, beta = graph.start, graph.neighbour, graph.edge, graph.beta
    blocks, place, order = state.scratch.blocks, state.scratch.place, state.scratch.order
    size, words, moments, cached = blocks.size, blocks.words, blocks.moments, blocks.gauss
    channels = site_moments.shape[1] // 2
    moments_of_site = zeros(2 * channels, np.float64)
    nothing = zeros(2 * channels, np.float64)
    pull = zeros(2, np.float64)
    name, side = find_seed_block(target, state, first)
    log_q = 0.0
    for scan in range(scans + 2):
        for t in range(first, length):
            i = as_int64(order[t])
            for c in range(2 * channels):
                moments_of_site[c] = site_moments[i, c]
            if scan > 0:  # take it out
                old = as_int64(place[i])
                size[old] -= 1
                for u in range(site_start[i], site_start[i + 1]):
                    words[word[u], old] -= count[u]
                if channels > 0:
                    for c in range(2 * channels):
                        moments[c, old] -= moments_of_site[c]
                    cached[old] = log_gaussian_marginal(gauss, moments, old, as_int64(words[pixels, old]), nothing)

            # Log odds of block 1.
            pull[0] = 0.0
            pull[1] = 0.0
            pull[side] += field_value(target.field, i, name)
            for u in range(start[i], start[i + 1]):
                if place[neighbour[u]] >= 0:
                    pull[place[neighbour[u]]] += beta[edge[u]]
            log_odds = pull[1] - pull[0] + log_size_ratio(log_w, size[1]) - log_size_ratio(log_w, size[0])
            for u in range(site_start[i], site_start[i + 1]):
                d = word[u]
                if tail[d, FACTOR] == 0.0:  # a call for each word would take longer than all the rest
                    m_0 = table_start[d] + words[d, 0]
                    m_1 = table_start[d] + words[d, 1]
                    log_odds += (table[m_1 + count[u]] - table[m_1]) - (table[m_0 + count[u]] - table[m_0])
                else:
                    more = as_int64(count[u])
                    log_odds += log_count_gain(evidence, d, as_int64(words[d, 1]), more)
                    log_odds -= log_count_gain(evidence, d, as_int64(words[d, 0]), more)
            if channels > 0:
                more = as_int64(0)
                for u in range(site_start[i], site_start[i + 1]):
                    if word[u] == pixels:
                        more = as_int64(count[u])
                log_odds += (
                    log_gaussian_marginal(
                        gauss, moments, as_int64(1), as_int64(words[pixels, 1]) + more, moments_of_site
                    )
                    - cached[1]
                )
                log_odds -= (
                    log_gaussian_marginal(
                        gauss, moments, as_int64(0), as_int64(words[pixels, 0]) + more, moments_of_site
                    )
                    - cached[0]
                )
            log_odds *= power

            shared = -math.log1p(math.exp(-abs(log_odds)))
            log_1 = min(log_odds, 0.0) + shared
            log_0 = min(-log_odds, 0.0) + shared
            if follow and scan == scans + 1:
                new = 0 if labels[i] == labels[order[0]] else 1
            else:
                new = 1 if rng.random() < math.exp(log_1) else 0
            if scan == scans + 1:
                log_q += log_1 if new == 1 else log_0

            place[i] = new
            size[new] += 1
            for u in range(site_start[i], site_start[i + 1]):
                words[word[u], new] += count[u]
            if channels > 0:
                for c in range(2 * channels):
                    moments[c, new] += moments_of_site[c]
                cached[new] = log_gaussian_marginal(gauss, moments, new, as_int64(words[pixels, new]), nothing)
    return log_q


@njit_inner
def log_split_ratio(target: Target, state: ChainState, length: int) -> float:
    """Return the log posterior of the two blocks less that of their union, but for the number of clusters."""
    evidence, graph, log_w = target.evidence, target.graph, target.prior.log_w
    start, neighbour, edge, beta = graph.start, graph.neighbour, graph.edge, graph.beta
    blocks, place, order = state.scratch.blocks, state.scratch.place, state.scratch.order
    between = 0.0
    name, side = find_seed_block(target, state, length)
    for t in range(length):
        i = as_int64(order[t])
        if place[i] != side:
            between += field_value(target.field, i, name)
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
def accept_move(target: Target, state: ChainState, a: int, b: int, length: int) -> None:
    """Make the accepted move: slot a becomes the two blocks (a == b), or slot b joins slot a."""
    labels, clusters, scratch = state.labels, state.clusters, state.scratch
    place, order, used, blocks = scratch.place, scratch.order, scratch.slots, scratch.blocks
    if a == b:
        b = as_int64(0)
        while clusters.size[b] > 0:
            b += 1
        copy_slot(blocks, as_int64(0), clusters, a)
        copy_slot(blocks, as_int64(1), clusters, b)
        used[USED] = max(used[USED], b + 1)
        used[CLUSTERS] += 1
        for t in range(length):
            if place[order[t]] == 1:
                labels[order[t]] = b
    else:
        merge_slots(target.evidence, clusters, b, a)
        used[CLUSTERS] -= 1
        for t in range(length):
            labels[order[t]] = a


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
    first, length, holder = order_sites(target, state, i, j, rng)
    if length < 0:
        return 0.0  # two seeds are never merged
    log_split = 0.0
    side = 0 if holder == a else 1
    if seeds[order[first - 1]] >= 0 or seeds[i] >= 0 or seeds[j] >= 0:
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

    log_split += allocate_pair(target, state, first, length, moves.scans, not together, power, rng)
    apart = used[CLUSTERS] + 1 if together else used[CLUSTERS]
    gap = log_split_ratio(target, state, length) + log_v[apart] - log_v[apart - 1]
    if informed:
        log_split -= math.log(length - 1)
        if together:
            if gap == -math.inf:
                return 0.0
            score = zeros(used[USED] + 1, np.float64)
            log_all = score_merges(target, state, a, power, score)
            log_merge = score[used[USED]] - log_all - math.log(blocks.size[1])
    change = gap if together else -gap
    log_forward = log_split if together else log_merge
    log_backward = log_merge if together else log_split
    if not math.log(1.0 - rng.random()) < power * change + log_backward - log_forward:
        return 0.0
    accept_move(target, state, a, b, length)
    return float(change)
