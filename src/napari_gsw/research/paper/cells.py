"""Nuclei and membranes beside other methods, by cross-validation.

Every third image of nuclei is left out of one of the networks in ``OUT/networks`` (``fold0.npz`` and so on, of
:mod:`napari_gsw.research.training.networks`) and of one of the models in ``OUT/couplings``, which are learnt first if
they are missing. Membranes have a model in ``OUT/membranes`` for each group of neighbouring sections.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from napari_gsw.batch.jobs import Record
from napari_gsw.core.settings.presets import preset
from napari_gsw.methods import Choice, choose
from napari_gsw.research.evaluation.data_sets import Example, spread
from napari_gsw.research.evaluation.evaluate import choose_headings, summarize
from napari_gsw.research.paper.experiment import Study, available_methods, has_models, score_methods
from napari_gsw.research.training.membranes import fold_names
from napari_gsw.research.training.membranes import learn_all as learn_membranes
from napari_gsw.research.training.objects import learn_folds as learn_objects

QUICK_IMAGES = 2
FOLDS = 3
# The best of 33 settings on the twelve sections of the documentation.
DISTANCE = {"threshold": 0.9, "smoothing": 8.0}
# The methods of each fold by name, and the fold of each example.
Folds = tuple[list[dict[str, Choice]], dict[Example, int]]


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
            choices, folds = choose_methods(examples, study)
            chosen = spread(examples, study.count(None, QUICK_IMAGES))
            cases = {example.name: (example, folds[example]) for example in chosen}
            records = study.run(f"cells-{data_set}", score_methods, cases, choices=choices)
            data[data_set] = summarize_halves(chosen, choices[0], records)
    study.write("cells", {"data": data})


def choose_for_nuclei(examples: Sequence[Example], study: Study) -> Folds:
    """Choose the methods of each fold, with a network and couplings that have not seen its images if possible."""
    folder = study.folder
    networks = [folder / "networks" / f"fold{k}.npz" for k in range(FOLDS)]
    models = [folder / "couplings" / f"objects_fold{k}.json" for k in range(FOLDS)]
    learn = partial(learn_objects, str(examples[0].image.parents[1]), str(models[0].parent), str(networks[0].parent))
    is_quick = study.quick or not all(network.exists() for network in networks)
    is_held_out = has_models(models, learn, is_quick, "nuclei")
    choices = []
    for k in range(FOLDS):
        network = {"network": str(networks[k])} if is_held_out else {}
        model = {"boundary_model": str(models[k])} if is_held_out else {}
        choices.append(
            {
                "microscopy": choose("gsw", "microscopy", network | model),
                "microscopy, classical": choose("gsw", "microscopy", {"objects": "classical"}),
                "network-watershed": choose("network-watershed", changes=network),
                "otsu-watershed": choose("otsu-watershed"),
            }
        )
    return choices, {example: k % FOLDS for k, example in enumerate(examples)}


def choose_for_membranes(examples: Sequence[Example], study: Study) -> Folds:
    """Choose the methods of each group of sections, with couplings that have not seen it if possible."""
    groups = fold_names(examples)
    names = sorted(set(groups))
    models = [study.folder / "membranes" / f"fold{k}.json" for k in range(len(names))]
    learn = partial(learn_membranes, examples, models[0].parent)
    is_held_out = has_models(models, learn, study.quick or len(names) < 2, "sections")
    signed_graphs = available_methods(("multicut", "gasp", "mutex-watershed"))
    choices = []
    for model in models:
        changes = {"boundary_model": str(model)} if is_held_out else {}
        ours = {"membranes": choose("gsw", "membranes", changes)}
        others = {name: choose(name, "membranes", changes) for name in signed_graphs}
        choices.append({**ours, **others, "distance-watershed": choose("distance-watershed", changes=DISTANCE)})
    return choices, {e: names.index(group) for e, group in zip(examples, groups, strict=True)}


def summarize_halves(
    examples: Sequence[Example], choices: Mapping[str, Choice], records: Mapping[str, Record]
) -> dict[str, Any]:
    """Compute for each method the means over all images, over every other one, and pooled over all objects."""
    methods: dict[str, Any] = {}
    rows = list(records.values())
    for name, choice in choices.items():
        headings = choose_headings(examples, choice)
        halves = {"all": rows, "even": rows[::2], "odd": rows[1::2]}
        methods[name] = {
            half: summarize([row[name] for row in part], headings) for half, part in halves.items() if part
        }
    ours, choice = next(iter(choices.items()))
    held_out = choice.settings.boundary_model != preset(ours).boundary_model
    return {"pictures": len(records), "held_out": held_out, "methods": methods}
