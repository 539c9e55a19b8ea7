"""The external field h_i(name) of named clusters: its change when a group of sites moves.

A name belongs to the cluster of its anchor, a clamped site, so that its slot is always ``labels[anchor]``.
"""

from __future__ import annotations

from napari_gsw.core.array_types import Float64Array, Int64Array
from napari_gsw.core.jit import as_int64, njit_inline, njit_inner
from napari_gsw.core.model.external_field import ExternalField
from napari_gsw.core.sampler.moves.candidate_kernels import Candidates
from napari_gsw.core.sampler.state import ChainState, Target


@njit_inline
def add_field(field: ExternalField, state: ChainState, candidates: Candidates, root: int, n_adjacent: int) -> int:
    """Add the field to the weight of each named cluster for a bonded group; returns the number of listed clusters.

    A named cluster is listed even if it is not adjacent: which ones these are does not depend on where the group is,
    and scribbles far away have an influence, too.
    """
    labels, next_member, pull = state.labels, state.scratch.next_member, field.pull
    for s in range(field.anchor.size):
        k = as_int64(labels[field.anchor[s]])
        total = 0.0
        i = as_int64(root)
        while i >= 0:
            total += pull[i, s]
            i = as_int64(next_member[i])
        if candidates.seen[k] != root:
            candidates.seen[k] = root
            candidates.adjacent[n_adjacent] = k
            n_adjacent += 1
            candidates.neighbour_weight[k] = 0.0
            candidates.bonded_weight[k] = 0.0
        candidates.neighbour_weight[k] += total
    return n_adjacent


@njit_inline
def field_value(field: ExternalField, i: int, name: int) -> float:
    """Return h_i(name) of a site and a name; 0 without a name (-1) or with one that has no field."""
    return float(field.pull[i, name]) if 0 <= name < field.anchor.size else 0.0


@njit_inner
def add_merged_field(target: Target, state: ChainState, name: int, names: Int64Array, weight: Float64Array) -> None:
    """Add to weight[k] the gain of the field if block 0, the sites whose ``place`` is 0, joins cluster k.

    `name` is that of block 0, -1 for none; `names` and `weight` (slots + 1,) are those of the clusters, the last ones
    of block 1. Of two clusters that may merge at most one has a name.
    """
    field, labels, place = target.field, state.labels, state.scratch.place
    if field.anchor.size == 0:
        return
    last = weight.size - 1
    for i in range(labels.size):
        if place[i] != 0:
            weight[last if place[i] == 1 else labels[i]] += field_value(field, i, name)
        elif name < 0:
            for k in range(last + 1):
                weight[k] += field_value(field, i, as_int64(names[k]))
