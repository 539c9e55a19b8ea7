"""Graph cuts after Boykov and Jolly (2001): mixtures of Gaussians for colours, a price for boundaries without contrast.

Of two labels the best segmentation is one minimum cut. Of more, labels expand in turn (Boykov, Veksler and Zabih,
2001): a cut says which pixels had better take the label alpha, all at once, until no label gains anything.

Two things make it better than colours alone: a mixture expects some colours that were not painted, and a label is less
probable far from its strokes.
"""

from __future__ import annotations

import importlib
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from napari_gsw.core.array_types import Float32Array, Float64Array, Int64Array
from napari_gsw.core.errors import InputError
from napari_gsw.core.settings.setting import Options, setting
from napari_gsw.research.baselines.photographs import to_rgb
from napari_gsw.research.baselines.strokes import Scribbles, halve_image, read_scribbles

# The four neighbours that come after a pixel (rows, columns), and how much of a boundary runs between the two.
NEIGHBOURS = (((0, 1), 1.0), ((1, 0), 1.0), ((1, 1), 0.5**0.5), ((1, -1), 0.5**0.5))
# Least variance of a mixture's component, in squared units of Lab.
LEAST_VARIANCE = 10.0
# Pixels under the strokes of a label that a mixture is fitted to, at most; and pixels for each of its components.
MOST_PIXELS, PIXELS_EACH = 2000, 20
# Log density of colours that were not painted: about a tenth of them, spread over all that there are in Lab.
UNSEEN = -16.0
# The share of the image's diagonal within which a pixel is near a stroke.
NEAR = 0.05
# A label that is painted costs nothing there, and any other more than all else.
FORBIDDEN = 1e5
# Capacities are counted in these parts of a log unit.
STEPS = 1000
MOST_ROUNDS = 5


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


DEFAULT = GraphCut()


def graph_cut(
    image: ArrayLike, seeds: ArrayLike, options: GraphCut = DEFAULT, axes: str = "auto", seed: int = 0
) -> NDArray[np.int32]:
    """Spread strokes over a grey or RGB image in two dimensions, at half its size.

    Parameters
    ----------
    image : array; a grey image is taken as an RGB image of equal channels.
    seeds : (Y, X) whole numbers: a label where a person has painted one, 0 elsewhere.
    options : price of boundaries, mixtures, and price of distance.
    axes : as for :func:`napari_gsw.core.image.normalized_image.normalize_image`.
    seed : of the mixtures.

    Returns
    -------
    (Y, X) int32, a painted label everywhere.
    """
    from skimage.color.colorconv import rgb2lab

    colours = to_rgb(image, axes, "the graph cut")
    strokes = read_scribbles(seeds, colours.shape[:2], "the graph cut")
    few = strokes.halved()
    if len(few.numbers) == 1:
        return strokes.most_probable(few.certain())
    lab = rgb2lab(halve_image(colours))
    codes = expand_labels(compute_label_costs(lab, few, options, seed), compute_boundary_costs(lab, options.boundary))
    return strokes.most_probable(Scribbles(few.numbers, codes.astype(np.int32)).certain())


