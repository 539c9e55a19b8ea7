"""What there is to see of the fragments of objects, and of two that touch: cues for whether they are one object.

All of it comes from the maps of a network and from the shapes of the fragments. Sizes are in units of the width that
the network expects there, so that small and large objects look alike, and beside those of the other fragments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.array_types import Float32Array, Float64Array, Int32Array, Sites
from napari_gsw.core.features.object_network import CENTRE, CONTACT, INSIDE, MIN_WIDTH, OCTAVES, OUTLINE, WIDTH

# How many cues there are of a fragment, and of two.
OWN_CUES, PAIR_CUES = 11, 18
# Probabilities are kept so far from 0 and 1 before their log odds are taken.
MARGIN = 0.002
# What one pixel adds to the variance of positions along each axis.
PIXEL = 1 / 12


@dataclass(frozen=True, eq=False)
class FragmentSums:
    """Sums over the pixels of each site.

    Attributes
    ----------
    pixels : (n,). first, second : (n, 2) and (n, 2, 2) sums of the positions and of their products.
    mean : (n, 5) of the maps. peak : (n,) the largest value of the middle.
    """

    pixels: Float64Array
    first: Float64Array
    second: Float64Array
    mean: Float64Array
    peak: Float64Array

    @property
    def usual(self) -> tuple[float, float, float, float]:
        """Of fragments of objects, by pixels: their pixels, probability of an object, peak; and how many there are."""
        inside = self.mean[:, INSIDE] > 0.5
        if not inside.any():
            return 1.0, 1.0, 1.0, 0.0
        weight = self.pixels[inside]
        means = (np.average(v[inside], weights=weight) for v in (np.log(self.pixels), self.mean[:, INSIDE], self.peak))
        size, share, peak = (float(value) for value in means)
        return float(np.exp(size)), share, peak, float(inside.sum())

    @property
    def width(self) -> Float64Array:
        """(n,) pixels across the object that a site lies in, as the network expects it."""
        return np.asarray(MIN_WIDTH * 2 ** (OCTAVES * self.mean[:, WIDTH]))


def sum_fragments(sites: Sites, maps: Float32Array) -> FragmentSums:
    """The sums of sites (h, w) 1..n over maps (h, w, 5)."""
    n = int(sites.max())
    inside = sites > 0
    site = sites[inside] - 1
    places = np.stack(np.nonzero(inside), axis=1).astype(np.float64)

    def total(values: NDArray[Any]) -> Float64Array:
        return np.asarray(np.bincount(site, values, n), dtype=np.float64)

    pixels = np.bincount(site, minlength=n).astype(np.float64)
    products = [total(places[:, a] * places[:, b]) for a in range(2) for b in range(2)]
    peak = np.zeros(n)
    np.maximum.at(peak, site, maps[..., CENTRE][inside].astype(np.float64))
    return FragmentSums(
        pixels=pixels,
        first=np.stack([total(places[:, a]) for a in range(2)], axis=1),
        second=np.stack(products, axis=1).reshape(n, 2, 2),
        mean=np.stack([total(maps[..., c][inside]) for c in range(maps.shape[-1])], axis=1) / pixels[:, np.newaxis],
        peak=peak,
    )


def compute_fragment_cues(sums: FragmentSums) -> Float64Array:
    """(n, 11) cues for whether a fragment is an object, or a part of one."""
    mean, side = sums.mean, np.sqrt(sums.pixels)
    roundness = _ellipse_share(sums.pixels, sums.first, sums.second)
    relative = np.log(side / sums.width)
    size, share, peak, count = sums.usual
    columns = (
        mean[:, INSIDE],
        sums.peak,
        mean[:, OUTLINE],
        mean[:, CONTACT],
        relative,
        roundness,
        np.log(sums.pixels),
        np.log(sums.pixels / size),
        mean[:, INSIDE] - share,
        np.full(len(mean), np.log(count + 1)),
        sums.peak - peak,
    )
    return np.stack(columns, axis=1)


def compute_pair_cues(sites: Sites, maps: Float32Array, sums: FragmentSums, pairs: Int32Array) -> Float64Array:
    """(pairs, 18) cues for whether two fragments are one object.

    Parameters
    ----------
    pairs : (pairs, 2) all fragments 0..n-1 that touch, the smaller one first, sorted.
    """
    if not len(pairs):
        return np.zeros((0, PAIR_CUES))
    along, highest, least_contact, length = _along(sites, maps, pairs)
    i, j = pairs.T
    a, width = sums.pixels, sums.width
    both = a[i] + a[j]
    share = a[i] / both
    small, large = np.minimum(a[i], a[j]), np.maximum(a[i], a[j])
    expected = share * width[i] + (1 - share) * width[j]
    own = _ellipse_share(a, sums.first, sums.second)
    joint = _ellipse_share(both, sums.first[i] + sums.first[j], sums.second[i] + sums.second[j])
    usual_size, usual_share = sums.usual[:2]
    neighbours = np.bincount(pairs.ravel(), minlength=len(a))
    lower_peak = np.minimum(sums.peak[i], sums.peak[j])
    columns = (
        *(_log_odds(along[:, c]) for c in (INSIDE, OUTLINE, CENTRE, CONTACT)),
        _log_odds(least_contact),
        np.log(np.maximum(highest, 0.01) / np.maximum(lower_peak, 0.01)),
        np.log(length / np.sqrt(small)),
        *(np.log(np.sqrt(pixels) / expected) for pixels in (small, large, both)),
        joint,
        np.minimum(own[i], own[j]),
        joint - (share * own[i] + (1 - share) * own[j]),
        np.abs(sums.mean[i, INSIDE] - sums.mean[j, INSIDE]),
        np.log(both / usual_size),
        np.log(small / usual_size),
        np.full(len(pairs), usual_share),
        np.minimum(neighbours[i], neighbours[j]),
    )
    return np.stack(columns, axis=1)


def _along(
    sites: Sites, maps: Float32Array, pairs: Int32Array
) -> tuple[Float64Array, Float64Array, Float64Array, Float64Array]:
    """Along the boundary of two sites: (pairs, 5) means of maps, highest middle, least contact, and faces."""
    n = int(sites.max())
    key = pairs[:, 0].astype(np.int64) * n + pairs[:, 1]
    rows, values = [], []
    for axis in range(2):
        number, said = np.moveaxis(sites, axis, 0).astype(np.int64), np.moveaxis(maps, axis, 0)
        here, there = number[:-1], number[1:]
        apart = (here != there) & (here > 0) & (there > 0)
        low, high = np.minimum(here, there)[apart] - 1, np.maximum(here, there)[apart] - 1
        row = np.searchsorted(key, low * n + high).clip(max=len(key) - 1)
        known = key[row] == low * n + high
        rows.append(row[known])
        values.append((said[:-1][apart][known].astype(np.float64) + said[1:][apart][known]) / 2)
    row, value = np.concatenate(rows), np.concatenate(values)
    m = len(pairs)
    length = np.maximum(np.bincount(row, minlength=m), 1).astype(np.float64)
    mean = np.stack([np.bincount(row, value[:, c], m) for c in range(value.shape[1])], axis=1) / length[:, np.newaxis]
    highest, least = np.zeros(m), np.ones(m)
    np.maximum.at(highest, row, value[:, CENTRE])
    np.minimum.at(least, row, value[:, CONTACT])
    return mean, highest, least, length


def _ellipse_share(pixels: Float64Array, first: Float64Array, second: Float64Array) -> Float64Array:
    """(k,) pixels over those of the ellipse of the same moments: 1 for an ellipse, less for what has a waist."""
    mean = first / pixels[:, np.newaxis]
    spread = second / pixels[:, np.newaxis, np.newaxis] - mean[:, :, np.newaxis] * mean[:, np.newaxis, :]
    inner = (spread[:, 0, 0] + PIXEL) * (spread[:, 1, 1] + PIXEL) - spread[:, 0, 1] ** 2
    return np.asarray(pixels / (4 * np.pi * np.sqrt(np.maximum(inner, 1e-9))))


def _log_odds(share: Float64Array) -> Float64Array:
    kept = np.clip(share, MARGIN, 1 - MARGIN)
    return np.asarray(np.log(kept / (1 - kept)))
