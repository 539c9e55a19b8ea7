"""Kernels of the distance-dependent Chinese restaurant processes.

Each site links to a neighbour or to itself, and sites connected by links, in either direction, sit at one table. In the
rdd-CRP a Chinese restaurant process assigns tables to regions; in the dd-CRP each table is a region. Regions are stored
and scored like the clusters of :mod:`napari_gsw.core.sampler.moves.sweep_kernels`.

If the link of site i is cut, the sites with links that lead to i form a part A. If the link pointed outside A, the cut
leaves two tables, otherwise one. The link of i and the region of A are then drawn jointly from their conditional, so no
move is rejected; R is a region without A, and T the number of tables without A:

    to a neighbour j outside     f_ij p(y_A u R) / p(y_R), with R the region of j, whose table A joins
    to a neighbour inside, or i  f_ij (alpha for i itself) times the sum over the regions that a table of its own may
                                 get: R with weight tables(R) / (gamma + T) p(y_A u R) / p(y_R), or a new one with
                                 gamma / (gamma + T) p(y_A); in the dd-CRP p(y_A), always a new one
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from napari_gsw.core.array_types import Float64Array, Int32Array, Int64Array
from napari_gsw.core.graph.region_graph import CsrGraph
from napari_gsw.core.jit import as_int64, full, njit, njit_inline, njit_inner, zeros
from napari_gsw.core.likelihood.tables import LikelihoodTables
from napari_gsw.core.sampler.chain_kernels import compact_slots, record_sweep
from napari_gsw.core.sampler.moves.cluster_kernels import (
    GroupCounts,
    draw_candidate,
    fill_weights,
    gather_words,
    log_count_gain,
    log_gaussian_marginal,
    make_group,
    update_gaussian,
)
from napari_gsw.core.sampler.state import CLUSTERS, NOW, USED, Clusters, RunningSums

# Entry of LinkState.used beside USED and CLUSTERS.
TABLES = 2


class LinkPrior(NamedTuple):
    """Weights of links and of regions."""

    log_alpha: float  # of a link to the site itself; the graph has log f_ij in place of beta
    log_gamma: float  # of a new region
    regional: bool  # rdd-CRP


class LinkState(NamedTuple):
    """State of a chain of links."""

    link: Int32Array  # (n,) the site that each site points at
    labels: Int32Array  # (n,) slot of each site's region
    clusters: Clusters  # at least n + 1 slots
    tables: Int64Array  # (slots,) tables of each region
    used: Int64Array  # (3,) USED: the first slot that was never used; CLUSTERS: regions; TABLES
    sums: RunningSums


@njit_inline
def collect_part(graph: CsrGraph, link: Int32Array, i: int, inside: Int64Array, part: Int32Array) -> int:
    """Write i and all sites whose links lead to it into `part`, set ``inside`` to i there, and return their number."""
    part[0] = i
    inside[i] = i
    members = as_int64(1)
    at = as_int64(0)
    while at < members:
        target = part[at]
        for t in range(graph.start[target], graph.start[target + 1]):
            j = as_int64(graph.neighbour[t])
            if link[j] == target and inside[j] != i:
                inside[j] = i
                part[members] = j
                members += 1
        at += 1
    return members


@njit_inline
def gather_part(evidence: LikelihoodTables, part: Int32Array, members: int, group: GroupCounts) -> int:
    """Sum the words and moments of the part, and return the number of its different words."""
    length = as_int64(0)
    for c in range(group.moments.size):
        group.moments[0, c] = 0.0
    for t in range(members):
        length = gather_words(evidence, as_int64(part[t]), group.word, group.sums, length)
        for c in range(group.moments.size):
            group.moments[0, c] += evidence.moments[part[t], c]
    return length


@njit_inline
def shift_part(
    evidence: LikelihoodTables, state: LinkState, k: int, members: int, group: GroupCounts, length: int, sign: int
) -> None:
    """Add the part to slot k, or remove it with sign -1."""
    clusters, used = state.clusters, state.used
    words, moments = clusters.words, clusters.moments
    used[CLUSTERS] += as_int64(clusters.size[k] == 0)
    clusters.size[k] += sign * members
    used[CLUSTERS] -= as_int64(clusters.size[k] == 0)
    used[USED] = max(used[USED], k + 1)
    for t in range(length):
        d = group.word[t]
        words[d, k] = as_int64(words[d, k]) + sign * as_int64(group.sums[d])
    if group.moments.size > 0:
        for c in range(group.moments.size):
            moments[c, k] = moments[c, k] + sign * group.moments[0, c] if clusters.size[k] > 0 else 0.0
        update_gaussian(evidence, clusters, k)


@njit_inline
def log_gain(evidence: LikelihoodTables, clusters: Clusters, group: GroupCounts, length: int, k: int) -> float:
    """Return log p(y_A u R) - log p(y_R) of the region in slot k."""
    words, gain = clusters.words, 0.0
    for t in range(length):
        d = group.word[t]
        gain += log_count_gain(evidence, d, as_int64(words[d, k]), as_int64(group.sums[d]))
    if group.moments.size > 0:
        pixels = as_int64(group.sums[evidence.pixels])
        gain += log_gaussian_marginal(evidence, clusters, k, pixels, group.moments, as_int64(0)) - clusters.gauss[k]
    return gain


@njit_inner
def relink(
    evidence: LikelihoodTables, graph: CsrGraph, prior: LinkPrior, state: LinkState, rng: np.random.Generator
) -> None:
    """Resample the links of all sites in order, each with the region of its part; ``graph.beta`` holds log f_ij."""
    start, neighbour, edge, log_f = graph.start, graph.neighbour, graph.edge, graph.beta
    link, labels, clusters, tables, used, value = (
        state.link, state.labels, state.clusters, state.tables, state.used, state.sums.value,
    )  # fmt: skip
    size, n, slots = clusters.size, labels.size, clusters.size.size
    group = make_group(evidence)
    part, inside = zeros(n, np.int32), full(n, -1, np.int64)
    fit, own, weight = zeros(slots, np.float64), zeros(slots, np.float64), zeros(slots, np.float64)
    fitted = full(slots, -1, np.int64)  # the site for which `fit` of a slot was computed
    score = zeros(n, np.float64)  # of the neighbours, then of the site itself
    for i in range(n):
        members = collect_part(graph, link, i, inside, part)
        length = gather_part(evidence, part, members, group)
        old, old_link = as_int64(labels[i]), as_int64(link[i])
        was_table = as_int64(inside[old_link] == i)
        shift_part(evidence, state, old, members, group, length, -1)
        tables[old] -= was_table
        used[TABLES] -= was_table
        fresh = as_int64(0)
        while size[fresh] > 0:
            fresh += 1

        # own: log weights of the regions that a table of its own may get
        choices = used[USED] + 1
        log_all = math.log(math.exp(prior.log_gamma) + used[TABLES]) if prior.regional else 0.0
        top = -math.inf
        for k in range(choices):
            own[k] = -math.inf
            if k == fresh or (prior.regional and size[k] > 0):
                fitted[k] = i
                fit[k] = log_gain(evidence, clusters, group, length, k)
                log_share = math.log(as_int64(tables[k])) if k != fresh else prior.log_gamma
                own[k] = fit[k] + (log_share - log_all if prior.regional else 0.0)
                top = max(top, own[k])
        log_own = top + math.log(fill_weights(own, weight, choices, top))

        degree = start[i + 1] - start[i]
        score[degree] = prior.log_alpha + log_own
        old_f = prior.log_alpha
        for t in range(degree):
            j = as_int64(neighbour[start[i] + t])
            f = log_f[edge[start[i] + t]]
            if j == old_link:
                old_f = f
            if inside[j] == i:
                score[t] = f + log_own
            else:
                k = as_int64(labels[j])
                if fitted[k] != i:
                    fitted[k] = i
                    fit[k] = log_gain(evidence, clusters, group, length, k)
                score[t] = f + fit[k]
        chosen = draw_candidate(score, weight, degree + 1, rng.random())

        # The former region is the free slot if nothing is left of it.
        value[NOW] -= old_f + (own[old if size[old] > 0 else fresh] if was_table else fit[old])
        link[i] = neighbour[start[i] + chosen] if chosen < degree else i
        if inside[link[i]] == i:
            new = draw_candidate(own, weight, choices, rng.random())
            value[NOW] += score[chosen] - log_own + own[new]
            tables[new] += 1
            used[TABLES] += 1
        else:
            new = as_int64(labels[link[i]])
            value[NOW] += score[chosen]
        shift_part(evidence, state, new, members, group, length, 1)
        for t in range(length):
            group.sums[group.word[t]] = 0
        for t in range(members):
            labels[part[t]] = new


@njit
def advance(
    evidence: LikelihoodTables, graph: CsrGraph, prior: LinkPrior, state: LinkState, rng: np.random.Generator,
    burn_in: int, trace: Float64Array,
) -> None:  # fmt: skip
    """Run ``len(trace)`` sweeps in place.

    ``trace[t]`` (3,) becomes log posterior, number of regions and the entropy of their sizes after sweep t.
    """
    used, tables = state.used, state.tables
    for t in range(trace.shape[0]):
        if used[USED] > 2 * used[CLUSTERS] + 4:
            moved = compact_slots(state.labels, state.clusters, used)
            for k in range(moved.size):
                if moved[k] >= 0:
                    tables[moved[k]] = tables[k]
            tables[used[USED] :] = 0
        relink(evidence, graph, prior, state, rng)
        record_sweep(
            state.sums, graph.left, graph.right, state.labels, state.clusters.size, used, burn_in, trace[t]
        )  # fmt: skip
