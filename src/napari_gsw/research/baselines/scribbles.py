"""Methods that spread the labels of scribbles: random walker, watershed and random forest.

The random walker (Grady, 2006) and the watershed of the gradient are scikit-image's. The forest classifies pixels as
ilastik does, by colour, by the strength and shape of edges at several scales, and by position; it is learnt from the
pixels under the scribbles, and its probabilities are smoothed. Trees that are split at random places (Geurts, Ernst and
Wehenkel, 2006) do better than Breiman's with few pixels and are the default.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import ndimage
from skimage import segmentation, transform
from skimage.color import rgb2lab

from napari_gsw.core.array_types import Float32Array, Float64Array, Int32Array, Int64Array
from napari_gsw.core.errors import InputError
from napari_gsw.core.settings.setting import POSITIVE, Options, setting
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


class Scribbles(NamedTuple):
    """Scribbles of a person on an image."""

    numbers: Int64Array  # (k,) the labels, sorted
    codes: Int32Array  # (Y, X) index of the label, -1 where nothing is painted

    def halve(self) -> Scribbles:
        """Return the scribbles on an image of half the sides, rounded up; thin lines stay."""
        height, width = self.codes.shape
        codes = np.full((-(-height // 2), -(-width // 2)), -1, np.int32)
        rows, columns = np.nonzero(self.codes >= 0)
        codes[rows // 2, columns // 2] = self.codes[rows, columns]
        return Scribbles(self.numbers, codes)

    def to_labels(self, codes: NDArray[np.integer]) -> Int32Array:
        """Return the label image (Y, X) of indices of labels; what was painted stays."""
        return self.numbers[np.where(self.codes >= 0, self.codes, codes)].astype(np.int32)

    def most_probable(self, probability: Float64Array | Float32Array) -> Int32Array:
        """Return the most probable labels (Y, X), from maps (k, y, x) of any size."""
        shape = self.codes.shape
        maps = [
            values if values.shape == shape else transform.resize(values, shape, order=1, anti_aliasing=False)
            for values in probability
        ]
        return self.to_labels(np.argmax(maps, axis=0))


def one_hot(codes: NDArray[np.integer], n_labels: int) -> Float32Array:
    """Return maps (n_labels, Y, X) that are 1 where the index is that of the label."""
    return np.stack([codes == code for code in range(n_labels)]).astype(np.float32)


def read_scribbles(seeds: ArrayLike, shape: tuple[int, ...], method: str) -> Scribbles:
    """Read scribbles from a label image of the given shape, 0 where nothing is painted."""
    array = np.asarray(check_label_image(seeds, shape, "seeds"))
    if array.min() < 0 or array.max() > np.iinfo(np.int32).max:
        raise InputError(f"seeds must be numbers in [0, 2147483647], not {array.min()} to {array.max()}")
    numbers = np.unique(array[array > 0]).astype(np.int64)
    if not len(numbers):
        raise InputError(f"{method} needs seeds: paint at least one scribble")
    return Scribbles(numbers, np.where(array > 0, np.searchsorted(numbers, array), -1).astype(np.int32))


def halve_image(colours: Float32Array) -> Float32Array:
    """Resize an image (Y, X, C) to half its sides, rounded up."""
    height, width = colours.shape[:2]
    halved: Float32Array = transform.resize(colours, (-(-height // 2), -(-width // 2)), order=1, anti_aliasing=True)
    return halved.astype(np.float32)


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


def segment_random_walker(
    image: ArrayLike, seeds: ArrayLike, options: RandomWalker | None = None, axes: str = "auto"
) -> Int32Array:
    """Label each pixel of a 2D image, at half its size, by the scribble that a random walk from it reaches first."""
    options = options or RandomWalker()
    colours = to_rgb(image, axes, "the random walker")
    scribbles = read_scribbles(seeds, colours.shape[:2], "the random walker")
    small = scribbles.halve()
    if len(small.numbers) == 1 or (small.codes >= 0).all():
        return scribbles.most_probable(one_hot(small.codes, len(small.numbers)))
    lab = rgb2lab(halve_image(colours))
    if not lab.std():
        lab[0, 0] += 1  # scikit-image divides by the standard deviation
    with warnings.catch_warnings():  # about solvers that are not installed, and rounding
        warnings.simplefilter("ignore")
        probability = segmentation.random_walker(
            lab, small.codes + 1, options.walk_beta, "cg_j", TOLERANCE, return_full_prob=True, channel_axis=-1
        )
    return scribbles.most_probable(probability)


@dataclass(frozen=True)
class Watershed(Options):
    """Settings of the watershed."""

    gradient_sigma: float = setting(
        2.5, "watershed", "Width in pixels of the Gaussian whose derivative is the gradient.", **POSITIVE, high=100.0,
        title="Smoothing",
    )  # fmt: skip


def segment_watershed(
    image: ArrayLike, seeds: ArrayLike, options: Watershed | None = None, axes: str = "auto"
) -> Int32Array:
    """Label each pixel of a 2D image by a watershed of the gradient, flooded from the scribbles."""
    options = options or Watershed()
    colours = to_rgb(image, axes, "the watershed")
    scribbles = read_scribbles(seeds, colours.shape[:2], "the watershed")
    channels = np.moveaxis(rgb2lab(colours), -1, 0)
    sigma = options.gradient_sigma
    gradient = np.sqrt(sum(ndimage.gaussian_gradient_magnitude(channel, sigma) ** 2 for channel in channels))
    return scribbles.to_labels(segmentation.watershed(gradient, scribbles.codes + 1) - 1)


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
    image: ArrayLike, seeds: ArrayLike, options: Forest | None = None, axes: str = "auto", seed: int = 0
) -> Int32Array:
    """Label each pixel of a 2D image, at half its size, by a forest that is learnt under the scribbles."""
    ensemble = import_package("sklearn.ensemble", "the forest", "scikit-learn", "interactive")
    options = options or Forest()
    colours = to_rgb(image, axes, "the forest")
    scribbles = read_scribbles(seeds, colours.shape[:2], "the forest")
    small = scribbles.halve()
    n_labels, shape = len(small.numbers), small.codes.shape
    if n_labels == 1:
        return scribbles.to_labels(np.zeros(scribbles.codes.shape, np.int32))
    features = compute_pixel_features(rgb2lab(halve_image(colours)))
    rng = np.random.default_rng(seed)
    codes = np.unique(small.codes[small.codes >= 0]).tolist()
    pixels = np.concatenate([sample_pixels(small.codes, code, rng) for code in codes])
    forest = ensemble.ExtraTreesClassifier if options.splits == "random" else ensemble.RandomForestClassifier
    model = forest(options.trees, class_weight="balanced", random_state=seed, n_jobs=1)
    model.fit(features[pixels], small.codes.ravel()[pixels])
    probability = np.zeros((n_labels, *shape), np.float32)
    probability[model.classes_] = model.predict_proba(features).T.reshape(-1, *shape)
    if options.smoothing:
        probability = ndimage.gaussian_filter(probability, (0, options.smoothing / 2, options.smoothing / 2))
    return scribbles.most_probable(probability)


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
