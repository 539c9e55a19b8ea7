"""Strokes of two labels in one site of a chain under way: the site is cut, and nothing painted is outvoted."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import napari_gsw as gsw
from napari_gsw.core.errors import InputError
from napari_gsw.core.interactive.action_log import MAX_UNDO
from napari_gsw.core.interactive.interactive_run import InteractiveRun
from napari_gsw.core.model.problem import site_pixels
from napari_gsw.core.posterior.object_edits import accept_object
from napari_gsw.core.sites.scribbles import make_scribble
from napari_gsw.scores.partitions import variation_of_information

SETTINGS = gsw.preset("general", superpixels="grid", site_size=100, sweeps=30)


@pytest.fixture(scope="module")
def image():
    """Two grey levels, whose border runs through the middle of the sites."""
    rng = np.random.default_rng(0)
    return (np.where(np.arange(60) < 25, 60.0, 160.0) + rng.normal(0, 6, (40, 60))).clip(0, 255).astype(np.uint8)


def live_chain(image, settings=SETTINGS, **more):
    live = InteractiveRun(gsw.prepare(image, settings), settings, seed=1, **more)
    live.rebuild_problem = lambda sites, strokes: gsw.prepare(image, settings, sites=sites, seeds=strokes)
    live.run_for(10)
    while live.sweep < live.target:
        live.advance()
    return live


def drawn(live, rows, columns, number):
    """A stroke over some pixels, as the window hands it over."""
    before = np.asarray(live.problem.paint(live.display_labels))
    after = before.copy()
    after[rows, columns] = number
    here = np.zeros(after.shape, bool)
    here[rows, columns] = True
    return make_scribble(live.problem.site_image, before, after, np.argwhere(here).astype(float))


def consistent(live):
    """Numbers, locks and log posterior are those of the chains, all of them of the sites of today."""
    first, n = live.ensemble.snapshots[0], live.problem.n
    assert (
        n
        == int(live.problem.site_image.max())
        == len(live.display_labels)
        == len(live.locks)
        == len(site_pixels(live.problem))
    )
    assert site_pixels(live.problem).sum() == live.problem.site_image.size
    assert variation_of_information(live.display_labels, first.labels) == pytest.approx(0, abs=1e-9)
    assert first.log_posterior == pytest.approx(gsw.log_posterior(live.problem, first.labels), rel=1e-9)
    for chain in live.ensemble.chains:
        assert np.array_equal(chain.seeds >= 0, live.locks)
        assert len(chain.labels) == n


def finish(live):
    while live.sweep < live.target:
        live.advance()
        consistent(live)


# Left and right of the border, both in the site that lies across it.
LEFT, RIGHT = (slice(13, 17), 21), (slice(13, 17), 28)


@pytest.mark.parametrize("count", [1, 2])
def test_a_site_with_two_labels_is_cut_between_them(image, count):
    live = live_chain(image, SETTINGS.replace(chains=count))
    sites = live.problem.site_image
    assert sites[15, 21] == sites[15, 28]
    n, sweep = live.problem.n, live.sweep
    live.draw(drawn(live, *LEFT, 41), lock=True)
    assert live.problem.n == n
    assert (live.problem.paint(live.display_labels)[sites == sites[15, 21]] == 41).all()
    live.draw(drawn(live, *RIGHT, 42), lock=True)
    assert live.problem.n == n + 1
    assert live.sweep == sweep
    consistent(live)
    live.run_for(20)
    finish(live)
    shown = live.problem.paint(live.display_labels)
    assert (shown[LEFT] == 41).all()
    assert (shown[RIGHT] == 42).all()
    within = sites == sites[15, 21]
    assert np.array_equal(shown[within] == 42, np.broadcast_to(np.arange(60) >= 25, shown.shape)[within])


def test_without_another_label_in_it_a_site_is_not_cut(image):
    live = live_chain(image)
    problem = live.problem
    live.draw(drawn(live, *LEFT, 41), lock=True)
    live.draw(drawn(live, *RIGHT, 41), lock=True)  # the same label
    live.draw(drawn(live, slice(13, 17), slice(21, 29), 42), lock=True)  # over all paint of the first
    assert (live.problem.paint(live.display_labels)[LEFT] == 42).all()
    live.draw(drawn(live, *LEFT, 0))  # the eraser frees it
    live.draw(drawn(live, *RIGHT, 43), lock=True)
    assert live.problem.sites is problem.sites
    consistent(live)


def test_what_is_no_longer_held_does_not_cut(image):
    live = live_chain(image)
    n = live.problem.n
    live.draw(drawn(live, *LEFT, 41), lock=True)
    live.unlock(np.flatnonzero(live.locks))
    live.draw(drawn(live, *RIGHT, 42), lock=True)
    assert live.problem.n == n


def test_strokes_that_steer_nothing_cut_nothing(image):
    live = live_chain(image, SETTINGS.replace(steering=0.0))
    n = live.problem.n
    live.draw(drawn(live, *LEFT, 41), lock=True)
    live.draw(drawn(live, *RIGHT, 42), lock=True)
    assert live.problem.n == n
    assert (live.problem.paint(live.display_labels)[LEFT] == 42).all()


def test_seeds_of_the_start_are_paint_too(image):
    seeds = np.zeros(image.shape, np.uint8)
    seeds[LEFT], seeds[2, 2] = 41, 43
    live = live_chain(image, seeds=seeds)
    n = live.problem.n
    live.draw(drawn(live, *RIGHT, 42), lock=True)
    assert live.problem.n == n + 1
    assert (live.problem.paint(live.display_labels)[LEFT] == 41).all()


def test_undo_takes_the_stroke_back_and_leaves_the_cut(image):
    live = live_chain(image)
    first = live.display_labels.copy()
    live.draw(drawn(live, *LEFT, 41), lock=True)
    between = live.problem.paint(live.display_labels)
    live.draw(drawn(live, *RIGHT, 42), lock=True)
    after, n = live.problem.paint(live.display_labels), live.problem.n
    assert live.undo()
    consistent(live)
    assert np.array_equal(live.problem.paint(live.display_labels), between)
    assert live.problem.n == n
    assert live.redo()
    assert np.array_equal(live.problem.paint(live.display_labels)[LEFT], after[LEFT])
    assert np.array_equal(live.problem.paint(live.display_labels)[RIGHT], after[RIGHT])
    assert live.undo()
    assert live.undo()
    assert not live.undo()
    consistent(live)
    assert not live.locks.any()
    assert np.array_equal(live.display_labels, live.map_to_current_sites(first))
    # What was painted is not forgotten with the stroke that covered it.
    assert live.redo()
    live.draw(drawn(live, slice(13, 17), slice(21, 29), 42), lock=True)
    live.undo()
    live.draw(drawn(live, *RIGHT, 43), lock=True)
    assert (live.problem.paint(live.display_labels)[LEFT] == 41).all()
    assert (live.problem.paint(live.display_labels)[RIGHT] == 43).all()


def test_a_stroke_that_was_drawn_before_a_cut_means_the_pieces(image):
    live = live_chain(image)
    live.draw(drawn(live, *LEFT, 41), lock=True)
    late = drawn(live, slice(11, 13), 28, 44)
    live.draw(drawn(live, *RIGHT, 42), lock=True)
    live.draw(late, lock=True)
    shown = live.problem.paint(live.display_labels)
    assert (shown[LEFT] == 41).all()
    assert (shown[RIGHT] == 42).all()
    assert (shown[slice(11, 13), 28] == 44).all()
    consistent(live)


def test_looking_back_and_going_back_reach_over_a_cut(image):
    live = live_chain(image)
    live.draw(drawn(live, *LEFT, 41), lock=True)
    sweep, before = live.history.nearest(3)
    live.draw(drawn(live, *RIGHT, 42), lock=True)
    again, now = live.history.nearest(3)
    assert again == sweep
    assert np.array_equal(now, live.map_to_current_sites(before))
    live.revert_to(before)
    consistent(live)
    assert (live.problem.paint(live.display_labels)[LEFT] == 41).all()


def test_edited_regions_stay_through_a_cut(image):
    live = live_chain(image)
    regions = np.where(np.arange(60) < 25, 1, 2) * np.ones((40, 1), int)
    regions[30:, 40:] = 3
    live.edit(accept_object(regions.astype(np.uint16), 3, objects=False))
    live.draw(drawn(live, *LEFT, 41), lock=True)
    live.draw(drawn(live, *RIGHT, 42), lock=True)
    assert len(live.edits.sites) == live.problem.n
    assert live.edits.sites[live.problem.site_image[35, 50] - 1] == 1
    assert (live.edits.fixed[30:, 40:] == 3).all()
    consistent(live)


def test_tempered_chains_go_on_after_a_cut(image):
    live = live_chain(image, SETTINGS.replace(replicas=2))
    live.draw(drawn(live, *LEFT, 41), lock=True)
    live.draw(drawn(live, *RIGHT, 42), lock=True)
    live.run_for(10)
    finish(live)


def test_a_prior_that_forbids_the_pieces_leaves_everything_as_it_was(image):
    live = live_chain(image, SETTINGS.replace(start="random", start_clusters=4, max_size=6))
    live.draw(drawn(live, *LEFT, 41), lock=True)
    room = 6 - np.count_nonzero(live.display_labels == 41)
    live.paint(np.flatnonzero(live.display_labels != 41)[:room], 41)
    assert np.count_nonzero(live.display_labels == 41) == 6  # as many sites as a cluster may have
    problem, numbers = live.problem, live.display_labels
    with pytest.raises(InputError, match="prior forbids"):
        live.draw(drawn(live, *RIGHT, 42), lock=True)
    assert live.problem is problem
    assert live.display_labels is numbers
    consistent(live)


def test_shared_slices_are_cut_in_their_own_slice(image):
    stack, settings = np.stack([image, image[:, ::-1]]), SETTINGS.replace(axes="YX")
    remake = partial(shared_problem, list(stack), settings)
    problem = remake(None, None)
    live = InteractiveRun(problem, settings, seed=0)
    live.rebuild_problem = remake
    live.advance(5)
    shown = np.asarray(live.problem.paint(live.display_labels))
    n = live.problem.n
    for column, number in ((21, 41), (28, 42)):
        after = shown.copy()
        after[0, 13:17, column] = number
        path = np.array([[0, y, column] for y in range(13, 17)], float)
        live.draw(make_scribble(live.problem.site_image, shown, after, path), lock=True)
        shown = np.asarray(live.problem.paint(live.display_labels))
    assert live.problem.n == n + 1
    assert (shown[0, 13:17, 21] == 41).all()
    assert (shown[0, 13:17, 28] == 42).all()
    consistent(live)


def shared_problem(planes, settings, sites, strokes):
    given = {"sites": None if sites is None else list(sites), "seeds": None if strokes is None else list(strokes)}
    return gsw.prepare(planes, settings, **given).stacked()


def test_no_more_corrections_are_kept_than_can_be_undone(image):
    live = live_chain(image)
    for k in range(MAX_UNDO + 5):
        live.paint([k % 3], 50 + k % 7)
    undone = 0
    while live.undo():
        undone += 1
    assert undone == MAX_UNDO >= 50


def test_settings_that_the_prior_refuses_change_nothing(image):
    settings = SETTINGS.replace(start="random", start_clusters=4, max_size=12, only_painted="no")
    live = live_chain(image, settings)
    live.paint([0, 1], 41, lock=True)
    problem, steps, options = live.problem, live.steps, live.ensemble.chains[0].options
    with pytest.raises(InputError):  # one label on 24 sites, of which a cluster may have 12
        live.update_settings(settings.replace(only_painted="yes", lam=3.0, steering=2.0))
    assert live.settings == settings
    assert live.scribble_field.settings == settings
    assert not live.scribble_field.closed
    assert live.problem is problem
    assert live.steps == steps
    assert live.ensemble.chains[0].options is options
    live.update_settings(settings.replace(lam=3.0))
    assert live.settings.lam == 3.0


def test_a_refused_stroke_does_not_close_the_labels(image):
    settings = SETTINGS.replace(start="random", start_clusters=4, max_size=7, only_painted="yes")
    live = InteractiveRun(gsw.prepare(image, settings), settings, seed=1)
    assert not live.scribble_field.closed
    with pytest.raises(InputError):
        live.paint([0], 41, lock=True)
    assert not live.scribble_field.closed
    live.paint([0], 41)
    assert not live.problem.closed
