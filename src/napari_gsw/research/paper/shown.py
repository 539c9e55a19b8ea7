"""What is shown is not the state whose log posterior is traced: the states of one run and what is made of them.

And what the couplings of the run are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_gsw.batch.jobs import JobOptions, JobRecords, Record, run_jobs
from napari_gsw.core.model.problem import Problem, log_posterior
from napari_gsw.core.pipeline.segment import segment
from napari_gsw.core.posterior.consensus import partition_distance
from napari_gsw.core.posterior.uncertainty import count_site_pixels
from napari_gsw.core.settings.presets import preset
from napari_gsw.files.results import write_json
from napari_gsw.research.paper.pictures import ExperimentPlan
from napari_gsw.sample_data import astronaut

PRESETS, QUICK_SWEEPS = ("general", "photo"), 20


class RunTask(NamedTuple):
    """A run on the sample `astronaut`."""

    preset: str
    sweeps: int
    seed: int


def states(task: RunTask) -> Record:
    """Log posterior and clusters of the best state, the last, those after the burn-in, consensus and regions."""
    result = segment(astronaut()[0], preset=task.preset, seed=task.seed, sweeps=task.sweeps)
    snapshot, (trace,) = result.snapshot, result.traces
    burn_in = int(snapshot.state["burn_in"])
    beta = result.problem.beta
    late, k = trace.log_posterior[burn_in:], trace.n_clusters[burn_in:]
    return {
        "sites": result.problem.n,
        "couplings": {"least": float(beta.min()), "most": float(beta.max()), "repel": float(np.mean(beta < 0))},
        "best": _of_partition(result.problem, snapshot.best.labels),
        "best_sweep": snapshot.best.sweep,
        "burn_in": burn_in,
        "last": _of_partition(result.problem, snapshot.labels),
        "late": {"mean": float(late.mean()), "deviation": float(late.std()), "clusters": [int(k.min()), int(k.max())]},
        "consensus": _of_partition(result.problem, result.clusters),
        "regions": _of_partition(result.problem, result.regions),
        "bits": partition_distance(snapshot.best.labels, result.clusters, "vi", count_site_pixels(result.problem)),
    }


def _of_partition(problem: Problem, labels: NDArray[np.integer]) -> Record:
    return {"log_posterior": log_posterior(problem, labels), "clusters": len(np.unique(labels))}


def reproduce(plan: ExperimentPlan, job_options: JobOptions) -> JobRecords:
    """Run each preset and write ``shown.json``; returns the rows."""
    sweeps = {name: QUICK_SWEEPS if plan.quick else preset(name).sweeps for name in PRESETS}
    jobs = {name: RunTask(name, count, plan.seed) for name, count in sweeps.items()}
    rows = run_jobs("shown", states, jobs, {"seed": plan.seed, "sweeps": sweeps}, job_options)
    write_json(job_options.folder / "shown.json", {"seed": plan.seed, "presets": rows.done})
    return rows
