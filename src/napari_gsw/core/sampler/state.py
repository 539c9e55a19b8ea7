"""Records of the arrays that the kernels of a chain read and change in place.

Shapes: n sites, m edges, D words (totals and pixel numbers among them), C continuous channels. The constants name the
entries of short arrays.
"""

from __future__ import annotations

from typing import NamedTuple

from napari_gsw.core.array_types import BoolArray, Float64Array, Int32Array, Int64Array, UInt32Array
from napari_gsw.core.graph.region_graph import CsrGraph
from napari_gsw.core.likelihood.likelihood_tables import LikelihoodTables
from napari_gsw.core.model.external_field import ExternalField
from napari_gsw.core.model.priors import PriorTables

# Entries of Scratch.slots.
USED, CLUSTERS = 0, 1
# Entries of RunningSums.value.
NOW, BEST = 0, 1
# Entries of RunningSums.counted.
SWEEPS, COUNTED, BEST_SWEEP = 0, 1, 2
# Entries of DrawBuffer.taken.
WRITTEN, GAP = 0, 1
# Columns of a trace, one row after each sweep: log posterior, number of clusters, entropy of their sizes in bits.
LOG_POSTERIOR, N_CLUSTERS, SIZE_ENTROPY = 0, 1, 2
N_TRACED = 3


class Target(NamedTuple):
    """Target distribution: p(y | partition) exp(sum of beta_ij within clusters) g(sizes) exp(field), given seeds."""

    evidence: LikelihoodTables
    graph: CsrGraph
    prior: PriorTables
    seeds: Int32Array  # (n,) equal numbers >= 0 stay together and apart from others, -1 is free; columns of a field
    field: ExternalField  # h_i(name) of named clusters; empty without a name


class Bonds(NamedTuple):
    """Bonds of edges, with probability 1 - exp(-x strength).

    x is 1, or where high > 0, -log(1 - p) with p drawn uniformly from [low, high] for each sweep.
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
    """Scratch arrays of a chain, and the number of slots in use."""

    slots: Int64Array  # (2,) USED: the first slot that was never used; CLUSTERS: the number of clusters
    parent: Int32Array  # (n,) the forest of bonds; after `draw_bonds` the root of each site's bonded group
    first_member: Int32Array  # (n,) of a root, the first site of its bonded group
    next_member: Int32Array  # (n,) the next site of the same bonded group, -1 at the end
    place: Int32Array  # (n,) block of a site that a move has allocated
    order: Int32Array  # (n,) sites that a move allocates, in this order
    blocks: Clusters  # at most MAX_ANCHORS columns


class RunningSums(NamedTuple):
    """Sums over the states that a chain has visited."""

    value: Float64Array  # (2,) log posterior NOW, and of the BEST state
    best: Int32Array  # (n,) labels of the best state
    together: Int64Array  # (m,) sweeps in which the two ends of an edge shared a cluster
    counted: Int64Array  # (3,) SWEEPS done, sweeps COUNTED in `together`, BEST_SWEEP


class ChainState(NamedTuple):
    """The state of a chain: all that a sweep changes but the generator."""

    labels: Int32Array  # (n,) slot of each site
    clusters: Clusters
    scratch: Scratch
    sums: RunningSums


class DrawBuffer(NamedTuple):
    """Partitions that a chain keeps, with room for more."""

    rows: Int32Array  # (room, n)
    taken: Int64Array  # (2,) rows WRITTEN; GAP: sweeps from one to the next


class Annealing(NamedTuple):
    """Inverse temperatures by the number of the sweep.

    They rise geometrically from inverse_temperature / hot to `inverse_temperature` over the first `sweeps` sweeps.
    """

    inverse_temperature: float
    hot: float
    sweeps: int


class Moves(NamedTuple):
    """Split-merge moves after each sweep, and the share of full sweeps."""

    splits: int  # number of moves
    scans: int  # scans over a split before it is proposed
    near: float  # share of moves (regroups too) whose two anchors are the ends of an edge
    informed: float  # share of moves that draw what to merge by the marginal likelihood
    full: float = 1.0  # share of sweeps that score every cluster; the others score only adjacent ones


class Schedule(NamedTuple):
    """Parameters of the loop over sweeps."""

    annealing: Annealing
    full: float  # share of sweeps that score every cluster
    near: float  # share of whole-cluster moves whose first two anchors are the ends of an edge
    regroups: int  # whole-cluster moves after each sweep
    burn_in: int  # sweeps that the running sums leave out
    stop: BoolArray  # (1,) set it to end the loop after the current sweep
