"""Compiled kernels of the consensus: the loss between partitions, and its local search.

With f(x) = x log2 x (variation of information) or x^2 (Binder), and n_a, n_b, n_ab the weights of the clusters of two
partitions and of their intersections, the loss times its scale is sum f(n_a) + sum f(n_b) - 2 sum f(n_ab).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from napari_gsw.core.array_types import Float64Array, Int32Array, Int64Array
from napari_gsw.core.jit import as_int64, full, njit, njit_inner, njit_merged, zeros

# One site in this many is visited between full rounds.
EASY_SHARE = 8
# A search that still improves after this many rounds is stopped.
MAX_ROUNDS = 100


class EstimateTables(NamedTuple):
    """Weights of the clusters (slots) of an estimate, and their overlap with the clusters (rows) of all draws."""

    labels: Int32Array  # (n,) slot of each site; -1 for a site that has none yet
    sites: Int64Array  # (slots,) number of sites in each; 0 is a free slot
    size: Float64Array  # (slots,) their weight
    shared: Float64Array  # (rows, slots) weight of the overlap
    term: Float64Array  # (rows, slots) f of it
    met: Int32Array  # (rows, slots) the slots that a row overlaps, in no order
    n_met: Int64Array  # (rows,) their number


@njit
def canonicalize_rows(draws: Int32Array) -> Int32Array:
    """Renumber the int32 labels >= 0 of each row (d, n) as 0, 1, ... in the order of their first site."""
    largest = 0
    for t in range(draws.shape[0]):
        for i in range(draws.shape[1]):
            largest = max(largest, draws[t, i])
    result = np.empty(draws.shape, np.int32)
    number = zeros(largest + 1, np.int32)
    last_row = full(largest + 1, -1, np.int64)  # the last row that had this label: nothing to clear between rows
    for t in range(draws.shape[0]):
        count = 0
        for i in range(draws.shape[1]):
            k = draws[t, i]
            if last_row[k] != t:
                last_row[k] = t
                number[k] = count
                count += 1
            result[t, i] = number[k]
    return result


@njit_inner
def loss_term(x: float, binder: bool) -> float:
    """Compute f(x): x^2 or x log2 x."""
    if binder:
        return x * x
    return x * math.log2(x) if x > 0.0 else 0.0


@njit
def compute_losses(labels: Int32Array, draws: Int32Array, weight: Float64Array, binder: bool) -> Float64Array:
    """(d,) losses, not yet divided by their scale, between a partition (n,) and draws (d, n) of canonical labels.

    The sites are visited cluster by cluster of `labels`, so that one row of the contingency table is enough.
    """
    d, n = draws.shape
    clusters = 0
    for i in range(n):
        clusters = max(clusters, labels[i] + 1)
    start = zeros(clusters + 1, np.int64)
    for i in range(n):
        start[labels[i] + 1] += 1
    for j in range(clusters):
        start[j + 1] += start[j]
    position = start.copy()
    order = np.empty(n, np.int64)
    for i in range(n):
        order[position[labels[i]]] = i
        position[labels[i]] += 1
    label_terms = 0.0
    for j in range(start.size - 1):
        size = 0.0
        for p in range(start[j], start[j + 1]):
            size += weight[order[p]]
        label_terms += loss_term(size, binder)

    result = np.empty(d, np.float64)
    row = zeros(n, np.float64)
    size_of = zeros(n, np.float64)
    for t in range(d):
        z = draws[t]
        clusters = 0
        for i in range(n):
            size_of[z[i]] += weight[i]
            clusters = max(clusters, z[i] + 1)
        draw_terms = 0.0
        for k in range(clusters):
            draw_terms += loss_term(size_of[k], binder)
            size_of[k] = 0.0
        common = 0.0
        for j in range(start.size - 1):
            for p in range(start[j], start[j + 1]):
                row[z[order[p]]] += weight[order[p]]
            for p in range(start[j], start[j + 1]):
                k = z[order[p]]
                common += loss_term(row[k], binder)
                row[k] = 0.0
        result[t] = max(label_terms + draw_terms - 2.0 * common, 0.0)
    return result


@njit_inner
def kth_smallest(values: Float64Array, rank: int) -> float:
    """Return `values` (n,) sorted at index `rank`, and reorder them: numba takes two seconds to compile a sort."""
    first, last = 0, values.size - 1
    while first < last:
        pivot = values[(first + last) // 2]
        low, high = first, last
        while low <= high:
            while values[low] < pivot:
                low += 1
            while values[high] > pivot:
                high -= 1
            if low <= high:
                values[low], values[high] = values[high], values[low]
                low += 1
                high -= 1
        if rank <= high:
            last = high
        elif rank >= low:
            first = low
        else:
            break
    return float(values[rank])


@njit_inner
def update_overlap(
    shared: Float64Array, term: Float64Array, met: Int32Array, n_met: Int64Array, r: int, k: int, value: float,
    binder: bool,
) -> None:  # fmt: skip
    """Set the overlap of row r and slot k, and keep the list of slots that the row overlaps."""
    if value > 0.0 and shared[r, k] == 0.0:
        met[r, n_met[r]] = k
        n_met[r] += 1
    elif value == 0.0 and shared[r, k] > 0.0:
        p = 0
        while met[r, p] != k:
            p += 1
        n_met[r] -= 1
        met[r, p] = met[r, n_met[r]]
    shared[r, k] = value
    term[r, k] = loss_term(value, binder)


@njit_inner
def join_cluster(tables: EstimateTables, columns: Int32Array, i: int, k: int, w: float, binder: bool) -> None:
    """Add site i of weight w, which has no cluster, to slot k."""
    labels, sites, size, shared, term, met, n_met = tables
    labels[i] = k
    sites[k] += 1
    size[k] += w
    for t in range(columns.shape[1]):
        r = as_int64(columns[i, t])
        update_overlap(shared, term, met, n_met, r, k, shared[r, k] + w, binder)


@njit_merged
def leave_cluster(tables: EstimateTables, columns: Int32Array, i: int, w: float, nothing: float, binder: bool) -> None:
    """Take site i of weight w out of its cluster; an overlap below `nothing` is rounding and becomes 0."""
    labels, sites, size, shared, term, met, n_met = tables
    k = as_int64(labels[i])
    labels[i] = -1
    sites[k] -= 1
    size[k] = size[k] - w if sites[k] > 0 else 0.0
    for t in range(columns.shape[1]):
        r = as_int64(columns[i, t])
        left = shared[r, k] - w
        update_overlap(shared, term, met, n_met, r, k, left if left > nothing else 0.0, binder)


@njit_merged
def fill_costs(
    tables: EstimateTables, columns: Int32Array, i: int, w: float, top: int, binder: bool, cost: Float64Array
) -> None:
    """Write the cost of site i in each slot below `top`, compared with a cluster of its own.

    Joining changes f(size) by f(size + w) - f(size), and every overlap likewise. The f(w) of a cluster of its own is
    subtracted throughout, so that an overlap of 0 contributes nothing. The site counts as if it had left its slot.
    """
    labels, _, size, shared, term, met, n_met = tables
    old = labels[i]
    draws = columns.shape[1]
    alone = loss_term(w, binder)
    for k in range(top):
        others = size[k] - w if k == old else size[k]
        cost[k] = draws * (loss_term(others + w, binder) - loss_term(others, binder) - alone)
    for t in range(draws):
        r = columns[i, t]
        for p in range(n_met[r]):
            k = met[r, p]
            if k != old:
                cost[k] -= 2.0 * (loss_term(shared[r, k] + w, binder) - term[r, k] - alone)
            else:
                cost[k] -= 2.0 * (term[r, k] - loss_term(shared[r, k] - w, binder) - alone)


@njit_merged
def move_sites(
    tables: EstimateTables, columns: Int32Array, weight: Float64Array, limit: int, binder: bool, min_gain: float,
    margin: Float64Array, bound: float,
) -> int:  # fmt: skip
    """Move each site in turn to its best cluster, or to one of its own; returns how many moved.

    Only sites whose `margin` (n,) is at most `bound` are visited. The margin of a visited site becomes the cost of its
    second choice, 0 if it has moved. A site stays unless the loss falls by more than `min_gain`; of several best
    clusters it takes the first slot, and a cluster of its own only if that is better than all of them.
    """
    labels, sites = tables.labels, tables.sites
    slots = sites.size
    cost = zeros(slots, np.float64)
    lightest = math.inf
    for i in range(weight.size):
        lightest = min(lightest, weight[i])
    nothing = 1e-6 * lightest
    count = 0  # clusters
    top = 0  # slots in use lie below
    for k in range(slots):
        if sites[k] > 0:
            count += 1
            top = k + 1
    moved = 0
    for i in range(labels.size):
        if margin[i] > bound:
            continue
        old = labels[i]
        alone = old >= 0 and sites[old] == 1
        fill_costs(tables, columns, as_int64(i), weight[i], as_int64(top), binder, cost)
        best = -1
        lowest = math.inf
        for k in range(top):
            if k != old and sites[k] > 0 and cost[k] < lowest:
                best = k
                lowest = cost[k]
        if lowest > 0.0 and count < limit and not alone:
            free = 0
            while free < slots and sites[free] > 0:
                free += 1
            if free < slots:
                best = free
                lowest = 0.0
        margin[i] = 0.0
        if old >= 0:
            if lowest > cost[old] - min_gain:
                margin[i] = lowest - cost[old]
                continue
            leave_cluster(tables, columns, i, weight[i], nothing, binder)
            if alone:
                count -= 1
        if sites[best] == 0:
            count += 1
            top = max(top, best + 1)
        join_cluster(tables, columns, as_int64(i), as_int64(best), weight[i], binder)
        moved += 1
    return moved


@njit_inner
def merge_costs(tables: EstimateTables, draws: int, only: int, binder: bool, cost: Float64Array) -> None:
    """Write the growth of the loss if two slots a < b merge into `cost` (slots, slots); `only` >= 0: pairs with it."""
    _, sites, size, shared, term, met, n_met = tables
    slots = sites.size
    for a in range(slots):
        for b in range(a + 1, slots):
            if only < 0 or a == only or b == only:
                cost[a, b] = math.inf
                if sites[a] > 0 and sites[b] > 0:
                    cost[a, b] = draws * (
                        loss_term(size[a] + size[b], binder) - loss_term(size[a], binder) - loss_term(size[b], binder)
                    )
    for r in range(shared.shape[0]):
        if only >= 0 and shared[r, only] == 0.0:
            continue
        for p in range(n_met[r]):
            for q in range(p):
                a = min(met[r, p], met[r, q])
                b = max(met[r, p], met[r, q])
                if only < 0 or a == only or b == only:
                    both = loss_term(shared[r, a] + shared[r, b], binder)
                    cost[a, b] -= 2.0 * (both - term[r, a] - term[r, b])


@njit_merged
def merge_clusters(tables: EstimateTables, draws: int, limit: int, binder: bool, min_gain: float) -> int:
    """Merge the best pair while the loss falls by more than `min_gain`, or there are more than `limit` clusters.

    Of several best pairs it takes the one with the first slots; returns the number of merges.
    """
    labels, sites, size, shared, term, met, n_met = tables
    slots = sites.size
    cost = np.empty((slots, slots), np.float64)
    merge_costs(tables, draws, as_int64(-1), binder, cost)
    count = 0
    for k in range(slots):
        if sites[k] > 0:
            count += 1
    merged = 0
    while count > 1:
        a = 0
        b = 1
        for p in range(slots):
            for q in range(p + 1, slots):
                if cost[p, q] < cost[a, b]:
                    a = p
                    b = q
        if cost[a, b] > -min_gain and count <= limit:
            break
        sites[a] += sites[b]
        size[a] += size[b]
        sites[b] = 0
        size[b] = 0.0
        for r in range(shared.shape[0]):
            if shared[r, b] > 0.0:
                update_overlap(shared, term, met, n_met, as_int64(r), as_int64(a), shared[r, a] + shared[r, b], binder)
                update_overlap(shared, term, met, n_met, as_int64(r), as_int64(b), 0.0, binder)
        for i in range(labels.size):
            if labels[i] == b:
                labels[i] = a
        merge_costs(tables, draws, as_int64(b), binder, cost)
        merge_costs(tables, draws, as_int64(a), binder, cost)
        count -= 1
        merged += 1
    return merged


@njit
def local_search(
    labels: Int32Array, columns: Int32Array, rows: int, slots: int, weight: Float64Array, limit: int, binder: bool,
    min_gain: float,
) -> Int32Array:  # fmt: skip
    """Search from a partition, or from labels -1, for one that no single move or merge improves.

    `labels` (n,) are in [0, slots) or -1, and `columns` (n, draws) has the row of the tables for each site and draw,
    one of `rows` for each cluster of each draw. The search has at most `slots` clusters at a time, its result `limit`.
    Changes lower the summed loss by more than `min_gain`, so that rounding cannot make it go round in circles.
    """
    tables = EstimateTables(
        full(labels.size, -1, np.int32),
        zeros(slots, np.int64),
        zeros(slots, np.float64),
        zeros((rows, slots), np.float64),
        zeros((rows, slots), np.float64),
        zeros((rows, slots), np.int32),
        zeros(rows, np.int64),
    )
    for i in range(labels.size):
        if labels[i] >= 0:
            join_cluster(tables, columns, as_int64(i), as_int64(labels[i]), weight[i], binder)
    margin = zeros(labels.size, np.float64)
    # After a full round, only the sites that are easiest to move are visited until they rest: most others would stay.
    bound = math.inf
    for _ in range(MAX_ROUNDS):
        changes = merge_clusters(tables, columns.shape[1], limit, binder, min_gain) if bound == math.inf else 0
        changes += move_sites(tables, columns, weight, limit, binder, min_gain, margin, bound)
        if changes > 0:
            bound = kth_smallest(margin.copy(), labels.size // EASY_SHARE)
        elif bound < math.inf:
            bound = math.inf
        else:
            break
    return tables.labels
