"""Inner loops of the greedy ascent: single sites, and whole clusters."""

from __future__ import annotations

import math

import numpy as np

from napari_gsw.core.arrays import Ints
from napari_gsw.core.evidence.evidence_tables import Evidence
from napari_gsw.core.graph.region_graph import Adjacency
from napari_gsw.core.jit import as_int64, jit
from napari_gsw.core.model.priors import PriorTables
from napari_gsw.core.sampler.moves.cluster_kernels import (
    add_gains,
    add_site,
    clear_slot,
    copy_slot,
    gather,
    gauss_part,
    grown,
    log_marginal,
    merge_slots,
    remove_site,
)
from napari_gsw.core.sampler.moves.split_merge_kernels import attractions
from napari_gsw.core.sampler.records import Clusters, Workspace


@jit
def lift_sites(
    evidence: Evidence,
    graph: Adjacency,
    tables: PriorTables,
    seeds: Ints,
    labels: Ints,
    clusters: Clusters,
    work: Workspace,
    least: float,
) -> tuple[Clusters, float]:
    """Move each site once, in order, to the cluster where the log posterior is highest if that gains `least`.

    Returns the clusters, in new arrays if they ran out of slots, and the gain.
    """
    log_v, log_w = tables.log_v, tables.log_w
    used = work.slots
    channels = evidence.gauss.size - 3
    group_word = np.zeros(evidence.table_start.size, np.uint32)
    group_count = np.zeros(evidence.table_start.size, np.uint32)
    rise = 0.0
    for i in range(labels.size):
        old = as_int64(labels[i])
        left = clusters.size[old] - 1
        if seeds[i] >= 0 or (left > 0 and log_w[left] == -math.inf):
            continue
        if used[0] == clusters.size.size:
            clusters = grown(clusters, 2 * clusters.size.size)
        slots = used[0] + 1
        remove_site(evidence, clusters, i, old)
        score = np.zeros(slots)
        for t in range(graph.start[i], graph.start[i + 1]):
            score[labels[graph.neighbour[t]]] += graph.beta[graph.edge[t]]
        length = gather(evidence.site_start, evidence.word, evidence.times, i, group_word, group_count, as_int64(0))
        add_gains(
            evidence.table, evidence.table_start, evidence.table_end, evidence.tail, clusters.words, group_word,
            group_count, length, slots, score,
        )  # fmt: skip
        k_left = used[1] if left > 0 else used[1] - 1
        fresh = -1
        own = evidence.moments[i].copy()
        for k in range(slots):
            m = clusters.size[k]
            if m == 0 and fresh >= 0:
                score[k] = -math.inf
                continue
            if m == 0:
                fresh = k
                score[k] += log_v[k_left + 1] + log_w[1]
            else:
                score[k] += log_v[k_left] + log_w[m + 1] - log_w[m]
            if channels > 0:
                total = as_int64(clusters.words[evidence.pixels, k] + group_count[evidence.pixels])
                score[k] += gauss_part(evidence.gauss, clusters.moments, k, total, own) - clusters.gauss[k]
        for t in range(length):
            group_count[group_word[t]] = 0
        back = old if left > 0 else fresh
        new = back
        for k in range(slots):
            if score[k] > score[new]:
                new = k
        if score[new] - score[back] < least:
            new = back
        rise += score[new] - score[back]
        add_site(evidence, clusters, i, new)
        labels[i] = new
        used[1] = k_left + 1 if new == fresh else k_left
        used[0] = max(used[0], new + 1)
    return clusters, rise


@jit
def merge_clusters(
    evidence: Evidence,
    graph: Adjacency,
    tables: PriorTables,
    seeds: Ints,
    labels: Ints,
    clusters: Clusters,
    work: Workspace,
    least: float,
) -> float:
    """Merge each cluster once, in order, with the one that raises the log posterior most if that gains `least`.

    Returns the gain.
    """
    log_v, log_w = tables.log_v, tables.log_w
    used, place = work.slots, work.place
    rise = 0.0
    for a in range(used[0]):
        if clusters.size[a] == 0 or used[1] == 1:
            continue
        for i in range(labels.size):
            place[i] = 0 if labels[i] == a else -1
        copy_slot(clusters, a, work.blocks, as_int64(0))
        clear_slot(work.blocks, as_int64(1))
        score = np.zeros(used[0] + 1)
        attractions(evidence, graph, log_w, seeds, labels, clusters, work, as_int64(a), 1.0, score)
        best = as_int64(0)
        for k in range(used[0]):
            if score[k] > score[best]:
                best = k
        alone = log_marginal(evidence, clusters, a) + log_w[clusters.size[a]]
        gain = score[best] - alone + log_v[used[1] - 1] - log_v[used[1]]
        if gain < least:
            continue
        merge_slots(evidence, clusters, a, best)
        used[1] -= 1
        for i in range(labels.size):
            if place[i] == 0:
                labels[i] = best
        rise += gain
    return rise
