"""The records of arrays that pass between the sampler and the rest. Shapes: n sites, m edges, D words, C channels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float64]
# Numbers of the formula for counts beyond a table: see :func:`napari_gsw.core.sampler.moves.cluster_kernels.beyond`.
TAIL = 7
# What a chain traces after each sweep: log posterior, number of clusters, entropy of their sizes in bits.
TRACE = 3
Counts = NDArray[np.uint32]  # unsigned: an index that cannot be negative needs no check for it


class Tables(NamedTuple):
    """A prior on partitions of n sites, V(k) times the product of W(m_j); entry 0 of each is not used."""

    log_v: Floats  # (n + 1,)
    log_w: Floats  # (n + 1,)


class Evidence(NamedTuple):
    """The data of n sites: D words (totals and pixel numbers among them), and C continuous channels."""

    site_start: Longs  # (n + 1,) where a site's words begin
    word: Counts  # (nnz,)
    times: Counts  # (nnz,)
    table: Floats  # contribution of a word to the log marginal by its count, the words one after the other
    table_start: NDArray[np.uint64]  # (D,)
    table_end: Counts  # (D,) the first count of each word that its table does not reach
    tail: Floats  # (D, TAIL) the contribution of greater counts as a formula; zeros where there are none
    moments: Floats  # (n, 2 C) weighted sums of each channel about its prior mean, then of their squares
    gauss: Floats  # (3 + C,) kappa_0, a_0, weight of a pixel, and b_0 of each channel
    pixels: int  # the word that counts the pixels behind the moments; -1 without channels


class Graph(NamedTuple):
    """Neighbours of each site in CSR form, and the edges themselves."""

    start: Longs  # (n + 1,)
    neighbour: Ints  # (2 m,)
    edge: Ints  # (2 m,)
    left: Ints  # (m,)
    right: Ints  # (m,)
    beta: Floats  # (m,)


class Bonds(NamedTuple):
    """How edges are bonded: with probability 1 - exp(-x strength).

    x is 1, or, where high > 0, -log(1 - p) with p drawn uniformly from [low, high] for each sweep.
    """

    strength: Floats  # (m,)
    low: float
    high: float


class Cooling(NamedTuple):
    """The inverse temperature b by the number of the sweep: the chain samples the posterior to the power b.

    b rises geometrically from coldness / hot to `coldness` over the first `sweeps` sweeps, and stays there.
    """

    coldness: float
    hot: float
    sweeps: int


class Moves(NamedTuple):
    """What a sweep looks at, and moves of whole clusters after it, beside `regroups`.

    See ``visit`` in :mod:`napari_gsw.core.sampler.moves.sweep_kernels` for `full`, and
    :mod:`napari_gsw.core.sampler.moves.split_merge_kernels` for the others.
    """

    splits: int  # how many
    scans: int  # how often a split is gone over before it is proposed
    near: float  # share of moves (regroups too) whose two anchors are the ends of an edge
    informed: float  # share of moves that draw what to merge by the marginal likelihood
    full: float = 1.0  # share of sweeps that weigh every cluster; the others weigh only those next door


# The temperature of the posterior itself, and no moves of whole clusters.
TEMPERATE = Cooling(1.0, 1.0, 0)
NO_MOVES = Moves(0, 0, 0.0, 0.0)


class Clusters(NamedTuple):
    """Sufficient statistics of the clusters, one column (slot) each; a free slot is all zeros."""

    size: Longs  # (slots,)
    words: Counts  # (D, slots)
    moments: Floats  # (2 C, slots)
    gauss: Floats  # (slots,) the part of the log marginal that depends on the moments


class Work(NamedTuple):
    """Scratch of a chain. ``slots[0]`` is the first slot that was never used, ``slots[1]`` the number of clusters."""

    slots: Longs  # (2,)
    parent: Ints  # (n,)
    head: Ints  # (n,)
    chain: Ints  # (n,)
    place: Ints  # (n,)
    order: Ints  # (n,)
    blocks: Clusters  # MOST_ANCHORS columns at most


class Kept(NamedTuple):
    """Partitions that a chain keeps, with room for more: see :class:`napari_gsw.core.sampler.draws.Draws`."""

    rows: Ints  # (room, n)
    taken: Longs  # (2,) rows that are written, sweeps from one to the next


class Posterior(NamedTuple):
    """What a chain keeps of the states it has seen."""

    value: Floats  # (2,) log posterior now, and of the best state
    best: Ints  # (n,) labels of the best state
    together: Longs  # (m,) sweeps in which the two ends of an edge shared a cluster
    counted: Longs  # (3,) sweeps done, sweeps counted in `together`, sweep of the best state
