"""Many sweeps: the outermost loop of a chain, and its running sums."""

from __future__ import annotations

import math

import numpy as np

from napari_gsw.core.array_types import Float64Array, Int32Array, Int64Array
from napari_gsw.core.jit import as_index, as_int64, full, njit, njit_inner, njit_loop
from napari_gsw.core.partitions import renumber_in_place
from napari_gsw.core.sampler.cluster_statistics import clear_slot, copy_slot, grow_state, make_group
from napari_gsw.core.sampler.moves.regroup_kernels import regroup
from napari_gsw.core.sampler.moves.split_merge_kernels import split_or_merge
from napari_gsw.core.sampler.moves.sweep_kernels import draw_bonds, make_candidates, update_bonded_groups
from napari_gsw.core.sampler.state import (
    BEST,
    BEST_SWEEP,
    CLUSTERS,
    COUNTED,
    GAP,
    LOG_POSTERIOR,
    N_CLUSTERS,
    NOW,
    SIZE_ENTROPY,
    SWEEPS,
    USED,
    WRITTEN,
    Annealing,
    Bonds,
    ChainState,
    Clusters,
    DrawBuffer,
    Moves,
    RunningSums,
    Schedule,
    Target,
)


@njit_inner
def compact_slots(labels: Int32Array, clusters: Clusters, used: Int64Array) -> Int32Array:
    """Close the gaps among the slots; returns the new slot of each, -1 for a gap."""
    moved = full(used[USED], -1, np.int32)
    count = as_int64(0)
    for k in range(used[USED]):
        if clusters.size[k] > 0:
            if k != count:
                copy_slot(clusters, k, clusters, count)
            moved[k] = count
            count += 1
    for k in range(count, used[USED]):
        clear_slot(clusters, k)
    used[USED] = count
    for i in range(labels.size):
        labels[i] = moved[labels[i]]
    return moved


@njit_loop
def inverse_temperature_at(annealing: Annealing, done: int) -> float:
    """Return the inverse temperature of the sweep after `done` others."""
    if done >= annealing.sweeps:
        return annealing.inverse_temperature
    return float(annealing.inverse_temperature * annealing.hot ** (done / annealing.sweeps - 1.0))


@njit_loop
def is_full_sweep(share: float, done: int) -> bool:
    """Return whether the sweep after `done` others scores every cluster: the first does, and then a `share` of them.

    It depends on the number of the sweep alone: what depends on the state would bias the chain.
    """
    return math.floor(share * done) > math.floor(share * (done - 1))


@njit_loop
def record_sweep(
    sums: RunningSums, left: Int32Array, right: Int32Array, labels: Int32Array, size: Int64Array, used: Int64Array,
    burn_in: int, row: Float64Array,
) -> None:  # fmt: skip
    """Count a sweep, keep its state if it is the best so far, and after the burn-in add it to the running sums.

    `left` and `right` (m,) are the ends of the edges, `size` and `used` those of the slots, and `row` (3,) of the trace
    becomes log posterior, number of clusters and the entropy of their sizes in bits.
    """
    row[LOG_POSTERIOR] = sums.value[NOW]
    row[N_CLUSTERS] = used[CLUSTERS]
    row[SIZE_ENTROPY] = 0.0
    for k in range(used[USED]):
        if size[k] > 0:
            share = size[k] / labels.size
            row[SIZE_ENTROPY] -= share * math.log2(share)
    value, best, together, counted = sums.value, sums.best, sums.together, sums.counted
    counted[SWEEPS] += 1
    if value[NOW] > value[BEST]:
        value[BEST] = value[NOW]
        counted[BEST_SWEEP] = counted[SWEEPS]
        for i in range(labels.size):
            best[i] = labels[i]
    if counted[SWEEPS] > burn_in:
        counted[COUNTED] += 1
        for e in range(left.size):
            together[e] += labels[as_index(left[e])] == labels[as_index(right[e])]


@njit_inner
def record_draw(draws: DrawBuffer, labels: Int32Array, since: int) -> None:
    """Keep the partition if a draw is due that many sweeps after the burn-in."""
    rows, taken = draws.rows, draws.taken
    if since > 0 and since % taken[GAP] == 0:
        renumber_in_place(labels, rows[taken[WRITTEN]])
        taken[WRITTEN] += 1


@njit
def advance(
    target: Target, bonds: Bonds, state: ChainState, draws: DrawBuffer, schedule: Schedule, splits: Moves | None,
    rng: np.random.Generator, trace: Float64Array,
) -> ChainState:  # fmt: skip
    """Make ``len(trace)`` sweeps in place, or fewer after a stop; returns the state, with new arrays if slots ran out.

    `draws` has room for the partitions that are due. `splits` are the split-merge moves after each sweep; None compiles
    none. Row t of `trace` (sweeps, 3) becomes log posterior, number of clusters and the entropy of their sizes after
    sweep t. ``schedule.stop`` may be set from another thread; the rows after the current sweep then stay as they are.
    """
    labels, used, value, counted = state.labels, state.scratch.slots, state.sums.value, state.sums.counted
    left, right, group = target.graph.left, target.graph.right, make_group(target.evidence)
    for t in range(trace.shape[0]):
        power = inverse_temperature_at(schedule.annealing, counted[SWEEPS])
        if used[USED] > 2 * used[CLUSTERS] + 4:
            compact_slots(labels, state.clusters, used)
        scan_all = is_full_sweep(schedule.full, counted[SWEEPS])
        x = draw_bonds(target, bonds, state, rng)
        root = as_int64(0)
        while True:
            candidates = make_candidates(state.clusters.size.size)
            root = update_bonded_groups(target, bonds, state, rng, x, power, scan_all, root, group, candidates)
            if root == labels.size:
                break
            state = grow_state(state, 2 * state.clusters.size.size)
        for _ in range(schedule.regroups):
            room = used[USED] + state.scratch.blocks.size.size
            if room > state.clusters.size.size:
                state = grow_state(state, 2 * room)
            value[NOW] += regroup(target, state, schedule.near, power, rng)
        if splits is not None:
            for _ in range(splits.splits):
                if used[USED] == state.clusters.size.size:
                    state = grow_state(state, 2 * state.clusters.size.size)
                value[NOW] += split_or_merge(target, state, splits, power, rng)
        record_sweep(state.sums, left, right, labels, state.clusters.size, used, schedule.burn_in, trace[t])
        record_draw(draws, labels, counted[SWEEPS] - schedule.burn_in)
        if schedule.stop[0]:
            break
    return state
