"""What the experiments that compare methods on data sets have in common."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.stats import wilcoxon

from napari_gsw.core.arrays import Floats
from napari_gsw.evaluation.data_sets import Example
from napari_gsw.experiments.pictures import MOSAICS, ExperimentPlan, mosaics


def available_methods(names: Sequence[str]) -> tuple[str, ...]:
    """The methods whose packages are installed; which one is left out is told to the user."""
    if importlib.util.find_spec("cv2") is not None:
        return tuple(names)
    print('napari-gsw: mean shift is left out; it needs: pip install "napari-gsw[peers]"', file=sys.stderr)
    return tuple(name for name in names if name != "mean-shift")


def compared_data(plan: ExperimentPlan, folder: Path) -> dict[str, Sequence[Example]]:
    """The data sets of the plan by name; without any, mosaics that are made in the folder."""
    return dict(plan.data) or {MOSAICS: mosaics(folder)}


def p_value(a: Floats, b: Floats) -> float:
    """Wilcoxon's signed-rank test that two methods have the same median.

    Parameters
    ----------
    a, b : (images,) a measure of each method.

    Returns
    -------
    The p-value; 1 if the two are equal throughout.
    """
    return 1.0 if np.array_equal(a, b) else float(wilcoxon(a, b).pvalue)
