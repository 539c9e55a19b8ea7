"""The search for the best state: the effect of annealing, tempering and split-merge moves, by time.

Chains of the same posterior from the same start run for the same time on one core, and a greedy ascent ends each of
them. The gap is that between the best state and the best one known of that image.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from napari_gsw.batch.jobs import Record
from napari_gsw.core.array_types import Float64Array
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
from napari_gsw.research.evaluation.data_sets import spread
from napari_gsw.research.figures import INKS, make_figure, tidy_axes
from napari_gsw.research.paper.experiment import Study
from napari_gsw.sample_data import sample

SAMPLES = ("astronaut", "tissue", "mosaic", "mosaic_3d")
# The other presets are for photographs or for objects alone.
SEARCHED = ("general", "paper")
SECONDS, QUICK_SECONDS = 20.0, 0.5
SEEDS, QUICK_SEEDS = 3, 1
# Images of each data set of the user, beside the samples.
IMAGES, QUICK_IMAGES = 4, 1
# Split-merge moves after each sweep; initial temperature, and the fraction of the time until it is 1; replicas and
# their maximum temperature.
SPLITS = 3
HOT, COOLING_FRACTION = 2.0, 0.6
REPLICAS, HOTTEST = 4, 1.2
# Sweeps between two readings of the clock, and fractions of the time in the table.
CHUNK = 2
FRACTIONS = (0.1, 0.25, 0.5, 1.0)


class SearchMoves(NamedTuple):
    """What a way to search adds to the plain sweeps."""

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


def search_image(name: str, file: Path | None, seconds: float, n_seeds: int, seed: int) -> Record:
    """Run all searches on a file, or on the sample of that name, with each preset."""
    image, axes = (sample(name)[0], "auto") if file is None else read_image(file)
    runs: dict[str, Any] = {}
    sites = {}
    for preset_name in SEARCHED:
        settings = preset(preset_name, axes=axes)
        problem = prepare(image, settings)
        sites[preset_name] = problem.n
        for moves in WAYS.values():  # compiles the kernels
            chain = _start(problem, settings, moves, seed, 1)
            step(chain, 1)
        climb_to_maximum(problem, chain.labels)
        for run_seed in spawn_seeds(seed, n_seeds):
            for way, moves in WAYS.items():
                runs[f"{preset_name}/{way}/{run_seed}"] = _search(problem, settings, moves, run_seed, seconds)
    return {"sites": sites, "runs": runs}


def _start(problem: Problem, settings: Settings, moves: SearchMoves, seed: int, cooling_sweeps: int) -> Chain:
    options = SamplerOptions(
        bonds.bonds_from_settings(problem, settings),
        regroups=int(needs_regroups(problem)) if settings.regroups is None else settings.regroups,
        annealing=make_annealing(HOT, cooling_sweeps) if moves.annealing else NO_ANNEALING,
        moves=make_split_moves(SPLITS) if moves.splits else NO_MOVES,
        ladder=make_ladder(REPLICAS, HOTTEST) if moves.tempering else None,
    )
    return begin_chain(problem, options, seed, make_start_labels(problem, settings, seed), None)


def _search(problem: Problem, settings: Settings, moves: SearchMoves, seed: int, seconds: float) -> Record:
    """Record each increase of the best log posterior: after how many seconds, and its value."""
    sweeps = 1
    if moves.annealing:  # the number of sweeps is estimated from a few of them
        trial = _start(problem, settings, moves, seed, 10)
        start = time.perf_counter()
        step(trial, 10)
        sweeps = max(1, int(COOLING_FRACTION * seconds * 10 / (time.perf_counter() - start)))
    chain = _start(problem, settings, moves, seed, sweeps)
    times, best, elapsed = [0.0], [float(chain.sums.value[BEST])], 0.0
    while elapsed < seconds:
        start = time.perf_counter()
        step(chain, CHUNK)
        elapsed += time.perf_counter() - start
        if chain.sums.value[BEST] > best[-1] and elapsed <= seconds:
            times.append(round(elapsed, 6))
            best.append(round(float(chain.sums.value[BEST]), 6))
    start = time.perf_counter()
    end = climb_to_maximum(problem, chain.sums.best)
    return {
        "seconds": times,
        "best": best,
        "sweeps": chain.sweep,
        "clusters": end.n_clusters,
        "polished": end.log_posterior,
        "polish_seconds": round(time.perf_counter() - start, 6),
        "swap_rate": chain.swap_rate.round(4).tolist() if isinstance(chain, TemperedChain) else [],
    }


def reproduce(study: Study) -> None:
    """Search, and write ``search.png``, ``search.json`` and ``search.csv``."""
    seconds, seeds = (QUICK_SECONDS, QUICK_SEEDS) if study.quick else (SECONDS, SEEDS)
    count = QUICK_IMAGES if study.quick else IMAGES
    count = count if study.limit is None else min(count, study.limit)
    examples = [example for data in study.data.values() for example in spread(data, count)]
    files: dict[str, Path | None] = dict.fromkeys(SAMPLES[: study.limit])
    files |= {example.name: example.image for example in examples}
    tasks = {name: (name, file, seconds, seeds, study.seed) for name, file in files.items()}
    parameters = {
        "settings": {name: preset(name).to_dict() for name in SEARCHED}, "seconds": seconds, "seeds": seeds,
        "splits": SPLITS, "annealing": (HOT, COOLING_FRACTION), "tempering": (REPLICAS, HOTTEST),
    }  # fmt: skip
    records = study.run("search", search_image, tasks, parameters | {"ways": list(WAYS)}, examples)
    if records:
        _draw(records, seconds, study)
        study.write_json("search", **parameters, failed=list(study.failed), **summarize(records, seconds))
        head = ("image", "preset", "way", "seed", *(f"best_at_{fraction:g}" for fraction in FRACTIONS), "polished",
                "sweeps", "clusters", "swap_rate")  # fmt: skip
        rows = [
            [image, *key.split("/"), *(best_after(run, fraction * seconds) for fraction in FRACTIONS), run["polished"],
             run["sweeps"], run["clusters"], " ".join(map(str, run["swap_rate"]))]
            for image, record in records.items()
            for key, run in record["runs"].items()
        ]  # fmt: skip
        study.write_csv("search", head, rows)


def best_after(run: Record, seconds: float) -> float:
    """Return the highest log posterior within some seconds."""
    return float(run["best"][np.searchsorted(run["seconds"], seconds, side="right") - 1])


def list_runs(record: Record, preset_name: str, way: str) -> list[Record]:
    """List the runs of a way, one per seed, with a preset."""
    return [run for key, run in record["runs"].items() if key.rsplit("/", 1)[0] == f"{preset_name}/{way}"]


def best_known(record: Record, preset_name: str) -> float:
    """Return the highest log posterior that any search has found on an image."""
    return max(float(run["polished"]) for key, run in record["runs"].items() if key.startswith(f"{preset_name}/"))


def gaps_to_best(records: Mapping[str, Record], preset_name: str, way: str, seconds: float | None) -> Float64Array:
    """Compute (images * seeds,) the gaps to the best known log posterior; None is after the greedy ascent."""
    return np.array(
        [
            best_known(record, preset_name) - (run["polished"] if seconds is None else best_after(run, seconds))
            for record in records.values()
            for run in list_runs(record, preset_name, way)
        ]
    )


def summarize(records: Mapping[str, Record], seconds: float) -> dict[str, Any]:
    """Compute medians and means over images and seeds, by preset and way."""
    content: dict[str, Any] = {"images": len(records)}
    for name in SEARCHED:
        content[name] = {}
        plain = gaps_to_best(records, name, "plain", seconds)
        for way, moves in WAYS.items():
            runs = [run for record in records.values() for run in list_runs(record, name, way)]
            last = gaps_to_best(records, name, way, None)
            content[name][way] = {
                **{
                    f"median_shortfall_at_{fraction:g}": float(
                        np.median(gaps_to_best(records, name, way, fraction * seconds))
                    )
                    for fraction in FRACTIONS
                },
                "median_shortfall_polished": float(np.median(last)),
                "mean_shortfall_polished": float(np.mean(last)),
                "better_than_plain": int((gaps_to_best(records, name, way, seconds) < plain).sum()),
                "runs": len(runs),
                **{f"median_{k}": float(np.median([run[k] for run in runs])) for k in ("sweeps", "clusters")},
                "median_polish_seconds": float(np.median([run["polish_seconds"] for run in runs])),
            }
            if moves.tempering:
                rate = np.mean([run["swap_rate"] for run in runs], axis=0)
                content[name][way]["mean_swap_rate"] = rate.round(3).tolist()
    return content


def _draw(records: Mapping[str, Record], seconds: float, study: Study) -> None:
    """Draw the gap against seconds, median over the seeds; a panel for each image and preset."""
    figure = make_figure(3.2 * len(records) + 0.8, 6.4)
    grid = figure.subplots(len(SEARCHED), len(records), squeeze=False)
    times = np.geomspace(seconds / 200, seconds, 200)
    for line, name in zip(grid, SEARCHED, strict=True):
        for axes, (image, record) in zip(line, records.items(), strict=True):
            for way, moves in WAYS.items():
                curves = [[best_after(run, t) for t in times] for run in list_runs(record, name, way)]
                gap = best_known(record, name) - np.median(curves, axis=0)
                ink = INKS[2 if moves.annealing else 4 if moves.tempering else 0]
                style = "--" if moves.splits else "-"
                axes.plot(times, np.maximum(gap, 0.1), style, color=ink, linewidth=1.2, label=way)
            axes.set(xscale="log", yscale="log")
            tidy_axes(axes, "seconds", "", f"{image}, {name}, {record['sites'][name]} sites")
        line[0].set_ylabel("log units below the best of all")
    grid[0, -1].legend(frameon=False, fontsize=8)
    study.save_figure("search", figure)
