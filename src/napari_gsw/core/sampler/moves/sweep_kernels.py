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

A visit has phases, each a function of its own that is compiled into :func:`visit`: what lies around the spin cluster,
taking it out, weighing the candidates, drawing, putting it in. Numba compiles a function again for every new type of an
argument, constants included; hence ``as_int64``, which makes any integer a 64-bit one.

==============  ==========================================================
paper           here
==============  ==========================================================
y_i             a row of the sparse counts ``word``/``times``, or moments
z_i             ``labels[i]``
m_j             ``clusters.size[j]``
r_ij            bonds, as the union-find forest ``parent``
C_l             the sites whose root is l, one after the other through ``following``
beta_ij         ``target.graph.beta``
beta delta_ij   ``bonds.strength``
g               ``target.prior``: ``log_v``, ``log_w``
==============  ==========================================================
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from napari_gsw.core.arrays import Counts, Floats, Longs, Mask
from napari_gsw.core.evidence.evidence_tables import BASE, FACTOR, LOG_FACTOR, UNIT, Evidence
from napari_gsw.core.graph.region_graph import Adjacency
from napari_gsw.core.jit import as_index, as_int64, inlined, jit, lean
from napari_gsw.core.sampler.moves.cluster_kernels import (
    LEAST_RIVAL,
    draw,
    draw_after,
    gain,
    gather,
    gauss_part,
    leader,
)
from napari_gsw.core.sampler.records import CLUSTERS, NOW, USED, Bonds, Clusters, Target, Walker
from napari_gsw.core.sites.pixel_kernels import root_of

# From where on the series of `far_gain` holds to the last digit.
FAR = 1024.0
# Of the type of a count, which it leaves as it is.
ONE = np.uint32(1)


class Group(NamedTuple):
    """The words and moments of a spin cluster that has been taken out of its cluster."""

    word: Counts  # (D,) its different words
    times: Counts  # (D,) how often each of them occurs
    sums: Counts  # (D,) how often a word occurs, by word; zeros between two visits
    moments: Floats  # (2 C,)
    nothing: Floats  # (2 C,) zeros


class Candidates(NamedTuple):
    """The clusters that a spin cluster may go to; in a full sweep the slots, otherwise those next door."""

    score: Floats  # (slots,) log weight of each candidate
    weight: Floats  # (slots,) scratch
    seen: Longs  # (slots,) the last root that had a neighbour in each cluster
    near: Counts  # (slots + 1,) the clusters next door
    pull: Floats  # (slots,) of these, sum of beta (1 - delta)
    tied: Floats  # (slots,) and sum of beta delta


class FarCounts(NamedTuple):
    """Where tables end: the slots of each word that are near or beyond its table's end. No rows if no table ends."""

    log_x: Floats  # (D, slots) log x of `far_gain`
    listed: Mask  # (D, slots) whether a slot is in the list
    length: Longs  # (D,) of the list
    slot: Counts  # (D, slots) the list


class Sweep(NamedTuple):
    """What holds for all visits of a sweep."""

    x: float  # of :class:`Bonds`
    coldness: float  # inverse temperature
    full: bool  # whether every cluster is weighed
    first: int  # the root to begin with


class Spin(NamedTuple):
    """The spin cluster that is visited."""

    root: int  # its smallest site
    members: int  # its sites
    old: int  # the slot it was in
    left: int  # sites that it leaves there
    length: int  # its different words
    mass: int  # its pixels behind the moments
    around: int  # clusters next door
    fresh: int  # the first free slot
    others: int  # clusters without it


@inlined
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


