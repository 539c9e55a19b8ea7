"""How long it takes from the end of a stroke to changed labels on the screen: ``make timing``.

Prints and asserts nothing of the clock: machines differ, and others may use them at the same time.
"""

from __future__ import annotations

import time

import numpy as np
import pytest

from gui_actions import click, wait_done, wait_for
from napari_gsw.sample_data import mosaic

pytest.importorskip("napari")
pytest.importorskip("pytestqt")
pytestmark = [pytest.mark.gui, pytest.mark.timing]
STROKES = 6


def tiled(side):
    tile = mosaic()[0]
    repeats = (-(-side // tile.shape[0]), -(-side // tile.shape[1]), 1)
    return np.ascontiguousarray(np.tile(tile, repeats)[:side, :side])


@pytest.mark.parametrize(("side", "sites"), [(480, 1_500), (1_000, 50_000)])
def test_from_a_stroke_to_changed_labels(panel, qtbot, side, sites):
    """Of a chain at rest, which wakes for it: until the sites of the stroke change, and until others follow."""
    panel.viewer.add_image(tiled(side), name="m")
    panel.form.controls["site_count"].set_value(sites)
    panel.form.controls["sweeps"].set_value(20)
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    layer = panel.viewer.layers["m [GSW]"]
    rng = np.random.default_rng(0)
    first, follow = [], []
    for stroke in range(STROKES):
        wait_for(qtbot, lambda: panel.session.run is None, 120)
        live = panel.session.array_run.live
        before, number = layer.data.copy(), 900 + stroke
        row, column = (int(rng.integers(side // 8, side - side // 8)) for _ in range(2))
        painted = np.zeros(layer.data.shape, bool)
        painted[row : row + 4, column : column + 40] = True
        layer.data_setitem(np.nonzero(painted), number)
        began = time.perf_counter()
        wait_for(qtbot, lambda live=live, number=number: (live.numbers[live.locks] == number).any(), 60)
        drawn = panel.session.canvas.drawn
        wait_for(qtbot, lambda drawn=drawn: drawn[()].obeyed == panel.session.array_run.submitted, 60)
        sites_of = np.isin(panel.session.array_run.sites, np.flatnonzero(live.locks) + 1)
        first.append(time.perf_counter() - began)
        changed = lambda before=before, sites_of=sites_of: ((layer.data != before) & ~sites_of).any()  # noqa: E731
        wait_for(qtbot, lambda changed=changed: changed() or panel.session.run is None, 60)
        if changed():  # a posterior that is sure of what is there does not follow
            follow.append(time.perf_counter() - began)
    n = panel.session.array_run.live.problem.n
    print(
        f"\n{n:,} sites: stroke to labels on screen {1000 * np.median(first):.0f} ms (longest {1000 * max(first):.0f} "
        f"ms), to sites that follow it {1000 * np.median(follow or [np.nan]):.0f} ms ({len(follow)} of {STROKES} did)"
    )
