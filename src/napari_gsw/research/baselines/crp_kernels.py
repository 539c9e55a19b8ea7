"""The inner loops of the distance-dependent Chinese restaurant processes.

Every site holds a link to a neighbour or to itself. Sites that links join, whichever way they point, sit at one table;
in the region-level process (rdd-CRP) tables are dealt to regions by a Chinese restaurant process of their own, in the
plain one (dd-CRP) each table is a region. A region is a cluster as in
:mod:`napari_gsw.core.sampler.moves.sweep_kernels`, kept in the same slots and scored with the same tables.

Strategy
--------
Each table has just one cycle of links, so what hangs on site i when its link is cut are the sites from which links lead
to i: a walk against the links, over lists of children. That walk also tells whether the cut leaves two tables (the
link pointed outside the walk) or one. What was walked is then dealt anew together with the link of i:

    to a neighbour j outside     f_ij p(y_A u R) / p(y_R), with R the region of j, whose table A joins
    to a neighbour inside, or i  f_ij (alpha for i itself); A is a table of its own and goes to region R with weight
                                 tables(R) / (gamma + T) p(y_A u R) / p(y_R), or to a new one with gamma / (gamma + T)
                                 p(y_A); in the dd-CRP always to a new one

T counts the tables without A. This draws the link and the region of the table jointly from their conditional, so that
no move needs to be accepted.
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

# Entries of LinkWalker.used beside USED, the first slot that was never used: regions, tables, and the last stamp.
REGIONS, TABLES, STAMP = 1, 2, 3
# Rows of LinkWalker.family.
CHILD, YOUNGER, ELDER, INSIDE, WALKED = 0, 1, 2, 3, 4


class LinkPrior(NamedTuple):
    """Weights of links and of regions."""

    log_alpha: float  # of a link to the site itself; the graph has log f_ij in place of beta
    log_gamma: float  # of a new region
    regional: bool  # whether tables are dealt to regions (rdd-CRP) or are regions (dd-CRP)


class LinkState(NamedTuple):
    """The state of a chain of links."""

    link: Int32Array  # (n,) the site that each site points at
    family: Int32Array  # (5, n) lists of children (CHILD, YOUNGER, ELDER), stamps (INSIDE), and the sites of a walk (WALKED)
    labels: Int32Array  # (n,) slot of each site's region
    clusters: Clusters
    tables: Int64Array  # (slots,) tables of each region
    used: Int64Array  # (4,) USED, REGIONS, TABLES, STAMP
    sums: RunningSums


class LinkOptions(NamedTuple):
    """Room to weigh where a part that was cut off may go."""

    region: Int64Array  # (slots,) regions that it may join
    noted: Int64Array  # (slots,) the stamp of the last site that they were noted for
    fit: Float64Array  # (slots,) log p(y_A u R) - log p(y_R) of each
    score: Float64Array  # (degree + slots + 1,) of each neighbour, then of each region
    weight: Float64Array  # (degree + slots + 1,) scratch
    within: Float64Array  # (degree + 1,) of the links that stay inside


class CutPart(NamedTuple):
    """What hangs on a site whose link was cut."""

    site: int
    old_link: int
    old: int  # slot of its region
    members: int
    all_of_table: bool  # whether the link pointed inside: nothing of the table is left without it
    length: int  # different words
    stamp: int
    fresh: int  # the first free slot


@njit
def attach_child(
    link: Int32Array, child: Int32Array, younger: Int32Array, elder: Int32Array, i: int, target: int
) -> None:
    """Point site i's link at `target` and enter i among the target's children."""
    link[i] = target
    first = child[target]
    younger[i] = first
    elder[i] = -1
    if first >= 0:
        elder[first] = i
    child[target] = i


@njit_inner
def cut_link(link: Int32Array, child: Int32Array, younger: Int32Array, elder: Int32Array, i: int) -> None:
    """Take site i from among the children of its link's target."""
    if elder[i] >= 0:
        younger[elder[i]] = younger[i]
    else:
        child[link[i]] = younger[i]
    if younger[i] >= 0:
        elder[younger[i]] = elder[i]


