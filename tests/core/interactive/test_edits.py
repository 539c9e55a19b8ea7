"""Objects that a person has fixed, in a chain that goes on: clamps, labels, undo, and a chain that takes over."""

from __future__ import annotations

import numpy as np
import pytest

import napari_gsw as gsw
from napari_gsw.core.errors import InputError
from napari_gsw.core.interactive.interactive_run import InteractiveRun
from napari_gsw.core.model.problem import site_pixels
from napari_gsw.core.posterior.object_edits import (
    accept_object,
    delete_object,
    draw_object,
    merge_objects,
    split_objects,
)
from napari_gsw.sample_data import mosaic
from pictures import CENTRES, cells

IMAGE, TRUTH = cells()
SWEEPS = 12


@pytest.fixture(scope="module")
def problem():
    return gsw.prepare(IMAGE, preset="microscopy", objects="classical", sweeps=SWEEPS)


def drain(live, sweeps=SWEEPS):
    live.run_for(sweeps)
    while live.sweep < live.target:
        live.advance()
    return live


@pytest.fixture
def live(problem):
    return drain(InteractiveRun(problem, problem.settings, seed=1))


def at(labels, centre):
    return int(labels[CENTRES[centre]])


def column(where, first, last):
    mask = np.zeros(IMAGE.shape, bool)
    mask[first:last, where] = True
    return mask


def edit_on(shown, what):
    """One edit of the kind that is asked for."""
    patch, stroke = np.zeros((2, *IMAGE.shape), bool)
    patch[55:63, 60:70] = stroke[24:27, 25:81] = True
    return {
        "accept": lambda: accept_object(shown, at(shown, 1), True),
        "merge": lambda: merge_objects(shown, [at(shown, 0), at(shown, 1)], True, stroke),
        "cut": lambda: split_objects(shown, column(100, 70, 110), True),
        "delete": lambda: delete_object(shown, at(shown, 2), True),
        "draw": lambda: draw_object(shown, patch, int(shown.max()) + 1, True),
    }[what]()


@pytest.mark.parametrize("what", ["accept", "merge", "cut", "delete", "draw"])
def test_later_sweeps_leave_an_edit_alone_and_the_others_keep_their_numbers(live, what):
    shown = live.summary.labels.astype(np.uint16)
    edit = edit_on(shown, what)
    live.edit(edit)
    assert np.array_equal(live.summary.labels.reshape(-1)[edit.where], np.maximum(edit.values, 0))
    drain(live)
    labels = live.summary.labels
    assert np.array_equal(labels.reshape(-1)[edit.where], np.maximum(edit.values, 0))
    for number in np.unique(edit.values[edit.values > 0]):
        assert np.array_equal(labels == number, edit.after == number)
    touched = np.unique(shown.reshape(-1)[edit.where])
    for centre in range(len(CENTRES)):
        if at(shown, centre) not in touched:
            assert at(labels, centre) == at(shown, centre)
    assert live.log.corrections[0]["what"] == what


def test_the_clusters_follow_an_edit(live):
    shown = live.summary.labels.astype(np.uint16)
    background = np.bincount(live.display_labels, site_pixels(live.problem)).argmax()
    for what in ("delete", "draw"):
        live.edit(edit_on(shown, what))
        drain(live)
    fate = live.edits.sites
    assert (fate == -1).any()
    assert (fate == 1).any()
    assert live.locks[fate != 0].all()
    assert (live.display_labels[fate == -1] == background).all()
    assert (live.display_labels[fate == 1] != background).all()
    assert live.summary.snapshot.best.n_clusters == 2


def test_an_edit_teaches_nothing_about_other_objects(live):
    """A deleted nucleus looks like all the others, which stay."""
    shown = live.summary.labels.astype(np.uint16)
    live.edit(delete_object(shown, at(shown, 1), True))
    assert live.problem.field is None
    assert not live.scribble_field.closed
    drain(live)
    assert all(at(live.summary.labels, k) == at(shown, k) for k in range(len(CENTRES)) if k != 1)


