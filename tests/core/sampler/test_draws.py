"""The draws a chain keeps: after the burn-in, evenly spread, bounded, and the same however the run is cut up."""

from __future__ import annotations

import numpy as np
import pytest

import napari_gsw as gsw
from napari_gsw.core.sampler import chain as module
from napari_gsw.core.sampler.chain import Draws
from napari_gsw.core.sampler.chain_kernels import record_draw
from problems import planar


@pytest.mark.parametrize("burn_in", [0, 7])
def test_draws_are_the_states_of_their_sweeps(burn_in):
    problem = planar(60)
    states = {s.sweep: s.labels for s in gsw.sample(problem, 60, seed=1)}
    last = gsw.run(problem, 60, seed=1, burn_in=burn_in)
    assert len(last.draws[0]) == 60 - burn_in
    for row, sweep in zip(last.draws[0], range(burn_in + 1, 61), strict=True):
        np.testing.assert_array_equal(row, states[sweep])


def advanced(kept, sweep, burn_in, sweeps):
    """Sweeps whose draws hold their own number instead of a partition; returns the number of the last."""
    end = sweep + sweeps
    while sweep < end:
        size = kept.make_room(sweep - burn_in, end - sweep)
        assert 1 <= size <= end - sweep
        for _ in range(size):
            sweep += 1
            before = len(kept.kept)
            record_draw(kept.buffer, np.zeros(kept.buffer.rows.shape[1], np.int32), sweep - burn_in)
            kept.buffer.rows[before : len(kept.kept)] = sweep
    return sweep


def test_full_draws_thin_and_stay_evenly_spread(monkeypatch):
    monkeypatch.setattr(module, "MAX_DRAWS", 10)
    kept, sweep, burn_in = Draws(3), 0, 4
    for wanted in [1, 7, 300, 2, 1, 40, 1] * 5:
        sweep = advanced(kept, sweep, burn_in, wanted)
    gaps = np.diff(kept.kept[:, 0])
    assert len(kept.kept) <= 10
    assert set(gaps) == {kept.gap}
    assert kept.kept[0, 0] == burn_in + kept.gap


def test_draws_that_someone_holds_never_change(monkeypatch):
    monkeypatch.setattr(module, "MAX_DRAWS", 10)
    kept, held = Draws(2), []
    for sweep in range(60):
        advanced(kept, sweep, 0, 1)
        held.append((kept.kept, kept.kept.copy()))
    for view, copy in held:
        np.testing.assert_array_equal(view, copy)
        assert not view.flags.writeable


def test_a_continued_chain_keeps_the_same_draws(monkeypatch):
    monkeypatch.setattr(module, "MAX_DRAWS", 16)
    problem = planar(60)
    whole = gsw.run(problem, 90, seed=2, burn_in=5)
    part = gsw.run(problem, 41, seed=2, burn_in=5)
    rest = gsw.run(problem, 49, state=part.state)
    np.testing.assert_array_equal(whole.draws[0], rest.draws[0])
    assert len(whole.draws[0]) <= 16


def test_entropy_of_sizes_is_traced():
    problem = planar(60)
    for snap in gsw.sample(problem, 20, seed=0):
        share = np.bincount(snap.labels) / problem.n
        assert snap.trace[-1, 2] == pytest.approx(-(share * np.log2(share)).sum())
