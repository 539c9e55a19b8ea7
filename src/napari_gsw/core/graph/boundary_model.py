"""Couplings learnt from human boundaries: two forests that ship with the package as numbers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from os import PathLike
from pathlib import Path

import numpy as np
from scipy.special import expit

from napari_gsw.core.arrays import Floats
from napari_gsw.core.errors import InputError
from napari_gsw.core.evidence.site_features import SiteFeatures
from napari_gsw.core.graph.boundary_cues import SiteSums, first_cues, second_cues
from napari_gsw.core.graph.decision_forest import DecisionForest
from napari_gsw.core.graph.region_graph import RegionGraph


@dataclass(frozen=True, eq=False)
class BoundaryModel:
    """How probable it is that a person draws a boundary between two touching sites.

    Attributes
    ----------
    first : log odds from the cues of the image.
    second : log odds from these cues and from what the first forest says of the whole image.
    """

    first: DecisionForest
    second: DecisionForest

    def log_odds(self, features: SiteFeatures, graph: RegionGraph) -> Floats:
        """(m,) log odds that the two sites of an edge belong to different segments."""
        if features.ndim != 2:
            raise InputError("coupling learnt is for two-dimensional images; choose contrast for a volume")
        if (graph.order != 1).any():
            raise InputError("coupling learnt is for sites that touch; set neighbourhood to 1")
        if not len(graph.edges):
            return np.zeros(0)
        site_sums = SiteSums(features, graph)
        cues = first_cues(features, graph, site_sums)
        return self.second.scores(second_cues(graph, cues, expit(self.first.scores(cues)), site_sums))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model as JSON."""
        Path(path).write_text(json.dumps({"first": self.first.to_dict(), "second": self.second.to_dict()}) + "\n")

    @classmethod
    def load(cls, path: str | PathLike[str]) -> BoundaryModel:
        """Read a model that :meth:`save` wrote; anything else is an :class:`InputError`."""
        try:
            content = json.loads(Path(path).read_text())
            return cls(DecisionForest.from_dict(content["first"]), DecisionForest.from_dict(content["second"]))
        except OSError as reason:
            raise InputError(f"model {str(path)!r} cannot be read: {reason.strerror}") from None
        except (ValueError, KeyError, TypeError, RecursionError) as reason:
            raise InputError(f"{str(path)!r} is not a boundary model: {reason}") from None


@lru_cache
def photo_model() -> BoundaryModel:
    """The model that comes with the package, learnt on photographs."""
    with resources.as_file(resources.files("napari_gsw") / "data" / "boundaries_photo.json") as path:
        return BoundaryModel.load(path)
