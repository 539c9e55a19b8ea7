"""Learnt couplings between fragments of objects: cues, and two decision forests that come with the package.

The cues are of the maps of a network and of the shapes of the fragments. Sizes are relative to the width that the
network expects, so that small and large objects look alike, and to the other fragments of the image.

A state of the chain gives each site one of :data:`COLOURS` colours; only whether two that touch have the same matters.
With the coupling log odds + log(colours - 1), two fragments alone would have the same colour with the probability that
the forest predicts. In an image the neighbours have an influence too.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np

from napari_gsw.core.array_types import BoolArray, Float32Array, Float64Array, Int32Array, Sites
from napari_gsw.core.features.object_network import CENTRE, CONTACT, INSIDE, MIN_WIDTH, OCTAVES, OUTLINE, WIDTH
from napari_gsw.core.graph.boundary_model import DecisionForest, read_forests
from napari_gsw.core.graph.region_graph import RegionGraph
from napari_gsw.core.jit import PACKAGE
from napari_gsw.core.sites.site_values import list_faces
from napari_gsw.core.special import sum_by_group

# More colours than any map of touching regions needs, and enough for the objects that a user may number.
COLOURS = 32
# Bound of the log odds, since no cue is a proof; and the coupling of two sites of background.
MAX_ODDS, BACKGROUND_BOND = 8.0, 6.0
# Probabilities are clipped by this before their log odds are taken.
MARGIN = 0.002
# Variance of positions within one pixel along each axis.
PIXEL_VARIANCE = 1 / 12


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
