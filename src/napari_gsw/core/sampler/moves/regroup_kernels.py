"""The whole-cluster move: some clusters are taken apart and their sites dealt again."""

from __future__ import annotations

import math

import numpy as np

from napari_gsw.core.arrays import Ints
from napari_gsw.core.evidence.evidence_tables import Evidence
from napari_gsw.core.graph.region_graph import Adjacency
from napari_gsw.core.jit import as_int64, jit
from napari_gsw.core.model.priors import PriorTables
from napari_gsw.core.sampler.moves.cluster_kernels import add_gains, clear_slot, copy_slot, draw, gather, gauss_part
from napari_gsw.core.sampler.records import Clusters, Workspace

# Most anchors of a move, and so most clusters that it can rearrange at once.
MOST_ANCHORS = 32


@jit
def allocate(
    evidence: Evidence,
    graph: Adjacency,
    seeds: Ints,
    labels: Ints,
    work: Workspace,
    anchors: int,
    length: int,
    follow: bool,
    coldness: float,
    rng: np.random.Generator,
) -> tuple[int, float, float]:
    """Deal the sites ``work.order[:length]`` into blocks, one after the other, by what is in the blocks already.

    Only the first `anchors` sites may open a block. With `follow` the present labels are dealt again instead of drawn,
    to learn with what probability they would have been. Returns the number of blocks (-1: no block would take a
    seed), the log probability of this deal, and its log likelihood plus couplings.
    """
    site_start, word, count = evidence.site_start, evidence.word, evidence.times
    table, table_start, table_end, tail = evidence.table, evidence.table_start, evidence.table_end, evidence.tail
    site_moments, gauss, pixels = evidence.moments, evidence.gauss, evidence.pixels
    start, neighbour, edge, beta = graph.start, graph.neighbour, graph.edge, graph.beta
    blocks, place, order = work.blocks, work.place, work.order
    size, words, moments, cached = blocks.size, blocks.words, blocks.moments, blocks.gauss
    channels = gauss.size - 3
    most = size.size
    group_word = np.zeros(table_start.size, np.uint32)
    group_count = np.zeros(table_start.size, np.uint32)
    group_moments = np.zeros(2 * channels)
    nothing = np.zeros(2 * channels)
    score = np.zeros(most + 1)  # log likelihood and couplings that a block would gain
    propose = np.zeros(most + 1)  # log weight with which it is proposed
    weight = np.zeros(most + 1)
    block_seed = np.full(most, -1, np.int64)
    block_label = np.full(most, -1, np.int64)
    for b in range(most):
        clear_slot(blocks, b)
    open_lazy = 0
    log_q = 0.0
    energy = 0.0
    for t in range(length):
        i = as_int64(order[t])
        candidates = open_lazy + 1 if t < anchors else open_lazy
        distinct = gather(site_start, word, count, i, group_word, group_count, as_int64(0))
        for c in range(2 * channels):
            group_moments[c] = site_moments[i, c]
        for b in range(candidates):
            score[b] = 0.0
        for u in range(start[i], start[i + 1]):
            b = place[neighbour[u]]
            if b >= 0:
                score[b] += beta[edge[u]]
        add_gains(table, table_start, table_end, tail, words, group_word, group_count, distinct, candidates, score)
        owner = -1
        if seeds[i] >= 0:
            for b in range(open_lazy):
                if block_seed[b] == seeds[i]:
                    owner = b
        top = -math.inf
        for b in range(candidates):
            if channels > 0:
                total = as_int64(words[pixels, b] + group_count[pixels])
                score[b] += gauss_part(gauss, moments, b, total, group_moments) - cached[b]
            taken = b < open_lazy and block_seed[b] >= 0
            if seeds[i] >= 0 and b != owner and (owner >= 0 or taken):
                propose[b] = -math.inf  # a block holds sites of one seed only, and a seed sits in one block
            else:
                propose[b] = coldness * score[b] + math.log(max(size[b], 1))
            top = max(top, propose[b])
        if top == -math.inf:
            return -1, 0.0, 0.0
        if follow:
            chosen = open_lazy
            for b in range(open_lazy):
                if block_label[b] == labels[i]:
                    chosen = b
        else:
            chosen = draw(propose, weight, candidates, rng.random())
        total_weight = 0.0
        for b in range(candidates):
            total_weight += math.exp(propose[b] - top)
        log_q += propose[chosen] - top - math.log(total_weight)
        energy += score[chosen]

        if chosen == open_lazy:
            block_label[open_lazy] = labels[i]
            open_lazy += 1
        if seeds[i] >= 0:
            block_seed[chosen] = seeds[i]
        place[i] = chosen
        size[chosen] += 1
        for u in range(distinct):
            words[group_word[u], chosen] += group_count[group_word[u]]
            group_count[group_word[u]] = 0
        if channels > 0:
            for c in range(2 * channels):
                moments[c, chosen] += group_moments[c]
            cached[chosen] = gauss_part(gauss, moments, chosen, as_int64(words[pixels, chosen]), nothing)
    return open_lazy, log_q, energy


