"""A map of the foreground -> the field of clusters that have names though nobody has painted them.

    h_i(background) = -foreground_weight * mean log odds of the foreground over site i = -h_i(foreground)

It is the field of strokes (:mod:`napari_gsw.core.model.field`). A name needs a site that is clamped to its cluster: the
one of which the map is surest, unless a person has painted the name somewhere.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from napari_gsw.core.arrays import Floats, Ints, Longs
from napari_gsw.core.errors import InputError
from napari_gsw.core.model.field import Field
from napari_gsw.core.settings import Settings

# The labels that a map of the foreground names.
BACKGROUND, FOREGROUND = 1, 2


class MapField(NamedTuple):
    """What a map says of every site for each of its names."""

    pull: Floats  # (n, names) h_i(name)
    anchor: Ints  # (names,) a site of each, of which the map is surest
    number: Ints  # (names,) the label of each


def foreground_field(log_odds: Floats, settings: Settings) -> MapField:
    """The field of a map, from (n,) mean log odds of the foreground over each site."""
    if log_odds.max() == log_odds.min():
        raise InputError("foreground says the same of every site; leave it out")
    pull = -settings.foreground_weight * log_odds[:, np.newaxis]
    anchor, number = [int(log_odds.argmin())], [BACKGROUND]
    if settings.foreground_names == "both":
        pull = np.concatenate((pull, -pull), axis=1)
        anchor, number = [*anchor, int(log_odds.argmax())], [*number, FOREGROUND]
    return MapField(pull, np.array(anchor, np.int32), np.array(number, np.int32))


def anchored(field: MapField | None, clamps: Ints | None) -> Ints | None:
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


def without_anchors(field: MapField | None, clamps: Ints) -> Ints:
    """(n,) the clamps but for those that are there for a map alone; these are no strokes."""
    if field is None:
        return clamps
    strokes = clamps.copy()
    own = clamps[field.anchor] == field.number
    strokes[field.anchor[own]] = -1
    return strokes


def with_map(field: MapField | None, strokes: Field | None, clamps: Ints) -> Field | None:
    """The field of strokes and of a map together, with a column for each name that has one, by number.

    Parameters
    ----------
    strokes : of the numbers that a person has painted, in their order; its anchors are clamped to them.
    clamps : (n,) number of a clamped site, -1 for a free one.
    """
    if field is None:
        return strokes
    columns: dict[int, tuple[Floats, int]] = {}
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
    return Field(pulls, np.array([columns[k][1] for k in numbers], np.int32))


def carried_field(field: MapField | None, before: MapField | None, parents: Longs) -> MapField | None:
    """The field of a problem whose sites were cut, with anchors in the sites where they were before.

    Parameters
    ----------
    parents : (n,) of each piece the site that it was cut from.
    """
    if field is None or before is None:
        return field
    anchor = [int(np.flatnonzero(parents == site)[0]) for site in before.anchor.tolist()]
    return field._replace(anchor=np.array(anchor, np.int32))
