"""Figure 4: what bonds are worth. Chains that differ in nothing but lambda, by sweeps and by the clock.

Once as in the paper (constant beta = .02), and once under strong couplings that follow the contrast, where the
generalized sampler stands against single-site Gibbs and the classical Swendsen-Wang. Both from one cluster and from a
random start.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_gsw.batch.jobs import JobOptions, JobRecords, Record, run_jobs
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.pipeline.prepare import prepare
from napari_gsw.core.sampler import bonds
from napari_gsw.core.sampler.chain import make_start_labels, start_chain, step
from napari_gsw.core.sampler.options import SamplerOptions
from napari_gsw.core.settings import Settings
from napari_gsw.core.settings.presets import preset
from napari_gsw.files.images import read_image
from napari_gsw.files.results import write_csv, write_json
from napari_gsw.research import figures
from napari_gsw.research.evaluation.data_sets import Example
from napari_gsw.research.paper.pictures import LABELME, ExperimentPlan, photograph_tiles, spread

IMAGES, QUICK_IMAGES = 48, 6
LAMBDAS = (0.0, 1.0, 5.0, 10.0, 20.0)
STARTS = ("one", "random")
# Strong couplings: beta exp(-contrast / contrast_scale), and the cap on beta * delta of the generalized sampler.
STRONG: Mapping[str, Any] = dict(coupling="contrast", beta=9.0, contrast_scale=5.0)
STRONG_CAP = 0.7
RIVALS = ("gibbs", "swendsen-wang", "gsw")
SWEEPS = {"paper": 1000, "strong": 400}
QUICK_SWEEPS = {"paper": 60, "strong": 40}
# Sweeps between two looks at the clock.
CHUNK = 5


class Fig4Image(NamedTuple):
    """An image on which all samplers run, and how many sweeps they make of each model."""

    example: Example
    sweeps: Mapping[str, int]
    seed: int


def compared(task: Fig4Image) -> Record:
    """All chains on one image: best log posterior so far, number of clusters and seconds after every few sweeps."""
    image, axes = read_image(task.example.image)
    runs: dict[str, Any] = {}
    sites = 0
    for model, changes in (("paper", {}), ("strong", STRONG)):
        settings = preset("paper", axes=axes, **changes)
        problem = prepare(image, settings)
        sites = problem.n
        for begin in STARTS:
            for name, bonds_used in _samplers(model, problem).items():
                first = make_start_labels(problem, settings.replace(start=begin), task.seed)
                runs[f"{model}/{begin}/{name}"] = _run(problem, bonds_used, first, task.sweeps[model], task.seed)
    return {"sites": sites, "runs": runs}


def _samplers(model: str, problem: Problem) -> dict[str, Any]:
    if model == "paper":
        return {f"{lam:g}": bonds.constant_bonds(problem, lam) for lam in LAMBDAS}
    capped = bonds.constant_bonds(problem, Settings().lam, STRONG_CAP)
    return dict(
        zip(RIVALS, (bonds.constant_bonds(problem, 0.0), bonds.constant_bonds(problem, 1.0), capped), strict=True)
    )


def _run(problem: Problem, bonds_used: Any, first: Any, sweeps: int, seed: int) -> Record:
    chain = start_chain(problem, SamplerOptions(bonds_used), seed, first)
    value, clusters, seconds, spent = [], [], [], 0.0
    for done in range(0, sweeps, CHUNK):
        began = time.perf_counter()
        trace = step(chain, min(CHUNK, sweeps - done))
        spent += time.perf_counter() - began
        value += trace[:, 0].round(3).tolist()
        clusters.append(int(trace[-1, 1]))
        seconds.append(round(spent, 6))
    return {"value": value, "clusters": clusters, "seconds": seconds}


def chosen_images(plan: ExperimentPlan, job_options: JobOptions) -> list[Example]:
    """48 images: LabelMe's if there are any (six of each kind of scene), otherwise those of the other data set."""
    count = QUICK_IMAGES if plan.quick else IMAGES
    count = count if plan.limit is None else min(count, plan.limit)
    for name in (LABELME, *plan.data):
        if plan.data.get(name):
            return spread(plan.data[name], count)
    return spread(photograph_tiles(job_options.folder), count)


