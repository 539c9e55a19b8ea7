"""Sums by group and special functions, against numpy and scipy."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from napari_gsw.core.special import sum_by_group, sum_sparse_by_group

RNG = np.random.default_rng(4)


def test_sums_by_group():
    values, group = RNG.integers(0, 9, (30, 7)), RNG.integers(0, 5, 30)
    group[group == 3] = 2  # a group without a row
    expected = np.zeros((6, 7))
    np.add.at(expected, group, values)
    assert np.array_equal(sum_by_group(values, group, 6), expected)
    assert np.array_equal(sum_by_group(values[:, 2], group, 6), expected[:, 2])
    sums = sum_sparse_by_group(csr_array(values), group, 6)
    assert np.array_equal(sums.toarray(), expected)
    assert sums.has_canonical_format
