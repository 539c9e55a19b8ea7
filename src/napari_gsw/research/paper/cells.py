"""Nuclei and membranes beside other methods, each picture with a network and couplings that have not seen it.

Nuclei: every third picture is left out of one of the networks in ``OUT/networks`` (``fold0.npz`` and so on, of
:mod:`napari_gsw.research.training.object_network`) and of one of the models in ``OUT/couplings``, which are learnt first
where they are missing. Membranes: a model in ``OUT/membranes`` for each group of neighbouring sections, likewise.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from napari_gsw.batch.jobs import JobOptions, JobRecords, Record, run_jobs
from napari_gsw.core.settings.presets import preset
from napari_gsw.files.results import write_json
from napari_gsw.methods import Choice, choose
from napari_gsw.research.evaluation.data_sets import Example, list_files
from napari_gsw.research.evaluation.evaluate import Evaluation, ScoringTask, choose_headings
from napari_gsw.research.evaluation.evaluate import score_example as scored_once
from napari_gsw.research.paper.comparison import available_methods, named_choice
from napari_gsw.research.paper.pictures import ExperimentPlan, spread
from napari_gsw.research.training.membranes import fold_names
from napari_gsw.research.training.membranes import learn_all as learn_membranes
from napari_gsw.research.training.objects import learn_folds as learn_objects

NUCLEI, MEMBRANES = "nuclei", "membranes"
QUICK_IMAGES = 2
FOLDS = 3
# The distance watershed at its best on the twelve sections of the documentation among 33 settings.
DISTANCE = {"threshold": 0.9, "smoothing": 8.0}


class CellPicture(NamedTuple):
    """A picture, and the methods that segment it by the name that a table has for them."""

    example: Example
    choices: Mapping[str, Choice]
    seed: int


def scored(task: CellPicture) -> Record:
    """Measures of every method on one picture."""
    return {name: scored_once(ScoringTask(task.example, choice, task.seed)) for name, choice in task.choices.items()}


def reproduce(plan: ExperimentPlan, job_options: JobOptions) -> JobRecords:
    """Score both data sets, as far as they are there, and write ``cells.json``; returns the rows of all pictures."""
    if not plan.nuclei and not plan.membranes:
        print("napari-gsw: cells: nothing to look at without --nuclei or --membranes", file=sys.stderr)
    done: dict[str, Record] = {}
    failed: dict[str, str] = {}
    content: dict[str, Any] = {"seed": plan.seed, "data": {}}
    for data_set, examples, choices_of in (
        (NUCLEI, plan.nuclei, nuclei_choices),
        (MEMBRANES, plan.membranes, membrane_choices),
    ):
        if not examples:
            continue
        choices = dict(zip(examples, choices_of(examples, job_options.folder, plan.quick), strict=True))
        some = spread(examples, plan.image_limit(QUICK_IMAGES))
        jobs = {e.name: CellPicture(e, choices[e], plan.seed) for e in some}
        depends_on = {"seed": plan.seed, "methods": [{k: c.to_dict() for k, c in choices[e].items()} for e in some]}
        rows = run_jobs(f"cells-{data_set}", scored, jobs, depends_on, job_options, list_files(some))
        done |= {f"{data_set}/{name}": row for name, row in rows.done.items()}
        failed |= {f"{data_set}/{name}": reason for name, reason in rows.failed.items()}
        content["data"][data_set] = summarised(some, choices[some[0]], rows)
    write_json(job_options.folder / "cells.json", content)
    return JobRecords(done, failed)


def nuclei_choices(examples: Sequence[Example], folder: Path, quick: bool) -> list[dict[str, Choice]]:
    """For each example the methods, with a network and couplings that have not seen it as far as they can be had."""
    networks, couplings = folder / "networks", folder / "couplings"
    learnt: list[dict[str, str]] = [{} for _ in examples]
    there = all((networks / f"fold{k}.npz").exists() for k in range(FOLDS))
    if not there or not _may_learn(quick):
        print("napari-gsw: microscopy, as shipped, may have learnt from these very nuclei", file=sys.stderr)
    else:
        models = [couplings / f"objects_fold{k}.json" for k in range(FOLDS)]
        if not all(model.exists() for model in models):
            print("napari-gsw: learning couplings for three folds of the nuclei (minutes)", file=sys.stderr)
            learn_objects(str(examples[0].image.parents[1]), str(couplings), str(networks))
        learnt = [
            {"network": str(networks / f"fold{k % FOLDS}.npz"), "boundary_model": str(models[k % FOLDS])}
            for k in range(len(examples))
        ]
    return [
        {
            "microscopy": named_choice("microscopy", of),
            "microscopy, classical": named_choice("microscopy", {"objects": "classical"}),
            "network-watershed": choose("network-watershed", changes={k: of[k] for k in ("network",) if k in of}),
            "otsu-watershed": choose("otsu-watershed"),
        }
        for of in learnt
    ]


def membrane_choices(examples: Sequence[Example], folder: Path, quick: bool) -> list[dict[str, Choice]]:
    """For each example the methods, with couplings that have not seen it as far as they can be had."""
    couplings = folder / "membranes"
    learnt: list[dict[str, str]] = [{} for _ in examples]
    groups = fold_names(examples)
    if len(set(groups)) < 2 or not _may_learn(quick):
        print("napari-gsw: membranes, as shipped, may have learnt from these very sections", file=sys.stderr)
    else:
        models = {group: couplings / f"fold{k}.json" for k, group in enumerate(sorted(set(groups)))}
        if not all(model.exists() for model in models.values()):
            print("napari-gsw: learning couplings for the folds of the membranes (minutes)", file=sys.stderr)
            learn_membranes(examples, couplings)
        learnt = [{"boundary_model": str(models[group])} for group in groups]
    rivals = available_methods(("multicut", "gasp", "mutex-watershed"))
    return [
        {
            "membranes": named_choice("membranes", of),
            **{name: choose(name, "membranes", of) for name in rivals},
            "distance-watershed": choose("distance-watershed", changes=DISTANCE),
        }
        for of in learnt
    ]


def _may_learn(quick: bool) -> bool:
    """Whether couplings are learnt here; why not is told to the user."""
    if not quick and importlib.util.find_spec("lightgbm") is None:
        print('napari-gsw: no lightgbm: pip install "napari-gsw[learning]"', file=sys.stderr)
    return not quick and importlib.util.find_spec("lightgbm") is not None


def summarised(examples: Sequence[Example], choices: Mapping[str, Choice], rows: JobRecords) -> dict[str, Any]:
    """For each method the means over the pictures, over every other one, and over all objects at once."""
    methods = {}
    for name, choice in choices.items():
        headings = choose_headings(examples, choice)
        of = {picture: row[name] for picture, row in rows.done.items()}
        halves = {"even": dict(list(of.items())[::2]), "odd": dict(list(of.items())[1::2])}
        methods[name] = {
            half: {"mean": one.summary(), "pooled": one.pooled()}
            for half, some in {"all": of, **halves}.items()
            if (one := Evaluation(choice.to_dict(), some, {}, headings)).rows
        }
    ours, choice = next(iter(choices.items()))
    held_out = choice.settings.boundary_model != preset(ours).boundary_model
    return {"pictures": len(rows.done), "held_out": held_out, "methods": methods}
