"""Figure 2: mean number of clusters under the Potts-Dirichlet-process prior against beta, on the graph of a picture."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from napari_gsw.batch.jobs import JobOptions, JobRecords, Record, run_jobs
from napari_gsw.core.graph.region_graph import RegionGraph, build_region_graph
from napari_gsw.core.image.normalized_image import normalize_image
from napari_gsw.core.model.priors import DirichletProcess
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.sampler.sample import run
from napari_gsw.core.settings import Settings
from napari_gsw.core.sites.superpixels import make_superpixels
from napari_gsw.files.results import write_csv, write_json
from napari_gsw.research import figures
from napari_gsw.research.paper.paper import CAPTION_CLUSTERS, SITES
from napari_gsw.research.paper.pictures import ExperimentPlan
from napari_gsw.sample_data import astronaut

ALPHAS = (1.0, 3.0, 5.0)
BETAS = (0.0, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3)
QUICK_BETAS = (0.0, 0.01, 0.02, 0.05, 0.1)
SWEEPS, QUICK_SWEEPS = 12_000, 1_000
# SLIC makes 1,110 sites of this many pixels of the astronaut.
SITE_SIZE = 219
BATCHES = 20


class Fig2Chain(NamedTuple):
    """A chain without data: its prior, whether it starts from ``one`` cluster or ``random``, and how long it runs."""

    alpha: float
    beta: float
    start: str
    sweeps: int
    seed: int


@cache
def graph() -> RegionGraph:
    """The graph of touching superpixels of a photograph, of nearly as many sites as the paper's."""
    photograph = normalize_image(astronaut()[0], "auto")
    return build_region_graph(photograph, make_superpixels(photograph, Settings(site_size=SITE_SIZE)))


def simulated(task: Fig2Chain) -> Record:
    """Mean number of clusters of a chain without data, and its standard error from the means of batches."""
    sites = graph()
    free = Problem(sites.n, (), sites.edges, np.full(len(sites.edges), task.beta), DirichletProcess(task.alpha))
    init = None if task.start == "one" else np.random.default_rng(task.seed).permutation(sites.n) % 50
    # Seeds of their own: with the same random numbers the two chains would meet and be one.
    seed = 2 * task.seed + (task.start == "random")
    clusters = run(free, task.sweeps, seed=seed, lam=1.0, init=init).trace[task.sweeps // 5 :, 1]
    means = [batch.mean() for batch in np.array_split(clusters, BATCHES)]
    error = float(np.std(means, ddof=1) / np.sqrt(BATCHES))
    return {"mean": float(clusters.mean()), "error": error, "sites": sites.n, "edges": len(sites.edges)}


def reproduce(plan: ExperimentPlan, job_options: JobOptions) -> JobRecords:
    """Simulate, and write ``fig2.png``, ``fig2.csv`` and ``fig2.json``; returns the rows of all chains."""
    sweeps = QUICK_SWEEPS if plan.quick else SWEEPS
    jobs = {
        f"alpha {a:g}, beta {b:g}, from {start}": Fig2Chain(a, b, start, sweeps, plan.seed)
        for a in ALPHAS
        for b in (QUICK_BETAS if plan.quick else BETAS)
        for start in ("one", "random")
    }
    depends_on = {"sweeps": sweeps, "seed": plan.seed, "site_size": SITE_SIZE}
    rows = run_jobs("fig2", simulated, jobs, depends_on, job_options)
    sites, edges = graph().n, len(graph().edges)
    drawing = figures.figure(6.5, 3.8)
    axes = drawing.subplots()
    table: list[list[Any]] = []
    without: dict[str, Any] = {}
    for ink, alpha in zip((figures.INKS[1], figures.INKS[2], figures.INKS[4]), ALPHAS, strict=True):
        chains = [(jobs[name], row) for name, row in rows.done.items() if jobs[name].alpha == alpha]
        table += [[c.alpha, c.beta, c.start, row["mean"], row["error"]] for c, row in chains]
        for start, form in (("one", "o-"), ("random", "x")):
            points = [(c.beta, row["mean"], row["error"]) for c, row in chains if c.start == start]
            if points:
                x, y, e = np.array(points).T
                label = f"α = {alpha:g}" if start == "one" else None
                axes.errorbar(x, y, 2 * e, fmt=form, color=ink, markersize=4, linewidth=1, label=label)
        exact, exact_of_paper = (DirichletProcess(alpha).expected_clusters(n) for n in (sites, SITES))
        free = [row for c, row in chains if c.beta == 0]
        without[f"alpha {alpha:g}"] = {
            "exact": exact,
            "simulated": [row["mean"] for row in free],
            f"exact_for_{SITES}_sites": exact_of_paper,
            "caption_of_the_paper": CAPTION_CLUSTERS[alpha],
        }
        axes.plot(0, exact, "_", color=ink, markersize=16, markeredgewidth=2)
    axes.axvline(0.02, color=figures.PAPER, linewidth=1, linestyle=":")
    axes.text(0.021, axes.get_ylim()[1] * 0.95, "the paper's β", fontsize=8, color="#808080", va="top")
    figures.tidy(
        axes, "β", "mean number of clusters", f"{sites:,} sites; bars at β = 0: exact; ● from one cluster, × from 50"
    )
    axes.legend(frameon=False)
    figures.save(drawing, job_options.folder / "fig2.png")
    write_csv(job_options.folder / "fig2.csv", ("alpha", "beta", "start", "mean_clusters", "standard_error"), table)
    summary = {"sites": sites, "edges": edges, "sweeps": sweeps, "seed": plan.seed, "without_coupling": without}
    write_json(job_options.folder / "fig2.json", summary)
    return rows
