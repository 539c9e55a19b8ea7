"""Counts and records of corrections: burn-ins, settings that change, and steps."""

from __future__ import annotations

import json

import numpy as np
import pytest

import napari_gsw as gsw
from napari_gsw.core.interactive.interactive_run import MIN_RUN, InteractiveRun
from napari_gsw.core.pipeline.provenance import describe_image, make_provenance
from napari_gsw.core.posterior.diagnostics import MIN_SWEEPS
from pictures import cells

IMAGE = cells()[0][:70, :100]
SETTINGS = gsw.preset("paper", site_count=None, site_size=40, colours="lab", alpha=0.3, start="random", lam=2.0)


@pytest.fixture(scope="module")
def problem():
    return gsw.prepare(IMAGE, SETTINGS)


def begun(problem, sweeps=100, **changes):
    """A chain whose run of so many sweeps has begun."""
    live = InteractiveRun(problem, problem.settings.replace(sweeps=sweeps, **changes), seed=3)
    live.run_for(sweeps)
    return live


def to(live, sweep):
    while live.sweep < min(sweep, live.target):
        live.advance(min(sweep, live.target) - live.sweep)
    return live


def burn_in(live):
    ends = {chain.options.burn_in for chain in live.ensemble.chains}
    assert len(ends) == 1
    return ends.pop()


def record(live):
    return json.loads(json.dumps(make_provenance(describe_image(IMAGE), live.summary, live.seed, {}, live.steps)))


