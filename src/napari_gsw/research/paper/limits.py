"""Size limits: whether chains find the right number of clusters under them, and whether they come to the same.

Without data and couplings the law of the number of clusters is known, and what chains visit is held against it. With
the data of a photograph it is not; there several chains from different starts are held against one another.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from napari_gsw.batch.jobs import JobOptions, JobRecords, Record, run_jobs
from napari_gsw.core.model.priors import DirichletProcess, cluster_distribution
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.pipeline.segment import segment
from napari_gsw.core.sampler.sample import run
from napari_gsw.files.results import write_json
from napari_gsw.research.paper.pictures import ExperimentPlan
from napari_gsw.sample_data import astronaut

# Sites, and least and most of them in a cluster.
CASES = (
    (60, 5, 6), (40, 7, 10), (40, 5, 10), (60, 5, 10), (60, 5, 15), (60, 5, 20), (200, 5, 40), (60, 2, 6), (60, 1, 6),
    (60, 5, 60), (60, 20, 60), (200, 10, 200), (1000, 9, 1000),
)  # fmt: skip
# A number of clusters that is less probable is left out of the range that is likely.
LIKELY = 0.001
SEEDS, SWEEPS, QUICK_SWEEPS = 4, 20_000, 200
# Limits and moves of chains on the photograph, by what they are called.
WAYS: Mapping[str, dict[str, Any]] = {
    "none": {},
    "none, `splits=2`": {"splits": 2},
    "`min_size=9`": {"min_size": 9},
    "`min_size=9, regroups=10`": {"min_size": 9, "regroups": 10},
    "`min_size=9, splits=2`": {"min_size": 9, "splits": 2},
    "`max_size=60`": {"max_size": 60},
    "`min_size=30, max_size=60`": {"min_size": 30, "max_size": 60},
    "`min_size=30, max_size=60, splits=2`": {"min_size": 30, "max_size": 60, "splits": 2},
}
CHAINS, LENGTH, QUICK_LENGTH = 4, 2_000, 40


class LawTask(NamedTuple):
    """Chains without data: sites, least and most of a cluster, sweeps and first seed."""

    n: int
    low: int
    high: int
    sweeps: int
    seed: int


class PhotographTask(NamedTuple):
    """Chains on a photograph: settings beside those of the preset, sweeps and seed."""

    settings: dict[str, Any]
    sweeps: int
    seed: int


def against_the_law(task: LawTask) -> Record:
    """How far what each chain visits is from the exact law of k (total variation), and how often its k changes."""
    prior = DirichletProcess(1.0).truncated(task.low, task.high)
    law = cluster_distribution(prior, task.n)
    likely = np.flatnonzero(law > LIKELY)
    first = np.arange(task.n - 1, dtype=np.int32)
    problem = Problem(task.n, (), np.stack((first, first + 1), axis=1), np.zeros(task.n - 1), prior)
    numbers = [
        run(problem, task.sweeps, seed=task.seed + s, regroups=1).trace[:, 1].astype(np.int64) for s in range(SEEDS)
    ]
    seen = [np.bincount(k, minlength=task.n + 1) / len(k) for k in numbers]
    return {
        "likely": [int(likely[0]), int(likely[-1])],
        "mean": float(law @ np.arange(task.n + 1)),
        "changes": [int(np.count_nonzero(np.diff(k))) for k in numbers],
        "distance": [float(np.abs(share - law).sum() / 2) for share in seen],
    }


def on_the_photograph(task: PhotographTask) -> Record:
    """Of each chain the mean k, its changes and the mean log posterior, all of the second half; and the verdict."""
    result = segment(astronaut()[0], preset="paper", seed=task.seed, chains=CHAINS, sweeps=task.sweeps, **task.settings)
    half = task.sweeps // 2
    late = [trace.n_clusters[half:] for trace in result.traces]
    return {
        "sites": result.problem.n,
        "k": [float(k.mean()) for k in late],
        "changes": [int(np.count_nonzero(np.diff(k))) for k in late],
        "log_posterior": [float(trace.log_posterior[half:].mean()) for trace in result.traces],
        "agree": bool(result.diagnosis.agree),
    }


def reproduce(plan: ExperimentPlan, job_options: JobOptions) -> JobRecords:
    """Run all chains and write ``limits.json``; returns the rows of both parts."""
    sweeps, length = (QUICK_SWEEPS, QUICK_LENGTH) if plan.quick else (SWEEPS, LENGTH)
    tasks: dict[str, Any] = {
        f"{n} sites, {low} to {high}": LawTask(n, low, high, sweeps, plan.seed) for n, low, high in CASES
    }
    of_law = run_jobs("limits-law", against_the_law, tasks, {"seed": plan.seed, "sweeps": sweeps}, job_options)
    ways = {name: PhotographTask(more, length, plan.seed) for name, more in WAYS.items()}
    depends_on = {"seed": plan.seed, "sweeps": length}
    of_photograph = run_jobs("limits-photograph", on_the_photograph, ways, depends_on, job_options)
    law = [
        {"n": task.n, "low": task.low, "high": task.high, **of_law.done[name]}
        for name, task in tasks.items()
        if name in of_law.done
    ]
    content = {"seed": plan.seed, "sweeps": sweeps, "law": law, "length": length, "photograph": of_photograph.done}
    write_json(job_options.folder / "limits.json", content)
    return JobRecords({**of_law.done, **of_photograph.done}, {**of_law.failed, **of_photograph.failed})
