"""Kernels of the distance-dependent Chinese restaurant processes.

Each site links to a neighbour or to itself. Sites connected by links, in either direction, sit at one table. In the
region-level process (rdd-CRP) a Chinese restaurant process assigns tables to regions; in the plain one (dd-CRP) each
table is a region. Regions are stored and scored like the clusters of
:mod:`napari_gsw.core.sampler.moves.sweep_kernels`.

Strategy
--------
A table has exactly one cycle of links. If the link of site i is cut, the sites with links that lead to i form a part A:
a walk against the links, over lists of children. If the link pointed outside A, the cut leaves two tables, otherwise
one. The link of i and the region of A are then drawn jointly from their conditional, so no move is rejected:

    to a neighbour j outside     f_ij p(y_A u R) / p(y_R), with R the region of j, whose table A joins
    to a neighbour inside, or i  f_ij (alpha for i itself); A is a table of its own and goes to region R with weight
                                 tables(R) / (gamma + T) p(y_A u R) / p(y_R), or to a new one with gamma / (gamma + T)
                                 p(y_A); in the dd-CRP always to a new one

T is the number of tables without A.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from napari_gsw.core.array_types import Float64Array, Int32Array, Int64Array
from napari_gsw.core.graph.region_graph import CsrGraph
from napari_gsw.core.jit import as_int64, njit, njit_inline, njit_inner, zeros
from napari_gsw.core.likelihood.tables import FACTOR, LikelihoodTables
from napari_gsw.core.sampler.chain_kernels import compact_slots, record_sweep
from napari_gsw.core.sampler.moves.candidate_kernels import GroupCounts, make_group
from napari_gsw.core.sampler.moves.cluster_kernels import (
    draw_candidate,
    gather_words,
    grow_clusters,
    log_count_gain,
    log_gaussian_marginal,
)
from napari_gsw.core.sampler.state import NOW, USED, Clusters, RunningSums

# Entries of LinkState.used beside USED, the first slot that was never used.
REGIONS, TABLES, STAMP = 1, 2, 3
# Rows of LinkState.family.
CHILD, YOUNGER, ELDER, INSIDE, WALKED = 0, 1, 2, 3, 4


class LinkPrior(NamedTuple):
    """Weights of links and of regions."""

    log_alpha: float  # of a link to the site itself; the graph has log f_ij in place of beta
    log_gamma: float  # of a new region
    regional: bool  # rdd-CRP


class LinkState(NamedTuple):
    """State of a chain of links."""

    link: Int32Array  # (n,) the site that each site points at
    family: Int32Array  # (5, n) lists of children (CHILD, YOUNGER, ELDER), stamps (INSIDE), sites of a walk (WALKED)
    labels: Int32Array  # (n,) slot of each site's region
    clusters: Clusters
    tables: Int64Array  # (slots,) tables of each region
    used: Int64Array  # (4,) USED, REGIONS, TABLES, STAMP
    sums: RunningSums


class LinkScratch(NamedTuple):
    """Scratch arrays of the regions and links that a part may get."""

    region: Int64Array  # (slots,) regions that it may join
    noted: Int64Array  # (slots,) the stamp of the last site that they were noted for
    fit: Float64Array  # (slots,) log p(y_A u R) - log p(y_R) of each
    score: Float64Array  # (degree + slots + 1,) of each neighbour, then of each region
    weight: Float64Array  # (degree + slots + 1,)
    within: Float64Array  # (degree + 1,) of the links that stay inside


class CutPart(NamedTuple):
    """The sites whose links lead to a site whose own link was cut."""

    site: int
    old_link: int
    old: int  # slot of its region
    members: int
    is_table: bool  # the link pointed inside: nothing else of the table is left
    length: int  # number of different words
    stamp: int
    fresh: int  # the first free slot


@njit
def attach_child(
    link: Int32Array, child: Int32Array, younger: Int32Array, elder: Int32Array, i: int, target: int
) -> None:
    """Point the link of site i at `target` and add i to the children of the target."""
    link[i] = target
    first = child[target]
    younger[i] = first
    elder[i] = -1
    if first >= 0:
        elder[first] = i
    child[target] = i


@njit_inner
def cut_link(link: Int32Array, child: Int32Array, younger: Int32Array, elder: Int32Array, i: int) -> None:
    """Remove site i from the children of its link's target."""
    if elder[i] >= 0:
        younger[elder[i]] = younger[i]
    else:
        child[link[i]] = younger[i]
    if younger[i] >= 0:
        elder[younger[i]] = elder[i]