@jit
def regroup(
    evidence: Evidence,
    graph: Adjacency,
    tables: PriorTables,
    seeds: Ints,
    labels: Ints,
    clusters: Clusters,
    work: Workspace,
    near: float,
    coldness: float,
    rng: np.random.Generator,
) -> float:
    """Merge, split or rearrange whole clusters by an exact Metropolis-Hastings move.

    Draw two or more anchor sites, take the clusters that hold them apart, and deal their sites again so that every new
    cluster holds an anchor. The anchors do not depend on the labels and lead from the new state back to the
    old one, so only the probabilities of the two deals enter the acceptance. Two anchors merge, split or exchange; with
    more, j clusters become j + 1 where neither can be reached by steps within the size limits. Every partition of up to
    MOST_ANCHORS clusters of the support can be dealt, so chains with size limits are irreducible, unless the limits are
    so tight that more clusters than that must change at once (smallest over largest size above 32 / 33). With
    probability `near` the first two anchors are the ends of an edge instead.

    Returns the change of the log posterior.
    """
    place, order, used, sizes = work.place, work.order, work.slots, work.blocks.size
    log_v, log_w = tables.log_v, tables.log_w
    left, right = graph.left, graph.right
    n = labels.size
    most = min(n, sizes.size)
    if most < 2:
        return 0.0
    anchors = 2
    while anchors < most and rng.random() < 0.5:
        anchors += 1
    # place: the block of a site that has been dealt, -1 for any other, -2 for an anchor while members are collected
    for i in range(n):
        place[i] = -1
    length = 0
    taken = np.zeros(clusters.size.size, np.bool_)
    if near > 0.0 and left.size > 0 and rng.random() < near:
        e = int(rng.random() * left.size)
        for i in (left[e], right[e]):
            place[i] = -2
            taken[labels[i]] = True
            order[length] = i
            length += 1
    while length < anchors:
        i = int(rng.random() * n)
        if place[i] == -1:
            place[i] = -2
            taken[labels[i]] = True
            order[length] = i
            length += 1
    for i in range(n):
        if taken[labels[i]] and place[i] == -1:
            order[length] = i
            length += 1
    for t in range(length - 1, anchors, -1):
        u = anchors + int(rng.random() * (t - anchors + 1))
        order[t], order[u] = order[u], order[t]

    # First the deal that would give the present state back, then the one that is proposed.
    blocks = np.zeros(2, np.int64)
    log_q = np.zeros(2)
    energy = np.zeros(2)
    for turn in range(2):
        for t in range(length):
            place[order[t]] = -1
        blocks[turn], log_q[turn], energy[turn] = allocate(
            evidence, graph, seeds, labels, work, anchors, length, turn == 0, coldness, rng
        )
        for b in range(blocks[turn]):
            energy[turn] += log_w[sizes[b]]
    before, after = blocks[0], blocks[1]
    others = used[1] - before
    if after < 0:
        return 0.0
    gain = energy[1] + log_v[others + after] - energy[0] - log_v[others + before]
    change = coldness * gain
    if not math.log(1.0 - rng.random()) < change + log_q[0] - log_q[1]:
        return 0.0

    for k in range(used[0]):
        if taken[k]:
            clear_slot(clusters, k)
    slot_of = np.zeros(after, np.int32)
    k = as_int64(0)
    for b in range(after):
        while clusters.size[k] > 0:
            k += 1
        copy_slot(work.blocks, b, clusters, k)
        slot_of[b] = k
        used[0] = max(used[0], k + 1)
    for t in range(length):
        labels[order[t]] = slot_of[place[order[t]]]
    used[1] = others + after
    return float(gain)
