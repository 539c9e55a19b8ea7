"""Problems of any size whose truth is known, laid out as superpixels are: a planar graph numbered in scan order."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from napari_gsw.core.likelihood.conjugate import DirichletMultinomial
from napari_gsw.core.model.priors import DirichletProcess
from napari_gsw.core.model.problem import Problem

WORDS, PIXELS = 120, 60
# Sparseness of the clusters' shares of words: a site then has about a dozen different words.
SHARES = 0.1
BETA, ALPHA, PHI = 0.02, 3.0, 50.0
# Histograms that are drawn for a cluster; the sites of a larger one repeat them, or a million would take minutes.
MOST_DRAWN = 2000


class Planted(NamedTuple):
    """Data with a planted partition.

    Attributes
    ----------
    counts : (n, words) pixels of each word.
    edges : (m, 2) int32 neighbouring sites.
    truth : (n,) int32 the planted cluster of each site.
    """

    counts: sparse.csr_array
    edges: NDArray[np.int32]
    truth: NDArray[np.int32]

    @property
    def problem(self) -> Problem:
        """What a chain of these data samples; made anew each time."""
        blocks = (DirichletMultinomial(self.counts, PHI),)
        return Problem(len(self.truth), blocks, self.edges, np.full(len(self.edges), BETA), DirichletProcess(ALPHA))


def make_planted(n: int, clusters: int, seed: int = 1) -> Planted:
    """A triangulated grid of sites cut into about square blocks, with 60 pixels a site of 120 words.

    Parameters
    ----------
    n : number of sites.
    clusters : number of blocks, each with words of its own.
    """
    rng = np.random.default_rng(seed)
    truth = label_blocks(n, clusters)
    shares = rng.dirichlet(np.full(WORDS, SHARES), clusters)
    histograms, histogram_of = [], np.empty(n, np.int64)
    drawn = 0
    for k, size in enumerate(np.bincount(truth, minlength=clusters).tolist()):
        some = min(size, MOST_DRAWN)
        histograms.append(sparse.csr_array(rng.multinomial(PIXELS, shares[k], some)))
        histogram_of[truth == k] = drawn + np.arange(size) % max(some, 1)
        drawn += some
    counts = sparse.vstack(histograms, format="csr")[histogram_of]
    return Planted(counts, triangulate_grid(*grid_shape(n)), truth)


def grid_shape(n: int) -> tuple[int, int]:
    """Rows and columns of a grid of n sites, as square as its divisors allow.

    Examples
    --------
    >>> grid_shape(1000), grid_shape(1_000_000)
    ((25, 40), (1000, 1000))
    """
    rows = next(r for r in range(math.isqrt(n), 0, -1) if n % r == 0)
    return rows, n // rows


def triangulate_grid(rows: int, columns: int) -> NDArray[np.int32]:
    """(m, 2) edges to the right, down and to the lower right, sorted as those of a region graph are."""
    site = np.arange(rows * columns, dtype=np.int32).reshape(rows, columns)
    pairs = [(site[:, :-1], site[:, 1:]), (site[:-1], site[1:]), (site[:-1, :-1], site[1:, 1:])]
    left, right = (np.concatenate([pair[end].ravel() for pair in pairs]) for end in (0, 1))
    order = np.lexsort((right, left))
    return np.stack((left[order], right[order]), axis=1)


def label_blocks(n: int, clusters: int) -> NDArray[np.int32]:
    """(n,) the block of each site of the grid, 0..clusters-1: bands of rows, each cut into blocks of equal width."""
    rows, columns = grid_shape(n)
    bands = max(1, min(rows, round(math.sqrt(clusters * rows / columns))))
    row, column = np.divmod(np.arange(n), columns)
    band = row * bands // rows
    first = np.arange(bands + 1) * clusters // bands
    inside = first[band + 1] - first[band]
    return np.asarray(first[band] + column * inside // columns, dtype=np.int32)
