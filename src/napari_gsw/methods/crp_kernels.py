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

import numpy as np

from napari_gsw.core.arrays import Floats, Ints, Longs
from napari_gsw.core.evidence.evidence_tables import Evidence
from napari_gsw.core.graph.region_graph import Adjacency
from napari_gsw.core.jit import as_int64, jit
from napari_gsw.core.sampler.chain_kernels import compact, note
from napari_gsw.core.sampler.moves.cluster_kernels import draw, gain, gather, gauss_part, grown
from napari_gsw.core.sampler.records import Clusters, RunningSums


@jit
def hang(link: Ints, child: Ints, younger: Ints, elder: Ints, i: int, target: int) -> None:
    """Point site i's link at `target` and enter i among the target's children."""
    link[i] = target
    first = child[target]
    younger[i] = first
    elder[i] = -1
    if first >= 0:
        elder[first] = i
    child[target] = i


@jit
def cut(link: Ints, child: Ints, younger: Ints, elder: Ints, i: int) -> None:
    """Take site i from among the children of its link's target."""
    if elder[i] >= 0:
        younger[elder[i]] = younger[i]
    else:
        child[link[i]] = younger[i]
    if younger[i] >= 0:
        elder[younger[i]] = elder[i]


@jit
def walk(child: Ints, younger: Ints, i: int, inside: Ints, stamp: int, found: Ints) -> int:
    """Write i and all sites whose links lead to it into `found` and stamp them; returns their number."""
    found[0] = i
    inside[i] = stamp
    count = as_int64(1)
    at = as_int64(0)
    while at < count:
        j = as_int64(child[found[at]])
        while j >= 0:
            if inside[j] != stamp:
                inside[j] = stamp
                found[count] = j
                count += 1
            j = as_int64(younger[j])
        at += 1
    return count


