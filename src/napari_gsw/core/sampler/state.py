"""The records of arrays that the kernels of a chain read and change in place.

Shapes: n sites, m edges, D words (totals and pixel numbers among them), C continuous channels. Kernels take a few of
these records instead of many arrays; the constants name the entries of the short arrays.
"""

from __future__ import annotations

from typing import NamedTuple

from napari_gsw.core.array_types import BoolArray, Float64Array, Int32Array, Int64Array, UInt32Array
from napari_gsw.core.graph.region_graph import CsrGraph
from napari_gsw.core.likelihood.tables import LikelihoodTables
from napari_gsw.core.model.external_field import ExternalField
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
N_TRACED = 3


class Target(NamedTuple):
    """The law that is sampled: p(y | partition) exp(sum of beta_ij within clusters) g(sizes) exp(field), under clamps.

    Seeds with a field have the numbers of its columns: see :func:`~napari_gsw.core.model.external_field.seeds_as_columns`.
    """

    evidence: LikelihoodTables
    graph: CsrGraph
    prior: PriorTables
    seeds: Int32Array  # (n,) equal numbers >= 0 stay together and apart from other numbers, -1 is free
    field: ExternalField  # h_i(name) of named clusters; without a name there is none


class Bonds(NamedTuple):
    """How edges are bonded: with probability 1 - exp(-x strength).

    x is 1, or, where high > 0, -log(1 - p) with p drawn uniformly from [low, high] for each sweep.
    """

    strength: Float64Array  # (m,) beta_ij delta_ij
    low: float
    high: float


class Clusters(NamedTuple):
    """Sufficient statistics of the clusters, one column (slot) each; a free slot is all zeros."""

    size: Int64Array  # (slots,)
    words: UInt32Array  # (D, slots)
    moments: Float64Array  # (2 C, slots)
    gauss: Float64Array  # (slots,) the part of the log marginal that depends on the moments


class Scratch(NamedTuple):
    """Scratch of a chain, and how many slots it uses."""

    slots: Int64Array  # (2,) USED: the first slot that was never used; CLUSTERS: the number of clusters
    parent: Int32Array  # (n,) the forest of bonds; after `bond` the root of each site's spin cluster
    head: Int32Array  # (n,) of a root, the first site of its spin cluster
    following: Int32Array  # (n,) the next site of the same spin cluster, -1 at the end
    place: Int32Array  # (n,) block of a site that a move has dealt
    order: Int32Array  # (n,) sites that a move deals, in this order
    blocks: Clusters  # MOST_ANCHORS columns at most


class RunningSums(NamedTuple):
    """What a chain keeps of the states it has seen."""

    value: Float64Array  # (2,) log posterior NOW, and of the BEST state
    best: Int32Array  # (n,) labels of the best state
    together: Int64Array  # (m,) sweeps in which the two ends of an edge shared a cluster
    counted: Int64Array  # (3,) SWEEPS done, sweeps COUNTED in `together`, BEST_SWEEP


class ChainState(NamedTuple):
    """The state of a chain: all that a sweep changes but the generator."""

    labels: Int32Array  # (n,) slot of each site
    clusters: Clusters
    work: Scratch
    sums: RunningSums


class DrawBuffer(NamedTuple):
    """Partitions that a chain keeps, with room for more: see :class:`napari_gsw.core.sampler.draws.Draws`."""

    rows: Int32Array  # (room, n)
    taken: Int64Array  # (2,) rows WRITTEN, GAP: sweeps from one to the next


class Annealing(NamedTuple):
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


class Schedule(NamedTuple):
    """What the loop over sweeps goes by."""

    annealing: Annealing
    full: float  # share of sweeps that weigh every cluster
    near: float  # share of whole-cluster moves whose first two anchors are the ends of an edge
    regroups: int  # whole-cluster moves after each sweep
    burn_in: int  # sweeps that the running sums leave out
    stop: BoolArray  # (1,) whoever sets it ends the loop after the sweep that is under way
