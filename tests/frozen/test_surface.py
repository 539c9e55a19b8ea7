"""Nothing that a user sees is gone: see :mod:`frozen.surface` (``make surface-record``)."""

from __future__ import annotations

import json

import pytest

from frozen import surface


def as_read(found):
    return json.loads(json.dumps(found))


@pytest.fixture(scope="module")
def found():
    return as_read(surface.surface())


@pytest.mark.parametrize("part", [name for name in surface.read() if name != "widgets"])
def test_commands_names_and_files_are_the_recorded_ones(found, part):
    recorded, now = surface.read()[part], found[part]
    if isinstance(recorded, dict):
        assert now.keys() == recorded.keys()
        for name, value in recorded.items():
            assert now[name] == value, name
    assert now == recorded


@pytest.mark.gui
def test_every_dock_has_its_controls(viewer, own_autosaves):
    recorded, now = surface.read()["widgets"], as_read(surface.widgets(viewer))
    for dock, controls in recorded.items():
        assert now[dock] == controls, dock
