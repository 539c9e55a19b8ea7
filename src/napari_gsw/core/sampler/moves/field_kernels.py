"""The external field of named clusters, h_i(name): what it adds when a group of sites moves.

A name belongs to the cluster that holds its anchor, a site that is clamped, so that the slot of a name is always
``labels[anchor]`` and nothing has to follow clusters from slot to slot.
"""

from __future__ import annotations

from napari_gsw.core.array_types import Float64Array, Int64Array
from napari_gsw.core.jit import as_int64, njit_inline, njit_inner
from napari_gsw.core.model.external_field import ExternalField
from napari_gsw.core.sampler.moves.candidate_kernels import Candidates
from napari_gsw.core.sampler.state import ChainState, Target


@njit_inline
def add_field(field: ExternalField, walker: ChainState, near: Candidates, root: int, around: int) -> int:
    """Add the field to the pull of each named cluster on a spin cluster; returns how many clusters are listed then.

    A named cluster is listed even if no neighbour is in it: which clusters these are does not depend on where the spin
    cluster is, and what is painted far away may pull too.
    """
    labels, following, pull = walker.labels, walker.work.following, field.pull
    for s in range(field.anchor.size):
        k = as_int64(labels[field.anchor[s]])
        total = 0.0
        i = as_int64(root)
        while i >= 0:
            total += pull[i, s]
            i = as_int64(following[i])
        if near.seen[k] != root:
            near.seen[k] = root
            near.near[around] = k
            around += 1
            near.pull[k] = 0.0
            near.tied[k] = 0.0
        near.pull[k] += total
    return around


@njit_inline
def field_value(field: ExternalField, i: int, name: int) -> float:
    """h_i(name) of a site and a cluster's name; 0 if it has none (-1) or one without a field."""
    return float(field.pull[i, name]) if 0 <= name < field.anchor.size else 0.0


@njit_inner
def add_merged_field(target: Target, walker: ChainState, name: int, names: Int64Array, pull: Float64Array) -> None:
    """Add to pull[k] what the field gains if block 0, the sites whose ``work.place`` is 0, joins cluster k.

    Parameters
    ----------
    name : of block 0, -1 for none.
    names : (slots + 1,) of the clusters, the last of block 1; of two that join one at most has a name.
    pull : (slots + 1,) is added to.
    """
    field, labels, place = target.field, walker.labels, walker.work.place
    if field.anchor.size == 0:
        return
    last = pull.size - 1
    for i in range(labels.size):
        if place[i] != 0:
            pull[last if place[i] == 1 else labels[i]] += field_value(field, i, name)
        elif name < 0:
            for k in range(last + 1):
                pull[k] += field_value(field, i, as_int64(names[k]))