@lean
def bond(target: Target, bonds: Bonds, walker: Walker, rng: np.random.Generator) -> float:
    """Draw the bonds and list the sites of the spin clusters they make; returns x of :class:`Bonds`.

    The root of a spin cluster is its smallest site, so that the order of visits depends on the bonds alone and never on
    the labels: an order that looks at labels would bias the chain.
    """
    labels = walker.labels
    parent, head, following = walker.work.parent, walker.work.head, walker.work.following
    left, right, strength = target.graph.left, target.graph.right, bonds.strength
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
            a = root_of(parent, as_int64(i))
            b = root_of(parent, as_int64(j))
            if a < b:
                parent[b] = a
            else:
                parent[a] = b
    for i in range(n - 1, -1, -1):
        root = root_of(parent, i)
        parent[i] = root
        following[i] = head[root]
        head[root] = i
    return x


@inlined
def weigh(
    evidence: Evidence, ends: Counts | None, words: Counts, group: Group, length: int, slots: int, score: Floats
) -> None:
    """Add log p(y_C u A_k) - log p(y_A_k) of the words to score[k], for every slot k < slots.

    Four words at a time, since reading and writing the scores takes as long as looking a word up. Where tables may end,
    `ends` (D,) is the first count that a table does not reach, and a count beyond is taken for the last that is in the
    table; None compiles the loop without that.
    """
    table, table_start = evidence.table, evidence.table_start
    group_word, group_count = group.word, group.times
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


@lean
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
def empty_group(evidence: Evidence) -> Group:
    words, moments = evidence.table_start.size, evidence.moments.shape[1]
    return Group(
        np.zeros(words, np.uint32),
        np.zeros(words, np.uint32),
        np.zeros(words, np.uint32),
        np.zeros(moments),
        np.zeros(moments),
    )


@jit
def empty_candidates(slots: int) -> Candidates:
    return Candidates(
        np.zeros(slots),
        np.zeros(slots),
        np.full(slots, -1, np.int64),
        np.zeros(slots + 1, np.uint32),
        np.zeros(slots),
        np.zeros(slots),
    )


@jit
def far_counts(evidence: Evidence, clusters: Clusters) -> FarCounts:
    """The counts near the ends of the tables, for every slot: a free one is the candidate for a new cluster."""
    tail, table_end, words = evidence.tail, evidence.table_end, clusters.words
    slots = clusters.size.size
    ends = False
    for d in range(table_end.size):
        ends = ends or tail[d, FACTOR] != 0.0
    rows = table_end.size if ends else 0
    far = FarCounts(
        np.zeros((rows, slots)),
        np.zeros((rows, slots), np.bool_),
        np.zeros(rows, np.int64),
        np.zeros((rows, slots), np.uint32),
    )
    for d in range(rows):
        if tail[d, FACTOR] != 0.0:
            for k in range(slots):
                note_far(evidence, words, far, d, k)
    return far


@inlined
def note_far(evidence: Evidence, words: Counts, far: FarCounts, d: int, k: int) -> None:
    """Keep log x of word d in slot k, and list the slot once it comes near the end of the word's table."""
    far.log_x[d, k] = math.log(evidence.tail[d, BASE] + evidence.tail[d, UNIT] * words[d, k])
    if 2 * as_int64(words[d, k]) >= evidence.table_end[d] and not far.listed[d, k]:
        far.listed[d, k] = True
        far.slot[d, far.length[d]] = k
        far.length[d] += 1


@inlined
def look_around(graph: Adjacency, bonds: Bonds, walker: Walker, near: Candidates, root: int, x: float) -> int:
    """List the clusters next door to a spin cluster with what pulls it there; returns how many there are.

    Only edges that leave the spin cluster count, each once: unbonded ones inside it are the same for every candidate.
    """
    start, neighbour, edge, beta, strength = graph.start, graph.neighbour, graph.edge, graph.beta, bonds.strength
    labels, parent, following = walker.labels, walker.work.parent, walker.work.following
    seen, listed, pull, tied = near.seen, near.near, near.pull, near.tied
    around = 0
    i = as_int64(root)
    while i >= 0:
        for t in range(start[i], start[i + 1]):
            j = as_index(neighbour[t])
            if parent[j] != root:
                e = as_index(edge[t])
                k = as_index(labels[j])
                if seen[k] != root:
                    seen[k] = root
                    listed[around] = k
                    around += 1
                    pull[k] = 0.0
                    tied[k] = 0.0
                pull[k] += beta[e] - x * strength[e]
                tied[k] += x * strength[e]
        i = as_int64(following[i])
    return around


