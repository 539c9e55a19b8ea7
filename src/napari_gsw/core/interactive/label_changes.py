"""Scribbles and edits of objects as changed pixels, clamps and split sites."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.array_types import BoolArray, Float64Array, Int64Array, LabelImage, Sites
from napari_gsw.core.model.external_field import refine_field
from napari_gsw.core.model.problem import Problem
from napari_gsw.core.posterior.object_edits import Edit, FixedPixels, find_fixed_sites, find_majority_labels
from napari_gsw.core.sites.scribbles import Scribble, find_mixed_sites


class LabelChange(NamedTuple):
    """Change of painted or fixed pixels: (p,) indices into the flattened image, labels before and after.

    Of fixed pixels it has the labels on the screen, too, and the labels that stay unfinished before and after.
    """

    pixels: Int64Array
    before: LabelImage
    after: LabelImage
    names: LabelImage | None = None
    unfinished_before: frozenset[int] = frozenset()
    unfinished_after: frozenset[int] = frozenset()

    @property
    def reverse(self) -> LabelChange:
        """The change that takes this one back."""
        pixels, before, after, names, unfinished_before, unfinished_after = self
        return LabelChange(pixels, after, before, names, unfinished_after, unfinished_before)


def change_of_paint(paint: LabelImage, scribble: Scribble) -> LabelChange:
    r"""Return what a scribble changes in the paint (\*shape,). A site that is erased loses all its paint."""
    pixels, after = scribble.pixels, scribble.labels
    erased = scribble.sites[scribble.numbers == 0]
    if erased.size:
        is_erased = np.zeros(int(scribble.site_image.max()) + 1, bool)
        is_erased[erased + 1] = True
        painted = np.flatnonzero((paint.reshape(-1) != 0) & is_erased[scribble.site_image.reshape(-1)])
        rest = np.setdiff1d(painted, pixels)
        pixels, after = np.concatenate((pixels, rest)), np.concatenate((after, np.zeros(len(rest), np.int64)))
    return LabelChange(pixels, paint.reshape(-1)[pixels], after.astype(paint.dtype))


def find_conflicting_scribbles(
    scribble: Scribble, paint: LabelImage, locks: BoolArray, labels: Int64Array
) -> LabelImage | None:
    r"""Return (\*shape,) the paint in sites where a scribble meets another locked label, or None if it meets none.

    `paint` (\*shape,) is what was painted before; paint of another label than its site's is obsolete.
    """
    flat, sites = scribble.site_image.reshape(-1), scribble.sites
    sites = sites[locks[sites] & (scribble.numbers > 0) & (labels[sites] != scribble.numbers)]
    sites = np.union1d(sites, _find_sites_with_several_labels(scribble, flat))
    if not sites.size:
        return None
    kept = np.zeros(len(locks) + 1, np.int64)  # label that is locked in each of these sites, by its number
    kept[sites + 1] = np.where(locks[sites], labels[sites], 0)
    result = np.where((paint > 0) & (kept[scribble.site_image] == paint), paint, 0).astype(np.int64)
    is_inside = np.isin(flat[scribble.pixels] - 1, sites)
    result.reshape(-1)[scribble.pixels[is_inside]] = scribble.labels[is_inside]
    return result if find_mixed_sites(scribble.site_image, result).size else None


def _find_sites_with_several_labels(scribble: Scribble, flat: Sites) -> Int64Array:
    """(s,) sites, from 0, in which a scribble itself has several labels; `flat` is the flattened site image."""
    painted = scribble.labels > 0
    if not painted.any() or scribble.labels[painted].min() == scribble.labels[painted].max():
        return np.zeros(0, np.int64)
    site, label = flat[scribble.pixels[painted]].astype(np.int64), scribble.labels[painted]
    number, n_labels = np.unique(np.unique(np.stack((site, label)), axis=1)[0], return_counts=True)
    return np.asarray(number[n_labels > 1] - 1)


def change_of_edit(fixed: FixedPixels | None, edit: Edit) -> LabelChange:
    """Return what an edit changes in the fixed pixels."""
    before, open_before, known = np.zeros(len(edit.where), np.int32), frozenset[int](), frozenset[int]()
    if fixed is not None:
        before, open_before = fixed.fixed.reshape(-1)[edit.where], fixed.unfinished
        known = frozenset(np.unique(fixed.fixed).tolist()) - open_before
    complete = frozenset(np.unique(edit.values).tolist()) - edit.unfinished
    after = (open_before | (edit.unfinished - known)) - complete
    return LabelChange(edit.where, before, edit.values, edit.shown.reshape(-1)[edit.where], open_before, after)


def change_of_release(fixed: FixedPixels, site_image: Sites, sites: NDArray[np.integer]) -> LabelChange | None:
    """Return the release of the fixed pixels in some sites (s,), from 0; None if there are none."""
    is_freed = np.zeros(len(fixed.sites) + 1, bool)
    is_freed[np.asarray(sites) + 1] = True
    pixels = np.flatnonzero((fixed.fixed.reshape(-1) != 0) & is_freed[site_image.reshape(-1)])
    if not pixels.size:
        return None
    before, names = fixed.fixed.reshape(-1)[pixels], fixed.names.reshape(-1)[pixels]
    return LabelChange(pixels, before, np.zeros_like(before), names, fixed.unfinished, fixed.unfinished)


def apply_change(fixed: FixedPixels | None, change: LabelChange, shown: LabelImage, problem: Problem) -> FixedPixels:
    r"""Return the fixed pixels after a change; `shown` (\*shape,) is what was on the screen."""
    site_image = problem.site_image
    labels = np.zeros(site_image.shape, np.int32) if fixed is None else fixed.fixed.copy()
    labels.reshape(-1)[change.pixels] = change.after
    names = shown.copy()
    if change.names is not None:
        names.reshape(-1)[change.pixels] = change.names
    return FixedPixels(labels, names, find_fixed_sites(labels, site_image, problem.n), change.unfinished_after)


def clamps_of_edit(
    edit: Edit,
    before: FixedPixels | None,
    after: FixedPixels,
    problem: Problem,
    labels: Int64Array,
    pixels: Float64Array,
) -> tuple[Int64Array, Int64Array, BoolArray]:
    """Return (s,) sites that an edit means, their labels from now on (0 frees a site), and whether they are locked.

    `labels` and `pixels` (n,) are cluster and number of pixels of each site.
    """
    mask = np.zeros(edit.shown.size, bool)
    mask[edit.where] = True
    sites, owner = find_majority_labels(after.fixed, problem.site_image, mask.reshape(edit.shown.shape))
    fate = after.sites[sites]
    if edit.objects:
        wanted = _foreground_clusters(sites, owner, labels, pixels)
    else:
        wanted = _region_clusters(edit, sites, owner, problem, labels)
    background = int(np.bincount(labels, pixels).argmax())
    target = np.where(fate > 0, wanted, np.where(fate < 0, background, 0))
    was_fixed = np.zeros(len(sites), bool) if before is None else before.sites[sites] != 0
    is_meant = (fate != 0) | was_fixed
    return sites[is_meant], target[is_meant], fate[is_meant] != 0


def _foreground_clusters(sites: Int64Array, owner: Int64Array, labels: Int64Array, pixels: Float64Array) -> Int64Array:
    """(s,) cluster of each site of the foreground; of others that of most of their object, or of most objects."""
    size = np.bincount(labels, pixels)
    background = int(size.argmax())
    size[background] = 0
    # Without any foreground the first drawn object begins a new cluster.
    commonest = int(size.argmax()) if size.any() else background + 1
    clusters = labels[sites]
    result = clusters.copy()
    for number in np.unique(owner[clusters == background]).tolist():
        is_object = owner == number
        known = is_object & (clusters != background)
        cluster = int(np.bincount(clusters[known], pixels[sites[known]]).argmax()) if known.any() else commonest
        result[is_object & (clusters == background)] = cluster
    return result


def _region_clusters(
    edit: Edit, sites: Int64Array, owner: Int64Array, problem: Problem, labels: Int64Array
) -> Int64Array:
    """(s,) cluster of most of a site's region; of a deleted one, of the region that the site goes to."""
    region = problem.majority_under(edit.after)
    size = np.bincount(problem.site_image.ravel(), minlength=problem.n + 1)[1:].astype(np.float64)
    if edit.what == "delete":
        size[sites] = 0.0
    result = labels[sites].copy()
    for number in np.unique(owner[owner > 0]).tolist():
        votes = np.bincount(labels[region == number], size[region == number])
        if votes.any():
            result[owner == number] = int(votes.argmax())
    return result


def map_split_sites(before: Problem, after: Problem) -> tuple[Problem, Int64Array]:
    """Return the problem of split sites, without a field, and (n,) the site that each piece was part of."""
    pieces, sites = after.site_image.reshape(-1), before.site_image.reshape(-1)
    parents = np.zeros(after.n, np.int64)
    parents[pieces[pieces > 0] - 1] = sites[pieces > 0] - 1
    if after.map_field is not None:
        after = replace(after, map_field=refine_field(after.map_field, before.map_field, parents))
    return after, parents
