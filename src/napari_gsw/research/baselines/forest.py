"""Pixel classification by a random forest, as ilastik does it: learnt from the pixels under the strokes.

A pixel is described by its colour and the strength and shape of edges at several scales, and by its place. The forest's
probabilities are smoothed before the most probable label is taken. Trees that are split at random places (Geurts, Ernst
and Wehenkel, 2006) do better with the few pixels that a person paints than Breiman's, and are the default.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_gsw.core.array_types import Float32Array
from napari_gsw.core.errors import InputError
from napari_gsw.core.settings.setting import Options, setting
from napari_gsw.research.baselines.photographs import to_rgb
from napari_gsw.research.baselines.strokes import halve_image, read_scribbles

# Widths of the blurs in pixels of the image of half size.
SCALES = (0.7, 1.6, 3.5, 7.0)
# Pixels under the strokes of a label that the forest learns from, at most.
MOST_PIXELS = 2000


@dataclass(frozen=True)
class Forest(Options):
    """Settings of the random forest."""

    trees: int = setting(100, "forest", "Trees of the forest.", low=1, high=10_000)
    splits: str = setting(
        "random", "forest", "Where a tree splits: at the best place of a bootstrap sample, or at random.",
        choices=("random", "best"),
    )  # fmt: skip
    smoothing: float = setting(
        3.0,
        "forest",
        "Width in pixels of the blur of the probabilities; 0 takes them as they are.",
        low=0.0,
        high=100.0,
    )


DEFAULT = Forest()


def forest(
    image: ArrayLike, seeds: ArrayLike, options: Forest = DEFAULT, axes: str = "auto", seed: int = 0
) -> NDArray[np.int32]:
    """Spread strokes over a grey or RGB image in two dimensions, at half its size.

    Parameters
    ----------
    image : array; a grey image is taken as an RGB image of equal channels.
    seeds : (Y, X) whole numbers: a label where a person has painted one, 0 elsewhere.
    options : the trees, and the smoothing.
    axes : as for :func:`napari_gsw.core.image.normalized_image.normalize_image`.
    seed : of the forest.

    Returns
    -------
    (Y, X) int32, a painted label everywhere.
    """
    from scipy import ndimage
    from skimage.color.colorconv import rgb2lab

    ensemble = _scikit_learn("ensemble")
    colours = to_rgb(image, axes, "the forest")
    strokes = read_scribbles(seeds, colours.shape[:2], "the forest")
    few = strokes.halved()
    if len(few.numbers) == 1:
        return strokes.most_probable(few.certain())
    values = compute_pixel_features(rgb2lab(halve_image(colours)))
    rng = np.random.default_rng(seed)
    chosen = [np.flatnonzero(few.codes == code) for code in np.unique(few.codes[few.codes >= 0])]
    rows = np.concatenate([rng.permutation(one)[:MOST_PIXELS] for one in chosen])
    kind = ensemble.ExtraTreesClassifier if options.splits == "random" else ensemble.RandomForestClassifier
    model = kind(options.trees, class_weight="balanced", random_state=seed, n_jobs=1)
    model.fit(values[rows], few.codes.ravel()[rows])
    probability = np.zeros((len(few.numbers), *few.codes.shape), np.float32)
    probability[model.classes_] = model.predict_proba(values).T.reshape(-1, *few.codes.shape)
    if options.smoothing:
        probability = ndimage.gaussian_filter(probability, (0, options.smoothing / 2, options.smoothing / 2))
    return strokes.most_probable(probability)


def compute_pixel_features(lab: Float32Array) -> Float32Array:
    """(pixels, features) float32 of an image in Lab (Y, X, 3): blurred colours, gradients, curvatures, the place."""
    from scipy import ndimage

    height, width = lab.shape[:2]
    columns = [*np.indices((height, width), np.float32)]
    for sigma in SCALES:
        columns += [ndimage.gaussian_filter(lab[..., c], sigma) for c in range(3)]
        columns += [ndimage.gaussian_gradient_magnitude(lab[..., c], sigma) for c in range(3)]
        columns.append(ndimage.gaussian_laplace(lab[..., 0], sigma))
    return np.stack([column.ravel() for column in columns], axis=1).astype(np.float32)


def _scikit_learn(module: str) -> Any:
    try:
        return importlib.import_module(f"sklearn.{module}")
    except ImportError:
        raise InputError('the forest needs scikit-learn: pip install "napari-gsw[interactive]"') from None
