"""One partition for many: the point estimate of a posterior over partitions, and how far it spreads around it.

A posterior is given by draws, an array of shape (d, n): each row is a partition of n sites, whose labels mean nothing
but "the same" or "not the same". A site counts as `weight` points (its pixels), so that the size of the sites does not
matter: a site of weight 3 is three sites of weight 1 that are always together.
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

# The search starts from the best of so many draws, judged by as many; all are evenly spaced.
MAX_CANDIDATES = 32
N_STARTS = 3
# It looks at so many draws from each start, and then at more from where the best start led.
N_ROUGH_DRAWS = 25
N_FINE_DRAWS = 100
# Entries of its tables, 20 bytes each. Fewer draws are searched if the draws have very many clusters.
MAX_TABLE_ENTRIES = 2**22
MIN_DRAWS = 10


@dataclass(frozen=True, eq=False)
class Consensus:
    """A point estimate.

    Attributes
    ----------
    labels : (n,) int32, clusters numbered in the order of their first site.
    loss : the loss that it makes small.
    expected : its mean loss over all draws.
    """

    labels: Int32Array
    loss: Loss
    expected: float


@dataclass(frozen=True, eq=False)
class CredibleBall:
    """The draws nearest to a centre (Wade and Ghahramani 2018).

    Attributes
    ----------
    level : share of the draws that it was asked to hold.
    radius : the smallest distance within which that share lies.
    distances : (d,) from the centre to each draw.
    inside : (d,) bool, whether the distance is at most the radius.
    farthest : index of the draw inside that is farthest from the centre (the horizontal bound).
    coarsest : index of the draw inside with the fewest clusters, the farthest of those (the upper vertical bound).
    finest : index of the draw inside with the most clusters, the farthest of those (the lower vertical bound).

    Of several equal draws, the first is named.
    """

    level: float
    radius: float
    distances: Float64Array
    inside: NDArray[np.bool_]
    farthest: int
    coarsest: int
    finest: int


def partition_distance(a: ArrayLike, b: ArrayLike, loss: Loss = "vi", weight: ArrayLike | None = None) -> float:
    """How far two partitions are apart.

    Parameters
    ----------
    a, b : (n,) whole numbers; sites with equal numbers share a cluster.
    loss : ``"vi"``, the variation of information in bits; or ``"binder"``, the share of the pairs of points that are
        together in one partition and apart in the other.
    weight : (n,) points of each site; None counts each site once.

    Examples
    --------
    >>> distance([0, 0, 1, 1], [0, 1, 0, 1])
    2.0
    >>> distance([0, 0, 1], [0, 0, 0], "binder", weight=[1, 1, 2])
    0.6666666666666666
    """
    return compute_expected_loss(a, np.asarray(b)[np.newaxis], loss, weight)


def compute_expected_loss(
    labels: ArrayLike, draws: ArrayLike, loss: Loss = "vi", weight: ArrayLike | None = None
) -> float:
    """Mean :func:`distance` between a partition and the draws.

    Parameters
    ----------
    labels : (n,) whole numbers.
    draws : (d, n) whole numbers, one partition a row.
    """
    rows = _check_partitions(draws)
    points = _check_weight(weight, rows.shape[1], loss)
    return float(_measure_distances(_check_partition(labels, rows.shape[1]), rows, loss, points).mean())


def find_consensus(
    draws: ArrayLike, loss: Loss = "vi", weight: ArrayLike | None = None, most_clusters: int | None = None
) -> Consensus:
    """The partition whose expected loss is the least that a search finds.

    The search starts from the three best draws, and from nothing: sites join one after the other. From each start it
    joins whole clusters and moves single sites, as long as the loss falls, in the manner of SALSO (Dahl, Johnson and
    Müller 2022). No randomness is involved: equal draws give equal results. The result is not worse than any draw that
    was considered as a start and keeps to `most_clusters`.

    Work is bounded: of more than 32 draws, the starts come from 32 that are evenly spaced. The search follows the loss
    over 25 draws from each start, and over 100 from the best partition that this gave (over fewer if the draws have so
    many clusters that its tables would need more than 84 MB; it is left out if fewer than 10 fit). What these searches
    end with is compared over all draws.

    Parameters
    ----------
    draws : (d, n) whole numbers, one partition a row; from one chain or several.
    loss : ``"vi"`` or ``"binder"``, see :func:`distance`. Binder tends to more and smaller clusters.
    weight : (n,) points of each site; None counts each site once.
    most_clusters : most clusters of the result; None sets no limit.

    References
    ----------
    Wade and Ghahramani (2018), Bayesian cluster analysis: point estimation and credible balls. Bayesian Analysis.
    Dahl, Johnson and Müller (2022), Search algorithms and loss functions for Bayesian clustering. JCGS.

    Examples
    --------
    >>> consensus([[0, 0, 1, 1], [5, 5, 5, 3], [2, 2, 0, 0]]).labels.tolist()
    [0, 0, 1, 1]
    """
    rows = _check_partitions(draws)
    points = _check_weight(weight, rows.shape[1], loss)
    most = rows.shape[1] if most_clusters is None else int(most_clusters)
    if most < 1:
        raise InputError(f"most_clusters must be at least 1, not {most_clusters}")
    few = rows[_spread_evenly(len(rows), MAX_CANDIDATES)]
    judged = np.array([_measure_distances(row, few, loss, points).mean() for row in few])
    starts = few[np.argsort(judged, kind="stable")[:N_STARTS]]
    candidates = [row for row in starts if row.max() < most]
    candidates.extend(_search(starts, rows, loss, points, most))
    if not candidates:  # no room for a search, and no start is small enough: the one partition that always is
        candidates.append(np.zeros(rows.shape[1], np.int32))
    expected = [float(_measure_distances(labels, rows, loss, points).mean()) for labels in candidates]
    best = int(np.argmin(expected))
    return Consensus(candidates[best].copy(), loss, expected[best])


def find_credible_ball(
    draws: ArrayLike, centre: ArrayLike, level: float = 0.95, loss: Loss = "vi", weight: ArrayLike | None = None
) -> CredibleBall:
    """The smallest ball around a partition that holds a share `level` of the draws.

    Parameters
    ----------
    draws : (d, n) whole numbers, one partition a row.
    centre : (n,) whole numbers, such as :attr:`Consensus.labels`.
    level : between 0 and 1.
    loss, weight : what distance means, see :func:`distance`.

    Examples
    --------
    >>> ball = credible_ball([[0, 0, 1, 1], [0, 0, 0, 0], [0, 1, 0, 1]], [0, 0, 1, 1], level=0.6)
    >>> ball.inside.tolist(), ball.coarsest
    ([True, True, False], 1)
    """
    rows = _check_partitions(draws)
    points = _check_weight(weight, rows.shape[1], loss)
    level = check_number("level, a share of the draws such as 0.95,", level, 0, 1, exclusive_min=True)
    away = _measure_distances(_check_partition(centre, rows.shape[1]), rows, loss, points)
    needed = math.ceil(level * len(away) - 1e-9)  # 0.07 * 100 is a little more than 7
    radius = float(np.sort(away)[max(needed, 1) - 1])
    inside = away <= radius
    clusters = rows.max(axis=1)
    fewest, most = clusters[inside].min(), clusters[inside].max()
    return CredibleBall(
        level, radius, away, inside,
        farthest=_find_farthest(away, inside),
        coarsest=_find_farthest(away, inside & (clusters == fewest)),
        finest=_find_farthest(away, inside & (clusters == most)),
    )  # fmt: skip


def _search(starts: Int32Array, rows: Int32Array, loss: Loss, points: Float64Array, most: int) -> list[Int32Array]:
    """What the search ends with: from the best of its rough results, then from each start and from nothing."""
    n = rows.shape[1]
    most_of_draws = int(rows.max()) + 1
    # Room to grow beyond the draws' own clusters: the Binder loss likes to set single sites apart.
    slots = min(n, most_of_draws + 16)
    fitting = MAX_TABLE_ENTRIES // (most_of_draws * slots)
    if fitting < min(MIN_DRAWS, len(rows)):
        return []
    nothing = np.full((1, n), -1, np.int32)
    few = rows[_spread_evenly(len(rows), min(N_ROUGH_DRAWS, fitting))]
    rough = _search_from(np.concatenate((starts, nothing)), few, slots, loss, points, most)
    if len(few) == len(rows):
        return list(rough)
    many = rows[_spread_evenly(len(rows), min(N_FINE_DRAWS, fitting))]
    best = int(np.argmin([_measure_distances(row, many, loss, points).mean() for row in rough]))
    return [*_search_from(rough[best : best + 1], many, slots, loss, points, most), *rough]


def _search_from(
    starts: Int32Array, draws: Int32Array, slots: int, loss: Loss, points: Float64Array, most: int
) -> Int32Array:
    """Where the search leads from each start if it looks at these draws, as canonical labels."""
    clusters = draws.max(axis=1).astype(np.int64) + 1
    first = np.cumsum(clusters) - clusters
    columns = np.ascontiguousarray((draws + first[:, np.newaxis]).T, dtype=np.int32)
    least = 1e-9 * _loss_scale(points, loss) * len(draws)
    rows = int(clusters.sum())
    ends = [kernels.local_search(s, columns, rows, slots, points, most, loss == "binder", least) for s in starts]
    return kernels.canonicalize_rows(np.stack(ends))


def _measure_distances(labels: Int32Array, rows: Int32Array, loss: Loss, points: Float64Array) -> Float64Array:
    """(d,) from a partition (n,) to each of the rows (d, n), all of canonical labels."""
    return kernels.compute_losses(labels, rows, points, loss == "binder") / _loss_scale(points, loss)


def _loss_scale(points: Float64Array, loss: Loss) -> float:
    """What the kernels' losses are divided by; one point alone has no pairs, and no loss either."""
    total = float(points.sum())
    if loss == "vi":
        return total
    return total * (total - 1) if points.size > 1 else 1.0


