"""Fit a curve of :mod:`napari_gsw.core.posterior.calibrated_boundary` to what people draw.

    python -m napari_gsw.research.paper.calibration BSDS SPLIT MODELS [NETWORKS]

MODELS is the folder that :mod:`napari_gsw.research.training.boundaries` has written, and NETWORKS that of
:mod:`napari_gsw.research.training.boundary_network`, if the models look at networks: the log odds of each image come from the
model and the network of five that have not seen it. The curve of all images is printed, and what a curve of the even
images is worth on the odd ones, and the other way round.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, xlog1py, xlogy

from napari_gsw.core.array_types import Float64Array
from napari_gsw.core.pipeline.segment import segment
from napari_gsw.core.posterior.regions import boundary_log_odds
from napari_gsw.core.settings.presets import preset
from napari_gsw.research.evaluation.data_sets import Example, list_bsds
from napari_gsw.research.paper.quality import OURS, learnt_odds, people_along, reliability
from napari_gsw.research.training.boundaries import fold_of


def edges(example: Example, name: str, model: str, network: str = "none") -> Float64Array:
    """What there is to fit to on one image.

    Parameters
    ----------
    example : the image and its people.
    name : of one of our presets.
    model : file of the model that tells the log odds of a human boundary.
    network : file of the network that the model looks at; ``none`` if it looks at none.

    Returns
    -------
    (m, 4) for each edge: log odds as learnt, log odds of the posterior, share of people who agree, and length.
    """
    scene = example.read()
    changes = {"boundary_model": model, "network": network} if name == "photo" else {}
    result = segment(scene.image, preset(name, axes=scene.axes, **changes), seed=0)
    assert result.problem.graph is not None
    (learnt, _), posterior = learnt_odds(result, scene, model, network), boundary_log_odds(result.snapshot.together)
    return np.column_stack((learnt, posterior, people_along(result, scene), result.problem.graph.length))


def fitted(rows: Float64Array) -> Float64Array:
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

    def surprise(curve: Float64Array) -> tuple[float, Float64Array]:
        probability = expit(odds @ curve)
        cost = -(length * (xlogy(people, probability) + xlog1py(1 - people, -probability))).sum()
        return float(cost), odds.T @ (length * (probability - people))

    # Where the learnt log odds say all that the posterior knows, its weight is 0 and not a little below.
    limits = ((None, None), (0, None), (0, None))
    return np.asarray(minimize(surprise, np.array([0.0, 1.0, 0.0]), jac=True, bounds=limits).x)


def calibration_error(rows: Float64Array, curve: Float64Array) -> float:
    """How far, on average over edges, what is said is from what people do, by tenths of what is said.

    Parameters
    ----------
    rows : (edges, 4) as :func:`edges` gives them.
    curve : (3,) as :func:`fitted` gives it.

    Examples
    --------
    >>> rows = np.array([[0.0, 0.0, 0.5, 1.0], [0.0, 0.0, 0.7, 1.0]])
    >>> round(calibration_error(rows, np.zeros(3)), 3)
    0.1
    """
    said = expit(curve[0] + rows[:, :2] @ curve[1:])
    weight, probability, people = np.transpose(reliability(said, rows[:, 2], rows[:, 3]))
    return float(np.abs(probability - people).sum() / weight.sum())


def main(where: str, split: str, models: str, networks: str | None = None) -> None:
    """Fit, and print."""
    examples = list_bsds(where, split)
    rows: list[Float64Array] = []
    for example, fold in zip(examples, fold_of(len(examples)), strict=True):
        model = str(Path(models) / f"fold{fold}.json")
        network = "none" if networks is None else str(Path(networks) / f"fold{fold}.npz")
        rows.append(np.concatenate([edges(example, name, model, network) for name in OURS]))
    print("curve", ", ".join(f"{x:.3f}" for x in fitted(np.concatenate(rows))))
    even, odd = np.concatenate(rows[::2]), np.concatenate(rows[1::2])
    print(f"of even images, on odd ones: calibration error {calibration_error(odd, fitted(even)):.3f}")
    print(f"of odd images, on even ones: calibration error {calibration_error(even, fitted(odd)):.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
