"""Strokes steer: what they say about sites that they do not touch."""

from __future__ import annotations

import numpy as np
import pytest

import napari_gsw as gsw
from napari_gsw.core.model.scribble_field import ScribbleField, is_closed


def halves(size=48, noise=6.0, seed=0):
    """Two greys side by side, noisy, and between them a boundary that is not straight."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:size, :size]
    left = x < size / 2 + 4 * np.sin(y / 6)
    image = np.where(left, 90, 150) + rng.normal(0, noise, (size, size))
    return np.clip(image, 0, 255).astype(np.uint8), np.where(left, 1, 2)


def two_dots(size=48):
    seeds = np.zeros((size, size), int)
    seeds[10:13, 5:8], seeds[30:33, 40:43] = 1, 2
    return seeds


@pytest.mark.parametrize("preset", ["general", "photo", "microscopy", "paper"])
def test_two_strokes_label_the_image_with_every_preset(preset):
    image, truth = halves()
    changes = {"site_count": 200} if preset == "paper" else {"site_size": 20, "view": "clusters"}
    result = gsw.segment(image, preset=preset, seeds=two_dots(), sweeps=40, **changes)
    assert set(np.unique(result.labels)) == {1, 2}
    assert (result.labels == truth).mean() > 0.9


def test_without_steering_everything_is_as_it_was():
    """The same as clamps alone: sites are not cut, clusters are not counted, nothing pulls."""
    image, _ = halves()
    seeds = two_dots()
    seeds[10, 9] = 2  # two labels in one site
    result = gsw.segment(image, seeds=seeds, steering=0.0, sweeps=30, site_size=20)
    problem = gsw.prepare(image, site_size=20, sweeps=30)
    clamps = problem.labels_under(seeds, "seeds")
    assert result.problem.field is None
    assert not result.problem.closed
    last = gsw.run(problem, 30, seed=0, seeds=clamps)
    assert np.array_equal(last.best.labels, result.summary.snapshot.best.labels)


def test_a_single_pixel_counts_and_labels_that_share_a_site_part_it():
    image, _ = halves()
    seeds = np.zeros(image.shape, int)
    seeds[20, 8], seeds[20, 10], seeds[40, 40] = 1, 3, 2
    result = gsw.segment(image, seeds=seeds, site_size=120, sweeps=20)
    assert result.labels[20, 8] == 1
    assert result.labels[20, 10] == 3
    assert result.labels[40, 40] == 2


def test_the_field_falls_with_the_difference_of_colour_and_with_boundaries_between():
    image, truth = halves(noise=2.0)
    problem = gsw.prepare(image, site_size=20)
    clamps = problem.labels_under(two_dots(), "seeds")
    field = ScribbleField(problem, problem.settings, closed=True).field(clamps)
    mine = problem.majority_under(truth)
    free = clamps < 0
    assert (field.pull[free & (mine == 1), 0] > field.pull[free & (mine == 1), 1]).mean() > 0.95
    assert (field.pull[free & (mine == 2), 1] > field.pull[free & (mine == 2), 0]).mean() > 0.95
    assert (field.pull[clamps >= 0] == 0).all()


def test_twice_the_steering_is_twice_the_field():
    image, _ = halves()
    problem = gsw.prepare(image, site_size=20)
    clamps = problem.labels_under(two_dots(), "seeds")
    once = ScribbleField(problem, problem.settings, closed=False).field(clamps)
    twice = ScribbleField(problem, problem.settings.replace(steering=3.0), closed=False).field(clamps)
    assert np.allclose(twice.pull, 2 * once.pull)


def test_a_stroke_more_gives_the_same_field_as_all_strokes_at_once():
    """Nothing that is kept between strokes becomes outdated."""
    image, _ = halves()
    problem = gsw.prepare(image, site_size=20)
    clamps = problem.labels_under(two_dots(), "seeds")
    steering = ScribbleField(problem, problem.settings, closed=True)
    steering.field(clamps)
    more = clamps.copy()
    more[np.flatnonzero(clamps < 0)[::17]] = 1
    anew = ScribbleField(problem, problem.settings, closed=True).field(more)
    assert np.array_equal(steering.field(more).pull, anew.pull)
    assert np.array_equal(
        steering.field(clamps).pull, ScribbleField(problem, problem.settings, True).field(clamps).pull
    )


def test_open_labels_leave_room_for_others():
    image, _ = halves()
    image[5:15, 30:44] = 250
    result = gsw.segment(image, seeds=two_dots(), only_painted="no", site_size=20, sweeps=60, min_region=20)
    assert {1, 2} < set(np.unique(result.labels))
    closed = gsw.segment(image, seeds=two_dots(), only_painted="yes", site_size=20, sweeps=60, min_region=20)
    assert set(np.unique(closed.labels)) == {1, 2}


def test_what_auto_means():
    settings = gsw.preset("general")
    assert is_closed(settings, np.array([-1, 4, 9]))
    assert not is_closed(settings, np.array([-1, 4, 4]))
    assert not is_closed(settings, None)
    assert not is_closed(settings.replace(steering=0.0), np.array([-1, 4, 9]))
    assert is_closed(settings.replace(only_painted="yes"), np.array([-1, 4, 4]))
    assert not is_closed(settings.replace(only_painted="no"), np.array([1, 4, 4]))


def test_a_problem_without_an_image_has_a_field_by_its_graph_alone():
    problem = gsw.Problem.from_counts(np.ones((5, 2), int), [(0, 1), (1, 2), (2, 3), (3, 4)], beta=1.0)
    field = ScribbleField(problem, gsw.preset("paper"), closed=True).field(np.array([1, -1, -1, -1, 2], np.int32))
    assert field.pull[1, 0] > field.pull[1, 1]
    assert field.pull[3, 1] > field.pull[3, 0]
    assert field.pull[2, 0] == pytest.approx(field.pull[2, 1])


def test_more_labels_than_the_prior_has_clusters_are_closed_labels_all_the_same():
    """microscopy has K = 2; three painted labels are three clusters."""
    image, _ = halves()
    seeds = two_dots()
    seeds[40:43, 5:8] = 3
    result = gsw.segment(image, preset="microscopy", seeds=seeds, site_size=20, sweeps=20, view="clusters")
    assert set(np.unique(result.labels)) == {1, 2, 3}


@pytest.mark.parametrize("closed", [True, False])
def test_a_label_that_is_painted_in_another_image_only_may_be_in_this_one_too(closed):
    """One label is painted in the first image, the other in the second: the field pulls to both in all three."""
    pairs = [halves(seed=k) for k in range(3)]
    seeds = [np.where(two_dots() == 1, 1, 0), np.where(two_dots() == 2, 2, 0), None]
    problem = gsw.prepare([image for image, _ in pairs], site_size=40)
    clamps = problem.labels_under(seeds, "seeds")
    pull = ScribbleField(problem, problem.settings, closed).field(clamps).pull
    for k, (_, truth) in enumerate(pairs):
        mine = problem.view_image(k).majority_under(truth)
        for name, other in ((1, 2), (2, 1)):
            free = problem.sites_in_image(k) & (clamps < 0) & (mine == name)
            assert (pull[free, name - 1] > pull[free, other - 1]).mean() > 0.9
