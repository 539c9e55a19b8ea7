"""Greedy ascent from a state to a local maximum of the posterior."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from napari_gsw.core.jit import as_int64, njit, zeros
from napari_gsw.core.model.problem import Problem, log_posterior
from napari_gsw.core.partitions import canonical_labels
from napari_gsw.core.sampler.bonds import constant_bonds
from napari_gsw.core.sampler.chain import restart_from, start_chain
from napari_gsw.core.sampler.moves.cluster_kernels import (
    add_count_gains,
    add_site,
    clear_slot,
    copy_slot,
    count_pixels,
    grow_state,
    log_gaussian_marginal,
    log_marginal,
    merge_slots,
    remove_site,
)
from napari_gsw.core.sampler.moves.split_merge_kernels import score_merges
from napari_gsw.core.sampler.options import SamplerOptions
from napari_gsw.core.sampler.snapshot import State, make_readonly
from napari_gsw.core.sampler.state import CLUSTERS, USED, ChainState, Target

# Gains below this are rounding.
MIN_GAIN = 1e-8


def climb_to_maximum(problem: Problem, labels: ArrayLike, seeds: ArrayLike | None = None) -> State:
    """Climb to a state that no move of a site and no merge of two clusters improves, without any random draw.

    In turns, sites move in order to their best cluster or one of their own until none moves, and each cluster merges
    with the one that gains most. `labels` (n,) must respect the `seeds` (n,).

    Examples
    --------
    >>> problem = Problem.from_counts([[9, 0], [9, 0], [0, 9], [0, 9]], [(0, 1), (1, 2), (2, 3)], phi=2.0)
    >>> climb_to_maximum(problem, [0, 1, 2, 3]).labels.tolist()
    [0, 0, 1, 1]
    """
    chain = start_chain(problem, SamplerOptions(constant_bonds(problem, 0.0)), 0, labels)
    if seeds is not None:
        chain = restart_from(chain, labels, seeds, 0)
    target, state = chain.target, chain.state
    has_gained = True
    while has_gained:
        state, gain = move_sites(target, state, MIN_GAIN)
        has_gained = gain > 0 or merge_clusters(target, state, MIN_GAIN) > 0
    best = make_readonly(canonical_labels(state.labels))
    return State(0, best, log_posterior(problem, best))


@njit
def move_sites(target: Target, state: ChainState, min_gain: float) -> tuple[ChainState, float]:
    """Move each site once, in order, to the cluster of the highest log posterior if that gains `min_gain`.

    Returns the state, with new arrays if slots ran out, and the gain.
    """
    evidence, graph, seeds, field = target.evidence, target.graph, target.seeds, target.field
    log_v, log_w = target.prior.log_v, target.prior.log_w
    labels, used = state.labels, state.scratch.slots
    total_gain = 0.0
    for i in range(labels.size):
        clusters = state.clusters
        old = as_int64(labels[i])
        left = clusters.size[old] - 1
        if seeds[i] >= 0 or (left > 0 and log_w[left] == -math.inf):
            continue
        if used[USED] == clusters.size.size:
            state = grow_state(state, 2 * clusters.size.size)
            clusters = state.clusters
        slots = used[USED] + 1
        if left > 0:
            remove_site(evidence, clusters, i, old)
        else:
            clear_slot(clusters, old)
        score = zeros(slots, np.float64)
        for t in range(graph.start[i], graph.start[i + 1]):
            score[labels[graph.neighbour[t]]] += graph.beta[graph.edge[t]]
        for s in range(field.anchor.size):
            score[labels[field.anchor[s]]] += field.pull[i, s]
        begin, end, pixels = evidence.site_start[i], evidence.site_start[i + 1], count_pixels(evidence, i)
        add_count_gains(evidence, clusters.words, evidence.word, evidence.times, begin, end, as_int64(0), slots, score)
        k_left = used[CLUSTERS] if left > 0 else used[CLUSTERS] - 1
        fresh = -1
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
            score[k] += log_gaussian_marginal(evidence, clusters, k, pixels, evidence.moments, i) - clusters.gauss[k]
        stay = old if left > 0 else fresh
        new = stay
        for k in range(slots):
            if score[k] > score[new]:
                new = k
        if score[new] - score[stay] < min_gain:
            new = stay
        total_gain += score[new] - score[stay]
        add_site(evidence, clusters, i, new)
        labels[i] = new
        used[CLUSTERS] = k_left + 1 if new == fresh else k_left
        used[USED] = max(used[USED], new + 1)
    return state, total_gain


@njit
def merge_clusters(target: Target, state: ChainState, min_gain: float) -> float:
    """Merge each cluster once, in order, with the one that gains most if that is `min_gain`; returns the gain."""
    log_v, log_w = target.prior.log_v, target.prior.log_w
    labels, clusters, scratch = state.labels, state.clusters, state.scratch
    used, place = scratch.slots, scratch.place
    total_gain = 0.0
    for a in range(used[USED]):
        if clusters.size[a] == 0 or used[CLUSTERS] == 1:
            continue
        for i in range(labels.size):
            place[i] = 0 if labels[i] == a else -1
        copy_slot(clusters, a, scratch.blocks, as_int64(0))
        clear_slot(scratch.blocks, as_int64(1))
        score = zeros(used[USED] + 1, np.float64)
        score_merges(target, state, as_int64(a), 1.0, score)
        best = as_int64(0)
        for k in range(used[USED]):
            if score[k] > score[best]:
                best = k
        alone = log_marginal(target.evidence, clusters, a) + log_w[clusters.size[a]]
        gain = score[best] - alone + log_v[used[CLUSTERS] - 1] - log_v[used[CLUSTERS]]
        if gain < min_gain:
            continue
        merge_slots(target.evidence, clusters, a, best)
        used[CLUSTERS] -= 1
        for i in range(labels.size):
            if place[i] == 0:
                labels[i] = best
        total_gain += gain
    return total_gain
