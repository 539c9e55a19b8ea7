"""The records of arrays that the kernels of a chain read and change in place.

Shapes: n sites, m edges, D words (totals and pixel numbers among them), C continuous channels. Kernels take a few of
these records instead of many arrays; the constants name the entries of the short arrays.
"""

from __future__ import annotations

from typing import NamedTuple

from napari_gsw.core.arrays import Counts, Floats, Ints, Longs
from napari_gsw.core.evidence.evidence_tables import Evidence
from napari_gsw.core.graph.region_graph import Adjacency
from napari_gsw.core.model.field import Field
from napari_gsw.core.model.priors import PriorTables

# Entries of Workspace.slots.
USED, CLUSTERS = 0, 1
# Entries of RunningSums.value.
NOW, BEST = 0, 1
# Entries of RunningSums.counted.
SWEEPS, COUNTED, BEST_SWEEP = 0, 1, 2
# Entries of KeptDraws.taken.
WRITTEN, GAP = 0, 1
# What a chain traces after each sweep: log posterior, number of clusters, entropy of their sizes in bits.
LOG_POSTERIOR, N_CLUSTERS, SIZE_ENTROPY = 0, 1, 2
TRACE = 3


class Target(NamedTuple):
    """The law that is sampled: p(y | partition) exp(sum of beta_ij within clusters) g(sizes) exp(field), under clamps.

    Seeds with a field have the numbers of its columns: see :func:`~napari_gsw.core.model.field.named_seeds`.
    """

    evidence: Evidence
    graph: Adjacency
    prior: PriorTables
    seeds: Ints  # (n,) equal numbers >= 0 stay together and apart from other numbers, -1 is free
    field: Field  # h_i(name) of named clusters; without a name there is none


class Bonds(NamedTuple):
    """How edges are bonded: with probability 1 - exp(-x strength).

    x is 1, or, where high > 0, -log(1 - p) with p drawn uniformly from [low, high] for each sweep.
    """

    strength: Floats  # (m,) beta_ij delta_ij
    low: float
    high: float


class Clusters(NamedTuple):
    """Sufficient statistics of the clusters, one column (slot) each; a free slot is all zeros."""

    size: Longs  # (slots,)
    words: Counts  # (D, slots)
    moments: Floats  # (2 C, slots)
    gauss: Floats  # (slots,) the part of the log marginal that depends on the moments


class Workspace(NamedTuple):
    """Scratch of a chain, and how many slots it uses."""

    slots: Longs  # (2,) USED: the first slot that was never used; CLUSTERS: the number of clusters
    parent: Ints  # (n,) the forest of bonds; after `bond` the root of each site's spin cluster
    head: Ints  # (n,) of a root, the first site of its spin cluster
    following: Ints  # (n,) the next site of the same spin cluster, -1 at the end
    place: Ints  # (n,) block of a site that a move has dealt
    order: Ints  # (n,) sites that a move deals, in this order
    blocks: Clusters  # MOST_ANCHORS columns at most


class RunningSums(NamedTuple):
    """What a chain keeps of the states it has seen."""

    value: Floats  # (2,) log posterior NOW, and of the BEST state
    best: Ints  # (n,) labels of the best state
    together: Longs  # (m,) sweeps in which the two ends of an edge shared a cluster
    counted: Longs  # (3,) SWEEPS done, sweeps COUNTED in `together`, BEST_SWEEP


class Walker(NamedTuple):
    """The state of a chain: all that a sweep changes but the generator."""

    labels: Ints  # (n,) slot of each site
    clusters: Clusters
    work: Workspace
    sums: RunningSums


class KeptDraws(NamedTuple):
    """Partitions that a chain keeps, with room for more: see :class:`napari_gsw.core.sampler.draws.Draws`."""

    rows: Ints  # (room, n)
    taken: Longs  # (2,) rows WRITTEN, GAP: sweeps from one to the next
