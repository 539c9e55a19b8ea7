"""Time from the end of a stroke to changed labels on the screen: ``make timing``.

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
    from vispy.gloo import gl

    layer = panel.viewer.layers["m [GSW]"]
    session, rng = panel.session, np.random.default_rng(0)
    first, follow = [], []
    stroke = {}

    def painted(event):
        """The screen has been painted: is what the chain makes of the stroke on it, and has anything followed?"""
        if not stroke or session.layer_view.drawn[()].n_commands_done < stroke["order"]:
            return
        gl.glFinish()  # until then it is only asked for
        seconds = time.perf_counter() - stroke["began"]
        stroke.setdefault("answered", seconds)
        sites_of = np.isin(session.array_run.sites, np.flatnonzero(session.array_run.interactive.locks) + 1)
        if ((layer.data != stroke["before"]) & ~sites_of).any():
            stroke.setdefault("followed", seconds)

    panel.viewer.window._qt_viewer.canvas._scene_canvas.events.draw.connect(painted, position="last")
    for number in range(900, 900 + STROKES):
        wait_for(qtbot, lambda: session.run is None, 120)
        qtbot.wait(500)
        row, column = (int(rng.integers(side // 8, side - side // 8)) for _ in range(2))
        rows, columns = np.mgrid[row : row + 4, column : column + 40]
        stroke.update(before=layer.data.copy(), order=session.array_run.n_commands_sent + 1, began=time.perf_counter())
        layer.data_setitem((rows.ravel(), columns.ravel()), number)
        # A posterior that is sure of what is there does not follow.
        wait_for(qtbot, lambda: "answered" in stroke and session.run is None, 60)
        first.append(stroke["answered"])
        follow += [stroke["followed"]] if "followed" in stroke else []
        stroke.clear()
    n = panel.session.array_run.interactive.problem.n
    print(
        f"\n{n:,} sites: stroke to labels on screen {1000 * np.median(first):.0f} ms (longest {1000 * max(first):.0f} "
        f"ms), to sites that follow it {1000 * np.median(follow or [np.nan]):.0f} ms ({len(follow)} of {STROKES} did)"
    )
