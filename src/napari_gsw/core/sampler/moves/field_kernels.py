"""The external field of named clusters, h_i(name): what it adds when a group of sites moves.

A name belongs to the cluster that holds its anchor, a site that is clamped, so that the slot of a name is always
``labels[anchor]`` and nothing has to follow clusters from slot to slot.
"""

from __future__ import annotations

from napari_gsw.core.arrays import Floats, Longs
from napari_gsw.core.jit import as_int64, njit_inline, njit_inner
from napari_gsw.core.model.field import Field
from napari_gsw.core.sampler.moves.weight_kernels import Candidates
from napari_gsw.core.sampler.records import Target, Walker


@njit_inline
def feel_field(field: Field, walker: Walker, near: Candidates, root: int, around: int) -> int:
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
def lean_to(field: Field, i: int, name: int) -> float:
    """h_i(name) of a site and a cluster's name; 0 if it has none (-1) or one without a field."""
    return float(field.pull[i, name]) if 0 <= name < field.anchor.size else 0.0


@njit_inner
def merged_fields(target: Target, walker: Walker, name: int, names: Longs, pull: Floats) -> None:
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
            pull[last if place[i] == 1 else labels[i]] += lean_to(field, i, name)
        elif name < 0:
            for k in range(last + 1):
                pull[k] += lean_to(field, i, as_int64(names[k]))
