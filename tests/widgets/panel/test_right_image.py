"""The image that is meant, and what its axes mean."""

from __future__ import annotations

import numpy as np
import pytest

from gui_actions import click, wait_done, wait_sweeps
from napari_gsw.sample_data import mosaic

pytest.importorskip("napari")
pytestmark = pytest.mark.gui


def test_an_image_that_was_just_opened_is_chosen_unless_a_run_is_on(panel, qtbot):
    viewer, chosen = panel.viewer, panel.chooser.image.value
    first = viewer.add_image(mosaic()[0][:60, :80], name="first")
    qtbot.wait(20)
    second = viewer.add_image(mosaic()[0][:60, :80], name="second")
    assert chosen() is second
    qtbot.wait(20)
    channels = viewer.add_image(np.zeros((2, 30, 40)), channel_axis=0, name="opened together")
    assert chosen() is channels[0]
    viewer.add_labels(np.zeros((30, 40), int))
    assert chosen() is channels[0]
    panel.choose_image(first)
    panel.form.controls["sweeps"].set_value(1_000_000)
    click(qtbot, panel.run_button)
    wait_sweeps(qtbot, panel)
    viewer.add_image(mosaic()[0][:60, :80], name="third")
    assert chosen() is first
    assert panel.session.commands.sampling
    panel.stop()


@pytest.mark.parametrize(
    ("shape", "words", "axis", "depth"),
    [((3, 40, 50), "3 planes:", 0, 2), ((8, 40, 50), "8 planes:", None, 2), ((40, 50, 5), "5 planes:", 2, 2)],
)
def test_planes_without_a_name_get_one_question_with_a_good_guess(panel, qtbot, shape, words, axis, depth):
    layer = panel.viewer.add_image(np.random.default_rng(0).random(shape), rgb=False)
    row, source = panel.chooser.planes, panel.chooser.source
    assert row.isVisible()
    assert row.words.text() == words
    assert (source().channel_axis, source().depth) == (axis, depth)
    click(qtbot, row.buttons["depth"])
    assert (source().channel_axis, source().depth) == (None, 3)
    click(qtbot, row.buttons["time"])
    assert (source().channel_axis, source().depth) == (None, 2)
    click(qtbot, row.buttons["channels"])
    assert source().channel_axis == (0 if axis is None else axis)
    click(qtbot, row.buttons["depth"])
    panel.viewer.add_image(np.zeros((30, 40)), name="another")  # which is chosen
    panel.choose_image(layer)
    assert row.buttons["depth"].isChecked()  # as it was answered
    assert (source().channel_axis, source().depth) == (None, 3)
    layer.axis_labels = ("z", "y", "x")  # now it is known
    qtbot.waitUntil(lambda: not row.isVisible(), timeout=600_000)
    assert (source().channel_axis, source().depth) == (None, 3)


@pytest.mark.parametrize("more", [{"scale": (3, 1, 1)}, {"axis_labels": ("t", "y", "x")}])
def test_what_is_known_is_not_asked(panel, more):
    panel.viewer.add_image(np.zeros((3, 40, 50)), rgb=False, **more)
    assert not panel.chooser.planes.isVisible()
    assert panel.chooser.source().depth == (3 if "scale" in more else 2)


def test_pixels_that_are_no_numbers_are_outside_the_image_and_counted(panel, qtbot):
    image = mosaic()[0][:60, :80].astype(float)
    image[10:14, 20:25] = np.nan
    image[40, 7, 1] = np.inf
    panel.viewer.add_image(image, rgb=True, contrast_limits=(0, 255), name="holes")
    panel.form.controls["sweeps"].set_value(20)
    click(qtbot, panel.run_button)
    wait_done(qtbot, panel)
    assert panel.reason.text() == "21 pixels are NaN or infinite: they are outside the image."
    outside = ~np.isfinite(image).all(axis=-1)
    assert np.array_equal(panel.viewer.layers["holes [GSW]"].data == 0, outside)
    assert np.array_equal(panel.viewer.layers["holes [regions]"].data == 0, outside)


def test_strokes_on_another_image_are_let_go(panel, qtbot):
    panel.viewer.add_image(np.zeros((30, 40)), name="a")
    panel.seeds.seeds.choose(panel.viewer.add_labels(np.ones((30, 40), int), name="strokes"))
    qtbot.wait(50)  # of images that are opened together the first is meant
    panel.viewer.add_image(np.zeros((50, 40)), name="b")
    assert panel.seeds.seeds.value() is None
    assert panel.run_button.isEnabled()
