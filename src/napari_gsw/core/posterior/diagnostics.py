"""Do the chains agree? R-hat, effective sample sizes and the spread of edge probabilities, and a sentence about them.

Labels have no meaning from sweep to sweep, so chains are compared by what has: the log posterior, the number of
clusters, the entropy of their sizes; and, on every edge, the probability that its two ends share a cluster.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from napari_gsw.core.array_types import Float64Array
from napari_gsw.core.errors import InputError

# The columns of a trace.
QUANTITIES = ("log posterior", "number of clusters", "entropy of sizes")
# With fewer sweeps (of a trace, or behind an edge's probability) nothing is said.
MIN_SWEEPS = 20
# An edge is settled if all chains give it a probability within this of 0, or all within this of 1.
CERTAIN_MARGIN = 0.05
# Decimal digits that count.
DIGITS = 6
# What is said where the number of clusters never changed and the prior limits their sizes.
NEVER_CHANGED = "the number of clusters never changed, which size limits can prevent"
# Chains agree on the edges if the probabilities of the others differ by no more than this, on average.
MAX_EDGE_DEVIATION = 0.05


class Mixing(NamedTuple):
    """How well chains agree on one quantity.

    Attributes
    ----------
    r_hat : rank-normalised split R-hat: 1 if the chains, and the halves of each, look alike; infinity if each
        chain is stuck at a value of its own.
    ess : bulk effective sample size of all chains together.
    """

    r_hat: float
    ess: float


@dataclass(frozen=True)
class Diagnosis:
    """What there is to say about the convergence of chains.

    Attributes
    ----------
    chains : number of chains.
    sweeps : sweeps of each that were looked at.
    mixing : for each name in :data:`QUANTITIES`; empty if it is too early to tell.
    edge_deviation : standard deviation over the chains of an edge's probability, averaged over the edges that are not
        settled; 0 if all are, NaN if there are not two chains to compare.
    agree : whether nothing speaks against convergence. Of a single chain it only says that its halves agree, which is
        no sign that another chain would come to the same.
    sentence : the same for a reader.
    """

    chains: int
    sweeps: int
    mixing: dict[str, Mixing]
    edge_deviation: float
    agree: bool
    summary: str


def diagnose(
    traces: Sequence[ArrayLike],
    together: ArrayLike | None = None,
    counted: ArrayLike | None = None,
    r_hat: float = 1.05,
    ess: float = 100,
    limited: bool = False,
) -> Diagnosis:
    """Whether chains agree with each other, and each with itself.

    Parameters
    ----------
    traces : one array (sweeps, 3) for each chain, after its burn-in; columns as in :data:`QUANTITIES`. Of chains of
        different lengths, the last sweeps of the longer ones are taken.
    together : (chains, m) probability that the two ends of each edge share a cluster, by chain; NaN where a chain has
        counted no sweep yet.
    counted : (chains,) sweeps behind each row of `together`. Rows with fewer than 20 are left out, because their
        probabilities are too coarse to be compared. None takes every row that has no NaN.
    r_hat : largest R-hat that counts as agreement.
    ess : smallest effective sample size that counts as enough, of all chains together.
    limited : whether the prior limits the sizes of clusters. Moves may then be unable to change their number: one that
        never changed is no sign of agreement with a single chain, and is mentioned with several.

    Notes
    -----
    A single chain is cut into two halves that are compared as two chains would be. A quantity that never changes
    agrees if it is the same in all chains, and counts as many effective samples as there are sweeps.

    References
    ----------
    Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Rank-normalization, folding, and localization: an improved
    R-hat. Bayesian Analysis. The deviation of edges is what phylogenetics calls the average standard deviation of
    split frequencies (Lakner, van der Mark, Huelsenbeck, Larget and Ronquist 2008. Systematic Biology).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> here = [rng.normal(size=(200, 3)) for _ in range(4)]
    >>> diagnose(here).agree
    True
    >>> diagnose([*here[:3], here[3] + 5]).sentence.split(" (")[0]
    'not settled yet: run longer'
    """
    rows = _check_traces(traces)
    shares = _select_comparable(together, counted, len(rows))
    deviation = _measure_edge_deviation(shares)
    sweeps = min(len(row) for row in rows)
    if sweeps < MIN_SWEEPS:
        summary = f"too few sweeps to tell: {sweeps} counted since the burn-in, {MIN_SWEEPS} needed; run longer"
        return Diagnosis(len(rows), sweeps, {}, deviation, False, summary)
    # The log posterior is kept by adding up changes: chains in one state differ by rounding errors, in ranks a lot.
    values = np.stack([row[len(row) - sweeps :] for row in rows]).round(DIGITS)
    mixing = {name: _measure_mixing(values[:, :, c]) for c, name in enumerate(QUANTITIES)}
    doubts = [text for name, quality in mixing.items() if (text := _describe_doubt(name, quality, r_hat, ess))]
    clusters = values[:, :, QUANTITIES.index("number of clusters")]
    frozen = limited and bool((clusters == clusters[:, :1]).all())
    if frozen and len(rows) == 1:
        doubts.append(NEVER_CHANGED)
    if deviation > MAX_EDGE_DEVIATION:
        doubts.append(f"edges differ by {deviation:.2f}")
    summary = _write_summary(len(rows), mixing, deviation, _differing_boundaries(shares), doubts)
    if frozen and not doubts:
        summary += f"; {NEVER_CHANGED}"
    return Diagnosis(len(rows), sweeps, mixing, deviation, not doubts, summary)


def _measure_mixing(values: Float64Array) -> Mixing:
    """R-hat and effective sample size of one quantity, (chains, sweeps)."""
    if (values == values[0, 0]).all():
        return Mixing(1.0, float(values.size))
    if len(values) == 1:
        values = _split_halves(values)
    parts = _split_halves(values)
    if (parts == parts[:, :1]).all():  # no variance within: R-hat would be what rounding makes of a division by 0
        return Mixing(math.inf, float(len(values)))
    # Here and not above, because it takes a tenth of a second to import and few who import this package need it.
    from arviz_stats.base.array import array_stats

    stats: Any = array_stats
    # The folded half of R-hat divides 0 by 0 where all values are equally far from the median; it is then left out.
    with np.errstate(divide="ignore", invalid="ignore"):
        return Mixing(float(stats.rhat(values, method="rank")), float(stats.ess(values, method="bulk")))


def _split_halves(values: Float64Array) -> Float64Array:
    """(chains, sweeps) -> (2 chains, sweeps // 2); the middle sweep of an odd number is left out."""
    half = values.shape[1] // 2
    return np.concatenate((values[:, :half], values[:, values.shape[1] - half :]))


def _select_comparable(together: ArrayLike | None, counted: ArrayLike | None, chains: int) -> Float64Array:
    """(rows, m) those rows of `together` that can be compared, which may be none."""
    if together is None:
        return np.empty((0, 0))
    share = np.asarray(together, dtype=np.float64)
    if share.ndim != 2 or len(share) != chains:
        raise InputError(f"together must have one row for each of {chains} chains, not shape {share.shape}")
    usable = np.array([not np.isnan(row).any() for row in share])
    if counted is not None:
        behind = np.asarray(counted)
        if behind.shape != (chains,):
            raise InputError(f"counted must be one number for each of {chains} chains, not shape {behind.shape}")
        usable &= behind >= MIN_SWEEPS
    return np.asarray(share[usable])


def _measure_edge_deviation(share: Float64Array) -> float:
    """:attr:`Diagnosis.edge_deviation`, of rows (rows, m) that can be compared."""
    if len(share) < 2:
        return math.nan
    settled = (share <= CERTAIN_MARGIN).all(axis=0) | (share >= 1 - CERTAIN_MARGIN).all(axis=0)
    if settled.all():
        return 0.0
    return float(share[:, ~settled].std(axis=0, ddof=1).mean())


def _differing_boundaries(share: Float64Array) -> float:
    """Of the edges that are a boundary to any chain, the share that is none to another; 0 if nothing is known."""
    if len(share) < 2:
        return 0.0
    chains = np.count_nonzero(share < 0.5, axis=0)  # to which an edge is a boundary
    return float(np.mean(chains[chains > 0] < len(share))) if chains.any() else 0.0


def _describe_doubt(name: str, quality: Mixing, r_hat: float, ess: float) -> str:
    """What speaks against convergence of one quantity, or nothing."""
    if math.isinf(quality.r_hat):
        return f"{name}: stuck at different values"
    if not quality.r_hat <= r_hat:
        return f"{name}: R-hat {quality.r_hat:.2f}"
    if not quality.ess >= ess:
        return f"{name}: {quality.ess:.0f} effective samples"
    return ""


def _write_summary(
    chains: int, mixing: dict[str, Mixing], deviation: float, differing: float, doubts: list[str]
) -> str:
    """:attr:`Diagnosis.sentence`."""
    if doubts:
        one = "one chain, " if chains == 1 else ""
        where = f"{chains} chains still differ on {differing:.0%} of the boundaries; " if differing >= 0.005 else ""
        return f"{one}not settled yet: {where}run longer ({'; '.join(doubts)})"
    worst = max(quality.r_hat for quality in mixing.values())
    least = min(quality.ess for quality in mixing.values())
    figures = f"R-hat {worst:.2f}, {least:.0f} effective samples"
    if chains == 1:
        return f"one chain shows no drift ({figures}), but not whether another would settle elsewhere: run 4 chains"
    edges = "" if math.isnan(deviation) else f", edges differ by {deviation:.2f}"
    return f"{chains} chains agree ({figures}{edges})"


def _check_traces(traces: Sequence[ArrayLike]) -> list[Float64Array]:
    """Traces (sweeps, 3) as float64, all finite."""
    rows = [np.asarray(trace, dtype=np.float64) for trace in traces]
    if not rows:
        raise InputError("there is no chain to diagnose: run at least one")
    for row in rows:
        if row.ndim != 2 or row.shape[1] != len(QUANTITIES):
            raise InputError(f"a trace must have shape (sweeps, {len(QUANTITIES)}), not {row.shape}")
        if not np.isfinite(row).all():
            raise InputError("a trace must be finite: leave out the sweeps before the first state that is possible")
    return rows
