"""How much the sites look like what was painted, compiled."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.array_types import BoolArray, Float64Array, Int32Array
from napari_gsw.core.graph.random_walk import AbsorbingWalk, apply_transitions, make_transition_matrix
from napari_gsw.core.graph.region_graph import group_connected
from napari_gsw.core.jit import njit
from napari_gsw.core.likelihood.conjugate import DirichletMultinomial
from napari_gsw.core.model.external_field import ExternalField, ForegroundField, add_foreground_field, drop_anchors
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.settings import Settings


@njit
def log_likeness(values: Float64Array, painted: Float64Array, width: float, floor: float, out: Float64Array) -> None:
    """out[i] = log(floor + mean over p of exp(-|values_i - painted_p|^2 / (2 width^2))).

    Parameters
    ----------
    values : (n, C) of the sites. painted : (p, C) of painted ones, p >= 1. out : (n,) is written.
    """
    scale = -0.5 / (width * width)
    for i in range(values.shape[0]):
        total = 0.0
        for p in range(painted.shape[0]):
            square = 0.0
            for c in range(values.shape[1]):
                step = values[i, c] - painted[p, c]
                square += step * step
            total += math.exp(scale * square)
        out[i] = math.log(floor + total / painted.shape[0])


# Widths in units of Lab: of the kernel around the looks of what was painted, at least; and of a step of the walk.
LOOKS_WIDTH, STEP_WIDTH = 5.0, 8.0
# A step is never less probable than exp(-this) by the looks alone.
MOST_STEP = 12.0
# What a Hellinger distance of 1 between two textures is worth, in units of Lab.
TEXTURE_SCALE = 25.0
# The texture of a site alone is noise; it is smoothed over the graph so often, if the problem has not done it.
TEXTURE_PASSES = 8
# If all labels are painted a walk has to arrive somewhere. Otherwise it ends rather than cross a boundary, an edge of a
# weight below this share of the median.
OPEN_LOSS = 0.002
# Neither a long way nor another colour is ever proof that a site is something else.
LEAST_MEETING, LEAST_LIKENESS = 1e-6, 1e-6
# Where other labels may be found, a thing of many colours is still one thing: if a walk leads there without crossing a
# boundary, another colour does not speak against it.
OPEN_LIKENESS, OPEN_DOUBT = 0.03, 0.02
DOUBT = 0.1
# How far a walk counts for a label that is painted in other images only: less than a stroke near by.
ELSEWHERE = 0.5
# Painted sites of a name whose colours are compared with; more say the same.
MOST_PAINTED = 64


class ScribbleField:
    """What strokes mean for one problem; keeps what the next stroke does not change.

    Attributes
    ----------
    problem : without a field. settings : how strongly strokes speak, and whether other labels may be found.
    closed : whether every site is to have one of the painted labels.
    """

    def __init__(self, problem: Problem, settings: Settings, closed: bool) -> None:
        self.problem, self.settings, self.closed = problem, settings, closed
        self._walks: dict[bool, AbsorbingWalk] = {}
        self._likeness: dict[int, tuple[bytes, Float64Array]] = {}

    def make_ready(self) -> None:
        """Compute now what every stroke needs, so that the first one does not have to wait for it."""
        if self.settings.steering > 0:
            self.walk()

    def walk(self) -> AbsorbingWalk:
        """The walk over the graph by which strokes speak, made once for closed labels and once for open ones."""
        if self.closed not in self._walks:
            problem = self.problem
            apart = np.minimum(np.square(self._steps / STEP_WIDTH) / 2, MOST_STEP)
            # Couplings that were learnt have looked at colour and texture already.
            learnt = problem.settings is not None and problem.settings.coupling == "learnt"
            log_weight = 2 * problem.beta if learnt else problem.beta - apart
            self._walks[self.closed] = AbsorbingWalk(
                problem.n, problem.edges, log_weight, None if self.closed else OPEN_LOSS
            )
        return self._walks[self.closed]

    def apply_to_problem(self, clamps: Int32Array) -> Problem:
        """The problem under the field of the strokes, with as many clusters as names if it is closed.

        Parameters
        ----------
        clamps : (n,) number painted on a site, -1 for a free one.
        """
        names = np.unique(clamps[clamps >= 0])
        problem = self.problem
        prior = problem.prior.exactly(len(names)) if self.closed and len(names) else None
        strokes = drop_anchors(problem.map_field, clamps)
        spoken = self.settings.steering > 0 and bool((strokes >= 0).any())
        field = add_foreground_field(problem.map_field, self.field(strokes) if spoken else None, clamps)
        return problem if field is None and prior is None else problem.with_field(field, prior)

    def field(self, clamps: Int32Array) -> ExternalField:
        """h_i(s) of every site and every number that is painted, in the order of the numbers."""
        numbers, anchor = np.unique(clamps, return_index=True)
        painted = numbers >= 0
        numbers, anchor = numbers[painted], anchor[painted]
        column = np.where(clamps >= 0, np.searchsorted(numbers, clamps), -1)
        meeting = self.walk().absorption_probability(column, len(numbers))
        # Of an image where nothing is painted the walk has nothing to say, and looks alone decide; of one where only
        # other labels are painted it says that a label which is painted elsewhere may still be there.
        silent = meeting.sum(axis=1) == 0
        meeting[silent] = 1.0
        if self.closed:  # walks that are lost say nothing of which label it is
            meeting /= np.maximum(meeting.sum(axis=1, keepdims=True), 1e-300)
        elsewhere = self._elsewhere(column, len(numbers))
        meeting[elsewhere & ~silent[:, np.newaxis]] = ELSEWHERE
        by_looks: BoolArray = np.asarray(elsewhere | silent[:, np.newaxis] | self.closed)
        pull = np.log(meeting + LEAST_MEETING) - np.log(np.where(by_looks, DOUBT, OPEN_DOUBT))
        least = np.where(by_looks, -np.inf, np.log(OPEN_LIKENESS))
        for k, number in enumerate(numbers.tolist()):
            pull[:, k] += np.maximum(self._log_likeness(number, np.flatnonzero(clamps == number)), least[:, k])
        pull[clamps >= 0] = 0.0
        return ExternalField(self.settings.steering * pull, anchor.astype(np.int32))

    def _elsewhere(self, column: NDArray[np.integer], count: int) -> BoolArray:
        """(n, names) whether no walk from a site can come to a name; `column` (n,) has the name of a painted site."""
        parts = self._parts
        there = np.zeros((int(parts.max()) + 1, count), bool)
        painted = column >= 0
        there[parts[painted], column[painted]] = True
        return np.asarray(~there[parts])

    def _log_likeness(self, number: int, sites: NDArray[np.integer]) -> Float64Array:
        """(n,) log c_i of a number painted on some sites, made once for these."""
        key = sites.tobytes()
        if self._likeness.get(number, (b"", None))[0] != key:
            looks = self._looks
            chosen = sites[np.linspace(0, len(sites) - 1, min(len(sites), MOST_PAINTED)).round().astype(np.int64)]
            out = np.empty(self.problem.n)
            # Where neighbours differ more than this, so do sites of one kind.
            width = max(LOOKS_WIDTH, float(np.percentile(self._steps, 25)) if len(self._steps) else 0.0)
            log_likeness(looks, looks[chosen], width, LEAST_LIKENESS, out)
            self._likeness[number] = key, out
        return self._likeness[number][1]

    @cached_property
    def _parts(self) -> Int32Array:
        """(n,) which of the graph's connected parts a site is in; of several images each is one, or more."""
        return group_connected(self.problem.n, self.problem.edges)

    @cached_property
    def _steps(self) -> Float64Array:
        """(m,) difference of the looks of the two ends of each edge."""
        i, j = self.problem.edges.T
        return np.asarray(np.linalg.norm(self._looks[i] - self._looks[j], axis=1))

    @cached_property
    def _looks(self) -> Float64Array:
        """(n, C + words) mean colour and texture of each site, in units of Lab; as far as the problem has them."""
        graph = self.problem.graph
        columns = [np.zeros((self.problem.n, 0)) if graph is None else graph.means]
        histograms = [block for block in self.problem.likelihoods if isinstance(block, DirichletMultinomial)]
        for texture in histograms[1:]:  # the first is of colours
            counts = texture.counts.toarray().astype(np.float64)
            shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
            passes = TEXTURE_PASSES - self.settings.graph_passes
            if graph is not None and passes > 0:
                shares = apply_transitions(shares, make_transition_matrix(graph, self.settings.graph_scale), passes)
            columns.append(TEXTURE_SCALE * np.sqrt(shares))
        return np.ascontiguousarray(np.concatenate(columns, axis=1), dtype=np.float64)


def is_closed(settings: Settings, clamps: Int32Array | None, named: ForegroundField | None = None) -> bool:
    """Whether a run that begins with these seeds (n,), -1 for a free site, is to find no other labels.

    The names of a map are no paint, but where only they are to be labels there must be no other.
    """
    if clamps is not None and settings.only_painted == "auto":
        clamps = drop_anchors(named, clamps)
    return closes_labels(settings, 0 if clamps is None else len(np.unique(clamps[clamps >= 0])))


def closes_labels(settings: Settings, painted: int) -> bool:
    """Whether a run that begins with so many painted labels is to find no others."""
    if settings.only_painted == "auto":  # objects that are painted are some of many
        return settings.steering > 0 and painted > 1 and settings.view != "objects"
    return settings.only_painted == "yes" and painted > 0
