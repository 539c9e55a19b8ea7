"""Two labels in one site, painted with the mouse while the chain runs and after it: the site is cut between them."""

from __future__ import annotations

import numpy as np
import pytest

from gui_actions import click, drag, press_key, wait_done, wait_for, wait_sweeps

pytest.importorskip("napari")
pytest.importorskip("pytestqt")
pytestmark = pytest.mark.gui


@pytest.fixture
def running(panel, qtbot):
    """A chain that goes on and on, on an image whose one border runs through the middle of large sites."""
    rng = np.random.default_rng(0)
    image = (np.where(np.arange(90) < 45, 60.0, 160.0) + rng.normal(0, 6, (60, 90))).clip(0, 255).astype(np.uint8)
    panel.viewer.add_image(image, name="m")
    for name, value in {"superpixels": "grid", "site_size": 900, "sweeps": 1_000_000}.items():
        panel.form.controls[name].set_value(value)
    click(qtbot, panel.run_button)
    wait_sweeps(qtbot, panel, 5)
    return panel


def paint(qtbot, panel, number, column):
    layer = panel.viewer.layers["m [GSW]"]
    panel.viewer.layers.selection.active = layer
    layer.mode, layer.brush_size, layer.selected_label = "paint", 2, number
    drag(qtbot, panel.viewer, layer, [(y, column) for y in range(36, 52, 2)])
    return layer


def settled(panel):
    array_run, drawn = panel.session.array_run, panel.session.layer_view.drawn.get(())
    done = drawn is not None and array_run.n_commands_done == array_run.n_commands_sent == drawn.n_commands_done
    return done and not panel.session.layer_view.is_busy


def test_a_second_label_in_a_site_cuts_it_and_undo_takes_the_stroke_back(running, qtbot):
    from qtpy.QtCore import Qt

    interactive = running.session.array_run.interactive
    sites = interactive.problem.site_image
    assert sites[44, 35] == sites[44, 55]
    click(qtbot, running.display.show_sites)
    layer = paint(qtbot, running, 41, 35)
    wait_for(qtbot, lambda: settled(running) and len(interactive.log.corrections) == 1)
    assert (layer.data[sites == sites[44, 35]] == 41).all()
    paint(qtbot, running, 42, 55)
    wait_for(qtbot, lambda: len(interactive.log.corrections) == 2 and settled(running))
    cut = interactive.problem.site_image
    assert interactive.problem.n == int(sites.max()) + 1
    before = running.session.frame.sweep
    wait_sweeps(qtbot, running, before + 20)
    inside = np.flatnonzero((sites == sites[44, 35]).any(axis=0))
    middle = inside[(inside < 43) | (inside > 47)]  # the noise may move the cut by a pixel
    assert np.array_equal(layer.data[44, middle], np.where(middle < 45, 41, 42))
    assert np.array_equal(running.viewer.layers["m [superpixels]"].data, cut)
    assert (running.viewer.layers["m [locked]"].data[44, middle] > 0).all()
    press_key(qtbot, running.viewer, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    wait_for(qtbot, lambda: len(interactive.log.corrections) == 3 and settled(running))
    assert (layer.data[44, inside] == 41).all()
    click(qtbot, running.stop_button)
    wait_done(qtbot, running)
    click(qtbot, running.run_button)  # and the chain goes on with its pieces
    wait_sweeps(qtbot, running, interactive.sweep + 5)
    assert running.session.array_run.interactive is interactive
    click(qtbot, running.stop_button)
    wait_done(qtbot, running)


@pytest.mark.slow
def test_other_settings_keep_the_cut_and_what_was_painted(running, qtbot):
    interactive = running.session.array_run.interactive
    paint(qtbot, running, 41, 35)
    wait_for(qtbot, lambda: settled(running) and len(interactive.log.corrections) == 1)
    click(qtbot, running.stop_button)
    wait_done(qtbot, running)
    layer = paint(qtbot, running, 42, 55)
    wait_for(qtbot, lambda: running.session.run is None and settled(running) and len(interactive.log.corrections) == 2)
    for name, value in {"beta": 0.5, "site_size": 1600, "sweeps": 20}.items():  # other sites, cut by the same strokes
        running.form.controls[name].set_value(value)
    click(qtbot, running.run_button)
    wait_done(qtbot, running)
    assert running.session.array_run.interactive is not interactive
    assert (layer.data[38:50, 35] == 41).all()
    assert (layer.data[38:50, 55] == 42).all()
