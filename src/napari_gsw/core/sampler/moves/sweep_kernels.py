"""One sweep of the generalized Swendsen-Wang sampler: bonds, and a visit to each spin cluster that they make.

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

from napari_gsw.core.arrays import Counts, Floats, Ints
from napari_gsw.core.evidence.evidence_tables import Evidence
from napari_gsw.core.graph.region_graph import Adjacency
from napari_gsw.core.jit import as_index, as_int64, jit
from napari_gsw.core.model.priors import PriorTables
from napari_gsw.core.sampler.moves.cluster_kernels import (
    LEAST_RIVAL,
    draw,
    draw_after,
    gain,
    gather,
    gauss_part,
    leader,
)
from napari_gsw.core.sampler.records import Bonds, Clusters, Workspace

# From where on the series of `far_gain` holds to the last digit.
FAR = 1024.0
# Of the type of a count, which it leaves as it is.
ONE = np.uint32(1)


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
def bond(graph: Adjacency, bonds: Bonds, labels: Ints, work: Workspace, rng: np.random.Generator) -> float:
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
        i = as_index(left[e])
        j = as_index(right[e])
        if strength[e] > 0.0 and labels[i] == labels[j] and bonded(x * strength[e], rng.random()):
            a = find(parent, as_int64(i))
            b = find(parent, as_int64(j))
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
    graph: Adjacency,
    tables: PriorTables,
    bonds: Bonds,
    x: float,
    coldness: float,
    full: bool,
    seeds: Ints,
    labels: Ints,
    clusters: Clusters,
    work: Workspace,
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
    fresh = as_int64(0)  # no slot below this one is free
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
                if 2 * as_int64(words[d, k]) >= table_end[d]:
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
            i = as_int64(chain[i])
        old = as_int64(labels[root])
        left = size[old] - members
        if held or (left > 0 and log_w[left] == -math.inf):
            continue  # a seed, or a remnant too small to stand: its own cluster's weight would be infinite

        # The clusters next door.
        around = 0
        i = root
        while i >= 0:
            for t in range(start[i], start[i + 1]):
                j = as_index(neighbour[t])
                if parent[j] != root:
                    e = as_index(edge[t])
                    k = as_index(labels[j])
                    if seen[k] != root:
                        seen[k] = root
                        near[around] = k
                        around += 1
                        pull[k] = 0.0
                        tied[k] = 0.0
                    pull[k] += beta[e] - x * strength[e]
                    tied[k] += x * strength[e]
            i = as_int64(chain[i])
        if not full and left > 0 and seen[old] != root:
            continue  # its own cluster is not among those that may be chosen

        # Take the group out of its cluster.
        i = as_int64(chain[root])
        if i < 0:
            length = site_start[root + 1] - site_start[root]
            for t in range(length):
                group_word[t] = word[site_start[root] + t]
                group_count[t] = count[site_start[root] + t]
        else:
            length = gather(site_start, word, count, root, group_word, sums, as_int64(0))
            while i >= 0:
                length = gather(site_start, word, count, i, group_word, sums, length)
                i = as_int64(chain[i])
            for t in range(length):
                group_count[t] = sums[group_word[t]]
                sums[group_word[t]] = 0
        size[old] = left
        for t in range(length):
            words[group_word[t], old] -= group_count[t]
        mass = as_int64(0)
        if channels > 0:
            for t in range(length):
                if group_word[t] == pixels:
                    mass = as_int64(group_count[t])
            for c in range(2 * channels):
                group_moments[c] = site_moments[root, c]
            i = as_int64(chain[root])
            while i >= 0:
                for c in range(2 * channels):
                    group_moments[c] += site_moments[i, c]
                i = as_int64(chain[i])
            for c in range(2 * channels):
                moments[c, old] = moments[c, old] - group_moments[c] if left > 0 else 0.0
            cached[old] = gauss_part(gauss, moments, old, as_int64(words[pixels, old]), nothing)
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
                sign, base, unit, end = tail[d, 0], tail[d, 1], tail[d, 2], as_int64(table_end[d])
                if sign == 0.0:
                    continue
                more = as_int64(group_count[t])
                kept = min(more, end - 1)
                at = table_start[d] + np.uint64(end - 1)
                taken = table[at] - table[at - np.uint64(kept)]
                smooth = 2 * more < end and tail[d, 4] == 0.0
                for q in range(beyond_count[d] if full and smooth else choices):
                    c = as_int64(beyond_slot[d, q]) if full and smooth else q
                    k = c if full else as_int64(near[c])
                    m = as_int64(words[d, k])
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
                k = c if full else as_int64(near[c])
                total = as_int64(words[pixels, k]) + mass
                score[c] += gauss_part(gauss, moments, k, total, group_moments) - cached[k]
        uniform = rng.random()
        if coldness == 1.0:
            pick, gap = leader(score, choices)  # most sites know where they belong: it is drawn without more ado
            if gap <= LEAST_RIVAL and uniform * (1.0 + (choices - 1) * math.exp(-gap)) >= 1.0:
                pick = draw_after(score, weight, choices, uniform, pick)
        else:
            for c in range(choices):
                k = c if full else as_int64(near[c])
                weight[c] = coldness * score[c] - (1.0 - coldness) * (tied[k] if seen[k] == root else 0.0)
            pick = draw(weight, weight, choices, uniform)

        new = pick if full else as_int64(near[pick])
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
                        if 2 * as_int64(words[d, new]) >= table_end[d] and not listed[d, new]:
                            listed[d, new] = True
                            beyond_slot[d, beyond_count[d]] = new
                            beyond_count[d] += 1
            i = root
            while i >= 0:
                labels[i] = new
                i = as_int64(chain[i])
        if channels > 0:
            for c in range(2 * channels):
                moments[c, new] += group_moments[c]
            cached[new] = gauss_part(gauss, moments, new, as_int64(words[pixels, new]), nothing)
    return n