@inlined
def take_out(evidence: Evidence, walker: Walker, group: Group, root: int, old: int, left: int) -> tuple[int, int]:
    """Take a spin cluster out of slot `old`, where `left` sites stay; returns its different words, and its pixels."""
    site_start, word, times = evidence.site_start, evidence.word, evidence.times
    site_moments, gauss, pixels = evidence.moments, evidence.gauss, evidence.pixels
    clusters, following = walker.clusters, walker.work.following
    words, moments = clusters.words, clusters.moments
    group_word, group_count, sums, group_moments = group.word, group.times, group.sums, group.moments
    i = as_int64(following[root])
    if i < 0:
        length = site_start[root + 1] - site_start[root]
        for t in range(length):
            group_word[t] = word[site_start[root] + t]
            group_count[t] = times[site_start[root] + t]
    else:
        length = gather(evidence, root, group_word, sums, as_int64(0))
        while i >= 0:
            length = gather(evidence, i, group_word, sums, length)
            i = as_int64(following[i])
        for t in range(length):
            group_count[t] = sums[group_word[t]]
            sums[group_word[t]] = 0
    clusters.size[old] = left
    for t in range(length):
        words[group_word[t], old] -= group_count[t]
    mass = as_int64(0)
    if group_moments.size > 0:
        for t in range(length):
            if group_word[t] == pixels:
                mass = as_int64(group_count[t])
        for c in range(group_moments.size):
            group_moments[c] = site_moments[root, c]
        i = as_int64(following[root])
        while i >= 0:
            for c in range(group_moments.size):
                group_moments[c] += site_moments[i, c]
            i = as_int64(following[i])
        for c in range(group_moments.size):
            moments[c, old] = moments[c, old] - group_moments[c] if left > 0 else 0.0
        clusters.gauss[old] = gauss_part(gauss, moments, old, as_int64(words[pixels, old]), group.nothing)
    return length, mass


@inlined
def weigh_all(target: Target, walker: Walker, spin: Spin, group: Group, candidates: Candidates, far: bool) -> int:
    """Score every cluster and a new one; returns how many slots that are."""
    log_v, log_w = target.prior.log_v, target.prior.log_w
    size, score, near, pull = walker.clusters.size, candidates.score, candidates.near, candidates.pull
    choices = as_int64(walker.work.slots[USED]) + 1
    for k in range(choices):
        m = size[k]
        score[k] = log_v[spin.others] + log_w[m + spin.members] - log_w[m] if m > 0 else -math.inf
    score[spin.fresh] = log_v[spin.others + 1] + log_w[spin.members]
    for t in range(spin.around):
        score[near[t]] += pull[near[t]]
    evidence, words = target.evidence, walker.clusters.words
    if far:
        weigh(evidence, evidence.table_end, words, group, spin.length, choices, score)
    else:
        weigh(evidence, None, words, group, spin.length, choices, score)
    return choices


@inlined
def weigh_near(target: Target, walker: Walker, spin: Spin, group: Group, candidates: Candidates) -> int:
    """Score the clusters next door and a new one, in the order of ``candidates.near``; returns how many those are."""
    log_v, log_w = target.prior.log_v, target.prior.log_w
    table, table_start, table_end = target.evidence.table, target.evidence.table_start, target.evidence.table_end
    size, words = walker.clusters.size, walker.clusters.words
    score, near, pull = candidates.score, candidates.near, candidates.pull
    choices = spin.around + 1
    for c in range(spin.around):
        m = size[near[c]]
        score[c] = log_v[spin.others] + log_w[m + spin.members] - log_w[m] + pull[near[c]]
    near[spin.around] = spin.fresh
    score[spin.around] = log_v[spin.others + 1] + log_w[spin.members]
    for t in range(spin.length):
        d = group.word[t]
        a = table_start[d]
        more = min(group.times[t], table_end[d] - ONE)
        last = table_end[d] - ONE - more
        b = a + more
        for c in range(choices):
            m_c = min(words[d, near[c]], last)
            score[c] += table[b + m_c] - table[a + m_c]
    return choices


