"""Labels of sites: matched from state to state of a chain for the user, and changed by scribbles and edits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from napari_gsw.core.array_types import BoolArray, Float64Array, Int32Array, Int64Array, LabelImage, Sites
from napari_gsw.core.interactive.action_log import LabelChange
from napari_gsw.core.model.external_field import refine_field
from napari_gsw.core.model.problem import Problem, log_posterior, site_pixels
from napari_gsw.core.partitions import canonical_labels
from napari_gsw.core.posterior.object_edits import Edit, FixedPixels, find_fixed_sites
from napari_gsw.core.posterior.objects import find_free_labels
from napari_gsw.core.sites.scribbles import Scribble, find_mixed_sites
from napari_gsw.core.sites.site_values import find_site_majority
from napari_gsw.core.special import number_labels

# Entries of a table of clusters and labels up to which they are matched with the largest sum; beyond, greedily.
MAX_MATCHED = 2**22


def match_labels(
    clusters: NDArray[np.integer], shown: NDArray[np.integer], weight: NDArray[np.floating]
) -> NDArray[np.int64]:
    """(n,) positive labels of clusters, so that as much weight (n,) as possible keeps its positive label in `shown`.

    A cluster without a counterpart takes the smallest label that is not on the screen.

    Examples
    --------
    >>> match_labels(np.array([0, 0, 1, 2]), np.array([5, 5, 5, 3]), np.ones(4)).tolist()
    [5, 5, 1, 3]
    """
    from scipy.optimize import linear_sum_assignment

    # In the order of first sites, since a saved chain may number its clusters in another way.
    i, (old, j) = canonical_labels(clusters.astype(np.int32)).astype(np.int64), number_labels(shown)
    k = int(i.max()) + 1
    pair, index = np.unique(i * len(old) + j, return_inverse=True)
    overlap = np.bincount(index, weight).astype(float)
    if k * len(old) <= MAX_MATCHED:
        table = np.zeros((k, len(old)))
        table.flat[pair] = overlap
        rows, columns = linear_sum_assignment(table, maximize=True)
        is_kept = table[rows, columns] > 0
        rows, columns = rows[is_kept], columns[is_kept]
    else:
        rows, columns = _match_greedily(*np.divmod(pair, len(old)), overlap)
    label = np.zeros(k, np.int64)
    label[rows] = old[columns]
    label[label == 0] = find_free_labels(int((label == 0).sum()), old)
    return np.asarray(label[i])


def _match_greedily(
    rows: Int64Array, columns: Int64Array, overlap: NDArray[np.floating]
) -> tuple[Int64Array, Int64Array]:
    """Match rows with columns, each at most once, those with the largest overlap first."""
    order = np.lexsort((columns, rows, -overlap))
    left = np.stack((rows, columns))[:, order[overlap[order] > 0]]
    matched = [left[:, :0]]
    while left.size:
        # The first pair of both its row and its column: no other choice can take either away.
        is_first = np.zeros(left.shape, bool)
        for side, first in zip(left, is_first, strict=True):
            first[np.unique(side, return_index=True)[1]] = True
        best = left[:, is_first.all(axis=0)]
        matched.append(best)
        left = left[:, ~np.isin(left[0], best[0]) & ~np.isin(left[1], best[1])]
    rows, columns = np.concatenate(matched, axis=1)
    return rows, columns


def match_painted_labels(problem: Problem, labels: Int64Array, seeds: Int32Array) -> Int64Array:
    """Give a site the painted label with the largest field, if only painted labels are allowed and it has another.

    `seeds` (n,) are the labels of locked sites, -1 for a free one.
    """
    if not problem.closed:
        return labels
    names, count = np.unique(seeds[seeds >= 0], return_counts=True)
    field = problem.field
    best = np.full(problem.n, names[count.argmax()]) if field is None else names[field.pull.argmax(axis=1)]
    return np.where(np.isin(labels, names), labels, best).astype(np.int64)


def propose_labels(problem: Problem, labels: Int64Array, seeds: Int32Array, before: Int64Array) -> Int64Array:
    """Return the labels, or others that a scribble may have meant, whichever are most probable.

    Either every site takes the label of its field, or the whole cluster under the scribbles of a label follows them:
    site by site a chain would take long to find that. `seeds` as above; `before` (n,) are the labels before.
    """
    field = problem.field
    if field is None:
        return labels
    is_pulled = (seeds < 0) & (field.pull.max(axis=1) > 0)
    names = seeds[field.anchor].astype(np.int64)
    states = [labels, np.where(is_pulled, names[field.pull.argmax(axis=1)], labels)]
    for name in names.tolist():
        under = np.bincount(before[seeds == name]).argmax()
        if under != name and under not in names:
            states.append(np.where((labels == under) & (seeds < 0), name, labels))
    return max(states, key=lambda state: log_posterior(problem, state))


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
    if np.unique(scribble.labels[scribble.labels > 0]).size > 1:
        sites = np.union1d(sites, find_mixed_sites(flat[scribble.pixels], scribble.labels) - 1)
    if not sites.size:
        return None
    kept = np.zeros(len(locks) + 1, np.int64)  # label that is locked in each of these sites, by its number
    kept[sites + 1] = np.where(locks[sites], labels[sites], 0)
    result = np.where((paint > 0) & (kept[scribble.site_image] == paint), paint, 0).astype(np.int64)
    is_inside = np.isin(flat[scribble.pixels] - 1, sites)
    result.reshape(-1)[scribble.pixels[is_inside]] = scribble.labels[is_inside]
    return result if find_mixed_sites(scribble.site_image, result).size else None


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
    edit: Edit, before: FixedPixels | None, after: FixedPixels, problem: Problem, labels: Int64Array
) -> tuple[Int64Array, Int64Array, BoolArray]:
    """Return (s,) sites that an edit means, their labels from now on (0 frees a site), and whether they are locked.

    `labels` (n,) are the clusters of the sites.
    """
    mask = np.zeros(edit.shown.size, bool)
    mask[edit.where] = True
    near = np.where(mask.reshape(edit.shown.shape), problem.site_image, 0)
    sites = np.unique(near[near > 0]).astype(np.int64) - 1
    owner = find_site_majority(near, problem.n, after.fixed + 1)[sites] - 1
    fate, pixels, now = after.sites[sites], site_pixels(problem), labels[sites]
    size = np.bincount(labels, pixels)
    background = int(size.argmax())
    if edit.objects:
        # A site of the background takes the cluster of most of its object, or of most objects; without any foreground
        # the first drawn object begins a new cluster.
        size[background] = 0
        commonest = int(size.argmax()) if size.any() else background + 1
        votes = _count_votes(owner + 1, now, pixels[sites] * (now != background))[owner + 1]
        wanted = np.where(votes.any(axis=1), votes.argmax(axis=1), commonest)
        wanted = np.where(now == background, wanted, now)
    else:
        # A site takes the cluster of most of its region; of a deleted one, of the region that it goes to.
        if edit.what == "delete":
            pixels[sites] = 0.0
        votes = _count_votes(problem.majority_under(edit.after), labels, pixels, int(owner.max(initial=0)) + 1)[owner]
        wanted = np.where((owner > 0) & votes.any(axis=1), votes.argmax(axis=1), now)
    target = np.where(fate > 0, wanted, np.where(fate < 0, background, 0))
    was_fixed = np.zeros(len(sites), bool) if before is None else before.sites[sites] != 0
    is_meant = (fate != 0) | was_fixed
    return sites[is_meant], target[is_meant], fate[is_meant] != 0


def _count_votes(groups: Int64Array, labels: Int64Array, weight: Float64Array, n_groups: int = 1) -> Float64Array:
    """Sum the weight of each label in each group: (groups, labels)."""
    shape = max(n_groups, int(groups.max(initial=0)) + 1), int(labels.max(initial=0)) + 1
    return np.bincount(groups * shape[1] + labels, weight, shape[0] * shape[1]).reshape(shape).astype(np.float64)


def map_split_sites(before: Problem, after: Problem) -> tuple[Problem, Int64Array]:
    """Return the problem of split sites, without a field, and (n,) the site that each piece was part of."""
    pieces, sites = after.site_image.reshape(-1), before.site_image.reshape(-1)
    parents = np.zeros(after.n, np.int64)
    parents[pieces[pieces > 0] - 1] = sites[pieces > 0] - 1
    if after.map_field is not None:
        after = replace(after, map_field=refine_field(after.map_field, before.map_field, parents))
    return after, parents