def _spread_evenly(available: int, wanted: int) -> NDArray[np.intp]:
    """Indices of at most `wanted` of the draws, evenly spaced."""
    count = min(available, wanted)
    return np.arange(count) * available // count


def _find_farthest(away: Float64Array, among: NDArray[np.bool_]) -> int:
    """Index of the first of the farthest draws among some, both (d,)."""
    return int(np.argmax(np.where(among, away, -1.0)))


def _check_partitions(draws: ArrayLike) -> Int32Array:
    """Draws as canonical labels, (d, n) int32."""
    rows = np.asarray(draws)
    if rows.ndim != 2 or rows.dtype.kind not in "bui":
        raise InputError(f"draws must be whole numbers of shape (draws, sites), not {rows.dtype} of shape {rows.shape}")
    if rows.size == 0:
        raise InputError("there is no draw to summarise: run the chain past its burn-in first")
    # The kernel looks labels up in a table; labels that would make it long are numbered anew.
    if rows.min() < 0 or rows.max() >= max(rows.size, 2**16):
        rows = np.unique(rows, return_inverse=True)[1].reshape(rows.shape)
    # A copy in any case: numba would compile everything again for an array that must not be written to.
    return kernels.canonicalize_rows(np.array(rows, dtype=np.int32, order="C"))


def _check_partition(labels: ArrayLike, n: int) -> Int32Array:
    """One partition as canonical labels, (n,) int32."""
    row = np.asarray(labels)
    if row.shape != (n,):
        raise InputError(f"a partition of {n} sites must have {n} labels, not shape {row.shape}")
    only: Int32Array = _check_partitions(row[np.newaxis])[0]
    return only


def _check_weight(weight: ArrayLike | None, n: int, loss: str) -> Float64Array:
    """Weights of the sites, (n,); and the name of the loss is checked too, as every function needs both."""
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
