"""Methods that spread the labels of scribbles: random walker, watershed and random forest.

The random walker (Grady, 2006) and the watershed of the gradient are scikit-image's. The forest classifies pixels as
ilastik does, by colour, by the strength and shape of edges at several scales, and by position. Trees that are split at
random places (Geurts, Ernst and Wehenkel, 2006) do better than Breiman's with few pixels and are the default.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import ndimage
from skimage import segmentation, transform
from skimage.color import rgb2lab

from napari_gsw.core.array_types import Float32Array, Int32Array, Int64Array
from napari_gsw.core.errors import InputError
from napari_gsw.core.settings.declaration import POSITIVE, Options, setting
from napari_gsw.core.sites.site_values import check_label_image
from napari_gsw.methods import Method
from napari_gsw.research.baselines import import_package
from napari_gsw.research.baselines.photographs import to_rgb

# Precision of the linear system of the random walker, a probability.
TOLERANCE = 1e-3
# Widths of the blurs of the forest's features, in pixels of the image of half size.
SCALES = (0.7, 1.6, 3.5, 7.0)
# Maximum number of pixels under the scribbles of a label that a classifier learns from.
MAX_PIXELS = 2000


def read_scribbles(image: ArrayLike, seeds: ArrayLike, axes: str, method: str) -> tuple[Float32Array, Int32Array]:
    """Return a 2D image as RGB (Y, X, 3) from 0 to 1, and scribbles (Y, X), 0 where nothing is painted."""
    colours = to_rgb(image, axes, method)
    painted = np.asarray(check_label_image(seeds, colours.shape[:2], "seeds"))
    if painted.min() < 0 or painted.max() > np.iinfo(np.int32).max:
        raise InputError(f"seeds must be numbers in [0, 2147483647], not {painted.min()} to {painted.max()}")
    if not painted.any():
        raise InputError(f"{method} needs seeds: paint at least one scribble")
    return colours, painted.astype(np.int32)


def spread_scribbles(
    image: ArrayLike, seeds: ArrayLike, axes: str, method: str,
    compute_maps: Callable[[Float32Array, Int32Array], NDArray[np.floating]],
) -> Int32Array:  # fmt: skip
    """Label each pixel of a 2D image at half its size, rounded up; what was painted stays.

    `compute_maps` gets the image in Lab (y, x, 3) and the scribbles as indices of labels (y, x), -1 where nothing is
    painted, and returns the probability of each label (labels, y, x). It is not asked about a single label.
    """
    colours, painted = read_scribbles(image, seeds, axes, method)
    height, width = painted.shape
    half = -(-height // 2), -(-width // 2)
    small = np.zeros(half, np.int32)
    rows, columns = np.nonzero(painted)
    small[rows // 2, columns // 2] = painted[rows, columns]  # thin lines stay
    numbers = np.unique(small[small > 0])
    if len(numbers) == 1:
        return np.where(painted > 0, painted, numbers[0])
    lab = rgb2lab(transform.resize(colours, half, order=1, anti_aliasing=True).astype(np.float32))
    maps = compute_maps(lab, np.where(small > 0, np.searchsorted(numbers, small), -1).astype(np.int32))
    large = [transform.resize(values, painted.shape, order=1, anti_aliasing=False) for values in maps]
    return np.where(painted > 0, painted, numbers[np.argmax(large, axis=0)])


def one_hot(codes: NDArray[np.integer]) -> Float32Array:
    """Return maps (labels, Y, X) that are 1 where the index is that of the label."""
    return np.stack([codes == code for code in range(codes.max() + 1)]).astype(np.float32)


def sample_pixels(codes: Int32Array, code: int, rng: np.random.Generator) -> Int64Array:
    """Sample pixels under the scribbles of a label, at most `MAX_PIXELS`."""
    return rng.permutation(np.flatnonzero(codes == code))[:MAX_PIXELS]


@dataclass(frozen=True)
class RandomWalker(Options):
    """Settings of the random walker."""

    walk_beta: float = setting(
        40.0, "random-walker", "How much a walk shuns steps across contrast; in scikit-image's units.", **POSITIVE,
        title="Contrast",
    )  # fmt: skip


def segment_random_walker(image: ArrayLike, seeds: ArrayLike, options: RandomWalker, axes: str = "auto") -> Int32Array:
    """Label each pixel by the scribble that a random walk from it reaches first."""

    def compute_maps(lab: Float32Array, codes: Int32Array) -> NDArray[np.floating]:
        if (codes >= 0).all():
            return one_hot(codes)
        if not lab.std():
            lab[0, 0] += 1  # scikit-image divides by the standard deviation
        with warnings.catch_warnings():  # about solvers that are not installed, and rounding
            warnings.simplefilter("ignore")
            maps: NDArray[np.floating] = segmentation.random_walker(
                lab, codes + 1, options.walk_beta, "cg_j", TOLERANCE, return_full_prob=True, channel_axis=-1
            )
        return maps

    return spread_scribbles(image, seeds, axes, "the random walker", compute_maps)


@dataclass(frozen=True)
class Watershed(Options):
    """Settings of the watershed."""

    gradient_sigma: float = setting(
        2.5, "watershed", "Width in pixels of the Gaussian whose derivative is the gradient.", **POSITIVE, high=100.0,
        title="Smoothing",
    )  # fmt: skip


def segment_watershed(image: ArrayLike, seeds: ArrayLike, options: Watershed, axes: str = "auto") -> Int32Array:
    """Label each pixel of a 2D image by a watershed of the gradient, flooded from the scribbles."""
    colours, painted = read_scribbles(image, seeds, axes, "the watershed")
    channels, sigma = np.moveaxis(rgb2lab(colours), -1, 0), options.gradient_sigma
    gradient = np.sqrt(sum(ndimage.gaussian_gradient_magnitude(channel, sigma) ** 2 for channel in channels))
    return np.asarray(segmentation.watershed(gradient, painted), np.int32)


@dataclass(frozen=True)
class Forest(Options):
    """Settings of the random forest."""

    trees: int = setting(100, "forest", "Trees of the forest.", low=1, high=10_000)
    splits: str = setting(
        "random", "forest", "Where a tree splits: at the best place of a bootstrap sample, or at random.",
        choices=("random", "best"),
    )  # fmt: skip
    smoothing: float = setting(
        3.0, "forest", "Width in pixels of the blur of the probabilities; 0 takes them as they are.", low=0.0,
        high=100.0,
    )  # fmt: skip


def segment_forest(
    image: ArrayLike, seeds: ArrayLike, options: Forest, axes: str = "auto", seed: int = 0
) -> Int32Array:
    """Label each pixel by a forest that is learnt under the scribbles."""
    ensemble = import_package("sklearn.ensemble", "the forest", "scikit-learn", "interactive")

    def compute_maps(lab: Float32Array, codes: Int32Array) -> NDArray[np.floating]:
        features = compute_pixel_features(lab)
        rng = np.random.default_rng(seed)
        pixels = np.concatenate([sample_pixels(codes, code, rng) for code in range(codes.max() + 1)])
        forest = ensemble.ExtraTreesClassifier if options.splits == "random" else ensemble.RandomForestClassifier
        model = forest(options.trees, class_weight="balanced", random_state=seed, n_jobs=1)
        model.fit(features[pixels], codes.ravel()[pixels])
        maps = model.predict_proba(features).T.reshape(-1, *codes.shape).astype(np.float32)
        sigma = options.smoothing / 2  # at half the size
        return ndimage.gaussian_filter(maps, (0, sigma, sigma)) if sigma else maps

    return spread_scribbles(image, seeds, axes, "the forest", compute_maps)


def compute_pixel_features(lab: Float32Array) -> Float32Array:
    """Compute (pixels, features) float32 of a Lab image: position, blurred colours, gradients and curvatures."""
    columns = [*np.indices(lab.shape[:2], np.float32)]
    for sigma in SCALES:
        columns += [ndimage.gaussian_filter(lab[..., c], sigma) for c in range(3)]
        columns += [ndimage.gaussian_gradient_magnitude(lab[..., c], sigma) for c in range(3)]
        columns.append(ndimage.gaussian_laplace(lab[..., 0], sigma))
    return np.stack([column.ravel() for column in columns], axis=1).astype(np.float32)


RANDOM_WALKER = Method(segment_random_walker, RandomWalker)
WATERSHED = Method(segment_watershed, Watershed)
FOREST = Method(segment_forest, Forest)
