"""A robot that knows what is wanted: where it paints, what it answers, and how its games go."""

from __future__ import annotations

import numpy as np
import pytest

from napari_gsw.core.posterior.result import MethodResult
from napari_gsw.methods import choose, segment
from napari_gsw.research.evaluation.simulated_annotator import (
    ScribbleState,
    SimulatedAnnotator,
    choose_largest_error,
    choose_query,
    choose_random,
    find_centre,
    find_largest_part,
    simulate_scribbles,
)

WANTED = np.ones((100, 140), np.int32)
WANTED[:, 80:] = 2
WANTED[10:20, 10:20] = 2  # a smaller part of the same label
WANTED[90:] = 0


def look(labels, seeds=None, wanted=WANTED, result=None):
    robot = SimulatedAnnotator(wanted)
    seeds = robot.paint_first() if seeds is None else seeds
    return ScribbleState(robot, seeds, MethodResult(labels, {}, result), np.random.default_rng(0))


def test_the_first_strokes_are_discs_in_the_middle_of_the_largest_parts():
    seeds = SimulatedAnnotator(WANTED).paint_first()
    assert np.unique(seeds).tolist() == [0, 1, 2]
    assert np.array_equal(seeds[seeds > 0], WANTED[seeds > 0])
    rows, columns = np.nonzero(seeds == 2)
    assert columns.mean() == pytest.approx(109.5, abs=1)
    assert 28 <= rows.mean() <= 61
    radius = SimulatedAnnotator(WANTED).radius
    assert radius == pytest.approx(0.01 * np.hypot(100, 140))
    assert (seeds == 2).sum() == pytest.approx(np.pi * radius**2, rel=0.5)


def test_a_stroke_paints_only_what_wants_its_label():
    robot = SimulatedAnnotator(WANTED)
    seeds = robot.paint_disc(np.zeros_like(WANTED), (40, 79))
    assert np.unique(seeds).tolist() == [0, 1]
    assert (seeds[:, 80:] == 0).all()
    corner = robot.paint_disc(np.zeros_like(WANTED), (0, 0))
    assert corner[0, 0] == 1
    assert corner.sum() == 4
    edge = robot.paint_disc(np.zeros_like(WANTED), (0, 139))
    assert edge.sum() == 2 * 4
    volume = np.ones((9, 10, 11), np.int32)
    assert SimulatedAnnotator(volume).paint_disc(volume * 0, (4, 5, 6)).sum() == 7


def test_the_worst_place_is_the_middle_of_the_largest_error():
    labels = WANTED.copy()
    labels[30:41, 20:31] = 2
    labels[60:64, 60:64] = 9
    labels[90:] = 5  # nobody wants anything there
    assert choose_largest_error(look(labels)) == (35, 25)
    assert choose_largest_error(look(WANTED)) is None
    # What is painted already is no place for another stroke, even if the method does not heed it.
    painted = np.where(labels[30:41, 20:31] == 2, 1, 0)
    seeds = np.zeros_like(WANTED)
    seeds[30:41, 20:31] = painted
    assert choose_largest_error(look(labels, seeds)) in [(r, c) for r in (61, 62) for c in (61, 62)]


def test_random_places_are_wanted_and_new():
    here = look(WANTED)
    places = [choose_random(here) for _ in range(300)]
    assert all(WANTED[p] > 0 and here.seeds[p] == 0 for p in places)
    assert len(set(places)) > 250
    assert choose_random(look(WANTED, np.ones_like(WANTED))) is None


def test_an_answer_is_what_most_of_the_site_wants():
    robot = SimulatedAnnotator(WANTED)
    sites = 1 + np.arange(140)[None] // 20 + np.zeros((100, 1), int)
    sites[:, 70:90] = 9
    sites[:, 85:90] = 8
    assert [WANTED[robot.position_at(sites, site)] for site in (1, 9, 8)] == [1, 1, 2]
    nothing = np.where(WANTED == 0, 1, 2)
    assert robot.position_at(nothing, 1) is None


def test_parts_and_middles():
    mask = np.zeros((9, 9), bool)
    mask[0, 0:2] = True
    mask[3:8, 3:8] = True
    assert np.array_equal(np.argwhere(find_largest_part(mask)).min(axis=0), [3, 3])
    assert find_centre(find_largest_part(mask)) == (5, 5)
    assert find_centre(np.ones((5, 5), bool)) == (2, 2)  # the image's border is an outline too


def picture():
    """Two labels, one of them in two colours of which the first strokes know but one."""
    wanted = np.ones((60, 90), np.int32)
    wanted[:, 45:] = 2
    colours = np.zeros((60, 90, 3))
    colours[:, :45] = (200, 40, 40)
    colours[:, 45:] = (40, 160, 60)
    colours[:15, 45:] = (190, 50, 50)
    noise = np.random.default_rng(0).normal(0, 5, colours.shape)
    return np.clip(colours + noise, 0, 255).astype(np.uint8), wanted


def test_a_course_rises_where_the_largest_error_is_painted():
    pytest.importorskip("sklearn")
    pytest.importorskip("ortools")
    image, wanted = picture()
    choice = choose("graph-cut", changes={"distance": 0})
    course = simulate_scribbles(image, SimulatedAnnotator(wanted), choice, choose_largest_error, 4)
    assert len(course.dice) == len(course.seconds) == 5
    assert course.dice[0] < 0.9
    assert max(course.dice) > 0.95
    assert simulate_scribbles(image, SimulatedAnnotator(wanted), choice, choose_largest_error, 4).dice == course.dice


def test_a_game_that_is_over_stays_as_it_was():
    image, wanted = picture()
    course = simulate_scribbles(image, SimulatedAnnotator(wanted), choose("watershed"), lambda look: None, 3)
    assert course.dice == course.dice[:1] * 4


def test_a_robot_that_is_asked_paints_where_the_posterior_is_in_doubt():
    """A block that is like neither half is where an answer is needed."""
    image = np.full((60, 90), 0.1)
    image[:, 45:] = 0.9
    image[20:40, 35:55] = 0.5
    wanted = np.where(image == 0.1, 1, 2).astype(np.int32)
    robot = SimulatedAnnotator(wanted)
    seeds = np.zeros(image.shape, np.int32)
    seeds[5, 5:15], seeds[5, 75:85] = 1, 2
    noise = np.random.default_rng(0).normal(0, 0.01, image.shape)
    outcome = segment(
        image + noise, choose("gsw", changes={"site_size": 25, "texture_words": 0, "sweeps": 60}), 0, seeds=seeds
    )
    place = choose_query(ScribbleState(robot, seeds, outcome, np.random.default_rng(0)))
    assert 20 <= place[0] < 40
    assert 35 <= place[1] < 55
