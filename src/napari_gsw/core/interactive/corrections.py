"""Pixels that a person has painted, kept so that a later stroke in the same site does not outvote them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.array_types import BoolArray, Float64Array, Int32Array, Int64Array, LabelImage, Sites
from napari_gsw.core.model.external_field import refine_field
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.posterior.object_edits import Edit, FixedPixels, find_fixed_sites, find_majority_labels
from napari_gsw.core.sampler.bonds import bonds_from_settings
from napari_gsw.core.sampler.chain import Chain, restart_from
from napari_gsw.core.settings import Settings
from napari_gsw.core.sites.scribbles import Scribble, find_mixed_sites


class PaintChange(NamedTuple):
    """What a stroke did to painted pixels: (p,) places in the flattened image, labels before and after; 0 is none."""

    pixels: Int64Array
    before: LabelImage
    after: LabelImage


def make_paint_change(paint: LabelImage, stroke: Scribble) -> PaintChange:
    """What a stroke does to what is painted (\\*shape,). A site that is erased loses all its paint."""
    pixels, after = stroke.pixels, stroke.labels
    erased = stroke.sites[stroke.numbers == 0]
    if erased.size:
        inside = np.zeros(int(stroke.site_image.max()) + 1, bool)
        inside[erased + 1] = True
        rest = np.setdiff1d(np.flatnonzero((paint.reshape(-1) != 0) & inside[stroke.site_image.reshape(-1)]), pixels)
        pixels, after = np.concatenate((pixels, rest)), np.concatenate((after, np.zeros(len(rest), np.int64)))
    return PaintChange(pixels, paint.reshape(-1)[pixels], after.astype(paint.dtype))


def find_conflicting_scribbles(
    stroke: Scribble, paint: LabelImage, locks: BoolArray, numbers: Int64Array
) -> LabelImage | None:
    """(\\*shape,) the paint in sites where a stroke meets another label that is kept there; None if it meets none.

    Parameters
    ----------
    paint : (\\*shape,) what was painted before, 0 where nothing was.
    locks, numbers : (n,) which sites are held, and the number of each. Paint of another number is of the past.
    """
    flat = stroke.site_image.reshape(-1)
    suspects = stroke.sites[locks[stroke.sites] & (stroke.numbers > 0) & (numbers[stroke.sites] != stroke.numbers)]
    suspects = np.union1d(suspects, _of_several_labels(stroke, flat))
    if not suspects.size:
        return None
    held = np.zeros(len(locks) + 1, np.int64)  # number that is kept in each suspect, by the number of the site
    held[suspects + 1] = np.where(locks[suspects], numbers[suspects], 0)
    strokes = np.where((paint > 0) & (held[stroke.site_image] == paint), paint, 0).astype(np.int64)
    mine = np.isin(flat[stroke.pixels] - 1, suspects)
    strokes.reshape(-1)[stroke.pixels[mine]] = stroke.labels[mine]
    return strokes if find_mixed_sites(stroke.site_image, strokes).size else None


def _of_several_labels(stroke: Scribble, flat: Sites) -> Int64Array:
    """(s,) sites, from 0, in which a stroke itself has several labels; `flat` has the site of each pixel."""
    painted = stroke.labels > 0
    if not painted.any() or stroke.labels[painted].min() == stroke.labels[painted].max():
        return np.zeros(0, np.int64)
    site, label = flat[stroke.pixels[painted]].astype(np.int64), stroke.labels[painted]
    number, labels_in = np.unique(np.unique(np.stack((site, label)), axis=1)[0], return_counts=True)
    return np.asarray(number[labels_in > 1] - 1)


@dataclass(frozen=True, eq=False)
class PixelChange:
    """What a correction did to fixed pixels, so that it can be undone and done again.

    Attributes
    ----------
    where : (p,) pixels, as places in the flattened image. before, after : (p,) int32, as in :class:`HeldPixels`.
    names : (p,) what was on the screen there before; it comes back with its number.
    unfinished_before, unfinished_after : numbers that go on where the chain says so.
    """

    where: Int64Array
    before: Int32Array
    after: Int32Array
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

    sites: Int64Array
    numbers: Int64Array
    locked: BoolArray


def pixel_change(held: FixedPixels | None, edit: Edit) -> PixelChange:
    """What an edit does to the pixels that are fixed so far."""
    before = np.zeros(len(edit.where), np.int32) if held is None else held.fixed.reshape(-1)[edit.where]
    open_before = frozenset() if held is None else held.unfinished
    complete = frozenset(np.unique(edit.values).tolist()) - edit.unfinished
    known = frozenset() if held is None else frozenset(np.unique(held.fixed).tolist()) - open_before
    after = (open_before | (edit.unfinished - known)) - complete
    return PixelChange(edit.where, before, edit.values, edit.shown.reshape(-1)[edit.where], open_before, after)


def released_pixels(held: FixedPixels, sites: Sites, freed: NDArray[np.integer]) -> PixelChange | None:
    """What lets go of the fixed pixels in some sites (s,), numbered from 0; None if there are none."""
    chosen = np.zeros(len(held.sites) + 1, bool)
    chosen[np.asarray(freed) + 1] = True
    where = np.flatnonzero((held.fixed.reshape(-1) != 0) & chosen[sites.reshape(-1)])
    if not where.size:
        return None
    before = held.fixed.reshape(-1)[where]
    names = held.names.reshape(-1)[where]
    return PixelChange(where, before, np.zeros_like(before), names, held.unfinished, held.unfinished)


def changed_pixels(held: FixedPixels | None, change: PixelChange, names: LabelImage, problem: Problem) -> FixedPixels:
    """The fixed pixels after a change; `names` (\\*shape,) is what was on the screen."""
    sites = problem.site_image
    fixed = np.zeros(sites.shape, np.int32) if held is None else held.fixed.copy()
    fixed.reshape(-1)[change.where] = change.after
    names = names.copy()
    names.reshape(-1)[change.where] = change.names
    return FixedPixels(fixed, names, find_fixed_sites(fixed, sites, problem.n), change.unfinished_after)


def edit_clamps(
    edit: Edit,
    before: FixedPixels | None,
    after: FixedPixels,
    problem: Problem,
    numbers: Int64Array,
    pixels: Float64Array,
) -> Clamps:
    """What an edit means for the clusters of the sites that it touches.

    Parameters
    ----------
    before, after : what is fixed without and with the edit. numbers : (n,) clusters. pixels : (n,) of each site.
    """
    mask = np.zeros(edit.shown.size, bool)
    mask[edit.where] = True
    sites, owner = find_majority_labels(after.fixed, problem.site_image, mask.reshape(edit.shown.shape))
    fate = after.sites[sites]
    wanted = (
        _foreground(sites, owner, numbers, pixels) if edit.objects else _shared(edit, sites, owner, problem, numbers)
    )
    background = int(np.bincount(numbers, pixels).argmax())
    target = np.where(fate > 0, wanted, np.where(fate < 0, background, 0))
    was = np.zeros(len(sites), bool) if before is None else before.sites[sites] != 0
    meant = (fate != 0) | was
    return Clamps(sites[meant], target[meant], fate[meant] != 0)


def _foreground(sites: Int64Array, owner: Int64Array, numbers: Int64Array, pixels: Float64Array) -> Int64Array:
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


def _shared(edit: Edit, sites: Int64Array, owner: Int64Array, problem: Problem, numbers: Int64Array) -> Int64Array:
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


class SiteSplit(NamedTuple):
    """The problem of the pieces, without a field, and (n,) of each piece the site that it was cut from."""

    problem: Problem
    parents: Int64Array


def map_split_sites(before: Problem, after: Problem) -> SiteSplit:
    """What two problems of the same image say of each other, where each site of the second lies in one of the first."""
    pieces, sites = after.site_image.reshape(-1), before.site_image.reshape(-1)
    parents = np.zeros(after.n, np.int64)
    inside = pieces > 0
    parents[pieces[inside] - 1] = sites[inside] - 1
    if after.map_field is not None:
        after = replace(after, map_field=refine_field(after.map_field, before.map_field, parents))
    return SiteSplit(after, parents)


def split_chain_sites(chain: Chain, problem: Problem, parents: Int64Array, settings: Settings) -> Chain:
    """The same chain on the pieces of its sites, under a field of theirs; an InputError if the prior forbids it."""
    own = replace(chain, options=chain.options.replace(bonds=bonds_from_settings(problem, settings)))
    return restart_from(own, chain.labels[parents], chain.seeds[parents], chain.options.burn_in, problem)
