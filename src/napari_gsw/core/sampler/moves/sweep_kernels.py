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

A visit has phases, each a function that is compiled into :func:`update_each_group`: list the adjacent clusters, remove
the bonded group, score the candidates, draw one, insert the group. Numba compiles a function again for every new type
of an argument, constants included; hence ``as_int64``, which makes any integer a 64-bit one.

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

from napari_gsw.core.graph.region_graph import CsrGraph
from napari_gsw.core.jit import as_index, as_int64, njit, njit_inline, njit_inner, njit_loop
from napari_gsw.core.likelihood.tables import FACTOR, LikelihoodTables
from napari_gsw.core.partitions import find_root
from napari_gsw.core.sampler.moves.candidate_kernels import (
    BondedGroup,
    Candidates,
    GroupCounts,
    TableEnds,
    add_field,
    add_moment_scores,
    find_table_ends,
    fix_table_ends,
    make_candidates,
    make_group,
    note_table_end,
    score_adjacent,
    score_all,
)
from napari_gsw.core.sampler.moves.cluster_kernels import (
    NEGLIGIBLE_GAP,
    argmax_with_margin,
    draw_beside_leader,
    draw_candidate,
    gather_words,
    log_gaussian_marginal,
)
from napari_gsw.core.sampler.state import CLUSTERS, NOW, USED, Bonds, ChainState, Target


class SweepOptions(NamedTuple):
    """Options of all visits of a sweep."""

    x: float  # of :class:`Bonds`
    power: float  # inverse temperature
    full: bool  # whether every cluster is scored
    first: int  # the root to begin with


@njit
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
def list_adjacent_clusters(
    graph: CsrGraph, bonds: Bonds, state: ChainState, candidates: Candidates, root: int, x: float
) -> int:
    """List the clusters adjacent to a bonded group, with their weights; returns their number.

    Only edges that leave the group count, each once: unbonded ones inside it are the same for every candidate.
    """
    start, neighbour, edge, beta, strength = graph.start, graph.neighbour, graph.edge, graph.beta, bonds.strength
    labels, parent, next_member = state.labels, state.scratch.parent, state.scratch.next_member
    seen, adjacent = candidates.seen, candidates.adjacent
    neighbour_weight, bonded_weight = candidates.neighbour_weight, candidates.bonded_weight
    n_adjacent = 0
    i = as_int64(root)
    while i >= 0:
        for t in range(start[i], start[i + 1]):
            j = as_index(neighbour[t])
            if parent[j] != root:
                e = as_index(edge[t])
                k = as_index(labels[j])
                if seen[k] != root:
                    seen[k] = root
                    adjacent[n_adjacent] = k
                    n_adjacent += 1
                    neighbour_weight[k] = 0.0
                    bonded_weight[k] = 0.0
                neighbour_weight[k] += beta[e] - x * strength[e]
                bonded_weight[k] += x * strength[e]
        i = as_int64(next_member[i])
    return n_adjacent


@njit_inline
def remove_group(
    evidence: LikelihoodTables, state: ChainState, counts: GroupCounts, root: int, old: int, left: int
) -> tuple[int, int]:
    """Remove a bonded group from slot `old`, where `left` sites stay; returns its distinct words and its pixels."""
    site_start, word, times = evidence.site_start, evidence.word, evidence.times
    site_moments, gauss, pixels = evidence.moments, evidence.gauss, evidence.pixels
    clusters, next_member = state.clusters, state.scratch.next_member
    words, moments = clusters.words, clusters.moments
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
        words[group_word[t], old] -= group_count[t]
    mass = as_int64(0)
    if group_moments.size > 0:
        for t in range(length):
            if group_word[t] == pixels:
                mass = as_int64(group_count[t])
        for c in range(group_moments.size):
            group_moments[c] = site_moments[root, c]
        i = as_int64(next_member[root])
        while i >= 0:
            for c in range(group_moments.size):
                group_moments[c] += site_moments[i, c]
            i = as_int64(next_member[i])
        for c in range(group_moments.size):
            moments[c, old] = moments[c, old] - group_moments[c] if left > 0 else 0.0
        clusters.gauss[old] = log_gaussian_marginal(gauss, moments, old, as_int64(words[pixels, old]), counts.nothing)
    return length, mass


@njit_inline
def sample_candidate(candidates: Candidates, choices: int, root: int, full: bool, power: float, uniform: float) -> int:
    """Return the candidate that a uniform draws."""
    score, weight, adjacent, seen, bonded_weight = (
        candidates.score, candidates.weight, candidates.adjacent, candidates.seen, candidates.bonded_weight,
    )  # fmt: skip
    if power == 1.0:
        # Mostly one candidate is so much better that no other weight is needed.
        first, gap = argmax_with_margin(score, choices)
        if gap <= NEGLIGIBLE_GAP and uniform * (1.0 + (choices - 1) * math.exp(-gap)) >= 1.0:
            first = draw_beside_leader(score, weight, choices, uniform, first)
        return first
    for c in range(choices):
        k = c if full else as_int64(adjacent[c])
        weight[c] = power * score[c] - (1.0 - power) * (bonded_weight[k] if seen[k] == root else 0.0)
    return draw_candidate(weight, weight, choices, uniform)


