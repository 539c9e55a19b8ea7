"""From what the model is sure of to what people would say.

The posterior of a simple model on a photograph is too sure of itself: it is right about which boundary is more probable
and wrong about how probable. A logistic curve over the learnt log odds of a boundary and those of the posterior brings
both to the scale of people: of the boundaries said to be 80 % probable, about 80 % are within reach of one that a
person has drawn.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from napari_gsw.core.arrays import Floats
from napari_gsw.core.evidence.site_features import ImageFeatures
from napari_gsw.core.graph.boundary_model import BoundaryModel, photo_model
from napari_gsw.core.image.picture import picture
from napari_gsw.core.posterior.hierarchy import posterior_odds
from napari_gsw.core.posterior.result import Result
from napari_gsw.core.posterior.uncertainty import boundary_probability
from napari_gsw.core.settings import Settings

# Fitted by experiments/calibration.py to the presets general and photo on the 100 training images of the Berkeley data
# set, with log odds from models that had not seen the image; a boundary counts as a person's within 0.75 % of the
# image's diagonal.
INTERCEPT, LEARNT, POSTERIOR = 0.272, 0.646, 0.006


def human_odds(log_odds: Floats, together: Floats) -> Floats:
    """(m,) log odds that a person draws a boundary along an edge.

    Parameters
    ----------
    log_odds : (m,) of a :class:`napari_gsw.core.graph.boundary_model.BoundaryModel`.
    together : (m,) probability of the posterior that the two ends share a cluster.
    """
    return np.asarray(INTERCEPT + LEARNT * log_odds + POSTERIOR * posterior_odds(together))


def human_boundary(image: ArrayLike, result: Result, model: BoundaryModel | None = None) -> NDArray[np.float32]:
    """Image of the probability that a person would draw a boundary through a pixel, for a two-dimensional photograph.

    Parameters
    ----------
    image : the one that was segmented.
    model : of human boundaries; None takes the one that comes with the package.

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
    words = ImageFeatures(picture(image, settings.axes), problem.site_image, settings)
    odds = (model or photo_model()).log_odds(words, problem.graph)
    return boundary_probability(problem, 1 - expit(human_odds(odds, result.snapshot.together)))
