"""Figure 4: chains that differ only in lambda, by sweeps and by time.

Once as in the paper (constant beta = 0.02), and once under strong couplings that follow the contrast, where the
generalized sampler is compared with single-site Gibbs and the classical Swendsen-Wang sampler. Chains start from one
cluster and from a random partition.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from napari_gsw.batch.jobs import Record
from napari_gsw.core.array_types import Float64Array
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.pipeline.prepare import prepare
from napari_gsw.core.sampler import bonds
from napari_gsw.core.sampler.chain import make_start_labels, start_chain, step
from napari_gsw.core.sampler.options import SamplerOptions
from napari_gsw.core.settings import Settings
from napari_gsw.core.settings.presets import preset
from napari_gsw.files.images import read_image
from napari_gsw.research.evaluation.data_sets import Example, spread
from napari_gsw.research.figures import INKS, make_figure, tidy_axes
from napari_gsw.research.paper.experiment import LABELME, Study, make_photograph_tiles

IMAGES, QUICK_IMAGES = 48, 6
LAMBDAS = (0.0, 1.0, 5.0, 10.0, 20.0)
STARTS = ("one", "random")
# Strong couplings: beta exp(-contrast / contrast_scale), and the cap on beta * delta of the generalized sampler.
STRONG: Mapping[str, Any] = {"coupling": "contrast", "beta": 9.0, "contrast_scale": 5.0}
STRONG_CAP = 0.7
# The samplers of each model, single-site Gibbs first.
SAMPLERS = {"paper": tuple(f"{lam:g}" for lam in LAMBDAS), "strong": ("gibbs", "swendsen-wang", "gsw")}
SWEEPS = {"paper": 1000, "strong": 400}
QUICK_SWEEPS = {"paper": 60, "strong": 40}
# Sweeps between two readings of the clock.
CHUNK = 5


def run_samplers(example: Example, sweeps: Mapping[str, int], seed: int) -> Record:
    """Run all chains on an image: log posterior of each sweep, clusters and seconds after every few sweeps."""
    image, axes = read_image(example.image)
    runs: dict[str, Any] = {}
    for model, changes in (("paper", {}), ("strong", STRONG)):
        settings = preset("paper", axes=axes, **changes)
        problem = prepare(image, settings)
        for start in STARTS:
            for name, bond_options in _make_bonds(model, problem).items():
                labels = make_start_labels(problem, settings.replace(start=start), seed)
                chain = start_chain(problem, SamplerOptions(bond_options), seed, labels)
                runs[f"{model}/{start}/{name}"] = _time_chain(chain, sweeps[model])
    return {"sites": problem.n, "runs": runs}


def _make_bonds(model: str, problem: Problem) -> dict[str, Any]:
    if model == "paper":
        return {f"{lam:g}": bonds.constant_bonds(problem, lam) for lam in LAMBDAS}
    options = ((0.0,), (1.0,), (Settings().lam, STRONG_CAP))
    return {name: bonds.constant_bonds(problem, *o) for name, o in zip(SAMPLERS["strong"], options, strict=True)}


def _time_chain(chain: Any, sweeps: int) -> Record:
    value, clusters, seconds, elapsed = [], [], [], 0.0
    for n_done in range(0, sweeps, CHUNK):
        start = time.perf_counter()
        trace = step(chain, min(CHUNK, sweeps - n_done))
        elapsed += time.perf_counter() - start
        value += trace[:, 0].round(3).tolist()
        clusters.append(int(trace[-1, 1]))
        seconds.append(round(elapsed, 6))
    return {"value": value, "clusters": clusters, "seconds": seconds}


def choose_images(study: Study) -> list[Example]:
    """Choose 48 images of LabelMe (six of each kind of scene), or of another data set, or tiles of photographs."""
    count = QUICK_IMAGES if study.quick else IMAGES
    count = count if study.limit is None else min(count, study.limit)
    for name in (LABELME, *study.data):
        if study.data.get(name):
            return spread(study.data[name], count)
    return spread(make_photograph_tiles(study.folder), count)


def compute_gains(rows: Mapping[str, Record], model: str, start: str, by_time: bool) -> dict[str, Float64Array]:
    """Compute the increase of the best log posterior over single-site Gibbs, one entry per image, by sampler.

    In percent, as in the paper; under strong couplings, where log posteriors are near 0, in log units per site. By
    time, each chain has the time of the fastest one.
    """
    gains: dict[str, list[float]] = {name: [] for name in SAMPLERS[model]}
    for row in rows.values():
        runs = {name: row["runs"][f"{model}/{start}/{name}"] for name in gains}
        seconds = min(run["seconds"][-1] for run in runs.values())
        best = {}
        for name, run in runs.items():
            n_chunks = max(1, int(np.searchsorted(run["seconds"], seconds, side="right")))
            best[name] = float(np.max(run["value"][: n_chunks * CHUNK] if by_time else run["value"]))
        base = best[SAMPLERS[model][0]]
        unit = abs(base) / 100 if model == "paper" else row["sites"]
        for name in gains:
            gains[name].append((best[name] - base) / unit)
    return {name: np.array(values) for name, values in gains.items()}


def count_wins(rows: Mapping[str, Record], start: str, by_time: bool) -> dict[str, int]:
    """Count the images on which the generalized sampler is ahead of each other one, and of both."""
    gain = compute_gains(rows, "strong", start, by_time)
    gibbs, classical = gain["gsw"] > gain["gibbs"], gain["gsw"] > gain["swendsen-wang"]
    return {"gibbs": int(gibbs.sum()), "swendsen-wang": int(classical.sum()), "both": int((gibbs & classical).sum())}


def reproduce(study: Study) -> None:
    """Run all chains, and write ``fig4a.png``, ``fig4b.png``, ``fig4.json`` and ``fig4.csv``."""
    examples = choose_images(study)
    sweeps = QUICK_SWEEPS if study.quick else SWEEPS
    settings = {model: preset("paper", **c).to_dict() for model, c in (("paper", {}), ("strong", STRONG))}
    depends_on = {"settings": settings, "sweeps": dict(sweeps), "cap": STRONG_CAP, "lambdas": LAMBDAS}
    tasks = {example.name: (example, sweeps, study.seed) for example in examples}
    rows = study.run("fig4", run_samplers, tasks, depends_on, examples)
    if rows:
        _draw_traces(rows, study)
        _draw_gains(rows, study)
        study.write_json(
            "fig4", images=len(rows), failed=list(study.failed), sweeps=dict(sweeps), settings=settings,
            strong_cap=STRONG_CAP, **summarize(rows),
        )  # fmt: skip
        lines = [
            [name, *key.split("/"), max(run["value"]), run["seconds"][-1], run["clusters"][-1]]
            for name, row in rows.items()
            for key, run in row["runs"].items()
        ]
        head = ("image", "model", "start", "sampler", "best_log_posterior", "seconds", "clusters")
        study.write_csv("fig4", head, lines)


def summarize(rows: Mapping[str, Record]) -> dict[str, Any]:
    """Compute medians and means over the images, by model and start."""
    content: dict[str, Any] = {}
    for model, names in SAMPLERS.items():
        unit = "percent" if model == "paper" else "per_site"
        for start in STARTS:
            entry = content[f"{model}, from {start}"] = {}
            for by_time, key in ((False, "by_sweeps"), (True, "by_clock")):
                entry[key] = {
                    name: {
                        f"median_increase_{unit}": float(np.median(values)),
                        f"mean_increase_{unit}": float(np.mean(values)),
                        "better_than_gibbs": int((values > 0).sum()),
                    }
                    for name, values in compute_gains(rows, model, start, by_time).items()
                }
                if model == "strong":
                    entry[f"gsw_wins_{key}"] = count_wins(rows, start, by_time)
            for key in ("seconds", "clusters"):
                entry[f"median_{key}"] = {
                    name: float(np.median([row["runs"][f"{model}/{start}/{name}"][key][-1] for row in rows.values()]))
                    for name in names
                }
    return content


def _draw_traces(rows: Mapping[str, Record], study: Study) -> None:
    """Draw a typical run: the image with the median gain of lambda = 10."""
    gain = compute_gains(rows, "paper", "one", False)["10"]
    name = list(rows)[int(np.argsort(gain)[len(gain) // 2])]
    figure = make_figure(10, 3.6)
    for axes, start in zip(figure.subplots(1, 2), STARTS, strict=True):
        late = []
        for ink, lam in zip(INKS, SAMPLERS["paper"], strict=True):
            value = rows[name]["runs"][f"paper/{start}/{lam}"]["value"]
            axes.plot(np.arange(1, len(value) + 1), value, color=ink, linewidth=0.8, label=f"λ = {lam}")
            late += value[len(value) // 10 :]
        margin = 0.15 * (np.ptp(late) or 1.0)
        axes.set_ylim(min(late) - margin, max(late) + margin)
        axes.ticklabel_format(useOffset=False, style="plain")
        start_text = "one cluster" if start == "one" else "a random partition"
        tidy_axes(axes, "sweep", "log posterior", f"{name}, from {start_text}")
    axes.legend(frameon=False, fontsize=8, ncols=2)
    study.save_figure("fig4a", figure)


def _draw_gains(rows: Mapping[str, Record], study: Study) -> None:
    """Draw box plots of the increase over single-site Gibbs, after equal sweeps and after equal time."""
    figure = make_figure(11, 7)
    grid = figure.subplots(2, 4, width_ratios=(2, 2, 1.1, 1.1))
    first_row = next(iter(rows.values()))
    for line, by_time in zip(grid, (False, True), strict=True):
        for axes, (model, start) in zip(line, [(m, s) for m in SAMPLERS for s in STARTS], strict=True):
            gains = compute_gains(rows, model, start, by_time)
            names = SAMPLERS[model][1:]
            inks = INKS[1:] if model == "paper" else (INKS[1], INKS[4])
            boxes = axes.boxplot(
                [gains[name] for name in names], widths=0.55, patch_artist=True,
                medianprops={"color": "black"}, flierprops={"marker": ".", "markersize": 3, "alpha": 0.5},
            )  # fmt: skip
            for box, ink in zip(boxes["boxes"], inks, strict=True):
                box.set(facecolor=ink, alpha=0.55, edgecolor=ink)
            short_names = {"swendsen-wang": "SW", "gsw": "GSW"}
            axes.set_xticks(range(1, len(names) + 1), [short_names.get(n, n) for n in names])
            axes.axhline(0, color="black", linewidth=0.8)
            sweeps = len(first_row["runs"][f"{model}/{start}/{names[0]}"]["value"])
            after = "equal time" if by_time else f"{sweeps} sweeps"
            kind, x = ("β = .02", "λ") if model == "paper" else ("strong", "")
            tidy_axes(axes, x, "", f"{kind}, start {start}\nafter {after}")
        line[0].set_ylabel("increase over Gibbs (%)")
        line[2].set_ylabel("increase over Gibbs (log units a site)")
    study.save_figure("fig4b", figure)