@njit_inner
def walk(child: Int32Array, younger: Int32Array, i: int, inside: Int32Array, stamp: int, walked: Int32Array) -> int:
    """Write i and all sites whose links lead to it into `walked` and stamp them; returns their number."""
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
def cut_off(evidence: LikelihoodTables, walker: LinkState, group: GroupCounts, i: int) -> CutPart:
    """Cut the link of site i, and take what hangs on it out of its region."""
    family, labels, clusters, used = walker.family, walker.labels, walker.clusters, walker.used
    child, younger, elder, inside, walked = (
        family[CHILD], family[YOUNGER], family[ELDER], family[INSIDE], family[WALKED],
    )  # fmt: skip
    size, words, moments = clusters.size, clusters.words, clusters.moments
    old_link = as_int64(walker.link[i])
    cut_link(walker.link, child, younger, elder, i)
    used[STAMP] += 1
    stamp = used[STAMP]
    members = walk(child, younger, i, inside, stamp, walked)
    old = as_int64(labels[i])
    all_of_table = inside[old_link] == stamp
    if all_of_table:
        walker.tables[old] -= 1
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
    return CutPart(i, old_link, old, members, all_of_table, length, stamp, fresh)


@njit_inline
def fit_regions(
    evidence: LikelihoodTables,
    graph: CsrGraph,
    walker: LinkState,
    part: CutPart,
    group: GroupCounts,
    options: LinkOptions,
    regional: bool,
) -> None:
    """How well the part fits into each region that it may join: log p(y_A u R) - log p(y_R) into ``options.fit``."""
    start, neighbour = graph.start, graph.neighbour
    table, table_start, tail = evidence.table, evidence.table_start, evidence.tail
    clusters, labels, inside = walker.clusters, walker.labels, walker.family[INSIDE]
    size, words, fit, region, noted = clusters.size, clusters.words, options.fit, options.region, options.noted
    count = as_int64(0)
    if regional:
        for k in range(walker.used[USED] + 1):
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
        if tail[d, FACTOR] == 0.0:  # a call for each word would take longer than all the rest
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
def weigh_links(
    graph: CsrGraph, prior: LinkPrior, walker: LinkState, part: CutPart, options: LinkOptions
) -> tuple[int, int, float, float]:
    """Weigh every link outside, and every region for a table of its own.

    Returns the number of neighbours, how many of them are inside, the log weight of all links that stay inside, and the
    score of the link and the region as they were.
    """
    start, neighbour, edge, log_f = graph.start, graph.neighbour, graph.edge, graph.beta
    labels, inside, size, used = walker.labels, walker.family[INSIDE], walker.clusters.size, walker.used
    fit, score, within, i = options.fit, options.score, options.within, part.site
    neighbours = as_int64(0)
    own = as_int64(0)
    top = prior.log_alpha
    within[0] = prior.log_alpha
    old_score = 0.0
    for t in range(start[i], start[i + 1]):
        j = as_int64(neighbour[t])
        f = log_f[edge[t]]
        if inside[j] == part.stamp:
            own += 1
            within[own] = f
            top = max(top, f)
            score[neighbours] = -math.inf
        else:
            score[neighbours] = f + fit[labels[j]]
            if j == part.old_link:
                old_score = score[neighbours]
        neighbours += 1
    mass = 0.0
    for t in range(own + 1):
        mass += math.exp(within[t] - top)
    log_within = top + math.log(mass)
    log_all = math.log(math.exp(prior.log_gamma) + used[TABLES])
    for k in range(used[USED] + 1):
        if prior.regional and size[k] > 0:
            score[neighbours + k] = log_within + math.log(as_int64(walker.tables[k])) - log_all + fit[k]
        elif k == part.fresh:
            score[neighbours + k] = log_within + fit[k] + (prior.log_gamma - log_all if prior.regional else 0.0)
        else:
            score[neighbours + k] = -math.inf
    if part.all_of_table:
        # the region it came from is the free slot if nothing of it is left
        back = part.old if size[part.old] > 0 else part.fresh
        old_score = score[neighbours + back] - log_within + (prior.log_alpha if part.old_link == i else 0.0)
        if part.old_link != i:
            for t in range(start[i], start[i + 1]):
                if neighbour[t] == part.old_link:
                    old_score += log_f[edge[t]]
    return neighbours, own, log_within, old_score


