"""Point estimates of a posterior over partitions, and credible balls around them.

A posterior is given by draws (d, n): each row is a partition of n sites, in which equal labels mean the same cluster.
A site counts as `weight` points (its pixels): a site of weight 3 is three sites of weight 1 that are always together.

With f(x) = x log2 x (variation of information) or x^2 (Binder), and n_a, n_b, n_ab the weights of the clusters of two
partitions and of their intersections, the loss times its scale is sum f(n_a) + sum f(n_b) - 2 sum f(n_ab).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_gsw.core.array_types import Float64Array, Int32Array, Int64Array
from napari_gsw.core.errors import InputError, check_number
from napari_gsw.core.jit import as_int64, njit, njit_inner, zeros
from napari_gsw.core.partitions import canonical_labels

Loss = Literal["vi", "binder"]
LOSSES: tuple[Loss, ...] = ("vi", "binder")

# The search starts from the best of this many evenly spaced draws, compared over the same draws.
MAX_CANDIDATES = 32
N_STARTS = 3
# Draws over which the search minimizes the loss: from each start, and then from the best of these results.
N_ROUGH_DRAWS = 25
N_FINE_DRAWS = 100
# Entries of its table, 8 bytes each. Fewer draws are used if they have very many clusters.
MAX_TABLE_ENTRIES = 2**22
MIN_DRAWS = 10
# One site in this many is visited between full rounds; a search that still improves after MAX_ROUNDS is stopped.
EASY_SHARE = 8
MAX_ROUNDS = 100


@dataclass(frozen=True, eq=False)
class Consensus:
    """Point estimate of a posterior over partitions."""

    labels: Int32Array  # (n,) clusters in the order of their first site
    loss: Loss
    expected: float  # mean loss over all draws


@dataclass(frozen=True, eq=False)
class CredibleBall:
    """The draws nearest to a centre (Wade and Ghahramani 2018); of equal draws the first is named."""

    level: float  # fraction of the draws that the ball holds
    radius: float  # smallest distance within which this fraction lies
    distances: Float64Array  # (d,) from the centre
    inside: NDArray[np.bool_]  # (d,) draws at most a radius away
    farthest: int  # the farthest draw inside (horizontal bound)
    coarsest: int  # the farthest of the draws inside with the fewest clusters (upper vertical bound)
    finest: int  # the farthest of the draws inside with the most clusters (lower vertical bound)


def partition_distance(a: ArrayLike, b: ArrayLike, loss: Loss = "vi", weight: ArrayLike | None = None) -> float:
    """Measure the distance of two partitions (n,).

    Loss "vi" is the variation of information in bits; "binder" is the fraction of the pairs of points that are together
    in one partition and apart in the other.

    >>> partition_distance([0, 0, 1, 1], [0, 1, 0, 1])
    2.0
    >>> partition_distance([0, 0, 1], [0, 0, 0], "binder", weight=[1, 1, 2])
    0.6666666666666666
    """
    return compute_expected_loss(a, np.asarray(b)[np.newaxis], loss, weight)


def compute_expected_loss(
    labels: ArrayLike, draws: ArrayLike, loss: Loss = "vi", weight: ArrayLike | None = None
) -> float:
    """Compute the mean distance between a partition (n,) and draws (d, n)."""
    rows, points = _check_draws(draws, loss, weight)
    return float(_measure_distances(_check_partition(labels, rows.shape[1]), rows, loss, points).mean())


def find_consensus(draws: ArrayLike, loss: Loss = "vi", weight: ArrayLike | None = None) -> Consensus:
    """Find a partition of small expected loss.

    The search starts from the three best of 32 draws and from no clusters. From each start it merges clusters and moves
    single sites while the loss over 25 draws decreases, as SALSO does, and then from the best result over 100 draws.
    The results and the starts are compared over all draws. Draws are evenly spaced, and nothing is random. Fewer draws
    are used if their clusters need a larger table; below 10 the search is left out.

    References
    ----------
    Wade and Ghahramani (2018), Bayesian cluster analysis: point estimation and credible balls. Bayesian Analysis.
    Dahl, Johnson and Müller (2022), Search algorithms and loss functions for Bayesian clustering. JCGS.

    Examples
    --------
    >>> find_consensus([[0, 0, 1, 1], [5, 5, 5, 3], [2, 2, 0, 0]]).labels.tolist()
    [0, 0, 1, 1]
    """
    rows, points = _check_draws(draws, loss, weight)
    n, n_clusters = rows.shape[1], int(rows.max()) + 1

    def rank(candidates: Sequence[Int32Array], over: Int32Array) -> NDArray[np.intp]:
        expected = [_measure_distances(labels, over, loss, points).mean() for labels in candidates]
        return np.argsort(expected, kind="stable")

    few = _thin(rows, MAX_CANDIDATES)
    candidates = list(few[rank(list(few), few)[:N_STARTS]])
    # Room beyond the clusters of the draws: the Binder loss separates single sites.
    slots = min(n, n_clusters + 16)
    max_draws = MAX_TABLE_ENTRIES // (n_clusters * slots)
    if max_draws >= min(MIN_DRAWS, len(rows)):
        few = _thin(rows, min(N_ROUGH_DRAWS, max_draws))
        starts = [*candidates, np.full(n, -1, np.int32)]
        rough = [_local_search(start, few, slots, loss, points) for start in starts]
        if len(few) < len(rows):
            many = _thin(rows, min(N_FINE_DRAWS, max_draws))
            candidates.append(_local_search(rough[rank(rough, many)[0]], many, slots, loss, points))
        candidates += rough
    best = candidates[rank(candidates, rows)[0]]
    return Consensus(best.copy(), loss, float(_measure_distances(best, rows, loss, points).mean()))


def find_credible_ball(
    draws: ArrayLike, centre: ArrayLike, level: float = 0.95, loss: Loss = "vi", weight: ArrayLike | None = None
) -> CredibleBall:
    """Find the smallest ball around a partition (n,) that holds a fraction of the draws (d, n).

    >>> ball = find_credible_ball([[0, 0, 1, 1], [0, 0, 0, 0], [0, 1, 0, 1]], [0, 0, 1, 1], level=0.6)
    >>> ball.inside.tolist(), ball.coarsest
    ([True, True, False], 1)
    """
    rows, points = _check_draws(draws, loss, weight)
    level = check_number("level, a share of the draws such as 0.95,", level, 0, 1, exclusive_min=True)
    distances = _measure_distances(_check_partition(centre, rows.shape[1]), rows, loss, points)
    needed = math.ceil(level * len(distances) - 1e-9)  # 0.07 * 100 is a little more than 7
    radius = float(np.sort(distances)[max(needed, 1) - 1])
    inside = distances <= radius
    n_clusters = rows.max(axis=1)
    is_coarsest = inside & (n_clusters == n_clusters[inside].min())
    is_finest = inside & (n_clusters == n_clusters[inside].max())
    bounds = [int(np.argmax(np.where(among, distances, -1.0))) for among in (inside, is_coarsest, is_finest)]
    return CredibleBall(level, radius, distances, inside, *bounds)


def _check_draws(draws: ArrayLike, loss: str, weight: ArrayLike | None) -> tuple[Int32Array, Float64Array]:
    """Return draws (d, n) with canonical labels, and the weights (n,) of the sites."""
    if loss not in LOSSES:
        raise InputError(f"loss must be one of {', '.join(LOSSES)}, not {loss!r}")
    rows = np.asarray(draws)
    if rows.ndim != 2 or rows.dtype.kind not in "bui":
        raise InputError(f"draws must be whole numbers of shape (draws, sites), not {rows.dtype} of shape {rows.shape}")
    if rows.size == 0:
        raise InputError("there is no draw to summarise: run the chain past its burn-in first")
    if rows.min() < 0 or rows.max() >= max(rows.size, 2**16):  # the kernel uses a look-up table
        rows = np.unique(rows, return_inverse=True)[1].reshape(rows.shape)
    n = rows.shape[1]
    points = np.ones(n) if weight is None else np.array(weight, np.float64, order="C")
    # Copies in any case: numba would compile everything again for a read-only array.
    return np.stack([canonical_labels(np.array(row, np.int32)) for row in rows]), points


def _check_partition(labels: ArrayLike, n: int) -> Int32Array:
    row = np.asarray(labels)
    if row.shape != (n,):
        raise InputError(f"a partition of {n} sites must have {n} labels, not shape {row.shape}")
    return np.asarray(_check_draws(row[np.newaxis], "vi", None)[0][0])


def _thin(rows: Int32Array, wanted: int) -> Int32Array:
    """Select evenly spaced draws, at most `wanted`."""
    count = min(len(rows), wanted)
    return rows[np.arange(count) * len(rows) // count]


def _measure_distances(labels: Int32Array, rows: Int32Array, loss: Loss, points: Float64Array) -> Float64Array:
    """(d,) distances from a partition (n,) to each of the rows (d, n), all of canonical labels."""
    order = np.argsort(labels, kind="stable")
    return np.asarray(_compute_losses(labels, order, rows, points, loss == "binder") / _loss_scale(points, loss))


def _loss_scale(points: Float64Array, loss: Loss) -> float:
    """Return the divisor of the losses of the kernels; a single point has no pairs, and no loss."""
    total = float(points.sum())
    if loss == "vi":
        return total
    return total * (total - 1) if points.size > 1 else 1.0


class _SearchTables(NamedTuple):
    """Weights of the clusters (slots) of an estimate, and their overlap with the clusters (rows) of all draws."""

    labels: Int32Array  # (n,) slot of each site; -1 for a site that has none yet
    sites: Int64Array  # (slots,) number of sites in each; 0 is a free slot
    size: Float64Array  # (slots,) their weight
    shared: Float64Array  # (rows, slots) weight of the overlap


def _local_search(start: Int32Array, draws: Int32Array, slots: int, loss: Loss, weight: Float64Array) -> Int32Array:
    """Search from a partition, or from labels -1, for one of up to `slots` clusters that no move or merge improves.

    Changes lower the summed loss by a minimal gain, so that rounding cannot make it go round in circles.
    """
    clusters = draws.max(axis=1).astype(np.int64) + 1
    # (n, draws) row of the table for each site and draw
    columns = np.ascontiguousarray((draws + (np.cumsum(clusters) - clusters)[:, np.newaxis]).T, dtype=np.int32)
    tables = _SearchTables(
        start.copy(), np.zeros(slots, np.int64), np.zeros(slots), np.zeros((int(clusters.sum()), slots))
    )
    if start[0] >= 0:
        tables.sites[:] = np.bincount(start, minlength=slots)
        tables.size[:] = np.bincount(start, weight, slots)
        np.add.at(tables.shared, (columns, start[:, np.newaxis]), weight[:, np.newaxis])
    binder, min_gain = loss == "binder", 1e-9 * _loss_scale(weight, loss) * len(draws)
    margin = np.zeros(len(start))
    # After a full round, only the sites that are easiest to move are visited until they rest: most others would stay.
    bound = math.inf
    for _ in range(MAX_ROUNDS):
        changes = _merge_clusters(tables, len(draws), binder, min_gain) if bound == math.inf else 0
        changes += _move_sites(tables, columns, weight, binder, min_gain, margin, bound)
        if changes > 0:
            bound = float(np.partition(margin, len(start) // EASY_SHARE)[len(start) // EASY_SHARE])
        elif bound < math.inf:
            bound = math.inf
        else:
            break
    return canonical_labels(tables.labels)


@njit_inner
def _loss_term(x: float, binder: bool) -> float:
    """Compute f(x): x^2 or x log2 x."""
    if binder:
        return x * x
    return x * math.log2(x) if x > 0.0 else 0.0


@njit
def _compute_losses(
    labels: Int32Array, order: Int64Array, draws: Int32Array, weight: Float64Array, binder: bool
) -> Float64Array:
    """(d,) losses, not yet divided by their scale, between a partition (n,) and draws (d, n) of canonical labels.

    The sites are visited in `order`, cluster by cluster, so that one row of the contingency table is enough.
    """
    n = labels.size
    result = np.empty(draws.shape[0], np.float64)
    row = zeros(n, np.float64)
    label_terms = 0.0
    for t in range(-1, draws.shape[0]):
        z = labels if t < 0 else draws[t]
        for i in range(n):
            row[z[i]] += weight[i]
        terms = 0.0
        for k in range(n):
            terms += _loss_term(row[k], binder)
            row[k] = 0.0
        if t < 0:
            label_terms = terms
            continue
        common = 0.0
        begin = 0
        while begin < n:
            end = begin
            while end < n and labels[order[end]] == labels[order[begin]]:
                row[z[order[end]]] += weight[order[end]]
                end += 1
            for p in range(begin, end):
                k = z[order[p]]
                common += _loss_term(row[k], binder)
                row[k] = 0.0
            begin = end
        result[t] = max(label_terms + terms - 2.0 * common, 0.0)
    return result


@njit
def _move_sites(
    tables: _SearchTables, columns: Int32Array, weight: Float64Array, binder: bool, min_gain: float,
    margin: Float64Array, bound: float,
) -> int:  # fmt: skip
    """Move each site in turn to its best cluster, or to one of its own; returns how many moved.

    Only sites whose `margin` (n,) is at most `bound` are visited; it becomes the cost of their second choice, 0 if they
    move. Of several best clusters a site takes the first slot, and one of its own only if that is better than all.

    The cost of a slot is compared with a cluster of its own, and the site counts as if it had left its slot: joining
    changes f(size) by f(size + w) - f(size), and every overlap likewise, of which f(w) is subtracted throughout, so
    that an overlap of 0 contributes nothing.
    """
    labels, sites, size, shared = tables
    slots, draws = sites.size, columns.shape[1]
    cost = zeros(slots, np.float64)
    lightest = math.inf
    for i in range(weight.size):
        lightest = min(lightest, weight[i])
    moved = 0
    for i in range(labels.size):
        if margin[i] > bound:
            continue
        old, w = labels[i], weight[i]
        alone = _loss_term(w, binder)
        for k in range(slots):
            others = size[k] - w if k == old else size[k]
            cost[k] = draws * (_loss_term(others + w, binder) - _loss_term(others, binder) - alone)
        for t in range(draws):
            r = columns[i, t]
            for k in range(slots):
                if shared[r, k] > 0.0:
                    others = shared[r, k] - w if k == old else shared[r, k]
                    joined = shared[r, k] if k == old else shared[r, k] + w
                    cost[k] -= 2.0 * (_loss_term(joined, binder) - _loss_term(others, binder) - alone)
        best = -1
        lowest = math.inf
        for k in range(slots):
            if k != old and sites[k] > 0 and cost[k] < lowest:
                best = k
                lowest = cost[k]
        is_alone = old >= 0 and sites[old] == 1
        if lowest > 0.0 and not is_alone:
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
            sites[old] -= 1
            size[old] = size[old] - w if sites[old] > 0 else 0.0
            for t in range(draws):
                left = shared[columns[i, t], old] - w
                shared[columns[i, t], old] = left if left > 1e-6 * lightest else 0.0  # less is rounding
        labels[i] = best
        sites[best] += 1
        size[best] += w
        for t in range(draws):
            shared[columns[i, t], best] += w
        moved += 1
    return moved


@njit
def _merge_clusters(tables: _SearchTables, draws: int, binder: bool, min_gain: float) -> int:
    """Merge the best pair, of several the first, while the loss falls by more than `min_gain`; returns how often."""
    labels, sites, size, shared = tables
    slots = sites.size
    cost = np.empty((slots, slots), np.float64)
    _fill_merge_costs(tables, draws, as_int64(-1), binder, cost)
    merged = 0
    while slots > 1:
        a = 0
        b = 1
        for p in range(slots):
            for q in range(p + 1, slots):
                if cost[p, q] < cost[a, b]:
                    a = p
                    b = q
        if cost[a, b] > -min_gain:
            break
        sites[a] += sites[b]
        size[a] += size[b]
        sites[b] = 0
        size[b] = 0.0
        for r in range(shared.shape[0]):
            shared[r, a] += shared[r, b]
            shared[r, b] = 0.0
        for i in range(labels.size):
            if labels[i] == b:
                labels[i] = a
        _fill_merge_costs(tables, draws, as_int64(b), binder, cost)
        _fill_merge_costs(tables, draws, as_int64(a), binder, cost)
        merged += 1
    return merged


@njit_inner
def _fill_merge_costs(tables: _SearchTables, draws: int, only: int, binder: bool, cost: Float64Array) -> None:
    """Write the growth of the loss if two slots a < b merge into `cost` (slots, slots); `only` >= 0: pairs with it."""
    _, sites, size, shared = tables
    slots = sites.size
    for a in range(slots):
        for b in range(a + 1, slots):
            if only < 0 or a == only or b == only:
                cost[a, b] = math.inf
                if sites[a] > 0 and sites[b] > 0:
                    gain = _loss_term(size[a] + size[b], binder) - _loss_term(size[a], binder)
                    cost[a, b] = draws * (gain - _loss_term(size[b], binder))
    for r in range(shared.shape[0]):
        for a in range(slots):
            if shared[r, a] == 0.0:
                continue
            for b in range(a + 1, slots):
                if shared[r, b] > 0.0 and (only < 0 or a == only or b == only):
                    gain = _loss_term(shared[r, a] + shared[r, b], binder) - _loss_term(shared[r, a], binder)
                    cost[a, b] -= 2.0 * (gain - _loss_term(shared[r, b], binder))
