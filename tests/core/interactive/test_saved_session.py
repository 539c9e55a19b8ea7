"""A chain that a person steers: saved amid its work it goes on the same, and what was done can be done again."""

from __future__ import annotations

import numpy as np
import pytest

import napari_gsw as gsw
from napari_gsw.core.errors import InputError
from napari_gsw.core.interactive.action_log import Action
from napari_gsw.core.interactive.interactive_run import InteractiveRun, replay_actions, replay_run
from napari_gsw.core.interactive.saved_session import KINDS
from napari_gsw.core.pipeline.saved_run import decode_record, encode_record
from napari_gsw.core.posterior.object_edits import accept_object, delete_object
from napari_gsw.core.sites.scribbles import make_scribble
from pictures import CENTRES, cells

SETTINGS = gsw.preset("general", superpixels="grid", site_size=100, sweeps=30, chains=2)
RNG = np.random.default_rng(0)
IMAGE = (np.where(np.arange(60) < 25, 60.0, 160.0) + RNG.normal(0, 6, (40, 60))).clip(0, 255).astype(np.uint8)


def begun(image, settings):
    live = InteractiveRun(gsw.prepare(image, settings), settings, seed=1)
    live.rebuild_problem = lambda sites, strokes: gsw.prepare(image, settings, sites=sites, seeds=strokes)
    return live


def go(live, sweeps):
    """So many sweeps; how many at a time is a matter of the machine's speed."""
    end = live.sweep + sweeps
    while live.sweep < end:
        live.advance(end - live.sweep)


def run(live, sweeps):
    live.run_for(sweeps)
    while live.sweep < live.target:
        live.advance()


def stroke(live, rows, columns, number):
    before = np.asarray(live.problem.paint(live.display_labels))
    after = before.copy()
    after[rows, columns] = number
    path = np.argwhere(np.asarray(after != before)).astype(float)
    return make_scribble(live.problem.site_image, before, after, path)


def steered():
    """A chain after strokes, one of which cut a site, locks, other settings, an undo and a redo."""
    live = begun(IMAGE, SETTINGS)
    run(live, 10)
    live.draw(stroke(live, slice(13, 17), 21, 41), lock=True)
    live.run_for(20)
    go(live, 3)
    live.draw(stroke(live, slice(13, 17), 28, 42), lock=True)
    go(live, 4)
    live.update_settings(live.settings.replace(lam=3.0, sweeps=40))
    go(live, 2)
    live.paint([0, 1], 7)
    live.lock([5, 6])
    live.undo()
    go(live, 5)
    live.unlock(np.flatnonzero(live.locks)[:1])
    live.undo()
    live.redo()
    go(live, 2)
    return live


def edited():
    """A chain whose objects were edited."""
    image, _ = cells()
    live = begun(image, gsw.preset("microscopy", sweeps=12))
    run(live, 12)
    shown = live.summary.labels
    live.edit(accept_object(shown, int(shown[CENTRES[1]]), True))
    live.resume_after_correction()
    go(live, 6)
    live.edit(delete_object(live.summary.labels, int(live.summary.labels[CENTRES[2]]), True))
    go(live, 2)
    return live


def through_a_file(saved):
    arrays = {}
    return decode_record(encode_record(saved, KINDS, arrays), KINDS, arrays)