@lean
def weigh_far(
    evidence: Evidence, words: Counts, spin: Spin, group: Group, candidates: Candidates, far: FarCounts, choices: int,
    full: bool,
) -> None:  # fmt: skip
    """Put right what lies beyond the tables, where the others have taken the last entry."""
    table, table_start, table_end, tail = evidence.table, evidence.table_start, evidence.table_end, evidence.tail
    score, near, old = candidates.score, candidates.near, spin.old
    for t in range(spin.length):
        d = group.word[t]
        sign, base, unit, end = tail[d, FACTOR], tail[d, BASE], tail[d, UNIT], as_int64(table_end[d])
        if sign == 0.0:
            continue
        more = as_int64(group.times[t])
        kept = min(more, end - 1)
        at = table_start[d] + np.uint64(end - 1)
        taken = table[at] - table[at - np.uint64(kept)]
        smooth = 2 * more < end and tail[d, LOG_FACTOR] == 0.0
        for q in range(far.length[d] if full and smooth else choices):
            c = as_int64(far.slot[d, q]) if full and smooth else q
            k = c if full else as_int64(near[c])
            m = as_int64(words[d, k])
            if m + more < end:
                continue
            # log x of its own cluster is of before the group was taken out
            argument = base + unit * (m + more if k == old else m)
            step = -unit * more if k == old else unit * more
            if tail[d, LOG_FACTOR] == 0.0 and argument >= FAR and abs(step) <= argument * (1 / 256):
                rise = sign * far_gain(argument, step, far.log_x[d, k])
                score[c] += -rise if k == old else rise
            else:
                score[c] += gain(evidence, d, m, more)
            if m + kept < end:
                at = table_start[d] + np.uint64(m)
                score[c] -= table[at + np.uint64(kept)] - table[at]
            else:
                score[c] -= taken


@inlined
def weigh_moments(
    evidence: Evidence, clusters: Clusters, spin: Spin, group: Group, candidates: Candidates, choices: int, full: bool
) -> None:
    """Add what the moments say to the score of each candidate."""
    gauss, pixels = evidence.gauss, evidence.pixels
    words, moments, cached = clusters.words, clusters.moments, clusters.gauss
    score, near = candidates.score, candidates.near
    for c in range(choices):
        k = c if full else as_int64(near[c])
        total = as_int64(words[pixels, k]) + spin.mass
        score[c] += gauss_part(gauss, moments, k, total, group.moments) - cached[k]


@inlined
def pick(candidates: Candidates, choices: int, root: int, full: bool, coldness: float, uniform: float) -> int:
    """The candidate that a uniform draws, at inverse temperature `coldness`."""
    score, weight, near, seen, tied = (
        candidates.score, candidates.weight, candidates.near, candidates.seen, candidates.tied,
    )  # fmt: skip
    if coldness == 1.0:
        first, gap = leader(score, choices)  # most sites know where they belong: it is drawn without more ado
        if gap <= LEAST_RIVAL and uniform * (1.0 + (choices - 1) * math.exp(-gap)) >= 1.0:
            first = draw_after(score, weight, choices, uniform, first)
        return first
    for c in range(choices):
        k = c if full else as_int64(near[c])
        weight[c] = coldness * score[c] - (1.0 - coldness) * (tied[k] if seen[k] == root else 0.0)
    return draw(weight, weight, choices, uniform)


