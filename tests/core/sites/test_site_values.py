"""Compiled sums and merges of sites against slow, obvious code."""

from __future__ import annotations

import numpy as np
import pytest

from napari_gsw.core.sites.adjacency_kernels import merge_small_regions, sum_over_faces, touching_pairs
from napari_gsw.core.sites.site_values import mean_per_site

RNG = np.random.default_rng(11)


def test_means_over_sites_of_any_type():
    sites = RNG.integers(0, 5, (20, 30)).astype(np.int32)
    for values in (RNG.random((20, 30, 2)).astype(np.float32), RNG.integers(0, 9, (20, 30, 3))):
        expected = [values[sites == i].mean(axis=0, dtype=float) for i in range(1, 5)]
        assert mean_per_site(values, sites) == pytest.approx(np.array(expected))


@pytest.mark.parametrize("area", [(1.0, 1.0, 1.0), (1.0, 2.0, 3.0)])
@pytest.mark.parametrize("use_maximum", [False, True])
def test_faces_between_sites(area, use_maximum):
    sites = RNG.integers(0, 5, (3, 8, 9)).astype(np.int32)
    values = RNG.random(sites.shape).astype(np.float32)
    length, steps, sums = {}, {}, {}
    for p in np.ndindex(sites.shape):
        for axis in range(3):
            q = tuple(np.add(p, np.eye(3, dtype=int)[axis]))
            if q[axis] == sites.shape[axis] or sites[p] == sites[q] or not sites[p] * sites[q]:
                continue
            pair = min(sites[p], sites[q]) - 1, max(sites[p], sites[q]) - 1
            length[pair] = length.get(pair, 0) + area[axis]
            steps[pair] = steps.get(pair, 0) + area[axis] * abs(float(values[p]) - values[q])
            value = max(values[p], values[q]) if use_maximum else (values[p] + values[q]) / 2
            sums[pair] = sums.get(pair, 0) + area[axis] * value
    edges, found_length, found_steps = touching_pairs(sites, values.reshape(-1, 1), 4, area)
    assert list(map(tuple, edges.tolist())) == sorted(length)
    assert found_length.tolist() == [length[pair] for pair in sorted(length)]
    assert found_steps == pytest.approx([steps[pair] for pair in sorted(length)])
    spacing = None if area[1] == 1 else (6.0, 3.0, 2.0)
    scale = 1 if spacing is None else 6
    found = sum_over_faces(values, sites, edges, use_maximum=use_maximum, spacing=spacing)
    assert found == pytest.approx([scale * sums[pair] for pair in sorted(length)])


def test_small_regions_merge_into_the_most_similar_neighbour():
    # A row of regions 0 - 1 - 2 - 3 - 4, of which 1 and 3 are small, and 5, small and without a neighbour.
    edges = np.array([[0, 1], [1, 2], [2, 3], [3, 4]], np.int32)
    n_pixels = np.array([10, 2, 10, 3, 10, 1])
    total = (np.array([0.0, 4.0, 5.0, 5.6, 6.0, 1.0]) * n_pixels)[:, np.newaxis]
    number = merge_small_regions(edges, total, n_pixels.copy(), np.argsort(n_pixels, kind="stable"), 5)
    assert number.tolist() == [1, 2, 2, 3, 3, 4]