@njit_inline
def link_up(
    evidence: LikelihoodTables, walker: LinkState, part: CutPart, group: GroupCounts, target: int, new: int
) -> None:
    """Point the part's link at `target` and put the part into slot `new`."""
    family, clusters, used = walker.family, walker.clusters, walker.used
    size, words, moments = clusters.size, clusters.words, clusters.moments
    if size[new] == 0:
        used[REGIONS] += 1
    if new == used[USED]:
        used[USED] += 1
    attach_child(walker.link, family[CHILD], family[YOUNGER], family[ELDER], part.site, target)
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
            walker.labels[family[WALKED][t]] = new


@njit_inner
def relink(
    evidence: LikelihoodTables,
    graph: CsrGraph,
    prior: LinkPrior,
    walker: LinkState,
    rng: np.random.Generator,
    first: int,
) -> int:
    """Draw the links of sites `first` to n - 1 anew, one after the other, each with the region of what hangs on it.

    ``graph.beta`` holds log f_ij. Returns the site to go on from when slots have run out (n: all done).
    """
    start, neighbour = graph.start, graph.neighbour
    labels, used, value, inside = walker.labels, walker.used, walker.sums.value, walker.family[INSIDE]
    n, capacity = labels.size, walker.clusters.size.size
    group = make_group(evidence)
    most = as_int64(0)
    for i in range(n):
        most = max(most, start[i + 1] - start[i])
    room = most + capacity + 1
    options = LinkOptions(
        zeros(capacity, np.int64),
        zeros(capacity, np.int64),
        zeros(capacity, np.float64),
        zeros(room, np.float64),
        zeros(room, np.float64),
        zeros(most + 1, np.float64),
    )
    score, weight, within = options.score, options.weight, options.within
    for i in range(first, n):
        if used[USED] == capacity:
            return i
        slots = used[USED] + 1
        part = cut_off(evidence, walker, group, i)
        fit_regions(evidence, graph, walker, part, group, options, prior.regional)
        neighbours, own, log_within, old_score = weigh_links(graph, prior, walker, part, options)
        chosen = draw_candidate(score, weight, neighbours + slots, rng.random())
        if chosen < neighbours:
            target = as_int64(neighbour[start[i] + chosen])
            new = as_int64(labels[target])
            value[NOW] += score[chosen] - old_score
        else:
            new = chosen - neighbours
            pick = draw_candidate(within, weight, own + 1, rng.random())
            target = as_int64(i)
            if pick > 0:
                own = as_int64(0)
                for t in range(start[i], start[i + 1]):
                    if inside[neighbour[t]] == part.stamp:
                        own += 1
                        if own == pick:
                            target = as_int64(neighbour[t])
            value[NOW] += score[chosen] - log_within + within[pick] - old_score
            walker.tables[new] += 1
            used[TABLES] += 1
        link_up(evidence, walker, part, group, target, new)
    return n


@njit
def advance(
    evidence: LikelihoodTables,
    graph: CsrGraph,
    prior: LinkPrior,
    walker: LinkState,
    rng: np.random.Generator,
    burn_in: int,
    trace: Float64Array,
) -> LinkState:
    """Run ``len(trace)`` sweeps in place.

    ``trace[t]`` (3,) becomes log posterior, number of regions and the entropy of their sizes after sweep t. Returns the
    walker, with new arrays if slots ran out.
    """
    used, n = walker.used, walker.labels.size
    for t in range(trace.shape[0]):
        if used[USED] > 2 * used[REGIONS] + 4:
            tables, moved = walker.tables, compact_slots(walker.labels, walker.clusters, used)
            for k in range(moved.size):
                if moved[k] >= 0:
                    tables[moved[k]] = tables[k]
            for k in range(used[USED], tables.size):
                tables[k] = 0
        i = as_int64(0)
        while i < n:
            i = relink(evidence, graph, prior, walker, rng, i)
            if i < n:
                clusters = grow_clusters(walker.clusters, 2 * walker.clusters.size.size)
                tables = zeros(clusters.size.size, np.int64)
                tables[: walker.tables.size] = walker.tables
                walker = LinkState(
                    walker.link, walker.family, walker.labels, clusters, tables, walker.used, walker.sums
                )  # fmt: skip
        record_sweep(
            walker.sums, graph.left, graph.right, walker.labels, walker.clusters.size, used, burn_in, trace[t]
        )  # fmt: skip
    return walker
