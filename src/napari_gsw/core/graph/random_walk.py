"""Site features smoothed over the region graph: each site borrows from neighbours that look alike.

A histogram of sixty or a hundred pixels is noisy; that of a site and of the sites around it with the same colour is
not. Weights fall with the difference of colour and with the contrast along the boundary, so that little flows across an
edge of the image.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from napari_gsw.core.arrays import Floats
from napari_gsw.core.evidence.word_kernels import sparse_rows
from napari_gsw.core.graph.random_walk_kernels import walk_step, write_rounded
from napari_gsw.core.graph.region_graph import RegionGraph
from napari_gsw.core.sparse_rows import SparseRows

CONTRAST_WEIGHT = 1.5
# A smoothed histogram is no longer a count of pixels. It becomes one of this many, rounded: the likelihood's tables
# want whole numbers, and the evidence says how many draws they are worth.
COUNTS = 100
# Columns that are dense in memory at one time.
WORDS_AT_ONCE = 32


def walk_matrix(graph: RegionGraph, scale: float) -> SparseRows:
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
    both = SparseRows.of_places(rows, columns, np.concatenate((weight, weight, np.ones(n))), (n, n))
    share = (1 / both.sum(axis=1))[both.rows] * both.data
    # A site adds up from the last of its neighbours to the first; labels can hang on the last digit of that.
    order = np.lexsort((-both.indices, both.rows))
    return replace(both, data=share[order], indices=both.indices[order])


def smoothed_counts(counts: SparseRows, matrix: SparseRows, passes: int) -> SparseRows:
    """Histograms (n, words) after `passes` steps of the walk, as whole numbers that sum to about 100 a site."""
    n, words = counts.shape
    table, used = np.empty((n, words), np.int32), 0
    share = counts.data * np.repeat(1 / np.maximum(counts.sum(axis=1), 1), np.diff(counts.indptr))
    shares = replace(counts, data=share)
    for first in range(0, words, WORDS_AT_ONCE):
        block = walk_steps(shares.columns(first, min(first + WORDS_AT_ONCE, words)), matrix, passes)
        used += write_rounded(block, float(COUNTS), table, first)
    return SparseRows(*sparse_rows(table, used), words)


def walk_steps(values: Floats, matrix: SparseRows, passes: int) -> Floats:
    """Values (n, columns) after `passes` steps of the walk."""
    here, there = np.ascontiguousarray(values, dtype=np.float64), np.empty(values.shape)
    for number in range(passes):
        walk_step(matrix.indptr, matrix.indices, matrix.data, here, there)
        # The first time, the caller's own array stays as it is.
        here, there = there, (np.empty(values.shape) if number == 0 and passes > 1 else here)
    return here
