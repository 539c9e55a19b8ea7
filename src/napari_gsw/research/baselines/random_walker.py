"""Random walker after Grady (2006), as scikit-image has it: which stroke does a walk from a pixel reach first?"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from skimage import segmentation

from napari_gsw.core.settings.setting import POSITIVE, Options, setting
from napari_gsw.research.baselines.photographs import to_rgb
from napari_gsw.research.baselines.strokes import halve_image, read_scribbles

# The precision of the linear system, in parts of a probability.
TOLERANCE = 1e-3


@dataclass(frozen=True)
class RandomWalker(Options):
    """Settings of the random walker."""

    walk_beta: float = setting(
        40.0,
        "random-walker",
        "How much a walk shuns steps across contrast; in scikit-image's units.",
        **POSITIVE,
        title="Contrast",
    )


DEFAULT = RandomWalker()


def random_walker(
    image: ArrayLike, seeds: ArrayLike, options: RandomWalker = DEFAULT, axes: str = "auto"
) -> NDArray[np.int32]:
    """Spread strokes over a grey or RGB image in two dimensions, at half its size.

    Parameters
    ----------
    image : array; a grey image is taken as an RGB image of equal channels.
    seeds : (Y, X) whole numbers: a label where a person has painted one, 0 elsewhere.
    options : how much contrast counts.
    axes : as for :func:`napari_gsw.core.image.normalized_image.normalize_image`.

    Returns
    -------
    (Y, X) int32, a painted label everywhere.
    """
    from skimage.color.colorconv import rgb2lab

    colours = to_rgb(image, axes, "the random walker")
    strokes = read_scribbles(seeds, colours.shape[:2], "the random walker")
    few = strokes.halved()
    if len(few.numbers) == 1 or (few.codes >= 0).all():
        return strokes.most_probable(few.certain())
    lab = rgb2lab(halve_image(colours))
    if not lab.std():
        lab[0, 0] += 1  # it divides by the standard deviation
    with warnings.catch_warnings():  # remarks on solvers that are not installed, and on rounding
        warnings.simplefilter("ignore")
        probability = segmentation.random_walker(
            lab, few.codes + 1, options.walk_beta, "cg_j", TOLERANCE, return_full_prob=True, channel_axis=-1
        )
    return strokes.most_probable(probability)
