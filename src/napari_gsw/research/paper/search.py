"""The search for the best state: what annealing, tempering and moves of whole clusters are worth, by the clock.

Chains of the same posterior from the same start, each for the same time on one core. How far is the best state so far
below the best that any of them finds on that image? A greedy ascent ends each of them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_gsw.batch.jobs import JobOptions, JobRecords, Record, run_jobs
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.pipeline.prepare import prepare
from napari_gsw.core.sampler import bonds
from napari_gsw.core.sampler.chain import Chain, make_start_labels, step
from napari_gsw.core.sampler.ensemble import spawn_seeds
from napari_gsw.core.sampler.greedy import climb_to_maximum
from napari_gsw.core.sampler.options import (
    NO_ANNEALING,
    NO_MOVES,
    SamplerOptions,
    make_annealing,
    make_ladder,
    make_split_moves,
    needs_regroups,
)
from napari_gsw.core.sampler.sample import begin_chain
from napari_gsw.core.sampler.state import BEST
from napari_gsw.core.sampler.tempering import TemperedChain
from napari_gsw.core.settings import Settings
from napari_gsw.core.settings.presets import preset
from napari_gsw.files.images import read_image
from napari_gsw.files.results import write_csv, write_json
from napari_gsw.research import figures
from napari_gsw.research.paper.pictures import ExperimentPlan, spread
from napari_gsw.sample_data import sample

PICTURES = ("astronaut", "tissue", "mosaic", "mosaic_3d")
# Presets whose posteriors are searched; the others are for photographs or for objects alone.
SEARCHED = ("general", "paper")
SECONDS, QUICK_SECONDS = 20.0, 0.5
SEEDS, QUICK_SEEDS = 3, 1
# Images of each data set that the user has, beside the built-in samples.
IMAGES, QUICK_IMAGES = 4, 1
# Split-merge moves after each sweep; first temperature, and the share of the time until it is 1; replicas and the
# hottest temperature.
SPLITS = 3
HOT, COOLING_SHARE = 2.0, 0.6
REPLICAS, HOTTEST = 4, 1.2
CHUNK = 2
# Shares of the time at which the search is looked at.
LOOKS = (0.1, 0.25, 0.5, 1.0)


class SearchMoves(NamedTuple):
    """A way to search: what is added to the plain sweeps.

    Attributes
    ----------
    splits : split-merge moves after each sweep.
    annealing : a temperature that falls to 1.
    tempering : replicas at several temperatures that change places.
    """

    splits: bool = False
    annealing: bool = False
    tempering: bool = False


WAYS = {
    "plain": SearchMoves(),
    "split-merge": SearchMoves(splits=True),
    "annealing": SearchMoves(annealing=True),
    "annealing, split-merge": SearchMoves(annealing=True, splits=True),
    "tempering": SearchMoves(tempering=True),
    "tempering, split-merge": SearchMoves(tempering=True, splits=True),
}


class SearchedPicture(NamedTuple):
    """One picture: a file, or the built-in sample of that name; how long each search takes, and from how many seeds."""

    name: str
    image: Path | None
    seconds: float
    seeds: int
    seed: int


def searched(task: SearchedPicture) -> Record:
    """All searches on one picture, with the settings of each preset."""
    image, axes = (sample(task.name)[0], None) if task.image is None else read_image(task.image)
    runs: dict[str, Any] = {}
    sites = {}
    for name in SEARCHED:
        settings = preset(name) if axes is None else preset(name, axes=axes)
        problem = prepare(image, settings)
        sites[name] = problem.n
        for way in WAYS.values():  # compile before the clock runs
            chain = _chain(problem, settings, way, task.seed, 1)
            step(chain, 1)
        climb_to_maximum(problem, chain.labels)
        for seed in spawn_seeds(task.seed, task.seeds):
            for key, way in WAYS.items():
                runs[f"{name}/{key}/{seed}"] = _run(problem, settings, way, seed, task.seconds)
    return {"sites": sites, "runs": runs}


def _chain(problem: Problem, settings: Settings, way: SearchMoves, seed: int, sweeps: int) -> Chain:
    """A chain that searches in some way; `sweeps` is how many an annealed one takes to cool."""
    options = SamplerOptions(
        bonds.bonds_from_settings(problem, settings),
        regroups=int(needs_regroups(problem)) if settings.regroups is None else settings.regroups,
        annealing=make_annealing(HOT, sweeps) if way.annealing else NO_ANNEALING,
        moves=make_split_moves(SPLITS) if way.splits else NO_MOVES,
        ladder=make_ladder(REPLICAS, HOTTEST) if way.tempering else None,
    )
    return begin_chain(problem, options, seed, make_start_labels(problem, settings, seed), None)


def _run(problem: Problem, settings: Settings, way: SearchMoves, seed: int, seconds: float) -> Record:
    """Whenever the best log posterior rises: after how many seconds, and to what."""
    sweeps = 1
    if way.annealing:  # as many sweeps as a few of them say there is time for
        trial = _chain(problem, settings, way, seed, 10)
        began = time.perf_counter()
        step(trial, 10)
        sweeps = max(1, int(COOLING_SHARE * seconds * 10 / (time.perf_counter() - began)))
    chain = _chain(problem, settings, way, seed, sweeps)
    rises, best, spent = [0.0], [float(chain.sums.value[BEST])], 0.0
    while spent < seconds:
        began = time.perf_counter()
        step(chain, CHUNK)
        spent += time.perf_counter() - began
        if chain.sums.value[BEST] > best[-1] and spent <= seconds:
            rises.append(round(spent, 6))
            best.append(round(float(chain.sums.value[BEST]), 6))
    began = time.perf_counter()
    end = climb_to_maximum(problem, chain.sums.best)
    return {
        "seconds": rises,
        "best": best,
        "sweeps": chain.sweep,
        "clusters": end.n_clusters,
        "polished": end.log_posterior,
        "polish_seconds": round(time.perf_counter() - began, 6),
        "swap_rate": chain.swap_rate.round(4).tolist() if isinstance(chain, TemperedChain) else [],
    }


def reproduce(plan: ExperimentPlan, job_options: JobOptions) -> JobRecords:
    """Search, and write ``search.png``, ``search.json`` and ``search.csv``; returns the rows of all pictures."""
    seconds, seeds = (QUICK_SECONDS, QUICK_SEEDS) if plan.quick else (SECONDS, SEEDS)
    pictures: dict[str, Path | None] = dict.fromkeys(PICTURES[: plan.limit])
    for examples in plan.data.values():
        count = QUICK_IMAGES if plan.quick else IMAGES
        some = spread(examples, count if plan.limit is None else min(count, plan.limit))
        pictures |= {e.name: e.image for e in some}
    jobs = {name: SearchedPicture(name, image, seconds, seeds, plan.seed) for name, image in pictures.items()}
    settings = {name: preset(name).to_dict() for name in SEARCHED}
    depends_on = {
        "settings": settings, "seconds": seconds, "seeds": seeds, "seed": plan.seed, "splits": SPLITS,
        "annealing": (HOT, COOLING_SHARE), "tempering": (REPLICAS, HOTTEST), "ways": list(WAYS),
    }  # fmt: skip
    files = {name: [] if image is None else [image] for name, image in pictures.items()}
    rows = run_jobs("search", searched, jobs, depends_on, job_options, files)
    if rows.done:
        _draw(rows.done, seconds, job_options)
        content = {k: v for k, v in depends_on.items() if k != "ways"} | {"failed": list(rows.failed)}
        write_json(job_options.folder / "search.json", content | summary(rows.done, seconds))
        write_csv(job_options.folder / "search.csv", *_table(rows.done, seconds))
    return rows


def best_after(run: Record, seconds: float) -> float:
    """Highest log posterior within some seconds."""
    return float(run["best"][np.searchsorted(run["seconds"], seconds, side="right") - 1])


def runs_of(row: Record, name: str, way: str) -> list[Record]:
    """The runs of a way, one a seed, with the settings of a preset."""
    return [run for key, run in row["runs"].items() if key.rsplit("/", 1)[0] == f"{name}/{way}"]


def summit(row: Record, name: str) -> float:
    """The highest log posterior that any search has found on a picture with the settings of a preset."""
    return max(float(run["polished"]) for key, run in row["runs"].items() if key.startswith(f"{name}/"))


def shortfalls(rows: Mapping[str, Record], name: str, way: str, seconds: float | None) -> NDArray[np.float64]:
    """(pictures * seeds,) how far the best state is below the summit, in log units; None: after the ascent."""
    gaps = []
    for row in rows.values():
        for run in runs_of(row, name, way):
            gaps.append(summit(row, name) - (run["polished"] if seconds is None else best_after(run, seconds)))
    return np.array(gaps)


def summary(rows: Mapping[str, Record], seconds: float) -> dict[str, Any]:
    """The content of ``search.json``: medians and means over pictures and seeds, by preset and way."""
    content: dict[str, Any] = {"images": len(rows)}
    for name in SEARCHED:
        content[name] = {}
        for way in WAYS:
            runs = [run for row in rows.values() for run in runs_of(row, name, way)]
            entry: dict[str, Any] = {
                f"median_shortfall_at_{share:g}": float(np.median(shortfalls(rows, name, way, share * seconds)))
                for share in LOOKS
            }
            last = shortfalls(rows, name, way, None)
            plain = np.concatenate([shortfalls({n: row}, name, "plain", seconds) for n, row in rows.items()])
            entry["median_shortfall_polished"] = float(np.median(last))
            entry["mean_shortfall_polished"] = float(np.mean(last))
            entry["better_than_plain"] = int((shortfalls(rows, name, way, seconds) < plain).sum())
            entry["runs"] = len(runs)
            entry["median_sweeps"] = float(np.median([run["sweeps"] for run in runs]))
            entry["median_clusters"] = float(np.median([run["clusters"] for run in runs]))
            entry["median_polish_seconds"] = float(np.median([run["polish_seconds"] for run in runs]))
            if WAYS[way].tempering:
                entry["mean_swap_rate"] = np.mean([run["swap_rate"] for run in runs], axis=0).round(3).tolist()
            content[name][way] = entry
    return content


def _table(rows: Mapping[str, Record], seconds: float) -> tuple[Sequence[str], list[list[Any]]]:
    head = ("image", "preset", "way", "seed", *(f"best_at_{share:g}" for share in LOOKS), "polished", "sweeps",
            "clusters", "swap_rate")  # fmt: skip
    lines = [
        [picture, *key.split("/"), *(best_after(run, share * seconds) for share in LOOKS), run["polished"],
         run["sweeps"], run["clusters"], " ".join(map(str, run["swap_rate"]))]
        for picture, row in rows.items()
        for key, run in row["runs"].items()
    ]  # fmt: skip
    return head, lines


def _draw(rows: Mapping[str, Record], seconds: float, job_options: JobOptions) -> None:
    """Shortfall against seconds, the median over the seeds; a panel for each picture and preset."""
    drawing = figures.figure(3.2 * len(rows) + 0.8, 6.4)
    grid = drawing.subplots(len(SEARCHED), len(rows), squeeze=False)
    times = np.geomspace(seconds / 200, seconds, 200)
    for line, name in zip(grid, SEARCHED, strict=True):
        for axes, (picture, row) in zip(line, rows.items(), strict=True):
            for way, moves in WAYS.items():
                curves = [[best_after(run, t) for t in times] for run in runs_of(row, name, way)]
                gap = summit(row, name) - np.median(curves, axis=0)
                ink = figures.INKS[2 if moves.annealing else 4 if moves.tempering else 0]
                style = "--" if moves.splits else "-"
                axes.plot(times, np.maximum(gap, 0.1), style, color=ink, linewidth=1.2, label=way)
            axes.set(xscale="log", yscale="log")
            figures.tidy(axes, "seconds", "", f"{picture}, {name}, {row['sites'][name]} sites")
        line[0].set_ylabel("log units below the best of all")
    grid[0, -1].legend(frameon=False, fontsize=8)
    figures.save(drawing, job_options.folder / "search.png")