def compute_label_costs(lab: Float32Array, strokes: Scribbles, options: GraphCut, seed: int) -> Float64Array:
    """(k, Y, X) minus the log density of each label's mixture at a pixel of an image in Lab, and what was painted."""
    from scipy import ndimage

    mixture = _package("sklearn.mixture", "scikit-learn")
    flat = lab.reshape(-1, 3)
    near = NEAR * float(np.hypot(*lab.shape[:2]))
    rng = np.random.default_rng(seed)
    cost = np.full((len(strokes.numbers), *strokes.codes.shape), FORBIDDEN)
    for code in np.unique(strokes.codes[strokes.codes >= 0]):
        rows = rng.permutation(np.flatnonzero(strokes.codes == code))[:MOST_PIXELS]
        count = max(1, min(options.components, len(rows) // PIXELS_EACH))
        samples = flat[rows] if len(rows) > 1 else np.repeat(flat[rows], 2, axis=0)
        with warnings.catch_warnings():  # that it has not converged changes little
            warnings.simplefilter("ignore")
            model = mixture.GaussianMixture(count, reg_covar=LEAST_VARIANCE, random_state=seed).fit(samples)
        density = np.logaddexp(model.score_samples(flat), UNSEEN).reshape(strokes.codes.shape)
        distance = ndimage.distance_transform_edt(strokes.codes != code)
        cost[code] = options.distance * np.log1p(distance / near) - density
    cost -= cost.min(axis=0)
    painted = strokes.codes >= 0
    cost[:, painted] = FORBIDDEN
    cost[strokes.codes[painted], painted] = 0
    return cost


def compute_boundary_costs(lab: Float32Array, price: float) -> list[Float64Array]:
    """For each of `NEIGHBOURS` (Y, X): what it costs that the two have different labels; 0 where there is none."""
    height, width = lab.shape[:2]
    steps = []
    for (down, right), length in NEIGHBOURS:
        step = np.full((height, width), np.inf)
        first, second = _pair(lab, down, right)
        _pair(step, down, right)[0][:] = np.sum((second - first) ** 2, axis=-1)
        steps.append((step, length))
    mean = np.mean([step[np.isfinite(step)].mean() for step, _ in steps if np.isfinite(step).any()])
    return [price * length * np.exp(-step / (2 * max(mean, 1e-12))) for step, length in steps]


def expand_labels(cost: Float64Array, prices: list[Float64Array]) -> Int64Array:
    """(Y, X) which label each pixel has when no expansion of one label gains anything.

    Parameters
    ----------
    cost : (k, Y, X) of each label at each pixel.
    prices : as :func:`boundary_prices` makes them.
    """
    codes: Int64Array = np.argmin(cost, axis=0)
    energy = compute_energy(codes, cost, prices)
    for _ in range(1 if len(cost) == 2 else MOST_ROUNDS):
        before = energy
        for alpha in range(1 if len(cost) == 2 else 0, len(cost)):
            other = np.zeros_like(codes) if len(cost) == 2 else codes
            trial = _expansion(other, alpha, cost, prices)
            if (value := compute_energy(trial, cost, prices)) < energy:
                codes, energy = trial, value
        if energy >= before - 1e-6 * abs(before):
            break
    return codes


def compute_energy(codes: Int64Array, cost: Float64Array, prices: list[Float64Array]) -> float:
    """Costs of the labels of all pixels and prices of the boundaries between them."""
    total = float(np.take_along_axis(cost, codes[np.newaxis], axis=0).sum())
    for ((down, right), _), price in zip(NEIGHBOURS, prices, strict=True):
        first, second = _pair(codes, down, right)
        total += float(_pair(price, down, right)[0][first != second].sum())
    return total


def _expansion(codes: Int64Array, alpha: int, cost: Float64Array, prices: list[Float64Array]) -> Int64Array:
    """The best labels among those in which every pixel keeps its own or takes alpha.

    With x = 1 where a pixel takes alpha, a pair costs A at (0, 0), B at (0, 1), C at (1, 0) and nothing at (1, 1):
    that is A + (C - A) x_p - C x_q + (B + C - A) (1 - x_p) x_q, terms of single pixels and one edge that is never
    negative.
    """
    max_flow = _package("ortools.graph.python.max_flow", "OR-Tools")
    take = cost[alpha].copy()
    keep = np.take_along_axis(cost, codes[np.newaxis], axis=0)[0]
    nodes = np.arange(codes.size).reshape(codes.shape)
    source, sink = np.full(codes.size, codes.size), np.full(codes.size, codes.size + 1)
    graph = max_flow.SimpleMaxFlow()
    for ((down, right), _), price in zip(NEIGHBOURS, prices, strict=True):
        (p, q), w = _pair(codes, down, right), _pair(price, down, right)[0]
        a, b, c = w * (p != q), w * (p != alpha), w * (q != alpha)
        take_p, take_q = _pair(take, down, right)
        take_p += c - a
        take_q -= c
        first, second = _pair(nodes, down, right)
        graph.add_arcs_with_capacity(first.ravel(), second.ravel(), _in_steps(b + c - a))
    # A node on the side of the sink takes alpha; no capacity may be negative, so the lesser of both is set free.
    least = np.minimum(take, keep)
    graph.add_arcs_with_capacity(source, nodes.ravel(), _in_steps(take - least))
    graph.add_arcs_with_capacity(nodes.ravel(), sink, _in_steps(keep - least))
    graph.solve(int(source[0]), int(sink[0]))
    kept = np.zeros(codes.size + 2, bool)
    kept[graph.get_source_side_min_cut()] = True
    return np.where(kept[: codes.size].reshape(codes.shape), codes, alpha)


def _in_steps(capacity: Float64Array) -> Int64Array:
    """Capacities as whole numbers, (arcs,): the flow is exact in these."""
    return np.rint(capacity * STEPS).astype(np.int64).ravel()


def _pair(values: Any, down: int, right: int) -> tuple[Any, Any]:
    """Views of all pixels that have a certain neighbour, and of that neighbour."""
    height, width = values.shape[:2]
    left = max(0, -right)
    first = values[: height - down, left : width - max(0, right)]
    return first, values[down:, left + right : width - max(0, right) + right]


def _package(module: str, name: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise InputError(f'the graph cut needs {name}: pip install "napari-gsw[interactive]"') from None
