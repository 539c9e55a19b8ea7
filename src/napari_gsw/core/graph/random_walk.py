"""Site features smoothed over the region graph: each site borrows from neighbours that look alike.

A histogram of sixty or a hundred pixels is noisy; that of a site and of the sites around it with the same colour is
not. Weights fall with the difference of colour and with the contrast along the boundary, so that little flows across an
edge of the image.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from napari_gsw.core.arrays import Floats
from napari_gsw.core.evidence.word_kernels import sparse_rows
from napari_gsw.core.graph.random_walk_kernels import walk_step, write_rounded
from napari_gsw.core.graph.region_graph import RegionGraph

CONTRAST_WEIGHT = 1.5
# A smoothed histogram is no longer a count of pixels. It becomes one of this many, rounded: the likelihood's tables
# want whole numbers, and the evidence says how many draws they are worth.
COUNTS = 100
# Columns that are dense in memory at one time.
WORDS_AT_ONCE = 32


def walk_matrix(graph: RegionGraph, scale: float) -> sparse.csr_array:
    """(n, n) weights with which a site takes over from its neighbours and keeps its own; rows sum to 1.

    Parameters
    ----------
    scale : units of Lab; the weight of a neighbour is exp(-(difference + 1.5 contrast) / scale), one's own is 1.
    """
    n = graph.n
    touching = graph.order == 1
    i, j = graph.edges[touching].T
    weight = np.exp(-(graph.difference + CONTRAST_WEIGHT * graph.contrast)[touching] / scale)
    rows, columns = np.concatenate((i, j, np.arange(n))), np.concatenate((j, i, np.arange(n)))
    both = sparse.csr_array((np.concatenate((weight, weight, np.ones(n))), (rows, columns)), shape=(n, n))
    return sparse.csr_array(sparse.diags_array(1 / both.sum(axis=1)) @ both)


def smoothed_counts(counts: sparse.csr_array, matrix: sparse.csr_array, passes: int) -> sparse.csr_array:
    """Histograms (n, words) after `passes` steps of the walk, as whole numbers that sum to about 100 a site."""
    n, words = counts.shape
    table, used = np.empty((n, words), np.int32), 0
    share = counts.data * np.repeat(1 / np.maximum(counts.sum(axis=1), 1), np.diff(counts.indptr))
    shares = sparse.csr_array((share, counts.indices, counts.indptr), shape=(n, words)).tocsc()
    for first in range(0, words, WORDS_AT_ONCE):
        block = walk_steps(shares[:, first : first + WORDS_AT_ONCE].toarray(), matrix, passes)
        used += write_rounded(block, float(COUNTS), table, first)
    return sparse.csr_array(sparse_rows(table, used), shape=(n, words))


def walk_steps(values: Floats, matrix: sparse.csr_array, passes: int) -> Floats:
    """Values (n, columns) after `passes` steps of the walk."""
    here, there = np.ascontiguousarray(values, dtype=np.float64), np.empty(values.shape)
    for number in range(passes):
        walk_step(matrix.indptr, matrix.indices, matrix.data, here, there)
        # The first time, the caller's own array stays as it is.
        here, there = there, (np.empty(values.shape) if number == 0 and passes > 1 else here)
    return here
