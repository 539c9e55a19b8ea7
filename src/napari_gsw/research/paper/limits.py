"""Size limits: the number of clusters that chains find under them, and whether chains agree.

Without data and couplings the distribution of the number of clusters is known, and the visited states are compared with
it. With the data of a photograph it is not; there, chains from different starts are compared with each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from napari_gsw.batch.jobs import Record
from napari_gsw.core.model.priors import DirichletProcess, cluster_distribution
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.pipeline.segment import segment
from napari_gsw.core.sampler.sample import run
from napari_gsw.research.paper.experiment import Study
from napari_gsw.sample_data import astronaut

# Sites, and minimum and maximum size of a cluster.
CASES = (
    (60, 5, 6), (40, 7, 10), (40, 5, 10), (60, 5, 10), (60, 5, 15), (60, 5, 20), (200, 5, 40), (60, 2, 6), (60, 1, 6),
    (60, 5, 60), (60, 20, 60), (200, 10, 200), (1000, 9, 1000),
)  # fmt: skip
# Less probable numbers of clusters are left out of the likely range.
MIN_PROBABILITY = 0.001
SEEDS, SWEEPS, QUICK_SWEEPS = 4, 20_000, 200
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
CHAINS, LENGTH, QUICK_LENGTH = 4, 2_000, 40


def compare_with_exact(n: int, low: int, high: int, sweeps: int, seed: int) -> Record:
    """Compute the total variation distance of each chain from the exact distribution of k, and the changes of k."""
    prior = DirichletProcess(1.0).truncated(low, high)
    exact = cluster_distribution(prior, n)
    likely = np.flatnonzero(exact > MIN_PROBABILITY)
    first = np.arange(n - 1, dtype=np.int32)
    problem = Problem(n, (), np.stack((first, first + 1), axis=1), np.zeros(n - 1), prior)
    traces = [run(problem, sweeps, seed=seed + s, regroups=1).trace[:, 1].astype(np.int64) for s in range(SEEDS)]
    shares = [np.bincount(k, minlength=n + 1) / len(k) for k in traces]
    return {
        "likely": [int(likely[0]), int(likely[-1])],
        "mean": float(exact @ np.arange(n + 1)),
        "changes": [int(np.count_nonzero(np.diff(k))) for k in traces],
        "distance": [float(np.abs(share - exact).sum() / 2) for share in shares],
    }


def run_on_photograph(changes: dict[str, Any], sweeps: int, seed: int) -> Record:
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


def reproduce(study: Study) -> None:
    """Run all chains, and write ``limits.json``."""
    sweeps, length = (QUICK_SWEEPS, QUICK_LENGTH) if study.quick else (SWEEPS, LENGTH)
    tasks = {f"{n} sites, {low} to {high}": (n, low, high, sweeps, study.seed) for n, low, high in CASES}
    records = study.run("limits-law", compare_with_exact, tasks, {"sweeps": sweeps})
    law = [dict(zip(("n", "low", "high"), tasks[name][:3], strict=True)) | row for name, row in records.items()]
    photograph_tasks = {name: (changes, length, study.seed) for name, changes in PHOTOGRAPH_CASES.items()}
    photograph = study.run("limits-photograph", run_on_photograph, photograph_tasks, {"sweeps": length})
    study.write_json("limits", sweeps=sweeps, law=law, length=length, photograph=photograph)
