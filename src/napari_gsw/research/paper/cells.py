"""Nuclei and membranes beside other methods, by cross-validation.

Every third image of nuclei is left out of one of the networks in ``OUT/networks`` (``fold0.npz`` and so on, of
:mod:`napari_gsw.research.training.networks`) and of one of the models in ``OUT/couplings``, which are learnt first if
they are missing. Membranes have a model in ``OUT/membranes`` for each group of neighbouring sections.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from napari_gsw.batch.jobs import Record
from napari_gsw.core.settings.presets import preset
from napari_gsw.methods import Choice, choose
from napari_gsw.research.evaluation.data_sets import Example, spread
from napari_gsw.research.evaluation.evaluate import Evaluation, ScoringTask, choose_headings, score_example
from napari_gsw.research.paper.experiment import Study, available_methods, can_learn, choose_by_name
from napari_gsw.research.training.membranes import fold_names
from napari_gsw.research.training.membranes import learn_all as learn_membranes
from napari_gsw.research.training.objects import learn_folds as learn_objects

QUICK_IMAGES = 2
FOLDS = 3
# The best of 33 settings on the twelve sections of the documentation.
DISTANCE = {"threshold": 0.9, "smoothing": 8.0}
# The methods of an image, by name.
Choices = dict[str, Choice]


def score(example: Example, seed: int, choices: Mapping[str, Choices]) -> Record:
    """Score every method on an image; `choices` has those of each image by its name."""
    return {name: score_example(ScoringTask(example, choice, seed)) for name, choice in choices[example.name].items()}


def reproduce(study: Study) -> None:
    """Score both data sets, as far as they are given, and write ``cells.json``."""
    if not study.nuclei and not study.membranes:
        print("napari-gsw: cells: nothing to look at without --nuclei or --membranes", file=sys.stderr)
    data = {}
    for data_set, examples, choose_methods in (
        ("nuclei", study.nuclei, choose_for_nuclei),
        ("membranes", study.membranes, choose_for_membranes),
    ):
        if examples:
            all_choices = choose_methods(examples, study.folder, study.quick)
            chosen = spread(examples, study.count(None, QUICK_IMAGES))
            choices = {e.name: all_choices[e.name] for e in chosen}
            records = study.run(f"cells-{data_set}", score, {e.name: (e,) for e in chosen}, choices=choices)
            data[data_set] = summarize(chosen, choices[chosen[0].name], records)
    study.write("cells", {"data": data})


def choose_for_nuclei(examples: Sequence[Example], folder: Path, quick: bool) -> dict[str, Choices]:
    """Choose the methods for each example, with a network and couplings that have not seen it if possible."""
    networks = [folder / "networks" / f"fold{k}.npz" for k in range(FOLDS)]
    models = [folder / "couplings" / f"objects_fold{k}.json" for k in range(FOLDS)]
    is_held_out = all(network.exists() for network in networks) and can_learn(quick)
    if not is_held_out:
        print("napari-gsw: microscopy, as shipped, may have learnt from these very nuclei", file=sys.stderr)
    elif not all(model.exists() for model in models):
        print("napari-gsw: learning couplings for three folds of the nuclei (minutes)", file=sys.stderr)
        learn_objects(str(examples[0].image.parents[1]), str(folder / "couplings"), str(folder / "networks"))
    choices = {}
    for k, example in enumerate(examples):
        network = {"network": str(networks[k % FOLDS])} if is_held_out else {}
        model = {"boundary_model": str(models[k % FOLDS])} if is_held_out else {}
        choices[example.name] = {
            "microscopy": choose_by_name("microscopy", network | model),
            "microscopy, classical": choose_by_name("microscopy", {"objects": "classical"}),
            "network-watershed": choose("network-watershed", changes=network),
            "otsu-watershed": choose("otsu-watershed"),
        }
    return choices


def choose_for_membranes(examples: Sequence[Example], folder: Path, quick: bool) -> dict[str, Choices]:
    """Choose the methods for each example, with couplings that have not seen it if possible."""
    groups = fold_names(examples)
    models = {group: folder / "membranes" / f"fold{k}.json" for k, group in enumerate(sorted(set(groups)))}
    is_held_out = len(models) > 1 and can_learn(quick)
    if not is_held_out:
        print("napari-gsw: membranes, as shipped, may have learnt from these very sections", file=sys.stderr)
    elif not all(model.exists() for model in models.values()):
        print("napari-gsw: learning couplings for the folds of the membranes (minutes)", file=sys.stderr)
        learn_membranes(examples, folder / "membranes")
    signed_graphs = available_methods(("multicut", "gasp", "mutex-watershed"))
    choices = {}
    for example, group in zip(examples, groups, strict=True):
        changes = {"boundary_model": str(models[group])} if is_held_out else {}
        choices[example.name] = {
            "membranes": choose_by_name("membranes", changes),
            **{name: choose(name, "membranes", changes) for name in signed_graphs},
            "distance-watershed": choose("distance-watershed", changes=DISTANCE),
        }
    return choices


def summarize(examples: Sequence[Example], choices: Choices, records: Mapping[str, Record]) -> dict[str, Any]:
    """Compute for each method the means over all images, over every other one, and pooled over all objects."""
    methods = {}
    for name, choice in choices.items():
        headings = choose_headings(examples, choice)
        rows = [(image, record[name]) for image, record in records.items()]
        halves = {"all": rows, "even": rows[::2], "odd": rows[1::2]}
        evaluations = {half: Evaluation(choice.to_dict(), dict(part), {}, headings) for half, part in halves.items()}
        methods[name] = {half: {"mean": e.summary(), "pooled": e.pooled()} for half, e in evaluations.items() if e.rows}
    ours, choice = next(iter(choices.items()))
    held_out = choice.settings.boundary_model != preset(ours).boundary_model
    return {"pictures": len(records), "held_out": held_out, "methods": methods}
