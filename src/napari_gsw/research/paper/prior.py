"""Numbers of clusters: figures 1 and 2 of the paper, and chains under limits of the size of a cluster.

Without data the distribution of the number of clusters is known where there are no couplings, and chains are compared
with it. Under limits on a photograph it is not; there, chains from different starts are compared with each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from napari_gsw.batch.jobs import Record
from napari_gsw.core.graph.region_graph import RegionGraph, build_region_graph
from napari_gsw.core.image.normalized_image import normalize_image
from napari_gsw.core.model.priors import DirichletProcess, cluster_distribution
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.pipeline.segment import segment
from napari_gsw.core.sampler.sample import run
from napari_gsw.core.settings import Settings
from napari_gsw.core.sites.superpixels import make_superpixels
from napari_gsw.research.figures import INKS, PAPER_INK, make_axes, tidy_axes
from napari_gsw.research.paper.experiment import Study
from napari_gsw.sample_data import astronaut

# ---- uncoupled sites: figure 1, and limits of the size of a cluster

FIG1_SITES, FIG1_ALPHAS = 1000, (3.0, 5.0)
FIG1_SWEEPS, FIG1_QUICK_SWEEPS = 20_000, 2_000
# Less probable numbers of clusters are left out of the likely range.
MIN_PROBABILITY = 0.001


def sample_uncoupled(n: int, alpha: float, low: int, high: int, seed: int, sweeps: int, chains: int) -> Record:
    """Compare the numbers of clusters that chains without data and couplings visit with their exact distribution."""
    prior = DirichletProcess(alpha).truncated(low, high)
    exact = cluster_distribution(prior, n)
    likely = np.flatnonzero(exact > MIN_PROBABILITY)
    first = np.arange(n - 1, dtype=np.int32)
    problem = Problem(n, (), np.stack((first, first + 1), axis=1), np.zeros(n - 1), prior)
    traces = [run(problem, sweeps, seed=seed + s, regroups=1).trace[:, 1].astype(np.int64) for s in range(chains)]
    shares = [np.bincount(k, minlength=n + 1) / len(k) for k in traces]
    return {
        "likely": [int(likely[0]), int(likely[-1])],
        "mean": float(exact @ np.arange(n + 1)),
        "changes": [int(np.count_nonzero(np.diff(k))) for k in traces],
        "distance": [float(np.abs(share - exact).sum() / 2) for share in shares],
        "exact": exact.tolist(),
        "shares": np.mean(shares, axis=0).tolist(),
    }


def reproduce_fig1(study: Study) -> None:
    """Simulate, and write ``fig1.png``, ``fig1.csv`` and ``fig1.json``."""
    n, sweeps = FIG1_SITES, FIG1_QUICK_SWEEPS if study.quick else FIG1_SWEEPS
    cases = {f"alpha {alpha:g}": (n, alpha, 1, n) for alpha in FIG1_ALPHAS}
    records = study.run("fig1", sample_uncoupled, cases, sweeps=sweeps, chains=1)
    figure, ((axes,),) = make_axes(6.5, 3.6)
    rows: list[list[Any]] = []
    content: dict[str, Any] = {"n": n, "sweeps": sweeps}
    k = np.arange(n + 1)
    for ink, (name, record) in zip((INKS[1], INKS[4]), records.items(), strict=True):
        alpha, exact, share = cases[name][1], np.array(record["exact"]), np.array(record["shares"])
        content[name] = {
            "exact_mean": record["mean"],
            "simulated_mean": float(k @ share),
            "approximation_alpha_log_n": alpha * float(np.log(n)),
            "total_variation": record["distance"][0],
        }
        rows += [[alpha, int(i), exact[i], share[i]] for i in np.flatnonzero((exact > 1e-12) | (share > 0))]
        axes.bar(k, share, width=0.8, color=ink, alpha=0.3, label=f"{name}, simulated")
        axes.plot(k, exact, "o-", color=ink, markersize=3, label=f"{name}, exact (mean {record['mean']:.2f})")
    axes.set_xlim(0, 55)
    tidy_axes(axes, "number of clusters", "probability")
    axes.legend(frameon=False, fontsize=9)
    study.write("fig1", content, (("alpha", "clusters", "exact", "simulated"), rows), figure=figure)


# ---- figure 2: mean number of clusters against beta, on the graph of an image

FIG2_ALPHAS = (1.0, 3.0, 5.0)
BETAS = (0.0, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3)
QUICK_BETAS = (0.0, 0.01, 0.02, 0.05, 0.1)
STARTS = ("one", "random")
FIG2_SWEEPS, FIG2_QUICK_SWEEPS = 12_000, 1_000
# SLIC makes 1,110 superpixels of this many pixels of the astronaut; the paper has 1,099.
SITE_SIZE, PAPER_SITES = 219, 1099
# Expected clusters in the caption of the paper's figure. They are one too low: E[k] - 1.
CAPTION_CLUSTERS = {1.0: 6.6, 3.0: 17.2, 5.0: 26.5}
BATCHES = 20


@cache
def make_graph() -> RegionGraph:
    """Make the region adjacency graph of a photograph, with nearly as many superpixels as in the paper."""
    image = normalize_image(astronaut()[0], "auto")
    return build_region_graph(image, make_superpixels(image, Settings(site_size=SITE_SIZE)))


def sample_coupled(alpha: float, beta: float, start: str, seed: int, sweeps: int) -> Record:
    """Compute the mean number of clusters of a chain without data, and its standard error from batch means."""
    graph = make_graph()
    free = Problem(graph.n, (), graph.edges, np.full(len(graph.edges), beta), DirichletProcess(alpha))
    init = None if start == "one" else np.random.default_rng(seed).permutation(graph.n) % 50
    # Different seeds: with the same random numbers the two chains would coalesce.
    seed = 2 * seed + (start == "random")
    n_clusters = run(free, sweeps, seed=seed, lam=1.0, init=init).trace[sweeps // 5 :, 1]
    means = [batch.mean() for batch in np.array_split(n_clusters, BATCHES)]
    return {"mean": float(n_clusters.mean()), "error": float(np.std(means, ddof=1) / np.sqrt(BATCHES))}


def reproduce_fig2(study: Study) -> None:
    """Simulate, and write ``fig2.png``, ``fig2.csv`` and ``fig2.json``."""
    sweeps = FIG2_QUICK_SWEEPS if study.quick else FIG2_SWEEPS
    cases = {
        f"alpha {alpha:g}, beta {beta:g}, from {start}": (alpha, beta, start)
        for alpha in FIG2_ALPHAS
        for beta in (QUICK_BETAS if study.quick else BETAS)
        for start in STARTS
    }
    records = study.run("fig2", sample_coupled, cases, sweeps=sweeps)
    rows = [[*cases[name], record["mean"], record["error"]] for name, record in records.items()]
    graph = make_graph()
    figure, ((axes,),) = make_axes(6.5, 3.8)
    without_coupling: dict[str, Any] = {}
    for ink, alpha in zip((INKS[1], INKS[2], INKS[4]), FIG2_ALPHAS, strict=True):
        for start, marker in zip(STARTS, ("o-", "x"), strict=True):
            x, y, error = np.array([(row[1], *row[3:]) for row in rows if row[0] == alpha and row[2] == start]).T
            label = f"α = {alpha:g}" if start == "one" else None
            axes.errorbar(x, y, 2 * error, fmt=marker, color=ink, markersize=4, linewidth=1, label=label)
        exact, exact_of_paper = (DirichletProcess(alpha).expected_clusters(n) for n in (graph.n, PAPER_SITES))
        without_coupling[f"alpha {alpha:g}"] = {
            "exact": exact,
            "simulated": [row[3] for row in rows if row[:2] == [alpha, 0]],
            f"exact_for_{PAPER_SITES}_sites": exact_of_paper,
            "caption_of_the_paper": CAPTION_CLUSTERS[alpha],
        }
        axes.plot(0, exact, "_", color=ink, markersize=16, markeredgewidth=2)
    axes.axvline(0.02, color=PAPER_INK, linewidth=1, linestyle=":", label="β of the paper")
    title = f"{graph.n:,} sites; bars at β = 0: exact; ● from one cluster, × from 50"
    tidy_axes(axes, "β", "mean number of clusters", title)
    axes.legend(frameon=False)
    content = {"sites": graph.n, "edges": len(graph.edges), "sweeps": sweeps, "without_coupling": without_coupling}
    study.write("fig2", content, (("alpha", "beta", "start", "mean_clusters", "standard_error"), rows), figure=figure)


# ---- limits of the size of a cluster

# Sites, and minimum and maximum size of a cluster.
LIMITS = (
    (60, 5, 6), (40, 7, 10), (40, 5, 10), (60, 5, 10), (60, 5, 15), (60, 5, 20), (200, 5, 40), (60, 2, 6), (60, 1, 6),
    (60, 5, 60), (60, 20, 60), (200, 10, 200), (1000, 9, 1000),
)  # fmt: skip
CHAINS, LIMITS_SWEEPS, LIMITS_QUICK_SWEEPS = 4, 20_000, 200
# Limits and moves of the chains on the photograph, by their names in the table.
PHOTOGRAPH_CASES: Mapping[str, dict[str, Any]] = {
    "none": {},
    "none, `splits=2`": {"splits": 2},
    "`min_size=9`": {"min_size": 9},
    "`min_size=9, regroups=10`": {"min_size": 9, "regroups": 10},
    "`min_size=9, splits=2`": {"min_size": 9, "splits": 2},
    "`max_size=60`": {"max_size": 60},
    "`min_size=30, max_size=60`": {"min_size": 30, "max_size": 60},
    "`min_size=30, max_size=60, splits=2`": {"min_size": 30, "max_size": 60, "splits": 2},
}
LENGTH, QUICK_LENGTH = 2_000, 40


def run_on_photograph(changes: dict[str, Any], seed: int, sweeps: int) -> Record:
    """Run chains on a photograph: mean k, its changes and mean log posterior of the second half, and agreement."""
    result = segment(astronaut()[0], preset="paper", seed=seed, chains=CHAINS, sweeps=sweeps, **changes)
    late = [trace.n_clusters[sweeps // 2 :] for trace in result.traces]
    return {
        "sites": result.problem.n,
        "k": [float(k.mean()) for k in late],
        "changes": [int(np.count_nonzero(np.diff(k))) for k in late],
        "log_posterior": [float(trace.log_posterior[sweeps // 2 :].mean()) for trace in result.traces],
        "agree": bool(result.diagnosis.agree),
    }


def reproduce_limits(study: Study) -> None:
    """Run all chains, and write ``limits.json``."""
    sweeps, length = (LIMITS_QUICK_SWEEPS, QUICK_LENGTH) if study.quick else (LIMITS_SWEEPS, LENGTH)
    cases = {f"{n} sites, {low} to {high}": (n, 1.0, low, high) for n, low, high in LIMITS}
    records = study.run("limits-law", sample_uncoupled, cases, sweeps=sweeps, chains=CHAINS)
    keys = ("likely", "mean", "changes", "distance")
    law = [
        {"n": cases[name][0], "low": cases[name][2], "high": cases[name][3], **{key: record[key] for key in keys}}
        for name, record in records.items()
    ]
    photograph_cases = {name: (changes,) for name, changes in PHOTOGRAPH_CASES.items()}
    photograph = study.run("limits-photograph", run_on_photograph, photograph_cases, sweeps=length)
    study.write("limits", {"sweeps": sweeps, "law": law, "length": length, "photograph": photograph})
