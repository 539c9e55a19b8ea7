"""Many sweeps: the chain's outermost loop, and what is kept of the states it comes to."""

from __future__ import annotations

import math

import numpy as np

from napari_gsw.core.arrays import Floats, Ints, Longs
from napari_gsw.core.evidence.evidence_tables import Evidence
from napari_gsw.core.graph.region_graph import Adjacency
from napari_gsw.core.jit import as_index, as_int64, jit
from napari_gsw.core.model.partition_kernels import renumber
from napari_gsw.core.model.priors import PriorTables
from napari_gsw.core.sampler.moves.cluster_kernels import clear_slot, copy_slot, grown
from napari_gsw.core.sampler.moves.regroup_kernels import regroup
from napari_gsw.core.sampler.moves.split_merge_kernels import split_or_merge
from napari_gsw.core.sampler.moves.sweep_kernels import bond, visit
from napari_gsw.core.sampler.records import Bonds, Clusters, KeptDraws, RunningSums, Workspace
from napari_gsw.core.sampler.schedule import Cooling, Moves


@jit
def compact(labels: Ints, clusters: Clusters, used: Longs) -> Ints:
    """Close the gaps that vanished clusters have left among the slots; returns where each slot went, -1 for a gap."""
    moved = np.full(used[0], -1, np.int32)
    count = as_int64(0)
    for k in range(used[0]):
        if clusters.size[k] > 0:
            if k != count:
                copy_slot(clusters, k, clusters, count)
            moved[k] = count
            count += 1
    for k in range(count, used[0]):
        clear_slot(clusters, k)
    used[0] = count
    for i in range(labels.size):
        labels[i] = moved[labels[i]]
    return moved


@jit
def size_entropy(size: Longs, slots: int, n: int) -> float:
    """Entropy in bits of the cluster of a site drawn at random: 0 for one cluster, log2 n for singletons."""
    bits = 0.0
    for k in range(slots):
        if size[k] > 0:
            share = size[k] / n
            bits -= share * math.log2(share)
    return bits


@jit
def coldness_at(cooling: Cooling, done: int) -> float:
    """Inverse temperature of the sweep that follows `done` others."""
    if done >= cooling.sweeps:
        return cooling.coldness
    return float(cooling.coldness * cooling.hot ** (done / cooling.sweeps - 1.0))


@jit
def is_full(share: float, done: int) -> bool:
    """Whether the sweep that follows `done` others weighs every cluster: the first does, and then a `share` of them.

    By the number of the sweep alone: what looked at the state would bias the chain.
    """
    return math.floor(share * done) > math.floor(share * (done - 1))


@jit
def note(
    posterior: RunningSums, graph: Adjacency, labels: Ints, size: Longs, used: Longs, burn_in: int, traced: Floats
) -> None:
    """Count a sweep, keep its state if it is the best so far, and after the burn-in add it to the running sums.

    `traced` becomes log posterior, number of clusters and the entropy of their sizes.
    """
    traced[0] = posterior.value[0]
    traced[1] = used[1]
    traced[2] = size_entropy(size, used[0], labels.size)
    value, best, together, counted = posterior.value, posterior.best, posterior.together, posterior.counted
    left, right = graph.left, graph.right
    counted[0] += 1
    if value[0] > value[1]:
        value[1] = value[0]
        counted[2] = counted[0]
        for i in range(labels.size):
            best[i] = labels[i]
    if counted[0] > burn_in:
        counted[1] += 1
        for e in range(left.size):
            together[e] += labels[as_index(left[e])] == labels[as_index(right[e])]


@jit
def keep(draws: KeptDraws, labels: Ints, since: int) -> None:
    """Keep the partition if the number of sweeps since the burn-in is one at which a draw is due."""
    rows, taken = draws.rows, draws.taken
    if since > 0 and since % taken[1] == 0:
        renumber(labels, rows[taken[0]])
        taken[0] += 1