@njit_inner
def walk(child: Int32Array, younger: Int32Array, i: int, inside: Int32Array, stamp: int, walked: Int32Array) -> int:
    """Write i and all sites whose links lead to it into `walked`, stamp them, and return their number."""
    walked[0] = i
    inside[i] = stamp
    count = as_int64(1)
    at = as_int64(0)
    while at < count:
        j = as_int64(child[walked[at]])
        while j >= 0:
            if inside[j] != stamp:
                inside[j] = stamp
                walked[count] = j
                count += 1
            j = as_int64(younger[j])
        at += 1
    return count


@njit_inline
def detach_part(evidence: LikelihoodTables, state: LinkState, group: GroupCounts, i: int) -> CutPart:
    """Cut the link of site i and remove the part that hangs on it from its region."""
    family, labels, clusters, used = state.family, state.labels, state.clusters, state.used
    child, younger, elder, inside, walked = (
        family[CHILD], family[YOUNGER], family[ELDER], family[INSIDE], family[WALKED],
    )  # fmt: skip
    size, words, moments = clusters.size, clusters.words, clusters.moments
    old_link = as_int64(state.link[i])
    cut_link(state.link, child, younger, elder, i)
    used[STAMP] += 1
    stamp = used[STAMP]
    members = walk(child, younger, i, inside, stamp, walked)
    old = as_int64(labels[i])
    is_table = inside[old_link] == stamp
    if is_table:
        state.tables[old] -= 1
        used[TABLES] -= 1
    length = as_int64(0)
    for t in range(members):
        j = as_int64(walked[t])
        length = gather_words(evidence, j, group.word, group.sums, length)
        for c in range(group.moments.size):
            group.moments[c] += evidence.moments[j, c]
    size[old] -= members
    for t in range(length):
        words[group.word[t], old] -= group.sums[group.word[t]]
    if group.moments.size > 0:
        for c in range(group.moments.size):
            moments[c, old] = moments[c, old] - group.moments[c] if size[old] > 0 else 0.0
        pixels = as_int64(words[evidence.pixels, old])
        clusters.gauss[old] = log_gaussian_marginal(evidence.gauss, moments, old, pixels, group.nothing)
    if size[old] == 0:
        used[REGIONS] -= 1
    fresh = as_int64(0)
    while size[fresh] > 0:
        fresh += 1
    return CutPart(i, old_link, old, members, is_table, length, stamp, fresh)


@njit_inline
def score_regions(
    evidence: LikelihoodTables,
    graph: CsrGraph,
    state: LinkState,
    part: CutPart,
    group: GroupCounts,
    scratch: LinkScratch,
    regional: bool,
) -> None:
    """Write log p(y_A u R) - log p(y_R) of each region that the part may join into ``scratch.fit``."""
    start, neighbour = graph.start, graph.neighbour
    table, table_start, tail = evidence.table, evidence.table_start, evidence.tail
    clusters, labels, inside = state.clusters, state.labels, state.family[INSIDE]
    size, words, fit, region, noted = clusters.size, clusters.words, scratch.fit, scratch.region, scratch.noted
    count = as_int64(0)
    if regional:
        for k in range(state.used[USED] + 1):
            if size[k] > 0 or k == part.fresh:
                region[count] = k
                count += 1
    else:
        region[0] = part.fresh
        count = as_int64(1)
        for t in range(start[part.site], start[part.site + 1]):
            k = as_int64(labels[neighbour[t]])
            if inside[neighbour[t]] != part.stamp and noted[k] != part.stamp:
                noted[k] = part.stamp
                region[count] = k
                count += 1
    for c in range(count):
        fit[region[c]] = 0.0
    for t in range(part.length):
        d = group.word[t]
        extra = group.sums[d]
        if tail[d, FACTOR] == 0.0:  # inlined for speed
            for c in range(count):
                at = table_start[d] + words[d, region[c]]
                fit[region[c]] += table[at + extra] - table[at]
        else:
            for c in range(count):
                fit[region[c]] += log_count_gain(evidence, d, as_int64(words[d, region[c]]), as_int64(extra))
    if group.moments.size > 0:
        for c in range(count):
            k = region[c]
            total = as_int64(words[evidence.pixels, k] + group.sums[evidence.pixels])
            fit[k] += (
                log_gaussian_marginal(evidence.gauss, clusters.moments, k, total, group.moments) - clusters.gauss[k]
            )


