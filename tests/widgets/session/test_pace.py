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


def rest_after(pace, clock, cost):
    """Seconds from the end of a picture that took `cost` to paint until the next one is due."""
    from napari_gsw.widgets.session.session import TICK

    pace.drawn()
    assert pace.painted
    clock.now += cost + TICK / 1000
    began = clock.now
    while not pace.due():
        assert not pace.painted
        clock.now += 0.001
    return clock.now - began


def test_a_picture_that_takes_long_is_drawn_often_at_first_and_later_leaves_the_chain_alone(clock):
    from napari_gsw.widgets.session.session import EAGER_FOR, EAGER_REST, REST, RefreshRate

    pace = RefreshRate()
    pace.be_eager()
    assert rest_after(pace, clock, 0.1) == pytest.approx(0.1 * EAGER_REST, abs=0.002)
    clock.now += EAGER_FOR
    assert rest_after(pace, clock, 0.1) == pytest.approx(0.1 * REST, abs=0.002)
    pace.be_eager()
    assert rest_after(pace, clock, 0.1) == pytest.approx(0.1 * EAGER_REST, abs=0.002)


def test_a_picture_that_takes_no_time_is_drawn_often_for_ever(clock):
    from napari_gsw.widgets.session.session import EAGER_FOR, RefreshRate

    pace = RefreshRate()
    pace.be_eager()
    assert rest_after(pace, clock, 0.001) < 0.03
    clock.now += EAGER_FOR
    assert rest_after(pace, clock, 0.001) < 0.05


def test_what_holds_the_window_up_is_not_followed_by_a_long_rest(clock):
    """A dialog of three seconds would else be followed by half a minute without a picture."""
    from napari_gsw.widgets.session.session import EAGER_FOR, MAX_REST, RefreshRate

    pace = RefreshRate()
    clock.now += EAGER_FOR
    assert rest_after(pace, clock, 3.0) == pytest.approx(MAX_REST, abs=0.002)
