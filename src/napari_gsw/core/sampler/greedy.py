"""Greedy ascent from a state to a local maximum of the posterior."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from napari_gsw.core.jit import as_int64, njit, zeros
from napari_gsw.core.model.problem import Problem, log_posterior
from napari_gsw.core.partitions import canonical_labels
from napari_gsw.core.sampler.bonds import constant_bonds
from napari_gsw.core.sampler.chain import ENDLESS, restart_from, start_chain, step
from napari_gsw.core.sampler.cluster_statistics import clear_slot, copy_slot, log_marginal, merge_slots
from napari_gsw.core.sampler.moves.split_merge_kernels import score_merges
from napari_gsw.core.sampler.moves.sweep_kernels import MIN_GAIN
from napari_gsw.core.sampler.options import SamplerOptions
from napari_gsw.core.sampler.snapshot import State, make_readonly
from napari_gsw.core.sampler.state import CLUSTERS, NOW, USED, Annealing, ChainState, Target

# A sweep moves each site to its best cluster.
ZERO_TEMPERATURE = Annealing(math.inf, 1.0, 0)


def climb_to_maximum(problem: Problem, labels: ArrayLike, seeds: ArrayLike | None = None) -> State:
    """Climb to a state that no move of a site and no merge of two clusters improves; nothing is left to chance.

    In turns, sites move in order to their best cluster or one of their own until none moves, and each cluster merges
    with the one that gains most. `labels` (n,) must respect the `seeds` (n,).

    Examples
    --------
    >>> problem = Problem.from_counts([[9, 0], [9, 0], [0, 9], [0, 9]], [(0, 1), (1, 2), (2, 3)], phi=2.0)
    >>> climb_to_maximum(problem, [0, 1, 2, 3]).labels.tolist()
    [0, 0, 1, 1]
    """
    options = SamplerOptions(constant_bonds(problem, 0.0), annealing=ZERO_TEMPERATURE, burn_in=ENDLESS)
    chain = start_chain(problem, options, 0, labels)
    if seeds is not None:
        chain = restart_from(chain, labels, seeds, ENDLESS)
    value, has_gained = chain.sums.value, True
    while has_gained:
        value[NOW] = 0.0
        step(chain, 1)
        has_gained = value[NOW] > 0 or merge_clusters(chain.target, chain.state, MIN_GAIN) > 0
    best = make_readonly(canonical_labels(chain.labels))
    return State(0, best, log_posterior(problem, best))


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