@njit_inline
def score_links(
    graph: CsrGraph, prior: LinkPrior, state: LinkState, part: CutPart, scratch: LinkScratch
) -> tuple[int, int, float, float]:
    """Score every link to the outside, and every region for a table of its own.

    Returns the number of neighbours, the number of those inside, the log weight of all links that stay inside, and the
    score of the former link and region.
    """
    start, neighbour, edge, log_f = graph.start, graph.neighbour, graph.edge, graph.beta
    labels, inside, size, used = state.labels, state.family[INSIDE], state.clusters.size, state.used
    fit, score, within, i = scratch.fit, scratch.score, scratch.within, part.site
    neighbours = as_int64(0)
    n_inside = as_int64(0)
    top = prior.log_alpha
    within[0] = prior.log_alpha
    old_score = 0.0
    for t in range(start[i], start[i + 1]):
        j = as_int64(neighbour[t])
        f = log_f[edge[t]]
        if inside[j] == part.stamp:
            n_inside += 1
            within[n_inside] = f
            top = max(top, f)
            score[neighbours] = -math.inf
        else:
            score[neighbours] = f + fit[labels[j]]
            if j == part.old_link:
                old_score = score[neighbours]
        neighbours += 1
    mass = 0.0
    for t in range(n_inside + 1):
        mass += math.exp(within[t] - top)
    log_within = top + math.log(mass)
    log_all = math.log(math.exp(prior.log_gamma) + used[TABLES])
    for k in range(used[USED] + 1):
        if prior.regional and size[k] > 0:
            score[neighbours + k] = log_within + math.log(as_int64(state.tables[k])) - log_all + fit[k]
        elif k == part.fresh:
            score[neighbours + k] = log_within + fit[k] + (prior.log_gamma - log_all if prior.regional else 0.0)
        else:
            score[neighbours + k] = -math.inf
    if part.is_table:
        # The former region is the free slot if nothing is left of it.
        back = part.old if size[part.old] > 0 else part.fresh
        old_score = score[neighbours + back] - log_within + (prior.log_alpha if part.old_link == i else 0.0)
        if part.old_link != i:
            for t in range(start[i], start[i + 1]):
                if neighbour[t] == part.old_link:
                    old_score += log_f[edge[t]]
    return neighbours, n_inside, log_within, old_score


@njit_inline
def attach_part(
    evidence: LikelihoodTables, state: LinkState, part: CutPart, group: GroupCounts, target: int, new: int
) -> None:
    """Point the link of the part at `target` and insert the part into slot `new`."""
    family, clusters, used = state.family, state.clusters, state.used
    size, words, moments = clusters.size, clusters.words, clusters.moments
    if size[new] == 0:
        used[REGIONS] += 1
    if new == used[USED]:
        used[USED] += 1
    attach_child(state.link, family[CHILD], family[YOUNGER], family[ELDER], part.site, target)
    size[new] += part.members
    for t in range(part.length):
        words[group.word[t], new] += group.sums[group.word[t]]
        group.sums[group.word[t]] = 0
    if group.moments.size > 0:
        for c in range(group.moments.size):
            moments[c, new] += group.moments[c]
            group.moments[c] = 0.0
        pixels = as_int64(words[evidence.pixels, new])
        clusters.gauss[new] = log_gaussian_marginal(evidence.gauss, moments, new, pixels, group.nothing)
    if new != part.old:
        for t in range(part.members):
            state.labels[family[WALKED][t]] = new


