"""Figure 1: number of clusters of a Dirichlet process among n = 1000 sites, exactly and simulated."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaln

from napari_gsw.batch.jobs import Record
from napari_gsw.core.array_types import Float64Array
from napari_gsw.core.model.priors import DirichletProcess
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.sampler.sample import run
from napari_gsw.research.figures import INKS, make_figure, tidy_axes
from napari_gsw.research.paper.experiment import Study

N = 1000
ALPHAS = (3.0, 5.0)
SWEEPS, QUICK_SWEEPS = 20_000, 2_000


def log_stirling(n: int) -> Float64Array:
    """Compute (n + 1,) log |s(n, k)|, unsigned Stirling numbers of the first kind, for k = 0..n.

    The recurrence is |s(n + 1, k)| = n |s(n, k)| + |s(n, k - 1)|, in logarithms.

    Examples
    --------
    >>> np.exp(log_stirling(4)).round().astype(int).tolist()
    [0, 6, 11, 6, 1]
    """
    row = np.full(n + 1, -np.inf)
    row[0] = 0.0
    for m in range(n):
        shifted = np.concatenate(([-np.inf], row[:-1]))
        row = np.logaddexp(row + np.log(m) if m else np.full(n + 1, -np.inf), shifted)
    return row


def exact_distribution(n: int, alpha: float) -> Float64Array:
    """Compute (n + 1,) P(k clusters) = |s(n, k)| alpha^k Gamma(alpha) / Gamma(alpha + n) (Antoniak 1974)."""
    k = np.arange(n + 1)
    return np.asarray(np.exp(log_stirling(n) + k * np.log(alpha) + gammaln(alpha) - gammaln(alpha + n)))


def simulate(n: int, alpha: float, sweeps: int, seed: int) -> Record:
    """Count the numbers of clusters that a chain without data and couplings visits."""
    free = Problem(n, (), np.zeros((0, 2), np.int32), np.zeros(0), DirichletProcess(alpha))
    n_clusters = run(free, sweeps, seed=seed).trace[sweeps // 10 :, 1].astype(np.int64)
    return {"counts": np.bincount(n_clusters).tolist()}


def reproduce(study: Study) -> None:
    """Simulate, and write ``fig1.png``, ``fig1.csv`` and ``fig1.json``."""
    sweeps = QUICK_SWEEPS if study.quick else SWEEPS
    tasks = {f"alpha {alpha:g}": (N, alpha, sweeps, study.seed) for alpha in ALPHAS}
    records = study.run("fig1", simulate, tasks, {"sweeps": sweeps})
    figure = make_figure(6.5, 3.6)
    axes = figure.subplots()
    table: list[list[Any]] = []
    summary: dict[str, Any] = {}
    k = np.arange(N + 1)
    for ink, (name, (_, alpha, *_)) in zip((INKS[1], INKS[4]), tasks.items(), strict=True):
        exact = exact_distribution(N, alpha)
        counts = np.array(records[name]["counts"], dtype=float)
        share = np.zeros(N + 1)
        share[: len(counts)] = counts / counts.sum()
        mean = float(k @ exact)
        summary[name] = {
            "exact_mean": mean,
            "simulated_mean": float(k @ share),
            "approximation_alpha_log_n": alpha * float(np.log(N)),
            "total_variation": float(np.abs(exact - share).sum() / 2),
        }
        table += [[alpha, int(i), exact[i], share[i]] for i in np.flatnonzero((exact > 1e-12) | (share > 0))]
        axes.bar(k, share, width=0.8, color=ink, alpha=0.3, label=f"α = {alpha:g}, simulated")
        axes.plot(k, exact, "o-", color=ink, markersize=3, linewidth=1, label=f"α = {alpha:g}, exact (mean {mean:.2f})")
    axes.set_xlim(0, 55)
    tidy_axes(axes, "number of clusters", "probability")
    axes.legend(frameon=False, fontsize=9)
    study.save_figure("fig1", figure)
    study.write_csv("fig1", ("alpha", "clusters", "exact", "simulated"), table)
    study.write_json("fig1", n=N, sweeps=sweeps, **summary)
