"""Point estimates of a posterior over partitions, and credible balls around them.

A posterior is given by draws (d, n): each row is a partition of n sites, in which equal labels mean the same cluster.
A site counts as `weight` points (its pixels): a site of weight 3 is three sites of weight 1 that are always together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_gsw.core.array_types import Float64Array, Int32Array
from napari_gsw.core.errors import InputError, check_number
from napari_gsw.core.posterior import consensus_kernels as kernels

Loss = Literal["vi", "binder"]
LOSSES: tuple[Loss, ...] = ("vi", "binder")

# The search starts from the best of this many evenly spaced draws, compared over the same draws.
MAX_CANDIDATES = 32
N_STARTS = 3
# Draws over which the search minimizes the loss: from each start, and then from the best of these results.
N_ROUGH_DRAWS = 25
N_FINE_DRAWS = 100
# Entries of its tables, 20 bytes each. Fewer draws are used if they have very many clusters.
MAX_TABLE_ENTRIES = 2**22
MIN_DRAWS = 10


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

    Parameters
    ----------
    a, b : (n,) integer arrays
        Sites with equal values share a cluster.
    loss : {"vi", "binder"}
        Variation of information in bits; or the fraction of the pairs of points that are together in one partition and
        apart in the other.
    weight : (n,) array, optional
        Points of each site, by default 1.

    Examples
    --------
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
    rows = _check_partitions(draws)
    points = _check_weight(weight, rows.shape[1], loss)
    return float(_measure_distances(_check_partition(labels, rows.shape[1]), rows, loss, points).mean())


def find_consensus(
    draws: ArrayLike, loss: Loss = "vi", weight: ArrayLike | None = None, max_clusters: int | None = None
) -> Consensus:
    """Find a partition of small expected loss.

    The search starts from the three best of 32 draws and from no clusters. From each start it merges clusters and moves
    single sites while the loss over 25 draws decreases, as SALSO does (Dahl, Johnson and Müller 2022), and then from
    the best result over 100 draws. The results and the starts are compared over all draws. Draws are evenly spaced, and
    nothing is random. Fewer draws are used if their clusters need more than 84 MB of tables; below 10 the search is
    left out.

    Parameters
    ----------
    draws : (d, n) integer array
        One partition per row, from one chain or several.
    loss : {"vi", "binder"}
        As in `partition_distance`. Binder prefers more and smaller clusters.
    weight : (n,) array, optional
        Points of each site, by default 1.
    max_clusters : int, optional
        Largest number of clusters of the result.

    References
    ----------
    Wade and Ghahramani (2018), Bayesian cluster analysis: point estimation and credible balls. Bayesian Analysis.
    Dahl, Johnson and Müller (2022), Search algorithms and loss functions for Bayesian clustering. JCGS.

    Examples
    --------
    >>> find_consensus([[0, 0, 1, 1], [5, 5, 5, 3], [2, 2, 0, 0]]).labels.tolist()
    [0, 0, 1, 1]
    """
    rows = _check_partitions(draws)
    points = _check_weight(weight, rows.shape[1], loss)
    limit = rows.shape[1] if max_clusters is None else int(max_clusters)
    if limit < 1:
        raise InputError(f"max_clusters must be at least 1, not {max_clusters}")
    few = rows[_spread_evenly(len(rows), MAX_CANDIDATES)]
    expected = [_measure_distances(row, few, loss, points).mean() for row in few]
    starts = few[np.argsort(expected, kind="stable")[:N_STARTS]]
    candidates = [row for row in starts if row.max() < limit]
    candidates.extend(_search(starts, rows, loss, points, limit))
    if not candidates:  # no memory for a search, and every start has too many clusters
        candidates.append(np.zeros(rows.shape[1], np.int32))
    expected = [float(_measure_distances(labels, rows, loss, points).mean()) for labels in candidates]
    best = int(np.argmin(expected))
    return Consensus(candidates[best].copy(), loss, expected[best])


def find_credible_ball(
    draws: ArrayLike, centre: ArrayLike, level: float = 0.95, loss: Loss = "vi", weight: ArrayLike | None = None
) -> CredibleBall:
    """Find the smallest ball around a partition that holds a fraction of the draws.

    Parameters
    ----------
    draws : (d, n) integer array
        One partition per row.
    centre : (n,) integer array
        Such as `Consensus.labels`.
    level : float
        Fraction of the draws, between 0 and 1.
    loss, weight
        As in `partition_distance`.

    Examples
    --------
    >>> ball = find_credible_ball([[0, 0, 1, 1], [0, 0, 0, 0], [0, 1, 0, 1]], [0, 0, 1, 1], level=0.6)
    >>> ball.inside.tolist(), ball.coarsest
    ([True, True, False], 1)
    """
    rows = _check_partitions(draws)
    points = _check_weight(weight, rows.shape[1], loss)
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


def _search(starts: Int32Array, rows: Int32Array, loss: Loss, points: Float64Array, limit: int) -> list[Int32Array]:
    """Search from each start and from no clusters, then from the best result over more draws."""
    n = rows.shape[1]
    n_clusters = int(rows.max()) + 1
    # Room beyond the clusters of the draws: the Binder loss separates single sites.
    slots = min(n, n_clusters + 16)
    max_draws = MAX_TABLE_ENTRIES // (n_clusters * slots)
    if max_draws < min(MIN_DRAWS, len(rows)):
        return []
    empty = np.full((1, n), -1, np.int32)
    few = rows[_spread_evenly(len(rows), min(N_ROUGH_DRAWS, max_draws))]
    rough = _search_from(np.concatenate((starts, empty)), few, slots, loss, points, limit)
    if len(few) == len(rows):
        return list(rough)
    many = rows[_spread_evenly(len(rows), min(N_FINE_DRAWS, max_draws))]
    best = int(np.argmin([_measure_distances(row, many, loss, points).mean() for row in rough]))
    return [*_search_from(rough[best : best + 1], many, slots, loss, points, limit), *rough]


def _search_from(
    starts: Int32Array, draws: Int32Array, slots: int, loss: Loss, points: Float64Array, limit: int
) -> Int32Array:
    """Search from each start over the draws; returns canonical labels."""
    clusters = draws.max(axis=1).astype(np.int64) + 1
    first = np.cumsum(clusters) - clusters
    columns = np.ascontiguousarray((draws + first[:, np.newaxis]).T, dtype=np.int32)
    min_gain = 1e-9 * _loss_scale(points, loss) * len(draws)
    rows = int(clusters.sum())
    ends = [kernels.local_search(s, columns, rows, slots, points, limit, loss == "binder", min_gain) for s in starts]
    return kernels.canonicalize_rows(np.stack(ends))


def _measure_distances(labels: Int32Array, rows: Int32Array, loss: Loss, points: Float64Array) -> Float64Array:
    """(d,) distances from a partition (n,) to each of the rows (d, n), all of canonical labels."""
    return kernels.compute_losses(labels, rows, points, loss == "binder") / _loss_scale(points, loss)


def _loss_scale(points: Float64Array, loss: Loss) -> float:
    """Return the divisor of the losses of the kernels; a single point has no pairs, and no loss."""
    total = float(points.sum())
    if loss == "vi":
        return total
    return total * (total - 1) if points.size > 1 else 1.0


def _spread_evenly(available: int, wanted: int) -> NDArray[np.intp]:
    """Return evenly spaced indices of at most `wanted` of the draws."""
    count = min(available, wanted)
    return np.arange(count) * available // count


def _check_partitions(draws: ArrayLike) -> Int32Array:
    """Check draws (d, n) and return canonical labels in int32."""
    rows = np.asarray(draws)
    if rows.ndim != 2 or rows.dtype.kind not in "bui":
        raise InputError(f"draws must be whole numbers of shape (draws, sites), not {rows.dtype} of shape {rows.shape}")
    if rows.size == 0:
        raise InputError("there is no draw to summarise: run the chain past its burn-in first")
    # The kernel uses a look-up table, which labels far apart would make long.
    if rows.min() < 0 or rows.max() >= max(rows.size, 2**16):
        rows = np.unique(rows, return_inverse=True)[1].reshape(rows.shape)
    # A copy in any case: numba would compile everything again for a read-only array.
    return kernels.canonicalize_rows(np.array(rows, dtype=np.int32, order="C"))


def _check_partition(labels: ArrayLike, n: int) -> Int32Array:
    row = np.asarray(labels)
    if row.shape != (n,):
        raise InputError(f"a partition of {n} sites must have {n} labels, not shape {row.shape}")
    return np.asarray(_check_partitions(row[np.newaxis])[0])


def _check_weight(weight: ArrayLike | None, n: int, loss: str) -> Float64Array:
    """Check the name of the loss and the weights of the sites."""
    if loss not in LOSSES:
        raise InputError(f"loss must be one of {', '.join(LOSSES)}, not {loss!r}")
    if weight is None:
        return np.ones(n)
    points = np.array(weight, dtype=np.float64, order="C")
    if points.shape != (n,):
        raise InputError(f"weight must be one number for each of {n} sites, not shape {points.shape}")
    if not (np.isfinite(points).all() and (points > 0).all()):
        raise InputError("weight must be positive and finite: the number of pixels of each site")
    if loss == "binder" and n > 1 and points.sum() <= 1:
        raise InputError("weight must count points for the Binder loss, so its sum must be more than 1")
    return points
