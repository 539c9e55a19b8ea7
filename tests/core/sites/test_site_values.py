"""Sums over sites and over the faces between them against slow, obvious code."""

from __future__ import annotations

import numpy as np
import pytest

from napari_gsw.core.sites.site_values import mean_per_site, sum_over_faces, touching_pairs

RNG = np.random.default_rng(11)


def test_means_over_sites_of_any_type():
    sites = RNG.integers(0, 5, (20, 30)).astype(np.int32)
    for values in (RNG.random((20, 30, 2)).astype(np.float32), RNG.integers(0, 9, (20, 30, 3))):
        expected = [values[sites == i].mean(axis=0, dtype=float) for i in range(1, 5)]
        assert mean_per_site(values, sites) == pytest.approx(np.array(expected))


@pytest.mark.parametrize(("spacing", "area"), [(None, (1, 1, 1)), ((6.0, 3.0, 2.0), (6, 12, 18))])
@pytest.mark.parametrize("use_maximum", [False, True])
def test_faces_between_sites(spacing, area, use_maximum):
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
    edges, found_length, found_steps = touching_pairs(sites, values.reshape(-1, 1), spacing)
    assert list(map(tuple, edges.tolist())) == sorted(length)
    assert found_length.tolist() == [length[pair] for pair in sorted(length)]
    assert found_steps == pytest.approx([steps[pair] for pair in sorted(length)])
    found = sum_over_faces(values, sites, edges, use_maximum=use_maximum, spacing=spacing)
    assert found == pytest.approx([sums[pair] for pair in sorted(length)])