@njit_inline
def insert_group(
    evidence: LikelihoodTables, state: ChainState, group: BondedGroup, counts: GroupCounts, table_ends: TableEnds,
    new: int,
) -> None:  # fmt: skip
    """Add the bonded group to slot `new`."""
    clusters, labels, next_member = state.clusters, state.labels, state.scratch.next_member
    words, moments, group_word, group_count = clusters.words, clusters.moments, counts.word, counts.times
    clusters.size[new] += group.members
    for t in range(group.length):
        words[group_word[t], new] += group_count[t]
    if new != group.old:
        if table_ends.length.size > 0:
            for t in range(group.length):
                d = group_word[t]
                if evidence.tail[d, FACTOR] != 0.0:
                    note_table_end(evidence, words, table_ends, d, group.old)
                    note_table_end(evidence, words, table_ends, d, new)
        i = as_int64(group.root)
        while i >= 0:
            labels[i] = new
            i = as_int64(next_member[i])
    if counts.moments.size > 0:
        for c in range(counts.moments.size):
            moments[c, new] += counts.moments[c]
        pixels = as_int64(words[evidence.pixels, new])
        clusters.gauss[new] = log_gaussian_marginal(evidence.gauss, moments, new, pixels, counts.nothing)


@njit_inner
def update_bonded_groups(
    target: Target, bonds: Bonds, state: ChainState, rng: np.random.Generator, x: float, power: float, full: bool,
    first: int,
) -> int:  # fmt: skip
    """Visit each bonded group from root `first` on once and draw its cluster from the conditional.

    For bonded group C and an existing cluster j the log weight is (eq. conditional1)

        log V(k) + log W(m_j + |C|) - log W(m_j) + log p(y_C u A_j) - log p(y_A_j) + sum beta_ij (1 - delta_ij)

    where the last sum runs over the edges that leave C and end in A_j, each once. Unbonded edges inside C are the same
    for every candidate and must not be counted. If A_j has a name s, the sum of h_i(s) over C is added. A bonded group
    that holds a seed stays where it is.

    At inverse temperature b all of it is multiplied by b but the bonds' part, - sum beta_ij delta_ij: any bonds leave
    the posterior to the power b invariant.

    Not `full`, C chooses only among S: the clusters in which edges that leave C end, those with a name, and a new one;
    and it stays if the rest of its own cluster is not in S. S depends on the bonds and on the labels outside C, which
    the choice does not change. So candidates outside S keep their probability, since nothing moves from or to them, and
    within S the draw is from the conditional given that C is in S: the posterior is invariant. C may always leave its
    cluster but joins only a neighbour's; the full sweeps make the chain irreducible.

    ``state.sums.value[NOW]``, the log posterior, is updated group by group, so that its last digit does not depend on
    when slots run out. Returns the root to continue from when they have (n: all done).
    """
    capacity = state.clusters.size.size
    counts, candidates = make_group(target.evidence), make_candidates(capacity)
    table_ends = find_table_ends(target.evidence, state.clusters)
    sweep = SweepOptions(x, power, full, first)
    return update_each_group(target, bonds, state, rng, sweep, counts, candidates, table_ends)


@njit_loop
def update_each_group(
    target: Target, bonds: Bonds, state: ChainState, rng: np.random.Generator, sweep: SweepOptions, counts: GroupCounts,
    candidates: Candidates, table_ends: TableEnds,
) -> int:  # fmt: skip
    """Do the work of :func:`update_bonded_groups`, in arrays that it has made."""
    x, power, full, first = sweep
    evidence, seeds, log_w = target.evidence, target.seeds, target.prior.log_w
    labels, size, value = state.labels, state.clusters.size, state.sums.value
    used, parent, next_member = state.scratch.slots, state.scratch.parent, state.scratch.next_member
    n, capacity = labels.size, size.size
    score, adjacent, seen, bonded_weight = (
        candidates.score,
        candidates.adjacent,
        candidates.seen,
        candidates.bonded_weight,
    )
    has_table_ends = table_ends.length.size > 0
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
        n_adjacent = list_adjacent_clusters(target.graph, bonds, state, candidates, root, x)
        n_adjacent = add_field(target.field, state, candidates, root, n_adjacent)
        if not full and left > 0 and seen[old] != root:
            continue  # the present cluster is not among the candidates
        length, mass = remove_group(evidence, state, counts, root, old, left)
        if left == 0 and old < fresh:
            fresh = old
        while size[fresh] > 0:
            fresh += 1
        others = used[CLUSTERS] if left > 0 else used[CLUSTERS] - 1
        group = BondedGroup(root, members, old, left, length, mass, n_adjacent, fresh, others)

        if full:
            choices = score_all(target, state, group, counts, candidates, has_table_ends)
        else:
            choices = score_adjacent(target, state, group, counts, candidates)
        if has_table_ends:
            fix_table_ends(evidence, state.clusters.words, group, counts, candidates, table_ends, choices, full)
        if counts.moments.size > 0:
            add_moment_scores(evidence, state.clusters, group, counts, candidates, choices, full)
        chosen = sample_candidate(candidates, choices, root, full, power, rng.random())

        new = chosen if full else as_int64(adjacent[chosen])
        back = old if left > 0 else fresh
        if new != back:
            stay = back
            if not full:
                for c in range(choices):
                    if adjacent[c] == back:
                        stay = c
            value[NOW] += score[chosen] + (bonded_weight[new] if seen[new] == root else 0.0)
            value[NOW] -= score[stay] + (bonded_weight[back] if seen[back] == root else 0.0)
        used[CLUSTERS] = others + 1 if new == fresh else others
        if new == used[USED]:
            used[USED] += 1
        insert_group(evidence, state, group, counts, table_ends, new)
    return n
