"""Learnt couplings between fragments of objects: two decision forests that come with the package.

A state of the chain gives each site one of :data:`COLOURS` colours; only whether two that touch have the same matters.
With the coupling log odds + log(colours - 1), two fragments alone would have the same colour with the probability that
the forest predicts. In an image the neighbours have an influence too.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from os import PathLike
from pathlib import Path

import numpy as np

from napari_gsw.core.array_types import BoolArray, Float32Array, Float64Array, Sites
from napari_gsw.core.graph.boundary_model import DecisionForest, read_forests
from napari_gsw.core.graph.object_cues import compute_fragment_cues, compute_pair_cues, sum_fragments
from napari_gsw.core.graph.region_graph import RegionGraph

# More than any map of touching regions needs, and enough for the objects that a user may number.
COLOURS = 32
# Bound of the log odds, since no cue is a proof; and the coupling of two sites of background.
MAX_ODDS, BACKGROUND_BOND = 8.0, 6.0


@dataclass(frozen=True, eq=False)
class ObjectModel:
    """Log odds that a fragment is an object (`own`), and that two that touch are one (`pair`)."""

    own: DecisionForest
    pair: DecisionForest

    def couplings(self, sites: Sites, maps: Float32Array, graph: RegionGraph, fragment: BoolArray) -> Float64Array:
        """Compute the coupling of each edge of sites (h, w) by maps (h, w, 5); `fragment` (n,) marks fragments.

        Two fragments: the log odds that they are one object. A fragment and the background around it: all edges
        together, by length, the log odds that it is no object. Two sites of background are bound.
        """
        i, j = graph.edges.T
        sums = sum_fragments(sites, maps)
        beta = np.full(len(graph.edges), BACKGROUND_BOND)
        neutral = np.log(COLOURS - 1)
        both = fragment[i] & fragment[j]
        pair_odds = self.pair.scores(compute_pair_cues(sites, maps, sums, graph.edges[both]))
        beta[both] = neutral + np.clip(pair_odds, -MAX_ODDS, MAX_ODDS)
        border = fragment[i] != fragment[j]
        inner = np.where(fragment[i], i, j)[border]
        around = np.bincount(inner, graph.length[border], graph.n)
        odds = np.clip(self.own.scores(compute_fragment_cues(sums)), -MAX_ODDS, MAX_ODDS)
        beta[border] = (neutral - odds[inner]) * graph.length[border] / around[inner]
        return beta

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model as JSON."""
        Path(path).write_text(json.dumps({"own": self.own.to_dict(), "pair": self.pair.to_dict()}) + "\n")

    @classmethod
    def load(cls, path: str | PathLike[str]) -> ObjectModel:
        """Read a model that :meth:`save` wrote; anything else is an :class:`InputError`."""
        return cls(*read_forests(path, ("own", "pair"), "model of objects")[1:])


@lru_cache
def load_builtin_object_model() -> ObjectModel:
    """Load the model learnt on nuclei."""
    with resources.as_file(resources.files("napari_gsw") / "data" / "objects_network.json") as path:
        return ObjectModel.load(path)


def load_object_model(name: str) -> ObjectModel:
    """Load the model that the setting ``boundary_model`` names: ``shipped`` or a path."""
    return load_builtin_object_model() if name == "shipped" else ObjectModel.load(name)
