"""Fit the curve of :mod:`napari_gsw.core.posterior.human_boundary` to what people draw.

    python -m napari_gsw.experiments.calibration BSDS SPLIT MODELS

MODELS is the folder that :mod:`napari_gsw.experiments.boundaries` has written: the log odds of each image come from the
model of five that has not seen it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, xlog1py, xlogy

from napari_gsw.core.arrays import Floats
from napari_gsw.core.pipeline.segment import segment
from napari_gsw.core.posterior.hierarchy import posterior_odds
from napari_gsw.core.presets import preset
from napari_gsw.evaluation.data_sets import Example, bsds
from napari_gsw.experiments.boundaries import fold_of
from napari_gsw.experiments.quality import OURS, learnt_odds, people_along


def edges(example: Example, name: str, model: str) -> Floats:
    """What there is to fit to on one image.

    Parameters
    ----------
    example : the image and its people.
    name : of one of our presets.
    model : file of the model that tells the log odds of a human boundary.

    Returns
    -------
    (m, 4) for each edge: log odds as learnt, log odds of the posterior, share of people who agree, and length.
    """
    scene = example.read()
    changes = {"boundary_model": model} if name == "photo" else {}
    result = segment(scene.image, preset(name, axes=scene.axes, **changes), seed=0)
    assert result.problem.graph is not None
    learnt, posterior = learnt_odds(result, scene, model), posterior_odds(result.snapshot.together)
    return np.column_stack((learnt, posterior, people_along(result, scene), result.problem.graph.length))


def fitted(rows: Floats) -> Floats:
    """The curve under which people's boundaries are most probable.

    Parameters
    ----------
    rows : (edges, 4) as :func:`edges` gives them, of all images.

    Returns
    -------
    (3,) intercept, weight of what is learnt, weight of the posterior.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> odds = rng.normal(size=(5000, 2))
    >>> people = expit(0.3 + odds @ (0.6, 0.1))
    >>> fitted(np.column_stack((odds, people, np.ones(5000)))).round(2).tolist()
    [0.3, 0.6, 0.1]
    """
    odds = np.column_stack((np.ones(len(rows)), rows[:, :2]))
    people, length = rows[:, 2], rows[:, 3] / rows[:, 3].sum()

    def surprise(curve: Floats) -> tuple[float, Floats]:
        probability = expit(odds @ curve)
        cost = -(length * (xlogy(people, probability) + xlog1py(1 - people, -probability))).sum()
        return float(cost), odds.T @ (length * (probability - people))

    return np.asarray(minimize(surprise, np.array([0.0, 1.0, 0.0]), jac=True).x)


if __name__ == "__main__":
    where, split, models = sys.argv[1:]
    examples = bsds(where, split)
    folds = [str(Path(models) / f"fold{f}.json") for f in fold_of(len(examples))]
    rows = [edges(e, p, f) for e, f in zip(examples, folds, strict=True) for p in OURS]
    print("INTERCEPT, LEARNT, POSTERIOR =", ", ".join(f"{x:.3f}" for x in fitted(np.concatenate(rows))))