@jit
def relink(
    evidence: Evidence,
    graph: Adjacency,
    log_alpha: float,
    log_gamma: float,
    regional: bool,
    link: Ints,
    family: Ints,
    labels: Ints,
    clusters: Clusters,
    tables: Longs,
    used: Longs,
    value: Floats,
    rng: np.random.Generator,
    first: int,
) -> int:
    """Draw the links of sites `first` to n - 1 anew, one after the other, each with the region of what hangs on it.

    ``graph.beta`` holds log f_ij. ``family`` has the rows child, younger, elder, the stamps and the walk; ``used`` the
    first slot that was never used, the number of regions, the number of tables and the last stamp. Returns the site
    to go on from when slots have run out (n: all done).
    """
    site_start, word, count = evidence.site_start, evidence.word, evidence.times
    table, table_start, table_end, tail = evidence.table, evidence.table_start, evidence.table_end, evidence.tail
    site_moments, gauss, pixels = evidence.moments, evidence.gauss, evidence.pixels
    start, neighbour, edge, log_f = graph.start, graph.neighbour, graph.edge, graph.beta
    size, words, moments, cached = clusters.size, clusters.words, clusters.moments, clusters.gauss
    child, younger, elder, inside, found = family[0], family[1], family[2], family[3], family[4]
    n = labels.size
    capacity = size.size
    channels = gauss.size - 3
    group_word = np.zeros(table_start.size, np.uint32)
    group_count = np.zeros(table_start.size, np.uint32)
    group_moments = np.zeros(2 * channels)
    nothing = np.zeros(2 * channels)
    most = as_int64(0)
    for i in range(n):
        most = max(most, start[i + 1] - start[i])
    wanted = np.zeros(capacity, np.int64)  # regions that may be chosen
    noted = np.zeros(capacity, np.int64)  # the stamp of the last site that they were noted for
    fit = np.zeros(capacity)  # log p(y_A u R) - log p(y_R) of each
    score = np.zeros(most + capacity + 1)
    weight = np.zeros(most + capacity + 1)
    within = np.zeros(most + 1)
    gamma = math.exp(log_gamma)
    for i in range(first, n):
        if used[0] == capacity:
            return i
        slots = used[0] + 1

        # Cut the link, and take what hangs on i out of its region.
        old_link = as_int64(link[i])
        cut(link, child, younger, elder, i)
        used[3] += 1
        stamp = used[3]
        members = walk(child, younger, i, inside, stamp, found)
        old = as_int64(labels[i])
        whole_table = inside[old_link] == stamp
        if whole_table:
            tables[old] -= 1
            used[2] -= 1
        length = as_int64(0)
        for t in range(members):
            j = as_int64(found[t])
            length = gather(site_start, word, count, j, group_word, group_count, length)
            for c in range(2 * channels):
                group_moments[c] += site_moments[j, c]
        size[old] -= members
        for t in range(length):
            words[group_word[t], old] -= group_count[group_word[t]]
        if channels > 0:
            for c in range(2 * channels):
                moments[c, old] = moments[c, old] - group_moments[c] if size[old] > 0 else 0.0
            cached[old] = gauss_part(gauss, moments, old, as_int64(words[pixels, old]), nothing)
        if size[old] == 0:
            used[1] -= 1

        # How well it fits into each region that it may join.
        fresh = as_int64(0)
        while size[fresh] > 0:
            fresh += 1
        candidates = as_int64(0)
        if regional:
            for k in range(slots):
                if size[k] > 0 or k == fresh:
                    wanted[candidates] = k
                    candidates += 1
        else:
            wanted[0] = fresh
            candidates = as_int64(1)
            for t in range(start[i], start[i + 1]):
                k = as_int64(labels[neighbour[t]])
                if inside[neighbour[t]] != stamp and noted[k] != stamp:
                    noted[k] = stamp
                    wanted[candidates] = k
                    candidates += 1
        for c in range(candidates):
            fit[wanted[c]] = 0.0
        for t in range(length):
            d = group_word[t]
            extra = group_count[d]
            if tail[d, 0] == 0.0:  # a call for each word would take longer than all the rest
                for c in range(candidates):
                    at = table_start[d] + words[d, wanted[c]]
                    fit[wanted[c]] += table[at + extra] - table[at]
            else:
                for c in range(candidates):
                    m = as_int64(words[d, wanted[c]])
                    fit[wanted[c]] += gain(table, table_start, table_end, tail, d, m, as_int64(extra))
        if channels > 0:
            for c in range(candidates):
                k = wanted[c]
                total = as_int64(words[pixels, k] + group_count[pixels])
                fit[k] += gauss_part(gauss, moments, k, total, group_moments) - cached[k]

        # Weigh every link outside, and every region for a table of its own.
        options = as_int64(0)
        own = as_int64(0)
        top = log_alpha
        within[0] = log_alpha
        old_score = 0.0
        for t in range(start[i], start[i + 1]):
            j = as_int64(neighbour[t])
            f = log_f[edge[t]]
            if inside[j] == stamp:
                own += 1
                within[own] = f
                top = max(top, f)
                score[options] = -math.inf
            else:
                score[options] = f + fit[labels[j]]
                if j == old_link:
                    old_score = score[options]
            options += 1
        mass = 0.0
        for t in range(own + 1):
            mass += math.exp(within[t] - top)
        log_within = top + math.log(mass)
        log_all = math.log(gamma + used[2])
        for k in range(slots):
            if regional and size[k] > 0:
                score[options + k] = log_within + math.log(as_int64(tables[k])) - log_all + fit[k]
            elif k == fresh:
                score[options + k] = log_within + fit[k] + (log_gamma - log_all if regional else 0.0)
            else:
                score[options + k] = -math.inf
        if whole_table:
            # the region it came from is the free slot if nothing of it is left
            back = old if size[old] > 0 else fresh
            old_score = score[options + back] - log_within + (log_alpha if old_link == i else 0.0)
            if old_link != i:
                for t in range(start[i], start[i + 1]):
                    if neighbour[t] == old_link:
                        old_score += log_f[edge[t]]
        chosen = draw(score, weight, options + slots, rng.random())

        # Link it up and put it into the region that was drawn.
        if chosen < options:
            target = as_int64(neighbour[start[i] + chosen])
            new = as_int64(labels[target])
            value[0] += score[chosen] - old_score
        else:
            new = chosen - options
            pick = draw(within, weight, own + 1, rng.random())
            target = as_int64(i)
            if pick > 0:
                own = as_int64(0)
                for t in range(start[i], start[i + 1]):
                    if inside[neighbour[t]] == stamp:
                        own += 1
                        if own == pick:
                            target = as_int64(neighbour[t])
            value[0] += score[chosen] - log_within + within[pick] - old_score
            tables[new] += 1
            used[2] += 1
        if size[new] == 0:
            used[1] += 1
        if new == used[0]:
            used[0] += 1
        hang(link, child, younger, elder, i, target)
        size[new] += members
        for t in range(length):
            words[group_word[t], new] += group_count[group_word[t]]
            group_count[group_word[t]] = 0
        if channels > 0:
            for c in range(2 * channels):
                moments[c, new] += group_moments[c]
                group_moments[c] = 0.0
            cached[new] = gauss_part(gauss, moments, new, as_int64(words[pixels, new]), nothing)
        if new != old:
            for t in range(members):
                labels[found[t]] = new
    return n


@jit
def advance(
    evidence: Evidence,
    graph: Adjacency,
    log_alpha: float,
    log_gamma: float,
    regional: bool,
    link: Ints,
    family: Ints,
    labels: Ints,
    clusters: Clusters,
    tables: Longs,
    used: Longs,
    posterior: RunningSums,
    rng: np.random.Generator,
    burn_in: int,
    trace: Floats,
) -> tuple[Clusters, Longs]:
    """Run ``len(trace)`` sweeps in place; ``trace[t]`` becomes log posterior, number of regions and the entropy of
    their sizes after sweep t.

    Returns the clusters and the numbers of tables in them, in new arrays if they ran out of slots.
    """
    value = posterior.value
    n = labels.size
    for t in range(trace.shape[0]):
        if used[0] > 2 * used[1] + 4:
            moved = compact(labels, clusters, used)
            for k in range(moved.size):
                if moved[k] >= 0:
                    tables[moved[k]] = tables[k]
            for k in range(used[0], tables.size):
                tables[k] = 0
        i = as_int64(0)
        while i < n:
            i = relink(
                evidence, graph, log_alpha, log_gamma, regional, link, family, labels, clusters, tables, used, value,
                rng, i,
            )  # fmt: skip
            if i < n:
                clusters = grown(clusters, 2 * clusters.size.size)
                wider = np.zeros(clusters.size.size, np.int64)
                wider[: tables.size] = tables
                tables = wider
        note(posterior, graph, labels, clusters.size, used, burn_in, trace[t])
    return clusters, tables