@jit
def sweep(
    evidence: Evidence,
    graph: Adjacency,
    tables: PriorTables,
    bonds: Bonds,
    seeds: Ints,
    labels: Ints,
    clusters: Clusters,
    work: Workspace,
    value: Floats,
    rng: np.random.Generator,
    coldness: float,
    full: bool,
    near: float,
    regroups: int,
) -> Clusters:
    """One sweep in place, `full` or not (see :func:`visit`), and `regroups` whole-cluster moves.

    Returns the clusters, in new arrays if slots ran out.
    """
    used = work.slots
    n = labels.size
    if used[0] > 2 * used[1] + 4:
        compact(labels, clusters, used)
    x = bond(graph, bonds, labels, work, rng)
    root = as_int64(0)
    while root < n:
        root = visit(evidence, graph, tables, bonds, x, coldness, full, seeds, labels, clusters, work, value, rng, root)
        if root < n:
            clusters = grown(clusters, 2 * clusters.size.size)
    for _ in range(regroups):
        room = used[0] + work.blocks.size.size
        if room > clusters.size.size:
            clusters = grown(clusters, 2 * room)
        value[0] += regroup(evidence, graph, tables, seeds, labels, clusters, work, near, coldness, rng)
    return clusters


@jit
def advance(
    evidence: Evidence,
    graph: Adjacency,
    tables: PriorTables,
    bonds: Bonds,
    seeds: Ints,
    labels: Ints,
    clusters: Clusters,
    work: Workspace,
    posterior: RunningSums,
    draws: KeptDraws,
    rng: np.random.Generator,
    cooling: Cooling,
    moves: Moves,
    regroups: int,
    burn_in: int,
    trace: Floats,
) -> Clusters:
    """Run ``len(trace)`` sweeps in place; ``trace[t]`` becomes log posterior, number of clusters and the entropy of
    their sizes after sweep t. Of `moves` only what concerns the sweeps and `regroups` is heeded; `draws` has room for
    as many partitions as are due.

    Returns the clusters, in new arrays if they ran out of slots.
    """
    value, used, counted = posterior.value, work.slots, posterior.counted
    for t in range(trace.shape[0]):
        coldness = coldness_at(cooling, counted[0])
        full = is_full(moves.full, counted[0])
        clusters = sweep(
            evidence, graph, tables, bonds, seeds, labels, clusters, work, value, rng, coldness, full, moves.near,
            regroups,
        )  # fmt: skip
        note(posterior, graph, labels, clusters.size, used, burn_in, trace[t])
        keep(draws, labels, counted[0] - burn_in)
    return clusters


@jit
def advance_with_splits(
    evidence: Evidence,
    graph: Adjacency,
    tables: PriorTables,
    bonds: Bonds,
    seeds: Ints,
    labels: Ints,
    clusters: Clusters,
    work: Workspace,
    posterior: RunningSums,
    draws: KeptDraws,
    rng: np.random.Generator,
    cooling: Cooling,
    moves: Moves,
    regroups: int,
    burn_in: int,
    trace: Floats,
) -> Clusters:
    """As ``advance`` of the chain kernels, with ``moves.splits`` of these moves after each sweep."""
    value, used, counted = posterior.value, work.slots, posterior.counted
    for t in range(trace.shape[0]):
        coldness = coldness_at(cooling, counted[0])
        full = is_full(moves.full, counted[0])
        clusters = sweep(
            evidence, graph, tables, bonds, seeds, labels, clusters, work, value, rng, coldness, full, moves.near,
            regroups,
        )  # fmt: skip
        for _ in range(moves.splits):
            if used[0] == clusters.size.size:
                clusters = grown(clusters, 2 * clusters.size.size)
            value[0] += split_or_merge(evidence, graph, tables, seeds, labels, clusters, work, moves, coldness, rng)
        note(posterior, graph, labels, clusters.size, used, burn_in, trace[t])
        keep(draws, labels, counted[0] - burn_in)
    return clusters
