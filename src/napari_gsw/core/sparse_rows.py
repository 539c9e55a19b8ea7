"""Matrices that are nearly all zeros, row by row: histograms of sites, the steps of a walk over the region graph.

The arrays are those of SciPy's ``csr_array``, and go by its names. A segmentation needs only what is here; SciPy's
sparse matrices would import all of NumPy for it, which takes a tenth of the time of a start. For whatever else there is
to do with one there is :meth:`SparseRows.csr`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from napari_gsw.core.array_types import Int32Array, Int64Array

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# Sums over groups are made in a table unless that has more entries than this for each number.
DENSE = 4


@dataclass(frozen=True, eq=False)
class SparseRows:
    """A matrix (rows, width) in CSR form.

    Attributes
    ----------
    data : (nnz,) what is not zero, a row after the other.
    indices : (nnz,) the column of each.
    indptr : (rows + 1,) where in them a row begins; of 64 bits where 32 will not do.
    width : number of columns.

    Examples
    --------
    >>> counts = SparseRows.of(np.array([[0, 2, 1], [0, 0, 0], [4, 0, 0]]))
    >>> counts.data.tolist(), counts.indices.tolist(), counts.indptr.tolist()
    ([2, 1, 4], [1, 2, 0], [0, 2, 2, 3])
    >>> counts.sum(axis=0).tolist(), counts.sum(axis=1).tolist(), counts.sum().item()
    ([4, 2, 1], [3, 0, 4], 7)
    """

    data: NDArray[Any]
    indices: Int32Array
    indptr: Int32Array
    width: int

    @classmethod
    def of(cls, values: Any) -> SparseRows:
        """A dense array (rows, width), or any sparse matrix of SciPy, in this form."""
        if isinstance(values, SparseRows):
            return values
        if hasattr(values, "tocsr"):
            csr = values.tocsr()
            if not csr.has_canonical_format:  # a place that has two numbers has their sum
                csr = csr.copy()
                csr.sum_duplicates()
            return cls(csr.data, csr.indices.astype(np.int32, copy=False), csr.indptr, int(csr.shape[1]))
        row, column = np.nonzero(values)
        return cls(values[row, column], column.astype(np.int32), _starts(row, len(values)), int(values.shape[1]))

    @classmethod
    def of_places(
        cls, row: NDArray[np.integer], column: NDArray[np.integer], values: NDArray[Any] | None, shape: tuple[int, int]
    ) -> SparseRows:
        """A matrix of some shape from numbers at places (k,); those of one place are added up.

        Parameters
        ----------
        values : (k,) the numbers; None for 1 each, as int64.
        """
        key = row.astype(np.int64) * shape[1] + column
        if values is None:
            place, data = np.unique(key, return_counts=True)
        else:
            place, which = np.unique(key, return_inverse=True)
            data = np.bincount(which, values, len(place))
        row, column = np.divmod(place, shape[1])
        return cls(data, column.astype(np.int32), _starts(row, shape[0]), shape[1])

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.indptr) - 1, self.width

    @property
    def nnz(self) -> int:
        """How many numbers it has."""
        return len(self.data)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.data.dtype

    @property
    def rows(self) -> Int64Array:
        """(nnz,) the row of each number."""
        return np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))

    def sum(self, axis: int | None = None) -> NDArray[Any]:
        """The sum of all numbers, of each column (axis 0) or of each row (axis 1), of the type of the numbers' sum."""
        total = np.asarray(self.data.sum())
        if axis is None:
            return total
        place, length = (self.indices, self.width) if axis == 0 else (self.rows, self.shape[0])
        return np.bincount(place, self.data, length).astype(total.dtype)

    def astype(self, dtype: DTypeLike) -> SparseRows:
        return SparseRows(self.data.astype(dtype), self.indices, self.indptr, self.width)

    def toarray(self) -> NDArray[Any]:
        """(rows, width) with all its zeros."""
        return self.columns(0, self.width)

    def columns(self, first: int, end: int) -> NDArray[Any]:
        """(rows, end - first) some of the columns, with all their zeros."""
        dense = np.zeros((self.shape[0], end - first), self.dtype)
        some = slice(None) if (first, end) == (0, self.width) else (self.indices >= first) & (self.indices < end)
        dense[self.rows[some], self.indices[some] - first] = self.data[some]
        return dense

    def without_zeros(self) -> SparseRows:
        """Without columns that are zero throughout, and without zeros that were stored; the columns of a row ascend."""
        row, kept = self.rows, self.data != 0
        row, column, data = row[kept], self.indices[kept], self.data[kept]
        occurs = np.zeros(self.width, bool)
        occurs[column] = True
        column = (np.cumsum(occurs) - 1).astype(np.int32)[column]
        if ((np.diff(column) <= 0) & (np.diff(row) == 0)).any():
            order = np.lexsort((column, row))
            column, data = column[order], data[order]
        return SparseRows(data, column, _starts(row, self.shape[0]), int(occurs.sum()))

    def grouped(self, group: NDArray[np.integer], count: int) -> SparseRows:
        """(count, width) sums over the rows of each group (rows,) 0, 1, ..., as float64."""
        row = group[self.rows]
        if count * self.width <= DENSE * max(self.nnz, 1):
            table = np.bincount(row * self.width + self.indices, self.data, count * self.width)
            return SparseRows.of(table.reshape(count, self.width))
        return SparseRows.of_places(row, self.indices, self.data, (count, self.width))

    def csr(self) -> csr_array:
        """The same for SciPy, which shares the numbers."""
        from scipy.sparse import csr_array

        return csr_array((self.data, self.indices, self.indptr), shape=self.shape)


def below(parts: Sequence[SparseRows]) -> SparseRows:
    """Matrices one below the other; a column that one of them lacks is zero there."""
    return SparseRows(
        np.concatenate([part.data for part in parts]),
        np.concatenate([part.indices for part in parts]),
        _begins(np.concatenate([np.diff(part.indptr) for part in parts])),
        max(part.width for part in parts),
    )


def beside(parts: Sequence[SparseRows], n: int) -> SparseRows:
    """Matrices of n rows one beside the other."""
    lengths = [np.diff(part.indptr) for part in parts]
    start = _begins(sum(lengths, np.zeros(n, np.int64)))
    data = np.empty(start[-1], np.result_type(np.int64, *(part.dtype for part in parts)))
    indices, width, begin = np.empty(start[-1], np.int32), 0, start[:-1]
    for part, length in zip(parts, lengths, strict=True):
        place = np.arange(part.nnz) + np.repeat(begin - part.indptr[:-1], length)
        data[place], indices[place] = part.data, part.indices + width
        width, begin = width + part.width, begin + length
    return SparseRows(data, indices, start, width)


def _starts(row: NDArray[np.integer], rows: int) -> Int32Array:
    """(rows + 1,) where a row begins among numbers whose rows (nnz,) ascend."""
    return _begins(np.bincount(row, minlength=rows))


def _begins(lengths: NDArray[np.integer]) -> Int32Array:
    """(rows + 1,) where a row begins, from how many numbers each has."""
    start: Int64Array = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    return start.astype(np.int32) if start[-1] <= np.iinfo(np.int32).max else start  # type: ignore[return-value]
