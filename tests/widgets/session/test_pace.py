"""Rate at which the window is drawn, by a clock of the test's own."""

from __future__ import annotations

import pytest

pytest.importorskip("napari")


@pytest.fixture
def clock(monkeypatch):
    from napari_gsw.widgets.session import session

    class Clock:
        now = 100.0

    monkeypatch.setattr(session.time, "perf_counter", lambda: Clock.now)
    return Clock


def rest_after(pace, clock, cost, sweep=0.0):
    """Seconds from the end of a picture that took `cost` to paint until the next one is due."""
    pace.drawn()
    assert pace.painted
    clock.now += cost + pace.usual
    began = clock.now
    while not pace.due(sweep):
        assert not pace.painted
        clock.now += 0.001
    return clock.now - began


def test_a_picture_that_takes_long_is_drawn_often_at_first_and_later_leaves_the_chain_alone(clock):
    from napari_gsw.widgets.session.session import EAGER_FOR, EAGER_REST, MIN_REST, RefreshRate

    pace = RefreshRate(0.05, 0.02, 0.4)
    pace.be_eager()
    assert rest_after(pace, clock, 0.1) == pytest.approx(0.1 * EAGER_REST, abs=0.002)
    clock.now += EAGER_FOR
    assert rest_after(pace, clock, 0.1) == pytest.approx(0.1 * MIN_REST, abs=0.002)
    pace.correct()
    assert not pace.turn_of_lines()
    assert rest_after(pace, clock, 0.1) == pytest.approx(0.1 * EAGER_REST, abs=0.002)


def test_a_picture_that_takes_no_time_is_drawn_often_for_ever(clock):
    from napari_gsw.widgets.session.session import EAGER_FOR, RefreshRate

    pace = RefreshRate(0.05, 0.02, 0.4)
    pace.be_eager()
    assert rest_after(pace, clock, 0.001) < 0.03
    clock.now += EAGER_FOR
    assert 0.03 < rest_after(pace, clock, 0.001) < 0.05


def test_a_slow_chain_comes_first_from_the_start(clock):
    from napari_gsw.widgets.session.session import MAX_REST, RefreshRate

    pace = RefreshRate(0.05, 0.02, 0.4)
    pace.be_eager()
    assert rest_after(pace, clock, 0.1, sweep=0.04) == pytest.approx(0.4, abs=0.002)
    assert rest_after(pace, clock, 0.1, sweep=60.0) == pytest.approx(0.1 * MAX_REST, abs=0.002)


def test_what_holds_the_window_up_once_is_not_taken_for_a_picture(clock):
    """A dialog of three seconds would else be followed by twenty without a picture."""
    from napari_gsw.widgets.session.session import EAGER_FOR, MIN_REST, RefreshRate

    pace = RefreshRate(0.05, 0.02, 0.4)
    clock.now += EAGER_FOR
    for took in (0.1, 3.0, 0.1):
        assert rest_after(pace, clock, took) == pytest.approx(0.1 * MIN_REST, abs=0.002)
    assert rest_after(pace, clock, 0.3) == pytest.approx(0.3 * MIN_REST, abs=0.002)  # costs differ
    rest_after(pace, clock, 3.0)
    assert rest_after(pace, clock, 3.0) == pytest.approx(3.0 * MIN_REST, abs=0.002)  # images are larger now
