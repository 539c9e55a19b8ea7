"""What the experiments that compare methods on data sets have in common."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import wilcoxon

from napari_gsw.core.array_types import Float64Array
from napari_gsw.core.settings.presets import PRESETS
from napari_gsw.methods import Choice, choose
from napari_gsw.research.evaluation.data_sets import Example
from napari_gsw.research.paper.pictures import MOSAICS, ExperimentPlan, mosaics

# The packages that a method needs beyond our own, and the extra that brings them.
NEEDS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "mean-shift": (("cv2",), "peers"),
    "mutex-watershed": (("mwatershed",), "peers"),
    "multicut": (("bioimage_cpp",), "peers"),
    "gasp": (("bioimage_cpp",), "peers"),
    "forest": (("sklearn",), "interactive"),
    "graph-cut": (("sklearn", "ortools"), "interactive"),
}


def available_methods(names: Sequence[str]) -> tuple[str, ...]:
    """The methods whose packages are installed; which one is left out is told to the user."""
    available = []
    for name in names:
        packages, extra = NEEDS.get(name, ((), ""))
        if all(importlib.util.find_spec(package) is not None for package in packages):
            available.append(name)
        else:
            print(f'napari-gsw: {name} is left out; it needs: pip install "napari-gsw[{extra}]"', file=sys.stderr)
    return tuple(available)


def named_choice(name: str, changes: Mapping[str, Any] | None = None) -> Choice:
    """The method of that name, or ours with the preset of that name."""
    return choose("gsw", name, changes) if name in PRESETS else choose(name, changes=changes)


def compared_data(plan: ExperimentPlan, folder: Path) -> dict[str, Sequence[Example]]:
    """The data sets of the plan by name; without any, mosaics that are made in the folder."""
    return dict(plan.data) or {MOSAICS: mosaics(folder)}


def p_value(a: Float64Array, b: Float64Array) -> float:
    """Wilcoxon's signed-rank test that two methods have the same median.

    Parameters
    ----------
    a, b : (images,) a measure of each method.

    Returns
    -------
    The p-value; 1 if the two are equal throughout.
    """
    return 1.0 if np.array_equal(a, b) else float(wilcoxon(a, b).pvalue)
