"""Couplings between the fragments of objects, learnt from labels: two forests that ship with the package as numbers.

A state of the chain gives each site one of :data:`COLOURS` colours, of which nothing matters but whether two that touch
have the same. If all there was were two fragments with the coupling log odds + log(colours - 1), they would have the
same colour with just the probability that the forest says. In an image the neighbours have a say too.
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
from napari_gsw.core.errors import InputError
from napari_gsw.core.graph.boundary_model import DecisionForest
from napari_gsw.core.graph.object_cues import compute_fragment_cues, compute_pair_cues, sum_fragments
from napari_gsw.core.graph.region_graph import RegionGraph

# More than any map of touching regions needs, and enough for the objects that a person may number.
COLOURS = 32
# No cue is ever proof: log odds end here.
MOST_ODDS = 8.0
# What holds blocks of background together.
BACKGROUND_BOND = 6.0


@dataclass(frozen=True, eq=False)
class ObjectModel:
    """How probable it is that a fragment is an object, and that two that touch are one.

    Attributes
    ----------
    own, pair : log odds from :func:`napari_gsw.core.graph.object_cues.compute_fragment_cues` and
        :func:`napari_gsw.core.graph.object_cues.compute_pair_cues`.
    """

    own: DecisionForest
    pair: DecisionForest

    def couplings(self, sites: Sites, maps: Float32Array, graph: RegionGraph, fragment: BoolArray) -> Float64Array:
        """(m,) beta_ij on every edge.

        Two fragments: the log odds that they are one object. A fragment and the background around it: all edges
        together, by their length, the log odds that it is no object. Two blocks of background hold together.

        Parameters
        ----------
        sites, maps : (h, w) 1..n and (h, w, 5).
        fragment : (n,) which sites are fragments of objects.
        """
        i, j = graph.edges.T
        sums = sum_fragments(sites, maps)
        beta = np.full(len(graph.edges), BACKGROUND_BOND)
        neutral = np.log(COLOURS - 1)
        both = fragment[i] & fragment[j]
        rows = compute_pair_cues(sites, maps, sums, graph.edges[both])
        beta[both] = neutral + np.clip(self.pair.scores(rows), -MOST_ODDS, MOST_ODDS)
        edge = fragment[i] != fragment[j]
        inner = np.where(fragment[i], i, j)[edge]
        around = np.bincount(inner, graph.length[edge], graph.n)
        odds = np.clip(self.own.scores(compute_fragment_cues(sums)), -MOST_ODDS, MOST_ODDS)
        beta[edge] = (neutral - odds[inner]) * graph.length[edge] / around[inner]
        return beta

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model as JSON."""
        Path(path).write_text(json.dumps({"own": self.own.to_dict(), "pair": self.pair.to_dict()}) + "\n")

    @classmethod
    def load(cls, path: str | PathLike[str]) -> ObjectModel:
        """Read a model that :meth:`save` wrote; anything else is an :class:`InputError`."""
        try:
            content = json.loads(Path(path).read_text())
            return cls(*(DecisionForest.from_dict(content[name]) for name in ("own", "pair")))
        except OSError as reason:
            raise InputError(f"model {str(path)!r} cannot be read: {reason.strerror}") from None
        except (ValueError, KeyError, TypeError, RecursionError) as reason:
            raise InputError(f"{str(path)!r} is not a model of objects: {reason}") from None


@lru_cache
def load_builtin_object_model() -> ObjectModel:
    """The model that comes with the package, learnt on nuclei."""
    with resources.as_file(resources.files("napari_gsw") / "data" / "objects_network.json") as path:
        return ObjectModel.load(path)


def load_object_model(name: str) -> ObjectModel:
    """The model that the setting ``boundaries`` names: ``shipped``, or the path of a saved one."""
    return load_builtin_object_model() if name == "shipped" else ObjectModel.load(name)
