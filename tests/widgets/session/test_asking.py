"""Ask me: a question on the screen, answers by keys and by strokes, until a person stops."""

from __future__ import annotations

import numpy as np
import pytest

from gui_actions import click, drag, press_key, wait_done, wait_for, wait_sweeps
from napari_gsw.widgets.layers.layer_metadata import get_layer_kind
from napari_gsw.widgets.session.run_worker import RunWorker

pytest.importorskip("napari")
pytest.importorskip("pytestqt")
pytestmark = pytest.mark.gui


def picture():
    """Two painted halves, and two blocks that are like neither."""
    image = np.full((80, 120), 0.1)
    image[:, 60:] = 0.9
    image[10:30, 45:75] = 0.5
    image[50:70, 45:75] = 0.4
    return image + np.random.default_rng(0).normal(0, 0.02, image.shape)


def started(panel, qtbot, sweeps, image=None):
    """A run with two labels painted before."""
    image = picture() if image is None else image
    panel.viewer.add_image(image, name="m")
    strokes = np.zeros(image.shape, np.uint16)
    strokes[..., 38:42, 5:15], strokes[..., 38:42, 105:115] = 1, 2
    seeds = panel.viewer.add_labels(strokes, name="seeds")
    panel.chooser.image.choose(panel.viewer.layers["m"])
    panel.form.controls["site_size"].set_value(40)
    panel.form.controls["sweeps"].set_value(sweeps)
    panel.seeds.seeds.choose(seeds)
    click(qtbot, panel.run_button)
    return panel


@pytest.fixture
def done(panel, qtbot):
    """A panel after a run."""
    started(panel, qtbot, 60)
    wait_done(qtbot, panel)
    return panel


def asked(panel, qtbot, after=None):
    """Wait for a question other than the one before."""
    active_learning = panel.session.active_learning
    wait_for(qtbot, lambda: active_learning.question is not None and active_learning.question is not after)
    return active_learning.question


def question_layers(panel):
    return [layer for layer in panel.viewer.layers if get_layer_kind(layer) == "question"]


def pixels_of(panel, question):
    return np.argwhere(panel.session.array_run.sites == question.site + 1)


def test_a_question_is_shown_and_keys_answer_it(done, qtbot):
    from qtpy.QtCore import Qt

    session, row, interactive = done.session, done.query_row, done.session.array_run.interactive
    assert row.button.isEnabled()
    done.viewer.camera.zoom = 0.5
    click(qtbot, row.button)
    first = asked(done, qtbot)
    assert row.line.text().startswith(f"Which label is this? {first.numbers[0]} (")
    (layer,) = question_layers(done)
    assert (layer.data[tuple(pixels_of(done, first).T)] == 1).all()
    assert (layer.data == 2).any()
    assert done.viewer.camera.zoom > 1
    middle = pixels_of(done, first).mean(axis=0)
    assert np.allclose(done.viewer.camera.center[-2:], middle, atol=5)
    assert done.viewer.layers.selection.active is session.segmentation.layers.labels
    press_key(qtbot, done.viewer, "2")
    wait_for(qtbot, lambda: interactive.locks[first.site] and session.run is None)
    assert interactive.display_labels[first.site] == 2
    second = asked(done, qtbot, first)
    assert second.site != first.site
    press_key(qtbot, done.viewer, Qt.Key.Key_Return)
    wait_for(qtbot, lambda: interactive.locks[second.site])
    assert interactive.display_labels[second.site] == second.numbers[0]
    asked(done, qtbot, second)
    session.steps.undo()
    wait_for(qtbot, lambda: not interactive.locks[second.site])
    assert interactive.locks[first.site]  # one step an answer
    click(qtbot, row.button)
    assert not question_layers(done)
    assert row.line.text() == ""


@pytest.mark.slow
def test_skipping_asks_about_something_else(done, qtbot):
    click(qtbot, done.query_row.button)
    first = asked(done, qtbot)
    press_key(qtbot, done.viewer, "n")
    second = asked(done, qtbot, first)
    assert first.propagation[second.site] < 0.5
    press_key(qtbot, done.viewer, "8")  # a label that nobody has
    assert done.session.active_learning.question is second
    assert not done.session.array_run.interactive.log.corrections


@pytest.mark.slow
def test_the_row_takes_keys_as_long_as_it_has_the_focus(done, qtbot):
    click(qtbot, done.query_row.button)
    first = asked(done, qtbot)
    qtbot.keyClick(done.query_row, "y")
    interactive = done.session.array_run.interactive
    wait_for(qtbot, lambda: interactive.locks[first.site])
    assert interactive.display_labels[first.site] == first.numbers[0]


