"""The window does not wait for threads that compute in Python."""

from __future__ import annotations

import sys

import pytest

from napari_gsw.widgets.common.dock_panel import INTERVAL, ShortTurns


@pytest.fixture
def interval():
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.005)
    yield 0.005
    sys.setswitchinterval(before)


def test_turns_are_short_until_the_last_window_is_closed(interval):
    turns = ShortTurns()
    turns.begin()
    turns.begin()
    assert sys.getswitchinterval() == pytest.approx(INTERVAL)
    turns.end()
    assert sys.getswitchinterval() == pytest.approx(INTERVAL)
    turns.end()
    assert sys.getswitchinterval() == pytest.approx(interval)


def test_what_others_have_chosen_stays(interval):
    turns = ShortTurns()
    sys.setswitchinterval(2e-5)
    turns.begin()
    assert sys.getswitchinterval() == pytest.approx(2e-5)
    turns.end()
    assert sys.getswitchinterval() == pytest.approx(2e-5)
    sys.setswitchinterval(interval)
    turns.begin()
    sys.setswitchinterval(0.02)
    turns.end()
    assert sys.getswitchinterval() == pytest.approx(0.02)


@pytest.mark.gui
@pytest.mark.parametrize("name", ["GSW segmentation", "Table of regions"])
def test_a_dock_asks_for_them(viewer, interval, name):
    dock, _ = viewer.window.add_plugin_dock_widget("napari-gsw", name)
    assert sys.getswitchinterval() == pytest.approx(INTERVAL)
    dock.destroyOnClose()
    assert sys.getswitchinterval() == pytest.approx(interval)
