"""Convergence diagnostics of chains: R-hat, effective sample size and spread of edge probabilities.

Labels have no meaning from sweep to sweep. Chains are compared by the log posterior, the number of clusters, the
entropy of their sizes, and on every edge, the probability that its two ends share a cluster.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from napari_gsw.core.array_types import Float64Array
from napari_gsw.core.versions import FormerName

# The columns of a trace.
QUANTITIES = ("log posterior", "number of clusters", "entropy of sizes")
# Least number of sweeps of a trace, or behind the probability of an edge.
MIN_SWEEPS = 20
# Largest R-hat and smallest effective sample size that count as agreement.
MAX_R_HAT, MIN_ESS = 1.05, 100
# The margin to 0 or 1 within which the probability of an edge is certain, and the largest mean deviation of the others.
CERTAIN_MARGIN, MAX_EDGE_DEVIATION = 0.05, 0.05
# Decimal digits of a trace: the log posterior is a running sum, and its rounding errors would matter in ranks.
DIGITS = 6
NEVER_CHANGED = "the number of clusters never changed, which size limits can prevent"


class Mixing(NamedTuple):
    """Agreement of chains on one quantity."""

    r_hat: float  # rank-normalized split R-hat; infinity if each chain is stuck at a value of its own
    ess: float  # bulk effective sample size of all chains together


@dataclass(frozen=True)
class Diagnosis:
    """Convergence of chains."""

    chains: int
    sweeps: int  # of each chain that were compared
    mixing: dict[str, Mixing]  # for each name in QUANTITIES; empty if there are too few sweeps
    # Standard deviation over the chains of the probability of an edge, averaged over the edges that are not certain in
    # all chains; NaN if there are no two chains to compare.
    edge_deviation: float
    agree: bool  # nothing indicates that the chains have not converged; for one chain this only compares its halves
    summary: str  # the same as a sentence

    sentence = FormerName("summary")


def diagnose(traces: Sequence[ArrayLike], together: ArrayLike | None = None, limited: bool = False) -> Diagnosis:
    """Diagnose the convergence of one or more chains.

    A single chain is split into two halves that are compared like two chains. A quantity that never changes agrees if
    it is the same in all chains, and counts as many effective samples as there are sweeps.

    Of each chain, `traces` (sweeps, 3) have the columns `QUANTITIES`, after the burn-in; of longer ones the last sweeps
    count. `together` (chains, m) is the probability that the two ends of an edge share a cluster, or NaN. If the sizes
    of clusters are `limited`, moves may be unable to change their number. A number that never changed is then no sign
    of convergence of a single chain, and is mentioned for several.

    References
    ----------
    Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Rank-normalization, folding, and localization: an improved
    R-hat. Bayesian Analysis. The edge deviation is the average standard deviation of split frequencies of phylogenetics
    (Lakner, van der Mark, Huelsenbeck, Larget and Ronquist 2008. Systematic Biology).
    """
    rows = [np.asarray(trace, np.float64) for trace in traces]
    shares = np.empty((0, 0)) if together is None else np.asarray(together, np.float64)
    shares = shares[~np.isnan(shares).any(axis=1)]
    deviation, differing = math.nan, 0.0  # the latter of the boundaries of any chain that are not boundaries of all
    if len(shares) > 1:
        is_certain = (shares <= CERTAIN_MARGIN).all(axis=0) | (shares >= 1 - CERTAIN_MARGIN).all(axis=0)
        deviation = 0.0 if is_certain.all() else float(shares[:, ~is_certain].std(axis=0, ddof=1).mean())
        n_chains = np.count_nonzero(shares < 0.5, axis=0)  # for which an edge is a boundary
        differing = float(np.mean(n_chains[n_chains > 0] < len(shares))) if n_chains.any() else 0.0
    chains, sweeps = len(rows), min(len(row) for row in rows)
    if sweeps < MIN_SWEEPS:
        summary = f"too few sweeps: {sweeps} after the burn-in, {MIN_SWEEPS} needed; run longer"
        return Diagnosis(chains, sweeps, {}, deviation, False, summary)
    values = np.stack([row[len(row) - sweeps :] for row in rows]).round(DIGITS)
    mixing = {name: _measure_mixing(values[:, :, c]) for c, name in enumerate(QUANTITIES)}
    doubts = []
    for name, (r_hat, ess) in mixing.items():
        if math.isinf(r_hat):
            doubts.append(f"{name}: stuck at different values")
        elif not r_hat <= MAX_R_HAT:
            doubts.append(f"{name}: R-hat {r_hat:.2f}")
        elif ess < MIN_ESS:
            doubts.append(f"{name}: {ess:.0f} effective samples")
    clusters = values[:, :, QUANTITIES.index("number of clusters")]
    is_frozen = limited and bool((clusters == clusters[:, :1]).all())
    if is_frozen and chains == 1:
        doubts.append(NEVER_CHANGED)
    if deviation > MAX_EDGE_DEVIATION:
        doubts.append(f"edges differ by {deviation:.2f}")
    figures = f"R-hat {max(m.r_hat for m in mixing.values()):.2f}, {min(m.ess for m in mixing.values()):.0f} effective"
    figures += " samples" + ("" if math.isnan(deviation) else f", edges differ by {deviation:.2f}")
    if doubts:
        where = f"{chains} chains differ on {differing:.0%} of the boundaries; " if differing >= 0.005 else ""
        summary = f"{'one chain, ' if chains == 1 else ''}not converged: {where}run longer ({'; '.join(doubts)})"
    elif chains == 1:
        summary = f"one chain is stationary ({figures}), which does not show convergence: run 4 chains"
    else:
        summary = f"{chains} chains agree ({figures})" + (f"; {NEVER_CHANGED}" if is_frozen else "")
    return Diagnosis(chains, sweeps, mixing, deviation, not doubts, summary)


def _measure_mixing(values: Float64Array) -> Mixing:
    """Measure R-hat and effective sample size of one quantity, (chains, sweeps)."""
    if (values == values[0, 0]).all():
        return Mixing(1.0, float(values.size))
    if len(values) == 1:
        values = _split_halves(values)
    halves = _split_halves(values)
    if (halves == halves[:, :1]).all():  # no variance within chains: R-hat would be a rounded division by 0
        return Mixing(math.inf, float(len(values)))
    from arviz_stats.base.array import array_stats  # takes a tenth of a second to import, and few need it

    stats: Any = array_stats
    # The folded half of R-hat divides 0 by 0 where all values are equally far from the median, and is then left out.
    with np.errstate(divide="ignore", invalid="ignore"):
        return Mixing(float(stats.rhat(values, method="rank")), float(stats.ess(values, method="bulk")))


def _split_halves(values: Float64Array) -> Float64Array:
    """(chains, sweeps) -> (2 chains, sweeps // 2), without the middle sweep of an odd number."""
    half = values.shape[1] // 2
    return np.concatenate((values[:, :half], values[:, values.shape[1] - half :]))
