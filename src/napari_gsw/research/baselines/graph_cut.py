"""Graph cuts after Boykov and Jolly (2001): Gaussian mixtures of colours, and a price for boundaries.

The best segmentation into two labels is one minimum cut. More labels are expanded in turn (Boykov, Veksler and Zabih,
2001): a cut decides which pixels should take the label alpha, until no label gains anything. Two changes improve on
colours alone: a mixture expects some colours that were not painted, and labels are less probable far from scribbles.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import ndimage

from napari_gsw.core.array_types import Float32Array, Float64Array, Int32Array, Int64Array
from napari_gsw.core.settings.declaration import Options, setting
from napari_gsw.methods import Method
from napari_gsw.research.baselines import import_package
from napari_gsw.research.baselines.scribbles import one_hot, sample_pixels, spread_scribbles

# Minimum variance of a mixture's component, in squared units of Lab.
MIN_VARIANCE = 10.0
# Pixels under the scribbles of a label for each component of its mixture.
PIXELS_PER_COMPONENT = 20
# Log density of colours that were not painted: about 0.1 of them, spread over all of Lab.
LOG_UNSEEN = -16.0
# Fraction of the image's diagonal within which a pixel is near a scribble.
NEAR = 0.05
# Cost of another label than the painted one.
FORBIDDEN = 1e5
# Capacities are integers, in this fraction of a log unit.
STEPS = 1000
MAX_ROUNDS = 5


@dataclass(frozen=True)
class GraphCut(Options):
    """Settings of the graph cut."""

    boundary: float = setting(
        30.0, "graph-cut", "Price of a boundary of one pixel where there is no contrast, in log units.", low=0.0
    )
    components: int = setting(5, "graph-cut", "Gaussians in the mixture of a label, at most.", low=1, high=100)
    distance: float = setting(
        3.0, "graph-cut", "Log units that a label costs for every e-fold in distance from its strokes.", low=0.0
    )


class PixelPairs(NamedTuple):
    """Pairs of neighbouring pixels, by their numbers, and the cost of different labels of the two."""

    first: Int64Array
    second: Int64Array
    price: Float64Array


def segment_graph_cut(
    image: ArrayLike, seeds: ArrayLike, options: GraphCut, axes: str = "auto", seed: int = 0
) -> Int32Array:
    """Label each pixel of a 2D image, at half its size, by graph cuts between the scribbles."""

    def compute_maps(lab: Float32Array, codes: Int32Array) -> Float32Array:
        cost = compute_label_costs(lab, codes, options, seed)
        return one_hot(expand_labels(cost, pair_pixels(lab, options.boundary)))

    return spread_scribbles(image, seeds, axes, "the graph cut", compute_maps)


def compute_label_costs(lab: Float32Array, codes: Int32Array, options: GraphCut, seed: int) -> Float64Array:
    """Compute (k, Y, X) costs of labels: minus the log density of the mixture of each, and what was painted."""
    mixture = import_package("sklearn.mixture", "the graph cut", "scikit-learn", "interactive")
    pixels = lab.reshape(-1, 3)
    near = NEAR * float(np.hypot(*codes.shape))
    rng = np.random.default_rng(seed)
    cost = np.empty((codes.max() + 1, *codes.shape))
    for code in range(len(cost)):
        samples = pixels[sample_pixels(codes, code, rng)]
        count = max(1, min(options.components, len(samples) // PIXELS_PER_COMPONENT))
        samples = samples if len(samples) > 1 else np.repeat(samples, 2, axis=0)
        with warnings.catch_warnings():  # that the fit has not converged, which changes little
            warnings.simplefilter("ignore")
            model = mixture.GaussianMixture(count, reg_covar=MIN_VARIANCE, random_state=seed).fit(samples)
        density = np.logaddexp(model.score_samples(pixels), LOG_UNSEEN).reshape(codes.shape)
        distance = ndimage.distance_transform_edt(codes != code)
        cost[code] = options.distance * np.log1p(distance / near) - density
    cost -= cost.min(axis=0)
    painted = codes >= 0
    cost[:, painted] = FORBIDDEN
    cost[codes[painted], painted] = 0
    return cost


def pair_pixels(lab: Float32Array, price: float) -> PixelPairs:
    """Pair each pixel of a Lab image with its eight neighbours; a boundary costs less where the contrast is high."""
    index, pixels = np.arange(lab.shape[0] * lab.shape[1]).reshape(lab.shape[:2]), lab.reshape(-1, 3)
    neighbours = (
        (index[:, :-1], index[:, 1:]),
        (index[:-1], index[1:]),
        (index[:-1, :-1], index[1:, 1:]),
        (index[:-1, 1:], index[1:, :-1]),
    )
    first, second = (np.concatenate([pair[k].ravel() for pair in neighbours]) for k in (0, 1))
    sizes = [pair[0].size for pair in neighbours]
    contrast = np.asarray(np.square(pixels[second] - pixels[first]).sum(axis=-1), np.float64)
    mean = np.mean([part.mean() for part in np.split(contrast, np.cumsum(sizes)[:-1]) if part.size] or [0])
    length = np.repeat([1.0, 1.0, 0.5**0.5, 0.5**0.5], sizes)
    return PixelPairs(first, second, price * length * np.exp(-contrast / (2 * max(float(mean), 1e-12))))


def expand_labels(cost: Float64Array, pairs: PixelPairs) -> Int64Array:
    """Assign labels (Y, X) so that no expansion of one label gains anything; `cost` is (k, Y, X)."""
    flat = cost.reshape(len(cost), -1)
    if len(flat) == 2:
        return _expand(np.zeros(flat.shape[1], np.int64), 1, flat, pairs).reshape(cost.shape[1:])
    codes: Int64Array = np.argmin(flat, axis=0)
    energy = compute_energy(codes, flat, pairs)
    for _ in range(MAX_ROUNDS):
        before = energy
        for alpha in range(len(flat)):
            trial = _expand(codes, alpha, flat, pairs)
            if (value := compute_energy(trial, flat, pairs)) < energy:
                codes, energy = trial, value
        if energy >= before - 1e-6 * abs(before):
            break
    return codes.reshape(cost.shape[1:])


def compute_energy(codes: NDArray[np.integer], cost: Float64Array, pairs: PixelPairs) -> float:
    """Sum the costs (k, pixels) of the labels of all pixels, and those of the boundaries between them."""
    labels = cost[codes, np.arange(len(codes))].sum()
    return float(labels + pairs.price[codes[pairs.first] != codes[pairs.second]].sum())


def _expand(codes: Int64Array, alpha: int, cost: Float64Array, pairs: PixelPairs) -> Int64Array:
    """Find the best labels among those in which every pixel keeps its label or takes alpha.

    With x = 1 where a pixel takes alpha, a pair costs A at (0, 0), B at (0, 1), C at (1, 0) and nothing at (1, 1):
    that is A + (C - A) x_p - C x_q + (B + C - A) (1 - x_p) x_q, terms of single pixels and one edge that is never
    negative.
    """
    max_flow = import_package("ortools.graph.python.max_flow", "the graph cut", "OR-Tools", "interactive")
    n = len(codes)
    p, q = codes[pairs.first], codes[pairs.second]
    a, b, c = pairs.price * (p != q), pairs.price * (p != alpha), pairs.price * (q != alpha)
    take = cost[alpha] + np.bincount(pairs.first, c - a, n) - np.bincount(pairs.second, c, n)
    keep = cost[codes, np.arange(n)]
    # A node on the side of the sink takes alpha. Capacities are >= 0, so the smaller cost of both is subtracted.
    base = np.minimum(take, keep)
    graph = max_flow.SimpleMaxFlow()
    for start, end, capacity in (
        (pairs.first, pairs.second, b + c - a),
        (np.full(n, n), np.arange(n), take - base),
        (np.arange(n), np.full(n, n + 1), keep - base),
    ):
        graph.add_arcs_with_capacity(start, end, np.rint(capacity * STEPS).astype(np.int64))
    graph.solve(n, n + 1)
    kept = np.zeros(n + 2, bool)
    kept[graph.get_source_side_min_cut()] = True
    return np.where(kept[:n], codes, alpha)


GRAPH_CUT = Method(segment_graph_cut, GraphCut)
