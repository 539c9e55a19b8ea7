"""Figure 2: mean number of clusters under the Potts-Dirichlet-process prior against beta, on the graph of an image."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from napari_gsw.batch.jobs import Record
from napari_gsw.core.graph.region_graph import RegionGraph, build_region_graph
from napari_gsw.core.image.normalized_image import normalize_image
from napari_gsw.core.model.priors import DirichletProcess
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.sampler.sample import run
from napari_gsw.core.settings import Settings
from napari_gsw.core.sites.superpixels import make_superpixels
from napari_gsw.research.figures import INKS, PAPER_INK, make_figure, tidy_axes
from napari_gsw.research.paper.experiment import Study
from napari_gsw.sample_data import astronaut

ALPHAS = (1.0, 3.0, 5.0)
BETAS = (0.0, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3)
QUICK_BETAS = (0.0, 0.01, 0.02, 0.05, 0.1)
STARTS = ("one", "random")
SWEEPS, QUICK_SWEEPS = 12_000, 1_000
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


def simulate(alpha: float, beta: float, start: str, sweeps: int, seed: int) -> Record:
    """Compute the mean number of clusters of a chain without data, and its standard error from batch means."""
    graph = make_graph()
    free = Problem(graph.n, (), graph.edges, np.full(len(graph.edges), beta), DirichletProcess(alpha))
    init = None if start == "one" else np.random.default_rng(seed).permutation(graph.n) % 50
    # Different seeds: with the same random numbers the two chains would coalesce.
    seed = 2 * seed + (start == "random")
    n_clusters = run(free, sweeps, seed=seed, lam=1.0, init=init).trace[sweeps // 5 :, 1]
    means = [batch.mean() for batch in np.array_split(n_clusters, BATCHES)]
    return {"mean": float(n_clusters.mean()), "error": float(np.std(means, ddof=1) / np.sqrt(BATCHES))}


def reproduce(study: Study) -> None:
    """Simulate, and write ``fig2.png``, ``fig2.csv`` and ``fig2.json``."""
    sweeps = QUICK_SWEEPS if study.quick else SWEEPS
    tasks = {
        f"alpha {alpha:g}, beta {beta:g}, from {start}": (alpha, beta, start, sweeps, study.seed)
        for alpha in ALPHAS
        for beta in (QUICK_BETAS if study.quick else BETAS)
        for start in STARTS
    }
    records = study.run("fig2", simulate, tasks, {"sweeps": sweeps, "site_size": SITE_SIZE})
    table = [[*tasks[name][:3], record["mean"], record["error"]] for name, record in records.items()]
    n_sites = make_graph().n
    figure = make_figure(6.5, 3.8)
    axes = figure.subplots()
    without_coupling: dict[str, Any] = {}
    for ink, alpha in zip((INKS[1], INKS[2], INKS[4]), ALPHAS, strict=True):
        rows = [row for row in table if row[0] == alpha]
        for start, marker in zip(STARTS, ("o-", "x"), strict=True):
            points = [(row[1], row[3], row[4]) for row in rows if row[2] == start]
            if points:
                x, y, error = np.array(points).T
                label = f"α = {alpha:g}" if start == "one" else None
                axes.errorbar(x, y, 2 * error, fmt=marker, color=ink, markersize=4, linewidth=1, label=label)
        exact, exact_of_paper = (DirichletProcess(alpha).expected_clusters(n) for n in (n_sites, PAPER_SITES))
        without_coupling[f"alpha {alpha:g}"] = {
            "exact": exact,
            "simulated": [row[3] for row in rows if row[1] == 0],
            f"exact_for_{PAPER_SITES}_sites": exact_of_paper,
            "caption_of_the_paper": CAPTION_CLUSTERS[alpha],
        }
        axes.plot(0, exact, "_", color=ink, markersize=16, markeredgewidth=2)
    axes.axvline(0.02, color=PAPER_INK, linewidth=1, linestyle=":")
    axes.text(0.021, axes.get_ylim()[1] * 0.95, "the paper's β", fontsize=8, color="#808080", va="top")
    title = f"{n_sites:,} sites; bars at β = 0: exact; ● from one cluster, × from 50"
    tidy_axes(axes, "β", "mean number of clusters", title)
    axes.legend(frameon=False)
    study.save_figure("fig2", figure)
    study.write_csv("fig2", ("alpha", "beta", "start", "mean_clusters", "standard_error"), table)
    study.write_json(
        "fig2", sites=n_sites, edges=len(make_graph().edges), sweeps=sweeps, without_coupling=without_coupling
    )
