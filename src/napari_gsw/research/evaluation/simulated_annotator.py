"""A robot that steers a segmentation as a person would: it knows what is wanted, and paints small discs.

It begins with a disc for each label, looks at what comes of it, and paints one more; where, is for a chooser to say.
:func:`steered` plays the game and writes down how good the labels are after each stroke.
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

# Radius of a disc as a share of the image's diagonal.
RADIUS = 0.01

Place = tuple[int, ...]  # a pixel, one number for each axis


@dataclass(frozen=True)
class SimulatedAnnotator:
    """Who knows what is wanted.

    Attributes
    ----------
    wanted : (\\*shape,) labels from 1; 0 where nothing is wanted: nobody paints there, and it is not scored.
    """

    wanted: LabelImage

    @property
    def radius(self) -> float:
        """Of a disc, in pixels."""
        return max(1.0, RADIUS * float(np.linalg.norm(self.wanted.shape)))

    def first_strokes(self) -> Int32Array:
        """(\\*shape,) int32 strokes: a disc for each label in the middle of its largest part, 0 elsewhere."""
        seeds = np.zeros(self.wanted.shape, np.int32)
        for label in np.unique(self.wanted[self.wanted > 0]):
            place = find_centre(find_largest_part(self.wanted == label))
            seeds = self.with_stroke(seeds, place)
        return seeds

    def with_stroke(self, seeds: Int32Array, place: Place) -> Int32Array:
        """The strokes (\\*shape,) and a disc at a place, of the label that is wanted there and only where it is."""
        around = tuple(
            slice(max(0, int(p - self.radius)), min(size, int(p + self.radius) + 1))
            for p, size in zip(place, seeds.shape, strict=True)
        )  # nothing of the disc is outside
        offsets = np.ogrid[around]
        near = sum((o - p) ** 2 for o, p in zip(offsets, place, strict=True)) <= self.radius**2
        more = seeds.copy()
        more[around][near & (self.wanted[around] == self.wanted[place])] = self.wanted[place]
        return more

    def label_at(self, sites: Sites, site: int) -> int:
        """The answer to "which label is at this site?": the one that most of its pixels want, 0 if they want none.

        Parameters
        ----------
        sites : (\\*shape,) sites numbered from 1.
        site : one of them.
        """
        labels = self.wanted[sites == site]
        return int(np.bincount(labels[labels > 0]).argmax()) if labels.any() else 0

    def place_at(self, sites: Sites, site: int) -> Place | None:
        """Where to paint that answer: in the middle of what wants it; None if nothing is wanted there."""
        label = self.label_at(sites, site)
        return find_centre(find_largest_part((sites == site) & (self.wanted == label))) if label else None

    def dice(self, labels: NDArray[Any]) -> float:
        """How good labels are, averaged over the wanted ones."""
        return mean_dice(labels, self.wanted, self.wanted > 0)


class ScribbleState(NamedTuple):
    """What a chooser looks at before it says where the next stroke goes.

    Attributes
    ----------
    robot : who is asked and who paints.
    seeds : (\\*shape,) int32, the strokes so far.
    outcome : what has come of them: the labels, and of a method that samples its result.
    rng : for choices by chance.
    """

    robot: SimulatedAnnotator
    seeds: Int32Array
    outcome: MethodResult
    rng: np.random.Generator


# Where the next stroke goes; None if there is nothing more to say.
Chooser = Callable[[ScribbleState], Place | None]


def choose_random(look: ScribbleState) -> Place | None:
    """Any pixel that is wanted and not painted yet."""
    left = np.flatnonzero((look.robot.wanted > 0) & (look.seeds == 0))
    return _place(int(look.rng.choice(left)), look.seeds.shape) if left.size else None


def choose_largest_error(look: ScribbleState) -> Place | None:
    """The middle of the largest error: where a person would look first."""
    wanted = look.robot.wanted
    wrong = (look.outcome.labels != wanted) & (wanted > 0) & (look.seeds == 0)
    return find_centre(find_largest_part(wrong)) if wrong.any() else None


def make_site_chooser(next_site: Callable[[ScribbleState], int | None]) -> Chooser:
    """A chooser that asks for sites.

    Parameters
    ----------
    next_site : which site of ``look.outcome.result.problem`` to ask about, counted from 0; None to stop.
    """

    def choose_place(look: ScribbleState) -> Place | None:
        assert look.outcome.result is not None
        site = next_site(look)
        return None if site is None else look.robot.place_at(look.outcome.result.problem.site_image, site + 1)

    return choose_place


def choose_query(look: ScribbleState) -> Place | None:
    """The place that a method which samples would ask about, see :mod:`napari_gsw.core.posterior.active_learning`."""
    assert look.outcome.result is not None
    question = next_query(look.outcome.result.summary)
    return None if question is None else make_site_chooser(lambda _: question.site)(look)


class ScribbleCurve(NamedTuple):
    """How a game went: after 0, 1, 2 ... strokes beyond the first ones.

    Attributes
    ----------
    dice : how good the labels were.
    seconds : how long it took to make them.
    """

    dice: list[float]
    seconds: list[float]


def simulate_scribbles(
    image: NDArray[Any], robot: SimulatedAnnotator, choice: Choice, chooser: Chooser, strokes: int, seed: int = 0
) -> ScribbleCurve:
    """Segment with the robot's first strokes, then with one more, and so on.

    Parameters
    ----------
    image : as for :func:`napari_gsw.methods.segment`.
    choice : a method that takes seeds.
    chooser : where each stroke goes; when it has nothing more to say, the rest of the course stays as it was.
    strokes : beyond the first ones.
    seed : of the method, and of choices by chance.
    """
    rng = np.random.default_rng(seed)
    course = ScribbleCurve([], [])
    seeds = robot.first_strokes()
    for count in range(strokes + 1):
        began = time.perf_counter()
        outcome = segment(image, choice, seed, seeds=seeds)
        course.seconds.append(time.perf_counter() - began)
        course.dice.append(robot.dice(outcome.labels))
        place = chooser(ScribbleState(robot, seeds, outcome, rng)) if count < strokes else None
        if place is None:
            break
        seeds = robot.with_stroke(seeds, place)
    return ScribbleCurve(*(values + values[-1:] * (strokes + 1 - len(values)) for values in course))


def find_largest_part(where: BoolArray) -> BoolArray:
    """The largest part of a mask whose pixels are connected through faces (of equal ones the first)."""
    parts, count = ndimage.label(where)
    return np.asarray(parts == 1 + np.argmax(np.bincount(parts.ravel())[1:])) if count else where


def find_centre(where: BoolArray) -> Place:
    """The pixel of a mask that is farthest from all outside of it; what is beyond the image is outside too."""
    distance = ndimage.distance_transform_edt(np.pad(where, 1))[(slice(1, -1),) * where.ndim]
    return _place(int(np.argmax(distance)), where.shape)


def _place(index: int, shape: tuple[int, ...]) -> Place:
    return tuple(int(i) for i in np.unravel_index(index, shape))