@pytest.mark.slow
def test_a_stroke_is_an_answer_too(done, qtbot):
    click(qtbot, done.query_row.button)
    first = asked(done, qtbot)
    layer = done.session.segmentation.layers.labels
    layer.mode, layer.brush_size, layer.selected_label = "paint", 3, 1
    pixels = pixels_of(done, first)
    near = pixels[np.argsort(((pixels - pixels.mean(axis=0)) ** 2).sum(axis=1))[:2]]
    qtbot.wait(100)
    drag(qtbot, done.viewer, layer, [tuple(p) for p in near])
    interactive = done.session.array_run.interactive
    wait_for(qtbot, lambda: interactive.locks[first.site])
    assert interactive.display_labels[first.site] == 1
    assert asked(done, qtbot, first).site != first.site


@pytest.mark.slow
def test_questions_come_while_it_runs_and_end_with_a_reset(panel, qtbot):
    panel.form.controls["burn_in"].set_value(0.0)
    started(panel, qtbot, 1_000_000)
    wait_sweeps(qtbot, panel, 5)
    click(qtbot, panel.query_row.button)
    first = asked(panel, qtbot)
    press_key(qtbot, panel.viewer, "1")
    interactive = panel.session.array_run.interactive
    wait_for(qtbot, lambda: interactive.locks[first.site])
    assert panel.session.state == "running"
    asked(panel, qtbot, first)
    panel.stop()
    wait_done(qtbot, panel)
    panel.reset()
    assert not panel.session.active_learning.active
    assert not question_layers(panel)
    assert not panel.query_row.button.isEnabled()


@pytest.mark.slow
def test_a_question_about_another_slice_goes_there(panel, qtbot):
    """Each slice is asked about where it is looked at; the keys are napari's again when it is over."""
    stack = np.stack([picture(), picture()])
    panel.viewer.add_image(stack, name="m", axis_labels=("t", "y", "x"))
    strokes = np.zeros(stack.shape, np.uint16)
    strokes[:, 38:42, 5:15], strokes[:, 38:42, 105:115] = 1, 2
    seeds = panel.viewer.add_labels(strokes, name="seeds")
    panel.chooser.image.choose(panel.viewer.layers["m"])
    panel.form.controls["site_size"].set_value(40)
    panel.form.controls["sweeps"].set_value(60)
    panel.seeds.seeds.choose(seeds)
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    panel.viewer.dims.set_current_step(0, 1)
    click(qtbot, panel.query_row.button)
    first = asked(panel, qtbot)
    (layer,) = question_layers(panel)
    assert layer.data[1].any()
    assert not layer.data[0].any()
    panel.viewer.dims.set_current_step(0, 0)
    press_key(qtbot, panel.viewer, "y")
    runs = panel.session.segmentation.array_runs
    wait_for(qtbot, lambda: runs[(1,)].interactive.locks[first.site])
    assert not runs[(0,)].interactive.log.corrections
    click(qtbot, panel.query_row.button)
    labels = panel.session.segmentation.layers.labels
    assert not labels.keymap


@pytest.mark.slow
def test_a_correction_that_comes_as_an_errand_ends_wakes_the_chain_too(done, qtbot, monkeypatch):
    """The last picture of an errand is when a person sees a question, and may answer it at once."""
    session, interactive = done.session, done.session.array_run.interactive
    publish = RunWorker._publish
    late = []

    def answered(run, position, last=False):
        publish(run, position, last)
        if last and run.commands_only and not late:
            late.append(position)
            session.corrections.name_sites((), [0], 2)

    monkeypatch.setattr(RunWorker, "_publish", answered)
    session.launch(RunWorker([((), session.array_run)], 0, commands_only=True))
    wait_for(qtbot, lambda: bool(late) and session.run is None)
    assert interactive.locks[0]
    assert interactive.sweep == interactive.target > 60


@pytest.mark.slow
def test_keys_answer_whichever_of_our_layers_is_selected(done, qtbot):
    """A layer that is selected is asked before the viewer, and has keys of its own for its tools."""
    click(qtbot, done.query_row.button)
    first = asked(done, qtbot)
    image = done.session.segmentation.plan.source.layer
    done.viewer.layers.selection.active = image
    press_key(qtbot, done.viewer, "2")
    interactive = done.session.array_run.interactive
    wait_for(qtbot, lambda: interactive.locks[first.site])
    assert image.mode == "pan_zoom"
    click(qtbot, done.query_row.button)
    assert not any(key in image.keymap for key in done.query_row._actions())
