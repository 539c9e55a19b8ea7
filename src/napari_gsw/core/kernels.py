"""The sampler's inner loops: one sweep, one whole-cluster move, and what both need.

Each works on plain arrays that the callers have checked; run with ``NUMBA_DISABLE_JIT=1`` they are ordinary Python and
give the same numbers.

Strategy
--------
A cluster lives in a *slot*, a column of the arrays in :class:`Clusters`; ``labels`` holds slots. A column that is free
is all zeros, so that the first free slot *is* the candidate "new cluster" and needs no case of its own. Counts are
stored word by word, so that the loop over candidates runs along a row.

The marginal likelihood is read from tables. Log Gamma(pi_d + s m) is tabulated for every count m of word d that can
occur. The histogram's total is one more word, with the table -log Gamma(phi + s m); so is the number of pixels behind
the continuous channels. What is left of the Gaussian marginal is one logarithm a channel.

Numba counts references whenever an array is taken out of a tuple, so the long functions unpack theirs once at the top
and the short ones inside the loops take arrays. It also compiles a function again for every new type of an argument,
constants included; hence ``whole``, which makes any integer a 64-bit one.

==============  ==========================================================
paper           here
==============  ==========================================================
y_i             a row of the sparse counts ``word``/``count``, or moments
z_i             ``labels[i]``
m_j             ``size[j]``
r_ij            bonds, as the union-find forest ``parent``
C_l             the sites whose root is l, chained through ``chain``
beta_ij         ``graph.beta``
beta delta_ij   ``bonds.strength``
g               ``log_v``, ``log_w``
==============  ==========================================================
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.arrays import (
    Bonds,
    Clusters,
    Cooling,
    Counts,
    Evidence,
    Floats,
    Graph,
    Ints,
    Longs,
    Moves,
    Posterior,
    Tables,
    Work,
)
from napari_gsw.core.cluster_kernels import (
    LEAST_RIVAL,
    add_gains,
    clear_slot,
    copy_slot,
    draw,
    draw_after,
    gain,
    gather,
    gauss_part,
    grown,
    leader,
    spot,
)
from napari_gsw.core.cluster_kernels import whole as whole
from napari_gsw.core.jit import jit

# Most anchors of a whole-cluster move, and so most clusters that it can rearrange at once.
MOST_ANCHORS = 32
# From where on the series of `far_gain` holds to the last digit.
FAR = 1024.0
# Of the type of a count, which it leaves as it is.
ONE = np.uint32(1)

# ---------------------------------------------------------------------------------------------------------------
# One sweep of the generalized Swendsen-Wang sampler


@jit
def find(parent: Ints, i: int) -> int:
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@jit
def bonded(t: float, uniform: float) -> bool:
    """Whether uniform < 1 - exp(-t), for t >= 0.

    1 - exp(-t) lies between t - t^2 / 2 and that plus t^3 / 6, so that the exponential is hardly ever needed.
    """
    least = t - 0.5 * t * t
    if uniform < least:
        return True
    if uniform >= least + t * t * t / 6.0:
        return False
    return bool(uniform < -math.expm1(-t))


@jit
def bond(graph: Graph, bonds: Bonds, labels: Ints, work: Work, rng: np.random.Generator) -> float:
    """Draw the bonds and chain up the spin clusters they make; returns x of :class:`Bonds`.

    The root of a spin cluster is its smallest site, so that the order of visits depends on the bonds alone and never on
    the labels: an order that looks at labels would bias the chain.
    """
    parent, head, chain = work.parent, work.head, work.chain
    left, right, strength = graph.left, graph.right, bonds.strength
    n = labels.size
    x = 1.0
    if bonds.high > 0.0:
        x = -math.log1p(-(bonds.low + (bonds.high - bonds.low) * rng.random()))
    for i in range(n):
        parent[i] = i
        head[i] = -1
    for e in range(left.size):
        i = spot(left[e])
        j = spot(right[e])
        if strength[e] > 0.0 and labels[i] == labels[j] and bonded(x * strength[e], rng.random()):
            a = find(parent, whole(i))
            b = find(parent, whole(j))
            if a < b:
                parent[b] = a
            else:
                parent[a] = b
    for i in range(n - 1, -1, -1):
        root = find(parent, i)
        parent[i] = root
        chain[i] = head[root]
        head[root] = i
    return x


@jit
def weigh(
    table: Floats,
    table_start: NDArray[np.uint64],
    words: Counts,
    group_word: Counts,
    group_count: Counts,
    length: int,
    slots: int,
    score: Floats,
) -> None:
    """Add log p(y_C u A_k) - log p(y_A_k) of the words to score[k], for every slot k < slots.

    ``group_count[t]`` belongs to ``group_word[t]``. Four words at a time, since reading and writing the scores takes as
    long as looking a word up.
    """
    t = 0
    while t + 4 <= length:
        d_0, d_1, d_2, d_3 = group_word[t], group_word[t + 1], group_word[t + 2], group_word[t + 3]
        a_0, a_1, a_2, a_3 = table_start[d_0], table_start[d_1], table_start[d_2], table_start[d_3]
        b_0, b_1 = a_0 + group_count[t], a_1 + group_count[t + 1]
        b_2, b_3 = a_2 + group_count[t + 2], a_3 + group_count[t + 3]
        for k in range(slots):
            m_0, m_1, m_2, m_3 = words[d_0, k], words[d_1, k], words[d_2, k], words[d_3, k]
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
        b = a + group_count[t]
        for k in range(slots):
            score[k] += table[b + words[d, k]] - table[a + words[d, k]]
        t += 1


@jit
def weigh_clipped(
    table: Floats,
    table_start: NDArray[np.uint64],
    table_end: Counts,
    words: Counts,
    group_word: Counts,
    group_count: Counts,
    length: int,
    slots: int,
    score: Floats,
) -> None:
    """The same where tables may end: a count beyond the end is taken for the last that is in the table."""
    t = 0
    while t + 4 <= length:
        d_0, d_1, d_2, d_3 = group_word[t], group_word[t + 1], group_word[t + 2], group_word[t + 3]
        a_0, a_1, a_2, a_3 = table_start[d_0], table_start[d_1], table_start[d_2], table_start[d_3]
        c_0, c_1 = min(group_count[t], table_end[d_0] - ONE), min(group_count[t + 1], table_end[d_1] - ONE)
        c_2, c_3 = min(group_count[t + 2], table_end[d_2] - ONE), min(group_count[t + 3], table_end[d_3] - ONE)
        z_0, z_1 = table_end[d_0] - ONE - c_0, table_end[d_1] - ONE - c_1
        z_2, z_3 = table_end[d_2] - ONE - c_2, table_end[d_3] - ONE - c_3
        b_0, b_1, b_2, b_3 = a_0 + c_0, a_1 + c_1, a_2 + c_2, a_3 + c_3
        for k in range(slots):
            m_0, m_1 = min(words[d_0, k], z_0), min(words[d_1, k], z_1)
            m_2, m_3 = min(words[d_2, k], z_2), min(words[d_3, k], z_3)
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
        count = min(group_count[t], table_end[d] - ONE)
        last = table_end[d] - ONE - count
        b = a + count
        for k in range(slots):
            m = min(words[d, k], last)
            score[k] += table[b + m] - table[a + m]
        t += 1


@jit
def far_gain(x: float, step: float, log_x: float) -> float:
    """log Gamma(x + step) - log Gamma(x) for x >= FAR and a step, of either sign, of at most x / 256.

    Stirling's series for the two arguments, taken as one series in r = step / x,

        x ((1 + r) log(1 + r) - r) - log(1 + r) / 2 + r x log x - r / (12 x (1 + r)) + r (1 - 2 r) / (120 x^3)

    needs no logarithm but that of x, which is given. What is left out is below 1e-17 of the result, so that this is
    exact to the last digits of the difference, where that of two table entries is so only to theirs.
    """
    y = 1.0 / x
    r = step * y
    curve = 0.5 - r * (1 / 6 - r * (1 / 12 - r * (1 / 20 - r * (1 / 30 - r * (1 / 42 - r * (1 / 56))))))
    slope = 1.0 - r * (1 / 2 - r * (1 / 3 - r * (1 / 4 - r * (1 / 5 - r * (1 / 6 - r * (1 / 7))))))
    inverse = 1.0 - r * (1.0 - r * (1.0 - r * (1.0 - r)))
    rest = r * (0.5 * slope + y * (inverse * (1 / 12) - y * y * (1.0 - 2.0 * r) * (1 / 120)))
    return step * (log_x + r * curve) - rest


@jit
def visit(
    evidence: Evidence,
    graph: Graph,
    tables: Tables,
    bonds: Bonds,
    x: float,
    coldness: float,
    full: bool,
    seeds: Ints,
    labels: Ints,
    clusters: Clusters,
    work: Work,
    value: Floats,
    rng: np.random.Generator,
    first: int,
) -> int:
    """Visit each spin cluster from root `first` on once and redraw its cluster from the conditional.

    For spin cluster C and an existing cluster j the weight is, in logarithms (eq. conditional1),

        log V(k) + log W(m_j + |C|) - log W(m_j) + log p(y_C u A_j) - log p(y_A_j) + sum beta_ij (1 - delta_ij)

    where the last sum runs over the edges that leave C and end in A_j, each once. Unbonded edges inside C are the same
    for every candidate and must not be counted. A spin cluster that holds a seed stays where it is.

    At inverse temperature b = `coldness` all of it is multiplied by b but the bonds' part, - sum beta_ij delta_ij: the
    bonds are what they are, and any bonds leave the posterior to the power b as it is.

    Not `full`, C chooses only among S, the clusters in which edges that leave C end, and a new one; and it stays if
    what is left of its own cluster is not among them. S depends on the bonds and on the labels outside C, which the
    choice does not change. So of all places that C may be at, those outside S keep their probability since nothing
    moves from or to them, and within S the draw is from the conditional given that C is in S: the conditional of C, and
    with it the posterior, stays as it is. C may always part from its cluster but joins only a neighbour's; that every
    state can be reached is left to the full sweeps.

    ``value[0]``, the log posterior, is kept group by group, so that its last digit does not depend on when slots run
    out. Returns the root to go on from when they have (n: all done).
    """
    site_start, word, count = evidence.site_start, evidence.word, evidence.times
    table, table_start, table_end, tail = evidence.table, evidence.table_start, evidence.table_end, evidence.tail
    site_moments, gauss, pixels = evidence.moments, evidence.gauss, evidence.pixels
    start, neighbour, edge, beta = graph.start, graph.neighbour, graph.edge, graph.beta
    log_v, log_w, strength = tables.log_v, tables.log_w, bonds.strength
    size, words, moments, cached = clusters.size, clusters.words, clusters.moments, clusters.gauss
    used, parent, chain = work.slots, work.parent, work.chain
    n = labels.size
    capacity = size.size
    channels = gauss.size - 3
    sums = np.zeros(table_start.size, np.uint32)
    group_word = np.zeros(table_start.size, np.uint32)
    group_count = np.zeros(table_start.size, np.uint32)
    group_moments = np.zeros(2 * channels)
    nothing = np.zeros(2 * channels)
    score = np.zeros(capacity)
    weight = np.zeros(capacity)
    seen = np.full(capacity, -1, np.int64)  # the last root that had a neighbour in each cluster
    near = np.zeros(capacity + 1, np.uint32)  # the clusters next door
    pull = np.zeros(capacity)  # of these, sum of beta (1 - delta)
    tied = np.zeros(capacity)  # and sum of beta delta
    fresh = whole(0)  # no slot below this one is free
    # Where tables end: the slots of each word that are near or beyond its table's end, and log x of `far_gain`.
    far = False
    for d in range(table_start.size):
        far = far or tail[d, 0] != 0.0
    rows = table_start.size if far else 0
    logs = np.zeros((rows, capacity))
    listed = np.zeros((rows, capacity), np.bool_)
    beyond_count = np.zeros(rows, np.int64)
    beyond_slot = np.zeros((rows, capacity), np.uint32)
    for d in range(rows):
        if tail[d, 0] != 0.0:
            for k in range(used[0]):
                logs[d, k] = math.log(tail[d, 1] + tail[d, 2] * words[d, k])
                if 2 * whole(words[d, k]) >= table_end[d]:
                    listed[d, k] = True
                    beyond_slot[d, beyond_count[d]] = k
                    beyond_count[d] += 1
    for root in range(first, n):
        if parent[root] != root:
            continue
        if used[0] == capacity:
            return root
        members = 0
        held = False
        i = root
        while i >= 0:
            members += 1
            held = held or seeds[i] >= 0
            i = whole(chain[i])
        old = whole(labels[root])
        left = size[old] - members
        if held or (left > 0 and log_w[left] == -math.inf):
            continue  # a seed, or a remnant too small to stand: every other cluster is impossible

        # The clusters next door.
        around = 0
        i = root
        while i >= 0:
            for t in range(start[i], start[i + 1]):
                j = spot(neighbour[t])
                if parent[j] != root:
                    e = spot(edge[t])
                    k = spot(labels[j])
                    if seen[k] != root:
                        seen[k] = root
                        near[around] = k
                        around += 1
                        pull[k] = 0.0
                        tied[k] = 0.0
                    pull[k] += beta[e] - x * strength[e]
                    tied[k] += x * strength[e]
            i = whole(chain[i])
        if not full and left > 0 and seen[old] != root:
            continue  # its own cluster is not among those that may be chosen

        # Take the group out of its cluster.
        i = whole(chain[root])
        if i < 0:
            length = site_start[root + 1] - site_start[root]
            for t in range(length):
                group_word[t] = word[site_start[root] + t]
                group_count[t] = count[site_start[root] + t]
        else:
            length = gather(site_start, word, count, root, group_word, sums, whole(0))
            while i >= 0:
                length = gather(site_start, word, count, i, group_word, sums, length)
                i = whole(chain[i])
            for t in range(length):
                group_count[t] = sums[group_word[t]]
                sums[group_word[t]] = 0
        size[old] = left
        for t in range(length):
            words[group_word[t], old] -= group_count[t]
        mass = whole(0)
        if channels > 0:
            for t in range(length):
                if group_word[t] == pixels:
                    mass = whole(group_count[t])
            for c in range(2 * channels):
                group_moments[c] = site_moments[root, c]
            i = whole(chain[root])
            while i >= 0:
                for c in range(2 * channels):
                    group_moments[c] += site_moments[i, c]
                i = whole(chain[i])
            for c in range(2 * channels):
                moments[c, old] = moments[c, old] - group_moments[c] if left > 0 else 0.0
            cached[old] = gauss_part(gauss, moments, old, whole(words[pixels, old]), nothing)
        if left == 0 and old < fresh:
            fresh = old
        while size[fresh] > 0:
            fresh += 1
        k_left = used[1] if left > 0 else used[1] - 1

        # Weigh every cluster, or those next door, and a new one.
        if full:
            choices = used[0] + 1
            for k in range(choices):
                m = size[k]
                score[k] = log_v[k_left] + log_w[m + members] - log_w[m] if m > 0 else -math.inf
            score[fresh] = log_v[k_left + 1] + log_w[members]
            for t in range(around):
                score[near[t]] += pull[near[t]]
            if far:
                weigh_clipped(table, table_start, table_end, words, group_word, group_count, length, choices, score)
            else:
                weigh(table, table_start, words, group_word, group_count, length, choices, score)
        else:
            choices = around + 1
            for c in range(around):
                m = size[near[c]]
                score[c] = log_v[k_left] + log_w[m + members] - log_w[m] + pull[near[c]]
            near[around] = fresh
            score[around] = log_v[k_left + 1] + log_w[members]
            for t in range(length):
                d = group_word[t]
                a = table_start[d]
                more_d = min(group_count[t], table_end[d] - ONE)
                last_d = table_end[d] - ONE - more_d
                b = a + more_d
                for c in range(choices):
                    m_c = min(words[d, near[c]], last_d)
                    score[c] += table[b + m_c] - table[a + m_c]
        if far:  # put right what lies beyond the tables
            for t in range(length):
                d = group_word[t]
                sign, base, unit, end = tail[d, 0], tail[d, 1], tail[d, 2], whole(table_end[d])
                if sign == 0.0:
                    continue
                more = whole(group_count[t])
                kept = min(more, end - 1)
                at = table_start[d] + np.uint64(end - 1)
                taken = table[at] - table[at - np.uint64(kept)]
                smooth = 2 * more < end and tail[d, 4] == 0.0
                for q in range(beyond_count[d] if full and smooth else choices):
                    c = whole(beyond_slot[d, q]) if full and smooth else q
                    k = c if full else whole(near[c])
                    m = whole(words[d, k])
                    if m + more < end:
                        continue
                    # log x of its own cluster is of before the group was taken out
                    argument = base + unit * (m + more if k == old else m)
                    step = -unit * more if k == old else unit * more
                    if tail[d, 4] == 0.0 and argument >= FAR and abs(step) <= argument * (1 / 256):
                        rise = sign * far_gain(argument, step, logs[d, k])
                        score[c] += -rise if k == old else rise
                    else:
                        score[c] += gain(table, table_start, table_end, tail, d, m, more)
                    if m + kept < end:
                        at = table_start[d] + np.uint64(m)
                        score[c] -= table[at + np.uint64(kept)] - table[at]
                    else:
                        score[c] -= taken
        if channels > 0:
            for c in range(choices):
                k = c if full else whole(near[c])
                total = whole(words[pixels, k]) + mass
                score[c] += gauss_part(gauss, moments, k, total, group_moments) - cached[k]
        uniform = rng.random()
        if coldness == 1.0:
            pick, gap = leader(score, choices)  # most sites know where they belong: it is drawn without more ado
            if gap <= LEAST_RIVAL and uniform * (1.0 + (choices - 1) * math.exp(-gap)) >= 1.0:
                pick = draw_after(score, weight, choices, uniform, pick)
        else:
            for c in range(choices):
                k = c if full else whole(near[c])
                weight[c] = coldness * score[c] - (1.0 - coldness) * (tied[k] if seen[k] == root else 0.0)
            pick = draw(weight, weight, choices, uniform)

        new = pick if full else whole(near[pick])
        back = old if left > 0 else fresh
        if new != back:
            stay = back
            if not full:
                for c in range(choices):
                    if near[c] == back:
                        stay = c
            value[0] += score[pick] + (tied[new] if seen[new] == root else 0.0)
            value[0] -= score[stay] + (tied[back] if seen[back] == root else 0.0)
        used[1] = k_left + 1 if new == fresh else k_left
        if new == used[0]:
            used[0] += 1

        # Put it into the one that was drawn.
        size[new] += members
        for t in range(length):
            words[group_word[t], new] += group_count[t]
        if new != old:
            if far:
                for t in range(length):
                    d = group_word[t]
                    if tail[d, 0] != 0.0:
                        logs[d, old] = math.log(tail[d, 1] + tail[d, 2] * words[d, old])
                        logs[d, new] = math.log(tail[d, 1] + tail[d, 2] * words[d, new])
                        if 2 * whole(words[d, new]) >= table_end[d] and not listed[d, new]:
                            listed[d, new] = True
                            beyond_slot[d, beyond_count[d]] = new
                            beyond_count[d] += 1
            i = root
            while i >= 0:
                labels[i] = new
                i = whole(chain[i])
        if channels > 0:
            for c in range(2 * channels):
                moments[c, new] += group_moments[c]
            cached[new] = gauss_part(gauss, moments, new, whole(words[pixels, new]), nothing)
    return n


# ---------------------------------------------------------------------------------------------------------------
# The whole-cluster move


@jit
def allocate(
    evidence: Evidence,
    graph: Graph,
    seeds: Ints,
    labels: Ints,
    work: Work,
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
    opened = 0
    log_q = 0.0
    energy = 0.0
    for t in range(length):
        i = whole(order[t])
        candidates = opened + 1 if t < anchors else opened
        distinct = gather(site_start, word, count, i, group_word, group_count, whole(0))
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
            for b in range(opened):
                if block_seed[b] == seeds[i]:
                    owner = b
        top = -math.inf
        for b in range(candidates):
            if channels > 0:
                total = whole(words[pixels, b] + group_count[pixels])
                score[b] += gauss_part(gauss, moments, b, total, group_moments) - cached[b]
            taken = b < opened and block_seed[b] >= 0
            if seeds[i] >= 0 and b != owner and (owner >= 0 or taken):
                propose[b] = -math.inf  # a block holds sites of one seed only, and a seed sits in one block
            else:
                propose[b] = coldness * score[b] + math.log(max(size[b], 1))
            top = max(top, propose[b])
        if top == -math.inf:
            return -1, 0.0, 0.0
        if follow:
            chosen = opened
            for b in range(opened):
                if block_label[b] == labels[i]:
                    chosen = b
        else:
            chosen = draw(propose, weight, candidates, rng.random())
        total_weight = 0.0
        for b in range(candidates):
            total_weight += math.exp(propose[b] - top)
        log_q += propose[chosen] - top - math.log(total_weight)
        energy += score[chosen]

        if chosen == opened:
            block_label[opened] = labels[i]
            opened += 1
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
            cached[chosen] = gauss_part(gauss, moments, chosen, whole(words[pixels, chosen]), nothing)
    return opened, log_q, energy


@jit
def regroup(
    evidence: Evidence,
    graph: Graph,
    tables: Tables,
    seeds: Ints,
    labels: Ints,
    clusters: Clusters,
    work: Work,
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
    k = whole(0)
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


# ---------------------------------------------------------------------------------------------------------------
# Many sweeps


@jit
def compact(labels: Ints, clusters: Clusters, used: Longs) -> Ints:
    """Close the gaps that vanished clusters have left among the slots; returns where each slot went, -1 for a gap."""
    moved = np.full(used[0], -1, np.int32)
    count = whole(0)
    for k in range(used[0]):
        if clusters.size[k] > 0:
            if k != count:
                copy_slot(clusters, k, clusters, count)
            moved[k] = count
            count += 1
    for k in range(count, used[0]):
        clear_slot(clusters, k)
    used[0] = count
    for i in range(labels.size):
        labels[i] = moved[labels[i]]
    return moved


@jit
def size_entropy(size: Longs, slots: int, n: int) -> float:
    """Entropy in bits of the cluster of a site drawn at random: 0 for one cluster, log2 n for singletons."""
    bits = 0.0
    for k in range(slots):
        if size[k] > 0:
            share = size[k] / n
            bits -= share * math.log2(share)
    return bits


@jit
def coldness_at(cooling: Cooling, done: int) -> float:
    """Inverse temperature of the sweep that follows `done` others."""
    if done >= cooling.sweeps:
        return cooling.coldness
    return float(cooling.coldness * cooling.hot ** (done / cooling.sweeps - 1.0))


@jit
def is_full(share: float, done: int) -> bool:
    """Whether the sweep that follows `done` others weighs every cluster: the first does, and then a `share` of them.

    By the number of the sweep alone: what looked at the state would bias the chain.
    """
    return math.floor(share * done) > math.floor(share * (done - 1))


@jit
def note(
    posterior: Posterior, graph: Graph, labels: Ints, size: Longs, used: Longs, burn_in: int, traced: Floats
) -> None:
    """Count a sweep, keep its state if it is the best so far, and after the burn-in add it to the running sums.

    `traced` becomes log posterior, number of clusters and the entropy of their sizes.
    """
    traced[0] = posterior.value[0]
    traced[1] = used[1]
    traced[2] = size_entropy(size, used[0], labels.size)
    value, best, together, counted = posterior.value, posterior.best, posterior.together, posterior.counted
    left, right = graph.left, graph.right
    counted[0] += 1
    if value[0] > value[1]:
        value[1] = value[0]
        counted[2] = counted[0]
        for i in range(labels.size):
            best[i] = labels[i]
    if counted[0] > burn_in:
        counted[1] += 1
        for e in range(left.size):
            together[e] += labels[spot(left[e])] == labels[spot(right[e])]


@jit
def sweep(
    evidence: Evidence,
    graph: Graph,
    tables: Tables,
    bonds: Bonds,
    seeds: Ints,
    labels: Ints,
    clusters: Clusters,
    work: Work,
    value: Floats,
    rng: np.random.Generator,
    coldness: float,
    full: bool,
    near: float,
    regroups: int,
) -> Clusters:
    """One sweep in place, `full` or not (see :func:`visit`), and `regroups` whole-cluster moves.

    Returns the clusters, in new arrays if slots ran out.
    """
    used = work.slots
    n = labels.size
    if used[0] > 2 * used[1] + 4:
        compact(labels, clusters, used)
    x = bond(graph, bonds, labels, work, rng)
    root = whole(0)
    while root < n:
        root = visit(evidence, graph, tables, bonds, x, coldness, full, seeds, labels, clusters, work, value, rng, root)
        if root < n:
            clusters = grown(clusters, 2 * clusters.size.size)
    for _ in range(regroups):
        room = used[0] + work.blocks.size.size
        if room > clusters.size.size:
            clusters = grown(clusters, 2 * room)
        value[0] += regroup(evidence, graph, tables, seeds, labels, clusters, work, near, coldness, rng)
    return clusters


@jit
def advance(
    evidence: Evidence,
    graph: Graph,
    tables: Tables,
    bonds: Bonds,
    seeds: Ints,
    labels: Ints,
    clusters: Clusters,
    work: Work,
    posterior: Posterior,
    rng: np.random.Generator,
    cooling: Cooling,
    moves: Moves,
    regroups: int,
    burn_in: int,
    trace: Floats,
) -> Clusters:
    """Run ``len(trace)`` sweeps in place; ``trace[t]`` becomes log posterior, number of clusters and the entropy of
    their sizes after sweep t. Of `moves` only what concerns the sweeps and `regroups` is heeded.

    Returns the clusters, in new arrays if they ran out of slots.
    """
    value, used, counted = posterior.value, work.slots, posterior.counted
    for t in range(trace.shape[0]):
        coldness = coldness_at(cooling, counted[0])
        full = is_full(moves.full, counted[0])
        clusters = sweep(
            evidence, graph, tables, bonds, seeds, labels, clusters, work, value, rng, coldness, full, moves.near,
            regroups,
        )  # fmt: skip
        note(posterior, graph, labels, clusters.size, used, burn_in, trace[t])
    return clusters


@jit
def canonical(labels: Ints) -> Ints:
    """Renumber labels 0, 1, ... in the order of their first site: equal partitions become equal arrays."""
    most = 0
    for i in range(labels.size):
        most = max(most, labels[i])
    number = np.full(most + 1, -1, np.int32)
    result = np.empty(labels.size, np.int32)
    count = 0
    for i in range(labels.size):
        if number[labels[i]] < 0:
            number[labels[i]] = count
            count += 1
        result[i] = number[labels[i]]
    return result
