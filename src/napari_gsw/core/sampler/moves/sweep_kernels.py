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

==============  ===================================================================
paper           here
==============  ===================================================================
y_i             a row of the sparse counts ``word``/``times``, or moments
z_i             ``labels[i]``
m_j             ``clusters.size[j]``
r_ij            bonds, as the union-find forest ``parent``
C_l             the sites whose root is l, one after the other through ``following``
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
from napari_gsw.core.sampler.moves.candidate_kernels import (
    BondedGroup,
    Candidates,
    GroupCounts,
    TableEnds,
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
from napari_gsw.core.sampler.moves.field_kernels import add_field
from napari_gsw.core.sampler.state import CLUSTERS, NOW, USED, Bonds, ChainState, Target
from napari_gsw.core.sites.adjacency_kernels import find_root


class SweepOptions(NamedTuple):
    """What holds for all visits of a sweep."""

    x: float  # of :class:`Bonds`
    coldness: float  # inverse temperature
    full: bool  # whether every cluster is weighed
    first: int  # the root to begin with


@njit
def is_bonded(t: float, uniform: float) -> bool:
    """Whether uniform < 1 - exp(-t), for t >= 0.

    1 - exp(-t) lies between t - t^2 / 2 and that plus t^3 / 6, so that the exponential is hardly ever needed.
    """
    least = t - 0.5 * t * t
    if uniform < least:
        return True
    if uniform >= least + t * t * t / 6.0:
        return False
    return bool(uniform < -math.expm1(-t))


@njit_loop
def draw_bonds(target: Target, bonds: Bonds, walker: ChainState, rng: np.random.Generator) -> float:
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
        following[i] = head[root]
        head[root] = i
    return x


@njit_inline
def list_adjacent_clusters(
    graph: CsrGraph, bonds: Bonds, walker: ChainState, near: Candidates, root: int, x: float
) -> int:
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


@njit_inline
def remove_group(
    evidence: LikelihoodTables, walker: ChainState, group: GroupCounts, root: int, old: int, left: int
) -> tuple[int, int]:
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
        length = gather_words(evidence, root, group_word, sums, as_int64(0))
        while i >= 0:
            length = gather_words(evidence, i, group_word, sums, length)
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
        clusters.gauss[old] = log_gaussian_marginal(gauss, moments, old, as_int64(words[pixels, old]), group.nothing)
    return length, mass


@njit_inline
def sample_candidate(
    candidates: Candidates, choices: int, root: int, full: bool, coldness: float, uniform: float
) -> int:
    """The candidate that a uniform draws, at inverse temperature `coldness`."""
    score, weight, near, seen, tied = (
        candidates.score, candidates.weight, candidates.near, candidates.seen, candidates.tied,
    )  # fmt: skip
    if coldness == 1.0:
        first, gap = argmax_with_margin(
            score, choices
        )  # most sites know where they belong: it is drawn without more ado
        if gap <= NEGLIGIBLE_GAP and uniform * (1.0 + (choices - 1) * math.exp(-gap)) >= 1.0:
            first = draw_beside_leader(score, weight, choices, uniform, first)
        return first
    for c in range(choices):
        k = c if full else as_int64(near[c])
        weight[c] = coldness * score[c] - (1.0 - coldness) * (tied[k] if seen[k] == root else 0.0)
    return draw_candidate(weight, weight, choices, uniform)


@njit_inline
def insert_group(
    evidence: LikelihoodTables, walker: ChainState, spin: BondedGroup, group: GroupCounts, far: TableEnds, new: int
) -> None:
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
                    note_table_end(evidence, words, far, d, spin.old)
                    note_table_end(evidence, words, far, d, new)
        i = as_int64(spin.root)
        while i >= 0:
            labels[i] = new
            i = as_int64(following[i])
    if group.moments.size > 0:
        for c in range(group.moments.size):
            moments[c, new] += group.moments[c]
        pixels = as_int64(words[evidence.pixels, new])
        clusters.gauss[new] = log_gaussian_marginal(evidence.gauss, moments, new, pixels, group.nothing)


@njit_inner
def update_bonded_groups(
    target: Target,
    bonds: Bonds,
    walker: ChainState,
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
    for every candidate and must not be counted. If A_j has a name s, the sum of h_i(s) over C is added. A spin cluster
    that holds a seed stays where it is.

    At inverse temperature b = `coldness` all of it is multiplied by b but the bonds' part, - sum beta_ij delta_ij: the
    bonds are what they are, and any bonds leave the posterior to the power b as it is.

    Not `full`, C chooses only among S, the clusters in which edges that leave C end, those with a name and a new one;
    and it stays if
    what is left of its own cluster is not among them. S depends on the bonds and on the labels outside C, which the
    choice does not change. So of all places that C may be at, those outside S keep their probability since nothing
    moves from or to them, and within S the draw is from the conditional given that C is in S: the conditional of C, and
    with it the posterior, stays as it is. C may always part from its cluster but joins only a neighbour's; that every
    state can be reached is left to the full sweeps.

    ``walker.sums.value[NOW]``, the log posterior, is kept group by group, so that its last digit does not depend on
    when slots run out. Returns the root to go on from when they have (n: all done).
    """
    capacity = walker.clusters.size.size
    group, candidates = make_group(target.evidence), make_candidates(capacity)
    far = find_table_ends(target.evidence, walker.clusters)
    sweep = SweepOptions(x, coldness, full, first)
    return update_each_group(target, bonds, walker, rng, sweep, group, candidates, far)


@njit_loop
def update_each_group(
    target: Target,
    bonds: Bonds,
    walker: ChainState,
    rng: np.random.Generator,
    sweep: SweepOptions,
    group: GroupCounts,
    candidates: Candidates,
    far: TableEnds,
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
        around = list_adjacent_clusters(target.graph, bonds, walker, candidates, root, x)
        around = add_field(target.field, walker, candidates, root, around)
        if not full and left > 0 and seen[old] != root:
            continue  # its own cluster is not among those that may be chosen
        length, mass = remove_group(evidence, walker, group, root, old, left)
        if left == 0 and old < fresh:
            fresh = old
        while size[fresh] > 0:
            fresh += 1
        others = used[CLUSTERS] if left > 0 else used[CLUSTERS] - 1
        spin = BondedGroup(root, members, old, left, length, mass, around, fresh, others)

        if full:
            choices = score_all(target, walker, spin, group, candidates, some_far)
        else:
            choices = score_adjacent(target, walker, spin, group, candidates)
        if some_far:
            fix_table_ends(evidence, walker.clusters.words, spin, group, candidates, far, choices, full)
        if group.moments.size > 0:
            add_moment_scores(evidence, walker.clusters, spin, group, candidates, choices, full)
        chosen = sample_candidate(candidates, choices, root, full, coldness, rng.random())

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
        insert_group(evidence, walker, spin, group, far, new)
    return n
