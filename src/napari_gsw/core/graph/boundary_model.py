"""The compiled walk down the trees."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from napari_gsw.core.array_types import Float64Array, Int32Array
from napari_gsw.core.errors import InputError
from napari_gsw.core.features.site_features import ImageFeatures, SiteFeatures
from napari_gsw.core.graph.boundary_cues import (
    SiteSums,
    compute_context_cues,
    compute_local_cues,
    mean_network_boundary,
)
from napari_gsw.core.graph.membrane_cues import compute_context_membrane_cues, compute_local_membrane_cues
from napari_gsw.core.graph.region_graph import RegionGraph
from napari_gsw.core.image.ridges import scale_intensity
from napari_gsw.core.jit import njit, zeros
from napari_gsw.core.special import expit


@njit
def sum_leaves(
    root: Int32Array,
    feature: Int32Array,
    threshold: Float64Array,
    left: Int32Array,
    right: Int32Array,
    rows: Float64Array,
) -> Float64Array:
    """(rows,) float64 sum over the trees of the leaf that each row ends in.

    Parameters
    ----------
    root : (trees,) int32 first node of each tree.
    feature, threshold, left, right : (nodes,) int32, float64, int32 and int32, see
        :class:`~napari_gsw.core.graph.boundary_model.DecisionForest`.
    rows : (rows, features) float64.
    """
    result = zeros(rows.shape[0], np.float64)
    for r in range(rows.shape[0]):
        for t in range(root.size):
            node = root[t]
            while feature[node] >= 0:
                node = left[node] if rows[r, feature[node]] <= threshold[node] else right[node]
            result[r] += threshold[node]
    return result


@dataclass(frozen=True, eq=False)
class DecisionForest:
    """Trees one after the other. A node with a feature of -1 is a leaf.

    Attributes
    ----------
    root : (trees,) first node of each tree.
    feature : (nodes,) column that a node looks at.
    threshold : (nodes,) up to this value one goes left, above it right; of a leaf, its value.
    left, right : (nodes,) where one goes.
    """

    root: Int32Array
    feature: Int32Array
    threshold: Float64Array
    left: Int32Array
    right: Int32Array

    def scores(self, rows: Float64Array) -> Float64Array:
        """(rows,) sum of the leaves that each row (rows, features) ends in."""
        if rows.shape[1] <= self.feature.max(initial=-1):
            raise InputError(f"the forest looks at {self.feature.max() + 1} features, not {rows.shape[1]}")
        return sum_leaves(self.root, self.feature, self.threshold, self.left, self.right, np.ascontiguousarray(rows))

    def to_dict(self) -> dict[str, list[float]]:
        """Plain lists, ready for JSON; numbers to seven digits."""
        content: dict[str, list[float]] = {name: getattr(self, name).tolist() for name in self.__dataclass_fields__}
        content["threshold"] = [float(f"{x:.7g}") for x in content["threshold"]]
        return content

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> DecisionForest:
        """The forest that :meth:`to_dict` wrote; every index is checked, because the compiled code checks none."""
        try:
            places = {name: np.array(content[name], dtype=np.int32) for name in ("root", "feature", "left", "right")}
            forest = cls(threshold=np.array(content["threshold"], dtype=np.float64), **places)
        except (KeyError, TypeError, ValueError) as reason:
            raise InputError(f"this is not a forest: {reason}") from None
        nodes = len(forest.feature)
        inner = forest.feature >= 0
        same = all(a.shape == (nodes,) for a in (forest.threshold, forest.left, forest.right))
        # Children come after their parent, so that no walk goes round in circles.
        down = same and all(
            ((a[inner] > np.flatnonzero(inner)) & (a[inner] < nodes)).all() for a in (forest.left, forest.right)
        )
        if not (down and ((forest.root >= 0) & (forest.root < nodes)).all() and np.isfinite(forest.threshold).all()):
            raise InputError("this is not a forest: nodes must lead to later nodes, and thresholds must be finite")
        return forest


# The kinds of cues.
CUES = ("photo", "membranes")


@dataclass(frozen=True, eq=False)
class BoundaryModel:
    """How probable it is that a person draws a boundary between two touching sites.

    Attributes
    ----------
    first : log odds from the cues of the image.
    second : log odds from these cues and from what the first forest says of the whole image.
    network : whether the cues of a network are among them.
    cues : which cues these are: of photographs (:mod:`~napari_gsw.core.graph.boundary_cues`) or of membranes
        (:mod:`~napari_gsw.core.graph.membrane_cues`).
    """

    first: DecisionForest
    second: DecisionForest
    network: bool = False
    cues: str = "photo"

    def log_odds(self, features: SiteFeatures, graph: RegionGraph) -> Float64Array:
        """(m,) log odds that the two sites of an edge belong to different segments."""
        if features.ndim != 2:
            raise InputError("coupling learnt is for two-dimensional images; choose contrast for a volume")
        if (graph.order != 1).any():
            raise InputError("coupling learnt is for sites that touch; set neighbourhood to 1")
        if not len(graph.edges):
            return np.zeros(0)
        if self.cues == "membranes":
            return self._membrane_odds(features, graph)
        if self.network and not features.has_network:
            raise InputError("these boundaries were learnt with a network; set network to shipped or to its file")
        site_sums = SiteSums(features, graph, features.embedding if self.network else None)
        cues = compute_local_cues(
            features, graph, site_sums, mean_network_boundary(features, graph) if self.network else None
        )
        return self.second.scores(compute_context_cues(graph, cues, expit(self.first.scores(cues)), site_sums))

    def _membrane_odds(self, features: SiteFeatures, graph: RegionGraph) -> Float64Array:
        """As :meth:`log_odds`, by the cues of membranes."""
        if not isinstance(features, ImageFeatures):
            raise InputError("boundaries learnt on membranes are for images in memory; raise block_pixels")
        cues = compute_local_membrane_cues(scale_intensity(features.images[0]), features.sites[0], graph)
        return self.second.scores(compute_context_membrane_cues(graph, cues, self.first.scores(cues)))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model as JSON."""
        content = {
            "cues": self.cues,
            "network": self.network,
            "first": self.first.to_dict(),
            "second": self.second.to_dict(),
        }
        Path(path).write_text(json.dumps(content) + "\n")

    @classmethod
    def load(cls, path: str | PathLike[str]) -> BoundaryModel:
        """Read a model that :meth:`save` wrote; anything else is an :class:`InputError`."""
        try:
            content = json.loads(Path(path).read_text())
            first, second = (DecisionForest.from_dict(content[name]) for name in ("first", "second"))
            cues = content.get("cues", "photo")
            if cues not in CUES:
                raise ValueError(f"cues must be of {' or '.join(CUES)}, not {cues!r}")
            return cls(first, second, bool(content.get("network", False)), cues)
        except OSError as reason:
            raise InputError(f"model {str(path)!r} cannot be read: {reason.strerror}") from None
        except (ValueError, KeyError, TypeError, RecursionError) as reason:
            raise InputError(f"{str(path)!r} is not a boundary model: {reason}") from None


def load_boundary_model(name: str, network: bool) -> BoundaryModel:
    """The model that a setting names: shipped, membranes, or the path of a saved one.

    Parameters
    ----------
    network : whether there is a network, whose cues the shipped model of photographs then looks at.
    """
    if name == "membranes":
        return load_membrane_model()
    return load_photo_model(network) if name == "shipped" else BoundaryModel.load(name)


def load_photo_model(network: bool = False) -> BoundaryModel:
    """The model that comes with the package, learnt on photographs, with the cues of the shipped network or without."""
    return _shipped("boundaries_photo_network.json" if network else "boundaries_photo.json")


def load_membrane_model() -> BoundaryModel:
    """The model that comes with the package, learnt on membranes in electron micrographs."""
    return _shipped("boundaries_membranes.json")


@lru_cache
def _shipped(name: str) -> BoundaryModel:
    """A model of a file that comes with the package."""
    with resources.as_file(resources.files("napari_gsw") / "data" / name) as path:
        return BoundaryModel.load(path)
