"""One sweep of the generalized Swendsen-Wang sampler: bonds, and a visit to each bonded group (spin cluster).

Kernels take plain arrays that the callers have checked. With ``NUMBA_DISABLE_JIT=1`` they are ordinary Python and give
the same numbers.

Strategy
--------
A cluster has a *slot*, a column of the arrays in :class:`Clusters`; ``labels`` are slots. A free column is all zeros,
so that the first free slot *is* the candidate "new cluster" and needs no case of its own. Counts are stored word by
word, so that the loop over candidates runs along a row.

The marginal likelihood is read from tables. Log Gamma(pi_d + s m) is tabulated for every count m of word d that can
occur. The histogram's total is one more word, with the table -log Gamma(phi + s m); so is the number of pixels of the
continuous channels. The rest of the Gaussian marginal is one logarithm a channel.

A visit has phases, of which the long ones are functions that are compiled into :func:`update_bonded_groups`: list the
adjacent clusters, remove the bonded group, score the candidates, draw one, insert the group. Numba compiles a function
again for every new type of an argument, constants included; hence ``as_int64``, which makes any integer a 64-bit one.

==============  ===================================================================
paper           here
==============  ===================================================================
y_i             a row of the sparse counts ``word``/``times``, or moments
z_i             ``labels[i]``
m_j             ``clusters.size[j]``
r_ij            bonds, as the union-find forest ``parent``
C_l             the sites whose root is l, one after the other through ``next_member``
beta_ij         ``target.graph.beta``
beta delta_ij   ``bonds.strength``
g               ``target.prior``: ``log_v``, ``log_w``
==============  ===================================================================
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from napari_gsw.core.array_types import Float64Array, Int64Array, UInt32Array
from napari_gsw.core.jit import as_index, as_int64, full, njit_inline, njit_inner, njit_loop, zeros
from napari_gsw.core.likelihood.likelihood_tables import BASE, FACTOR, LOG_FACTOR, UNIT, LikelihoodTables
from napari_gsw.core.partitions import find_root
from napari_gsw.core.sampler.cluster_statistics import (
    NEGLIGIBLE_GAP,
    GroupCounts,
    draw_candidate,
    gather_words,
    log_count_gain,
    log_gaussian_marginal,
    update_gaussian,
)
from napari_gsw.core.sampler.state import CLUSTERS, NOW, USED, Bonds, ChainState, Target

# From here on the series of `log_rising_large` is exact to the last digit.
LARGE_ARGUMENT = 1024.0
# Of the type of a count, which numba then keeps.
ONE = np.uint32(1)
# At temperature zero a group moves if it gains this; less is rounding.
MIN_GAIN = 1e-8


class Candidates(NamedTuple):
    """The clusters that a bonded group may join: all slots in a full sweep, otherwise the adjacent ones."""

    score: Float64Array  # (slots,) log weight of each candidate
    weight: Float64Array  # (slots,) scratch
    seen: Int64Array  # (slots,) the last root that was adjacent to each cluster
    adjacent: UInt32Array  # (slots + 1,) the adjacent clusters
    neighbour_weight: Float64Array  # (slots,) their sums of beta (1 - delta), and the field of a named one
    bonded_weight: Float64Array  # (slots,) and of beta delta


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


@njit_loop
def is_bonded(t: float, uniform: float) -> bool:
    """Return uniform < 1 - exp(-t), for t >= 0.

    1 - exp(-t) lies between t - t^2 / 2 and that plus t^3 / 6, so that the exponential is hardly ever needed.
    """
    least = t - 0.5 * t * t
    if uniform < least:
        return True
    if uniform >= least + t * t * t / 6.0:
        return False
    return bool(uniform < -math.expm1(-t))


@njit_loop
def draw_bonds(target: Target, bonds: Bonds, state: ChainState, rng: np.random.Generator) -> float:
    """Draw the bonds and list the sites of the bonded groups; returns x of :class:`Bonds`.

    The root of a bonded group is its smallest site. So the order of visits depends on the bonds alone: an order that
    depends on the labels would bias the chain.
    """
    labels = state.labels
    parent, first_member, next_member = state.scratch.parent, state.scratch.first_member, state.scratch.next_member
    left, right, strength = target.graph.left, target.graph.right, bonds.strength
    n = labels.size
    x = 1.0
    if bonds.high > 0.0:
        x = -math.log1p(-(bonds.low + (bonds.high - bonds.low) * rng.random()))
    for i in range(n):
        parent[i] = i
        first_member[i] = -1
    for e in range(left.size):
        i = as_index(left[e])
        j = as_index(right[e])
        if strength[e] > 0.0 and labels[i] == labels[j] and is_bonded(x * strength[e], rng.random()):
            a = find_root(parent, as_int64(i))
            b = find_root(parent, as_int64(j))
            if a < b:
                parent[b] = a
            else:
                parent[a] = b
    for i in range(n - 1, -1, -1):
        root = find_root(parent, i)
        parent[i] = root
        next_member[i] = first_member[root]
        first_member[root] = i
    return x


@njit_inline
def list_candidate(candidates: Candidates, k: int, root: int, n_adjacent: int) -> int:
    """List cluster k without weights, if the group of this root has not listed it; returns the number of clusters."""
    if candidates.seen[k] == root:
        return n_adjacent
    candidates.seen[k] = root
    candidates.adjacent[n_adjacent] = k
    candidates.neighbour_weight[k] = 0.0
    candidates.bonded_weight[k] = 0.0
    return n_adjacent + 1


@njit_inline
def list_adjacent_clusters(
    target: Target, bonds: Bonds, state: ChainState, candidates: Candidates, root: int, x: float
) -> int:
    """List the clusters adjacent to a bonded group and those with a name, with their weights; returns their number.

    Only edges that leave the group count, each once: unbonded ones inside it are the same for every candidate. A name
    belongs to the cluster of its anchor, a clamped site. Named clusters are listed wherever the group is, so that
    scribbles far away have an influence, too.
    """
    graph, strength, anchor, pull = target.graph, bonds.strength, target.field.anchor, target.field.pull
    start, neighbour, edge, beta = graph.start, graph.neighbour, graph.edge, graph.beta
    labels, parent, next_member = state.labels, state.scratch.parent, state.scratch.next_member
    neighbour_weight, bonded_weight = candidates.neighbour_weight, candidates.bonded_weight
    n_adjacent = 0
    i = as_int64(root)
    while i >= 0:
        for t in range(start[i], start[i + 1]):
            j = as_index(neighbour[t])
            if parent[j] != root:
                e = as_index(edge[t])
                k = as_index(labels[j])
                n_adjacent = list_candidate(candidates, k, root, n_adjacent)
                neighbour_weight[k] += beta[e] - x * strength[e]
                bonded_weight[k] += x * strength[e]
        i = as_int64(next_member[i])
    for s in range(anchor.size):
        k = as_index(labels[anchor[s]])
        total = 0.0
        i = as_int64(root)
        while i >= 0:
            total += pull[i, s]
            i = as_int64(next_member[i])
        n_adjacent = list_candidate(candidates, k, root, n_adjacent)
        neighbour_weight[k] += total
    return n_adjacent


@njit_inline
def remove_group(
    evidence: LikelihoodTables, state: ChainState, counts: GroupCounts, root: int, old: int, left: int
) -> tuple[int, int]:
    """Remove a bonded group from slot `old`, where `left` sites stay; returns its distinct words and its pixels."""
    site_start, word, times = evidence.site_start, evidence.word, evidence.times
    clusters, next_member = state.clusters, state.scratch.next_member
    group_word, group_count, sums, group_moments = counts.word, counts.times, counts.sums, counts.moments
    i = as_int64(next_member[root])
    if i < 0:
        length = site_start[root + 1] - site_start[root]
        for t in range(length):
            group_word[t] = word[site_start[root] + t]
            group_count[t] = times[site_start[root] + t]
    else:
        length = gather_words(evidence, root, group_word, sums, as_int64(0))
        while i >= 0:
            length = gather_words(evidence, i, group_word, sums, length)
            i = as_int64(next_member[i])
        for t in range(length):
            group_count[t] = sums[group_word[t]]
            sums[group_word[t]] = 0
    clusters.size[old] = left
    for t in range(length):
        clusters.words[group_word[t], old] -= group_count[t]
    mass = as_int64(0)
    if group_moments.size > 0:
        for t in range(length):
            if group_word[t] == evidence.pixels:
                mass = as_int64(group_count[t])
        for c in range(group_moments.size):
            total = evidence.moments[root, c]
            i = as_int64(next_member[root])
            while i >= 0:
                total += evidence.moments[i, c]
                i = as_int64(next_member[i])
            group_moments[0, c] = total
            clusters.moments[c, old] = clusters.moments[c, old] - total if left > 0 else 0.0
        update_gaussian(evidence, clusters, old)
    return length, mass


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


@njit_loop
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


@njit_inline
def score_candidates(
    target: Target, state: ChainState, group: BondedGroup, counts: GroupCounts, candidates: Candidates,
    has_table_ends: bool, scan_all: bool,
) -> int:  # fmt: skip
    """Score every slot (`scan_all`), or the adjacent clusters and a new one; returns the number of candidates."""
    evidence, log_v, log_w = target.evidence, target.prior.log_v, target.prior.log_w
    table, table_start, table_end = evidence.table, evidence.table_start, evidence.table_end
    clusters, size, words = state.clusters, state.clusters.size, state.clusters.words
    score, adjacent, neighbour_weight = candidates.score, candidates.adjacent, candidates.neighbour_weight
    if scan_all:
        choices = as_int64(state.scratch.slots[USED]) + 1
        for k in range(choices):
            m = size[k]
            score[k] = log_v[group.others] + log_w[m + group.members] - log_w[m] if m > 0 else -math.inf
        score[group.fresh] = log_v[group.others + 1] + log_w[group.members]
        for t in range(group.n_adjacent):
            score[adjacent[t]] += neighbour_weight[adjacent[t]]
        if has_table_ends:
            add_word_scores(evidence, table_end, words, counts, group.length, choices, score)
        else:
            add_word_scores(evidence, None, words, counts, group.length, choices, score)
    else:
        choices = as_int64(group.n_adjacent) + 1
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
    if has_table_ends:
        fix_table_ends(evidence, words, group, counts, candidates, choices, scan_all)
    if counts.moments.size > 0:
        for c in range(choices):
            k = c if scan_all else as_int64(adjacent[c])
            fit = log_gaussian_marginal(evidence, clusters, k, group.mass, counts.moments, as_int64(0))
            score[c] += fit - clusters.gauss[k]
    return choices


@njit_loop
def fix_table_ends(
    evidence: LikelihoodTables, words: UInt32Array, group: BondedGroup, counts: GroupCounts, candidates: Candidates,
    choices: int, scan_all: bool,
) -> None:  # fmt: skip
    """Correct the scores of counts beyond the tables, for which the last entry was taken."""
    table, table_start, tail = evidence.table, evidence.table_start, evidence.tail
    score, adjacent, old = candidates.score, candidates.adjacent, group.old
    for t in range(group.length):
        d = counts.word[t]
        sign, base, unit, end = tail[d, FACTOR], tail[d, BASE], tail[d, UNIT], as_int64(evidence.table_end[d])
        if sign == 0.0:
            continue
        more = as_int64(counts.times[t])
        kept = min(more, end - 1)
        for c in range(choices):
            k = c if scan_all else as_int64(adjacent[c])
            m = as_int64(words[d, k])
            if m + more < end:
                continue
            # The series starts from the larger argument: of the old cluster, from before the group was removed.
            argument = base + unit * (m + more if k == old else m)
            step = -unit * more if k == old else unit * more
            if tail[d, LOG_FACTOR] == 0.0 and argument >= LARGE_ARGUMENT and abs(step) <= argument * (1 / 256):
                rise = sign * log_rising_large(argument, step, math.log(argument))
                score[c] += -rise if k == old else rise
            else:
                score[c] += log_count_gain(evidence, d, m, more)
            at = table_start[d] + np.uint64(min(m, end - 1 - kept))
            score[c] -= table[at + np.uint64(kept)] - table[at]


@njit_inline
def sample_candidate(
    candidates: Candidates, choices: int, root: int, scan_all: bool, power: float, uniform: float
) -> int:
    """Return the candidate that a uniform draws; at temperature zero, the best."""
    score, weight = candidates.score, candidates.weight
    if power != 1.0 and power != math.inf:
        for c in range(choices):
            k = c if scan_all else as_int64(candidates.adjacent[c])
            bonded = candidates.bonded_weight[k] if candidates.seen[k] == root else 0.0
            weight[c] = power * score[c] - (1.0 - power) * bonded
        return draw_candidate(weight, weight, choices, uniform, as_int64(-1))
    top = -math.inf
    first = as_int64(0)
    for k in range(choices):
        if score[k] > top:
            top = score[k]
            first = k
    second = -math.inf
    for k in range(choices):
        if k != first:
            second = max(second, score[k])
    # The share of the first in all weights is at least 1 / (1 + (choices - 1) exp(-gap)). Mostly it is so much better
    # that a uniform below that draws it, and no other weight is needed.
    gap = top - second
    if power == 1.0 and gap <= NEGLIGIBLE_GAP and uniform * (1.0 + (choices - 1) * math.exp(-gap)) >= 1.0:
        first = draw_candidate(score, weight, choices, uniform, first)
    return first


@njit_inner
def make_candidates(slots: int) -> Candidates:
    """Make arrays for the candidates among that many slots."""
    return Candidates(
        zeros(slots, np.float64),
        zeros(slots, np.float64),
        full(slots, -1, np.int64),
        zeros(slots + 1, np.uint32),
        zeros(slots, np.float64),
        zeros(slots, np.float64),
    )


@njit_loop
def update_bonded_groups(
    target: Target, bonds: Bonds, state: ChainState, rng: np.random.Generator, x: float, power: float, scan_all: bool,
    first: int, counts: GroupCounts, candidates: Candidates,
) -> int:  # fmt: skip
    """Visit each bonded group from root `first` on once and draw its cluster from the conditional.

    For bonded group C and an existing cluster j the log weight is (eq. conditional1)

        log V(k) + log W(m_j + |C|) - log W(m_j) + log p(y_C u A_j) - log p(y_A_j) + sum beta_ij (1 - delta_ij)

    where the last sum runs over the edges that leave C and end in A_j, each once. Unbonded edges inside C are the same
    for every candidate and must not be counted. If A_j has a name s, the sum of h_i(s) over C is added. A bonded group
    that holds a seed stays where it is.

    At inverse temperature b all of it is multiplied by b but the bonds' part, - sum beta_ij delta_ij: any bonds leave
    the posterior to the power b invariant. An infinite b needs a sweep without bonds that is `scan_all`.

    Not `scan_all`, C chooses only among S: the clusters in which edges that leave C end, those with a name, and a new
    one; and it stays if the rest of its own cluster is not in S. S depends on the bonds and on the labels outside C,
    which the choice does not change. So candidates outside S keep their probability, since nothing moves from or to
    them, and within S the draw is from the conditional given that C is in S: the posterior is invariant. C may always
    leave its cluster but joins only a neighbour's; the full sweeps make the chain irreducible.

    ``state.sums.value[NOW]``, the log posterior, is updated group by group, so that its last digit does not depend on
    when slots run out. Returns the root to continue from when they have (n: all done). `counts` and `candidates` are
    scratch arrays.
    """
    evidence, seeds, log_w = target.evidence, target.seeds, target.prior.log_w
    clusters, labels, size, value = state.clusters, state.labels, state.clusters.size, state.sums.value
    used, parent, next_member = state.scratch.slots, state.scratch.parent, state.scratch.next_member
    score, adjacent, seen = candidates.score, candidates.adjacent, candidates.seen
    bonded_weight = candidates.bonded_weight
    n, capacity = labels.size, size.size
    n_ends = as_int64(0)
    for d in range(evidence.table_end.size):
        n_ends += evidence.tail[d, FACTOR] != 0.0
    has_table_ends = n_ends > 0
    fresh = as_int64(0)  # no slot below this one is free
    for root in range(first, n):
        if parent[root] != root:
            continue
        if used[USED] == capacity:
            return root
        members = 0
        held = False
        i = root
        while i >= 0:
            members += 1
            held = held or seeds[i] >= 0
            i = as_int64(next_member[i])
        old = as_int64(labels[root])
        left = size[old] - members
        if held or (left > 0 and log_w[left] == -math.inf):
            continue  # a seed, or too few sites left: the weight of the present cluster would be infinite
        n_adjacent = list_adjacent_clusters(target, bonds, state, candidates, root, x)
        if not scan_all and left > 0 and seen[old] != root:
            continue  # the present cluster is not among the candidates
        length, mass = remove_group(evidence, state, counts, root, old, left)
        if left == 0 and old < fresh:
            fresh = old
        while size[fresh] > 0:
            fresh += 1
        others = used[CLUSTERS] if left > 0 else used[CLUSTERS] - 1
        group = BondedGroup(root, members, old, left, length, mass, n_adjacent, fresh, others)
        choices = score_candidates(target, state, group, counts, candidates, has_table_ends, scan_all)
        chosen = sample_candidate(candidates, choices, root, scan_all, power, rng.random())

        back = old if left > 0 else fresh
        if power == math.inf and scan_all and score[chosen] - score[back] < MIN_GAIN:
            chosen = back
        new = chosen if scan_all else as_int64(adjacent[chosen])
        if new != back:
            stay = back
            if not scan_all:
                for c in range(choices):
                    if adjacent[c] == back:
                        stay = c
            value[NOW] += score[chosen] + (bonded_weight[new] if seen[new] == root else 0.0)
            value[NOW] -= score[stay] + (bonded_weight[back] if seen[back] == root else 0.0)
        used[CLUSTERS] = others + 1 if new == fresh else others
        if new == used[USED]:
            used[USED] += 1
        size[new] += members
        for t in range(length):
            clusters.words[counts.word[t], new] += counts.times[t]
        if new != old:
            i = as_int64(root)
            while i >= 0:
                labels[i] = new
                i = as_int64(next_member[i])
        if counts.moments.size > 0:
            for c in range(counts.moments.size):
                clusters.moments[c, new] += counts.moments[0, c]
            update_gaussian(evidence, clusters, new)
    return n