def test_each_edit_is_one_step_of_undo_and_redo(live):
    shown = live.summary.labels.astype(np.uint16)
    locks = live.locks.copy()
    seen = [shown]
    for what in ("accept", "cut", "delete", "draw", "merge"):
        live.edit(edit_on(seen[-1], what))
        seen.append(live.summary.labels.astype(np.uint16))
    for before in seen[-2::-1]:
        assert live.undo()
        labels = live.summary.labels
        assert np.array_equal(labels > 0, before > 0)
        assert all(at(labels, k) == at(before, k) for k in range(len(CENTRES)))
    assert live.edits is None
    assert np.array_equal(live.locks, locks)
    for after in seen[1:]:
        assert live.redo()
        assert np.array_equal(live.summary.labels > 0, after > 0)


def test_unlocking_or_painting_a_cluster_lets_go_of_the_object(live):
    shown = live.summary.labels.astype(np.uint16)
    live.edit(accept_object(shown, at(shown, 1), True))
    live.edit(accept_object(shown, at(shown, 2), True))
    site = live.problem.site_image[CENTRES[1]] - 1
    background = int(np.bincount(live.display_labels, site_pixels(live.problem)).argmax())
    live.paint([site], background, lock=True)
    assert live.edits.fixed[CENTRES[1]] == 0
    assert live.edits.fixed[CENTRES[2]] > 0
    live.undo()
    assert live.edits.fixed[CENTRES[1]] == at(shown, 1)
    live.unlock(np.flatnonzero(live.locks))
    assert live.edits is None or not live.edits.sites.any()


def test_another_chain_of_the_image_takes_over_what_is_fixed(live, problem):
    shown = live.summary.labels.astype(np.uint16)
    edit = edit_on(shown, "cut")
    live.edit(edit)
    other = InteractiveRun(problem, problem.settings, seed=5, closed=False)
    other.paint(np.flatnonzero(live.locks), live.display_labels[live.locks], lock=True)
    other.set_fixed_pixels(live.edits)
    drain(other)
    assert np.array_equal(other.summary.labels.reshape(-1)[edit.where], edit.values)
    assert other.problem.field is None


def test_closed_labels_refuse_edits_in_a_sentence(problem):
    settings = problem.settings.replace(only_painted="yes")
    seeds = np.zeros(IMAGE.shape, np.uint8)
    seeds[CENTRES[0]], seeds[60:64, 60:64] = 1, 2
    live = InteractiveRun(problem, settings, 1, seeds=seeds)
    with pytest.raises(InputError, match="painted ones"):
        live.edit(draw_object(np.zeros(IMAGE.shape, np.uint16), TRUTH == 2, 9, True))


def test_regions_are_merged_cut_and_deleted_too():
    image = mosaic()[0][:120, :160]
    settings = gsw.preset("paper", site_count=None, site_size=60, colours="lab", coupling="contrast", beta=1.5)
    problem = gsw.prepare(image, settings.replace(alpha=0.3, view="regions", min_region=50, sweeps=SWEEPS))
    live = drain(InteractiveRun(problem, problem.settings, seed=1))
    shown = live.summary.labels.astype(np.uint16)
    first, second = np.argsort(-np.bincount(shown.ravel()))[:2].tolist()
    for edit in (
        merge_objects(shown, [first, second], False),
        delete_object(shown, second, False),
        split_objects(shown, np.arange(160)[np.newaxis] + np.zeros((120, 1)) == 80, False),
    ):
        live.edit(edit)
        drain(live)
        labels = live.summary.labels
        assert (labels > 0).all()
        assert np.array_equal(labels.reshape(-1)[edit.where], edit.values)
        kept = live.edits.sites != 0
        assert live.locks[kept].all()
        live.undo()
    live.edit(merge_objects(shown, [first, second], False))
    inside = live.edits.sites == 1
    assert len(np.unique(live.display_labels[inside])) == 1
