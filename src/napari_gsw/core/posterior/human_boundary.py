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

from napari_gsw.core.arrays import Floats
from napari_gsw.core.evidence.site_features import ImageFeatures
from napari_gsw.core.graph.boundary_model import BoundaryModel, photo_model
from napari_gsw.core.image.picture import finite_outside, picture
from napari_gsw.core.odds import expit
from napari_gsw.core.posterior.hierarchy import posterior_odds
from napari_gsw.core.posterior.result import Result
from napari_gsw.core.posterior.uncertainty import boundary_probability
from napari_gsw.core.settings import Settings


class HumanCurve(NamedTuple):
    """What the log odds of a human boundary are made of.

    Attributes
    ----------
    intercept, learnt, posterior : a constant, and the weights of the learnt log odds and of those of the posterior.
    """

    intercept: float
    learnt: float
    posterior: float


# Fitted by experiments/calibration.py to the presets general and photo on training images of the Berkeley data set (100
# without a network, 200 with one), with log odds from models and networks that had not seen the image; a boundary
# counts as a person's within 0.75 % of the image's diagonal.
WITHOUT_NETWORK = HumanCurve(0.272, 0.646, 0.006)
WITH_NETWORK = HumanCurve(0.464, 0.691, 0.0)


def human_odds(log_odds: Floats, together: Floats, network: bool = False) -> Floats:
    """(m,) log odds that a person draws a boundary along an edge.

    Parameters
    ----------
    log_odds : (m,) of a :class:`napari_gsw.core.graph.boundary_model.BoundaryModel`.
    together : (m,) probability of the posterior that the two ends share a cluster.
    network : whether that model looks at a network.
    """
    curve = WITH_NETWORK if network else WITHOUT_NETWORK
    return np.asarray(curve.intercept + curve.learnt * log_odds + curve.posterior * posterior_odds(together))


def human_boundary(image: ArrayLike, result: Result, model: BoundaryModel | None = None) -> NDArray[np.float32]:
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
    image = finite_outside(image, settings.axes, lambda _: problem.site_image > 0)
    features = ImageFeatures(picture(image, settings.axes), problem.site_image, settings)
    model = model or photo_model(features.has_network)
    odds = human_odds(model.log_odds(features, problem.graph), result.snapshot.together, model.network)
    return boundary_probability(problem, 1 - expit(odds))
