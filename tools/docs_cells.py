"""Nuclei, membranes and easy pictures: what `napari-gsw reproduce cells` and `evaluate --easy` have written."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from typing import Any

from docs_tables import DATA, share, table

NUCLEI = {
    "microscopy": 'microscopy, `objects="network"`',
    "network-watershed": "the same network, plain watershed (`--method network-watershed`)",
    "microscopy, classical": 'microscopy, `objects="classical"`',
    "otsu-watershed": "Otsu's threshold, watershed of the distance (`--method otsu-watershed`)",
}
MEMBRANES = {
    "membranes": "membranes",
    "mutex-watershed": "mutex watershed, same sites and couplings",
    "multicut": "multicut, likewise",
    "gasp": "GASP with mean linkage, likewise",
    "distance-watershed": "distance watershed of the ridges, best of 33 settings on the same images",
}
VOLUME_METHODS = ("microscopy", "Otsu's threshold", "the same, watershed of the distance")
EASY = ("general", "photo", "microscopy")
# What an easy picture asks for.
TRUE = 0.98


def cells(data_set: str) -> Mapping[str, Any]:
    content: Mapping[str, Any] = json.loads((DATA / "quality" / "cells.json").read_text())["data"][data_set]
    return content


def nuclei() -> str:
    of = cells("nuclei")
    rows = []
    for name, title in NUCLEI.items():
        for half in ("all", "even", "odd") if name == "microscopy" else ("all",):
            mean, pooled = (of["methods"][name][half][key] for key in ("mean", "pooled"))
            figures = [mean["ap_50"], pooled["f1_50"], pooled["f1_70"], pooled["panoptic_quality"]]
            words = "" if half == "all" else f", the {half} pictures"
            rows.append([title + words, *(share(one, 4) for one in figures), share(mean["adjusted_rand"])])
    head = (
        f"{of['pictures']} pictures",
        "AP at IoU .5, mean of pictures",
        "F1 at .5, pooled",
        "F1 at .7, pooled",
        "panoptic quality, pooled",
        "adjusted Rand",
    )
    return table(head, rows)


def membranes() -> str:
    of = cells("membranes")
    rows = []
    for name, title in MEMBRANES.items():
        if name in of["methods"]:
            mean = of["methods"][name]["all"]["mean"]
            figures = [share(mean["adjusted_rand"]), share(mean["variation_of_information"]), share(mean["covering"])]
            rows.append([title, *figures, f"{mean['n_regions']:.0f}"])
    return table((f"{of['pictures']} sections, by folds", "adjusted Rand", "VI (bits)", "covering", "regions"), rows)


def volumes() -> str:
    """Made-up nuclei in volumes: volumes.json of `napari-gsw reproduce volumes`."""
    content = json.loads((DATA / "quality" / "volumes.json").read_text())["rows"]
    methods = ("microscopy", "otsu", "otsu-watershed")
    rows = [
        [f"{name} ({of['volumes']})", *(mean_and_least(of["methods"][method]) for method in methods)]
        for name, of in content.items()
    ]
    return table(("nuclei (volumes), adjusted Rand: mean, least", *VOLUME_METHODS), rows)


def mean_and_least(of: Mapping[str, float]) -> str:
    """The mean, and the least."""
    return f"{share(of['mean'])}, {share(of['least'])}"


def easy() -> str:
    rows = []
    for name in EASY:
        with (DATA / "quality" / f"easy_{name}.csv").open(newline="") as file:
            scores = [float(line["adjusted_rand"]) for line in csv.DictReader(file)]
        below = sum(score < TRUE for score in scores)
        rows.append([name, str(len(scores)), str(below), share(min(scores), 4), share(sum(scores) / len(scores), 4)])
    return table(("preset", "pictures", f"adjusted Rand below {share(TRUE, 2)}", "least", "mean"), rows)
