"""Fit the curve of :mod:`napari_gsw.core.posterior.calibrated_boundary` to the boundaries that annotators draw.

    python -m napari_gsw.research.paper.calibration BSDS SPLIT MODELS [NETWORKS]

MODELS and NETWORKS are the output folders of ``napari_gsw.research.training.boundaries`` and ``networks``: the log odds
of each image come from the model and the network of five that have not seen it. Prints the curve of all images, and the
calibration errors of curves that are fitted to half of the images on the other half.
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
from napari_gsw.research.paper.quality import OURS, annotator_agreement, bin_by_probability, predict_boundary_odds
from napari_gsw.research.training.boundaries import fold_of


def collect_edges(example: Example, name: str, model: str, network: str = "none") -> Float64Array:
    """Collect (edges, 4) of an image and a preset: learnt log odds, log odds of the posterior, annotators, length."""
    annotated = example.read()
    changes = {"boundary_model": model, "network": network} if name == "photo" else {}
    result = segment(annotated.image, preset(name, axes=annotated.axes, **changes), seed=0)
    assert result.problem.graph is not None
    learnt, _ = predict_boundary_odds(result, annotated, model, network)
    posterior = boundary_log_odds(result.snapshot.together)
    return np.column_stack((learnt, posterior, annotator_agreement(result, annotated), result.problem.graph.length))


def fit_curve(edges: Float64Array) -> Float64Array:
    """Fit the curve of maximum likelihood: (3,) intercept, weight of the learnt odds, weight of the posterior."""
    odds = np.column_stack((np.ones(len(edges)), edges[:, :2]))
    human, length = edges[:, 2], edges[:, 3] / edges[:, 3].sum()

    def loss(curve: Float64Array) -> float:
        probability = expit(odds @ curve)
        return -float((length * (xlogy(human, probability) + xlog1py(1 - human, -probability))).sum())

    # Where the posterior adds nothing to the learnt log odds, its weight is 0 and not slightly negative.
    return np.asarray(minimize(loss, np.array([0.0, 1.0, 0.0]), bounds=((None, None), (0, None), (0, None))).x)


def calibration_error(edges: Float64Array, curve: Float64Array) -> float:
    """Compute the mean difference of predicted probability and annotators, in bins of the probability."""
    probability = expit(curve[0] + edges[:, :2] @ curve[1:])
    weight, predicted, human = np.transpose(bin_by_probability(probability, edges[:, 2], edges[:, 3]))
    return float(np.abs(predicted - human).sum() / weight.sum())


def main(folder: str, split: str, models: str, networks: str | None = None) -> None:
    """Fit, and print."""
    examples = list_bsds(folder, split)
    edges: list[Float64Array] = []
    for example, fold in zip(examples, fold_of(len(examples)), strict=True):
        model = str(Path(models, f"fold{fold}.json"))
        network = "none" if networks is None else str(Path(networks, f"fold{fold}.npz"))
        edges.append(np.concatenate([collect_edges(example, name, model, network) for name in OURS]))
    print("curve", ", ".join(f"{x:.3f}" for x in fit_curve(np.concatenate(edges))))
    even, odd = np.concatenate(edges[::2]), np.concatenate(edges[1::2])
    for fitted, other in ((even, odd), (odd, even)):
        print(f"of half of the images, on the others: error {calibration_error(other, fit_curve(fitted)):.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