@inlined
def put_in(evidence: Evidence, walker: Walker, spin: Spin, group: Group, far: FarCounts, new: int) -> None:
    """Put the spin cluster into slot `new`."""
    clusters, labels, following = walker.clusters, walker.labels, walker.work.following
    words, moments, group_word, group_count = clusters.words, clusters.moments, group.word, group.times
    clusters.size[new] += spin.members
    for t in range(spin.length):
        words[group_word[t], new] += group_count[t]
    if new != spin.old:
        if far.length.size > 0:
            for t in range(spin.length):
                d = group_word[t]
                if evidence.tail[d, FACTOR] != 0.0:
                    note_far(evidence, words, far, d, spin.old)
                    note_far(evidence, words, far, d, new)
        i = as_int64(spin.root)
        while i >= 0:
            labels[i] = new
            i = as_int64(following[i])
    if group.moments.size > 0:
        for c in range(group.moments.size):
            moments[c, new] += group.moments[c]
        pixels = as_int64(words[evidence.pixels, new])
        clusters.gauss[new] = gauss_part(evidence.gauss, moments, new, pixels, group.nothing)


@jit
def visit(
    target: Target,
    bonds: Bonds,
    walker: Walker,
    rng: np.random.Generator,
    x: float,
    coldness: float,
    full: bool,
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

    ``walker.sums.value[NOW]``, the log posterior, is kept group by group, so that its last digit does not depend on
    when slots run out. Returns the root to go on from when they have (n: all done).
    """
    capacity = walker.clusters.size.size
    group, candidates = empty_group(target.evidence), empty_candidates(capacity)
    far = far_counts(target.evidence, walker.clusters)
    sweep = Sweep(x, coldness, full, first)
    return visit_each(target, bonds, walker, rng, sweep, group, candidates, far)


@lean
def visit_each(
    target: Target,
    bonds: Bonds,
    walker: Walker,
    rng: np.random.Generator,
    sweep: Sweep,
    group: Group,
    candidates: Candidates,
    far: FarCounts,
) -> int:
    """The work of :func:`visit`, in arrays that it has made."""
    x, coldness, full, first = sweep
    evidence, seeds, log_w = target.evidence, target.seeds, target.prior.log_w
    labels, size, value = walker.labels, walker.clusters.size, walker.sums.value
    used, parent, following = walker.work.slots, walker.work.parent, walker.work.following
    n, capacity = labels.size, size.size
    score, near, seen, tied = candidates.score, candidates.near, candidates.seen, candidates.tied
    some_far = far.length.size > 0
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
            i = as_int64(following[i])
        old = as_int64(labels[root])
        left = size[old] - members
        if held or (left > 0 and log_w[left] == -math.inf):
            continue  # a seed, or a remnant too small to stand: its own cluster's weight would be infinite
        around = look_around(target.graph, bonds, walker, candidates, root, x)
        if not full and left > 0 and seen[old] != root:
            continue  # its own cluster is not among those that may be chosen
        length, mass = take_out(evidence, walker, group, root, old, left)
        if left == 0 and old < fresh:
            fresh = old
        while size[fresh] > 0:
            fresh += 1
        others = used[CLUSTERS] if left > 0 else used[CLUSTERS] - 1
        spin = Spin(root, members, old, left, length, mass, around, fresh, others)

        if full:
            choices = weigh_all(target, walker, spin, group, candidates, some_far)
        else:
            choices = weigh_near(target, walker, spin, group, candidates)
        if some_far:
            weigh_far(evidence, walker.clusters.words, spin, group, candidates, far, choices, full)
        if group.moments.size > 0:
            weigh_moments(evidence, walker.clusters, spin, group, candidates, choices, full)
        chosen = pick(candidates, choices, root, full, coldness, rng.random())

        new = chosen if full else as_int64(near[chosen])
        back = old if left > 0 else fresh
        if new != back:
            stay = back
            if not full:
                for c in range(choices):
                    if near[c] == back:
                        stay = c
            value[NOW] += score[chosen] + (tied[new] if seen[new] == root else 0.0)
            value[NOW] -= score[stay] + (tied[back] if seen[back] == root else 0.0)
        used[CLUSTERS] = others + 1 if new == fresh else others
        if new == used[USED]:
            used[USED] += 1
        put_in(evidence, walker, spin, group, far, new)
    return n
