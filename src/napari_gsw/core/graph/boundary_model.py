"""Learnt boundaries: decision forests that predict whether an annotator draws a boundary between two sites."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from napari_gsw.core.array_types import Float64Array, Int32Array
from napari_gsw.core.errors import InputError
from napari_gsw.core.features.site_features import ImageFeatures, SiteFeatures
from napari_gsw.core.graph import boundary_cues
from napari_gsw.core.graph.region_graph import RegionGraph
from napari_gsw.core.image.ridges import scale_intensity
from napari_gsw.core.jit import PACKAGE, njit, zeros

# Cues that a model may take: of photographs or of electron micrographs.
CUES = ("photo", "membranes")


@dataclass(frozen=True, eq=False)
class DecisionForest:
    """Trees one after the other."""

    root: Int32Array  # (trees,) first node of each tree
    feature: Int32Array  # (nodes,) column that a node compares, -1 for a leaf
    threshold: Float64Array  # (nodes,) values up to this go left, others right; the value of a leaf
    left: Int32Array  # (nodes,) next nodes
    right: Int32Array

    def scores(self, rows: Float64Array) -> Float64Array:
        """Sum the leaves that each row (rows, features) ends in."""
        if rows.shape[1] <= self.feature.max(initial=-1):
            raise InputError(f"the forest needs {self.feature.max() + 1} features, not {rows.shape[1]}")
        return _sum_leaves(self.root, self.feature, self.threshold, self.left, self.right, np.ascontiguousarray(rows))

    def to_dict(self) -> dict[str, list[float]]:
        """Convert to lists for JSON; thresholds to seven digits."""
        content: dict[str, list[float]] = {name: array.tolist() for name, array in asdict(self).items()}
        content["threshold"] = [float(f"{x:.7g}") for x in content["threshold"]]
        return content

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> DecisionForest:
        """Convert what :meth:`to_dict` made; every index is checked, because the compiled code checks none."""
        try:
            indices = {name: np.array(content[name], dtype=np.int32) for name in ("root", "feature", "left", "right")}
            forest = cls(threshold=np.array(content["threshold"], dtype=np.float64), **indices)
        except (KeyError, TypeError, ValueError) as reason:
            raise InputError(f"this is not a forest: {reason}") from None
        nodes = len(forest.feature)
        inner = forest.feature >= 0
        # Children come after their parent, so that no path is circular.
        is_tree = all(a.shape == (nodes,) for a in (forest.threshold, forest.left, forest.right)) and all(
            ((a[inner] > np.flatnonzero(inner)) & (a[inner] < nodes)).all() for a in (forest.left, forest.right)
        )
        if not (is_tree and ((forest.root >= 0) & (forest.root < nodes)).all() and np.isfinite(forest.threshold).all()):
            raise InputError("this is not a forest: nodes must lead to later nodes, and thresholds must be finite")
        return forest


@njit
def _sum_leaves(
    root: Int32Array, feature: Int32Array, threshold: Float64Array, left: Int32Array, right: Int32Array,
    rows: Float64Array,
) -> Float64Array:  # fmt: skip
    result = zeros(rows.shape[0], np.float64)
    for r in range(rows.shape[0]):
        for t in range(root.size):
            node = root[t]
            while feature[node] >= 0:
                node = left[node] if rows[r, feature[node]] <= threshold[node] else right[node]
            result[r] += threshold[node]
    return result


def read_forests(path: str | PathLike[str], names: tuple[str, str], what: str) -> tuple[Mapping[str, Any], Any, Any]:
    """Read a JSON file with two forests; return its content and the forests, or raise an InputError."""
    try:
        content = json.loads(Path(path).read_text())
        first, second = (DecisionForest.from_dict(content[name]) for name in names)
        return content, first, second
    except OSError as reason:
        raise InputError(f"model {str(path)!r} cannot be read: {reason.strerror}") from None
    except (ValueError, KeyError, TypeError, RecursionError) as reason:
        raise InputError(f"{str(path)!r} is not a {what}: {reason}") from None


@dataclass(frozen=True, eq=False)
class BoundaryModel:
    """Log odds that an annotator draws a boundary between two touching sites."""

    first: DecisionForest  # of the local cues
    second: DecisionForest  # of the local cues and the context cues of the first forest's probabilities
    network: bool = False  # whether the output of a network is among the cues
    cues: str = "photo"  # one of `CUES`

    def log_odds(self, features: SiteFeatures, graph: RegionGraph) -> Float64Array:
        """Compute the log odds (m,) that the two sites of an edge belong to different segments."""
        if features.ndim != 2:
            raise InputError("coupling learnt is for two-dimensional images; choose contrast for a volume")
        if (graph.order != 1).any():
            raise InputError("coupling learnt is for sites that touch; set neighbourhood to 1")
        if not len(graph.edges):
            return np.zeros(0)
        if self.cues == "membranes":
            if not isinstance(features, ImageFeatures):
                raise InputError("boundaries learnt on membranes are for images in memory; raise block_pixels")
            intensity = scale_intensity(features.images[0])
            local = boundary_cues.compute_local_membrane_cues(intensity, features.sites[0], graph)
            cues = boundary_cues.compute_context_membrane_cues(graph, local, self.first.scores(local))
            return self.second.scores(cues)
        if self.network and not features.has_network:
            raise InputError("these boundaries were learnt with a network; set network to shipped or to its file")
        sums = boundary_cues.sum_site_values(features, graph, self.network)
        local = boundary_cues.compute_local_cues(features, graph, sums, self.network)
        return self.second.scores(boundary_cues.compute_context_cues(graph, local, self.first.scores(local), sums))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model as JSON."""
        forests = {"first": self.first.to_dict(), "second": self.second.to_dict()}
        Path(path).write_text(json.dumps({"cues": self.cues, "network": self.network, **forests}) + "\n")

    @classmethod
    def load(cls, path: str | PathLike[str]) -> BoundaryModel:
        """Read a model that :meth:`save` wrote; anything else is an :class:`InputError`."""
        content, first, second = read_forests(path, ("first", "second"), "boundary model")
        cues = content.get("cues", "photo")
        if cues not in CUES:
            raise InputError(f"{str(path)!r} is not a boundary model: cues must be {' or '.join(CUES)}, not {cues!r}")
        return cls(first, second, bool(content.get("network", False)), cues)


def load_boundary_model(name: str, network: bool = False) -> BoundaryModel:
    """Load the model that a setting names: shipped (with network cues if there is a network), membranes, or a path."""
    if name not in ("membranes", "shipped"):
        return BoundaryModel.load(name)
    kind = "membranes" if name == "membranes" else "photo_network" if network else "photo"
    return _load_builtin(f"boundaries_{kind}.json")


@lru_cache
def _load_builtin(name: str) -> BoundaryModel:
    return BoundaryModel.load(PACKAGE / "data" / name)
