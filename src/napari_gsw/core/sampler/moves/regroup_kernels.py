"""The whole-cluster move: some clusters are dissolved and their sites allocated again."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from napari_gsw.core.array_types import Float64Array, Int64Array
from napari_gsw.core.jit import as_int64, njit_inner, njit_loop, zeros
from napari_gsw.core.sampler.cluster_statistics import (
    add_site,
    clear_slot,
    copy_slot,
    draw_candidate,
    field_value,
    score_site,
)
from napari_gsw.core.sampler.state import CLUSTERS, USED, ChainState, Target

# Largest number of anchors of a move, and so of clusters that it can rearrange at once.
MAX_ANCHORS = 32


class Allocation(NamedTuple):
    """Parameters of an allocation of sites to blocks, and scratch arrays: the state of each block."""

    anchors: int  # this many sites, the first ones, may open a block
    length: int  # sites
    blocks: int  # number of blocks to open; 0 leaves it to the weights
    low: int  # smallest and largest size of a block
    high: int
    sized: bool  # whether the sizes of the blocks are drawn before the sites
    score: Float64Array  # (blocks,) gain of log likelihood and couplings by the next site
    propose: Float64Array  # (blocks,) log weight with which it is proposed
    weight: Float64Array  # (blocks,) scratch
    seed: Int64Array  # (blocks,) its seed, -1 for none
    label: Int64Array  # (blocks,) the label of its first site
    goal: Int64Array  # (blocks,) its size, if sizes are drawn first


@njit_loop
def allocate(
    target: Target, state: ChainState, allocation: Allocation, follow: bool, power: float, rng: np.random.Generator
) -> tuple[int, float, float]:
    """Allocate the sites ``order[:length]`` to blocks, one after the other, by what is in the blocks already.

    Only anchors may open a block. Without size limits they do so by the weights. Under limits the number of blocks is
    given, which anchors open one is drawn evenly, and no site goes where the blocks could no longer all get sizes that
    are allowed: hardly any other allocation would end well. A `sized` allocation also draws the size of each block when
    it is opened, and fills the places: where limits are tight only that is accepted. With `follow` the present labels
    are allocated instead of drawn, to compute their probability. Returns the number of blocks (-1: a dead end), the log
    probability of this allocation, and its log likelihood plus couplings and field.
    """
    labels, clusters, place, order = state.labels, state.scratch.blocks, state.scratch.place, state.scratch.order
    seeds, size, length, low, high = target.seeds, clusters.size, allocation.length, allocation.low, allocation.high
    score, propose, block_seed, goal = allocation.score, allocation.propose, allocation.seed, allocation.goal
    for b in range(size.size):
        clear_slot(clusters, b)
        block_seed[b] = -1
    opened = as_int64(0)
    owed = as_int64(0)  # sites that the opened blocks lack to be large enough
    promised = as_int64(0)  # sites that the opened blocks are to have
    log_q = 0.0
    energy = 0.0
    for t in range(length):
        i = as_int64(order[t])
        chosen = opened
        owner = as_int64(-1)
        for b in range(opened):
            if follow and allocation.label[b] == labels[i]:
                chosen = b
            if seeds[i] >= 0 and block_seed[b] == seeds[i]:
                owner = b
        candidates = opened + 1 if t < allocation.anchors else opened
        first, last = as_int64(0), candidates
        if allocation.blocks > 0 and t < allocation.anchors:
            # Which anchors open a block is drawn evenly, and before the weights are looked at.
            opens = (allocation.blocks - opened) / (allocation.anchors - t) if t > 0 else 1.0
            open_now = chosen == opened if follow else rng.random() < opens
            log_q += math.log(opens if open_now else 1.0 - opens)
            if open_now:
                first = opened
            else:
                last = opened
        score_site(target, state, i, candidates, score)
        top = -math.inf
        for b in range(candidates):
            # Whether an open block may take one more, so that all blocks can still become large enough.
            if b >= opened:
                has_room = True
            elif allocation.sized:
                has_room = size[b] < goal[b]
            else:
                lacking = owed - 1 if size[b] < low else owed
                needed = lacking + max(allocation.blocks - opened, 0) * low
                has_room = size[b] < high and needed <= length - t - 1
            if seeds[i] >= 0 and b != owner and (owner >= 0 or block_seed[b] >= 0):
                has_room = False  # a block holds one seed at most, and a seed is in one block
            propose[b] = -math.inf
            if has_room and first <= b < last:
                places = goal[b] - size[b] if allocation.sized and b < opened else max(size[b], 1)
                field = field_value(target.field, i, as_int64(block_seed[b]))
                propose[b] = power * (score[b] + field) + math.log(places)
            top = max(top, propose[b])
        if top == -math.inf:
            return -1, 0.0, 0.0
        if not follow:
            chosen = draw_candidate(propose, allocation.weight, candidates, rng.random(), as_int64(-1))
        total_weight = 0.0
        for b in range(candidates):
            total_weight += math.exp(propose[b] - top)
        log_q += propose[chosen] - top - math.log(total_weight)
        energy += score[chosen]
        if chosen == opened:
            allocation.label[opened] = labels[i]
            if allocation.sized:
                rest, later = length - promised, allocation.blocks - opened - 1
                least = max(low, rest - later * high)
                span = min(high, rest - later * low) - least + 1
                goal[opened] = state.clusters.size[labels[i]] if follow else least + as_int64(rng.random() * span)
                log_q -= math.log(span)
                promised += goal[opened]
            opened += 1
            owed += low
        if size[chosen] < low:
            owed -= 1
        if seeds[i] >= 0:
            block_seed[chosen] = seeds[i]
        place[i] = chosen
        add_site(target.evidence, clusters, i, chosen)
    for t in range(length):  # now that it is known which block each name went to
        i = as_int64(order[t])
        energy += field_value(target.field, i, as_int64(block_seed[place[i]]))
    return opened, log_q, energy


@njit_inner
def regroup(target: Target, state: ChainState, near: float, power: float, rng: np.random.Generator) -> float:
    """Rearrange whole clusters by an exact Metropolis-Hastings move; returns the change of the log posterior.

    Draw two or more anchor sites, dissolve their clusters, and allocate the sites again so that every new cluster holds
    an anchor. The anchors do not depend on the labels and lead from the new state back to the old one, so only the
    probabilities of the two allocations enter the acceptance. Two anchors merge, split or exchange; with more, j
    clusters become j + 1 where neither can be reached by steps within the size limits. Every partition of up to
    MAX_ANCHORS clusters can be allocated, so chains with size limits are irreducible, unless more clusters than that
    must change at once (smallest over largest size above 32 / 33). docs/model.md has acceptance rates. With probability
    `near` the first two anchors are the ends of an edge.

    Under size limits the number of new clusters is drawn evenly from those that the limits and the anchors allow; it
    has the same distribution in both directions, since both allocate the same sites from the same anchors. At random,
    their sizes are drawn first as well.
    """
    labels, clusters, scratch = state.labels, state.clusters, state.scratch
    place, order, used, sizes = scratch.place, scratch.order, scratch.slots, scratch.blocks.size
    log_v, log_w = target.prior.log_v, target.prior.log_w
    n = labels.size
    most = min(n, sizes.size)
    if most < 2:
        return 0.0
    low, high = as_int64(1), as_int64(log_w.size - 1)  # sizes that the prior allows
    while low < log_w.size - 1 and log_w[low] == -math.inf:
        low += 1
    while high > low and log_w[high] == -math.inf:
        high -= 1
    limited = low > 1 or high < n
    anchors = as_int64(2)
    if limited and high > low and rng.random() < 0.5:
        anchors = min(most, low // (high - low) + 2)  # fewer clusters than this cannot become one more or one less
    while anchors < most and rng.random() < 0.5:
        anchors += 1
    # The anchors, then all other sites of their clusters in random order.
    left, right = target.graph.left, target.graph.right
    for i in range(n):
        place[i] = -1
    length = as_int64(0)
    taken = zeros(clusters.size.size, np.int64)  # whether a slot is dissolved
    if near > 0.0 and left.size > 0 and rng.random() < near:
        e = int(rng.random() * left.size)
        place[left[e]] = place[right[e]] = -2
        order[0], order[1] = left[e], right[e]
        length += 2
    while length < anchors:
        i = int(rng.random() * n)
        if place[i] == -1:
            place[i] = -2
            order[length] = i
            length += 1
    for t in range(anchors):
        taken[labels[order[t]]] = 1
    for i in range(n):
        if taken[labels[i]] and place[i] == -1:
            order[length] = i
            length += 1
    for t in range(length - 1, anchors, -1):
        u = anchors + int(rng.random() * (t - anchors + 1))
        order[t], order[u] = order[u], order[t]
    wanted = zeros(as_int64(2), np.int64)
    sized = False
    if limited:
        for k in range(used[USED]):
            wanted[0] += taken[k]
        fewest, most = -(-length // high), min(length // low, anchors)
        wanted[1] = fewest + as_int64(rng.random() * (most - fewest + 1))
        sized = rng.random() < 0.5

    # First the allocation that would give the present state back, then the proposed one.
    score, propose, weight = zeros(sizes.size, np.float64), zeros(sizes.size, np.float64), zeros(sizes.size, np.float64)
    seed, label, goal = zeros(sizes.size, np.int64), zeros(sizes.size, np.int64), zeros(sizes.size, np.int64)
    blocks = zeros(as_int64(2), np.int64)
    log_q = zeros(as_int64(2), np.float64)
    energy = zeros(as_int64(2), np.float64)
    for turn in range(2):
        for t in range(length):
            place[order[t]] = -1
        allocation = Allocation(
            anchors, length, as_int64(wanted[turn]), low, high, sized, score, propose, weight, seed, label, goal
        )
        blocks[turn], log_q[turn], energy[turn] = allocate(target, state, allocation, turn == 0, power, rng)
        if blocks[turn] < 0:
            return 0.0
        for b in range(blocks[turn]):
            energy[turn] += log_w[sizes[b]]
    before, after = blocks[0], blocks[1]
    others = used[CLUSTERS] - before
    gain = energy[1] + log_v[others + after] - energy[0] - log_v[others + before]
    change = power * gain
    if not math.log(1.0 - rng.random()) < change + log_q[0] - log_q[1]:
        return 0.0

    for k in range(used[USED]):
        if taken[k]:
            clear_slot(clusters, k)
    slot_of = zeros(after, np.int64)
    k = as_int64(0)
    for b in range(after):
        while clusters.size[k] > 0:
            k += 1
        copy_slot(scratch.blocks, b, clusters, k)
        slot_of[b] = k
        used[USED] = max(used[USED], k + 1)
    for t in range(length):
        labels[order[t]] = slot_of[place[order[t]]]
    used[CLUSTERS] = others + after
    return float(gain)
