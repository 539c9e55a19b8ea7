"""Figure 1: how many clusters a Dirichlet process expects among n = 1000 sites, exactly and simulated."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from napari_gsw.batch.jobs import JobOptions, JobRecords, Record, run_jobs
from napari_gsw.core.array_types import Float64Array
from napari_gsw.core.model.priors import DirichletProcess
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.sampler.sample import run
from napari_gsw.files.results import write_csv, write_json
from napari_gsw.research import figures
from napari_gsw.research.paper.pictures import ExperimentPlan

N = 1000
ALPHAS = (3.0, 5.0)
SWEEPS, QUICK_SWEEPS = 20_000, 2_000


class Fig1Chain(NamedTuple):
    """A chain without data and couplings: the concentration of its Dirichlet process, and how long it runs."""

    alpha: float
    sweeps: int
    seed: int


def log_stirling(n: int) -> Float64Array:
    """(n + 1,) log |s(n, k)|, unsigned Stirling numbers of the first kind, for k = 0..n.

    By the recurrence |s(n + 1, k)| = n |s(n, k)| + |s(n, k - 1)|, in logarithms.

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
    """(n + 1,) P(k clusters), k = 0..n: |s(n, k)| alpha^k Gamma(alpha) / Gamma(alpha + n) (Antoniak 1974)."""
    k = np.arange(n + 1)
    law: Float64Array = np.exp(log_stirling(n) + k * np.log(alpha) + gammaln(alpha) - gammaln(alpha + n))
    return law


def simulated(task: Fig1Chain) -> Record:
    """Sweeps of our own chain without data and couplings, thinned no further: how often each number of clusters."""
    free = Problem(N, (), np.zeros((0, 2), np.int32), np.zeros(0), DirichletProcess(task.alpha))
    trace = run(free, task.sweeps, seed=task.seed).trace[task.sweeps // 10 :, 1].astype(np.int64)
    return {"counts": np.bincount(trace, minlength=N + 1)[: int(trace.max()) + 1].tolist()}


def reproduce(plan: ExperimentPlan, job_options: JobOptions) -> JobRecords:
    """Simulate, and write ``fig1.png``, ``fig1.csv`` and ``fig1.json``; returns the rows of all chains."""
    sweeps = QUICK_SWEEPS if plan.quick else SWEEPS
    jobs = {f"alpha {a:g}": Fig1Chain(a, sweeps, plan.seed) for a in ALPHAS}
    rows = run_jobs("fig1", simulated, jobs, {"sweeps": sweeps, "seed": plan.seed}, job_options)
    drawing = figures.figure(6.5, 3.6)
    axes = drawing.subplots()
    table: list[list[Any]] = []
    summary: dict[str, Any] = {"n": N, "sweeps": sweeps, "seed": plan.seed}
    for ink, alpha in zip((figures.INKS[1], figures.INKS[4]), ALPHAS, strict=True):
        exact = exact_distribution(N, alpha)
        name = f"alpha {alpha:g}"
        counts = np.array(rows.done[name]["counts"], dtype=float)
        share = np.zeros(N + 1)
        share[: len(counts)] = counts / counts.sum()
        k = np.arange(N + 1)
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
    figures.tidy(axes, "number of clusters", "probability")
    axes.legend(frameon=False, fontsize=9)
    figures.save(drawing, job_options.folder / "fig1.png")
    write_csv(job_options.folder / "fig1.csv", ("alpha", "clusters", "exact", "simulated"), table)
    write_json(job_options.folder / "fig1.json", summary)
    return rows
