"""External field of scribbles: how much each site resembles what was painted, and how near it is by random walks."""

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

# Standard deviations in units of Lab: of the kernel around painted values, at least; and of a step of the walk.
LOOKS_WIDTH, STEP_WIDTH = 5.0, 8.0
# A step is never less probable than exp(-this) by its contrast alone.
MAX_STEP_COST = 12.0
# What a Hellinger distance of 1 between two textures is worth, in units of Lab.
TEXTURE_SCALE = 25.0
# The texture of a single site is noise: it is smoothed over the graph so often, if the problem has not done it.
TEXTURE_PASSES = 8
# If all labels are painted, a walk has to arrive somewhere. Otherwise it ends rather than cross a boundary, an edge of
# a weight below this fraction of the median.
OPEN_LOSS = 0.002
# Lower bounds: neither distance nor colour ever proves that a site is something else.
MIN_MEETING, MIN_LIKENESS = 1e-6, 1e-6
# Where other labels may be found, an object of several colours is still one object: if a walk leads there without
# crossing a boundary, another colour does not count against it.
OPEN_LIKENESS, OPEN_DOUBT = 0.03, 0.02
DOUBT = 0.1
# Absorption probability for a label that is painted in other images only: less than for a scribble near by.
ELSEWHERE = 0.5
# Number of painted sites of a label with which colours are compared; more add nothing.
MAX_PAINTED = 64


@njit
def log_likeness(values: Float64Array, painted: Float64Array, width: float, floor: float, out: Float64Array) -> None:
    """Write out[i] = log(floor + mean over p of exp(-|values_i - painted_p|^2 / (2 width^2))).

    `values` (n, C) are those of the sites, `painted` (p, C) of painted ones.
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


class ScribbleField:
    """External field of scribbles for one problem without a field; caches what the next scribble does not change.

    If it is `closed`, every site has to have one of the painted labels.
    """

    def __init__(self, problem: Problem, settings: Settings, closed: bool) -> None:
        self.problem, self.settings, self.closed = problem, settings, closed
        self._walks: dict[bool, AbsorbingWalk] = {}
        self._likeness: dict[int, tuple[bytes, Float64Array]] = {}

    def make_ready(self) -> None:
        """Compute what every scribble needs, so that the first one does not have to wait for it."""
        if self.settings.steering > 0:
            self.walk()

    def walk(self) -> AbsorbingWalk:
        """Return the random walk over the graph, which is made once for closed labels and once for open ones."""
        if self.closed not in self._walks:
            problem = self.problem
            cost = np.minimum(np.square(self._contrasts / STEP_WIDTH) / 2, MAX_STEP_COST)
            # Learnt couplings include colour and texture already.
            is_learnt = problem.settings is not None and problem.settings.coupling == "learnt"
            log_weight = 2 * problem.beta if is_learnt else problem.beta - cost
            loss = None if self.closed else OPEN_LOSS
            self._walks[self.closed] = AbsorbingWalk(problem.n, problem.edges, log_weight, loss)
        return self._walks[self.closed]

    def apply_to_problem(self, clamps: Int32Array) -> Problem:
        """Return the problem with the field of the scribbles, and with as many clusters as names if it is closed.

        `clamps` (n,) are the labels painted on the sites, -1 for a free one.
        """
        names = np.unique(clamps[clamps >= 0])
        problem = self.problem
        prior = problem.prior.exactly(len(names)) if self.closed and len(names) else None
        scribbles = drop_anchors(problem.map_field, clamps)
        has_field = self.settings.steering > 0 and bool((scribbles >= 0).any())
        field = add_foreground_field(problem.map_field, self.field(scribbles) if has_field else None, clamps)
        return problem if field is None and prior is None else problem.with_field(field, prior)

    def field(self, clamps: Int32Array) -> ExternalField:
        """Compute h_i(s) of every site and every painted label, in the order of the labels."""
        numbers, anchor = np.unique(clamps, return_index=True)
        numbers, anchor = numbers[numbers >= 0], anchor[numbers >= 0]
        column = np.where(clamps >= 0, np.searchsorted(numbers, clamps), -1)
        meeting = self.walk().absorption_probability(column, len(numbers))
        # In an image without paint the walk is uninformative, and appearance alone decides; in one with paint of other
        # labels only, a label that is painted elsewhere may still be there.
        silent = meeting.sum(axis=1) == 0
        meeting[silent] = 1.0
        if self.closed:  # lost walks say nothing about the label
            meeting /= np.maximum(meeting.sum(axis=1, keepdims=True), 1e-300)
        components, painted = self._components, column >= 0
        is_there = np.zeros((int(components.max()) + 1, len(numbers)), bool)
        is_there[components[painted], column[painted]] = True
        elsewhere = ~is_there[components]  # no walk from the site can reach the label
        meeting[elsewhere & ~silent[:, np.newaxis]] = ELSEWHERE
        by_looks: BoolArray = np.asarray(elsewhere | silent[:, np.newaxis] | self.closed)
        pull = np.log(meeting + MIN_MEETING) - np.log(np.where(by_looks, DOUBT, OPEN_DOUBT))
        lowest = np.where(by_looks, -np.inf, np.log(OPEN_LIKENESS))
        for k, number in enumerate(numbers.tolist()):
            pull[:, k] += np.maximum(self._log_likeness(number, np.flatnonzero(clamps == number)), lowest[:, k])
        pull[clamps >= 0] = 0.0
        return ExternalField(self.settings.steering * pull, anchor.astype(np.int32))

    def _log_likeness(self, number: int, sites: NDArray[np.integer]) -> Float64Array:
        """Return (n,) log c_i of a label painted on some sites; kept until these change."""
        key = sites.tobytes()
        if self._likeness.get(number, (b"", None))[0] != key:
            looks = self._looks
            chosen = sites[np.linspace(0, len(sites) - 1, min(len(sites), MAX_PAINTED)).round().astype(np.int64)]
            out = np.empty(self.problem.n)
            # Where neighbours differ by more than this, so do sites of one kind.
            width = max(LOOKS_WIDTH, float(np.percentile(self._contrasts, 25)) if len(self._contrasts) else 0.0)
            log_likeness(looks, looks[chosen], width, MIN_LIKENESS, out)
            self._likeness[number] = key, out
        return self._likeness[number][1]

    @cached_property
    def _components(self) -> Int32Array:
        """(n,) connected component of the graph of each site; several images have at least one each."""
        return group_connected(self.problem.n, self.problem.edges)

    @cached_property
    def _contrasts(self) -> Float64Array:
        """(m,) difference of appearance between the two ends of each edge."""
        i, j = self.problem.edges.T
        return np.asarray(np.linalg.norm(self._looks[i] - self._looks[j], axis=1))

    @cached_property
    def _looks(self) -> Float64Array:
        """(n, C + words) mean colour and texture of each site in units of Lab, as far as the problem has them."""
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
    """Return whether a run that begins with seeds (n,), -1 for a free site, finds no other labels.

    Names of a map count as painted only if `only_painted` is set explicitly.
    """
    if clamps is not None and settings.only_painted == "auto":
        clamps = drop_anchors(named, clamps)
    return closes_labels(settings, 0 if clamps is None else len(np.unique(clamps[clamps >= 0])))


def closes_labels(settings: Settings, n_painted: int) -> bool:
    """Return whether a run that begins with so many painted labels finds no others."""
    if settings.only_painted == "auto":  # objects that are painted are some of many
        return settings.steering > 0 and n_painted > 1 and settings.view != "objects"
    return settings.only_painted == "yes" and n_painted > 0
