"""An edit of objects or regions -> what it means for clusters: which sites are clamped, and where.

An object is a foreground cluster wherever it is fixed, and a deleted one is background. The sites of a region that was
merged or drawn share a cluster, those of a deleted one go to the clusters of its heirs. What an edit says, it says of
these sites alone: it does not teach the chain what else looks like them, since a deleted nucleus looks like the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.arrays import Floats, Ints, LabelImage, Longs, Mask, Sites
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.posterior.held_pixels import HeldPixels, held_sites, site_votes
from napari_gsw.core.posterior.object_edits import Edit


@dataclass(frozen=True, eq=False)
class PixelChange:
    """What a correction did to fixed pixels, so that it can be undone and done again.

    Attributes
    ----------
    where : (p,) pixels, as places in the flattened image. before, after : (p,) int32, as in :class:`HeldPixels`.
    names : (p,) what was on the screen there before; it comes back with its number.
    unfinished_before, unfinished_after : numbers that go on where the chain says so.
    """

    where: Longs
    before: Ints
    after: Ints
    names: LabelImage
    unfinished_before: frozenset[int]
    unfinished_after: frozenset[int]

    @property
    def reverse(self) -> PixelChange:
        """What takes it back."""
        return PixelChange(
            self.where, self.after, self.before, self.names, self.unfinished_after, self.unfinished_before
        )


class Clamps(NamedTuple):
    """(s,) sites that an edit means, their numbers from now on (0 leaves a site to the chain), whether locked."""

    sites: Longs
    numbers: Longs
    locked: Mask


def pixel_change(held: HeldPixels | None, edit: Edit) -> PixelChange:
    """What an edit does to the pixels that are fixed so far."""
    before = np.zeros(len(edit.where), np.int32) if held is None else held.fixed.reshape(-1)[edit.where]
    open_before = frozenset() if held is None else held.unfinished
    complete = frozenset(np.unique(edit.values).tolist()) - edit.unfinished
    known = frozenset() if held is None else frozenset(np.unique(held.fixed).tolist()) - open_before
    after = (open_before | (edit.unfinished - known)) - complete
    return PixelChange(edit.where, before, edit.values, edit.shown.reshape(-1)[edit.where], open_before, after)


def released_pixels(held: HeldPixels, sites: Sites, freed: NDArray[np.integer]) -> PixelChange | None:
    """What lets go of the fixed pixels in some sites (s,), numbered from 0; None if there are none."""
    chosen = np.zeros(len(held.sites) + 1, bool)
    chosen[np.asarray(freed) + 1] = True
    where = np.flatnonzero((held.fixed.reshape(-1) != 0) & chosen[sites.reshape(-1)])
    if not where.size:
        return None
    before = held.fixed.reshape(-1)[where]
    names = held.names.reshape(-1)[where]
    return PixelChange(where, before, np.zeros_like(before), names, held.unfinished, held.unfinished)


def changed_pixels(held: HeldPixels | None, change: PixelChange, names: LabelImage, problem: Problem) -> HeldPixels:
    """The fixed pixels after a change; `names` (\\*shape,) is what was on the screen."""
    sites = problem.site_image
    fixed = np.zeros(sites.shape, np.int32) if held is None else held.fixed.copy()
    fixed.reshape(-1)[change.where] = change.after
    names = names.copy()
    names.reshape(-1)[change.where] = change.names
    return HeldPixels(fixed, names, held_sites(fixed, sites, problem.n), change.unfinished_after)


def edit_clamps(
    edit: Edit, before: HeldPixels | None, after: HeldPixels, problem: Problem, numbers: Longs, pixels: Floats
) -> Clamps:
    """What an edit means for the clusters of the sites that it touches.

    Parameters
    ----------
    before, after : what is fixed without and with the edit. numbers : (n,) clusters. pixels : (n,) of each site.
    """
    mask = np.zeros(edit.shown.size, bool)
    mask[edit.where] = True
    sites, owner = site_votes(after.fixed, problem.site_image, mask.reshape(edit.shown.shape))
    fate = after.sites[sites]
    wanted = (
        _foreground(sites, owner, numbers, pixels) if edit.objects else _shared(edit, sites, owner, problem, numbers)
    )
    background = int(np.bincount(numbers, pixels).argmax())
    target = np.where(fate > 0, wanted, np.where(fate < 0, background, 0))
    was = np.zeros(len(sites), bool) if before is None else before.sites[sites] != 0
    meant = (fate != 0) | was
    return Clamps(sites[meant], target[meant], fate[meant] != 0)


def _foreground(sites: Longs, owner: Longs, numbers: Longs, pixels: Floats) -> Longs:
    """(s,) its own cluster for a site of the foreground; else that of most of its object, or of most objects."""
    size = np.bincount(numbers, pixels)
    background = int(size.argmax())
    size[background] = 0
    # Without any foreground a drawn object begins one.
    usual = int(size.argmax()) if size.any() else background + 1
    own = numbers[sites]
    result = own.copy()
    for number in np.unique(owner[own == background]).tolist():
        mine = (owner == number) & (own != background)
        commonest = int(np.bincount(own[mine], pixels[sites[mine]]).argmax()) if mine.any() else usual
        result[(owner == number) & (own == background)] = commonest
    return result


def _shared(edit: Edit, sites: Longs, owner: Longs, problem: Problem, numbers: Longs) -> Longs:
    """(s,) the cluster that most of a site's region has; of a deleted one, the cluster of the region it goes to."""
    region = problem.majority_under(edit.after)
    size = np.bincount(problem.site_image.ravel(), minlength=problem.n + 1)[1:].astype(np.float64)
    if edit.what == "delete":
        size[sites] = 0.0
    result = numbers[sites].copy()
    for number in np.unique(owner[owner > 0]).tolist():
        votes = np.bincount(numbers[region == number], size[region == number])
        if votes.any():
            result[owner == number] = int(votes.argmax())
    return result
