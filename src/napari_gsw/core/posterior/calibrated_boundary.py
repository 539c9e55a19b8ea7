"""Calibrated boundary probability: how probably annotators draw a boundary.

The posterior of a simple model of a photograph ranks boundaries well, but is overconfident. A logistic curve over the
learnt log odds of a boundary and those of the posterior calibrates it: of the boundaries with a probability of 80 %,
about 80 % are near one that an annotator has drawn.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_gsw.core.array_types import Float64Array
from napari_gsw.core.features.site_features import ImageFeatures
from napari_gsw.core.graph.boundary_model import BoundaryModel, load_boundary_model
from napari_gsw.core.image.normalized_image import fill_outside_mask, normalize_image
from napari_gsw.core.posterior.regions import boundary_log_odds
from napari_gsw.core.posterior.result import Result
from napari_gsw.core.posterior.uncertainty import make_boundary_image
from napari_gsw.core.settings import Settings
from napari_gsw.core.special import expit

# Fitted by research/paper/quality.py to the presets general and photo on training images of the Berkeley data set
# (100 without a network, 200 with one), with log odds from models and networks that had not seen the image. A boundary
# counts as an annotator's within 0.75 % of the image's diagonal. Weights of the calibrated log odds: a constant, the
# learnt log odds, and those of the posterior.
WITHOUT_NETWORK = 0.272, 0.646, 0.006
WITH_NETWORK = 0.464, 0.691, 0.0


def calibrate_boundary_odds(log_odds: Float64Array, together: Float64Array, network: bool = False) -> Float64Array:
    """(m,) log odds that an annotator draws a boundary along an edge, from those of a `BoundaryModel`.

    `together` (m,) is the posterior probability that the two ends share a cluster.
    """
    intercept, learnt, posterior = WITH_NETWORK if network else WITHOUT_NETWORK
    return np.asarray(intercept + learnt * log_odds + posterior * boundary_log_odds(together))


def make_calibrated_boundary(
    image: ArrayLike, result: Result, model: BoundaryModel | None = None
) -> NDArray[np.float32]:
    """Make a float32 image of the probability that an annotator draws a boundary through a pixel; 0 within a site.

    `image` is the segmented 2D photograph, `result` its segmentation, and `model` one of annotated boundaries, by
    default the bundled one, with its network if that can be computed.

    >>> from napari_gsw import segment
    >>> image = np.kron(np.eye(2), np.ones((30, 30)))
    >>> probability = make_calibrated_boundary(image, segment(image, seed=0))
    >>> bool(probability[10, 29] > probability[10, 15])
    True
    """
    problem = result.problem
    assert problem.graph is not None
    settings = problem.settings or Settings()
    if settings.coupling != "learnt":
        settings = settings.replace(network="shipped")  # the network of the settings may be of another kind, or none
    image = fill_outside_mask(image, settings.axes, lambda _: problem.site_image > 0)  # it may be NaN there
    features = ImageFeatures([normalize_image(image, settings.axes)], [problem.site_image], settings)
    model = model or load_boundary_model("shipped", features.has_network)
    odds = calibrate_boundary_odds(model.log_odds(features, problem.graph), result.snapshot.together, model.network)
    return make_boundary_image(problem, 1 - expit(odds))
