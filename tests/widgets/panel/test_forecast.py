"""What the prior expects is said at once where there is a formula, and later where there is a long sum."""

from __future__ import annotations

import threading

import pytest

import napari_gsw as gsw
from napari_gsw.core.model.priors import PartitionPrior
from napari_gsw.widgets.panel.form import AT_ONCE, MAX_IN_BACKGROUND, ClusterEstimate


@pytest.fixture
def threads(monkeypatch):
    """The threads that sums are done in, as they are done."""
    seen = []
    exact = PartitionPrior.expected_clusters

    def watched(self, n):
        seen.append(threading.current_thread())
        return exact(self, n)

    monkeypatch.setattr(PartitionPrior, "expected_clusters", watched)
    return seen


def test_a_formula_is_answered_at_once(qtbot):
    settings = gsw.preset("general", alpha=3.0, prior="dirichlet-process")
    assert ClusterEstimate().clusters(settings, 1_000_000) == gsw.DirichletProcess(3.0).expected_clusters(1_000_000)


def test_a_long_sum_is_done_in_another_thread_and_remembered(qtbot, threads):
    settings, sites = gsw.preset("general", prior="dirichlet-process", alpha=3.0, min_size=2), AT_ONCE + 20
    forecast = ClusterEstimate()
    with qtbot.waitSignal(forecast.answered, timeout=600_000):
        assert forecast.clusters(settings, sites) is None
        assert forecast.clusters(settings, sites) is None  # one at a time
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()
    assert forecast.clusters(settings, sites) == gsw.DirichletProcess(3.0).truncated(2).expected_clusters(sites)


def test_the_first_answer_of_all_never_keeps_the_window_waiting(qtbot, threads):
    """What it is computed with is loaded then: .28 s after a click, of a few hundred sites."""
    forecast, settings = ClusterEstimate(), gsw.preset("general", min_size=2)
    with qtbot.waitSignal(forecast.answered, timeout=600_000):
        assert forecast.clusters(settings, 50) is None
    assert threads[0] is not threading.main_thread()
    assert forecast.clusters(settings, 60) is not None  # from then on a short sum is done at once


def test_of_too_many_sites_nothing_is_said_and_nothing_is_begun(qtbot, monkeypatch):
    monkeypatch.setattr(PartitionPrior, "expected_clusters", lambda self, n: 1 / 0)
    assert ClusterEstimate().clusters(gsw.preset("general", min_size=2), MAX_IN_BACKGROUND + 1) is None


def test_limits_that_leave_nothing_have_no_answer(qtbot):
    assert ClusterEstimate().clusters(gsw.preset("general", min_size=4, max_size=4), 7) is None
