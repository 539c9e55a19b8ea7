"""A simulated annotator: it knows the wanted labels and paints small discs.

It begins with a disc for each label, segments, and paints one more where a chooser says.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from napari_gsw.core.array_types import BoolArray, Int32Array, LabelImage, Sites
from napari_gsw.core.posterior.active_learning import next_query
from napari_gsw.core.posterior.result import MethodResult
from napari_gsw.methods import Choice, segment
from napari_gsw.scores.objects import mean_dice

# Radius of a disc as a fraction of the image's diagonal.
RADIUS = 0.01

Position = tuple[int, ...]  # index of a pixel


@dataclass(frozen=True)
class SimulatedAnnotator:
    """An annotator who wants the labels `wanted`, from 1; 0 where nothing is wanted, painted or scored."""

    wanted: LabelImage

    @property
    def radius(self) -> float:
        """Radius of a disc in pixels."""
        return max(1.0, RADIUS * float(np.linalg.norm(self.wanted.shape)))

    def paint_first(self) -> Int32Array:
        """Paint a disc for each label in the middle of its largest part: int32 scribbles, 0 elsewhere."""
        seeds = np.zeros(self.wanted.shape, np.int32)
        for label in np.unique(self.wanted[self.wanted > 0]):
            seeds = self.paint_disc(seeds, find_centre(find_largest_part(self.wanted == label)))
        return seeds

    def paint_disc(self, seeds: Int32Array, position: Position) -> Int32Array:
        """Add a disc with the label wanted at its centre, only where it is wanted."""
        axes = np.ogrid[tuple(slice(size) for size in seeds.shape)]
        near = sum((o - p) ** 2 for o, p in zip(axes, position, strict=True)) <= self.radius**2
        label = self.wanted[position]
        return np.where(near & (self.wanted == label), label, seeds)

    def position_at(self, sites: Sites, site: int) -> Position | None:
        """Return where to paint the label that most of a superpixel, counted from 1, wants; None if it wants none."""
        labels = self.wanted[sites == site]
        if not labels.any():
            return None
        label = np.bincount(labels[labels > 0]).argmax()
        return find_centre(find_largest_part((sites == site) & (self.wanted == label)))


class ScribbleState(NamedTuple):
    """State of an annotation, from which a chooser takes the next position."""

    annotator: SimulatedAnnotator
    seeds: Int32Array  # the scribbles so far
    outcome: MethodResult
    rng: np.random.Generator


# Chooses the position of the next scribble, None for no more.
Chooser = Callable[[ScribbleState], Position | None]


def choose_random(state: ScribbleState) -> Position | None:
    """Choose any pixel that is wanted and not painted."""
    left = np.argwhere((state.annotator.wanted > 0) & (state.seeds == 0))
    return tuple(left[state.rng.integers(len(left))].tolist()) if len(left) else None


def choose_largest_error(state: ScribbleState) -> Position | None:
    """Choose the middle of the largest error."""
    wanted = state.annotator.wanted
    wrong = (state.outcome.labels != wanted) & (wanted > 0) & (state.seeds == 0)
    return find_centre(find_largest_part(wrong)) if wrong.any() else None


def make_site_chooser(next_site: Callable[[ScribbleState], int | None]) -> Chooser:
    """Make a chooser from a function that returns a superpixel of the problem, counted from 0, or None to stop."""

    def choose_position(state: ScribbleState) -> Position | None:
        assert state.outcome.result is not None
        site = next_site(state)
        return None if site is None else state.annotator.position_at(state.outcome.result.problem.site_image, site + 1)

    return choose_position


@make_site_chooser
def choose_query(state: ScribbleState) -> int | None:
    """Choose the position of the next query, see :mod:`napari_gsw.core.posterior.active_learning`."""
    assert state.outcome.result is not None
    query = next_query(state.outcome.result.summary)
    return None if query is None else query.site


class ScribbleCurve(NamedTuple):
    """Dice and seconds after 0, 1, 2 ... scribbles beyond the first ones."""

    dice: list[float]
    seconds: list[float]


def simulate_scribbles(
    image: NDArray[Any], annotator: SimulatedAnnotator, choice: Choice, chooser: Chooser, n_scribbles: int,
    seed: int = 0,
) -> ScribbleCurve:  # fmt: skip
    """Segment with the first scribbles of an annotator, then with one more, and so on: `n_scribbles` times.

    When the chooser returns None, the last values are repeated. The seed is that of the method and of the chooser.
    """
    rng = np.random.default_rng(seed)
    curve = ScribbleCurve([], [])
    seeds = annotator.paint_first()
    for count in range(n_scribbles + 1):
        start = time.perf_counter()
        outcome = segment(image, choice, seed, seeds=seeds)
        curve.seconds.append(time.perf_counter() - start)
        curve.dice.append(mean_dice(outcome.labels, annotator.wanted, annotator.wanted > 0))
        position = chooser(ScribbleState(annotator, seeds, outcome, rng)) if count < n_scribbles else None
        if position is None:
            break
        seeds = annotator.paint_disc(seeds, position)
    return ScribbleCurve(*(values + values[-1:] * (n_scribbles + 1 - len(values)) for values in curve))


def find_largest_part(mask: BoolArray) -> BoolArray:
    """Find the largest part of a mask that is connected through faces."""
    parts, count = ndimage.label(mask)
    return np.asarray(parts == 1 + np.argmax(np.bincount(parts.ravel())[1:])) if count else mask


def find_centre(mask: BoolArray) -> Position:
    """Find the pixel of a mask that is farthest from its outside and from the border of the image."""
    distance = ndimage.distance_transform_edt(np.pad(mask, 1))[(slice(1, -1),) * mask.ndim]
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(distance)), mask.shape))
