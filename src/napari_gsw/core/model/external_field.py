"""The external field of the posterior: what named clusters, those that a person painted, say about every site.

    log posterior = log of eq. (14) + sum over names s, over sites i in the cluster of s, of h_i(s)

A name needs a cluster to belong to: that of its *anchor*, a site that is clamped and never leaves it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from napari_gsw.core.array_types import Float64Array, Int32Array, Int64Array
from napari_gsw.core.errors import InputError, to_array, to_float_array
from napari_gsw.core.settings import Settings

# A field beyond this would drown the last digits of everything else.
MAX_FIELD = 1e6


class ExternalField(NamedTuple):
    """h_i(name) for every site and every name that was painted."""

    pull: Float64Array  # (n, names) h_i(name), in log units; 0 is what a cluster without a name says
    anchor: Int32Array  # (names,) a clamped site of each


def make_empty_field(n: int) -> ExternalField:
    """The field of nobody."""
    return ExternalField(np.zeros((n, 0)), np.zeros(0, np.int32))


def make_field(pull: ArrayLike, anchor: ArrayLike, n: int) -> ExternalField:
    """A field from arrays that anybody may have made, or an InputError that says what is wrong with them.

    Parameters
    ----------
    pull : (n, names) finite. anchor : (names,) different sites.
    """
    h, sites = np.ascontiguousarray(to_float_array("field", pull)), to_array("the anchors of a field", anchor)
    if sites.ndim != 1 or h.shape != (n, sites.size):
        raise InputError(f"a field must have a row for each of {n} sites and a column a name, not shape {h.shape}")
    if not np.isfinite(h).all() or np.abs(h).max(initial=0.0) > MAX_FIELD:
        raise InputError(f"a field must be numbers in [{-MAX_FIELD:g}, {MAX_FIELD:g}]")
    if sites.size and (sites.dtype.kind not in "ui" or sites.min() < 0 or sites.max() >= n):
        raise InputError(f"the anchors of a field must be sites in [0, {n - 1}]")
    if len(np.unique(sites)) < sites.size:
        raise InputError("two names of a field must not share an anchor")
    return ExternalField(h, sites.astype(np.int32))


def compute_log_field(field: ExternalField, labels: Int64Array) -> float:
    """Sum of h_i(name) over the sites i of each named cluster of labels (n,)."""
    names = range(field.anchor.size)
    return float(sum(field.pull[labels == labels[field.anchor[s]], s].sum() for s in names))


def seeds_as_columns(field: ExternalField, seeds: Int32Array) -> Int32Array:
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


# The labels that a map of the foreground names.
BACKGROUND, FOREGROUND = 1, 2


class ForegroundField(NamedTuple):
    """What a map says of every site for each of its names."""

    pull: Float64Array  # (n, names) h_i(name)
    anchor: Int32Array  # (names,) a site of each, of which the map is surest
    number: Int32Array  # (names,) the label of each


def make_foreground_field(log_odds: Float64Array, settings: Settings) -> ForegroundField:
    """The field of a map, from (n,) mean log odds of the foreground over each site."""
    if log_odds.max() == log_odds.min():
        raise InputError("foreground says the same of every site; leave it out")
    pull = -settings.foreground_weight * log_odds[:, np.newaxis]
    anchor, number = [int(log_odds.argmin())], [BACKGROUND]
    if settings.foreground_names == "both":
        pull = np.concatenate((pull, -pull), axis=1)
        anchor, number = [*anchor, int(log_odds.argmax())], [*number, FOREGROUND]
    return ForegroundField(pull, np.array(anchor, np.int32), np.array(number, np.int32))


def add_anchors(field: ForegroundField | None, clamps: Int32Array | None) -> Int32Array | None:
    """(n,) what a person has clamped, -1 for a free site, and a site of every name of the map that nobody painted."""
    if field is None:
        return clamps
    n = len(field.pull)
    seeds = np.full(n, -1, np.int32) if clamps is None else clamps.copy()
    for s, number in enumerate(field.number.tolist()):
        if (seeds == number).any():
            continue
        site = int(field.anchor[s])
        if seeds[site] >= 0:  # somebody has painted something else there
            site = int(np.where(seeds < 0, field.pull[:, s], -np.inf).argmax())
        if seeds[site] < 0:
            seeds[site] = number
    return seeds


def drop_anchors(field: ForegroundField | None, clamps: Int32Array) -> Int32Array:
    """(n,) the clamps but for those that are there for a map alone; these are no strokes."""
    if field is None:
        return clamps
    strokes = clamps.copy()
    own = clamps[field.anchor] == field.number
    strokes[field.anchor[own]] = -1
    return strokes


def add_foreground_field(
    field: ForegroundField | None, strokes: ExternalField | None, clamps: Int32Array
) -> ExternalField | None:
    """The field of strokes and of a map together, with a column for each name that has one, by number.

    Parameters
    ----------
    strokes : of the numbers that a person has painted, in their order; its anchors are clamped to them.
    clamps : (n,) number of a clamped site, -1 for a free one.
    """
    if field is None:
        return strokes
    columns: dict[int, tuple[Float64Array, int]] = {}
    if strokes is not None:
        for s, site in enumerate(strokes.anchor.tolist()):
            columns[int(clamps[site])] = strokes.pull[:, s], site
    for s, number in enumerate(field.number.tolist()):
        sites = np.flatnonzero(clamps == number)
        if not sites.size:
            continue
        before, site = columns.get(number, (np.zeros(len(clamps)), int(sites[0])))
        pull = np.where(clamps >= 0, before, before + field.pull[:, s])
        columns[number] = pull, site
    if not columns:
        return None
    numbers = sorted(columns)
    pulls = np.stack([columns[k][0] for k in numbers], axis=1)
    return ExternalField(pulls, np.array([columns[k][1] for k in numbers], np.int32))


def refine_field(
    field: ForegroundField | None, before: ForegroundField | None, parents: Int64Array
) -> ForegroundField | None:
    """The field of a problem whose sites were cut, with anchors in the sites where they were before.

    Parameters
    ----------
    parents : (n,) of each piece the site that it was cut from.
    """
    if field is None or before is None:
        return field
    anchor = [int(np.flatnonzero(parents == site)[0]) for site in before.anchor.tolist()]
    return field._replace(anchor=np.array(anchor, np.int32))