def reproduce(plan: ExperimentPlan, job_options: JobOptions) -> JobRecords:
    """Run all chains, and write ``fig4a.png``, ``fig4b.png``, ``fig4.json`` and ``fig4.csv``; returns all rows."""
    examples = chosen_images(plan, job_options)
    sweeps = QUICK_SWEEPS if plan.quick else SWEEPS
    jobs = {e.name: Fig4Image(e, sweeps, plan.seed) for e in examples}
    settings = {m: preset("paper", **c).to_dict() for m, c in (("paper", {}), ("strong", STRONG))}
    depends_on = {
        "settings": settings, "sweeps": dict(sweeps), "seed": plan.seed, "cap": STRONG_CAP, "lambdas": LAMBDAS,
    }  # fmt: skip
    rows = run_jobs("fig4", compared, jobs, depends_on, job_options, {e.name: [e.image] for e in examples})
    if rows.done:
        _draw_traces(rows.done, job_options)
        _draw_gains(rows.done, job_options)
        write_json(job_options.folder / "fig4.json", summary(rows, sweeps, settings, plan.seed))
        write_csv(job_options.folder / "fig4.csv", *_table(rows.done))
    return rows


def sampler_names(model: str) -> tuple[str, ...]:
    """The samplers that are compared under a model, single-site Gibbs first."""
    return tuple(f"{lam:g}" for lam in LAMBDAS) if model == "paper" else RIVALS


def best_by_sweeps(run: Record) -> float:
    """Highest log posterior of a whole run."""
    return float(np.max(run["value"]))


def best_by_clock(run: Record, seconds: float) -> float:
    """Highest log posterior within some seconds; of the first few sweeps if even they took longer."""
    chunks = max(1, int(np.searchsorted(run["seconds"], seconds, side="right")))
    return float(np.max(run["value"][: chunks * CHUNK]))


def gains(rows: Mapping[str, Record], model: str, begin: str, clock: bool) -> dict[str, NDArray[np.float64]]:
    """Increase of the best log posterior over single-site Gibbs, one entry an image, by sampler.

    In percent, as in the paper; under strong couplings, where log posteriors come near 0 and a percentage means
    nothing, in units of the log posterior per site. By the clock each chain has the time of the quickest of them, so
    that none is looked at beyond its end.
    """
    names = sampler_names(model)
    increases: dict[str, list[float]] = {name: [] for name in names}
    for row in rows.values():
        runs = {name: row["runs"][f"{model}/{begin}/{name}"] for name in names}
        least = min(run["seconds"][-1] for run in runs.values())
        best = {n: best_by_clock(r, least) if clock else best_by_sweeps(r) for n, r in runs.items()}
        base = best[names[0]]
        for name in names:
            unit = abs(base) / 100 if model == "paper" else row["sites"]
            increases[name].append((best[name] - base) / unit)
    return {name: np.array(values) for name, values in increases.items()}


def wins(rows: Mapping[str, Record], begin: str, clock: bool) -> dict[str, int]:
    """On how many images the generalized sampler is ahead of each rival, and of both, under strong couplings."""
    gain = gains(rows, "strong", begin, clock)
    gibbs, classical = gain["gsw"] > gain["gibbs"], gain["gsw"] > gain["swendsen-wang"]
    return {"gibbs": int(gibbs.sum()), "swendsen-wang": int(classical.sum()), "both": int((gibbs & classical).sum())}


