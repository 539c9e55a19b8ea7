"""Learnt couplings: decision forests that predict whether two sites have a boundary between them.

They know the cues of photographs and micrographs (boundary_cues.py), or those of fragments of objects: the maps of a
network, and shapes in proportion to the width that the network expects and to the other fragments of the image.

Of fragments, a state of the chain gives each site one of :data:`COLOURS` colours; only whether two that touch have the
same matters. With the coupling log odds + log(colours - 1), two fragments alone would have the same colour with the
probability that the forest predicts. In an image the neighbours have an influence too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from napari_gsw.core.array_types import BoolArray, Float32Array, Float64Array, Int32Array, Sites
from napari_gsw.core.errors import InputError
from napari_gsw.core.features.codebook import read_json
from napari_gsw.core.features.network import CENTRE, CONTACT, INSIDE, MIN_WIDTH, OCTAVES, OUTLINE, WIDTH
from napari_gsw.core.features.site_features import ImageFeatures, SiteFeatures
from napari_gsw.core.graph import boundary_cues
from napari_gsw.core.graph.region_graph import RegionGraph
from napari_gsw.core.image.ridges import scale_intensity
from napari_gsw.core.jit import PACKAGE, njit, zeros
from napari_gsw.core.sites.site_values import list_faces
from napari_gsw.core.special import sum_by_group

# Cues that a model may take: of photographs or of electron micrographs.
CUES = ("photo", "membranes")
# More colours than any map of touching regions needs, and enough for the objects that a user may number.
COLOURS = 32
# Bound of the log odds, since no cue is a proof; and the coupling of two sites of background.
MAX_ODDS, BACKGROUND_BOND = 8.0, 6.0
# Probabilities are clipped by this before their log odds are taken.
MARGIN = 0.002
# Variance of positions within one pixel along each axis.
PIXEL_VARIANCE = 1 / 12


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
        content = read_json(path)
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


class FragmentSums(NamedTuple):
    """Sums over the pixels of each of n sites."""

    pixels: Float64Array  # (n,)
    first: Float64Array  # (n, 2) sums of positions
    second: Float64Array  # (n, 2, 2) and of their products
    mean: Float64Array  # (n, 5) of the maps
    peak: Float64Array  # (n,) maximum of CENTRE
    width: Float64Array  # (n,) in pixels of the object that a site lies in, as the network expects it
    # Mean size, probability and peak of the objects' fragments, weighted by pixels; and their number.
    typical: tuple[float, float, float, float]


def sum_fragments(sites: Sites, maps: Float32Array) -> FragmentSums:
    """Sum maps (h, w, 5) over sites (h, w) 1..n."""
    n, mask = int(sites.max()), sites > 0
    site, values = sites[mask] - 1, maps[mask].astype(np.float64)
    positions = np.stack(np.nonzero(mask), axis=1).astype(np.float64)
    products = positions[:, :, np.newaxis] * positions[:, np.newaxis]
    pixels = np.bincount(site, minlength=n).astype(np.float64)
    mean, peak = sum_by_group(values, site, n) / pixels[:, np.newaxis], np.zeros(n)
    np.maximum.at(peak, site, values[:, CENTRE])
    inside, typical = mean[:, INSIDE] > 0.5, (1.0, 1.0, 1.0, 0.0)
    if inside.any():
        weighted = (np.log(pixels), mean[:, INSIDE], peak)
        size, probability, height = (float(np.average(v[inside], weights=pixels[inside])) for v in weighted)
        typical = float(np.exp(size)), probability, height, float(inside.sum())
    width = MIN_WIDTH * 2 ** (OCTAVES * mean[:, WIDTH])
    second = sum_by_group(products.reshape(-1, 4), site, n).reshape(n, 2, 2)
    return FragmentSums(pixels, sum_by_group(positions, site, n), second, mean, peak, width, typical)


def compute_fragment_cues(sums: FragmentSums) -> Float64Array:
    """Compute 11 cues for whether a fragment is an object or a part of one: (n, 11)."""
    mean = sums.mean
    size, probability, peak, count = sums.typical
    columns = (
        mean[:, INSIDE],
        sums.peak,
        mean[:, OUTLINE],
        mean[:, CONTACT],
        np.log(np.sqrt(sums.pixels) / sums.width),
        _ellipse_share(sums.pixels, sums.first, sums.second),
        np.log(sums.pixels),
        np.log(sums.pixels / size),
        mean[:, INSIDE] - probability,
        np.full(len(mean), np.log(count + 1)),
        sums.peak - peak,
    )
    return np.stack(columns, axis=1)


def compute_pair_cues(sites: Sites, maps: Float32Array, sums: FragmentSums, pairs: Int32Array) -> Float64Array:
    """Compute 18 cues for whether fragments are one object: (pairs, 18); `pairs` (pairs, 2) are sorted edges."""
    m = len(pairs)
    # Along the boundary: means of the maps, maximum of CENTRE, minimum of CONTACT.
    first, second, pair, _ = list_faces(sites, pairs)
    flat = maps.reshape(-1, maps.shape[-1])
    values = (flat[first].astype(np.float64) + flat[second]) / 2
    length = np.maximum(np.bincount(pair, minlength=m), 1).astype(np.float64)
    along = sum_by_group(values, pair, m) / length[:, np.newaxis]
    max_centre, min_contact = np.zeros(m), np.ones(m)
    np.maximum.at(max_centre, pair, values[:, CENTRE])
    np.minimum.at(min_contact, pair, values[:, CONTACT])

    i, j = pairs.T
    pixels, width = sums.pixels, sums.width
    both = pixels[i] + pixels[j]
    share = pixels[i] / both
    small, large = np.minimum(pixels[i], pixels[j]), np.maximum(pixels[i], pixels[j])
    expected = share * width[i] + (1 - share) * width[j]
    own = _ellipse_share(pixels, sums.first, sums.second)
    joint = _ellipse_share(both, sums.first[i] + sums.first[j], sums.second[i] + sums.second[j])
    typical_size, typical_probability = sums.typical[:2]
    neighbours = np.bincount(pairs.ravel(), minlength=len(pixels))
    lower_peak = np.minimum(sums.peak[i], sums.peak[j])
    columns = (
        *(_log_odds(along[:, c]) for c in (INSIDE, OUTLINE, CENTRE, CONTACT)),
        _log_odds(min_contact),
        np.log(np.maximum(max_centre, 0.01) / np.maximum(lower_peak, 0.01)),
        np.log(length / np.sqrt(small)),
        *(np.log(np.sqrt(size) / expected) for size in (small, large, both)),
        joint,
        np.minimum(own[i], own[j]),
        joint - (share * own[i] + (1 - share) * own[j]),
        np.abs(sums.mean[i, INSIDE] - sums.mean[j, INSIDE]),
        np.log(both / typical_size),
        np.log(small / typical_size),
        np.full(m, typical_probability),
        np.minimum(neighbours[i], neighbours[j]),
    )
    return np.stack(columns, axis=1)


def _ellipse_share(pixels: Float64Array, first: Float64Array, second: Float64Array) -> Float64Array:
    """Compute pixels over those of the ellipse of the same moments: 1 for an ellipse, less for a shape with a waist."""
    mean = first / pixels[:, np.newaxis]
    variance = second / pixels[:, np.newaxis, np.newaxis] - mean[:, :, np.newaxis] * mean[:, np.newaxis, :]
    determinant = (variance[:, 0, 0] + PIXEL_VARIANCE) * (variance[:, 1, 1] + PIXEL_VARIANCE) - variance[:, 0, 1] ** 2
    return np.asarray(pixels / (4 * np.pi * np.sqrt(np.maximum(determinant, 1e-9))))


def _log_odds(probability: Float64Array) -> Float64Array:
    clipped = np.clip(probability, MARGIN, 1 - MARGIN)
    return np.asarray(np.log(clipped / (1 - clipped)))


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
    return ObjectModel.load(PACKAGE / "data" / "objects_network.json")


def load_object_model(name: str) -> ObjectModel:
    """Load the model that the setting ``boundary_model`` names: ``shipped`` or a path."""
    return load_builtin_object_model() if name == "shipped" else ObjectModel.load(name)