@pytest.mark.parametrize(("sweeps", "at"), [(100, 98), (100, 60), (8, 7)])
def test_a_stroke_late_in_the_run_is_followed_by_a_burn_in_and_enough_counted_sweeps(problem, sweeps, at):
    live = to(begun(problem, sweeps, chains=2), at)
    live.paint(np.arange(6), 500, lock=True)
    length = max(sweeps, MIN_RUN)
    assert burn_in(live) == at + length // 2
    assert live.target == at + length
    assert not live.summary.is_estimated
    to(live, at + length // 2 + 1)
    assert live.summary.counted == 1
    assert np.isin(live.ensemble.snapshots[0].together, (0, 1)).all()  # one sweep knows nothing
    assert not live.summary.is_estimated
    assert live.summary.diagnosis.summary.startswith("too few sweeps: 1 after")
    to(live, live.target)
    assert live.summary.counted == length - length // 2 >= MIN_SWEEPS
    assert live.summary.is_estimated


def test_going_back_leaves_out_the_way_from_there(problem):
    live = to(begun(problem), 100)
    live.revert_to(live.history.nearest(0)[1])
    assert burn_in(live) == 150
    assert live.target == 100  # it is at rest, and stays there
    live.run_for(100)
    to(live, 150)
    assert live.summary.counted == 0
    to(live, live.target)
    assert live.summary.counted == 50


def test_a_short_run_after_a_correction_goes_on_until_enough_is_counted(problem):
    live = to(begun(problem, 10), 10)
    live.paint([0, 1], 500)
    live.run_for(10)
    assert live.target == 10 + MIN_RUN
    live.run_for(1)  # but a step is a step
    assert live.target == 11


def test_a_run_without_corrections_is_as_long_as_it_was_asked_for(problem):
    live = to(begun(problem, 10), 10)
    assert live.sweep == 10
    assert live.summary.counted == 5
    assert not live.summary.is_estimated
    assert len(live.summary.draws) == 5  # what a short segmentation returns does not change
    assert np.array_equal(live.shown("consensus"), live.named(live.summary.consensus("vi").labels))


def test_a_burn_in_that_changes_during_a_run_counts(problem):
    live = to(begun(problem), 60)
    assert live.summary.counted == 10
    best = live.snapshot.best.log_posterior
    live.update_settings(live.settings.replace(burn_in=0.8))  # leaves out what was counted already
    assert burn_in(live) == 80
    assert live.summary.counted == 0
    assert not live.summary.is_estimated
    assert live.snapshot.best.log_posterior == best
    to(live, 100)
    assert live.summary.counted == 20
    assert live.summary.draws.shape[0] == 20
    early = to(begun(problem), 20)
    early.update_settings(early.settings.replace(burn_in=0.1))  # it is over by now
    assert burn_in(early) == 20
    to(early, 100)
    assert early.summary.counted == 80
    late = to(begun(problem), 90)
    late.update_settings(late.settings.replace(burn_in=0.2))  # what was not counted cannot be counted any more
    to(late, 100)
    assert late.summary.counted == 50


def test_the_target_follows_the_number_of_sweeps(problem):
    live = to(begun(problem), 60)
    live.update_settings(live.settings.replace(sweeps=150))
    assert live.target == 150
    live.update_settings(live.settings.replace(sweeps=20))
    assert live.target == 60


def test_whole_cluster_moves_can_be_left_to_the_prior_again(problem):
    live = begun(problem)
    live.update_settings(live.settings.replace(regroups=4))
    live.update_settings(live.settings.replace(regroups=None))
    assert [chain.options.regroups for chain in live.ensemble.chains] == [0]


def test_a_run_that_nobody_touched_needs_no_steps(problem):
    kept = record(to(begun(problem, 30), 30))
    assert kept["reproducible"] is True
    assert "steps" not in kept
    assert kept["counted_sweeps"] == 15
    same = gsw.segment(IMAGE, gsw.Settings(**kept["settings"]), seed=kept["seed"])
    assert same.provenance == kept


def test_settings_that_changed_during_a_run_are_recorded_and_reproduce_the_labels(problem):
    live = to(begun(problem, 60), 13)
    live.update_settings(live.settings.replace(lam=9.0, view="regions"))
    to(live, 41)
    live.update_settings(live.settings.replace(splits=1, burn_in=0.75))
    to(live, 60)
    kept = record(live)
    assert kept["reproducible"] is False
    assert "settings and seed alone do not make these labels" in kept["reproduction"]
    assert kept["steps"] == [
        {"sweep": 0, "what": "run", "sweeps": 60},
        {"sweep": 13, "what": "settings", "changed": {"lam": [2.0, 9.0]}},  # the view moves no chain
        {"sweep": 41, "what": "settings", "changed": {"splits": [0, 1], "burn_in": [0.5, 0.75]}},
    ]
    # Made again from the record alone: the first settings are the last ones with the changes taken back.
    first = dict(kept["settings"])
    for step in reversed(kept["steps"]):
        first |= {name: before for name, (before, _) in step.get("changed", {}).items()}
    again = InteractiveRun(problem, gsw.Settings(**first), kept["seed"])
    for step in kept["steps"]:
        to(again, step["sweep"])
        if step["what"] == "run":
            again.run_for(step["sweeps"])
        else:
            again.update_settings(
                again.settings.replace(**{name: after for name, (_, after) in step["changed"].items()})
            )
    to(again, kept["sweeps"])
    assert np.array_equal(again.summary.partition, live.summary.partition)
    assert np.array_equal(again.snapshot.together, live.snapshot.together)
    alone = gsw.segment(IMAGE, gsw.Settings(**kept["settings"]), seed=kept["seed"])
    assert not np.array_equal(alone.trace.log_posterior, live.traces[0][:, 0])


def test_stops_further_runs_and_corrections_are_steps(problem):
    live = to(begun(problem, 60), 20)
    assert record(live)["steps"][-1] == {"sweep": 20, "what": "stopped"}
    live.run_for(0)  # which the window does to look at a chain at rest
    assert record(live)["steps"] == [{"sweep": 0, "what": "run", "sweeps": 60}, {"sweep": 20, "what": "stopped"}]
    live.run_for(60)
    live.paint([0, 1, 2], 500, lock=True)
    live.undo()
    steps = record(live)["steps"]
    assert [(step["what"], step["sweep"]) for step in steps] == [
        ("run", 0), ("stopped", 20), ("run", 20), ("paint", 20), ("undo", 20), ("stopped", 20),
    ]  # fmt: skip
    assert steps[3]["sites"] == steps[3]["locked"] == 3
    stopped = gsw.segment(IMAGE, SETTINGS, sweeps=500, report=lambda stage, snap: snap is not None)
    assert stopped.provenance["reproducible"] is False
    assert stopped.provenance["steps"] == [{"sweep": stopped.snapshot.sweep, "what": "stopped"}]