def summary(rows: JobRecords, sweeps: Mapping[str, int], settings: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """The content of ``fig4.json``: medians and means over the images, by model and start."""
    content: dict[str, Any] = {
        "images": len(rows.done), "failed": list(rows.failed), "sweeps": dict(sweeps), "seed": seed,
        "settings": settings, "strong_cap": STRONG_CAP,
    }  # fmt: skip
    for model in SWEEPS:
        for begin in STARTS:
            entry: dict[str, Any] = {}
            unit = "percent" if model == "paper" else "per_site"
            for clock in (False, True):
                increases = gains(rows.done, model, begin, clock)
                entry["by_clock" if clock else "by_sweeps"] = {
                    name: {
                        f"median_increase_{unit}": float(np.median(values)),
                        f"mean_increase_{unit}": float(np.mean(values)),
                        "better_than_gibbs": int((values > 0).sum()),
                    }
                    for name, values in increases.items()
                }
                if model == "strong":
                    entry["gsw_wins_by_clock" if clock else "gsw_wins_by_sweeps"] = wins(rows.done, begin, clock)
            runs_of = {
                n: [row["runs"][f"{model}/{begin}/{n}"] for row in rows.done.values()] for n in sampler_names(model)
            }
            entry["median_seconds"] = {
                n: float(np.median([r["seconds"][-1] for r in runs])) for n, runs in runs_of.items()
            }
            entry["median_clusters"] = {
                n: float(np.median([r["clusters"][-1] for r in runs])) for n, runs in runs_of.items()
            }
            content[f"{model}, from {begin}"] = entry
    return content


def _table(rows: Mapping[str, Record]) -> tuple[Sequence[str], list[list[Any]]]:
    head = ("image", "model", "start", "sampler", "best_log_posterior", "seconds", "clusters")
    lines = [
        [name, *key.split("/"), best_by_sweeps(run), run["seconds"][-1], run["clusters"][-1]]
        for name, row in rows.items()
        for key, run in row["runs"].items()
    ]
    return head, lines


def _draw_traces(rows: Mapping[str, Record], job_options: JobOptions) -> None:
    """A typical run: the image whose gain of lambda = 10 is the median one."""
    gain = gains(rows, "paper", "one", False)["10"]
    name = list(rows)[int(np.argsort(gain)[len(gain) // 2])]
    drawing = figures.figure(10, 3.6)
    for axes, begin in zip(drawing.subplots(1, 2), STARTS, strict=True):
        late = []
        for ink, lam in zip(figures.INKS, sampler_names("paper"), strict=True):
            value = rows[name]["runs"][f"paper/{begin}/{lam}"]["value"]
            axes.plot(np.arange(1, len(value) + 1), value, color=ink, linewidth=0.8, label=f"λ = {lam}")
            late += value[len(value) // 10 :]
        room = 0.15 * (np.ptp(late) or 1.0)
        axes.set_ylim(min(late) - room, max(late) + room)
        axes.ticklabel_format(useOffset=False, style="plain")
        words = "one cluster" if begin == "one" else "a random partition"
        figures.tidy(axes, "sweep", "log posterior", f"{name}, from {words}")
    axes.legend(frameon=False, fontsize=8, ncols=2)
    figures.save(drawing, job_options.folder / "fig4a.png")


def _draw_gains(rows: Mapping[str, Record], job_options: JobOptions) -> None:
    """Box plots of the increase over single-site Gibbs, after equal sweeps and after equal time."""
    drawing = figures.figure(11, 7)
    grid = drawing.subplots(2, 4, width_ratios=(2, 2, 1.1, 1.1))
    for line, clock in zip(grid, (False, True), strict=True):
        for axes, (model, begin) in zip(line, [(m, b) for m in SWEEPS for b in STARTS], strict=True):
            increases = gains(rows, model, begin, clock)
            names = sampler_names(model)[1:]
            inks = figures.INKS[1:] if model == "paper" else (figures.INKS[1], figures.INKS[4])
            boxes = axes.boxplot(
                [increases[name] for name in names], widths=0.55, patch_artist=True,
                medianprops={"color": "black"}, flierprops={"marker": ".", "markersize": 3, "alpha": 0.5},
            )  # fmt: skip
            for box, ink in zip(boxes["boxes"], inks, strict=True):
                box.set(facecolor=ink, alpha=0.55, edgecolor=ink)
            words = {"swendsen-wang": "SW", "gsw": "GSW"}
            axes.set_xticks(range(1, len(names) + 1), [words.get(n, n) for n in names])
            axes.axhline(0, color="black", linewidth=0.8)
            after = (
                "equal time"
                if clock
                else f"{len(rows[next(iter(rows))]['runs'][f'{model}/{begin}/{names[0]}']['value'])} sweeps"
            )
            kind = "β = .02" if model == "paper" else "strong"
            figures.tidy(axes, "λ" if model == "paper" else "", "", f"{kind}, start {begin}\nafter {after}")
        line[0].set_ylabel("increase over Gibbs (%)")
        line[2].set_ylabel("increase over Gibbs (log units a site)")
    figures.save(drawing, job_options.folder / "fig4b.png")
