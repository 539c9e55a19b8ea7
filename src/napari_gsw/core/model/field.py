"""The external field of the posterior: what named clusters, those that a person painted, say about every site.

    log posterior = log of eq. (14) + sum over names s, over sites i in the cluster of s, of h_i(s)

A name needs a cluster to belong to: that of its *anchor*, a site that is clamped and never leaves it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from napari_gsw.core.arrays import Floats, Ints, Longs
from napari_gsw.core.errors import InputError
from napari_gsw.core.inputs import float_array, plain_array

# A field beyond this would drown the last digits of everything else.
MOST_PULL = 1e6


class Field(NamedTuple):
    """h_i(name) for every site and every name that was painted."""

    pull: Floats  # (n, names) h_i(name), in log units; 0 is what a cluster without a name says
    anchor: Ints  # (names,) a clamped site of each


def no_field(n: int) -> Field:
    """The field of nobody."""
    return Field(np.zeros((n, 0)), np.zeros(0, np.int32))


def field_of(pull: ArrayLike, anchor: ArrayLike, n: int) -> Field:
    """A field from arrays that anybody may have made, or an InputError that says what is wrong with them.

    Parameters
    ----------
    pull : (n, names) finite. anchor : (names,) different sites.
    """
    h, sites = np.ascontiguousarray(float_array("field", pull)), plain_array("the anchors of a field", anchor)
    if sites.ndim != 1 or h.shape != (n, sites.size):
        raise InputError(f"a field must have a row for each of {n} sites and a column a name, not shape {h.shape}")
    if not np.isfinite(h).all() or np.abs(h).max(initial=0.0) > MOST_PULL:
        raise InputError(f"a field must be numbers in [{-MOST_PULL:g}, {MOST_PULL:g}]")
    if sites.size and (sites.dtype.kind not in "ui" or sites.min() < 0 or sites.max() >= n):
        raise InputError(f"the anchors of a field must be sites in [0, {n - 1}]")
    if len(np.unique(sites)) < sites.size:
        raise InputError("two names of a field must not share an anchor")
    return Field(h, sites.astype(np.int32))


def log_field(field: Field, labels: Longs) -> float:
    """Sum of h_i(name) over the sites i of each named cluster of labels (n,)."""
    names = range(field.anchor.size)
    return float(sum(field.pull[labels == labels[field.anchor[s]], s].sum() for s in names))


def named_seeds(field: Field, seeds: Ints) -> Ints:
    """(n,) the seeds with the numbers of the field's columns: names first, all other seeds after them, -1 for none."""
    if not field.anchor.size:
        return seeds
    own = seeds[field.anchor]
    if (own < 0).any() or len(np.unique(own)) < own.size:
        raise InputError("every anchor of a field must be clamped, each to a seed of its own")
    others = np.setdiff1d(seeds[seeds >= 0], own)
    known = np.concatenate((own, others))
    order = np.argsort(known)
    column = order[np.searchsorted(known, seeds, sorter=order).clip(max=known.size - 1)]
    return np.where(seeds >= 0, column, -1).astype(np.int32)
