"""From what the model is sure of to what people would say.

The posterior of a simple model on a photograph is too sure of itself: it is right about which boundary is more probable
and wrong about how probable. A logistic curve over the learnt log odds of a boundary and those of the posterior brings
both to the scale of people: of the boundaries said to be 80 % probable, about 80 % are within reach of one that a
person has drawn.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_gsw.core.array_types import Float64Array
from napari_gsw.core.features.site_features import ImageFeatures
from napari_gsw.core.graph.boundary_model import BoundaryModel, load_photo_model
from napari_gsw.core.image.normalized_image import fill_outside_mask, normalize_image
from napari_gsw.core.posterior.regions import boundary_log_odds
from napari_gsw.core.posterior.result import Result
from napari_gsw.core.posterior.uncertainty import make_boundary_image
from napari_gsw.core.settings import Settings
from napari_gsw.core.special import expit


class CalibrationCurve(NamedTuple):
    """What the log odds of a human boundary are made of.

    Attributes
    ----------
    intercept, learnt, posterior : a constant, and the weights of the learnt log odds and of those of the posterior.
    """

    intercept: float
    learnt: float
    posterior: float


# Fitted by research/paper/calibration.py to the presets general and photo on training images of the Berkeley data set (100
# without a network, 200 with one), with log odds from models and networks that had not seen the image; a boundary
# counts as a person's within 0.75 % of the image's diagonal.
WITHOUT_NETWORK = CalibrationCurve(0.272, 0.646, 0.006)
WITH_NETWORK = CalibrationCurve(0.464, 0.691, 0.0)


def calibrate_boundary_odds(log_odds: Float64Array, together: Float64Array, network: bool = False) -> Float64Array:
    """(m,) log odds that a person draws a boundary along an edge.

    Parameters
    ----------
    log_odds : (m,) of a :class:`napari_gsw.core.graph.boundary_model.BoundaryModel`.
    together : (m,) probability of the posterior that the two ends share a cluster.
    network : whether that model looks at a network.
    """
    curve = WITH_NETWORK if network else WITHOUT_NETWORK
    return np.asarray(curve.intercept + curve.learnt * log_odds + curve.posterior * boundary_log_odds(together))


def make_calibrated_boundary(
    image: ArrayLike, result: Result, model: BoundaryModel | None = None
) -> NDArray[np.float32]:
    """Image of the probability that a person would draw a boundary through a pixel, for a two-dimensional photograph.

    Parameters
    ----------
    image : the one that was segmented.
    model : of human boundaries; None takes the one that comes with the package, which looks at the network of photo
        where that can be computed.

    Examples
    --------
    >>> from napari_gsw import segment
    >>> image = np.kron(np.eye(2), np.ones((30, 30)))
    >>> probability = human_boundary(image, segment(image, seed=0))
    >>> bool(probability[10, 29] > probability[10, 15])
    True
    """
    problem = result.problem
    assert problem.graph is not None
    settings = problem.settings or Settings()
    if settings.coupling != "learnt":
        settings = settings.replace(network="shipped")  # the one that is named may be of another kind, or none
    # What is outside may be NaN, as it may be for whoever segments the image.
    image = fill_outside_mask(image, settings.axes, lambda _: problem.site_image > 0)
    features = ImageFeatures([normalize_image(image, settings.axes)], [problem.site_image], settings)
    model = model or load_photo_model(features.has_network)
    odds = calibrate_boundary_odds(model.log_odds(features, problem.graph), result.snapshot.together, model.network)
    return make_boundary_image(problem, 1 - expit(odds))
