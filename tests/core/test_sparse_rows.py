"""Sparse matrices of our own beside SciPy's and beside dense ones."""

import numpy as np
import pytest
from scipy import sparse

from napari_gsw.core import sparse_rows
from napari_gsw.core.sparse_rows import SparseRows, below, beside
from napari_gsw.core.special import sum_by_group

RNG = np.random.default_rng(4)


def table(rows, width, share=0.3):
    return RNG.integers(1, 9, (rows, width)) * (RNG.random((rows, width)) < share)


@pytest.mark.parametrize("shape", [(7, 5), (1, 9), (4, 1), (3, 0)])
def test_it_is_what_scipy_makes_of_a_dense_array(shape):
    dense = table(*shape)
    dense[0] = 0  # a row without anything
    ours, theirs = SparseRows.of(dense), sparse.csr_array(dense)
    assert (ours.shape, ours.nnz, ours.dtype) == (theirs.shape, theirs.nnz, theirs.dtype)
    for name in ("data", "indices", "indptr"):
        assert np.array_equal(getattr(ours, name), getattr(theirs, name))
        assert getattr(ours, name).dtype == getattr(theirs, name).dtype
    assert np.array_equal(ours.rows, theirs.tocoo().row)
    assert np.array_equal(ours.toarray(), dense)
    assert np.array_equal(ours.csr().toarray(), dense)
    for axis in (None, 0, 1):
        assert np.array_equal(ours.sum(axis=axis), dense.sum(axis=axis))
    assert ours.sum(axis=0).dtype == dense.dtype


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_array, sparse.coo_array, sparse.csr_matrix])
def test_any_matrix_of_scipys_will_do(kind):
    dense = table(6, 8)
    assert np.array_equal(SparseRows.of(kind(dense)).toarray(), dense)
    assert SparseRows.of(ours := SparseRows.of(dense)) is ours


def test_a_place_with_two_numbers_has_their_sum():
    given = sparse.csr_array((np.array([1, 5, 2]), np.array([3, 0, 3]), np.array([0, 3, 3])), shape=(2, 4))
    assert SparseRows.of(given).toarray().tolist() == [[5, 0, 0, 3], [0, 0, 0, 0]]
    assert given.nnz == 3  # and the caller's own stays as it is
    row, column = np.array([1, 0, 1]), np.array([3, 2, 3])
    assert SparseRows.of_places(row, column, np.array([0.5, 2.0, 1.0]), (2, 4)).toarray().tolist() == [
        [0, 0, 2.0, 0], [0, 0, 0, 1.5],
    ]  # fmt: skip
    counted = SparseRows.of_places(row, column, None, (3, 4))
    assert counted.toarray().tolist() == [[0, 0, 1, 0], [0, 0, 0, 2], [0, 0, 0, 0]]
    assert counted.dtype == np.int64


def test_columns_without_anything_go_and_those_of_a_row_ascend():
    stored = SparseRows(np.array([4, 0, 7, 1]), np.array([5, 0, 1, 2], np.int32), np.array([0, 2, 2, 4]), 6)
    found = stored.without_zeros()
    assert found.toarray().tolist() == [[0, 0, 4], [0, 0, 0], [7, 1, 0]]
    assert found.csr().has_canonical_format
    turned = SparseRows(np.array([4, 3]), np.array([5, 1], np.int32), np.array([0, 2]), 6).without_zeros()
    assert (turned.indices.tolist(), turned.data.tolist()) == ([0, 1], [3, 4])


@pytest.mark.parametrize("dense", [4, 0])
def test_sums_over_groups(monkeypatch, dense):
    monkeypatch.setattr(sparse_rows, "DENSE", dense)
    values, group = table(30, 7), RNG.integers(0, 5, 30)
    group[group == 3] = 2  # one has no row
    expected = np.zeros((6, 7))
    np.add.at(expected, group, values)
    assert np.array_equal(SparseRows.of(values).grouped(group, 6).toarray(), expected)
    assert np.array_equal(sum_by_group(values, group, 6), expected)
    assert np.array_equal(sum_by_group(values[:, 2], group, 6), expected[:, 2])


def test_below_and_beside():
    parts = [table(rows, width) for rows, width in ((3, 4), (0, 4), (5, 2))]
    wide = [np.pad(part, ((0, 0), (0, 4 - part.shape[1]))) for part in parts]
    assert np.array_equal(below([SparseRows.of(part) for part in parts]).toarray(), np.concatenate(wide))
    parts = [table(6, width) for width in (3, 1, 4)]
    found = beside([SparseRows.of(part) for part in parts], 6)
    assert np.array_equal(found.toarray(), np.concatenate(parts, axis=1))
    assert found.csr().has_canonical_format
    assert beside([], 6).shape == (6, 0)
