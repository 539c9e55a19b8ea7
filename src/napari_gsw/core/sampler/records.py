"""The records of arrays that a running chain changes in place. Shapes: n sites, m edges, D words, C channels."""

from __future__ import annotations

from typing import NamedTuple

from napari_gsw.core.arrays import Counts, Floats, Ints, Longs

# What a chain traces after each sweep: log posterior, number of clusters, entropy of their sizes in bits.
TRACE = 3


class Bonds(NamedTuple):
    """How edges are bonded: with probability 1 - exp(-x strength).

    x is 1, or, where high > 0, -log(1 - p) with p drawn uniformly from [low, high] for each sweep.
    """

    strength: Floats  # (m,)
    low: float
    high: float


class Clusters(NamedTuple):
    """Sufficient statistics of the clusters, one column (slot) each; a free slot is all zeros."""

    size: Longs  # (slots,)
    words: Counts  # (D, slots)
    moments: Floats  # (2 C, slots)
    gauss: Floats  # (slots,) the part of the log marginal that depends on the moments


class Workspace(NamedTuple):
    """Scratch of a chain. ``slots[0]`` is the first slot that was never used, ``slots[1]`` the number of clusters."""

    slots: Longs  # (2,)
    parent: Ints  # (n,)
    head: Ints  # (n,)
    chain: Ints  # (n,)
    place: Ints  # (n,)
    order: Ints  # (n,)
    blocks: Clusters  # MOST_ANCHORS columns at most


class KeptDraws(NamedTuple):
    """Partitions that a chain keeps, with room for more: see :class:`napari_gsw.core.sampler.draws.Draws`."""

    rows: Ints  # (room, n)
    taken: Longs  # (2,) rows that are written, sweeps from one to the next


class RunningSums(NamedTuple):
    """What a chain keeps of the states it has seen."""

    value: Floats  # (2,) log posterior now, and of the best state
    best: Ints  # (n,) labels of the best state
    together: Longs  # (m,) sweeps in which the two ends of an edge shared a cluster
    counted: Longs  # (3,) sweeps done, sweeps counted in `together`, sweep of the best state