@njit_inner
def relink(
    evidence: LikelihoodTables,
    graph: CsrGraph,
    prior: LinkPrior,
    state: LinkState,
    rng: np.random.Generator,
    first: int,
) -> int:
    """Resample the links of sites `first` to n - 1 in order, each with the region of its part.

    ``graph.beta`` holds log f_ij. Returns the site at which the slots ran out, or n.
    """
    start, neighbour = graph.start, graph.neighbour
    labels, used, value, inside = state.labels, state.used, state.sums.value, state.family[INSIDE]
    n, capacity = labels.size, state.clusters.size.size
    group = make_group(evidence)
    max_degree = as_int64(0)
    for i in range(n):
        max_degree = max(max_degree, start[i + 1] - start[i])
    n_scores = max_degree + capacity + 1
    scratch = LinkScratch(
        zeros(capacity, np.int64),
        zeros(capacity, np.int64),
        zeros(capacity, np.float64),
        zeros(n_scores, np.float64),
        zeros(n_scores, np.float64),
        zeros(max_degree + 1, np.float64),
    )
    score, weight, within = scratch.score, scratch.weight, scratch.within
    for i in range(first, n):
        if used[USED] == capacity:
            return i
        slots = used[USED] + 1
        part = detach_part(evidence, state, group, i)
        score_regions(evidence, graph, state, part, group, scratch, prior.regional)
        neighbours, n_inside, log_within, old_score = score_links(graph, prior, state, part, scratch)
        chosen = draw_candidate(score, weight, neighbours + slots, rng.random())
        if chosen < neighbours:
            target = as_int64(neighbour[start[i] + chosen])
            new = as_int64(labels[target])
            value[NOW] += score[chosen] - old_score
        else:
            new = chosen - neighbours
            pick = draw_candidate(within, weight, n_inside + 1, rng.random())
            target = as_int64(i)
            if pick > 0:
                n_inside = as_int64(0)
                for t in range(start[i], start[i + 1]):
                    if inside[neighbour[t]] == part.stamp:
                        n_inside += 1
                        if n_inside == pick:
                            target = as_int64(neighbour[t])
            value[NOW] += score[chosen] - log_within + within[pick] - old_score
            state.tables[new] += 1
            used[TABLES] += 1
        attach_part(evidence, state, part, group, target, new)
    return n


@njit
def advance(
    evidence: LikelihoodTables,
    graph: CsrGraph,
    prior: LinkPrior,
    state: LinkState,
    rng: np.random.Generator,
    burn_in: int,
    trace: Float64Array,
) -> LinkState:
    """Run ``len(trace)`` sweeps in place and return the state, which has new arrays if slots ran out.

    ``trace[t]`` (3,) becomes log posterior, number of regions and the entropy of their sizes after sweep t.
    """
    used, n = state.used, state.labels.size
    for t in range(trace.shape[0]):
        if used[USED] > 2 * used[REGIONS] + 4:
            tables, moved = state.tables, compact_slots(state.labels, state.clusters, used)
            for k in range(moved.size):
                if moved[k] >= 0:
                    tables[moved[k]] = tables[k]
            for k in range(used[USED], tables.size):
                tables[k] = 0
        i = as_int64(0)
        while i < n:
            i = relink(evidence, graph, prior, state, rng, i)
            if i < n:
                clusters = grow_clusters(state.clusters, 2 * state.clusters.size.size)
                tables = zeros(clusters.size.size, np.int64)
                tables[: state.tables.size] = state.tables
                state = LinkState(
                    state.link, state.family, state.labels, clusters, tables, state.used, state.sums
                )  # fmt: skip
        record_sweep(
            state.sums, graph.left, graph.right, state.labels, state.clusters.size, used, burn_in, trace[t]
        )  # fmt: skip
    return state
