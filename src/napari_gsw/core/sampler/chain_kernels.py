"""Many sweeps: the chain's outermost loop, and what is kept of the states it comes to."""

from __future__ import annotations

import math

import numpy as np

from napari_gsw.core.array_types import Float64Array, Int32Array, Int64Array
from napari_gsw.core.jit import as_index, as_int64, full, njit, njit_inner, njit_merged
from napari_gsw.core.partitions import renumber_in_place
from napari_gsw.core.sampler.moves.cluster_kernels import clear_slot, copy_slot, grow_state
from napari_gsw.core.sampler.moves.regroup_kernels import regroup
from napari_gsw.core.sampler.moves.split_merge_kernels import split_or_merge
from napari_gsw.core.sampler.moves.sweep_kernels import draw_bonds, update_bonded_groups
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
    """Close the gaps that vanished clusters have left among the slots; returns where each slot went, -1 for a gap."""
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


@njit_inner
def size_entropy(size: Int64Array, slots: int, n: int) -> float:
    """Entropy in bits of the cluster of a site drawn at random: 0 for one cluster, log2 n for singletons."""
    bits = 0.0
    for k in range(slots):
        if size[k] > 0:
            share = size[k] / n
            bits -= share * math.log2(share)
    return bits


@njit
def inverse_temperature_at(annealing: Annealing, done: int) -> float:
    """Inverse temperature of the sweep that follows `done` others."""
    if done >= annealing.sweeps:
        return annealing.coldness
    return float(annealing.coldness * annealing.hot ** (done / annealing.sweeps - 1.0))


@njit
def is_full_sweep(share: float, done: int) -> bool:
    """Whether the sweep that follows `done` others weighs every cluster: the first does, and then a `share` of them.

    By the number of the sweep alone: what looked at the state would bias the chain.
    """
    return math.floor(share * done) > math.floor(share * (done - 1))


@njit_inner
def record_sweep(
    sums: RunningSums,
    left: Int32Array,
    right: Int32Array,
    labels: Int32Array,
    size: Int64Array,
    used: Int64Array,
    burn_in: int,
    row: Float64Array,
) -> None:
    """Count a sweep, keep its state if it is the best so far, and after the burn-in add it to the running sums.

    Parameters
    ----------
    left, right : (m,) the two ends of each edge. labels : (n,) slots. size : (slots,). used : (2,).
    row : (3,) of the trace; becomes log posterior, number of clusters and the entropy of their sizes.
    """
    row[LOG_POSTERIOR] = sums.value[NOW]
    row[N_CLUSTERS] = used[CLUSTERS]
    row[SIZE_ENTROPY] = size_entropy(size, used[USED], labels.size)
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


@njit
def record_draw(draws: DrawBuffer, labels: Int32Array, since: int) -> None:
    """Keep the partition if the number of sweeps since the burn-in is one at which a draw is due."""
    rows, taken = draws.rows, draws.taken
    if since > 0 and since % taken[GAP] == 0:
        renumber_in_place(labels, rows[taken[WRITTEN]])
        taken[WRITTEN] += 1


@njit_merged
def sweep(
    target: Target, bonds: Bonds, walker: ChainState, schedule: Schedule, coldness: float, rng: np.random.Generator
) -> ChainState:
    """One sweep in place and the whole-cluster moves after it; returns the walker, with new arrays if slots ran out."""
    labels, used, value = walker.labels, walker.work.slots, walker.sums.value
    if used[USED] > 2 * used[CLUSTERS] + 4:
        compact_slots(labels, walker.clusters, used)
    full = is_full_sweep(schedule.full, walker.sums.counted[SWEEPS])
    x = draw_bonds(target, bonds, walker, rng)
    root = as_int64(0)
    while root < labels.size:
        root = update_bonded_groups(target, bonds, walker, rng, x, coldness, full, root)
        if root < labels.size:
            walker = grow_state(walker, 2 * walker.clusters.size.size)
    for _ in range(schedule.regroups):
        room = used[USED] + walker.work.blocks.size.size
        if room > walker.clusters.size.size:
            walker = grow_state(walker, 2 * room)
        value[NOW] += regroup(target, walker, schedule.near, coldness, rng)
    return walker


@njit
def advance(
    target: Target,
    bonds: Bonds,
    walker: ChainState,
    draws: DrawBuffer,
    schedule: Schedule,
    splits: Moves | None,
    rng: np.random.Generator,
    trace: Float64Array,
) -> ChainState:
    """Run ``len(trace)`` sweeps in place, or as many as are done when someone says stop.

    Parameters
    ----------
    draws : has room for as many partitions as are due.
    splits : ``splits.splits`` moves that split or merge after each sweep; None for none, which compiles none.
    trace : (sweeps, 3); row t becomes log posterior, number of clusters and the entropy of their sizes after sweep t.
        If ``schedule.stop`` is set meanwhile, from another thread, the rows after the present one stay as they are.

    Returns
    -------
    The walker, with new arrays if slots ran out.
    """
    used, value, counted = walker.work.slots, walker.sums.value, walker.sums.counted
    left, right = target.graph.left, target.graph.right
    for t in range(trace.shape[0]):
        coldness = inverse_temperature_at(schedule.annealing, counted[SWEEPS])
        walker = sweep(target, bonds, walker, schedule, coldness, rng)
        if splits is not None:
            for _ in range(splits.splits):
                if used[USED] == walker.clusters.size.size:
                    walker = grow_state(walker, 2 * walker.clusters.size.size)
                value[NOW] += split_or_merge(target, walker, splits, coldness, rng)
        record_sweep(
            walker.sums, left, right, walker.labels, walker.clusters.size, used, schedule.burn_in, trace[t]
        )  # fmt: skip
        record_draw(draws, walker.labels, counted[SWEEPS] - schedule.burn_in)
        if schedule.stop[0]:
            break
    return walker
