"""Graph cuts after Boykov and Jolly (2001): Gaussian mixtures of colours, and a price for boundaries.

The best segmentation into two labels is one minimum cut. More labels are expanded in turn (Boykov, Veksler and Zabih,
2001): a cut decides which pixels should take the label alpha, until no label gains anything. Two changes improve on
colours alone: a mixture expects some colours that were not painted, and labels are less probable far from scribbles.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import ndimage

from napari_gsw.core.array_types import Float32Array, Float64Array, Int32Array, Int64Array
from napari_gsw.core.settings.setting import Options, setting
from napari_gsw.methods import Method
from napari_gsw.research.baselines import import_package
from napari_gsw.research.baselines.scribbles import one_hot, sample_pixels, spread_scribbles

# The four neighbours after a pixel (rows, columns), and the length of the boundary between the two.
NEIGHBOURS = (((0, 1), 1.0), ((1, 0), 1.0), ((1, 1), 0.5**0.5), ((1, -1), 0.5**0.5))
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


def segment_graph_cut(
    image: ArrayLike, seeds: ArrayLike, options: GraphCut, axes: str = "auto", seed: int = 0
) -> Int32Array:
    """Label each pixel of a 2D image, at half its size, by graph cuts between the scribbles."""

    def compute_maps(lab: Float32Array, codes: Int32Array) -> Float32Array:
        cost = compute_label_costs(lab, codes, options, seed)
        return one_hot(expand_labels(cost, compute_boundary_costs(lab, options.boundary)))

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


def compute_boundary_costs(lab: Float32Array, price: float) -> list[Float64Array]:
    """Compute for each of `NEIGHBOURS` the cost (Y, X) of different labels; 0 where there is no neighbour."""
    steps = []
    for (down, right), length in NEIGHBOURS:
        step = np.full(lab.shape[:2], np.inf)
        first, second = _pair_views(lab, down, right)
        _pair_views(step, down, right)[0][:] = np.sum((second - first) ** 2, axis=-1)
        steps.append((step, length))
    mean = np.mean([step[np.isfinite(step)].mean() for step, _ in steps if np.isfinite(step).any()])
    return [price * length * np.exp(-step / (2 * max(mean, 1e-12))) for step, length in steps]


def expand_labels(cost: Float64Array, boundary_costs: list[Float64Array]) -> Int64Array:
    """Assign labels (Y, X) so that no expansion of one label gains anything; `cost` is (k, Y, X)."""
    if len(cost) == 2:
        return _expand(np.zeros(cost.shape[1:], np.int64), 1, cost, boundary_costs)
    codes: Int64Array = np.argmin(cost, axis=0)
    energy = compute_energy(codes, cost, boundary_costs)
    for _ in range(MAX_ROUNDS):
        before = energy
        for alpha in range(len(cost)):
            trial = _expand(codes, alpha, cost, boundary_costs)
            if (value := compute_energy(trial, cost, boundary_costs)) < energy:
                codes, energy = trial, value
        if energy >= before - 1e-6 * abs(before):
            break
    return codes


def compute_energy(codes: Int64Array, cost: Float64Array, boundary_costs: list[Float64Array]) -> float:
    """Sum the costs of the labels of all pixels and of the boundaries between them."""
    total = float(np.take_along_axis(cost, codes[np.newaxis], axis=0).sum())
    for ((down, right), _), price in zip(NEIGHBOURS, boundary_costs, strict=True):
        first, second = _pair_views(codes, down, right)
        total += float(_pair_views(price, down, right)[0][first != second].sum())
    return total


def _expand(codes: Int64Array, alpha: int, cost: Float64Array, boundary_costs: list[Float64Array]) -> Int64Array:
    """Find the best labels among those in which every pixel keeps its label or takes alpha.

    With x = 1 where a pixel takes alpha, a pair costs A at (0, 0), B at (0, 1), C at (1, 0) and nothing at (1, 1):
    that is A + (C - A) x_p - C x_q + (B + C - A) (1 - x_p) x_q, terms of single pixels and one edge that is never
    negative.
    """
    max_flow = import_package("ortools.graph.python.max_flow", "the graph cut", "OR-Tools", "interactive")
    take = cost[alpha].copy()
    keep = np.take_along_axis(cost, codes[np.newaxis], axis=0)[0]
    nodes = np.arange(codes.size).reshape(codes.shape)
    source, sink = np.full(codes.size, codes.size), np.full(codes.size, codes.size + 1)
    graph = max_flow.SimpleMaxFlow()
    for ((down, right), _), price in zip(NEIGHBOURS, boundary_costs, strict=True):
        (p, q), w = _pair_views(codes, down, right), _pair_views(price, down, right)[0]
        a, b, c = w * (p != q), w * (p != alpha), w * (q != alpha)
        take_p, take_q = _pair_views(take, down, right)
        take_p += c - a
        take_q -= c
        first, second = _pair_views(nodes, down, right)
        graph.add_arcs_with_capacity(first.ravel(), second.ravel(), _to_capacity(b + c - a))
    # A node on the side of the sink takes alpha. Capacities are >= 0, so the smaller cost of both is subtracted.
    base = np.minimum(take, keep)
    graph.add_arcs_with_capacity(source, nodes.ravel(), _to_capacity(take - base))
    graph.add_arcs_with_capacity(nodes.ravel(), sink, _to_capacity(keep - base))
    graph.solve(codes.size, codes.size + 1)
    kept = np.zeros(codes.size + 2, bool)
    kept[graph.get_source_side_min_cut()] = True
    return np.where(kept[: codes.size].reshape(codes.shape), codes, alpha)


def _to_capacity(cost: Float64Array) -> Int64Array:
    return np.rint(cost * STEPS).astype(np.int64).ravel()


def _pair_views(values: Any, down: int, right: int) -> tuple[Any, Any]:
    """Return views of all pixels that have a certain neighbour, and of that neighbour."""
    height, width = values.shape[:2]
    left = max(0, -right)
    first = values[: height - down, left : width - max(0, right)]
    return first, values[down:, left + right : width - max(0, right) + right]


GRAPH_CUT = Method(segment_graph_cut, GraphCut)
