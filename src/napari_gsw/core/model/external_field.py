"""External field of the posterior: what named clusters, usually those of scribbles, add for every site.

    log posterior = log of eq. (14) + sum over names s, over sites i in the cluster of s, of h_i(s)

A name belongs to the cluster of its *anchor*, a site that is clamped and so never leaves it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from napari_gsw.core.array_types import Float64Array, Int32Array, Int64Array
from napari_gsw.core.errors import InputError, to_array, to_float_array
from napari_gsw.core.settings import Settings

# A larger field would cost the last digits of everything else.
MAX_FIELD = 1e6
# Labels that a foreground map names.
BACKGROUND, FOREGROUND = 1, 2


class ExternalField(NamedTuple):
    """h_i(name) for every site and name."""

    pull: Float64Array  # (n, names) h_i(name), in log units; 0 for clusters without a name
    anchor: Int32Array  # (names,) a clamped site of each


class ForegroundField(NamedTuple):
    """h_i(name) by a foreground map."""

    pull: Float64Array  # (n, names) h_i(name)
    anchor: Int32Array  # (names,) the most probable site of each
    number: Int32Array  # (names,) the label of each


def make_field(pull: ArrayLike, anchor: ArrayLike, n: int) -> ExternalField:
    """Check and make a field: `pull` (n, names) is finite, and `anchor` (names,) are different sites."""
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
    """Sum h_i(name) over the sites i of each named cluster of labels (n,)."""
    names = range(field.anchor.size)
    return float(sum(field.pull[labels == labels[field.anchor[s]], s].sum() for s in names))


def seeds_as_columns(field: ExternalField, seeds: Int32Array) -> Int32Array:
    """Renumber seeds (n,) by the columns of the field: names first, then all other seeds, -1 for none."""
    if not field.anchor.size:
        return seeds
    named = seeds[field.anchor]
    if (named < 0).any() or len(np.unique(named)) < named.size:
        raise InputError("every anchor of a field must be clamped, each to a seed of its own")
    all_seeds = np.concatenate((named, np.setdiff1d(seeds[seeds >= 0], named)))
    order = np.argsort(all_seeds)
    column = order[np.searchsorted(all_seeds, seeds, sorter=order).clip(max=all_seeds.size - 1)]
    return np.where(seeds >= 0, column, -1).astype(np.int32)


def make_foreground_field(log_odds: Float64Array, settings: Settings) -> ForegroundField:
    """Make the field of a map from (n,) mean log odds of the foreground over each site."""
    if log_odds.max() == log_odds.min():
        raise InputError("foreground says the same of every site; leave it out")
    pull = -settings.foreground_weight * log_odds[:, np.newaxis]
    anchor, number = [int(log_odds.argmin())], [BACKGROUND]
    if settings.foreground_names == "both":
        pull = np.concatenate((pull, -pull), axis=1)
        anchor, number = [*anchor, int(log_odds.argmax())], [*number, FOREGROUND]
    return ForegroundField(pull, np.array(anchor, np.int32), np.array(number, np.int32))


def add_anchors(field: ForegroundField | None, clamps: Int32Array | None) -> Int32Array | None:
    """Clamp a site for every name of a map that no scribble has; clamps (n,) are -1 for a free site."""
    if field is None:
        return clamps
    seeds = np.full(len(field.pull), -1, np.int32) if clamps is None else clamps.copy()
    for number, site, pull in zip(field.number.tolist(), field.anchor.tolist(), field.pull.T, strict=True):
        if seeds[site] >= 0:  # it has the scribble of another label
            site = int(np.where(seeds < 0, pull, -np.inf).argmax())
        if seeds[site] < 0 and not (seeds == number).any():
            seeds[site] = number
    return seeds


def drop_anchors(field: ForegroundField | None, clamps: Int32Array) -> Int32Array:
    """Remove the clamps (n,) that :func:`add_anchors` has made, so that those of scribbles remain."""
    if field is None:
        return clamps
    scribbles = clamps.copy()
    scribbles[field.anchor[clamps[field.anchor] == field.number]] = -1
    return scribbles


def add_foreground_field(
    field: ForegroundField | None, scribbles: ExternalField | None, clamps: Int32Array
) -> ExternalField | None:
    """Add the field of a map to that of scribbles, whose anchors are clamped; columns are sorted by label.

    `clamps` (n,) are labels, -1 for a free site.
    """
    if field is None:
        return scribbles
    columns: dict[int, tuple[Float64Array, int]] = {}
    if scribbles is not None:
        for site, pull in zip(scribbles.anchor.tolist(), scribbles.pull.T, strict=True):
            columns[int(clamps[site])] = pull, site
    for number, of_map in zip(field.number.tolist(), field.pull.T, strict=True):
        if (clamps == number).any():
            pull, site = columns.get(number, (np.zeros(len(clamps)), int((clamps == number).argmax())))
            columns[number] = np.where(clamps >= 0, pull, pull + of_map), site
    if not columns:
        return None
    pulls, anchors = zip(*(columns[number] for number in sorted(columns)), strict=True)
    return ExternalField(np.stack(pulls, axis=1), np.array(anchors, np.int32))


def refine_field(
    field: ForegroundField | None, before: ForegroundField | None, parents: Int64Array
) -> ForegroundField | None:
    """Move the anchors of a field to where they were before its sites were split from their `parents` (n,)."""
    if field is None or before is None:
        return field
    return field._replace(anchor=np.array([(parents == site).argmax() for site in before.anchor], np.int32))
