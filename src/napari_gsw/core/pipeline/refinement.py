"""A problem whose sites were cut: what belonged to a site belongs to each of its pieces."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from napari_gsw.core.arrays import Longs
from napari_gsw.core.model.map_field import carried_field
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.sampler.bonds import from_settings
from napari_gsw.core.sampler.chain import Chain
from napari_gsw.core.sampler.start import redirected
from napari_gsw.core.settings import Settings


class Refinement(NamedTuple):
    """The problem of the pieces, without a field, and (n,) of each piece the site that it was cut from."""

    problem: Problem
    parents: Longs


def refinement(before: Problem, after: Problem) -> Refinement:
    """What two problems of the same image say of each other, where each site of the second lies in one of the first."""
    pieces, sites = after.site_image.reshape(-1), before.site_image.reshape(-1)
    parents = np.zeros(after.n, np.int64)
    inside = pieces > 0
    parents[pieces[inside] - 1] = sites[inside] - 1
    if after.map_field is not None:
        after = replace(after, map_field=carried_field(after.map_field, before.map_field, parents))
    return Refinement(after, parents)


def refined_chain(chain: Chain, problem: Problem, parents: Longs, settings: Settings) -> Chain:
    """The same chain on the pieces of its sites, under a field of theirs; an InputError if the prior forbids it."""
    own = replace(chain, options=chain.options.replace(bonds=from_settings(problem, settings)))
    return redirected(own, chain.labels[parents], chain.seeds[parents], chain.options.burn_in, problem)
