"""The compiled loops over the region graph against slow, obvious code."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from napari_gsw.core.graph.boundary_cues import chi_squared_distance, compare_rows, compare_surroundings
from napari_gsw.core.graph.random_walk import apply_transitions

RNG = np.random.default_rng(11)


def test_a_walk_is_a_power_of_its_matrix_and_leaves_what_it_is_given():
    steps = csr_array(RNG.random((9, 9)) * (RNG.random((9, 9)) < 0.4))
    values = RNG.random((9, 5))
    before = values.copy()
    for passes in range(4):
        assert apply_transitions(values, steps, passes) == pytest.approx(
            np.linalg.matrix_power(steps.toarray(), passes) @ values
        )
    assert np.array_equal(values, before)


def test_differences_of_groups_of_sites():
    n, parts_ = 8, np.array([5, 9, 12])
    sums = np.concatenate((RNG.integers(0, 4, (n, 9)), RNG.random((n, 3)), RNG.integers(5, 9, (n, 1))), axis=1)
    sums[0, :9] = 0
    i, j = np.array([0, 0, 2, 5]), np.array([1, 3, 7, 6])

    def expected(a, b):
        a, b = a[:-1] / max(a[-1], 1e-9), b[:-1] / max(b[-1], 1e-9)
        kinds = [chi_squared_distance(a[None, s], b[None, s])[0] for s in (slice(5), slice(5, 9))]
        return [*kinds, np.linalg.norm(a[9:] - b[9:])]

    assert compare_rows(sums, i, j, parts_) == pytest.approx(
        np.array([expected(sums[a], sums[b]) for a, b in zip(i, j, strict=True)])
    )
    reach = RNG.random((n, n)) < 0.5
    csr = csr_array(reach.astype(float))
    around = reach @ sums
    found = compare_surroundings(csr.indptr, csr.indices, sums, around, i.astype(np.int32), j.astype(np.int32), parts_)
    for row, a, b in zip(found, i, j, strict=True):
        only = [(reach[x] & ~reach[y]) @ sums for x, y in ((a, b), (b, a))]
        assert row == pytest.approx(expected(*only))
