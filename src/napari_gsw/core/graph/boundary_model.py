"""Couplings learnt from human boundaries, in photographs or of membranes: two forests each, shipped as numbers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from os import PathLike
from pathlib import Path

import numpy as np

from napari_gsw.core.arrays import Floats
from napari_gsw.core.errors import InputError
from napari_gsw.core.evidence.site_features import ImageFeatures, SiteFeatures
from napari_gsw.core.graph.boundary_cues import SiteSums, drawn_along, first_cues, second_cues
from napari_gsw.core.graph.decision_forest import DecisionForest
from napari_gsw.core.graph.membrane_cues import first_membrane_cues, second_membrane_cues
from napari_gsw.core.graph.region_graph import RegionGraph
from napari_gsw.core.image.ridges import light_of
from napari_gsw.core.odds import expit

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

    def log_odds(self, features: SiteFeatures, graph: RegionGraph) -> Floats:
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
        site_sums = SiteSums(features, graph, features.places if self.network else None)
        cues = first_cues(features, graph, site_sums, drawn_along(features, graph) if self.network else None)
        return self.second.scores(second_cues(graph, cues, expit(self.first.scores(cues)), site_sums))

    def _membrane_odds(self, features: SiteFeatures, graph: RegionGraph) -> Floats:
        """As :meth:`log_odds`, by the cues of membranes."""
        if not isinstance(features, ImageFeatures):
            raise InputError("boundaries learnt on membranes are for images in memory; raise block_pixels")
        cues = first_membrane_cues(light_of(features.picture), features.sites, graph)
        return self.second.scores(second_membrane_cues(graph, cues, self.first.scores(cues)))

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


def named_model(name: str, network: bool) -> BoundaryModel:
    """The model that a setting names: shipped, membranes, or the path of a saved one.

    Parameters
    ----------
    network : whether there is a network, whose cues the shipped model of photographs then looks at.
    """
    if name == "membranes":
        return membrane_model()
    return photo_model(network) if name == "shipped" else BoundaryModel.load(name)


def photo_model(network: bool = False) -> BoundaryModel:
    """The model that comes with the package, learnt on photographs, with the cues of the shipped network or without."""
    return _shipped("boundaries_photo_network.json" if network else "boundaries_photo.json")


def membrane_model() -> BoundaryModel:
    """The model that comes with the package, learnt on membranes in electron micrographs."""
    return _shipped("boundaries_membranes.json")


@lru_cache
def _shipped(name: str) -> BoundaryModel:
    """A model of a file that comes with the package."""
    with resources.as_file(resources.files("napari_gsw") / "data" / name) as path:
        return BoundaryModel.load(path)
