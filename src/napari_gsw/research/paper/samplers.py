"""Chains of the same posterior compared by sweeps and by time: figure 4 of the paper, and the search for the best.

Figure 4 has chains that differ only in lambda: with the paper's constant beta, and under strong couplings that follow
the contrast, beside single-site Gibbs and classical Swendsen-Wang. The search has annealing, tempering and split-merge
moves, for the same time on one core; a greedy ascent ends each chain.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from napari_gsw.batch.jobs import Record
from napari_gsw.core.array_types import Float64Array
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.pipeline.prepare import prepare
from napari_gsw.core.pipeline.segment import make_ensemble
from napari_gsw.core.sampler.chain import ACCEPTED, PROPOSED, step
from napari_gsw.core.sampler.greedy import climb_to_maximum
from napari_gsw.core.settings import Settings
from napari_gsw.core.settings.presets import preset
from napari_gsw.files.images import read_image
from napari_gsw.research.evaluation.data_sets import Example, spread
from napari_gsw.research.figures import INKS, make_axes, tidy_axes
from napari_gsw.research.paper.experiment import LABELME, Study
from napari_gsw.sample_data import sample

# Sweeps between two readings of the clock.
CHUNK = 5


def run_chain(chain: Any, sweeps: float = math.inf, seconds: float = math.inf) -> Record:
    """Run a chain for some sweeps or seconds: log posterior of each sweep, seconds after each chunk, and clusters."""
    value: list[float] = []
    times: list[float] = []
    elapsed = 0.0
    while len(value) < sweeps and elapsed < seconds:
        start = time.perf_counter()
        trace = step(chain, int(min(CHUNK, sweeps - len(value))))
        elapsed += time.perf_counter() - start
        value += trace[:, 0].round(3).tolist()
        times.append(round(elapsed, 6))
    return {"value": value, "seconds": times, "clusters": int(trace[-1, 1])}


def best_after(run: Record, seconds: float) -> float:
    """Return the highest log posterior within some seconds, or in the first chunk."""
    n_chunks = max(1, int(np.searchsorted(run["seconds"], seconds, side="right")))
    return float(np.max(run["value"][: n_chunks * CHUNK]))


# ---- figure 4

FIG4_IMAGES, FIG4_QUICK_IMAGES = 48, 6
STARTS = {"one": "one cluster", "random": "a random partition"}
# Strong couplings: beta exp(-contrast / contrast_scale), and the cap on beta * delta of the generalized sampler.
STRONG_CAP = 0.7
MODELS: Mapping[str, Mapping[str, Any]] = {
    "paper": {},
    "strong": {"coupling": "contrast", "beta": 9.0, "contrast_scale": 5.0},
}
# The samplers of each model, single-site Gibbs first.
SAMPLERS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "paper": {f"{lam}": {"lam": lam} for lam in (0, 1, 5, 10, 20)},
    "strong": {
        "gibbs": {"sampler": "gibbs"},
        "swendsen-wang": {"sampler": "swendsen-wang"},
        "gsw": {"bond_cap": STRONG_CAP},
    },
}
SWEEPS = {"paper": 1000, "strong": 400}
QUICK_SWEEPS = {"paper": 60, "strong": 40}


def run_samplers(example: Example, seed: int, sweeps: Mapping[str, int]) -> Record:
    """Run all chains on an image, by model, start and sampler."""
    image, axes = read_image(example.image)
    runs: dict[str, Any] = {}
    for model, changes in MODELS.items():
        settings = preset("paper", axes=axes, **changes)
        problem = prepare(image, settings)
        for start in STARTS:
            for name, sampler in SAMPLERS[model].items():
                (chain,) = make_ensemble(problem, settings.replace(start=start, **sampler), seed).chains
                runs[f"{model}/{start}/{name}"] = run_chain(chain, sweeps[model])
    return {"sites": problem.n, "runs": runs}


def compute_gains(rows: Mapping[str, Record], model: str, start: str, by_time: bool) -> dict[str, Float64Array]:
    """Compute the increase of the best log posterior over single-site Gibbs, one entry per image, by sampler.

    In percent, as in the paper; under strong couplings, where log posteriors are near 0, in log units per site. By
    time, each chain has the time of the fastest one.
    """
    gains = []
    for row in rows.values():
        runs = [row["runs"][f"{model}/{start}/{name}"] for name in SAMPLERS[model]]
        seconds = min(run["seconds"][-1] for run in runs) if by_time else math.inf
        best = np.array([best_after(run, seconds) for run in runs])
        gains.append((best - best[0]) / (abs(best[0]) / 100 if model == "paper" else row["sites"]))
    return dict(zip(SAMPLERS[model], np.transpose(gains), strict=True))


def summarize_fig4(rows: Mapping[str, Record]) -> dict[str, Any]:
    """Compute median and mean increase by model and start, and on how many images the generalized sampler is ahead."""
    content: dict[str, Any] = {}
    for model, start in itertools.product(SAMPLERS, STARTS):
        entry = content[f"{model}, from {start}"] = {}
        unit = "percent" if model == "paper" else "per_site"
        for by_time, key in ((False, "by_sweeps"), (True, "by_clock")):
            gains = compute_gains(rows, model, start, by_time)
            entry[key] = {
                name: {
                    f"median_increase_{unit}": float(np.median(values)),
                    f"mean_increase_{unit}": float(np.mean(values)),
                    "better_than_gibbs": int((values > 0).sum()),
                }
                for name, values in gains.items()
            }
            if model == "strong":
                ahead = {name: gains["gsw"] > gains[name] for name in ("gibbs", "swendsen-wang")}
                ahead["both"] = ahead["gibbs"] & ahead["swendsen-wang"]
                entry[f"gsw_wins_{key}"] = {name: int(won.sum()) for name, won in ahead.items()}
    return content


def reproduce_fig4(study: Study) -> None:
    """Run all chains, and write ``fig4a.png``, ``fig4b.png``, ``fig4.json`` and ``fig4.csv``.

    The images are of LabelMe (48 are six of each kind of scene), or of another data set.
    """
    data = study.compared_data()
    examples = data.get(LABELME) or next(iter(data.values()))
    cases = {e.name: (e,) for e in spread(examples, study.count(FIG4_IMAGES, FIG4_QUICK_IMAGES))}
    sweeps = QUICK_SWEEPS if study.quick else SWEEPS
    rows = study.run("fig4", run_samplers, cases, sweeps=sweeps)
    if not rows:
        return
    settings = {model: preset("paper", **changes).to_dict() for model, changes in MODELS.items()}
    content = {"images": len(rows), "failed": list(study.failed), "sweeps": sweeps, "settings": settings}
    lines = [
        [name, *key.split("/"), max(run["value"]), run["seconds"][-1], run["clusters"]]
        for name, row in rows.items()
        for key, run in row["runs"].items()
    ]
    head = ("image", "model", "start", "sampler", "best_log_posterior", "seconds", "clusters")
    study.write("fig4", {**content, "strong_cap": STRONG_CAP, **summarize_fig4(rows)}, (head, lines))
    # A typical run: the image with the median gain of lambda = 10.
    gain = compute_gains(rows, "paper", "one", False)["10"]
    name = list(rows)[int(np.argsort(gain)[len(gain) // 2])]
    figure, grid = make_axes(10, 3.6, columns=2)
    for axes, (start, text) in zip(grid[0], STARTS.items(), strict=True):
        values = {lam: rows[name]["runs"][f"paper/{start}/{lam}"]["value"] for lam in SAMPLERS["paper"]}
        for ink, (lam, value) in zip(INKS, values.items(), strict=True):
            axes.plot(value, color=ink, linewidth=0.8, label=f"λ = {lam}")
        late = np.array(list(values.values()))[:, len(value) // 10 :]
        margin = 0.15 * (np.ptp(late) or 1.0)
        axes.set_ylim(late.min() - margin, late.max() + margin)
        tidy_axes(axes, "sweep", "log posterior", f"{name}, from {text}")
    axes.legend(frameon=False, fontsize=8, ncols=2)
    study.write("fig4a", figure=figure)
    figure, grid = make_axes(11, 7, 2, 4, width_ratios=(2, 2, 1.1, 1.1))
    for line, after in zip(grid, ("equal sweeps", "equal time"), strict=True):
        for axes, (model, start) in zip(line, itertools.product(SAMPLERS, STARTS), strict=True):
            gains = compute_gains(rows, model, start, after == "equal time")
            del gains[next(iter(gains))]
            axes.boxplot(list(gains.values()), widths=0.55)
            axes.set_xticks(range(1, len(gains) + 1), list(gains))
            axes.axhline(0, color="black", linewidth=0.8)
            kind, unit = ("β = .02", "%") if model == "paper" else ("strong", "log units a site")
            tidy_axes(axes, "", f"increase over Gibbs ({unit})", f"{kind}, start {start}\nafter {after}")
    study.write("fig4b", figure=figure)


# ---- the search for the best state

SAMPLES = ("astronaut", "tissue", "mosaic", "mosaic_3d")
# The other presets are for photographs or for objects alone.
SEARCHED = ("general", "paper")
SEARCH_SECONDS, QUICK_SECONDS = 20.0, 0.5
SEEDS, QUICK_SEEDS = 3, 1
# Images of each data set of the user, beside the samples.
SEARCH_IMAGES, SEARCH_QUICK_IMAGES = 4, 1
SPLITS: Mapping[str, Any] = {"splits": 3}
ANNEALING: Mapping[str, Any] = {"hot": 2.0, "burn_in": 0.6}
TEMPERING: Mapping[str, Any] = {"replicas": 4, "hottest": 1.2}
WAYS: Mapping[str, Mapping[str, Any]] = {
    "plain": {},
    "split-merge": SPLITS,
    "annealing": ANNEALING,
    "annealing, split-merge": {**ANNEALING, **SPLITS},
    "tempering": TEMPERING,
    "tempering, split-merge": {**TEMPERING, **SPLITS},
}
# Fractions of the time at which the best state is noted.
FRACTIONS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)


def search_image(name: str, example: Example | None, seed: int, seconds: float, seeds: int) -> Record:
    """Search on an example, or on the sample of that name: a list of runs for each way, by preset."""
    image, axes = (sample(name)[0], "auto") if example is None else read_image(example.image)
    record = {}
    for preset_name in SEARCHED:
        settings = preset(preset_name, axes=axes)
        problem = prepare(image, settings)
        ways = [settings.replace(**changes) for changes in WAYS.values()]
        record[preset_name] = [[_search(problem, way, seed + k, seconds) for k in range(seeds)] for way in ways]
    return record


def _search(problem: Problem, settings: Settings, seed: int, seconds: float) -> Record:
    """Search for some time, then climb from the best state.

    ``best`` are the highest log posteriors after each fraction of the time, and that of the climb.
    """
    (trial,) = make_ensemble(problem, settings, seed).chains
    step(trial, 1)  # compiles the kernels
    pace = run_chain(trial, 2 * CHUNK)["seconds"][-1] / (2 * CHUNK)
    # Annealing ends after a fraction of the sweeps, whose number is estimated.
    (chain,) = make_ensemble(problem, settings.replace(sweeps=max(1, int(seconds / pace))), seed).chains
    run = run_chain(chain, seconds=seconds)
    end = climb_to_maximum(problem, chain.sums.best)
    return {
        "best": [*(best_after(run, part * seconds) for part in FRACTIONS), end.log_posterior],
        "sweeps": len(run["value"]),
        "clusters": end.n_clusters,
        "swap_rate": (chain.exchanges[:, ACCEPTED] / chain.exchanges[:, PROPOSED]).round(4).tolist(),
    }


def find_gaps(records: Iterable[Record], preset_name: str) -> Float64Array:
    """Compute (images, ways, seeds, fractions + 1) the gaps to the best state that any search has found of an image."""
    best = np.array([[[run["best"] for run in runs] for runs in record[preset_name]] for record in records])
    return np.asarray(best[..., -1:].max(axis=(1, 2), keepdims=True) - best)


def reproduce_search(study: Study) -> None:
    """Search, and write ``search.png``, ``search.json`` and ``search.csv``."""
    seconds, seeds = (QUICK_SECONDS, QUICK_SEEDS) if study.quick else (SEARCH_SECONDS, SEEDS)
    cases: dict[str, tuple[str, Example | None]] = {name: (name, None) for name in SAMPLES[: study.limit]}
    for examples in study.data.values():
        cases |= {e.name: (e.name, e) for e in spread(examples, study.count(SEARCH_IMAGES, SEARCH_QUICK_IMAGES))}
    records = study.run("search", search_image, cases, seconds=seconds, seeds=seeds)
    if not records:
        return
    columns = [*(f"at_{part:g}" for part in FRACTIONS), "polished"]
    content: dict[str, Any] = {"seconds": seconds, "seeds": seeds, "ways": WAYS, "failed": list(study.failed)}
    rows = []
    figure, grid = make_axes(3.2 * len(records) + 0.8, 6.4, len(SEARCHED), len(records))
    for line, name in zip(grid, SEARCHED, strict=True):
        gaps = find_gaps(records.values(), name)
        medians = np.median(gaps, axis=(0, 2)).tolist()
        content[name] = {way: dict(zip(columns, row, strict=True)) for way, row in zip(WAYS, medians, strict=True)}
        for axes, image, image_gaps in zip(line, records, gaps, strict=True):
            for w, (way, changes) in enumerate(WAYS.items()):
                for k, run in enumerate(records[image][name][w]):
                    rates = " ".join(map(str, run["swap_rate"]))
                    rows.append([image, name, way, k, *run["best"], run["sweeps"], run["clusters"], rates])
                gap = np.maximum(np.median(image_gaps[w], axis=0)[:-1], 0.1)
                ink = INKS[2 if "hot" in changes else 4 if "replicas" in changes else 0]
                style = "--" if "splits" in changes else "-"
                axes.plot(np.multiply(FRACTIONS, seconds), gap, style, color=ink, linewidth=1.2, label=way)
            axes.set(xscale="log", yscale="log")
            tidy_axes(axes, "seconds", "log units below the best of all", f"{image}, {name}")
    grid[0, -1].legend(frameon=False, fontsize=8)
    head = ("image", "preset", "way", "seed", *columns, "sweeps", "clusters", "swap_rate")
    study.write("search", content, (head, rows), figure=figure)