def assert_same(a, b):
    assert (a.sweep, a.target, a.log.steps, a.steps) == (b.sweep, b.target, b.log.steps, b.steps)
    for name in ("display_labels", "locks", "painted"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    for left, right in zip(a.traces, b.traces, strict=True):
        np.testing.assert_array_equal(left, right)
    np.testing.assert_array_equal(a.summary.labels, b.summary.labels)
    np.testing.assert_array_equal(a.summary.shares, b.summary.shares)


@pytest.mark.parametrize("make", [steered, edited])
def test_a_restored_chain_goes_on_as_the_one_that_was_saved(make):
    live = make()
    other = InteractiveRun.restore(through_a_file(live.save()))
    other.rebuild_problem = live.rebuild_problem
    assert_same(live, other)
    for chain in (live, other):
        chain.undo()
        go(chain, 3)
        chain.redo()
        run(chain, 9)
        chain.revert_to(chain.history.nearest(12)[1])
        run(chain, 4)
    assert_same(live, other)


@pytest.mark.parametrize("make", [steered, edited])
def test_what_was_done_is_done_again(make):
    live = make()
    saved = through_a_file(live.save())
    first = saved.live.initial
    problem = gsw.prepare(IMAGE if make is steered else cells()[0], first.settings)
    np.testing.assert_array_equal(problem.beta, first.problem.beta)
    other = replay_run(saved, live.rebuild_problem)
    assert_same(live, other)
    assert [one.method for one in other.log.actions] == [one.method for one in live.log.actions]


def test_a_run_that_nobody_has_watched_can_be_watched_and_goes_on_the_same():
    seeds = np.zeros(IMAGE.shape, int)
    seeds[5, 5:12], seeds[30, 40:52] = 3, 8
    more = {"seeds": seeds, "preset": "general", "site_size": 60, "seed": 2, "sweeps": 40}
    full = gsw.segment(IMAGE, **more)
    part = gsw.segment(IMAGE, **more, report=lambda _, one: one is not None and one.sweep >= 10)
    live = InteractiveRun.restore(through_a_file(part.run))
    assert set(np.unique(live.display_labels)) == {3, 8}
    while live.sweep < live.target:
        live.advance()
    np.testing.assert_array_equal(live.summary.labels, full.labels)
    live.paint([0], 8, lock=True)  # and is steered
    go(live, 3)
    assert live.display_labels[0] == 8


def test_what_was_refused_is_no_deed():
    live = begun(IMAGE, SETTINGS)
    with pytest.raises(InputError):
        live.paint([0], 70_000)
    assert not live.log.actions


def test_a_deed_that_nobody_can_do_is_refused():
    live = begun(IMAGE, SETTINGS)
    numbers = live.display_labels.astype(np.uint32)
    with pytest.raises(InputError, match="no action"):
        replay_actions(live, [Action(0, "__init__", {}, numbers)], 0)
    with pytest.raises(InputError, match="other sites"):
        replay_actions(live, [Action(0, "undo", {}, numbers[:-1])], 0)


def tampered(change):
    saved = steered().save()
    arrays = {}
    tree = encode_record(saved, KINDS, arrays)
    change(tree["fields"]["live"]["fields"])
    return decode_record(tree, KINDS, arrays)


SMALL = {"values": [3], "dtype": "int64", "shape": [1]}


@pytest.mark.parametrize(
    "change",
    [
        lambda live: live.update(numbers=SMALL),
        lambda live: live.update(locks=SMALL),
        lambda live: live.update(strokes=SMALL),
        lambda live: live.update(edits=SMALL),
        lambda live: live.update(history=SMALL),
        lambda live: live["log"]["fields"]["site_parents"]["map"].update({"7": SMALL}),
        lambda live: live["log"]["fields"]["done"]["list"][0]["fields"].update(sites=SMALL),
        lambda live: live.update(begun=None),
        lambda live: live["log"]["fields"]["actions"]["list"].append(3),
    ],
)
def test_a_record_that_does_not_fit_is_refused(change):
    with pytest.raises(InputError):
        InteractiveRun.restore(tampered(change))


def test_a_run_that_was_interrupted_goes_on_to_its_own_target():
    undisturbed = begun(IMAGE, SETTINGS)
    run(undisturbed, SETTINGS.sweeps)
    live = begun(IMAGE, SETTINGS)
    live.run_for(SETTINGS.sweeps)
    go(live, 11)
    for _ in range(2):  # it may be restored, looked at and lost again
        live = InteractiveRun.restore(live.save())
        live.pause()
        live.run_or_resume(0)
        assert (live.sweep, live.target) == (11, 11)
        assert live.steps[-1] == {"sweep": 11, "what": "stopped"}
    live.run_or_resume(SETTINGS.sweeps)
    while live.sweep < live.target:
        live.advance()
    assert (live.sweep, live.steps) == (undisturbed.sweep, undisturbed.steps)
    np.testing.assert_array_equal(live.summary.labels, undisturbed.summary.labels)
    live.run_or_resume(5)
    assert live.target == SETTINGS.sweeps + 5


def test_a_correction_of_an_interrupted_run_is_its_end():
    live = begun(IMAGE, SETTINGS)
    live.run_for(SETTINGS.sweeps)
    go(live, 11)
    live.pause()
    live.paint([0, 1], 7)
    live.resume_after_correction()
    assert not live.paused_target
    assert {"sweep": 11, "what": "stopped"} in live.steps
